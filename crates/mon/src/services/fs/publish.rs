//! The maps that metadata servers and clients are sent.
//!
//! A server gets the map of the file system whose rank it has, or a map with itself alone; a server that the
//! map does not list gets one without servers, and starts again. A client gets all file systems, also
//! those that its capabilities (`fsname=`) do not name.

use crate::service::Reader;
use crate::sessions::Subscription;
use crate::state::State;
use engine::Message;
use maps::{FsId, MdsMap, NO_FILE_SYSTEM};
use std::borrow::Cow;
use types::{EntityType, Epoch};
use wire::{FsMapMessage, FsMapUserMessage, MdsMapMessage, MessageBody};

/// The message that a subscription has not been sent yet.
pub(super) fn due(
    state: &State,
    reader: Reader<'_>,
    topic: &str,
    subscription: &mut Subscription,
) -> Option<Message> {
    let map = &state.fs.map;
    match topic {
        "fsmap" => subscription.reaches(map.epoch.0.into()).then(|| {
            let message = FsMapMessage { epoch: map.epoch, map: codec::encode_to_bytes(map) };
            message.encode(reader.features)
        }),
        "fsmap.user" => subscription.reaches(map.epoch.0.into()).then(|| {
            let mut user = map.for_clients();
            user.names.retain(|_, name| reader.session.may_see_file_system(name));
            let map = codec::encode_to_bytes(&user);
            FsMapUserMessage { epoch: user.epoch, map }.encode(reader.features)
        }),
        _ => {
            let (map, name) = match reader.name.kind {
                EntityType::MDS => {
                    for_server(state, reader.session.peer().participant.number as u64)
                }
                _ => for_client(state, reader, topic)?,
            };
            let is_new = subscription.reaches(map.epoch.0.into());
            is_new.then(|| message(state, &map, name).encode(reader.features))
        }
    }
}

fn message(state: &State, map: &MdsMap, name: &str) -> MdsMapMessage {
    MdsMapMessage {
        fsid: state.monmap.fsid,
        epoch: map.epoch,
        map: codec::encode_to_bytes(map),
        name: name.to_owned(),
    }
}

/// The map for a server that is not in the map.
pub(super) fn null_map(state: &State) -> MdsMapMessage {
    message(state, &without_servers(state.fs.map.epoch), "")
}

fn without_servers(epoch: Epoch) -> MdsMap {
    MdsMap { epoch, ..MdsMap::default() }
}

fn for_server(state: &State, gid: u64) -> (Cow<'_, MdsMap>, &str) {
    let map = &state.fs.map;
    let fs = map.roles.get(&gid).and_then(|fscid| map.file_systems.get(fscid));
    if let Some(fs) = fs {
        return (Cow::Borrowed(&fs.map), &fs.map.fs_name);
    }
    let Some(info) = map.standbys.get(&gid) else {
        return (Cow::Owned(without_servers(map.epoch)), "");
    };
    let epoch = map.standby_epochs.get(&gid).copied().unwrap_or(map.epoch);
    let mut own = without_servers(epoch);
    own.mds_info.insert(gid, info.clone());
    (Cow::Owned(own), "")
}

/// The file system that a client asks for, by number or as the default; `None` until there is one.
fn for_client<'a>(
    state: &'a State,
    reader: Reader<'_>,
    topic: &str,
) -> Option<(Cow<'a, MdsMap>, &'a str)> {
    let asked = match topic.strip_prefix("mdsmap.") {
        Some(number) => number.parse::<FsId>().unwrap_or(NO_FILE_SYSTEM),
        None => state.fs.map.default_fscid,
    };
    let fs = state.fs.map.file_systems.get(&asked)?;
    let name = fs.map.fs_name.as_str();
    reader.session.may_see_file_system(name).then_some((Cow::Borrowed(&fs.map), name))
}
