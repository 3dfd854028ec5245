//! The flags `noup`, `nodown`, `noin` and `noout`: for all OSDs, for one, for all below a CRUSH bucket, or
//! for all of a device class.

use super::{OsdMap, OsdMapFlags, OsdState};
use types::OsdId;

/// True if one of the four flags applies to an OSD, at any of the four levels.
pub(super) fn holds(map: &OsdMap, osd: OsdId, flag: OsdState) -> bool {
    let everywhere = match flag {
        OsdState::NOUP => OsdMapFlags::NOUP,
        OsdState::NODOWN => OsdMapFlags::NODOWN,
        OsdState::NOIN => OsdMapFlags::NOIN,
        _ => OsdMapFlags::NOOUT,
    };
    map.flags.contains(everywhere)
        || map.osd(osd).is_some_and(|known| known.state.contains(flag))
        || class_holds(map, osd, flag)
        || bucket_holds(map, osd, flag)
}

fn class_holds(map: &OsdMap, osd: OsdId, flag: OsdState) -> bool {
    if map.device_class_flags.is_empty() {
        return false;
    }
    let class = map.crush.item_class(osd.0).and_then(|name| map.crush.class_id(name));
    let flags = class.and_then(|class| map.device_class_flags.get(&class));
    flags.is_some_and(|flags| flags.contains(flag))
}

fn bucket_holds(map: &OsdMap, osd: OsdId, flag: OsdState) -> bool {
    let mut held = map.crush_node_flags.iter().filter(|(_, flags)| flags.contains(flag));
    held.any(|(bucket, _)| map.crush.subtree_contains(*bucket, osd.0))
}
