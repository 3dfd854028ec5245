//! The members of a group that take part in writes, and sets of them with a bound.
//!
//! A set is one word, so a group has at most [`MEMBERS_MAX`] members. Only [`Participants`] makes a
//! [`MemberIndex`], so a set cannot overflow, whatever a map says.

use std::ops::Deref;
use types::OsdId;

/// Members of a group: the acting set, and those that are being backfilled. A group with more is not served.
pub(crate) const MEMBERS_MAX: usize = 64;

/// A map gives a group more members than [`MEMBERS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the map gives the group {0} members, and {MEMBERS_MAX} are the most that are served")]
pub(crate) struct TooManyMembers(pub usize);

/// The members that take part in writes: the acting set, then the backfill targets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Participants(Vec<OsdId>);

impl Participants {
    pub fn new(members: impl IntoIterator<Item = OsdId>) -> Result<Self, TooManyMembers> {
        let members: Vec<OsdId> = members.into_iter().collect();
        match members.len() <= MEMBERS_MAX {
            true => Ok(Participants(members)),
            false => Err(TooManyMembers(members.len())),
        }
    }

    /// The place of a member; `None` if the OSD does not take part.
    pub fn index_of(&self, osd: OsdId) -> Option<MemberIndex> {
        let index = self.0.iter().position(|member| *member == osd)?;
        Some(MemberIndex(u8::try_from(index).expect("participants are at most 64")))
    }

    /// The members besides this one, in order.
    pub fn without(&self, osd: OsdId) -> Vec<OsdId> {
        self.0.iter().copied().filter(|member| *member != osd).collect()
    }

    /// The members of a set, in order.
    pub fn select(&self, set: MemberSet) -> impl Iterator<Item = OsdId> + '_ {
        let all = (0..).map(MemberIndex).zip(&self.0);
        all.filter(move |(index, _)| set.contains(*index)).map(|(_, osd)| *osd)
    }
}

impl Deref for Participants {
    type Target = [OsdId];

    fn deref(&self) -> &[OsdId] {
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
        let absent = MEMBERS_MAX - participants.len();
        // Without participants, the shift would be by the whole word.
        MemberSet(u64::MAX.checked_shr(absent as u32).unwrap_or(0))
    }

    pub fn insert(&mut self, member: MemberIndex) {
        self.0 |= 1 << member.0;
    }

    pub fn remove(&mut self, member: MemberIndex) {
        self.0 &= !(1 << member.0);
    }

    pub fn contains(self, member: MemberIndex) -> bool {
        self.0 & 1 << member.0 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn participants(count: i32) -> Result<Participants, TooManyMembers> {
        Participants::new((0..count).map(OsdId))
    }

    #[test]
    fn a_set_of_all_has_just_the_participants() {
        for count in [0, 1, 2, 63, 64] {
            let participants = participants(count).unwrap();
            let mut set = MemberSet::all(&participants);
            let selected: Vec<OsdId> = participants.select(set).collect();
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
        let [first, last] = [0, 63].map(|osd| participants.index_of(OsdId(osd)).unwrap());
        let mut set = MemberSet::default();
        set.insert(last);
        assert!(set.contains(last) && !set.contains(first));
        assert_eq!(participants.select(set).collect::<Vec<_>>(), [OsdId(63)]);
    }

    #[test]
    fn more_than_a_set_can_have_are_refused() {
        assert_eq!(participants(65), Err(TooManyMembers(65)));
        assert_eq!(participants(64).unwrap().index_of(OsdId(64)), None);
    }
}
