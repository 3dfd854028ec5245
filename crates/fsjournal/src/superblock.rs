//! The description of a file system, written once when it is created.

use crate::head::{open, seal};
use bytes::Bytes;
use codec::Result;

const MAGIC: u64 = u64::from_le_bytes(*b"SFSSUPER");
const VERSION: u8 = 1;
/// Version of all formats in the metadata pool.
const FORMAT: u32 = 1;
/// Features without which a program must not use the pool; this one knows none.
const FEATURES: u64 = 0;

/// The description of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Super {
    /// Its id.
    pub id: [u8; 16],
    /// The data pool of the root directory.
    pub data_pool: i64,
    /// The next chunk of 2^40 inode numbers that no rank has taken.
    pub next_chunk: u64,
}

impl Super {
    /// The first chunk that is given out; those below belong to ranks by their number, as in Ceph.
    pub const FIRST_CHUNK: u64 = 0x200;

    /// The content of the object.
    pub fn encode(&self) -> Bytes {
        seal(MAGIC, |w| {
            w.versioned(VERSION, VERSION, |w| {
                w.u32(FORMAT);
                w.u64(FEATURES);
                w.raw(&self.id);
                w.i64(self.data_pool);
                w.u64(self.next_chunk);
            });
        })
    }

    /// Decodes the content of the object.
    ///
    /// # Errors
    ///
    /// It is something else, it is damaged, or a newer program wrote it.
    pub fn decode(object: &[u8]) -> Result<Super> {
        let mut r = open(MAGIC, "description of a file system", object)?;
        r.versioned("description of a file system", VERSION, |r, _| {
            let at = *r;
            let format = r.u32("format")?;
            let features = r.u64("features")?;
            if format != FORMAT || features & !FEATURES != 0 {
                return Err(at.unknown("format", format.into()));
            }
            Ok(Super {
                id: r.array("id")?,
                data_pool: r.i64("data pool")?,
                next_chunk: r.u64("next chunk")?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_round_trips_and_nothing_else_is_one() {
        let description = Super { id: [7; 16], data_pool: 3, next_chunk: Super::FIRST_CHUNK };
        let object = description.encode();
        assert_eq!(Super::decode(&object).unwrap(), description);
        assert!(Super::decode(&[]).is_err());
        assert!(Super::decode(&crate::Head::default().encode()).is_err());
    }
}
