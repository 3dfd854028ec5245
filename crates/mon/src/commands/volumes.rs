//! `fs volume`: file systems together with their pools.

use super::file_system::enable;
use super::new_pool::{self, NewPool};
use super::subvolumes::order;
use super::{file_system, pools};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::file_systems::fail;
use maps::{MdsMap, Pool, PoolFlags};
use serde_json::{Value, json};
use types::{Errno, PoolId};

pub const COMMANDS: &[Command] = &[
    command("fs volume ls", "List volumes", "mgr", "r", list),
    command(
        "fs volume create name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=placement,type=CephString,req=false name=data_pool,type=CephString,req=false \
         name=meta_pool,type=CephString,req=false",
        "Create a CephFS volume",
        "mgr",
        "rw",
        create,
    ),
    command(
        "fs volume rm name=vol_name,type=CephString \
         name=yes-i-really-mean-it,type=CephString,req=false",
        "Delete a FS volume by passing --yes-i-really-mean-it flag",
        "mgr",
        "rw",
        remove,
    ),
    command(
        "fs volume rename name=vol_name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=new_vol_name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "Rename a CephFS volume by passing --yes-i-really-mean-it flag",
        "mgr",
        "rw",
        rename,
    ),
    command(
        "fs volume info name=vol_name,type=CephString \
         name=human_readable,type=CephBool,req=false",
        "Get the information of a CephFS volume",
        "mgr",
        "r",
        order,
    ),
];

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let names = context.state.fs.map.file_systems.values().map(|fs| &fs.map.fs_name);
    let names: Vec<Value> = names.map(|name| json!({ "name": name })).collect();
    Ok(context.json(&json!(names)))
}

fn pool_names(volume: &str) -> [String; 2] {
    [format!("cephfs.{volume}.meta"), format!("cephfs.{volume}.data")]
}

