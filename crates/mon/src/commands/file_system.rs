//! `fs`: creation, removal and listing of file systems.

use super::named::pool_named;
pub(crate) use crate::bootstrap::FILE_SYSTEM_APPLICATION as APPLICATION;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::fsmap;
use crate::file_systems::{fail, user_of};
use maps::{FileSystem, FsId, MdsMap, NO_FILE_SYSTEM};
use serde_json::json;
use std::time::Duration;
use types::{Errno, PoolId};

/// Bound of file systems; each subscriber is sent all of them.
const FILE_SYSTEMS_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 256;
/// A pool that is younger counts as empty without reports: its groups may still be on their way to be active.
const NEW_POOL_MAX: Duration = Duration::from_secs(30);
/// On-disk feature that Ceph's servers demand of a new file system besides the default ones.
const INLINE_DATA: (u64, &str) = (7, "mds uses inline data");

pub const COMMANDS: &[Command] = &[
    command("fs ls", "list filesystems", "fs", "r", list),
    command(
        "fs dump name=epoch,type=CephInt,req=false,range=0",
        "dump all CephFS status, optionally from epoch",
        "mds",
        "r",
        dump,
    ),
    command("fs get name=fs_name,type=CephString", "get info about one filesystem", "fs", "r", get),
    command(
        "fs new name=fs_name,type=CephString,goodchars=[A-Za-z0-9-_.] name=metadata,type=CephString \
         name=data,type=CephString name=force,type=CephBool,req=false \
         name=allow_dangerous_metadata_overlay,type=CephBool,req=false \
         name=fscid,type=CephInt,range=0,req=false name=recover,type=CephBool,req=false",
        "make new filesystem using named pools <metadata> and <data>",
        "fs",
        "rw",
        new,
    ),
    command(
        "fs fail name=fs_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "bring the file system down and all of its ranks",
        "fs",
        "rw",
        fail_all,
    ),
    command(
        "fs rm name=fs_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "disable the named filesystem",
        "fs",
        "rw",
        remove,
    ),
    command(
        "fs reset name=fs_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "disaster recovery only: reset to a single-MDS map",
        "fs",
        "rw",
        reset,
    ),
    command(
        "fs rename name=fs_name,type=CephString \
         name=new_fs_name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "rename a ceph file system",
        "fs",
        "rw",
        rename,
    ),
    command(
        "fs set-default name=fs_name,type=CephString",
        "set the default to the named filesystem",
        "fs",
        "rw",
        set_default,
    ),
];

/// The file system that an argument names.
pub(super) fn named<'a>(context: &Context<'a>, argument: &str) -> Result<&'a FileSystem, Refusal> {
    let name = context.arguments.text(argument);
    let missing = || Refusal::missing(format!("Filesystem not found: '{name}'"));
    context.state.fs.map.named(name).ok_or_else(missing)
}

/// The map of a file system, to be changed.
pub(super) fn edit<'a>(context: &'a mut Context<'_>, id: FsId) -> Result<&'a mut MdsMap, Refusal> {
    let fs = context.change.fsmap(context.state).file_systems.get_mut(&id);
    fs.map(|fs| &mut fs.map)
        .ok_or_else(|| Refusal::missing(format!("Filesystem not found: '{id}'")))
}

/// Refuses unless the user has confirmed.
pub(super) fn confirm(context: &Context<'_>, warning: &str) -> Result<(), Refusal> {
    match context.arguments.flag("yes_i_really_mean_it") {
        true => Ok(()),
        false => Err(Refusal::new(Errno::PERM, warning)),
    }
}

