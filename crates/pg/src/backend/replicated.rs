//! Groups whose members each keep whole objects.

use super::Undo;
use crate::{Interval, LogEntry, Members, Osds};
use types::{EVersion, Epoch, OsdId};

pub(super) fn can_serve(members: &Members) -> bool {
    members.acting.len() >= members.min_size.max(1)
}

/// One acting member that survives has all writes of its interval.
pub(super) fn blocked_by(interval: &Interval, osds: &Osds, min_size: usize) -> Vec<OsdId> {
    if !interval.maybe_went_rw {
        return Vec::new();
    }
    if interval.is_gap {
        return doubtful(osds, min_size, interval.first);
    }
    if interval.acting.iter().any(|osd| osds.is_up(*osd)) {
        return Vec::new();
    }
    let missed = interval.acting.iter().copied();
    missed.filter(|osd| !osds.is_lost(*osd, interval.first)).collect()
}

pub(super) fn may_have_unknown(osds: &Osds, members: &Members) -> Vec<OsdId> {
    doubtful(osds, members.min_size, Epoch(0))
}

/// The OSDs that went down in a time without known history, if they are enough to have served the group
/// alone.
fn doubtful(osds: &Osds, min_size: usize, since: Epoch) -> Vec<OsdId> {
    let down: Vec<OsdId> = osds.gone_since(since).collect();
    if down.len() >= min_size.max(1) { down } else { Vec::new() }
}

/// A replica applies changes at once, so the content before them is gone: it is recovered from others.
pub(super) fn undo(entry: &LogEntry) -> Undo {
    match entry.prior_version {
        EVersion::ZERO => Undo::Remove,
        need => Undo::Miss(need),
    }
}
