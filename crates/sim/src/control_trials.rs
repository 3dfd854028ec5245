//! What the control store of a seed is put to besides: it takes no writes for a while, or is restored from a backup.
//!
//! Drawn apart from everything else, like [`crate::trials`].

use crate::faults::Kind;
use crate::scenario::FaultMix;
use stdx::Prng;

const SALT: u64 = 0x0063_6f6e_7472_6f6c;
/// In one seed of so many, of those with faults, the store takes no writes now and then.
const REFUSALS_ONE_IN: u64 = 4;
/// One seed of so many, of those in which it can, ends with a store that went back.
const RESTORES_ONE_IN: u64 = 2;
/// How much of all faults the refusals may be.
const SHARES: [u64; 3] = [1, 4, 10];
const MAPS_LOST_MAX: u64 = 4;

#[derive(Debug, Clone, Copy, Default)]
pub struct ControlTrials {
    pub refuses_writes: bool,
    pub restore: Option<Restore>,
}

/// A control store that is restored from a backup while no monitor runs.
#[derive(Debug, Clone, Copy)]
pub struct Restore {
    /// In which part of the load the backup is made, in percent; nothing: when all is over, and no map is lost.
    pub made_at: Option<u64>,
    /// So many maps are made in the end, that the backup lacks in any case.
    pub maps: u64,
    /// Monitors go back with it: their marks are lost, too.
    pub loses_marks: bool,
    /// An OSD is away at the same time, so that there would be a map to make.
    pub loses_osd: bool,
}

impl ControlTrials {
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
        // Where nothing but OSDs could tell that maps are lost, none are.
        let loses_marks = p.chance(1, 2);
        let made_at = (!loses_marks).then(|| p.below(100));
        let maps = if loses_marks { 0 } else { 1 + p.below(MAPS_LOST_MAX) };
        let loses_osd = p.chance(1, 2);
        let restore = Restore { made_at, maps, loses_marks, loses_osd };
        ControlTrials { refuses_writes, restore: restores.then_some(restore) }
    }

    pub fn traits(&self) -> [(&'static str, bool); 2] {
        let loses_marks = |restore: Restore| restore.loses_marks;
        [
            ("a control store restored", self.restore.is_some_and(|it| !loses_marks(it))),
            ("one restored with its monitors", self.restore.is_some_and(loses_marks)),
        ]
    }
}
