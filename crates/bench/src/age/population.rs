//! The objects that exist, and the space that they take.

use super::contents::Contents;
use stdx::Prng;

/// Unit of the space account, in bytes: the common allocation unit of stores.
pub const ALLOCATION_UNIT: u64 = 4096;

/// Space that an object of this size takes.
pub fn space_of(size: u32) -> u64 {
    u64::from(size).next_multiple_of(ALLOCATION_UNIT)
}

/// One object's name and state.
#[derive(Debug, Default)]
struct Slot {
    /// Number of writes under this name, through all lives of the object.
    generation: u32,
    /// Its place among the living or the absent.
    index: usize,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Absent,
    Living(Contents),
    /// The outcome of an operation is unknown: nothing is expected.
    Unknown,
}

/// Expected state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected<'a> {
    Absent,
    Contents { contents: &'a Contents, newest_generation: u32 },
    Unknown,
}

/// Names, the objects among them that exist, and the expected content of each.
#[derive(Debug, Default)]
pub struct Population {
    slots: Vec<Slot>,
    /// In an order that depends on the history alone.
    living: Vec<u32>,
    /// Names that can be reused.
    absent: Vec<u32>,
    space: u64,
}

impl Population {
    /// Space of one copy of all objects, in bytes, rounded up to allocation units per object.
    pub fn space(&self) -> u64 {
        self.space
    }

    /// Number of objects that exist.
    pub fn living(&self) -> usize {
        self.living.len()
    }

    /// Number of names ever used.
    pub fn names(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Total size of all objects.
    pub fn bytes(&self) -> u64 {
        self.all_contents().map(|contents| u64::from(contents.size())).sum()
    }

    /// Runs of bytes that were written at once, over all objects.
    pub fn extents(&self) -> u64 {
        self.all_contents().map(|contents| contents.extents() as u64).sum()
    }

    fn all_contents(&self) -> impl Iterator<Item = &Contents> {
        self.living.iter().filter_map(|object| self.contents(*object))
    }

    /// Expected state of an object.
    pub fn expected(&self, object: u32) -> Expected<'_> {
        let slot = &self.slots[object as usize];
        match &slot.state {
            State::Absent => Expected::Absent,
            State::Living(contents) => {
                Expected::Contents { contents, newest_generation: slot.generation }
            }
            State::Unknown => Expected::Unknown,
        }
    }

    /// `None` unless the object exists.
    pub fn contents(&self, object: u32) -> Option<&Contents> {
        match &self.slots[object as usize].state {
            State::Living(contents) => Some(contents),
            State::Absent | State::Unknown => None,
        }
    }

    /// One of the living, if there are any.
    pub fn choose(&self, prng: &mut Prng) -> Option<u32> {
        (!self.living.is_empty()).then(|| *prng.choose(&self.living))
    }

    /// A name that was never used.
    pub fn new_name(&mut self) -> u32 {
        let name = self.names();
        self.slots.push(Slot::default());
        enter(&mut self.absent, &mut self.slots, name);
        name
    }

    /// A name whose object was deleted, if there is one.
    pub fn old_name(&self, prng: &mut Prng) -> Option<u32> {
        (!self.absent.is_empty()).then(|| *prng.choose(&self.absent))
    }

    /// Counts a write under a name.
    pub fn next_generation(&mut self, object: u32) -> u32 {
        let generation = &mut self.slots[object as usize].generation;
        *generation += 1;
        *generation
    }

    /// Sets an object's content; `None`: it does not exist.
    pub fn set(&mut self, object: u32, contents: Option<Contents>) {
        let state = contents.map_or(State::Absent, State::Living);
        self.replace(object, state);
    }

    /// Drops all expectations about an object, and excludes it from later steps.
    pub fn forget(&mut self, object: u32) {
        self.replace(object, State::Unknown);
    }

    fn replace(&mut self, object: u32, state: State) {
        let before = std::mem::take(&mut self.slots[object as usize].state);
        match &before {
            State::Absent => leave(&mut self.absent, &mut self.slots, object),
            State::Living(contents) => {
                self.space -= space_of(contents.size());
                leave(&mut self.living, &mut self.slots, object);
            }
            State::Unknown => {}
        }
        match &state {
            State::Absent => enter(&mut self.absent, &mut self.slots, object),
            State::Living(contents) => {
                self.space += space_of(contents.size());
                enter(&mut self.living, &mut self.slots, object);
            }
            State::Unknown => {}
        }
        self.slots[object as usize].state = state;
    }

    /// Checks that the totals match the objects.
    #[cfg(test)]
    pub fn check_invariants(&self) {
        for (at, object) in self.living.iter().enumerate() {
            assert!(self.contents(*object).is_some(), "{object} does not live");
            assert_eq!(self.slots[*object as usize].index, at);
        }
        for (at, name) in self.absent.iter().enumerate() {
            assert_eq!(self.expected(*name), Expected::Absent);
            assert_eq!(self.slots[*name as usize].index, at);
        }
        let space: u64 = self.all_contents().map(|contents| space_of(contents.size())).sum();
        assert_eq!(self.space, space);
    }
}

fn enter(names: &mut Vec<u32>, slots: &mut [Slot], name: u32) {
    slots[name as usize].index = names.len();
    names.push(name);
}

fn leave(names: &mut Vec<u32>, slots: &mut [Slot], name: u32) {
    let index = slots[name as usize].index;
    names.swap_remove(index);
    if let Some(moved) = names.get(index) {
        slots[*moved as usize].index = index;
    }
}
