//! The grants behind the named profiles of monitor capabilities.
//!
//! A table of facts about Ceph's daemons and clients: the services that each reads and writes, and the
//! commands that it sends. Unknown profiles grant nothing.

use super::{
    constraint::Constraint,
    mon_grant::{Grant, Subject},
    permissions::Rwx,
};
use types::EntityName;

/// Services for which an entity can have capabilities.
const SERVICES: [&str; 4] = ["mds", "mgr", "mon", "osd"];

/// An address with a nonce, that is one client instance. Nonce zero stands for a whole host.
const ONE_CLIENT: &str = "[^/]+/[0-9]*[1-9][0-9]*";
const RBD_OSD_CAPS: &str =
    r#"([ ,]*profile(=|[ ]+)['"]?rbd[^ ,'"]*['"]?([ ]+pool(=|[ ]+)['"]?[^,'"]+['"]?)?)+"#;

/// `name` is the entity that holds the profile: some profiles cover only keys under the entity's own name.
pub(super) fn expand(profile: &str, name: &EntityName) -> Vec<Grant> {
    let mut grants = by_name(profile);
    if matches!(profile, "mon" | "osd" | "mds" | "mgr") {
        grants.extend(private_keys(name));
    }
    grants
}

fn by_name(profile: &str) -> Vec<Grant> {
    let read = |services: &[&str]| -> Vec<Grant> {
        services.iter().map(|service| on(service, Rwx::READ)).collect()
    };
    match profile {
        "read-only" => vec![Grant::new(Subject::Everything, Rwx::READ)],
        "read-write" => vec![Grant::new(Subject::Everything, Rwx::READ_WRITE)],
        "mon" => vec![on("mon", Rwx::ALL), on("log", Rwx::ALL)],
        "osd" => osd(),
        "mds" => mds(),
        "mgr" => mgr(),
        "bootstrap-osd" => {
            let commands = ["mon getmap", "osd new", "osd purge-new"].map(command);
            [read(&["mon", "osd"]), commands.into()].concat()
        }
        "bootstrap-mds" => bootstrap(
            "mds.",
            &[("mon", "allow profile mds"), ("osd", "allow rwx"), ("mds", "allow")],
        ),
        "bootstrap-mgr" => bootstrap("mgr.", &[("mon", "allow profile mgr")]),
        "bootstrap-rgw" => bootstrap("client.rgw.", &[("mon", "allow rw"), ("osd", "allow rwx")]),
        "bootstrap-rbd" => bootstrap_rbd("profile rbd"),
        "bootstrap-rbd-mirror" => bootstrap_rbd("profile rbd-mirror"),
        "fs-client" => read(&["mon", "mds", "osd", "pg"]),
        "simple-rados-client" => read(&["mon", "osd", "pg"]),
        "simple-rados-client-with-blocklist" => {
            [read(&["mon", "osd", "pg"]), vec![blocklist("osd blocklist", "blocklistop")]].concat()
        }
        "crash" => read(&["mon"]),
        "cephfs-mirror" => {
            let peers =
                key_command("config-key get", Constraint::Prefix("cephfs/mirror/peer/".into()));
            [read(&["mon", "mds", "osd", "pg"]), vec![peers]].concat()
        }
        "role-definer" => vec![on("mon", Rwx::READ), on("auth", Rwx::ALL)],
        _ if profile.starts_with("rbd") => rbd(profile),
        _ => Vec::new(),
    }
}

/// Daemons here post the reports of their crashes themselves.
const CRASH: &str = "crash post";

fn osd() -> Vec<Grant> {
    let capacity = Constraint::regex("osd_mclock_max_capacity_iops_(hdd|ssd)");
    let limits = "osd_max_backfills|osd_recovery_max_active.*|osd_mclock_scheduler_.*";
    vec![
        on("osd", Rwx::ALL),
        on("mon", Rwx::READ),
        on("pg", Rwx::READ_WRITE),
        on("log", Rwx::WRITE),
        command_with("config set", [("name", capacity)]),
        command_with("config rm", [("name", Constraint::regex(limits))]),
        command(CRASH),
    ]
}

fn mds() -> Vec<Grant> {
    vec![
        on("mds", Rwx::ALL),
        on("mon", Rwx::READ),
        on("osd", Rwx::READ),
        command("osd pool rmsnap"),
        command("osd blocklist"),
        command("osd blacklist"),
        on("log", Rwx::WRITE),
        command(CRASH),
    ]
}

