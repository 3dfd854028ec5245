//! The data of one object: a size and the ranges that hold bytes.
//!
//! Invariants: extents are not empty, do not overlap and end at or before `size`. Bytes between them read as
//! zeros. Extents are kept exactly as they were written, so holes are exact to the byte.

use crate::ReadData;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Data of one object, with holes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SparseData {
    size: u64,
    /// By offset.
    extents: BTreeMap<u64, Bytes>,
}

impl SparseData {
    /// Size in bytes, holes included.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes in extents.
    pub fn allocated(&self) -> u64 {
        self.extents.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// An empty write has no effect.
    pub fn write(&mut self, offset: u64, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let end = offset.saturating_add(bytes.len() as u64);
        self.punch(offset, end);
        self.size = self.size.max(end);
        self.extents.insert(offset, bytes);
    }

    /// Makes the range a hole; the size stays.
    pub fn zero(&mut self, offset: u64, length: u64) {
        self.punch(offset, offset.saturating_add(length));
    }

    /// Sets the size.
    pub fn truncate(&mut self, size: u64) {
        self.punch(size, u64::MAX);
        self.size = size;
    }

    /// Data of a range, up to the end.
    pub fn read(&self, offset: u64, length: u64) -> ReadData {
        let end = offset.saturating_add(length).min(self.size);
        let mut data = vec![0; end.saturating_sub(offset) as usize];
        let mut extents: Vec<(u64, u64)> = Vec::new();
        for (start, bytes) in self.overlapping(offset, end) {
            let at = (start - offset) as usize;
            data[at..at + bytes.len()].copy_from_slice(&bytes);
            match extents.last_mut() {
                Some((last, length)) if *last + *length == start => *length += bytes.len() as u64,
                _ => extents.push((start, bytes.len() as u64)),
            }
        }
        ReadData { data: data.into(), extents }
    }

    /// The parts of extents within `start..end`, ascending.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, Bytes)> + '_ {
        let first = self.extents.range(..start).next_back().map_or(start, |(at, _)| *at);
        let range = if first < end { first..end } else { end..end };
        self.extents.range(range).filter_map(move |(&at, bytes)| {
            let from = start.max(at);
            let to = end.min(at + bytes.len() as u64);
            (from < to).then(|| (from, bytes.slice((from - at) as usize..(to - at) as usize)))
        })
    }

    /// Makes `start..end` a hole.
    fn punch(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.extents.range(..start).next_back().map_or(start, |(at, _)| *at);
        let hit: Vec<u64> = self.extents.range(first..end).map(|(at, _)| *at).collect();
        for at in hit {
            let bytes = self.extents.remove(&at).expect("listed just now");
            let bytes_end = at + bytes.len() as u64;
            if at < start {
                self.extents.insert(at, bytes.slice(..(bytes_end.min(start) - at) as usize));
            }
            if bytes_end > end {
                let from = end.max(at);
                self.extents.insert(from, bytes.slice((from - at) as usize..));
            }
        }
    }

    /// Panics if parts of the state contradict each other.
    pub fn check_invariants(&self) {
        let mut last_end = 0;
        for (at, bytes) in &self.extents {
            assert!(!bytes.is_empty(), "empty extent at {at}");
            assert!(*at >= last_end, "extent at {at} overlaps the one that ends at {last_end}");
            last_end = at + bytes.len() as u64;
        }
        assert!(last_end <= self.size, "extent ends at {last_end}, the object at {}", self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The data byte by byte; `None` for a byte of a hole.
    type Plain = Vec<Option<u8>>;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        Zero(u64, u64),
        Truncate(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..80, prop::collection::vec(any::<u8>(), 0..30))
                .prop_map(|(o, d)| Step::Write(o, d)),
            (0u64..80, 0u64..40).prop_map(|(o, l)| Step::Zero(o, l)),
            (0u64..100).prop_map(Step::Truncate),
        ]
    }

    fn apply_plainly(plain: &mut Plain, step: &Step) {
        match step {
            Step::Write(offset, data) if !data.is_empty() => {
                let end = *offset as usize + data.len();
                plain.resize(plain.len().max(end), None);
                for (i, byte) in data.iter().enumerate() {
                    plain[*offset as usize + i] = Some(*byte);
                }
            }
            Step::Write(..) => {}
            Step::Zero(offset, length) => {
                let (start, end) = (*offset as usize, (offset + length) as usize);
                plain.iter_mut().take(end).skip(start).for_each(|byte| *byte = None);
            }
            Step::Truncate(size) => plain.resize(*size as usize, None),
        }
    }

    fn extents_of(plain: &Plain, offset: usize) -> Vec<(u64, u64)> {
        let mut extents: Vec<(u64, u64)> = Vec::new();
        for at in (0..plain.len()).filter(|at| plain[*at].is_some()) {
            let at = (offset + at) as u64;
            match extents.last_mut() {
                Some((start, length)) if *start + *length == at => *length += 1,
                _ => extents.push((at, 1)),
            }
        }
        extents
    }

    proptest! {
        #[test]
        fn sparse_data_equals_an_array_with_marked_holes(
            steps in prop::collection::vec(step(), 0..40), offset in 0u64..110, length in 0u64..110
        ) {
            let (mut data, mut plain) = (SparseData::default(), Plain::new());
            for step in &steps {
                apply_plainly(&mut plain, step);
                match step.clone() {
                    Step::Write(offset, bytes) => data.write(offset, bytes.into()),
                    Step::Zero(offset, length) => data.zero(offset, length),
                    Step::Truncate(size) => data.truncate(size),
                }
                data.check_invariants();
            }
            prop_assert_eq!(data.size(), plain.len() as u64);
            let start = plain.len().min(offset as usize);
            let part = plain[start..plain.len().min((offset + length) as usize).max(start)].to_vec();
            let read = data.read(offset, length);
            prop_assert_eq!(read.extents, extents_of(&part, start));
            let bytes: Vec<u8> = part.iter().map(|byte| byte.unwrap_or(0)).collect();
            prop_assert_eq!(read.data, bytes);
        }
    }
}
