//! The identity of a group's members, and sets of those that take part in writes, with a bound.
//!
//! A set is one word, so a group has at most [`MEMBERS_MAX`] members. Only [`Participants`] makes a
//! [`MemberIndex`], so a set cannot overflow, whatever a map says.

use std::fmt;
use std::ops::Deref;
use types::{OsdId, ShardId};

/// `pg_shard_t`: an OSD's copy of a group, or its shard of an erasure-coded one. An OSD may keep several
/// shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The OSD.
    pub osd: OsdId,
    /// Position in the acting set; [`ShardId::NONE`] in replicated groups.
    pub shard: ShardId,
}

impl Member {
    /// The copy of a replicated group.
    pub const fn replicated(osd: OsdId) -> Self {
        Member { osd, shard: ShardId::NONE }
    }
}

/// The number of the OSD, and behind it, in brackets, that of the shard if there is one.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.osd.fmt(f)?;
        match self.shard.position() {
            Some(position) => write!(f, "({position})"),
            None => Ok(()),
        }
    }
}

/// Members of a group: the acting set, and those that are being backfilled. A group with more is not served.
pub(crate) const MEMBERS_MAX: usize = 64;

/// A map gives a group more members than [`MEMBERS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the map gives the group {0} members, and {MEMBERS_MAX} are the most that are served")]
pub(crate) struct TooManyMembers(pub usize);

/// The members that take part in writes: the acting set, then the backfill targets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Participants(Vec<Member>);

impl Participants {
    /// Numbers the members in this order. Fails above [`MEMBERS_MAX`].
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self, TooManyMembers> {
        let members: Vec<Member> = members.into_iter().collect();
        match members.len() <= MEMBERS_MAX {
            true => Ok(Participants(members)),
            false => Err(TooManyMembers(members.len())),
        }
    }

    /// The place of a member; `None` if it does not take part.
    pub fn index_of(&self, member: Member) -> Option<MemberIndex> {
        let index = self.0.iter().position(|other| *other == member)?;
        Some(MemberIndex(u8::try_from(index).expect("participants are at most 64")))
    }

    /// The members besides this one, in order.
    pub fn without(&self, member: Member) -> Vec<Member> {
        self.0.iter().copied().filter(|other| *other != member).collect()
    }

    /// The members of a set, in order.
    pub fn select(&self, set: MemberSet) -> impl Iterator<Item = Member> + '_ {
        let all = (0..).map(MemberIndex).zip(&self.0);
        all.filter(move |(index, _)| set.contains(*index)).map(|(_, osd)| *osd)
    }
}

impl Deref for Participants {
    type Target = [Member];

    fn deref(&self) -> &[Member] {
        &self.0
    }
}

/// The place of a member among the participants, below [`MEMBERS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemberIndex(u8);

/// A set of participants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MemberSet(u64);

impl MemberSet {
    /// All of these participants.
    pub fn all(participants: &Participants) -> Self {
        assert!(participants.len() <= MEMBERS_MAX, "a set has a bit for each member");
        let absent = MEMBERS_MAX - participants.len();
        // Without participants, the shift would be by the whole word.
        MemberSet(u64::MAX.checked_shr(absent as u32).unwrap_or(0))
    }

    /// Adds a member.
    pub fn insert(&mut self, member: MemberIndex) {
        assert!(usize::from(member.0) < MEMBERS_MAX, "a set has a bit for each member");
        self.0 |= 1 << member.0;
    }

    /// Removes a member; no effect if it is not in the set.
    pub fn remove(&mut self, member: MemberIndex) {
        assert!(usize::from(member.0) < MEMBERS_MAX, "a set has a bit for each member");
        self.0 &= !(1 << member.0);
    }

    /// Whether the member is in the set.
    pub fn contains(self, member: MemberIndex) -> bool {
        self.0 & 1 << member.0 != 0
    }

    /// Whether the set has no members.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn participants(count: i32) -> Result<Participants, TooManyMembers> {
        Participants::new((0..count).map(|id| Member::replicated(OsdId(id))))
    }

    #[test]
    fn a_set_of_all_has_just_the_participants() {
        for count in [0, 1, 2, 63, 64] {
            let participants = participants(count).unwrap();
            let mut set = MemberSet::all(&participants);
            let selected: Vec<Member> = participants.select(set).collect();
            assert_eq!(selected, participants.to_vec());
            for osd in &selected {
                assert!(!set.is_empty());
                set.remove(participants.index_of(*osd).unwrap());
            }
            assert!(set.is_empty());
        }
    }

    #[test]
    fn a_set_has_what_was_inserted() {
        let participants = participants(64).unwrap();
        let [first, last] =
            [0, 63].map(|id| participants.index_of(Member::replicated(OsdId(id))).unwrap());
        let mut set = MemberSet::default();
        set.insert(last);
        assert!(set.contains(last) && !set.contains(first));
        assert_eq!(participants.select(set).collect::<Vec<_>>(), [Member::replicated(OsdId(63))]);
    }

    #[test]
    fn more_than_a_set_can_have_are_refused() {
        assert_eq!(participants(65), Err(TooManyMembers(65)));
        assert_eq!(participants(64).unwrap().index_of(Member::replicated(OsdId(64))), None);
    }
}
