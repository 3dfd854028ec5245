//! Commands of newer releases of Ceph on subvolumes: earmarks, which a worker sets, and refusals of charmaps
//! and of quiescing.

use super::subvolumes::order;
use crate::command::{Answer, Command, Context, Refusal, command};
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command(
        "fs subvolume earmark get name=vol_name,type=CephString name=sub_name,type=CephString \
         name=group_name,type=CephString,req=false",
        "Get earmark for a subvolume",
        "mgr",
        "r",
        order,
    ),
    command(
        "fs subvolume earmark set name=vol_name,type=CephString name=sub_name,type=CephString \
         name=group_name,type=CephString,req=false name=earmark,type=CephString",
        "Set earmark for a subvolume",
        "mgr",
        "rw",
        order,
    ),
    command(
        "fs subvolume earmark rm name=vol_name,type=CephString name=sub_name,type=CephString \
         name=group_name,type=CephString,req=false",
        "Remove earmark from a subvolume",
        "mgr",
        "rw",
        order,
    ),
    command(
        "fs subvolume charmap get name=vol_name,type=CephString name=sub_name,type=CephString \
         name=setting,type=CephString,req=false name=group_name,type=CephString,req=false",
        "Not served: names are compared byte by byte",
        "mgr",
        "r",
        no_charmap,
    ),
    command(
        "fs subvolume charmap set name=vol_name,type=CephString name=sub_name,type=CephString \
         name=setting,type=CephString name=value,type=CephString \
         name=group_name,type=CephString,req=false",
        "Not served: names are compared byte by byte",
        "mgr",
        "rw",
        no_charmap,
    ),
    command(
        "fs subvolume charmap rm name=vol_name,type=CephString name=sub_name,type=CephString \
         name=group_name,type=CephString,req=false",
        "Not served: names are compared byte by byte",
        "mgr",
        "rw",
        no_charmap,
    ),
    command(
        "fs quiesce name=fs_name,type=CephString name=members,type=CephString,n=N,req=false \
         name=set_id,type=CephString,req=false name=timeout,type=CephFloat,req=false \
         name=expiration,type=CephFloat,req=false name=await_for,type=CephFloat,req=false \
         name=await,type=CephBool,req=false name=if_version,type=CephInt,req=false \
         name=include,type=CephBool,req=false name=exclude,type=CephBool,req=false \
         name=reset,type=CephBool,req=false name=release,type=CephBool,req=false \
         name=query,type=CephBool,req=false name=all,type=CephBool,req=false \
         name=cancel,type=CephBool,req=false name=group_name,type=CephString,req=false \
         name=leader,type=CephBool,req=false",
        "Not served: clients cannot be held for a set of snapshots",
        "mgr",
        "rw",
        no_quiesce,
    ),
];

fn no_charmap(_context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = "the metadata server does not fold cases or normalize names: names are compared byte by byte. Share the \
                subvolume by Samba with 'case sensitive = no' instead";
    Err(Refusal::new(Errno::NOTSUPP, text))
}

fn no_quiesce(_context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = "the metadata server does not quiesce: it cannot hold the clients of several subvolumes so that their \
                snapshots are of one moment. Stop the applications, or take one snapshot of a directory above";
    Err(Refusal::new(Errno::NOTSUPP, text))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, state};
    use super::*;
    use serde_json::json;

    #[test]
    fn commands_that_are_not_served_say_what_is_missing() {
        let subvolume = json!({ "vol_name": "a", "sub_name": "b" });
        let charmap = run(&mut state(), "fs subvolume charmap get", subvolume).unwrap_err();
        let members = json!({ "fs_name": "a", "members": ["b"], "set_id": "c" });
        let quiesce = run(&mut state(), "fs quiesce", members).unwrap_err();
        for (refusal, word) in [(charmap, "cases"), (quiesce, "quiesce")] {
            assert_eq!(refusal.errno, Errno::NOTSUPP);
            assert!(refusal.text.contains(word), "{refusal}");
        }
    }
}
