//! `fs subvolumegroup`, `fs subvolume` and `fs clone`: commands that a worker with a client of the file
//! system carries out; and the commands by which the worker learns of them.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::usage;
use crate::volume_work::Note;
use maps::FileSystem;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{Errno, PoolId};

/// Bytes of a name: the greatest that a directory takes.
const NAME_BYTES_MAX: usize = 255;
/// Arguments that become names of directories.
const NAMES: [&str; 6] =
    ["group_name", "sub_name", "snap_name", "clone_name", "target_sub_name", "target_group_name"];
/// Beginnings of commands that give a worker something to do in the background.
const ADDING_WORK: [&str; 4] = [
    "fs subvolume rm",
    "fs subvolume snapshot clone",
    "fs subvolume snapshot rm",
    "fs clone cancel",
];

/// A command on the subvolumes of a volume.
macro_rules! of_volume {
    ($prefix:literal, $parameters:literal, $permission:literal, $help:literal) => {
        command(
            concat!($prefix, " name=vol_name,type=CephString ", $parameters),
            $help,
            "mgr",
            $permission,
            order,
        )
    };
}

/// A command on one subvolume.
macro_rules! of_subvolume {
    ($prefix:literal, $parameters:literal, $permission:literal, $help:literal) => {
        command(
            concat!(
                $prefix,
                " name=vol_name,type=CephString name=sub_name,type=CephString ",
                $parameters,
                " name=group_name,type=CephString,req=false"
            ),
            $help,
            "mgr",
            $permission,
            order,
        )
    };
}

