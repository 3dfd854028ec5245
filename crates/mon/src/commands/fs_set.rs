//! `fs set`, `fs flag set`, `fs compat` and `fs required_client_features`: settings of file systems.

use super::file_system::{edit, named};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::fsmap;
use crate::file_systems::roles::REFUSE_STANDBY_FOR_ANOTHER_FS;
use crate::file_systems::{BALANCE_AUTOMATE, CLIENT_FEATURES, RANKS_MAX, RESERVED};
use crate::services::assign_ranks;
use maps::{FsId, MdsMap};
use serde_json::{Value, json};
use types::{Errno, ServedVersions};

/// `MDS_MIN…`: least values of settings.
const FILE_SIZE_MIN: u64 = 65_536;
const SESSION_SECONDS_MIN: u64 = 30;
const XATTR_SIZE_MAX: u64 = 16 << 20;
/// Bound of texts that the map carries to all subscribers.
const TEXT_BYTES_MAX: usize = 256;

pub const COMMANDS: &[Command] = &[
    command(
        "fs set name=fs_name,type=CephString \
         name=var,type=CephChoices,strings=max_mds|allow_dirfrags|allow_new_snaps|allow_standby_replay|bal_rank_mask|balance_automate|balancer|cluster_down|down|inline_data|joinable|max_file_size|max_xattr_size|min_compat_client|refuse_client_session|refuse_standby_for_another_fs|session_autoclose|session_timeout|standby_count_wanted \
         name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false \
         name=yes_i_really_really_mean_it,type=CephBool,req=false",
        "set fs parameter <var> to <val>",
        "mds",
        "rw",
        set,
    ),
    command(
        "fs flag set name=flag_name,type=CephChoices,strings=enable_multiple name=val,type=CephString \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "Set a global CephFS flag",
        "fs",
        "rw",
        set_flag,
    ),
    command(
        "fs feature ls",
        "list available cephfs features to be set/unset",
        "mds",
        "r",
        features,
    ),
    command(
        "fs required_client_features name=fs_name,type=CephString \
         name=subop,type=CephChoices,strings=add|rm name=val,type=CephString",
        "add/remove required features of clients",
        "mds",
        "rw",
        require,
    ),
    command(
        "fs compat show name=fs_name,type=CephString",
        "show fs compatibility settings",
        "mds",
        "r",
        show_compat,
    ),
    command(
        "fs compat name=fs_name,type=CephString \
         name=subop,type=CephChoices,strings=rm_compat|rm_incompat|add_compat|add_incompat \
         name=feature,type=CephInt,range=1|63 name=feature_str,type=CephString,req=false",
        "manipulate compat settings",
        "fs",
        "rw",
        set_compat,
    ),
];

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = named(context, "fs_name")?.fscid;
    let (name, value) =
        (context.arguments.text("var").to_owned(), context.arguments.text("val").to_owned());
    let said = match name.as_str() {
        "max_mds" => max_mds(context, id, &value)?,
        "down" => down(context, id, &value)?,
        "inline_data" => inline_data(&value)?,
        "balancer" | "bal_rank_mask" => text(context, id, &name, &value)?,
        "min_compat_client" => {
            let text =
                "min_compat_client is deprecated: use 'ceph fs required_client_features' instead";
            return Err(Refusal::invalid(text));
        }
        "allow_dirfrags" => "Directory fragmentation is now permanently enabled. This command is \
                             DEPRECATED and will be REMOVED from future releases."
            .to_owned(),
        "max_file_size"
        | "max_xattr_size"
        | "session_timeout"
        | "session_autoclose"
        | "standby_count_wanted" => number(context, id, &name, &value)?,
        _ => flag(context, id, &name, &value)?,
    };
    assign_ranks(context.state, &mut context.change);
    Ok(Answer::said(said))
}

fn integer(value: &str) -> Result<i64, Refusal> {
    let wrong = |_| Refusal::invalid(format!("Expected option value to be integer, got '{value}'"));
    value.parse().map_err(wrong)
}

fn switch(value: &str) -> Result<bool, Refusal> {
    match value {
        "true" | "yes" | "y" | "1" => Ok(true),
        "false" | "no" | "n" | "0" => Ok(false),
        _ => {
            Err(Refusal::invalid(format!("value must be false|no|0 or true|yes|1, not '{value}'")))
        }
    }
}

fn max_mds(context: &mut Context<'_>, id: FsId, value: &str) -> Result<String, Refusal> {
    let wanted = integer(value)?;
    if wanted <= 0 {
        return Err(Refusal::invalid("You must specify at least one MDS"));
    }
    if wanted > RANKS_MAX {
        return Err(Refusal::invalid(format!("may not have more than {RANKS_MAX} MDS ranks")));
    }
    if wanted > 1
        && let Some(name) = server_of_one_rank(context)
    {
        let text = format!(
            "mds.{name} is Sepiola's and supports a single active rank: max_mds stays 1. To use several ranks with \
             Ceph's own MDS daemons, stop Sepiola's first"
        );
        return Err(Refusal::new(Errno::NOTSUPP, text));
    }
    edit(context, id)?.max_mds = wanted as i32;
    Ok(String::new())
}

