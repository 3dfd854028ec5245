//! Replies to commands, simple or structured.

use crate::CommandError;
use crate::protocol::{ALLOCATION_ID, CHUNK_MAGIC, SIMPLE_REPLY_MAGIC, chunk, extent};
use crate::transmission::Data;
use bytes::{BufMut, Bytes, BytesMut};

const CHUNK_HEAD_LEN: usize = 20;
/// Zeros that are sent where the reply form has no holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

pub(crate) fn simple(cookie: u64, error: Option<CommandError>, output: &mut Vec<Bytes>) {
    let mut head = BytesMut::with_capacity(16);
    head.put_u32(SIMPLE_REPLY_MAGIC);
    head.put_u32(error.map_or(0, |error| error as u32));
    head.put_u64(cookie);
    output.push(head.freeze());
}

fn chunk_head(flags: u16, kind: u16, cookie: u64, length: usize) -> BytesMut {
    let mut head = BytesMut::with_capacity(CHUNK_HEAD_LEN + 12);
    head.put_u32(CHUNK_MAGIC);
    head.put_u16(flags);
    head.put_u16(kind);
    head.put_u64(cookie);
    head.put_u32(length as u32);
    head
}

pub(crate) fn done(cookie: u64, output: &mut Vec<Bytes>) {
    output.push(chunk_head(chunk::DONE, chunk::NONE, cookie, 0).freeze());
}

pub(crate) fn error(cookie: u64, error: CommandError, output: &mut Vec<Bytes>) {
    let text = error.to_string();
    let mut bytes = chunk_head(chunk::DONE, chunk::ERROR, cookie, 6 + text.len());
    bytes.put_u32(error as u32);
    bytes.put_u16(text.len() as u16);
    bytes.put_slice(text.as_bytes());
    output.push(bytes.freeze());
}

fn put_zeros(mut length: u64, output: &mut Vec<Bytes>) {
    while length > 0 {
        let part = length.min(ZEROS.len() as u64);
        output.push(Bytes::from_static(&ZEROS[..part as usize]));
        length -= part;
    }
}

/// All data consecutively, with zeros written out.
pub(crate) fn plain_data(data: Vec<Data>, output: &mut Vec<Bytes>) {
    for part in data {
        match part {
            Data::Bytes(bytes) => output.push(bytes),
            Data::Zeros(length) => put_zeros(length, output),
        }
    }
}

/// One chunk for all data.
pub(crate) fn whole(cookie: u64, offset: u64, data: Vec<Data>, output: &mut Vec<Bytes>) {
    let length: u64 = data.iter().map(Data::len).sum();
    let mut head = chunk_head(chunk::DONE, chunk::DATA, cookie, 8 + length as usize);
    head.put_u64(offset);
    output.push(head.freeze());
    plain_data(data, output);
}

/// One chunk for each part; zeros become hole chunks.
pub(crate) fn fragments(cookie: u64, mut offset: u64, data: Vec<Data>, output: &mut Vec<Bytes>) {
    if data.is_empty() {
        return done(cookie, output);
    }
    let last = data.len() - 1;
    for (index, part) in data.into_iter().enumerate() {
        let flags = if index == last { chunk::DONE } else { 0 };
        let length = part.len();
        match part {
            Data::Bytes(bytes) => {
                let mut head = chunk_head(flags, chunk::DATA, cookie, 8 + bytes.len());
                head.put_u64(offset);
                output.push(head.freeze());
                output.push(bytes);
            }
            Data::Zeros(length) => {
                let mut head = chunk_head(flags, chunk::HOLE, cookie, 12);
                head.put_u64(offset);
                // A command reads at most LENGTH_MAX bytes.
                head.put_u32(length as u32);
                output.push(head.freeze());
            }
        }
        offset += length;
    }
}

impl Data {
    /// Bytes of the part as the client sees it.
    pub fn len(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Zeros(length) => *length,
        }
    }

    /// True for a part without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

pub(crate) fn status(cookie: u64, extents: &[(u64, bool)], output: &mut Vec<Bytes>) {
    let mut bytes = chunk_head(chunk::DONE, chunk::BLOCK_STATUS, cookie, 4 + 8 * extents.len());
    bytes.put_u32(ALLOCATION_ID);
    for (length, is_data) in extents {
        // A range has at most LENGTH_MAX bytes.
        bytes.put_u32(*length as u32);
        bytes.put_u32(if *is_data { 0 } else { extent::HOLE | extent::ZERO });
    }
    output.push(bytes.freeze());
}
