//! Scrub: checks that all copies of a group are the same, and can be read.
//!
//! ```text
//! stamps    when a group is due             round     one scrub, run by the primary
//! scan      reading one copy                member    a replica's answers
//! map       description of one copy         compare   which copies differ, which is right
//! findings  inconsistencies, for clients    message   between members
//! families  whether clones fit their head   shards    which shards contradict others
//! ```
//!
//! `docs/internals/scrub.md` has the reasons. Nothing here changes an object;
//! `serving/repair.rs` replaces bad copies.

mod compare;
mod families;
mod findings;
mod map;
mod member;
pub mod message;
mod round;
mod scan;
mod shards;
mod stamps;

pub use compare::{Expected, compare};
pub use families::{SnapFinding, snapset};
pub use findings::{Authority, Count, Finding, Shard, object, shard};
pub use map::{KnownInfo, KnownSet, Level, OmapSize, ScrubMap, ScrubObject};
pub use member::{MemberTag, ReplicaScan};
pub use round::{End, Round, RoundOutput, RoundTag, View};
pub use scan::{Extent, Scan, ScanTag};
#[cfg(test)]
pub(crate) use shards::compare_shards;
pub use stamps::{Forbidden, Intervals, OmapTotals, Order, STAMPS_KEY, Stamps};

#[cfg(test)]
mod tests;