/// A server that reads and writes the tree of rank 0 whatever its rank is: Sepiola's, which tell the cluster
/// versions that they serve.
fn server_of_one_rank<'a>(context: &Context<'a>) -> Option<&'a str> {
    let fs = &context.state.fs;
    let mut servers = fs.map.servers();
    let found = servers.find(|info| fs.fact(info.gid, ServedVersions::FACT).is_some());
    found.map(|info| info.name.as_str())
}

/// A file system that is down has no ranks; `old_max_mds` remembers their number.
fn down(context: &mut Context<'_>, id: FsId, value: &str) -> Result<String, Refusal> {
    let is_down = switch(value)?;
    let map = edit(context, id)?;
    let name = map.fs_name.clone();
    if is_down {
        if map.max_mds > 0 {
            (map.old_max_mds, map.max_mds) = (map.max_mds, 0);
        }
        return Ok(format!("{name} marked down. "));
    }
    map.flags &= !MdsMap::NOT_JOINABLE;
    if map.max_mds == 0 {
        map.max_mds = map.old_max_mds.max(1);
    }
    map.old_max_mds = 0;
    Ok(format!("{name} marked up, max_mds = {}", map.max_mds))
}

fn inline_data(value: &str) -> Result<String, Refusal> {
    if switch(value)? {
        let text =
            "inline data is not supported: it is deprecated, and no current client writes it";
        return Err(Refusal::new(Errno::PERM, text));
    }
    Ok("inline data disabled".to_owned())
}

fn text(context: &mut Context<'_>, id: FsId, name: &str, value: &str) -> Result<String, Refusal> {
    if value.len() > TEXT_BYTES_MAX {
        return Err(Refusal::invalid(format!("{name} has at most {TEXT_BYTES_MAX} characters")));
    }
    let map = edit(context, id)?;
    if name == "balancer" {
        map.balancer = value.to_owned();
        return Ok(match value.is_empty() {
            true => "unsetting the metadata load balancer".to_owned(),
            false => format!("setting the metadata load balancer to {value}"),
        });
    }
    let digits = value.strip_prefix("0x").unwrap_or(value);
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !matches!(value, "all" | "-1") && !is_hex {
        let text = format!(
            "bal_rank_mask is a hexadecimal mask of ranks such as 0x3, or -1 for all, not '{value}'"
        );
        return Err(Refusal::invalid(text));
    }
    map.bal_rank_mask =
        if matches!(value, "all" | "-1") { String::new() } else { value.to_owned() };
    Ok(format!("setting the metadata balancer rank mask to {value}"))
}

fn number(context: &mut Context<'_>, id: FsId, name: &str, value: &str) -> Result<String, Refusal> {
    let range = |text: String| Refusal::new(Errno::RANGE, text);
    let given = integer(value)?;
    let Ok(value) = u64::try_from(given) else {
        return Err(range(format!("{name} must be non-negative")));
    };
    let map = edit(context, id)?;
    match name {
        "max_file_size" if value < FILE_SIZE_MIN => {
            return Err(range(format!("max_file_size must at least {FILE_SIZE_MIN}")));
        }
        "max_file_size" => map.max_file_size = value,
        "max_xattr_size" if value > XATTR_SIZE_MAX => {
            return Err(range(format!("max_xattr_size must be at most {XATTR_SIZE_MAX}")));
        }
        "max_xattr_size" => map.max_xattr_size = value,
        "standby_count_wanted" => {
            map.standby_count_wanted = i32::try_from(value)
                .map_err(|_| range(format!("{name} must be at most {}", i32::MAX)))?;
        }
        _ => {
            if value < SESSION_SECONDS_MIN {
                return Err(range(format!("{name} must be at least {SESSION_SECONDS_MIN}s")));
            }
            let seconds = u32::try_from(value);
            let seconds =
                seconds.map_err(|_| range(format!("{name} must be at most {}", u32::MAX)))?;
            let field = match name {
                "session_timeout" => &mut map.session_timeout,
                _ => &mut map.session_autoclose,
            };
            *field = seconds;
        }
    }
    Ok(String::new())
}

