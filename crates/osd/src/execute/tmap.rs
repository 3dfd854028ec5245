//! Trivial maps (tmap): a header and sorted pairs that are an object's data. Superseded by
//! attributes and omap; librbd still keeps the directory of format 1 images in one.
//!
//! ```text
//! map      header: bytes, count: u32, (key: string, value: bytes)…      ascending by key
//! update   (command: u8, …)…   h header | s key value | c key value | r key | R key
//! ```

use super::context::{Context, Stop};
use super::view::ENTRY_COST;
use super::{read, write};
use bytes::Bytes;
use codec::{DecodeError, Reader};
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;

/// Larger maps are refused.
const LENGTH_MAX: u64 = 8 << 20;
/// Two length fields.
const ENTRY_LEN_MIN: u64 = 8;

#[derive(Debug, Default)]
struct Map {
    header: Bytes,
    pairs: BTreeMap<Bytes, Bytes>,
}

fn invalid(_: DecodeError) -> Stop {
    Errno::INVAL.into()
}

impl Map {
    fn decode(data: &Bytes) -> Result<Map, Stop> {
        if data.is_empty() {
            return Ok(Map::default());
        }
        let (header, pairs) = codec::decode_all("trivial map", data).map_err(invalid)?;
        Ok(Map { header, pairs })
    }

    fn encode(&self) -> Bytes {
        codec::encode_to_bytes(&(self.header.clone(), self.pairs.clone()))
    }

    fn update(&mut self, commands: &Bytes) -> Result<(), Stop> {
        let mut r = Reader::new(commands);
        while r.remaining() > 0 {
            let command = r.u8("command").map_err(invalid)?;
            self.one(command, &mut r)?;
        }
        Ok(())
    }

    fn one(&mut self, command: u8, r: &mut Reader<'_>) -> Result<(), Stop> {
        if command == b'h' {
            self.header = r.value().map_err(invalid)?;
            return Ok(());
        }
        let key: Bytes = r.value().map_err(invalid)?;
        match command {
            b's' | b'c' => {
                if command == b'c' && self.pairs.contains_key(&key) {
                    return Err(Errno::EXIST.into());
                }
                self.pairs.insert(key, r.value().map_err(invalid)?);
            }
            b'r' | b'R' => {
                if self.pairs.remove(&key).is_none() && command == b'r' {
                    return Err(Errno::NOENT.into());
                }
            }
            _ => return Err(Errno::INVAL.into()),
        }
        Ok(())
    }
}

/// The object's data; empty if it does not exist.
fn map_data(context: &mut Context<'_>) -> Result<Bytes, Stop> {
    match context.info.size {
        _ if !context.exists => Ok(Bytes::new()),
        0 => Ok(Bytes::new()),
        length if length > LENGTH_MAX => Err(Errno::FBIG.into()),
        length => {
            // Counted for decoding and for encoding again.
            context.count_built(length / ENTRY_LEN_MIN * ENTRY_COST + length);
            let data = read::load_data(context, 0, length)?.data.clone();
            context.check_allowance()?;
            Ok(data)
        }
    }
}

pub(super) fn map_get(context: &mut Context<'_>) -> Result<i32, Stop> {
    if !context.exists {
        return Err(Errno::NOENT.into());
    }
    context.output = map_data(context)?;
    Ok(0)
}

pub(super) fn map_put(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    context.count(op.input.len() as u64 / ENTRY_LEN_MIN * ENTRY_COST);
    context.check_allowance()?;
    let map = Map::decode(&op.input)?;
    write::write_full(context, map.encode())
}

pub(super) fn map_update(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let mut map = Map::decode(&map_data(context)?)?;
    map.update(&op.input)?;
    write::write_full(context, map.encode())
}
