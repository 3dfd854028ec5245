//! The list of changes in a held change: the value of its only attribute.
//!
//! It is followed by a filler of zeros, which keeps space in the tree for what settling adds to it.

use super::varint;
use crate::device::BLOCK;
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use store::{Change, join_held, split_held};
use types::HObject;

/// Changes whose data lies elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldFields {
    /// The changes; writes have no data.
    pub changes: Vec<Change>,
    /// Blocks of each write, in order.
    pub write_blocks: Vec<u32>,
    /// Length of the filler in bytes.
    pub filler: u64,
}

impl HeldFields {
    /// Of changes with data in whole blocks.
    pub fn of(changes: &[Change]) -> Self {
        let write_blocks = changes.iter().filter_map(|change| match change {
            Change::Write { data, .. } => Some((data.len() / BLOCK) as u32),
            _ => None,
        });
        let write_blocks = write_blocks.collect();
        let changes = changes.iter().map(|change| match change {
            Change::Write { object, offset, .. } => {
                Change::Write { object: object.clone(), offset: *offset, data: Bytes::new() }
            }
            change => change.clone(),
        });
        HeldFields { changes: changes.collect(), write_blocks, filler: 0 }
    }

    /// Blocks of all writes.
    pub fn blocks(&self) -> u64 {
        self.write_blocks.iter().copied().map(u64::from).sum()
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let lengths = self.changes.iter().map(encoded_len).sum::<usize>();
        let capacity = lengths + self.filler as usize + (self.write_blocks.len() + 3) * 5;
        let mut out = Vec::with_capacity(capacity);
        varint::push(&mut out, self.write_blocks.len() as u64);
        self.write_blocks.iter().for_each(|count| varint::push(&mut out, (*count).into()));
        let mut w = Writer::append_to(out);
        split_held(&self.changes, &mut w);
        let mut out = w.into_vec();
        varint::push(&mut out, self.filler);
        out.resize(out.len() + self.filler as usize, 0);
        out.into()
    }

    /// Decodes the stored form.
    pub fn decode(bytes: &[u8]) -> Result<HeldFields> {
        let mut r = Reader::new(bytes);
        let at = r;
        let count = varint::take(&mut r, "held writes")?;
        let mut write_blocks = Vec::new();
        for _ in 0..count {
            let at = r;
            let blocks = varint::take(&mut r, "blocks of a held write")?;
            let fits = u32::try_from(blocks);
            write_blocks.push(fits.map_err(|_| at.invalid("blocks of a held write", blocks))?);
        }
        let changes = join_held(&mut r, &Bytes::new())?;
        let filler_at = r;
        let filler = varint::take(&mut r, "length of the filler")?;
        let zeros = r.take("filler", usize::try_from(filler).unwrap_or(usize::MAX))?;
        if let Some(byte) = zeros.iter().find(|byte| **byte != 0) {
            return Err(filler_at.invalid("filler", (*byte).into()));
        }
        r.finish("held changes")?;
        let writes = changes.iter().filter(|change| matches!(change, Change::Write { .. })).count();
        match writes as u64 == count {
            true => Ok(HeldFields { changes, write_blocks, filler }),
            false => Err(at.invalid("held writes", count)),
        }
    }

    /// The changes, each with the length of its data in bytes.
    pub fn with_lengths(&self) -> impl Iterator<Item = (&Change, u64)> {
        let mut blocks = self.write_blocks.iter();
        self.changes.iter().map(move |change| {
            let blocks = match change {
                Change::Write { .. } => *blocks.next().expect("as many as writes"),
                _ => 0,
            };
            (change, u64::from(blocks) * BLOCK as u64)
        })
    }

    /// The changes with their data.
    pub fn with_data(self, data: &Bytes) -> Result<Vec<Change>> {
        let needed = self.blocks() as usize * BLOCK;
        if needed > data.len() {
            let kind = DecodeErrorKind::Truncated { needed, available: data.len() };
            return Err(Reader::new(&[]).error("held data", kind));
        }
        let mut changes = self.changes;
        let (mut lengths, mut start) = (self.write_blocks.into_iter(), 0);
        for change in &mut changes {
            if let Change::Write { data: own, .. } = change {
                let length = lengths.next().expect("as many as writes") as usize * BLOCK;
                *own = data.slice(start..start + length);
                start += length;
            }
        }
        Ok(changes)
    }