fn flag(context: &mut Context<'_>, id: FsId, name: &str, value: &str) -> Result<String, Refusal> {
    let given = switch(value)?;
    let map = edit(context, id)?;
    let fs = map.fs_name.clone();
    // The flag in the map, whether it is set, and what is said of it.
    let (flag, is_set, said) = match name {
        "joinable" | "cluster_down" => {
            let is_joinable = given == (name == "joinable");
            let said = match is_joinable {
                true => format!("{fs} marked joinable; MDS may join as newly active."),
                false => format!("{fs} marked not joinable; MDS cannot join as newly active."),
            };
            let warning = match name {
                "joinable" => "",
                _ => {
                    " WARNING: cluster_down flag is deprecated and will be removed in a future version. \
                      Please use \"joinable\"."
                }
            };
            (MdsMap::NOT_JOINABLE, !is_joinable, said + warning)
        }
        "allow_new_snaps" => {
            let said = if given { "enabled new snapshots" } else { "disabled new snapshots" };
            (MdsMap::ALLOW_SNAPS | MdsMap::ALLOW_MULTIMDS_SNAPS, given, said.to_owned())
        }
        "refuse_client_session" => {
            let what = if given { "blocked from establishing" } else { "allowed to establish" };
            (MdsMap::REFUSE_CLIENT_SESSION, given, format!("client(s) {what} new session(s)"))
        }
        "allow_standby_replay" => (MdsMap::ALLOW_STANDBY_REPLAY, given, String::new()),
        "balance_automate" => (BALANCE_AUTOMATE, given, String::new()),
        _ => (REFUSE_STANDBY_FOR_ANOTHER_FS, given, String::new()),
    };
    match is_set {
        true => map.flags |= flag,
        false => map.flags &= !flag,
    }
    Ok(said)
}

fn set_flag(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let value = context.arguments.text("val").to_owned();
    let enable = switch(&value)?;
    let map = context.change.fsmap(context.state);
    map.enable_multiple = enable;
    map.ever_enabled_multiple |= enable;
    Ok(Answer::default())
}

fn features(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let json = || {
        let one = |(bit, name): &(usize, &str)| json!({ "index": bit, "name": name });
        Value::from(CLIENT_FEATURES.iter().map(one).collect::<Vec<_>>())
    };
    let plain = || CLIENT_FEATURES.iter().map(|(bit, name)| format!("{bit} {name}\n")).collect();
    Ok(context.show(json, plain))
}

fn require(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = named(context, "fs_name")?.fscid;
    let name = context.arguments.text("val").to_owned();
    let add = context.arguments.text("subop") == "add";
    let known = CLIENT_FEATURES
        .iter()
        .find(|(bit, known)| *known != RESERVED && (*known == name || bit.to_string() == name));
    let Some((bit, name)) = known else {
        return Err(Refusal::invalid(format!("Invalid feature name: {name}")));
    };
    let map = edit(context, id)?;
    let said = match (add, fsmap::requires(map, *bit)) {
        (true, true) => format!("feature '{name}' is already set"),
        (false, false) => format!("feature '{name}' is already unset"),
        (true, false) => format!("added feature '{name}' to required_client_features"),
        (false, true) => format!("removed feature '{name}' from required_client_features"),
    };
    // Readers expect whole words.
    map.required_client_features.resize(8, 0);
    let byte = &mut map.required_client_features[bit / 8];
    match add {
        true => *byte |= 1 << (bit % 8),
        false => *byte &= !(1 << (bit % 8)),
    }
    if map.required_client_features.iter().all(|byte| *byte == 0) {
        map.required_client_features.clear();
    }
    Ok(Answer::said(said))
}

fn show_compat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let compat = &named(context, "fs_name")?.map.compat;
    Ok(context.show(|| fsmap::compat(compat), || fsmap::compat_plain(compat) + "\n"))
}

fn set_compat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let fs = named(context, "fs_name")?;
    let id = fs.fscid;
    if !fs.map.up.is_empty() {
        let text = "metadata servers are active and would not know of the change: run 'ceph fs fail' first";
        return Err(Refusal::new(Errno::PERM, text));
    }
    let operation = context.arguments.text("subop").to_owned();
    let bit = context.arguments.int("feature").unwrap_or(0) as u64;
    let name = context.arguments.optional("feature_str").map(str::to_owned);
    let compat = &mut edit(context, id)?.compat;
    let (set, kind) = match operation.ends_with("incompat") {
        true => (&mut compat.incompat, "incompat"),
        false => (&mut compat.compat, "compat"),
    };
    if operation.starts_with("rm_") {
        set.mask &= !(1 << bit);
        let said = match set.names.remove(&bit).is_some() {
            true => format!("removed {kind} feature {bit}"),
            false => format!("{kind} feature {bit} is not present"),
        };
        return Ok(Answer::said(said));
    }
    let Some(name) = name.filter(|name| name.len() <= TEXT_BYTES_MAX) else {
        return Err(Refusal::invalid("adding a feature requires a feature string"));
    };
    if set.names.contains_key(&bit) {
        return Ok(Answer::said(format!("feature {bit} already exists")));
    }
    set.insert(bit, name.clone());
    Ok(Answer::said(format!("added {kind} feature F({bit}, \"{name}\")")))
}