pub const COMMANDS: &[Command] = &[
    of_volume!("fs subvolumegroup ls", "", "r", "List subvolumegroups"),
    of_volume!(
        "fs subvolumegroup create",
        "name=group_name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=size,type=CephInt,req=false name=pool_layout,type=CephString,req=false \
         name=uid,type=CephInt,req=false name=gid,type=CephInt,req=false \
         name=mode,type=CephString,req=false",
        "rw",
        "Create a CephFS subvolume group in a volume, and optionally, with a specific data pool layout, and a \
         specific numeric mode"
    ),
    of_volume!(
        "fs subvolumegroup rm",
        "name=group_name,type=CephString name=force,type=CephBool,req=false",
        "rw",
        "Delete a CephFS subvolume group in a volume"
    ),
    of_volume!(
        "fs subvolumegroup info",
        "name=group_name,type=CephString",
        "r",
        "Get the metadata of a CephFS subvolume group in a volume"
    ),
    of_volume!(
        "fs subvolumegroup resize",
        "name=group_name,type=CephString name=new_size,type=CephString \
         name=no_shrink,type=CephBool,req=false",
        "rw",
        "Resize a CephFS subvolume group"
    ),
    of_volume!(
        "fs subvolumegroup getpath",
        "name=group_name,type=CephString",
        "r",
        "Get the mountpath of a CephFS subvolume group in a volume"
    ),
    of_volume!(
        "fs subvolumegroup exist",
        "",
        "r",
        "Check a volume for the existence of subvolumegroup"
    ),
    of_volume!(
        "fs subvolumegroup pin",
        "name=group_name,type=CephString \
         name=pin_type,type=CephChoices,strings=export|distributed|random \
         name=pin_setting,type=CephString",
        "rw",
        "Set MDS pinning policy for subvolumegroup"
    ),
    of_volume!(
        "fs subvolumegroup snapshot ls",
        "name=group_name,type=CephString",
        "r",
        "List subvolumegroup snapshots"
    ),
    of_volume!(
        "fs subvolumegroup snapshot create",
        "name=group_name,type=CephString name=snap_name,type=CephString",
        "rw",
        "Create a snapshot of a CephFS subvolume group in a volume"
    ),
    of_volume!(
        "fs subvolumegroup snapshot rm",
        "name=group_name,type=CephString name=snap_name,type=CephString \
         name=force,type=CephBool,req=false",
        "rw",
        "Delete a snapshot of a CephFS subvolume group in a volume"
    ),
    of_volume!(
        "fs subvolume ls",
        "name=group_name,type=CephString,req=false",
        "r",
        "List subvolumes"
    ),
    of_volume!(
        "fs subvolume create",
        "name=sub_name,type=CephString,goodchars=[A-Za-z0-9-_.] name=size,type=CephInt,req=false \
         name=group_name,type=CephString,req=false name=pool_layout,type=CephString,req=false \
         name=uid,type=CephInt,req=false name=gid,type=CephInt,req=false \
         name=mode,type=CephString,req=false name=namespace_isolated,type=CephBool,req=false \
         name=earmark,type=CephString,req=false",
        "rw",
        "Create a CephFS subvolume in a volume, and optionally, with a specific size (in bytes), a specific data \
         pool layout, a specific mode, in a specific subvolume group and in separate RADOS namespace"
    ),
    of_volume!(
        "fs subvolume rm",
        "name=sub_name,type=CephString name=group_name,type=CephString,req=false \
         name=force,type=CephBool,req=false name=retain_snapshots,type=CephBool,req=false",
        "rw",
        "Delete a CephFS subvolume in a volume, and optionally, in a specific subvolume group, force deleting a \
         cancelled or failed clone, and retaining existing subvolume snapshots"
    ),
    of_volume!(
        "fs subvolume authorize",
        "name=sub_name,type=CephString name=auth_id,type=CephString \
         name=group_name,type=CephString,req=false \
         name=access_level,type=CephString,req=false name=tenant_id,type=CephString,req=false \
         name=allow_existing_id,type=CephBool,req=false",
        "rw",
        "Allow a cephx auth ID access to a subvolume"
    ),
    of_subvolume!(
        "fs subvolume deauthorize",
        "name=auth_id,type=CephString",
        "rw",
        "Deny a cephx auth ID access to a subvolume"
    ),
    of_subvolume!(
        "fs subvolume authorized_list",
        "",
        "r",
        "List auth IDs that have access to a subvolume"
    ),
    of_subvolume!(
        "fs subvolume evict",
        "name=auth_id,type=CephString",
        "rw",
        "Evict clients based on auth IDs and subvolume mounted"
    ),
    of_subvolume!(
        "fs subvolume getpath",
        "",
        "r",
        "Get the mountpath of a CephFS subvolume in a volume, and optionally, in a specific subvolume group"
    ),
    of_subvolume!(
        "fs subvolume info",
        "",
        "r",
        "Get the information of a CephFS subvolume in a volume, and optionally, in a specific subvolume group"
    ),
    of_volume!(
        "fs subvolume exist",
        "name=group_name,type=CephString,req=false",
        "r",
        "Check a volume for the existence of a subvolume, optionally in a specified subvolume group"
    ),
    of_subvolume!(
        "fs subvolume metadata set",
        "name=key_name,type=CephString name=value,type=CephString",
        "rw",
        "Set custom metadata (key-value) for a CephFS subvolume in a volume"
    ),
    of_subvolume!(
        "fs subvolume metadata get",
        "name=key_name,type=CephString",
        "r",
        "Get custom metadata associated with the key of a CephFS subvolume in a volume"
    ),
    of_subvolume!(
        "fs subvolume metadata ls",
        "",
        "r",
        "List custom metadata (key-value pairs) of a CephFS subvolume in a volume"
    ),
    of_volume!(
        "fs subvolume metadata rm",
        "name=sub_name,type=CephString name=key_name,type=CephString \
         name=group_name,type=CephString,req=false name=force,type=CephBool,req=false",
        "rw",
        "Remove custom metadata (key-value) associated with the key of a CephFS subvolume in a volume"
    ),
    of_volume!(
        "fs subvolume resize",
        "name=sub_name,type=CephString name=new_size,type=CephString \
         name=group_name,type=CephString,req=false name=no_shrink,type=CephBool,req=false",
        "rw",
        "Resize a CephFS subvolume"
    ),
    of_subvolume!(
        "fs subvolume pin",
        "name=pin_type,type=CephChoices,strings=export|distributed|random \
         name=pin_setting,type=CephString",
        "rw",
        "Set MDS pinning policy for subvolume"
    ),
    of_subvolume!(
        "fs subvolume snapshot protect",
        "name=snap_name,type=CephString",
        "rw",
        "(deprecated) Protect snapshot of a CephFS subvolume in a volume"
    ),
    of_subvolume!(
        "fs subvolume snapshot unprotect",
        "name=snap_name,type=CephString",
        "rw",
        "(deprecated) Unprotect a snapshot of a CephFS subvolume in a volume"
    ),
    of_subvolume!("fs subvolume snapshot ls", "", "r", "List subvolume snapshots"),
    of_volume!(
        "fs subvolume snapshot create",
        "name=sub_name,type=CephString name=snap_name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=group_name,type=CephString,req=false",
        "rw",
        "Create a snapshot of a CephFS subvolume in a volume"
    ),
    of_subvolume!(
        "fs subvolume snapshot getpath",
        "name=snap_name,type=CephString",
        "r",
        "Get path for a snapshot of a CephFS subvolume"
    ),
    of_subvolume!(
        "fs subvolume snapshot info",
        "name=snap_name,type=CephString",
        "r",
        "Get the information of a CephFS subvolume snapshot"
    ),
    of_subvolume!(
        "fs subvolume snapshot metadata set",
        "name=snap_name,type=CephString name=key_name,type=CephString name=value,type=CephString",
        "rw",
        "Set custom metadata (key-value) for a CephFS subvolume snapshot in a volume"
    ),
    of_subvolume!(
        "fs subvolume snapshot metadata get",
        "name=snap_name,type=CephString name=key_name,type=CephString",
        "r",
        "Get custom metadata associated with the key of a CephFS subvolume snapshot in a volume"
    ),
    of_subvolume!(
        "fs subvolume snapshot metadata ls",
        "name=snap_name,type=CephString",
        "r",
        "List custom metadata (key-value pairs) of a CephFS subvolume snapshot in a volume"
    ),
    of_volume!(
        "fs subvolume snapshot metadata rm",
        "name=sub_name,type=CephString name=snap_name,type=CephString \
         name=key_name,type=CephString name=group_name,type=CephString,req=false \
         name=force,type=CephBool,req=false",
        "rw",
        "Remove custom metadata (key-value) associated with the key of a CephFS subvolume snapshot in a volume"
    ),
    of_volume!(
        "fs subvolume snapshot rm",
        "name=sub_name,type=CephString name=snap_name,type=CephString \
         name=group_name,type=CephString,req=false name=force,type=CephBool,req=false",
        "rw",
        "Delete a snapshot of a CephFS subvolume in a volume"
    ),
    of_volume!(
        "fs subvolume snapshot clone",
        "name=sub_name,type=CephString name=snap_name,type=CephString \
         name=target_sub_name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=pool_layout,type=CephString,req=false name=group_name,type=CephString,req=false \
         name=target_group_name,type=CephString,req=false",
        "rw",
        "Clone a snapshot to target subvolume"
    ),
    of_volume!(
        "fs clone status",
        "name=clone_name,type=CephString name=group_name,type=CephString,req=false",
        "r",
        "Get status on a cloned subvolume."
    ),
    of_volume!(
        "fs clone cancel",
        "name=clone_name,type=CephString name=group_name,type=CephString,req=false",
        "rw",
        "Cancel an pending or ongoing clone operation."
    ),
    command(
        "fs volume orders take name=worker,type=CephString",
        "for workers: the next command on a subvolume",
        "mgr",
        "rwx",
        take,
    )
    .internal(),
    command(
        "fs volume orders done name=worker,type=CephString name=id,type=CephInt,range=0 \
         name=result,type=CephInt name=text,type=CephString,req=false \
         name=output,type=CephString,req=false",
        "for workers: the outcome of a command",
        "mgr",
        "rwx",
        done,
    )
    .internal(),
    command(
        "fs volume orders jobs name=worker,type=CephString name=clones,type=CephString,req=false",
        "for workers: volumes that may have work in the background",
        "mgr",
        "rx",
        jobs,
    )
    .internal(),
];

