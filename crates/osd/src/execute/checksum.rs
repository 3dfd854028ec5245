//! `CHECKSUM`: checksums of stored data, without sending the data.

use super::context::{Context, Stop};
use super::read;
use super::xxhash::{xxhash32, xxhash64};
use bytes::Bytes;
use codec::{Reader, Writer};
use types::Errno;
use wire::OsdOp;
use wire::op::checksum_kind;

const CHECKSUM_LEN_MAX: u64 = 8;

pub(super) fn checksum(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let mut arguments = op.checksum_arguments();
    let (size, chunk) = (context.info.size, u64::from(arguments.chunk_size));
    let misaligned = |length: u64| chunk > 0 && !length.is_multiple_of(chunk);
    if chunk > 0 && arguments.length == 0 || misaligned(arguments.length) {
        return Err(Errno::INVAL.into());
    }
    if arguments.offset == 0 && arguments.length == 0 {
        arguments.length = size; // the whole object
    } else if arguments.offset >= size {
        return Ok(0);
    } else if arguments.offset.saturating_add(arguments.length) > size {
        arguments.length = size - arguments.offset;
        if misaligned(arguments.length) {
            return Err(Errno::INVAL.into());
        }
    }
    let kind = Kind::new(arguments.kind, &op.input)?;
    // The checksums may be longer than the data.
    context.count_built(arguments.length.checked_div(chunk).unwrap_or(1) * CHECKSUM_LEN_MAX);
    let data = match arguments.length {
        0 => Bytes::new(),
        length => read::load_data(context, arguments.offset, length)?.data.clone(),
    };
    if data.len() as u64 != arguments.length {
        return Err(Errno::INVAL.into());
    }
    context.check_allowance()?;
    let chunk = if chunk > 0 { chunk as usize } else { data.len().max(1) };
    let mut w = Writer::new();
    w.count(data.len() / chunk);
    data.chunks(chunk).for_each(|chunk| kind.encode(&mut w, chunk));
    context.output = w.into_bytes();
    Ok(0)
}

/// A kind of checksum with its initial value.
enum Kind {
    Xxhash32(u32),
    Xxhash64(u64),
    Crc32c(u32),
}

impl Kind {
    fn new(number: u8, input: &[u8]) -> Result<Kind, Stop> {
        let mut r = Reader::new(input);
        Ok(match number {
            checksum_kind::XXHASH32 => Kind::Xxhash32(r.u32("initial value")?),
            checksum_kind::XXHASH64 => Kind::Xxhash64(r.u64("initial value")?),
            checksum_kind::CRC32C => Kind::Crc32c(r.u32("initial value")?),
            _ => return Err(Errno::INVAL.into()),
        })
    }

    fn encode(&self, w: &mut Writer, data: &[u8]) {
        match self {
            Kind::Xxhash32(seed) => w.u32(xxhash32(*seed, data)),
            Kind::Xxhash64(seed) => w.u64(xxhash64(*seed, data)),
            Kind::Crc32c(seed) => w.u32(crc32c(*seed, data)),
        }
    }
}

/// Castagnoli, reflected.
const CRC32C_POLYNOMIAL: u32 = 0x82f6_3b78;

const CRC32C_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ CRC32C_POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Ceph's crc32c: any initial value, and no inversion at either end.
fn crc32c(seed: u32, data: &[u8]) -> u32 {
    data.iter()
        .fold(seed, |crc, byte| crc >> 8 ^ CRC32C_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_is_the_raw_castagnoli_checksum() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(0, b""), 0);
    }
}