/// The name of a pool.
pub(super) fn pool_name(context: &Context<'_>, id: PoolId) -> String {
    context.state.osdmap.pool_name(id).unwrap_or_default().to_owned()
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let all = || context.state.fs.map.file_systems.values().map(|fs| &fs.map);
    let pools = |map: &MdsMap| -> Vec<String> {
        map.data_pools.iter().map(|id| pool_name(context, *id)).collect()
    };
    let json = || {
        let one = |map: &MdsMap| {
            json!({
                "name": map.fs_name,
                "metadata_pool": pool_name(context, map.metadata_pool),
                "metadata_pool_id": map.metadata_pool.0,
                "data_pool_ids": map.data_pools.iter().map(|id| id.0).collect::<Vec<_>>(),
                "data_pools": pools(map),
            })
        };
        all().map(one).collect()
    };
    let plain = || {
        let one = |map: &MdsMap| {
            let metadata = pool_name(context, map.metadata_pool);
            let data: String = pools(map).iter().map(|name| format!("{name} ")).collect();
            format!("name: {}, metadata pool: {metadata}, data pools: [{data}]\n", map.fs_name)
        };
        match context.state.fs.map.file_systems.is_empty() {
            true => "No filesystems enabled\n".to_owned(),
            false => all().map(one).collect(),
        }
    };
    Ok(context.show(json, plain))
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.fs.map;
    let asked = context.arguments.int("epoch").unwrap_or(0);
    if asked != 0 && asked != i64::from(map.epoch.0) {
        let text = format!("only the newest fsmap is kept, which has epoch {}", map.epoch);
        return Err(Refusal::missing(text));
    }
    let answer = context.show(|| fsmap::json(map), || fsmap::plain(map));
    Ok(answer.saying(format!("dumped fsmap epoch {}", map.epoch)))
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("fs_name");
    let missing = || Refusal::missing(format!("filesystem '{name}' not found"));
    let fs = context.state.fs.map.named(name).ok_or_else(missing)?;
    Ok(context.show(|| fsmap::file_system(fs), || fsmap::file_system_plain(fs)))
}

/// The pool that an argument names.
pub(super) fn pool_given(context: &Context<'_>, argument: &str) -> Result<PoolId, Refusal> {
    let missing = |_| {
        let name = context.arguments.text(argument);
        Refusal::missing(format!("pool '{name}' does not exist"))
    };
    pool_named(context, argument).map_err(missing)
}

fn new(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (metadata, data) = (pool_given(context, "metadata")?, pool_given(context, "data")?);
    let name = context.arguments.text("fs_name").to_owned();
    if let Some(known) = context.state.fs.map.named(&name) {
        return match known.map.metadata_pool == metadata && known.map.data_pools == [data] {
            true => Ok(Answer::said(format!("filesystem '{name}' already exists"))),
            false => {
                let text = format!("filesystem already exists with name '{name}'");
                Err(Refusal::invalid(text))
            }
        };
    }
    create_on(context, name, metadata, data)?;
    let (metadata, data) = (metadata.0, data.0);
    Ok(Answer::said(format!("new fs with metadata pool {metadata} and data pool {data}")))
}

/// Makes a file system on two pools, which the change may make, too.
pub(super) fn create_on(
    context: &mut Context<'_>,
    name: String,
    metadata: PoolId,
    data: PoolId,
) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let text = format!("a name of a file system has 1 to {NAME_BYTES_MAX} characters");
        return Err(Refusal::invalid(text));
    }
    if context.state.fs.map.file_systems.len() >= FILE_SYSTEMS_MAX {
        let text = format!("there are {FILE_SYSTEMS_MAX} file systems already; remove one first");
        return Err(Refusal::invalid(text));
    }
    let id = new_id(context)?;
    check_pools(context, &name, metadata, data)?;
    enable(context, metadata, "metadata", &name);
    enable(context, data, "data", &name);
    create(context, id, name, metadata, data);
    Ok(())
}

/// The number of a new file system: the next one, or with `--force` the one that is given.
fn new_id(context: &Context<'_>) -> Result<FsId, Refusal> {
    let map = &context.state.fs.map;
    let Some(given) = context.arguments.int("fscid") else {
        let next = FsId::try_from(map.next_fscid);
        return next.map_err(|_| Refusal::invalid("there are no numbers of file systems left"));
    };
    if !context.arguments.flag("force") {
        return Err(Refusal::invalid("Pass --force to create a file system with a specific ID"));
    }
    let id = FsId::try_from(given).map_err(|_| Refusal::invalid("fscid is too large"))?;
    match map.file_systems.contains_key(&id) {
        true => Err(Refusal::invalid(format!("filesystem already exists with id '{id}'"))),
        false => Ok(id),
    }
}

