//! Encoding of the metadata space: the bitmap of pages.
//!
//! There are two forms. Up to [`RUNS_NAMED_MAX`] runs have fields of fixed length; larger numbers
//! of runs are mostly short ones, and take as few bytes as possible.

use super::run::{PageRun, WORD, Words};
use super::{PageSpace, RUN_MAX};
use crate::object::varint;
use codec::{DecodeErrorKind, Reader, Writer};

const MAGIC: &[u8; 8] = b"sepioMPS";
const MAGIC_OF_MANY: &[u8; 8] = b"sepioMPM";
/// Maximum number of runs in the first form.
pub const RUNS_NAMED_MAX: usize = crate::superblock::METADATA_RUNS_MAX;
/// Length of magic, number of runs, and the checksum at the end.
const FRAME: usize = 8 + 8 + 4;
const BYTE: u64 = 8;

impl PageSpace {
    fn has_many(&self) -> bool {
        self.runs.len() > RUNS_NAMED_MAX
    }

    /// Length of [`PageSpace::encode`] in bytes.
    pub fn encoded_length(&self) -> usize {
        if self.has_many() {
            return FRAME + self.bytes_of_many;
        }
        let words: usize = self.runs.values().map(|run| run.words.len()).sum();
        FRAME + self.runs.len() * 16 + words * 8
    }

    /// The state after [`PageSpace::commit`].
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(self.encoded_length());
        w.raw(if self.has_many() { MAGIC_OF_MANY } else { MAGIC });
        w.u64(self.runs.len() as u64);
        for (start, run) in &self.runs {
            match self.has_many() {
                true => w.raw(&run.encode_of_many(*start)),
                false => {
                    w.u64(*start);
                    w.u64(run.pages);
                    run.words_after().for_each(|word| w.u64(word));
                }
            }
        }
        w.u32(crc_fast::crc32_iscsi(w.as_slice()));
        w.into_vec()
    }

    /// Decodes the output of [`PageSpace::encode`]; zeros may follow.
    pub fn decode(raw: &[u8]) -> codec::Result<Self> {
        let mut r = Reader::new(raw);
        let magic = r.take("page space", MAGIC.len())?;
        if magic != MAGIC && magic != MAGIC_OF_MANY {
            return Err(r.invalid("page space magic", 0));
        }
        let (mut space, mut end) = (PageSpace::default(), 0);
        for _ in 0..r.u64("page runs")? {
            let at = r;
            let (start, pages) = match magic == MAGIC {
                true => (r.u64("run start")?, r.u64("run pages")?),
                false => (varint::take(&mut r, "run start")?, varint::take(&mut r, "run pages")?),
            };
            let behind = start.checked_add(pages);
            let Some(behind) = behind.filter(|_| start >= end && (1..=RUN_MAX).contains(&pages))
            else {
                return Err(at.invalid("page run", start));
            };
            end = behind;
            let run = match magic == MAGIC {
                true => PageRun::decode(&mut r, pages)?,
                false => PageRun::decode_of_many(&mut r, pages)?,
            };
            space.insert(start, run);
        }
        let computed = crc_fast::crc32_iscsi(&raw[..r.offset()]);
        let at = r;
        match r.u32("page space crc")? {
            found if found == computed => Ok(space),
            found => Err(at.error("page space crc", DecodeErrorKind::Checksum { found, computed })),
        }
    }
}

impl PageRun {
    pub(super) fn bytes_of_many(&self, start: u64) -> usize {
        varint::length(start) + varint::length(self.pages) + self.pages.div_ceil(BYTE) as usize
    }

    fn encode_of_many(&self, start: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes_of_many(start));
        varint::push(&mut out, start);
        varint::push(&mut out, self.pages);
        let bits = self.words_after().flat_map(|word| word.to_le_bytes());
        out.extend(bits.take(self.pages.div_ceil(BYTE) as usize));
        out
    }

    fn decode_of_many(r: &mut Reader<'_>, pages: u64) -> codec::Result<Self> {
        let at = *r;
        let raw = r.take("page bits", pages.div_ceil(BYTE) as usize)?;
        let words = raw.chunks(size_of::<u64>()).map(|bytes| {
            let mut word = [u8::MAX; size_of::<u64>()];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        PageRun::of_words(&at, pages, words.collect())
    }

    fn decode(r: &mut Reader<'_>, pages: u64) -> codec::Result<Self> {
        let at = *r;
        let raw = r.take("page bits", pages.div_ceil(WORD) as usize * size_of::<u64>())?;
        let word = |raw: &[u8]| u64::from_le_bytes(raw.try_into().expect("eight bytes"));
        PageRun::of_words(&at, pages, raw.chunks_exact(size_of::<u64>()).map(word).collect())
    }

    /// Bits after the last page must be set.
    fn of_words(at: &Reader<'_>, pages: u64, words: Words) -> codec::Result<Self> {
        let mut run = PageRun::of(pages, words);
        let padding = run.padding_bits();
        if run.words.last().is_none_or(|last| last & padding != padding) {
            return Err(at.invalid("page bits behind the run", pages));
        }
        let set: u64 = run.words.iter().map(|word| u64::from(word.count_ones())).sum();
        run.used = set - run.padding();
        Ok(run)
    }
}
