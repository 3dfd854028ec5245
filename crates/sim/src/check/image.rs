//! A client with exclusive use of an image, or of a part of it, reads what it wrote, each time and in the
//! end; the object map covers all objects.

use super::snapshots::info;
use super::stores::Stores;
use crate::groups::{all_groups, copies};
use crate::process::ClientProcess;
use crate::world::World;
use store::mem::MemObject;
use types::{HObject, SnapId};

/// Ids of the images; see `process`.
const IDS: [&str; 2] = ["1a", "2b"];
/// The states follow a length, a version, and the number of objects.
const STATES_AT: u64 = 4 + 6 + 8;
/// `RBD_FLAG_OBJECT_MAP_INVALID`
const MAP_INVALID: u8 = 1;

/// Checks that no user of an image has met a wrong response.
pub fn check(world: &World) -> Result<(), String> {
    let mut users = world.clients().filter_map(ClientProcess::image_user);
    match users.find_map(|user| user.failure()) {
        Some(failure) => Err(failure.to_owned()),
        None => Ok(()),
    }
}

/// Checks the durable object maps.
pub fn check_maps(world: &World, stores: &Stores) -> Result<(), String> {
    let objects = all_objects(world, stores);
    let find = |name: String| objects.iter().find(|(of, _)| of.name == name.as_bytes());
    for id in IDS {
        let header = find(format!("rbd_header.{id}"));
        let Some((_, map)) = find(format!("rbd_object_map.{id}")) else { continue };
        let flags = header.and_then(|(_, header)| header.omap.get(&b"flags"[..]));
        if flags.is_some_and(|flags| flags.first().is_some_and(|flags| flags & MAP_INVALID != 0)) {
            continue;
        }
        let prefix = format!("rbd_data.{id}.");
        for (name, object) in &objects {
            let Some(number) = name.name.strip_prefix(prefix.as_bytes()) else { continue };
            let number = String::from_utf8_lossy(number);
            let number = u64::from_str_radix(&number, 16).expect("objects are numbered");
            // A removed object with clones leaves a whiteout, which is not visible.
            let exists = name.snap == SnapId::HEAD && !info(object)?.is_whiteout;
            if exists && !may_exist(map, number) {
                return Err(format!("{name} exists, but not for its object map"));
            }
        }
    }
    Ok(())
}

fn all_objects<'a>(world: &World, stores: &'a Stores) -> Vec<(&'a HObject, &'a MemObject)> {
    let map = world.newest_map().expect("all is healed");
    let groups = all_groups(map).into_iter();
    // The first shard has all names and attributes.
    let firsts = groups.filter_map(|pg| copies(map, pg).into_iter().next());
    firsts.flat_map(|(osd, copy)| stores.of(osd).objects(copy)).collect()
}

fn may_exist(map: &MemObject, object: u64) -> bool {
    let byte = map.data.read(STATES_AT + object / 4, 1).data;
    byte.first().is_some_and(|byte| byte >> (6 - 2 * (object % 4)) & 3 != 0)
}