/// Leaves the command to a worker.
pub(super) fn order(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("vol_name");
    let missing = || Refusal::missing(format!("Volume '{name}' not found"));
    let fs = context.state.fs.map.named(name).ok_or_else(missing)?;
    let arguments = context.arguments.flattened();
    check_names(&arguments)?;
    if !fs.map.up.contains_key(&0) {
        let text = format!(
            "file system '{name}' has no metadata server now; start one ('sepiola mds start'), or look at \
             'ceph fs status', and repeat the command"
        );
        return Err(Refusal::new(Errno::AGAIN, text));
    }
    let adds_work = ADDING_WORK.iter().any(|prefix| context.prefix.starts_with(prefix));
    let content = json!({
        "prefix": context.prefix,
        "arguments": arguments,
        "volume": volume(context, fs),
    });
    let adds_work = adds_work.then_some(i64::from(fs.fscid));
    context.change.note_order(Note::Order { content, adds_work });
    Ok(Answer::default())
}

/// Names become parts of paths.
fn check_names(arguments: &BTreeMap<String, String>) -> Result<(), Refusal> {
    for (argument, name) in arguments.iter().filter(|(key, _)| NAMES.contains(&key.as_str())) {
        let is_optional = argument.ends_with("group_name");
        let is_empty = name.is_empty() && !is_optional;
        let is_path = name.contains('/') || name.contains('\0') || name == "." || name == "..";
        if is_empty || is_path || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control)
        {
            let text = format!(
                "'{name}' is no valid {argument}: a name has 1 to {NAME_BYTES_MAX} bytes, and no '/'"
            );
            return Err(Refusal::invalid(text));
        }
    }
    Ok(())
}

