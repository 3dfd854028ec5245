//! Operations that a pool does not take: erasure-coded pools have no omaps, and some are only appended to.

use maps::{Pool, PoolFlags};
use pg::{Layout, ROW};
use store::Change;
use types::Errno;
use wire::op::OpCode;

/// Kinds of operations that a pool takes. The default takes everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolRules {
    /// Objects are kept as shards, which have no omap.
    pub is_erasure: bool,
    /// Rows in memory for each row that a change covers in part: the old one, the new one, and one for each
    /// parity. 0 in replicated pools.
    pub rows_of_a_part: u64,
    /// Without `allow_ec_overwrites`: the bytes of a stripe. Writes must append, at a multiple of it.
    pub append_unit: Option<u64>,
}

impl PoolRules {
    /// The rules for groups of this layout; `pool` looks their pool up.
    pub fn of<'a>(layout: Layout, pool: impl FnOnce() -> Option<&'a Pool>) -> Self {
        let Layout::Erasure(layout) = layout else { return PoolRules::default() };
        let overwrites = pool().is_some_and(|pool| pool.flags.contains(PoolFlags::EC_OVERWRITES));
        let stripe = u64::from(layout.data) * u64::from(layout.unit);
        PoolRules {
            is_erasure: true,
            rows_of_a_part: 2 + u64::from(layout.parity),
            append_unit: (!overwrites).then_some(stripe),
        }
    }

    /// Refuses an operation with `EOPNOTSUPP`, whatever its object is, as Ceph does.
    pub(super) fn check(self, code: OpCode) -> Result<(), Errno> {
        let is_refused = match code {
            OpCode::OMAPSETVALS | OpCode::OMAPSETHEADER | OpCode::OMAPCLEAR => self.is_erasure,
            OpCode::OMAPRMKEYS | OpCode::OMAPRMKEYRANGE => self.is_erasure,
            OpCode::TMAPUP | OpCode::TMAPPUT | OpCode::TMAPGET => self.is_erasure,
            OpCode::MAPEXT => self.is_erasure,
            OpCode::ZERO | OpCode::TRUNCATE | OpCode::TRIMTRUNC => self.append_unit.is_some(),
            _ => false,
        };
        if is_refused { Err(Errno::NOTSUPP) } else { Ok(()) }
    }

    /// Bytes in memory that a change takes besides its data: it may cover its first and last row in part.
    pub(super) fn parts_cost(self, change: &Change) -> u64 {
        let (offset, length) = match change {
            Change::Write { offset, data, .. } => (*offset, data.len() as u64),
            Change::Zero { offset, length, .. } => (*offset, *length),
            Change::Truncate { size, .. } => (*size, size.next_multiple_of(ROW) - size),
            _ => return 0,
        };
        let (first, end) = (offset / ROW, offset + length);
        let is_part = |at: u64| !at.is_multiple_of(ROW);
        let parts = match end / ROW == first {
            true => u64::from(length > 0),
            false => u64::from(is_part(offset)) + u64::from(is_part(end)),
        };
        parts * self.rows_of_a_part * ROW
    }

    /// Refuses a change of the omap.
    pub(super) fn check_omap(self) -> Result<(), Errno> {
        if self.is_erasure { Err(Errno::NOTSUPP) } else { Ok(()) }
    }

    /// Refuses a write at this offset of an object of this size where objects are only appended to.
    pub(super) fn check_append(self, offset: u64, size: u64) -> Result<(), Errno> {
        let fits = |unit: u64| offset == size && offset.is_multiple_of(unit);
        if self.append_unit.is_none_or(fits) { Ok(()) } else { Err(Errno::NOTSUPP) }
    }
}
