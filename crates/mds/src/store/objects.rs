//! Objects of the metadata pool, and operations on them.

use bytes::Bytes;
use codec::{Reader, Writer};
use rados::{Place, Steps};
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;

/// Pairs of one request for rows.
pub const PAGE_MAX: u64 = 1024;

/// All data of an object; `None` if it does not exist.
///
/// # Errors
///
/// Of the request.
pub async fn read_all(steps: &Steps, place: &Place) -> Result<Option<Bytes>, Errno> {
    match steps.read(place, vec![OsdOp::read(0, 0)]).await {
        Ok(reply) => Ok(Some(reply.ops.into_iter().next().ok_or(Errno::IO)?.output)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Pairs of an object, in the order of keys.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Keys and values.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Whether there are more behind them.
    pub more: bool,
}

/// The pairs behind a key; none if the object does not exist.
///
/// # Errors
///
/// Of the request, or EIO if the answer does not decode.
pub async fn read_pairs(steps: &Steps, place: &Place, after: &[u8]) -> Result<Pairs, Errno> {
    let mut w = Writer::new();
    w.blob(after);
    w.u64(PAGE_MAX);
    w.blob(b"");
    let op = OsdOp::new(OpCode::OMAPGETVALS).with_input(w.into_bytes());
    match steps.read(place, vec![op]).await {
        Ok(reply) => {
            let output = reply.ops.into_iter().next().ok_or(Errno::IO)?.output;
            decode_pairs(&output, true).map_err(|_| Errno::IO)
        }
        Err(Errno::NOENT) => Ok(Pairs::default()),
        Err(error) => Err(error),
    }
}

/// The pairs of these keys, as far as they exist.
///
/// # Errors
///
/// See [`read_pairs`].
pub async fn read_keys(
    steps: &Steps,
    place: &Place,
    keys: &[Bytes],
) -> Result<Vec<(Bytes, Bytes)>, Errno> {
    let mut w = Writer::new();
    w.list(keys, |w, key| w.blob(key));
    let op = OsdOp::new(OpCode::OMAPGETVALSBYKEYS).with_input(w.into_bytes());
    match steps.read(place, vec![op]).await {
        Ok(reply) => {
            let output = reply.ops.into_iter().next().ok_or(Errno::IO)?.output;
            Ok(decode_pairs(&output, false).map_err(|_| Errno::IO)?.pairs)
        }
        Err(Errno::NOENT) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn decode_pairs(output: &Bytes, tells_more: bool) -> codec::Result<Pairs> {
    let mut r = Reader::new(output);
    let pair = |r: &mut Reader<'_>| {
        Ok((output.slice_ref(r.blob("key")?), output.slice_ref(r.blob("value")?)))
    };
    let pairs = r.list("pairs", pair)?;
    let more = tells_more && r.bool("more")?;
    Ok(Pairs { pairs, more })
}