fn check_pools(
    context: &Context<'_>,
    name: &str,
    metadata: PoolId,
    data: PoolId,
) -> Result<(), Refusal> {
    let overlay = context.arguments.flag("allow_dangerous_metadata_overlay");
    let is_used = [metadata, data].into_iter().any(|pool| user_of(context.state, pool).is_some());
    if is_used && !overlay {
        let text = format!(
            "Filesystem '{name}' is already using one of the specified RADOS pools. This should ONLY be done in \
             emergencies and after careful reading of the documentation. Pass \
             --allow-dangerous-metadata-overlay to permit this."
        );
        return Err(Refusal::invalid(text));
    }
    if metadata == data {
        let text =
            "metadata and data need pools of their own: 'ceph osd pool create' makes another one";
        return Err(Refusal::invalid(text));
    }
    let is_erasure = |id| context.state.osdmap.pool(id).is_some_and(maps::Pool::is_erasure);
    if is_erasure(metadata) {
        let pool = pool_name(context, metadata);
        let text = format!(
            "pool '{pool}' (id '{metadata}') is an erasure-coded pool.  Use of erasure-coded pools for CephFS \
             metadata is not permitted"
        );
        return Err(Refusal::invalid(text));
    }
    let force = context.arguments.flag("force");
    let may_overwrite = |id| {
        let pool = context.state.osdmap.pool(id);
        pool.is_some_and(|pool| pool.flags.contains(maps::PoolFlags::EC_OVERWRITES))
    };
    if is_erasure(data) && !force {
        let pool = pool_name(context, data);
        let text = format!(
            "pool '{pool}' (id '{data}') is an erasure-coded pool. Use of an EC pool for the default data pool is \
             discouraged; see the online CephFS documentation for more information. Use --force to override."
        );
        return Err(Refusal::invalid(text));
    }
    if is_erasure(data) && !may_overwrite(data) {
        let pool = pool_name(context, data);
        let text = format!(
            "pool '{pool}' (id '{data}') is an erasure-coded pool, with no overwrite support: run 'ceph osd pool \
             set {pool} allow_ec_overwrites true'"
        );
        return Err(Refusal::invalid(text));
    }
    if force || overlay {
        return Ok(());
    }
    [metadata, data].into_iter().try_for_each(|pool| check_empty(context, pool))
}

/// Refuses a pool with objects, or of which that is not known: numbers of inodes begin anew, so files would
/// show data of those that had the same.
fn check_empty(context: &Context<'_>, id: PoolId) -> Result<(), Refusal> {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let pool = pool_name(context, id);
    if stats.pool_totals(id).objects > 0 {
        let text =
            format!("pool '{pool}' already contains some objects. Use an empty pool instead.");
        return Err(Refusal::invalid(text));
    }
    let Some(known) = map.pool(id) else { return Ok(()) };
    let age = context.now.wall().as_nanos().saturating_sub(known.create_time.as_nanos());
    if age > NEW_POOL_MAX.as_nanos() as u64 && !stats.knows_pool(map, id) {
        let text = format!(
            "OSDs have not reported yet whether pool '{pool}' is empty: try again in a few seconds, when all of \
             its placement groups are active, or pass --force"
        );
        return Err(Refusal::new(Errno::AGAIN, text));
    }
    Ok(())
}

/// Notes in a pool which file system uses it, for capabilities by tag.
pub(super) fn enable(context: &mut Context<'_>, pool: PoolId, role: &str, name: &str) {
    if let Some(pool) = context.change.pool(context.state, pool) {
        let keys = pool.application_metadata.entry(APPLICATION.to_owned()).or_default();
        keys.insert(role.to_owned(), name.to_owned());
    }
}

fn create(context: &mut Context<'_>, id: FsId, name: String, metadata: PoolId, data: PoolId) {
    let recover = context.arguments.flag("recover");
    let now = context.change.now();
    let map = context.change.fsmap(context.state);
    let mut compat = map.default_compat.clone();
    compat.incompat.insert(INLINE_DATA.0, INLINE_DATA.1);
    let mut fs = MdsMap {
        fs_name: name,
        metadata_pool: metadata,
        data_pools: vec![data],
        enabled: true,
        created: now,
        modified: now,
        compat,
        ..MdsMap::default()
    };
    if recover {
        // The rank exists and waits for a server, once an administrator lets one in.
        fs.flags |= MdsMap::NOT_JOINABLE;
        fs.in_ranks.insert(0);
        fs.failed.insert(0);
    }
    map.next_fscid = map.next_fscid.max(id as u64 + 1);
    if map.default_fscid == NO_FILE_SYSTEM {
        map.default_fscid = id;
    }
    map.file_systems.insert(id, FileSystem { fscid: id, map: fs });
    crate::services::assign_ranks(context.state, &mut context.change);
}

