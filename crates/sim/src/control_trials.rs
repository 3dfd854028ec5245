//! Faults of the control store: it refuses writes for a while, or is restored from a backup.
//!
//! Drawn from a generator of their own, like [`crate::trials`].

use crate::fault::Kind;
use crate::fault_mix::FaultMix;
use stdx::Prng;

const SALT: u64 = 0x0063_6f6e_7472_6f6c;
/// One in so many seeds with faults has a store that refuses writes now and then.
const REFUSALS_ONE_IN: u64 = 4;
/// One in so many seeds that allow it ends with a restored store.
const RESTORES_ONE_IN: u64 = 2;
/// Weight of refusals relative to the sum of all other faults.
const SHARES: [u64; 3] = [1, 4, 10];
const MAPS_LOST_MAX: u64 = 4;

/// Faults of the control store in one seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct ControlTrials {
    /// The store refuses writes now and then.
    pub refuses_writes: bool,
    /// The store is restored in the end.
    pub restore: Option<Restore>,
}

/// Restore of the control store from a backup while no monitor runs.
#[derive(Debug, Clone, Copy)]
pub struct Restore {
    /// Time of the backup in percent of the load; `None`: after the load, so that no map is lost.
    pub made_at: Option<u64>,
    /// Number of maps made in the end that the backup lacks in any case.
    pub maps: u64,
    /// The monitors' high-water marks are lost, too.
    pub loses_marks: bool,
    /// An OSD is away at the same time, so that a map is due.
    pub loses_osd: bool,
}

impl ControlTrials {
    /// Draws the faults, and adds refusals to the mix.
    pub fn draw(seed: u64, mix: &mut FaultMix, can_restore: bool) -> Self {
        let mut prng = Prng::new(seed ^ SALT);
        let p = &mut prng;
        let refuses_writes = p.chance(1, REFUSALS_ONE_IN) && !mix.weights.is_empty();
        let total: u64 = mix.weights.iter().map(|(_, weight)| weight).sum();
        let share = *p.choose(&SHARES);
        if refuses_writes {
            mix.weights.push((Kind::RefuseWrites, 1 + total / share));
        }
        let restores = p.chance(1, RESTORES_ONE_IN) && can_restore;
        // No maps are lost where only OSDs could detect it.
        let loses_marks = p.chance(1, 2);
        let made_at = (!loses_marks).then(|| p.below(100));
        let maps = if loses_marks { 0 } else { 1 + p.below(MAPS_LOST_MAX) };
        let loses_osd = p.chance(1, 2);
        let restore = Restore { made_at, maps, loses_marks, loses_osd };
        ControlTrials { refuses_writes, restore: restores.then_some(restore) }
    }

    /// Names of the conditions, and whether they hold.
    pub fn traits(&self) -> [(&'static str, bool); 2] {
        let loses_marks = |restore: Restore| restore.loses_marks;
        [
            ("a control store restored", self.restore.is_some_and(|it| !loses_marks(it))),
            ("one restored with its monitors", self.restore.is_some_and(loses_marks)),
        ]
    }
}
