//! `fs add_data_pool`, `fs rm_data_pool` and `fs authorize`: pools of a file system, and who may use them.

use super::file_system::{APPLICATION, edit, enable, named, pool_given, pool_name};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::file_systems::user_of;
use crate::keys;
use auth::{CryptoKey, EntityAuth, KeyType};
use maps::PoolFlags;
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Errno};

/// Bound of the data pools of a file system.
const DATA_POOLS_MAX: usize = 64;

pub const COMMANDS: &[Command] = &[
    command(
        "fs add_data_pool name=fs_name,type=CephString name=pool,type=CephString",
        "add data pool <pool>",
        "mds",
        "rw",
        add,
    ),
    command(
        "fs rm_data_pool name=fs_name,type=CephString name=pool,type=CephString",
        "remove data pool <pool>",
        "mds",
        "rw",
        remove,
    ),
    command(
        "fs authorize name=filesystem,type=CephString name=entity,type=CephString \
         name=caps,type=CephString,n=N",
        "add auth for <entity> to access file system <filesystem> based on following directory and \
         permissions pairs",
        "auth",
        "rwx",
        authorize,
    ),
];

fn add(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let fs = named(context, "fs_name")?;
    let id = pool_given(context, "pool")?;
    let name = pool_name(context, id);
    let (fscid, fs_name) = (fs.fscid, fs.map.fs_name.clone());
    if fs.map.data_pools.contains(&id) {
        // Also what a client is told that repeats a command whose answer was lost.
        return Ok(Answer::said(format!("data pool {} is already on fs {fs_name}", id.0)));
    }
    if let Some(user) = user_of(context.state, id) {
        let role = if user.metadata_pool == id { "metadata" } else { "data" };
        let text = format!(
            "RADOS pool '{name}' is already used by filesystem '{}' as a '{role}' pool for application \
             '{APPLICATION}'",
            user.fs_name
        );
        return Err(Refusal::invalid(text));
    }
    if fs.map.data_pools.len() >= DATA_POOLS_MAX {
        let text = format!("a file system has at most {DATA_POOLS_MAX} data pools");
        return Err(Refusal::invalid(text));
    }
    let pool = context.state.osdmap.pool(id);
    let is_unfit =
        |pool: &maps::Pool| pool.is_erasure() && !pool.flags.contains(PoolFlags::EC_OVERWRITES);
    if pool.is_some_and(is_unfit) {
        let text = format!(
            "pool '{name}' (id '{id}') is an erasure-coded pool, with no overwrite support: run 'ceph osd pool \
             set {name} allow_ec_overwrites true'"
        );
        return Err(Refusal::invalid(text));
    }
    edit(context, fscid)?.data_pools.push(id);
    enable(context, id, "data", &fs_name);
    Ok(Answer::said(format!("added data pool {} to fsmap", id.0)))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let fs = named(context, "fs_name")?;
    let id = pool_given(context, "pool")?;
    let fscid = fs.fscid;
    if fs.map.data_pools.first() == Some(&id) {
        let text = "cannot remove default data pool; clients write new files to it";
        return Err(Refusal::invalid(text));
    }
    if !fs.map.data_pools.contains(&id) {
        return Ok(Answer::default());
    }
    edit(context, fscid)?.data_pools.retain(|pool| *pool != id);
    Ok(Answer::said(format!("removed data pool {} from fsmap", id.0)))
}

/// One part of the tree with the permissions that are given there.
struct Part {
    path: String,
    flags: String,
    squash: bool,
}

