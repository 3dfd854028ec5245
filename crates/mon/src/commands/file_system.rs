//! `fs` and `mds`: file systems, which are not supported yet.

use crate::command::{Answer, Command, Context, Refusal, command};
use serde_json::{Value, json};
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command("fs ls", "list filesystems", "fs", "r", |context| {
        Ok(context.show(|| json!([]), || "No filesystems enabled\n".to_owned()))
    }),
    command(
        "fs dump name=epoch,type=CephInt,req=false,range=0",
        "dump all CephFS status, optionally from epoch",
        "mds",
        "r",
        dump,
    ),
    command(
        "fs get name=fs_name,type=CephString",
        "get info about one filesystem",
        "fs",
        "r",
        missing,
    ),
    command(
        "fs status name=fs,type=CephString,req=false",
        "Show the status of a CephFS filesystem",
        "mgr",
        "r",
        |context| {
            let json = || json!({ "clients": [], "mds_version": [], "mdsmap": [], "pools": [] });
            Ok(context.show(json, String::new))
        },
    ),
    command(
        "fs new name=fs_name,type=CephString,goodchars=[A-Za-z0-9-_.] name=metadata,type=CephString \
         name=data,type=CephString",
        "make new filesystem using named pools <metadata> and <data>",
        "fs",
        "rw",
        |_| Err(Refusal::new(Errno::NOTSUPP, "file systems are not supported yet")),
    ),
    command("fs volume ls", "List volumes", "mgr", "r", |context| {
        Ok(context.show(|| json!([]), || "[]\n".to_owned()))
    }),
    command("mds stat", "show MDS status", "mds", "r", stat),
    command(
        "mds metadata name=who,type=CephString,req=false",
        "fetch metadata for mds <role>",
        "mds",
        "r",
        |context| Ok(context.json(&json!([]))),
    ),
    command("mds versions", "check running versions of MDSs", "mds", "r", |context| {
        Ok(context.json(&json!({})))
    }),
];

/// The empty file system map, as in `status` and `report`.
pub(super) fn fsmap() -> Value {
    json!({
        "epoch": 1,
        "default_fscid": -1,
        "compat": { "compat": {}, "ro_compat": {}, "incompat": {} },
        "feature_flags": { "enable_multiple": true, "ever_enabled_multiple": true },
        "standbys": [],
        "filesystems": [],
    })
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let plain = || {
        "e1\nenable_multiple, ever_enabled_multiple: 1,1\nlegacy client fscid: -1\n \nNo filesystems \
         configured\n"
            .to_owned()
    };
    Ok(context.show(fsmap, plain).saying("dumped fsmap epoch 1"))
}

fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let json =
        || json!({ "fsmap": fsmap(), "mdsmap_first_committed": 1, "mdsmap_last_committed": 1 });
    Ok(context.show(json, String::new))
}

fn missing(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("fs_name");
    Err(Refusal::missing(format!("filesystem '{name}' not found")))
}
