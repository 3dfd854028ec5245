//! The head of a rank: where its journal begins, and what is stored in rows.

use crate::Chain;
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};

const MAGIC: u64 = u64::from_le_bytes(*b"SFS-RANK");
const VERSION: u8 = 1;
/// Feature: rows are being repaired. They contradict each other until the repair has ended.
const IN_REPAIR: u64 = 1;
/// Features of journals and rows that this program knows. A head that demands another one is refused.
const FEATURES: u64 = IN_REPAIR;
/// Size of the object.
pub const HEAD_BYTES: usize = 4096;
/// Most generations that a head names. A server that would need one more writes a checkpoint first, which
/// leaves one.
pub const SPANS_MAX: usize = 64;

/// Greatest number of a segment or record. No journal comes so far; more is damage.
const NUMBER_MAX: u64 = 1 << 62;

/// The part of a journal that one generation has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first segment that is still needed.
    pub segment: u64,
    /// The chain before its first frame.
    pub start: Chain,
    /// LSN behind the last record; `None` of the newest generation, whose end its reader finds.
    pub end: Option<u64>,
}

/// The head of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// The rank.
    pub rank: u32,
    /// Run of the server that wrote it, for people.
    pub incarnation: u64,
    /// All records up to this LSN are in rows.
    pub checkpoint: u64,
    /// Inode numbers below this one may have been used.
    pub numbers: u64,
    /// Parts of the journal, the oldest first; never empty.
    pub spans: Vec<Span>,
    /// A repair of the rows has begun and not ended: no server may open the rank.
    pub is_in_repair: bool,
}

impl Head {
    /// The newest generation.
    pub fn generation(&self) -> u32 {
        self.spans.last().map_or(0, |span| span.start.generation)
    }

    /// The content of the object.
    ///
    /// # Panics
    ///
    /// If there are more than [`SPANS_MAX`] spans.
    pub fn encode(&self) -> Bytes {
        assert!(self.spans.len() <= SPANS_MAX, "a head has room for its spans");
        seal(MAGIC, |w| {
            w.versioned(VERSION, VERSION, |w| {
                w.u64(if self.is_in_repair { IN_REPAIR } else { 0 });
                w.u32(self.rank);
                w.u64(self.incarnation);
                w.u64(self.checkpoint);
                w.u64(self.numbers);
                w.list(&self.spans, |w, span| {
                    w.u64(span.segment);
                    w.u32(span.start.generation);
                    w.u64(span.start.lsn);
                    w.u32(span.start.crc);
                    w.u64(span.end.unwrap_or(0));
                });
            });
        })
    }

    /// Decodes the content of the object.
    ///
    /// # Errors
    ///
    /// It is no head, it is damaged, or a newer program wrote it.
    pub fn decode(object: &[u8]) -> Result<Head> {
        let mut r = open(MAGIC, "head of a rank", object)?;
        r.versioned("head of a rank", VERSION, |r, _| {
            let at = *r;
            let features = r.u64("features")?;
            if features & !FEATURES != 0 {
                return Err(at.unknown("features", features));
            }
            let mut head = Head {
                rank: r.u32("rank")?,
                incarnation: r.u64("incarnation")?,
                checkpoint: r.u64("checkpoint")?,
                numbers: r.u64("numbers")?,
                spans: Vec::new(),
                is_in_repair: features & IN_REPAIR != 0,
            };
            let at = *r;
            head.spans = r.list("spans", span)?;
            if head.spans.is_empty() || head.spans.len() > SPANS_MAX {
                return Err(at.invalid("spans", head.spans.len() as u64));
            }
            Ok(head)
        })
    }
}

fn span(r: &mut Reader<'_>) -> Result<Span> {
    let at = *r;
    let segment = r.u64("segment")?;
    let generation = r.u32("generation")?;
    let start = Chain { generation, lsn: r.u64("LSN")?, crc: r.u32("checksum")? };
    if start.lsn == 0 || segment.max(start.lsn) > NUMBER_MAX || generation == u32::MAX {
        return Err(at.invalid("spans", start.lsn));
    }
    let end = r.u64("end")?;
    Ok(Span { segment, start, end: (end != 0).then_some(end) })
}

/// An object of [`HEAD_BYTES`]: magic, length of the body, checksum of it, body, zeros.
pub(crate) fn seal(magic: u64, body: impl FnOnce(&mut Writer)) -> Bytes {
    let mut inner = Writer::new();
    body(&mut inner);
    let mut w = Writer::with_capacity(HEAD_BYTES);
    w.u64(magic);
    w.count(inner.len());
    w.u32(crc_fast::crc32_iscsi(inner.as_slice()));
    w.raw(inner.as_slice());
    assert!(w.len() <= HEAD_BYTES, "the body fits into the object");
    w.zeros(HEAD_BYTES - w.len());
    w.into_bytes()
}

/// The body of such an object.
pub(crate) fn open<'a>(magic: u64, what: &'static str, object: &'a [u8]) -> Result<Reader<'a>> {
    let mut r = Reader::new(object);
    let at = r;
    let found = r.u64(what)?;
    if found != magic {
        return Err(at.invalid(what, found));
    }
    let length = r.u32("length")? as usize;
    let at = r;
    let crc = r.u32("checksum")?;
    let body = r.take(what, length)?;
    if crc_fast::crc32_iscsi(body) != crc {
        return Err(at.error("checksum", DecodeErrorKind::InvalidValue { value: crc.into() }));
    }
    Ok(Reader::new(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let span = |generation, end| Span {
            segment: 7,
            start: Chain { generation, lsn: 100, crc: 0xdead },
            end,
        };
        Head {
            rank: 0,
            incarnation: 4409,
            checkpoint: 99,
            numbers: (1 << 40) + 4096,
            spans: vec![span(1, Some(120)), span(2, None)],
            is_in_repair: false,
        }
    }

    #[test]
    fn a_head_round_trips_and_has_its_size() {
        let object = head().encode();
        assert_eq!(object.len(), HEAD_BYTES);
        assert_eq!(Head::decode(&object).unwrap(), head());
        assert_eq!(&object[..8], b"SFS-RANK");
        assert_eq!(head().generation(), 2);
        let head = Head { is_in_repair: true, ..head() };
        assert_eq!(Head::decode(&head.encode()).unwrap(), head);
    }

    #[test]
    fn a_full_head_fits() {
        let spans = vec![head().spans[0]; SPANS_MAX];
        let head = Head { spans, ..head() };
        assert_eq!(Head::decode(&head.encode()).unwrap(), head);
    }

    #[test]
    fn a_head_that_demands_an_unknown_feature_is_of_a_newer_program() {
        let object = seal(MAGIC, |w| w.versioned(VERSION, VERSION, |w| w.u64(FEATURES + 1)));
        let error = Head::decode(&object).unwrap_err();
        assert!(error.is_newer(), "{error}");
    }

    #[test]
    fn a_damaged_head_is_refused() {
        let object = head().encode();
        let used = object.iter().rposition(|byte| *byte != 0).unwrap();
        for at in 0..=used {
            let mut changed = object.to_vec();
            changed[at] ^= 1;
            assert!(Head::decode(&changed).is_err(), "byte {at}");
        }
    }
}