/// The pools are made, or those that are named are taken.
fn create(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name").to_owned();
    if context.state.fs.map.named(&name).is_some() {
        return Ok(Answer::default());
    }
    let given = |key: &str| {
        let text = context.arguments.optional(key).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let given = (given("meta_pool"), given("data_pool"));
    let (metadata, data) = match given {
        (Some(metadata), Some(data)) => (existing(context, &metadata)?, existing(context, &data)?),
        (None, None) => {
            let [metadata, data] = pool_names(&name);
            (made(context, &metadata)?, made(context, &data)?)
        }
        _ => {
            let text = "both '--data-pool' and '--meta-pool' must be given, or neither";
            return Err(Refusal::invalid(text));
        }
    };
    file_system::create_on(context, name, metadata, data)?;
    if let Some(pool) = context.change.osdmap(context.state).new_pools.get_mut(&data) {
        pool.flags.set(PoolFlags::BULK, true);
    }
    Ok(Answer::default())
}

fn existing(context: &Context<'_>, name: &str) -> Result<PoolId, Refusal> {
    let id = context.state.osdmap.pool_id(name);
    id.ok_or_else(|| Refusal::missing(format!("pool '{name}' does not exist")))
}

/// A pool of the name, which is made unless it is there and empty.
fn made(context: &mut Context<'_>, name: &str) -> Result<PoolId, Refusal> {
    if let Some(id) = context.state.osdmap.pool_id(name) {
        return Ok(id);
    }
    let new = NewPool { name, ..NewPool::default() };
    new_pool::create(context.state, context.live.running, &mut context.change, &new)
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("vol_name").to_owned();
    if context.arguments.optional("yes-i-really-mean-it") != Some("--yes-i-really-mean-it") {
        let text = format!(
            "WARNING: this will *PERMANENTLY DESTROY* all data stored in the filesystem {name}. If you are \
             *ABSOLUTELY CERTAIN* that is what you want, re-issue the command followed by --yes-i-really-mean-it."
        );
        return Err(Refusal::new(Errno::PERM, text));
    }
    if !context.state.mon_switch(context.live.running, "mon_allow_pool_delete", true) {
        let text = "pool deletion is disabled; you must first set the mon_allow_pool_delete config option to true \
                    before volumes can be deleted";
        return Err(Refusal::new(Errno::PERM, text));
    }
    let missing = || Refusal::missing(format!("Filesystem not found for volume '{name}'"));
    let fs = context.state.fs.map.named(&name).ok_or_else(missing)?;
    let (id, map) = (fs.fscid, &fs.map);
    let pools: Vec<PoolId> =
        [map.metadata_pool].into_iter().chain(map.data_pools.clone()).collect();
    let servers: Vec<u64> = map.mds_info.keys().copied().collect();
    check_deletable(context, &pools)?;
    file_system::edit(context, id)?.flags |= MdsMap::NOT_JOINABLE;
    servers.into_iter().for_each(|gid| fail(context.state, &mut context.change, gid));
    file_system::forget(context, id);
    let state = context.state;
    for pool in pools {
        pools::remove_unused(state, &mut context.change, pool)?;
    }
    let metadata = name_of(state, map.metadata_pool);
    let data = map.data_pools.iter().map(|id| format!("'{}'", name_of(state, *id)));
    let data: Vec<String> = data.collect();
    let text = format!("metadata pool: {metadata} data pool: [{}] removed", data.join(", "));
    Ok(Answer::said(text))
}

fn name_of(state: &crate::state::State, id: PoolId) -> &str {
    state.osdmap.pool_name(id).unwrap_or_default()
}

/// Refuses before anything is changed.
fn check_deletable(context: &Context<'_>, pools: &[PoolId]) -> Result<(), Refusal> {
    for id in pools {
        let is_kept = |pool: &Pool| pool.flags.contains(PoolFlags::NODELETE);
        if context.state.osdmap.pool(*id).is_some_and(is_kept) {
            let name = name_of(context.state, *id);
            let text = format!(
                "pool '{name}' has the flag nodelete: 'ceph osd pool set {name} nodelete false'"
            );
            return Err(Refusal::new(Errno::PERM, text));
        }
    }
    Ok(())
}

/// Renames the file system, and its pools if they have the names that `fs volume create` gives.
fn rename(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = |name: &str| context.arguments.text(name).to_owned();
    let (old, new) = (text("vol_name"), text("new_vol_name"));
    if !context.arguments.flag("yes_i_really_mean_it") {
        let text = "WARNING: This will rename the filesystem and possibly its pools. It is a potentially disruptive \
                    operation, clients' cephx credentials need reauthorized to access the file system and its pools \
                    with the new name. Add --yes-i-really-mean-it if you are sure you wish to continue.";
        return Err(Refusal::new(Errno::PERM, text));
    }
    let known = context.state.fs.map.named(&old);
    if known.is_none() && context.state.fs.map.named(&new).is_some() {
        return Ok(Answer::said(format!(
            "volume '{new}' exists: it may have been renamed already"
        )));
    }
    if context.state.fs.map.named(&new).is_some() {
        return Err(Refusal::invalid(format!("Desired file system name '{new}' already in use")));
    }
    let missing = || Refusal::missing(format!("Filesystem not found for volume '{old}'"));
    let fs = known.ok_or_else(missing)?;
    let (id, metadata, data) = (fs.fscid, fs.map.metadata_pool, fs.map.data_pools.clone());
    file_system::edit(context, id)?.fs_name = new.clone();
    enable(context, metadata, "metadata", &new);
    data.iter().for_each(|pool| enable(context, *pool, "data", &new));
    let renamed = pool_names(&old).into_iter().zip(pool_names(&new));
    for (id, (from, to)) in [metadata].into_iter().chain(data.first().copied()).zip(renamed) {
        let map = &context.state.osdmap;
        if map.pool_name(id) == Some(&from) && map.pool_id(&to).is_none() {
            context.change.osdmap(context.state).new_pool_names.insert(id, to);
        }
    }
    Ok(Answer::said(format!("FS volume '{old}' renamed to '{new}'")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, state, text};
    use super::*;
    use crate::state::State;

    fn named_a() -> State {
        let mut state = state();
        run(&mut state, "fs volume create", json!({ "name": "a" })).unwrap();
        state
    }

    fn pools(state: &State) -> Vec<&str> {
        state.osdmap.pool_names.values().map(String::as_str).collect()
    }

    #[test]
    fn a_volume_is_made_with_its_pools_once() {
        let mut state = named_a();
        assert_eq!(pools(&state), ["cephfs.a.meta", "cephfs.a.data"]);
        run(&mut state, "fs volume create", json!({ "name": "a" })).unwrap();
        assert_eq!(pools(&state).len(), 2);
        let listed = run(&mut state, "fs volume ls", json!({})).unwrap();
        assert!(
            text(&listed).contains("\"name\": \"a\"") || text(&listed).contains("\"name\":\"a\"")
        );
        let one = json!({ "name": "b", "data_pool": "x" });
        assert_eq!(run(&mut state, "fs volume create", one).unwrap_err().errno, Errno::INVAL);
    }

    #[test]
    fn a_volume_is_removed_with_its_pools_if_that_is_confirmed_and_allowed() {
        let mut state = named_a();
        let remove = |state: &mut State, given| run(state, "fs volume rm", given);
        let refusal = remove(&mut state, json!({ "vol_name": "a" })).unwrap_err();
        assert_eq!(refusal.errno, Errno::PERM);
        let sure = |name: &str| json!({ "vol_name": name, "yes-i-really-mean-it": "--yes-i-really-mean-it" });
        assert_eq!(remove(&mut state, sure("b")).unwrap_err().errno, Errno::NOENT);
        super::super::testing::set_option(&mut state, "mon_allow_pool_delete", "false");
        assert_eq!(remove(&mut state, sure("a")).unwrap_err().errno, Errno::PERM);
        super::super::testing::set_option(&mut state, "mon_allow_pool_delete", "true");
        remove(&mut state, sure("a")).unwrap();
        assert!(pools(&state).is_empty() && state.fs.map.file_systems.is_empty());
    }

    #[test]
    fn a_volume_is_renamed_with_its_pools() {
        let mut state = named_a();
        let to = json!({ "vol_name": "a", "new_vol_name": "b", "yes_i_really_mean_it": true });
        run(&mut state, "fs volume rename", to.clone()).unwrap();
        assert_eq!(pools(&state), ["cephfs.b.meta", "cephfs.b.data"]);
        assert!(state.fs.map.named("b").is_some());
        run(&mut state, "fs volume rename", to).unwrap();
    }
}