/// Capabilities of a client for parts of a file system: `/a rw /b r root_squash`.
fn authorize(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let fs = context.arguments.text("filesystem").to_owned();
    let entity = context.arguments.text("entity").to_owned();
    let name: Option<EntityName> = entity.parse().ok();
    let name = name.filter(|name| !name.id.is_empty() && name.kind == EntityType::CLIENT);
    let Some(name) = name else {
        return Err(Refusal::invalid(format!(
            "entity name '{entity}' is no client, expected client.NAME"
        )));
    };
    if fs != "*" && context.state.fs.map.named(&fs).is_none() {
        return Err(Refusal::invalid(format!("filesystem {fs} does not exist.")));
    }
    let caps = caps_of(&fs, &parts(context.arguments.list("caps"))?);
    for (service, text) in &caps {
        auth::caps::validate(service, text).map_err(|error| Refusal::invalid(error.to_string()))?;
    }
    let known = context.state.entities.get(&name);
    if known.is_some_and(|known| known.caps != caps) {
        let text = format!(
            "{name} already has fs capabilities that differ from those supplied. To generate a new auth key for \
             {name}, first remove {name} from configuration files, execute 'ceph auth rm {name}', then execute this \
             command again."
        );
        return Err(Refusal::invalid(text));
    }
    let stored = match known {
        Some(known) => known.clone(),
        None => {
            let key = CryptoKey::generate(KeyType::Aes, context.now.wall(), context.entropy);
            let stored = EntityAuth { key, caps, pending_key: None };
            context.change.put(keys::auth(&name), codec::encode_to_bytes(&stored));
            stored
        }
    };
    let json = || {
        serde_json::json!([{
            "entity": name.to_string(),
            "key": stored.key.to_string(),
            "caps": stored.caps,
        }])
    };
    // Without capabilities, so that the text can be appended to a client's keyring.
    Ok(context.show(json, || format!("[{name}]\n\tkey = {}\n", stored.key)))
}

fn parts(words: &[String]) -> Result<Vec<Part>, Refusal> {
    let mut parts: Vec<Part> = Vec::new();
    let mut words = words.iter();
    while let Some(path) = words.next() {
        if path == "root_squash" {
            let text = "root_squash stands behind a path and its permissions";
            parts.last_mut().ok_or_else(|| Refusal::invalid(text))?.squash = true;
            continue;
        }
        let Some(flags) = words.next() else {
            return Err(Refusal::invalid("expected pairs of a path and permissions, such as / rw"));
        };
        parts.push(Part { path: path.clone(), flags: checked_flags(flags)?, squash: false });
    }
    if parts.is_empty() {
        return Err(Refusal::invalid("expected at least one path with permissions, such as / rw"));
    }
    Ok(parts)
}

/// The permissions in their order, `r` first: `rw`, and `p`, `s`, `f` only with them.
fn checked_flags(flags: &str) -> Result<String, Refusal> {
    if matches!(flags, "*" | "all") {
        return Ok("*".to_owned());
    }
    if let Some(unknown) = flags.chars().find(|flag| !"rwpsf".contains(*flag)) {
        return Err(Refusal::invalid(format!("Unknown permission flag '{unknown}'.")));
    }
    if !flags.starts_with('r') {
        return Err(Refusal::new(Errno::INVAL, "Permission flags must start with 'r'."));
    }
    Ok(flags.to_owned())
}

fn caps_of(fs: &str, parts: &[Part]) -> BTreeMap<String, String> {
    let of_fs = if fs == "*" { String::new() } else { format!(" fsname={fs}") };
    let mds = parts.iter().map(|part| {
        let path = match part.path.trim_start_matches('/') {
            "" => String::new(),
            _ => format!(" path={}", part.path),
        };
        let squash = if part.squash { " root_squash" } else { "" };
        format!("allow {}{of_fs}{path}{squash}", part.flags)
    });
    let may_write = parts.iter().any(|part| part.flags == "*" || part.flags.contains('w'));
    let access = if may_write { "rw" } else { "r" };
    let caps = [
        ("mds", mds.collect::<Vec<_>>().join(", ")),
        ("mon", format!("allow r{of_fs}")),
        ("osd", format!("allow {access} tag {APPLICATION} data={fs}")),
    ];
    caps.map(|(service, text)| (service.to_owned(), text)).into()
}