fn fail_all(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let fs = named(context, "fs_name")?;
    let (id, name) = (fs.fscid, fs.map.fs_name.clone());
    let servers: Vec<u64> = fs.map.mds_info.keys().copied().collect();
    edit(context, id)?.flags |= MdsMap::NOT_JOINABLE;
    servers.into_iter().for_each(|gid| fail(context.state, &mut context.change, gid));
    Ok(Answer::said(format!(
        "{name} marked not joinable; MDS cannot join the cluster. All MDS ranks marked failed."
    )))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("fs_name").to_owned();
    let Some(fs) = context.state.fs.map.named(&name) else {
        return Ok(Answer::said(format!("filesystem '{name}' does not exist")));
    };
    if !fs.map.up.is_empty() {
        let text = "all MDS daemons must be inactive/failed before removing filesystem. See `ceph fs fail`.";
        return Err(Refusal::invalid(text));
    }
    confirm(
        context,
        "this is a DESTRUCTIVE operation and will make data in your filesystem permanently inaccessible.  \
         Add --yes-i-really-mean-it if you are sure you wish to continue.",
    )?;
    let id = fs.fscid;
    forget(context, id);
    Ok(Answer::default())
}

/// Takes a file system out of the map.
pub(super) fn forget(context: &mut Context<'_>, id: FsId) {
    let map = context.change.fsmap(context.state);
    map.file_systems.remove(&id);
    if map.default_fscid == id {
        map.default_fscid = NO_FILE_SYSTEM;
    }
    for info in map.standbys.values_mut().filter(|info| info.join_fscid == id) {
        info.join_fscid = NO_FILE_SYSTEM;
    }
}

fn reset(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let fs = named(context, "fs_name")?;
    if !fs.map.up.is_empty() {
        let text = "all MDS daemons must be inactive before resetting filesystem: set the cluster_down flag and \
                    use `ceph mds fail` to make this so";
        return Err(Refusal::invalid(text));
    }
    confirm(
        context,
        "this is a potentially destructive operation, only for use by experts in disaster recovery.  Add \
         --yes-i-really-mean-it if you are sure you wish to continue.",
    )?;
    let id = fs.fscid;
    let map = edit(context, id)?;
    let (failed, in_ranks) = ([0].into(), [0].into());
    *map = MdsMap {
        created: map.created,
        fs_name: std::mem::take(&mut map.fs_name),
        metadata_pool: map.metadata_pool,
        data_pools: std::mem::take(&mut map.data_pools),
        compat: std::mem::take(&mut map.compat),
        enabled: true,
        last_failure_osd_epoch: map.last_failure_osd_epoch,
        in_ranks,
        failed,
        ..MdsMap::default()
    };
    crate::services::assign_ranks(context.state, &mut context.change);
    Ok(Answer::default())
}

fn rename(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = |name: &str| context.arguments.text(name).to_owned();
    let (old, new) = (text("fs_name"), text("new_fs_name"));
    let known = context.state.fs.map.named(&old);
    let target = context.state.fs.map.named(&new);
    let Some(fs) = known else {
        return match target {
            Some(_) => Ok(Answer::said(format!(
                "File system may already have been renamed. Desired file system '{new}' exists."
            ))),
            None => Err(Refusal::missing(format!("File system '{old}' does not exist"))),
        };
    };
    if target.is_some() {
        return Err(Refusal::invalid(format!("Desired file system name '{new}' already in use")));
    }
    if new.is_empty() || new.len() > NAME_BYTES_MAX {
        let text = format!("a name of a file system has 1 to {NAME_BYTES_MAX} characters");
        return Err(Refusal::invalid(text));
    }
    confirm(
        context,
        "this is a potentially disruptive operation, clients' cephx credentials need reauthorized to access \
         the file system and its pools with the new name. Add --yes-i-really-mean-it if you are sure you wish \
         to continue.",
    )?;
    let (id, metadata, data) = (fs.fscid, fs.map.metadata_pool, fs.map.data_pools.clone());
    edit(context, id)?.fs_name = new.clone();
    enable(context, metadata, "metadata", &new);
    data.into_iter().for_each(|pool| enable(context, pool, "data", &new));
    Ok(Answer::said(
        "File system is renamed. cephx credentials authorized to old file system name need to be \
         reauthorized to new file system name.",
    ))
}

fn set_default(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = named(context, "fs_name")?.fscid;
    context.change.fsmap(context.state).default_fscid = id;
    Ok(Answer::default())
}