/// Facts about a volume that a worker needs.
fn volume(context: &Context<'_>, fs: &FileSystem) -> Value {
    let pool = |id: &PoolId| {
        let usage = usage::pool_usage(&context.state.osdmap, context.live.stats, *id);
        json!({
            "id": id.0,
            "name": context.state.osdmap.pool_name(*id).unwrap_or_default(),
            "used": usage.used,
            "available": usage.available,
        })
    };
    let monitors = context
        .state
        .monmap
        .mon_info
        .values()
        .filter_map(|monitor| Some(monitor.public_addrs.0.first()?.socket?.to_string()));
    json!({
        "id": fs.fscid,
        "name": fs.map.fs_name,
        "metadata_pool": pool(&fs.map.metadata_pool),
        "data_pools": fs.map.data_pools.iter().map(pool).collect::<Vec<_>>(),
        "mon_addrs": monitors.collect::<Vec<String>>(),
    })
}

fn worker(context: &Context<'_>) -> String {
    context.arguments.text("worker").to_owned()
}

fn take(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let worker = worker(context);
    context.change.note_order(Note::Take { worker });
    Ok(Answer::default())
}

fn done(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let number = |name: &str| context.arguments.int(name).unwrap_or(0);
    let text = |name: &str| context.arguments.text(name).to_owned();
    let result = i32::try_from(number("result")).unwrap_or(Errno::IO.negative());
    let answer = Answer { result, text: text("text"), output: text("output").into() };
    let id = u64::try_from(number("id")).unwrap_or(0);
    let worker = worker(context);
    context.change.note_order(Note::Done { worker, id, answer });
    Ok(Answer::default())
}

/// Volumes with the generation of their work in the background, for the trusted worker; and the progress that
/// it tells.
fn jobs(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let worker = worker(context);
    let work = context.live.volumes;
    let is_trusted = work.is_trusted(&worker);
    let served = context.state.fs.map.file_systems.values();
    let served = served.filter(|fs| is_trusted && fs.map.up.contains_key(&0));
    let volumes = served.map(|fs| {
        let mut value = volume(context, fs);
        value["generation"] = json!(work.generation(i64::from(fs.fscid)));
        value
    });
    let answer = context.json(&json!(volumes.collect::<Vec<_>>()));
    let clones = context.arguments.optional("clones").unwrap_or("[]");
    let clones = serde_json::from_str(clones)
        .map_err(|error| Refusal::invalid(format!("clones are not understood: {error}")))?;
    context.change.note_order(Note::Progress { worker, clones });
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, state};
    use super::*;

    #[test]
    fn a_volume_must_be_there_and_be_served() {
        let mut state = state();
        let given = json!({ "vol_name": "a" });
        let refusal = run(&mut state, "fs subvolume ls", given.clone()).unwrap_err();
        assert_eq!(refusal, Refusal::missing("Volume 'a' not found"));
        run(&mut state, "fs volume create", json!({ "name": "a" })).unwrap();
        let refusal = run(&mut state, "fs subvolume ls", given).unwrap_err();
        assert_eq!(refusal.errno, Errno::AGAIN);
        assert!(refusal.text.contains("no metadata server"), "{refusal}");
    }

    #[test]
    fn names_are_no_paths() {
        let check = |key: &str, name: &str| {
            check_names(&BTreeMap::from([(key.to_owned(), name.to_owned())]))
        };
        for bad in ["a/b", "..", ".", "", "a\nb", &"x".repeat(256)] {
            assert!(check("sub_name", bad).is_err(), "{bad}");
        }
        assert!(check("sub_name", "csi-vol_1.x").is_ok());
        assert!(check("group_name", "").is_ok(), "clients may send an empty group");
        assert!(check("new_size", "a/b").is_ok(), "other arguments are no names");
    }
}
