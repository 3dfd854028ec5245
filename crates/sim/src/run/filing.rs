//! The file system in a run: how it is made, and what is checked in the end.

use super::admin::{BOOT_LIMIT, command, command_output};
use super::clean::LIVENESS_LIMIT;
use super::file_calls::{ATTEMPTS, META_POOL, last_call, succeeds};
use super::full_pool;
use crate::check::{file_contents, file_rows, tree};
use crate::commands::create_pool_command;
use crate::events::{run_for, run_until};
use crate::fault::Fault;
use crate::file_load;
use crate::file_snapshots::{self, PART};
use crate::files::{all_directories, all_files, below};
use crate::inject;
use crate::node::NodeId;
use crate::world::World;
use auth::Keyring;
use engine::Duration;
use fsclient::{Answer, Call};
use types::Errno;

const POOLS: [&str; 2] = [META_POOL, "fs.data"];
const GROUPS: u32 = 4;
/// In this time all clients know of the use of a quota.
const QUOTA_TOLD: Duration = Duration::from_secs(3);

/// Makes the file system, and waits until it is served.
pub(crate) fn prepare(world: &mut World) -> Result<(), String> {
    if world.scenario.file_system.is_none() {
        return Ok(());
    }
    for pool in POOLS {
        command(world, &create_pool_command(pool, GROUPS, world.scenario.cluster.size))?;
    }
    let [meta, data] = POOLS;
    let new =
        format!(r#"{{"prefix":"fs new","fs_name":"files","metadata":"{meta}","data":"{data}"}}"#);
    command(world, &new)?;
    for node in world.cast.servers.clone() {
        if world.scenario.cluster.uses_cephx {
            give_key(world, node)?;
        }
        world.start(node);
    }
    match run_until(world, BOOT_LIMIT, |world| !file_load::serving(world).is_empty()) {
        true => Ok(()),
        false => Err("the file system is never served".to_owned()),
    }
}

/// A metadata server gets a key.
fn give_key(world: &mut World, node: NodeId) -> Result<(), String> {
    let server = world.nodes.process_mut(node).as_mds_mut().expect("it is a server");
    let name = server.name();
    let caps = r#"["mon","allow profile mds","osd","allow *","mds","allow"]"#;
    let asked = format!(r#"{{"prefix":"auth get-or-create","entity":"{name}","caps":{caps}}}"#);
    let keyring: Keyring =
        command_output(world, &asked)?.parse().map_err(|error| format!("{asked}: {error}"))?;
    let entity = keyring.entities.get(&name).ok_or(format!("{asked}: there is no key"))?;
    let server = world.nodes.process_mut(node).as_mds_mut().expect("it is a server");
    server.set_key(entity.key.clone());
    Ok(())
}

/// Waits for all calls, reads everything, and checks the history.
pub(crate) fn finish(world: &mut World) -> Result<(), String> {
    if world.scenario.file_system.is_none() {
        return Ok(());
    }
    if !run_until(world, LIVENESS_LIMIT, are_answered) {
        let clients = world.cast.file_clients.iter();
        let clients = clients.filter_map(|node| world.nodes.process(*node).as_file_client());
        let waiting = clients.filter(|client| client.in_flight() > 0);
        let waiting: Vec<String> = waiting
            .filter_map(|client| {
                Some(format!("actor {}: {}", client.actor(), client.daemon()?.describe()))
            })
            .collect();
        return Err(format!("calls to the file system are never answered: {waiting:#?}"));
    }
    file_rows::check(world, POOLS[0])?;
    let reader = world.cast.file_clients[0];
    for path in all_directories() {
        // Directories may not exist.
        last_call(world, reader, &Call::List(path)).map(drop)?;
    }
    for path in all_files() {
        read_file(world, reader, &path)?;
    }
    finish_quotas(world)?;
    full_pool::finish(world)?;
    finish_snapshots(world, reader)?;
    file_rows::check(world, POOLS[0])?;
    let (entries, losses) = (world.records.files.entries(), world.records.files.losses());
    let undecided = usize::from(!tree::check(entries, losses)?);
    let undecided = undecided + file_contents::check(entries, losses)?;
    world.records.files.note_undecided(undecided);
    if world.scenario.control.restore.is_some() {
        // The map of metadata servers goes back, too, and nothing is asked of them afterwards.
        let nodes = [&world.cast.servers[..], &world.cast.file_clients].concat();
        inject::apply(world, Fault::Crash(nodes));
    }
    Ok(())
}

/// Bounds a directory to one file more than it has: one client makes that, and no client makes another one.
fn finish_quotas(world: &mut World) -> Result<(), String> {
    if !world.scenario.file_system.is_some_and(|shape| shape.has_quotas) {
        return Ok(());
    }
    let clients = world.cast.file_clients.clone();
    let set = |directory: &str, max_files| {
        let directory = directory.to_owned();
        Call::SetQuota { directory, max_bytes: 0, max_files }
    };
    let (directory, make) = ("quota", |name: &str| Call::Create(below("quota", name)));
    for any in all_directories() {
        // It may not exist.
        last_call(world, clients[0], &set(&any, 0)).map(drop)?;
    }
    for call in [Call::Mkdir(directory.to_owned()), make("first"), set(directory, 3)] {
        succeeds(world, clients[0], &call)?;
    }
    for client in &clients {
        // A client holds to what it knows of the directory: it has looked it up.
        let look = Call::Stat(below(directory, "first"));
        succeeds(world, *client, &look)?;
    }
    succeeds(world, clients[0], &make("second"))?;
    run_for(world, QUOTA_TOLD);
    for client in clients {
        let made = last_call(world, client, &make(&format!("of-{client}")))?;
        if made != Err(Errno::DQUOT) {
            return Err(format!("node {client} exceeds a quota: {made:?}"));
        }
    }
    Ok(())
}

/// Reads what all snapshots show, twice, and removes them. Nothing of them is left.
fn finish_snapshots(world: &mut World, reader: NodeId) -> Result<(), String> {
    for directory in all_directories() {
        let listed = last_call(world, reader, &Call::List(below(&directory, PART)))?;
        let Ok(Answer::Names(names)) = listed else { continue };
        let names = names.iter().map(|name| String::from_utf8_lossy(name).into_owned());
        // Those of directories above are read there.
        for name in names.filter(|name| !name.starts_with('_')).collect::<Vec<_>>() {
            look_into(world, reader, &directory, &name)?;
            let remove = Call::RemoveSnapshot { directory: directory.clone(), name };
            let is_gone = last_call(world, reader, &remove)?;
            if ![Ok(Answer::Done), Err(Errno::NOENT)].contains(&is_gone) {
                return Err(format!("{remove:?}: {is_gone:?}"));
            }
        }
    }
    let are_forgotten = |world: &mut World| {
        let serving = file_load::serving(world).into_iter();
        let mut servers = serving.filter_map(|node| world.nodes.process(node).as_mds()?.daemon());
        servers.any(|server| server.kept_for_snapshots() == 0)
    };
    match run_until(world, LIVENESS_LIMIT, are_forgotten) {
        true => Ok(()),
        false => Err("the file system never forgets what removed snapshots showed".to_owned()),
    }
}

fn look_into(world: &mut World, reader: NodeId, directory: &str, name: &str) -> Result<(), String> {
    let snapshot = file_snapshots::path(directory, name);
    for inside in file_snapshots::directories_within(directory) {
        let path = below(&snapshot, &inside).trim_end_matches('/').to_owned();
        last_call(world, reader, &Call::List(path)).map(drop)?;
    }
    for inside in file_snapshots::files_within(directory) {
        let read = Call::ReadSnapshot(below(&snapshot, &inside));
        for _ in 0..2 {
            if last_call(world, reader, &read)?.is_err() {
                break;
            }
        }
    }
    Ok(())
}

fn are_answered(world: &mut World) -> bool {
    let all = world.cast.file_clients.clone();
    let restarted: Vec<bool> =
        all.iter().map(|node| file_load::restart_if_shut_out(world, *node)).collect();
    !restarted.contains(&true) && all.iter().all(|node| file_load::is_idle(world, *node))
}

/// Reads a file, if it exists. A client learns only by its data that it was shut out, and is started again.
fn read_file(world: &mut World, reader: NodeId, path: &str) -> Result<(), String> {
    for _ in 0..ATTEMPTS {
        let opened = last_call(world, reader, &Call::Open(path.to_owned()))?;
        let Ok(Answer::Inode(stat)) = opened else { return Ok(()) };
        let read = world.records.files.read_all(stat.ino);
        let is_read = last_call(world, reader, &read).is_ok_and(|read| read.is_ok());
        if is_read && last_call(world, reader, &Call::Close(stat.ino))?.is_ok() {
            return Ok(());
        }
        file_load::restart_if_shut_out(world, reader);
        run_for(world, Duration::from_secs(2));
    }
    Err(format!("{path} cannot be read in a healed cluster"))
}
