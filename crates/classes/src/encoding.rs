//! How classes decode input and stored state, and encode output.

use crate::object::{Failure, Result};
use bytes::Bytes;
use types::Errno;

/// Input that older clients do not send.
pub(crate) struct IfPresent<T>(pub(crate) Option<T>);

impl<T: codec::Decode> codec::Decode for IfPresent<T> {
    fn decode(r: &mut codec::Reader<'_>) -> codec::Result<Self> {
        if r.is_empty() {
            Ok(IfPresent(None))
        } else {
            r.value().map(|value| IfPresent(Some(value)))
        }
    }
}

/// The rest of the bytes, without a length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raw(pub(crate) Bytes);

impl codec::Decode for Raw {
    fn decode(r: &mut codec::Reader<'_>) -> codec::Result<Self> {
        Ok(Raw(Bytes::copy_from_slice(r.rest())))
    }
}

impl codec::Encode for Raw {
    fn encode(&self, w: &mut codec::Writer) {
        w.raw(&self.0);
    }
}

/// Decodes a method's input; fails with EINVAL, as every class does.
pub(crate) fn decode_input<T: codec::Decode>(input: &[u8]) -> Result<T> {
    T::decode(&mut codec::Reader::new(input)).map_err(|_| Failure::Errno(Errno::INVAL))
}

/// Decodes stored state; fails with EIO.
pub(crate) fn decode_stored<T: codec::Decode>(stored: &[u8]) -> Result<T> {
    T::decode(&mut codec::Reader::new(stored)).map_err(|_| Failure::Errno(Errno::IO))
}

pub(crate) fn encode_output<T: codec::Encode + ?Sized>(value: &T, output: &mut Vec<u8>) {
    let mut w = codec::Writer::append_to(std::mem::take(output));
    value.encode(&mut w);
    *output = w.into_vec();
}
