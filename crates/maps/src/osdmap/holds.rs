//! The flags `noup`, `nodown`, `noin` and `noout`: for all OSDs, for one, for all below a CRUSH bucket, or
//! for all of a device class.

use super::{OsdMap, OsdMapFlags, OsdState};
use types::OsdId;

impl OsdMap {
    /// True if one of the four flags applies to an OSD, at any of the four levels.
    pub fn holds(&self, osd: OsdId, flag: OsdState) -> bool {
        let everywhere = match flag {
            OsdState::NOUP => OsdMapFlags::NOUP,
            OsdState::NODOWN => OsdMapFlags::NODOWN,
            OsdState::NOIN => OsdMapFlags::NOIN,
            _ => OsdMapFlags::NOOUT,
        };
        self.flags.contains(everywhere)
            || self.osd(osd).is_some_and(|known| known.state.contains(flag))
            || self.class_holds(osd, flag)
            || self.bucket_holds(osd, flag)
    }

    fn class_holds(&self, osd: OsdId, flag: OsdState) -> bool {
        if self.device_class_flags.is_empty() {
            return false;
        }
        let class = self.crush.item_class(osd.0).and_then(|name| self.crush.class_id(name));
        let flags = class.and_then(|class| self.device_class_flags.get(&class));
        flags.is_some_and(|flags| flags.contains(flag))
    }

    fn bucket_holds(&self, osd: OsdId, flag: OsdState) -> bool {
        let mut held = self.crush_node_flags.iter().filter(|(_, flags)| flags.contains(flag));
        held.any(|(bucket, _)| self.crush.subtree_contains(*bucket, osd.0))
    }
}
