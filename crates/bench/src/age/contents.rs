//! Expected content of an object: the generation of each of its bytes.

use super::pattern::PatternKey;

/// Generation of bytes never written; they are zero.
const HOLE: u32 = 0;

/// A run of bytes from one generation; it begins where the one before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    end: u32,
    generation: u32,
}

/// Extents in order, without gaps. Generations begin at 1.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    extents: Vec<Extent>,
}

impl Contents {
    /// Bytes up to the end of the last extent.
    pub fn size(&self) -> u32 {
        self.extents.last().map_or(0, |last| last.end)
    }

    /// Number of runs of bytes.
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// Replaces a range; bytes between the former end and `offset` become a hole.
    pub fn write(&mut self, offset: u32, length: u32, generation: u32) {
        assert!(generation > HOLE, "generations begin at 1");
        if length == 0 {
            return;
        }
        let end = offset.checked_add(length).expect("objects are bounded");
        let first = self.extents.partition_point(|extent| extent.end <= offset);
        let behind = self.extents.partition_point(|extent| extent.end <= end);
        let before = (self.start(first) < offset).then(|| Extent {
            end: offset,
            generation: self.extents.get(first).map_or(HOLE, |extent| extent.generation),
        });
        self.extents.splice(first..behind, before.into_iter().chain([Extent { end, generation }]));
    }

    /// Cuts the content to `size` bytes if it is longer.
    pub fn truncate(&mut self, size: u32) {
        let first = self.extents.partition_point(|extent| extent.end < size);
        if let Some(cut) = self.extents.get_mut(first) {
            cut.end = size;
            self.extents.truncate(if size == 0 { 0 } else { first + 1 });
        }
    }

    fn start(&self, index: usize) -> u32 {
        index.checked_sub(1).map_or(0, |before| self.extents[before].end)
    }

    /// Each extent's generation, with its first byte and the one behind its last.
    fn runs(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        let starts = std::iter::once(0).chain(self.extents.iter().map(|extent| extent.end));
        self.extents
            .iter()
            .zip(starts)
            .map(|(extent, start)| (extent.generation, start, extent.end))
    }

    /// Describes the first error in `found`; generations up to `newest` have been written at some time.
    pub fn compare(&self, seed: u64, object: u32, newest: u32, found: &[u8]) -> Result<(), String> {
        if found.len() != self.size() as usize {
            return Err(format!("{} bytes where {} were written", found.len(), self.size()));
        }
        let mut expected = Vec::new();
        for (generation, start, end) in self.runs() {
            let found = &found[start as usize..end as usize];
            expected.clear();
            expected.resize(found.len(), 0);
            if generation != HOLE {
                PatternKey::new(seed, object, generation).fill(start.into(), &mut expected);
            }
            if expected != found {
                let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
                let offset = start + at as u32;
                let word = &found[at..found.len().min(at + 8)];
                let holds = identify(seed, object, newest, offset, word);
                return Err(format!("generation {generation} at {offset} expected, found {holds}"));
            }
        }
        Ok(())
    }
}

/// Likely origin of wrong bytes.
fn identify(seed: u64, object: u32, newest: u32, offset: u32, word: &[u8]) -> String {
    if word.iter().all(|byte| *byte == 0) {
        return "zeros".to_owned();
    }
    let is_from =
        |generation| PatternKey::new(seed, object, generation).matches(offset.into(), word);
    match (HOLE + 1..=newest).rev().find(|generation| is_from(*generation)) {
        Some(generation) => format!("generation {generation}"),
        None => format!("bytes that were never written there ({word:02x?})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    const SEED: u64 = 5;

    /// The generation of each byte.
    fn flat(contents: &Contents) -> Vec<u32> {
        let runs = contents.runs();
        runs.flat_map(|(generation, start, end)| (start..end).map(move |_| generation)).collect()
    }

    #[test]
    fn contents_behave_like_an_array_of_generations() {
        let mut prng = Prng::new(SEED);
        let (mut contents, mut model) = (Contents::default(), Vec::new());
        for generation in 1..5000 {
            let offset = prng.below(60) as usize;
            if prng.chance(1, 6) {
                contents.truncate(offset as u32);
                model.truncate(offset);
            } else {
                let end = offset + prng.below(20) as usize;
                if model.len() < end && offset < end {
                    model.resize(end, HOLE);
                }
                model.get_mut(offset..end).unwrap_or_default().fill(generation);
                contents.write(offset as u32, (end - offset) as u32, generation);
            }
            assert_eq!(flat(&contents), model);
            assert!(contents.extents.is_sorted_by(|a, b| a.end < b.end));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut contents = Contents::default();
        contents.write(0, 100, 1);
        contents.write(8, 20, 2);
        contents.write(120, 8, 3);
        let mut right = vec![0; 128];
        for (generation, start, end) in [(1, 0, 100), (2, 8, 28), (3, 120, 128)] {
            PatternKey::new(SEED, 9, generation).fill(start, &mut right[start as usize..end]);
        }
        let compare = |found: &[u8]| contents.compare(SEED, 9, 3, found);
        assert_eq!(compare(&right), Ok(()));
        assert_eq!(compare(&right[..127]), Err("127 bytes where 128 were written".to_owned()));
        let mut lost = right.clone();
        PatternKey::new(SEED, 9, 1).fill(8, &mut lost[8..28]);
        let said = compare(&lost).unwrap_err();
        assert_eq!(said, "generation 2 at 8 expected, found generation 1");
        let mut zeroed = right.clone();
        zeroed[16..28].fill(0);
        assert_eq!(compare(&zeroed).unwrap_err(), "generation 2 at 16 expected, found zeros");
        let mut flipped = right;
        flipped[110] ^= 1;
        assert!(compare(&flipped).unwrap_err().contains("never written"));
    }
}