fn mgr() -> Vec<Grant> {
    let mut grants = vec![on("mgr", Rwx::ALL), on("auth", Rwx::ALL)];
    let services = ["log", "mon", "mds", "fs", "osd", "config-key", "config"];
    grants.extend(services.map(|service| on(service, Rwx::READ_WRITE)));
    let commands = ["auth get-or-create", "auth caps", "auth rm", "smart", "heap", "dump_mempools"];
    grants.extend(commands.map(command));
    grants
}

fn rbd(profile: &str) -> Vec<Grant> {
    let mut grants = ["mon", "osd", "pg"].map(|service| on(service, Rwx::READ)).to_vec();
    // A client that takes over an exclusive lock blocklists the dead owner. Clients before 16 send the
    // older spelling.
    grants.push(blocklist("osd blocklist", "blocklistop"));
    grants.push(blocklist("osd blacklist", "blacklistop"));
    match profile {
        "rbd-mirror" => {
            grants.push(key_command("config-key get", Constraint::Prefix("rbd/mirror/".into())));
        }
        "rbd-mirror-peer" => {
            let any = Constraint::regex("rbd/mirror/[^/]+");
            let peers = Constraint::Prefix("rbd/mirror/peer/".into());
            grants.push(key_command("config-key get", any));
            grants.push(key_command("config-key set", peers));
        }
        _ => {}
    }
    grants
}

/// Allows to create keys for entities of one type, with exactly these capabilities.
fn bootstrap(entity_prefix: &str, caps: &[(&str, &str)]) -> Vec<Grant> {
    let entity = ("entity".to_owned(), Constraint::Prefix(entity_prefix.to_owned()));
    let given = |service: &str| caps.iter().find(|(known, _)| *known == service);
    let exactly = SERVICES.map(|service| {
        let constraint = match given(service) {
            Some((_, text)) => Constraint::Equal((*text).to_owned()),
            None => Constraint::Absent,
        };
        (format!("caps_{service}"), constraint)
    });
    let constraints = std::iter::once(entity).chain(exactly).collect();
    let subject = Subject::Command { prefix: "auth get-or-create".to_owned(), constraints };
    vec![
        on("mon", Rwx::READ),
        on("osd", Rwx::READ),
        command("mon getmap"),
        Grant::new(subject, Rwx::ALL),
    ]
}

fn bootstrap_rbd(mon_caps: &str) -> Vec<Grant> {
    let make = command_with(
        "auth get-or-create",
        [
            ("entity", Constraint::Prefix("client.".to_owned())),
            ("caps_mon", Constraint::Equal(mon_caps.to_owned())),
            ("caps_osd", Constraint::regex(RBD_OSD_CAPS)),
            ("caps_mgr", Constraint::optional(RBD_OSD_CAPS)),
            ("caps_mds", Constraint::Absent),
        ],
    );
    vec![on("mon", Rwx::READ), make]
}

/// Access to the keys of the key-value store that belong to one daemon.
fn private_keys(name: &EntityName) -> Vec<Grant> {
    let prefix = format!("daemon-private/{name}/");
    ["get", "put", "set", "exists", "delete"]
        .map(|verb| key_command(&format!("config-key {verb}"), Constraint::Prefix(prefix.clone())))
        .into()
}

fn blocklist(prefix: &str, operation: &str) -> Grant {
    let add = Constraint::Equal("add".to_owned());
    let addr = Constraint::regex(ONE_CLIENT);
    command_with(prefix, [(operation, add), ("addr", addr), ("range", Constraint::Absent)])
}

fn key_command(prefix: &str, key: Constraint) -> Grant {
    command_with(prefix, [("key", key)])
}

fn on(service: &str, permissions: Rwx) -> Grant {
    Grant::new(Subject::Service(service.to_owned()), permissions)
}

fn command(prefix: &str) -> Grant {
    command_with(prefix, [])
}

fn command_with<const N: usize>(prefix: &str, constraints: [(&str, Constraint); N]) -> Grant {
    let constraints =
        constraints.into_iter().map(|(name, constraint)| (name.to_owned(), constraint)).collect();
    Grant::new(Subject::Command { prefix: prefix.to_owned(), constraints }, Rwx::ALL)
}
