//! Groups whose members each keep whole objects.

use super::Undo;
use crate::{Interval, LogEntry, Members, Osds};
use types::{EVersion, OsdId};

pub(super) fn can_serve(members: &Members) -> bool {
    members.acting.len() >= members.min_size.max(1)
}

/// One acting member that survives has all writes of its interval.
pub(super) fn blocked_by(interval: &Interval, osds: &Osds) -> Vec<OsdId> {
    if interval.acting.iter().any(|osd| osds.is_up(*osd)) {
        return Vec::new();
    }
    let missed = interval.acting.iter().copied();
    missed.filter(|osd| !osds.is_lost(*osd, interval.first)).collect()
}

/// A replica applies changes at once, so the content before them is gone: it is recovered from others.
pub(super) fn undo(entry: &LogEntry) -> Undo {
    match entry.prior_version {
        EVersion::ZERO => Undo::Remove,
        need => Undo::Miss(need),
    }
}
