//! Encoding of the object map: Ceph's `BitVector<2>`, four states in a byte from the highest bits down.

use codec::{Decode, Reader, Result, Writer};
use std::fmt;

const STATES_PER_BYTE: u64 = 4;

/// State of an object in the map (`OBJECT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The object does not exist.
    Nonexistent = 0,
    /// The object exists and was written since the newest snapshot.
    Exists = 1,
    /// The object is about to be removed.
    Pending = 2,
    /// The object exists and was not written since the newest snapshot.
    Clean = 3,
}

impl State {
    fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => State::Nonexistent,
            1 => State::Exists,
            2 => State::Pending,
            _ => State::Clean,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Nonexistent => "nonexistent",
            State::Exists => "written",
            State::Pending => "about to be removed",
            State::Clean => "unchanged since the last snapshot",
        })
    }
}

/// See the module's description.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectMap {
    len: u64,
    bytes: Vec<u8>,
}

fn shift(object: u64) -> u32 {
    6 - 2 * (object % STATES_PER_BYTE) as u32
}

impl ObjectMap {
    /// Makes a map from one state number per object.
    pub(super) fn from_states(states: &[u8]) -> Self {
        let len = states.len() as u64;
        let bytes = vec![0; len.div_ceil(STATES_PER_BYTE) as usize];
        let mut map = ObjectMap { len, bytes };
        for (object, state) in (0..).zip(states) {
            map.set(object, State::from_bits(*state));
        }
        map
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// False only if the object is known not to exist; objects behind the end of the map may exist.
    pub fn may_exist(&self, object: u64) -> bool {
        self.get(object) != Some(State::Nonexistent)
    }

    /// Number of existing objects before `end`.
    pub fn existing(&self, end: u64) -> u64 {
        (0..end.min(self.len)).filter(|object| self.may_exist(*object)).count() as u64
    }

    /// Turns clean into existing.
    pub(super) fn without_clean(mut self) -> Self {
        for object in 0..self.len {
            if self.get(object) == Some(State::Clean) {
                self.set(object, State::Exists);
            }
        }
        self
    }

    pub(super) fn encode_unchecked(&self, w: &mut Writer) {
        w.sized(|w| w.versioned(1, 1, |w| w.u64(self.len)));
        w.raw(&self.bytes);
        w.blob(&[]);
    }

    pub(crate) fn get(&self, object: u64) -> Option<State> {
        if object >= self.len {
            return None;
        }
        let byte = self.bytes[(object / STATES_PER_BYTE) as usize];
        Some(State::from_bits(byte >> shift(object)))
    }

    pub(crate) fn set(&mut self, object: u64, state: State) {
        if object < self.len {
            let byte = &mut self.bytes[(object / STATES_PER_BYTE) as usize];
            *byte = *byte & !(3 << shift(object)) | (state as u8) << shift(object);
        }
    }
}

/// A header with the number of objects, the states, and optional checksums, which are ignored: the transport
/// has its own.
impl Decode for ObjectMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let header = r.blob("object map header")?;
        let len = Reader::new(header).versioned("object map", 1, |r, _| r.u64("objects"))?;
        let bytes = usize::try_from(len.div_ceil(STATES_PER_BYTE)).unwrap_or(usize::MAX);
        let bytes = r.take("object states", bytes)?.to_vec();
        let _checksums = r.blob("checksums")?;
        Ok(ObjectMap { len, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(len: u64, bytes: &[u8]) -> Vec<u8> {
        let mut w = Writer::new();
        ObjectMap { len, bytes: bytes.to_vec() }.encode_unchecked(&mut w);
        w.into_vec()
    }

    #[test]
    fn states_lie_from_the_highest_bits_down() {
        let mut map: ObjectMap = codec::decode_all("it", &encoded(5, &[0b00_01_10_11, 0])).unwrap();
        let states: Vec<_> = (0..6).map(|object| map.get(object)).collect();
        let (none, some) = (Some(State::Nonexistent), Some(State::Exists));
        let (pending, clean) = (Some(State::Pending), Some(State::Clean));
        assert_eq!(states, [none, some, pending, clean, none, None]);
        assert_eq!((map.existing(9), map.may_exist(4), map.may_exist(5)), (3, false, true));
        map.set(4, State::Clean);
        map.set(9, State::Exists);
        assert_eq!((map.get(4), map.get(3)), (clean, clean));
    }

    #[test]
    fn a_map_that_is_shorter_than_it_says_is_refused() {
        assert!(codec::decode_all::<ObjectMap>("it", &encoded(9, &[0, 0])).is_err());
        assert!(codec::decode_all::<ObjectMap>("it", &encoded(u64::MAX, &[0, 0])).is_err());
    }
}