    /// The write to which a byte of the data belongs, as its object and the offset in that.
    pub fn origin(&self, offset: u64) -> Option<(&HObject, u64)> {
        let mut lengths = self.write_blocks.iter();
        let mut start = 0;
        for change in &self.changes {
            if let Change::Write { object, offset: at, .. } = change {
                let end = start + u64::from(*lengths.next()?) * BLOCK as u64;
                if offset < end {
                    return Some((object, at + (offset - start)));
                }
                start = end;
            }
        }
        None
    }
}

/// About the length of a change, rather more.
fn encoded_len(change: &Change) -> usize {
    const USUAL: usize = 64;
    let name =
        |object: &HObject| USUAL + object.name.len() + object.key.len() + object.namespace.len();
    let more = match change {
        Change::SetAttrs { attrs, .. } => {
            attrs.iter().map(|(name, value)| name.len() + value.len() + 8).sum()
        }
        Change::Clone { object, .. } => name(object),
        _ => 0,
    };
    change.object().map_or(0, name) + more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, byte: u8, blocks: usize) -> Change {
        let data = Bytes::from(vec![byte; blocks * BLOCK]);
        Change::Write { object: HObject::default(), offset, data }
    }

    /// Stores of earlier versions have these values.
    #[test]
    fn the_bytes_are_those_of_the_format() {
        let object = |snap| {
            let name = Bytes::from_static(b"rows");
            let head = HObject::head(types::PoolId(2), "".into(), "".into(), name, 0x1234_5678);
            HObject { snap: types::SnapId(snap), ..head }
        };
        let attrs = [(Bytes::from_static(b"_"), Bytes::from_static(b"info"))].into();
        let data = Bytes::from(vec![7; 3 * BLOCK]);
        let changes = [
            Change::Clone { object: object(u64::MAX - 1), target: object(7) },
            Change::Write { object: object(u64::MAX - 1), offset: 8192, data },
            Change::Zero { object: object(u64::MAX - 1), offset: 4096, length: 4096 },
            Change::SetAttrs { object: object(u64::MAX - 1), attrs },
        ];
        let fields = HeldFields { filler: 2, ..HeldFields::of(&changes) };
        let bytes = fields.encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            concat!(
                "0103040000000e0403250000000000000004000000726f7773feffffffffffffff7856341200000000000200",
                "0000000000000403250000000000000004000000726f77730700000000000000785634120000000000020000",
                "0000000000030403250000000000000004000000726f7773feffffffffffffff785634120000000000020000",
                "0000000000002000000000000000000000040403250000000000000004000000726f7773feffffffffffffff",
                "7856341200000000000200000000000000001000000000000000100000000000000704032500000000000000",
                "04000000726f7773feffffffffffffff785634120000000000020000000000000001000000010000005f0400",
                "0000696e666f020000"
            )
        );
        assert_eq!(HeldFields::decode(&bytes), Ok(fields));
    }

    #[test]
    fn changes_come_back_with_their_data() {
        let touch = Change::Touch { object: HObject::default() };
        let changes = vec![write(8192, 1, 2), touch, write(0, 0, 0), write(4096, 3, 300)];
        let fields = HeldFields { filler: 300, ..HeldFields::of(&changes) };
        assert_eq!((fields.blocks(), &fields.write_blocks[..]), (302, &[2, 0, 300][..]));
        let bytes = fields.encode();
        assert_eq!(HeldFields::decode(&bytes), Ok(fields.clone()));
        for end in 0..bytes.len() {
            assert!(HeldFields::decode(&bytes[..end]).is_err());
        }
        assert!(HeldFields::decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(HeldFields { write_blocks: vec![2, 0], ..fields.clone() }.blocks() == 2);
        let short = HeldFields { write_blocks: vec![2, 0], ..fields.clone() }.encode();
        assert!(HeldFields::decode(&short).is_err());
        assert_eq!(fields.origin(5000), Some((&HObject::default(), 8192 + 5000)));
        assert_eq!(fields.origin(8192), Some((&HObject::default(), 4096)));
        assert_eq!(fields.origin(302 * 4096), None);
        let data = Bytes::from([vec![1; 2 * BLOCK], vec![3; 300 * BLOCK]].concat());
        assert!(fields.clone().with_data(&data.slice(1..)).is_err());
        assert_eq!(fields.with_data(&data), Ok(changes));
    }
}
