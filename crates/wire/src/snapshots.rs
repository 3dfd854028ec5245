//! Snapshot contexts, and what an object's snapshots are.

use types::SnapId;

/// `SnapContext`: the snapshots that a writer knows of, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapContext {
    /// The newest snapshot id that was ever given out.
    pub seq: SnapId,
    /// Existing snapshots, newest first.
    pub snaps: Vec<SnapId>,
}

impl SnapContext {
    /// Whether the ids descend and none is newer than `seq`.
    pub fn is_valid(&self) -> bool {
        let descends = self.snaps.windows(2).all(|pair| pair[0] > pair[1]);
        let bounded = self.snaps.first().is_none_or(|newest| *newest <= self.seq);
        let positive = self.snaps.last().is_none_or(|oldest| oldest.0 > 0);
        descends && bounded && positive
    }
}

impl codec::Encode for SnapContext {
    fn encode(&self, w: &mut codec::Writer) {
        w.value(&self.seq);
        w.value(&self.snaps);
    }
}

impl codec::Decode for SnapContext {
    fn decode(r: &mut codec::Reader<'_>) -> codec::Result<Self> {
        Ok(SnapContext { seq: r.value()?, snaps: r.value()? })
    }
}

structure! {
    /// `clone_info`: one clone of an object, or its head ([`SnapId::HEAD`]).
    CloneInfo, version 1, compat 1 {
        /// Newest snapshot that shows the clone; its id.
        clone: SnapId;
        /// The snapshots that show this clone, ascending; empty for the head.
        snaps: Vec<SnapId>;
        /// Ranges, as (offset, length), that the clone shares with the next newer one.
        overlap: Vec<(u64, u64)>;
        /// Size in bytes.
        size: u64;
    }
}

structure! {
    /// `obj_list_snap_response_t`: the reply to `LIST_SNAPS`.
    SnapListing, version 2, compat 1 {
        /// Ascending; the head, if there is one, is last.
        clones: Vec<CloneInfo>;
        /// Snapshot sequence of the object.
        seq: SnapId, since 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snap_context_descends_from_its_sequence() {
        let context = |seq, snaps: &[u64]| SnapContext {
            seq: SnapId(seq),
            snaps: snaps.iter().copied().map(SnapId).collect(),
        };
        assert!(context(0, &[]).is_valid() && context(9, &[9, 4, 1]).is_valid());
        assert!(!context(8, &[9]).is_valid());
        assert!(!context(9, &[4, 4]).is_valid());
        assert!(!context(9, &[4, 0]).is_valid());
    }
}
