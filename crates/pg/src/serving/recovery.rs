//! The state of log-based recovery: the objects in work, and the progress of the search for more.

use crate::message::Cursor;
use crate::rows::RowSet;
use crate::{Member, ObjectInfo};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject};

/// The log-based recovery of a group, in one interval; all on the primary.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(super) active: BTreeMap<HObject, Operation>,
    /// Number of missing items of all other participants.
    pub members_missing: usize,
    /// Recoveries that were begun in this interval.
    pub(super) begun: u64,
    /// Objects that this primary cannot read, and no other copy has, with the needed version.
    pub unreadable: BTreeMap<HObject, EVersion>,
    /// Copies of other OSDs that could not be read, and that their OSDs do not list as missing.
    pub spared: BTreeSet<(Member, HObject)>,
    /// Shards of objects that could not be read, and are not marked missing yet, with the version that was
    /// read. Not stored: a later read finds them again.
    pub(super) suspects: BTreeMap<HObject, (EVersion, BTreeSet<Member>)>,
    /// Objects that clients wait for, and whose recovery could not be started.
    pub wanted: BTreeSet<HObject>,
    /// Set if no recovery can be started until something changes.
    pub(super) is_stuck: bool,
    /// The progress of the search for objects to start.
    pub search: Search,
    /// Set if a disk has no space for an object to recover.
    pub is_toofull: bool,
}

#[derive(Debug, Default)]
pub(super) struct Operation {
    /// The OSD from which the primary pulls it.
    pub(super) pulling: Option<Member>,
    /// The members to which it is pushed.
    pub(super) pushing: BTreeMap<Member, Sent>,
    /// Set if members keep shards: these are decoded from others.
    pub(super) rebuild: Option<Rebuild>,
}

/// The progress of shards of one object that are decoded, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Rebuild {
    /// The version of all pieces; zero if it is not known yet.
    pub(super) need: EVersion,
    /// Bytes of each shard that were read.
    pub(super) next: u64,
    /// Members that get only changed rows, with the version that they have. Others get all.
    pub(super) changed: BTreeMap<Member, (EVersion, RowSet)>,
    /// Whether a piece is being read.
    pub(super) is_reading: bool,
    /// The object's info, and all of its attributes, once the first piece is read.
    pub(super) info: Option<Box<ObjectInfo>>,
    pub(super) attrs: BTreeMap<Bytes, Bytes>,
}

/// The piece of an object that a member was sent last in this operation.
#[derive(Debug, PartialEq)]
pub(super) enum Sent {
    /// No piece, or one that the member has stored.
    Nothing,
    /// A piece, and where the next one begins.
    Piece(Option<Cursor>),
}

impl Operation {
    /// Whether a member answers the piece that it was sent last, not one of an earlier operation.
    pub(super) fn is_answer(&self, from: Member, next: Option<&Cursor>) -> bool {
        match self.pushing.get(&from) {
            // The member found a piece of another version, and asks for the object from its start.
            Some(_) if next.is_some_and(Cursor::is_start) => true,
            Some(Sent::Piece(sent)) => sent.as_ref() == next,
            _ => false,
        }
    }
}

impl Recovery {
    pub(super) fn begin_one(&mut self, object: &HObject, operation: Operation) {
        self.begun += 1;
        let is_empty = operation.pulling.is_none() && operation.pushing.is_empty();
        assert!(!is_empty, "a recovery pulls or pushes the object");
        let before = self.active.insert(object.clone(), operation);
        assert!(before.is_none(), "an object is recovered once at a time");
    }

    /// Objects may be recoverable that were not: searches from the beginning.
    pub fn retry(&mut self) {
        self.search = Search::default();
        self.is_stuck = false;
        self.is_toofull = false;
    }

    /// Objects that were pulled from this OSD are pulled from another one.
    pub fn forget_source(&mut self, source: Member) {
        self.active.retain(|_, operation| operation.pulling != Some(source));
        self.retry();
    }

    /// An object is missing that the search may have passed.
    pub fn restart_search(&mut self) {
        self.search = Search::default();
        self.is_stuck &= self.is_toofull;
    }

    /// A write is durable on all members: its object can be recovered.
    pub fn clear_stuck(&mut self) {
        if self.search.passed_writes() {
            self.search = Search::default();
        }
        self.is_stuck &= self.is_toofull;
    }

    /// Number of recoveries that were begun in this interval.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Number of objects in recovery.
    pub fn count(&self) -> usize {
        self.active.len()
    }

    /// Whether shards are to be marked missing.
    pub fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Whether the object is in recovery.
    pub fn is_active(&self, object: &HObject) -> bool {
        self.active.contains_key(object)
    }
}

/// A position in the lists that are searched, in this order: objects that clients wait for, the primary's
/// missing set, objects that it cannot read, and the missing set of each participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) list: usize,
    /// The version is zero in lists that are sorted by object only.
    pub(super) after: (EVersion, HObject),
}

pub(super) const WANTED: usize = 0;

pub(super) const OWN: usize = 1;

pub(super) const UNREADABLE: usize = 2;

pub(super) const OF_PARTICIPANTS: usize = 3;

/// The progress of the search.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Everything up to here was started, or cannot be started now.
    pub(super) place: Option<Place>,
    pub(super) is_over: bool,
    /// Set if an object was passed because a write of it was in flight.
    passed_writes: bool,
}

impl Search {
    /// Whether all lists were searched.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the search passed an object with a write in flight: it must search again.
    pub fn passed_writes(&self) -> bool {
        self.passed_writes
    }

    /// Notes that the object at this position was examined.
    pub fn passed(&mut self, place: Place) {
        self.place = Some(place);
    }

    /// Notes that all lists were searched.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Notes that an object was passed because of a write.
    pub fn note_write_in_flight(&mut self) {
        self.passed_writes = true;
    }
}

/// The number of unfound objects. It takes a look at each missing object, so they are counted in rounds.
#[derive(Debug, Default)]
pub(crate) struct UnfoundCount {
    /// Where the round continues: in the missing set, then in the unreadable objects, then in those that
    /// members miss.
    pub(super) next: Option<(Kind, HObject)>,
    pub(super) so_far: u64,
    /// The result of the last round.
    pub(super) known: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Missing,
    Unreadable,
    /// Missing on this participant, by index, and in none of the lists before.
    OfMember(usize),
}
