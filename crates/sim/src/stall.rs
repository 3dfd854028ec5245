//! Stall at the end of a run: what stops a healthy cluster.

use stdx::Prng;

const SALT: u64 = 0x7374_616c_6c65;
/// One in so many seeds ends with a stall.
const STALLS_ONE_IN: u64 = 3;

/// Cause of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// So many members of a group are dead that it serves no requests.
    Dead,
    /// The members neither send nor receive.
    Frozen,
    /// The disk of one member completes nothing.
    Disk,
    /// The cluster is paused: no reads, no writes.
    Flag,
    /// The pool exceeds its quota.
    Quota,
}

impl Stall {
    /// Draws whether the seed ends with a stall, and its cause.
    pub fn draw(seed: u64, can_stall: bool) -> Option<Stall> {
        let mut prng = Prng::new(seed ^ SALT);
        let stalls = prng.chance(1, STALLS_ONE_IN) && can_stall;
        let all = [Stall::Dead, Stall::Frozen, Stall::Disk, Stall::Flag, Stall::Quota];
        let stall = *prng.choose(&all);
        stalls.then_some(stall)
    }

    /// True if as many members of a group are stopped as it takes to stop the group.
    pub fn takes_all(self) -> bool {
        matches!(self, Stall::Dead | Stall::Frozen)
    }
}
