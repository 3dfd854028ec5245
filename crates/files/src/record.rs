//! One transaction in the log.
//!
//! `fields_len u32`, fields, `data_len u64`, data. The fields are what the replay must not decide
//! anew (the ids that are given out, the copies that were made for clones), then the transaction's
//! own; the data is that of its writes, one after the other.

use crate::object::{read_sums, write_sums};
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use store::Transaction;

/// A copy of an object's data, as it was before the transaction, that a clone starts from. If it
/// has blocks, they are durable in the file of object `id` before the record is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneBase {
    /// Id of the copy, and of its file.
    pub id: u64,
    /// Size in bytes.
    pub size: u64,
    /// Checksums by block.
    pub sums: Vec<u32>,
}

/// A transaction with the decisions made at its preparation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// New objects get ids from this one on, at most one per change.
    pub reserved_id: u64,
    /// One per `Change::Clone`, in order.
    pub clones: Vec<CloneBase>,
    /// The changes.
    pub transaction: Transaction,
}

/// A record's bytes; the data is held by reference.
#[derive(Debug)]
pub struct Encoded {
    fields: Vec<u8>,
    data: Vec<Bytes>,
    data_len: usize,
}

const FIXED_LEN: usize = 4 + 8;

impl Record {
    /// The record's bytes; data is not copied.
    pub fn encode(&self) -> Encoded {
        let mut w = Writer::with_capacity(512);
        w.u64(self.reserved_id);
        w.list(&self.clones, |w, base| {
            w.u64(base.id);
            w.u64(base.size);
            w.count(base.sums.len());
            write_sums(w, &base.sums);
        });
        let data = self.transaction.split(&mut w);
        let data_len = data.iter().map(Bytes::len).sum();
        Encoded { fields: w.into_vec(), data, data_len }
    }

    /// Decodes one record; its data refers to `body`, in which `r` reads.
    pub fn decode(r: &mut Reader<'_>, body: &Bytes) -> Result<Record> {
        let fields = r.blob("record fields")?;
        let at = *r;
        let length = r.u64("record data length")?;
        let start = r.offset();
        let needed = usize::try_from(length).unwrap_or(usize::MAX);
        if needed > r.remaining() {
            let kind = DecodeErrorKind::Truncated { needed, available: r.remaining() };
            return Err(at.error("record data", kind));
        }
        r.skip("record data", needed)?;
        let mut f = Reader::new(fields);
        let reserved_id = f.u64("reserved id")?;
        let clones = f.list("clones", |r| {
            let (id, size) = (r.u64("clone id")?, r.u64("clone size")?);
            let count = r.count("clone checksums")?;
            Ok(CloneBase { id, size, sums: read_sums(r, count)? })
        })?;
        let transaction = Transaction::join(&mut f, &body.slice(start..start + needed))?;
        f.finish("record")?;
        Ok(Record { reserved_id, clones, transaction })
    }
}

impl Encoded {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        FIXED_LEN + self.fields.len() + self.data_len
    }

    /// Appends the bytes to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.fields.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.fields);
        out.extend((self.data_len as u64).to_le_bytes());
        self.data.iter().for_each(|data| out.extend_from_slice(data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Change, Collection};
    use types::HObject;

    #[test]
    fn records_round_trip_and_every_truncation_is_an_error() {
        let mut transaction = Transaction::new();
        let object = HObject::default();
        for data in ["one", "", "three"] {
            let write = Change::Write { object: object.clone(), offset: 5, data: data.into() };
            transaction.push(Collection::default(), write);
        }
        let clones = vec![CloneBase { id: 3, size: 9000, sums: vec![1, 0, 2] }];
        let record = Record { reserved_id: 77, clones, transaction };
        let encoded = record.encode();
        let mut bytes = Vec::new();
        encoded.write(&mut bytes);
        assert_eq!(bytes.len(), encoded.len());
        let body = Bytes::from(bytes);
        assert_eq!(Record::decode(&mut Reader::new(&body), &body).unwrap(), record);
        for end in 0..body.len() {
            let cut = body.slice(..end);
            assert!(Record::decode(&mut Reader::new(&cut), &cut).is_err());
        }
    }
}
