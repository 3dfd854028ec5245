//! Metadata of an object: the value of an `O` pair.

use super::segment::ExtentSegment;
use super::varint::{self, VARINT_LEN_MAX};
use super::{INLINE_BLOCKS, INLINE_SIZE_MAX, OBJECT_SIZE_MAX};
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result};
use std::collections::BTreeMap;

const VERSION: u8 = 1;

const HAS_OMAP: u8 = 1;
const IS_INLINE: u8 = 2;
const FLAGS: u8 = HAS_OMAP | IS_INLINE;

/// Maximum length of version, flags, id, size and number of attributes.
const HEAD_LEN_MAX: usize = 2 + 3 * VARINT_LEN_MAX;

/// Metadata of one object. Its encoding is the value of an `O` pair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Onode {
    /// Identifies this life of the object in keys of extent segments and omap pairs. Never used
    /// again.
    pub id: u64,
    /// Size in bytes, holes included.
    pub size: u64,
    /// Extended attributes by name; names and values are not interpreted.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// Set if there may be omap keys or a header.
    pub has_omap: bool,
    /// The only extent segment if it is stored inline; `None` if segments are pairs of their own.
    /// Boxed, because onodes are moved and this is most of one.
    pub inline: Option<Box<ExtentSegment>>,
}

impl Onode {
    /// An empty object.
    pub fn new(id: u64) -> Self {
        Onode { id, inline: Some(Box::default()), ..Onode::default() }
    }

    /// Set if an object of this size in bytes keeps its extent segment in the onode.
    pub fn fits_inline(size: u64) -> bool {
        size <= INLINE_SIZE_MAX
    }

    /// Makes extent segments pairs of their own. Returns segment 0 if it must be put.
    #[must_use]
    pub fn spill(&mut self) -> Option<ExtentSegment> {
        self.inline.take().map(|segment| *segment).filter(|segment| !segment.is_empty())
    }

    /// Stores the former segment 0 in the onode. Its pair must be removed, and no other segment may
    /// exist.
    pub fn absorb(&mut self, segment: ExtentSegment) {
        assert!(
            segment.end() <= INLINE_BLOCKS,
            "an inline extent segment of {} blocks",
            segment.end()
        );
        self.inline = Some(Box::new(segment));
    }

    /// Panics if size and inline segment exceed their bounds or contradict each other.
    pub fn check_invariants(&self) {
        assert!(self.size <= OBJECT_SIZE_MAX, "size {}", self.size);
        if let Some(segment) = &self.inline {
            segment.check_invariants();
            assert!(
                Onode::fits_inline(self.size),
                "size {} with an inline extent segment",
                self.size
            );
            assert!(
                segment.end() <= INLINE_BLOCKS,
                "an inline extent segment of {} blocks",
                segment.end()
            );
        }
    }

    /// Encodes the value of an `O` pair.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.encoded_len_max());
        out.push(VERSION);
        let inline = if self.inline.is_some() { IS_INLINE } else { 0 };
        out.push(inline | if self.has_omap { HAS_OMAP } else { 0 });
        varint::push(&mut out, self.id);
        varint::push(&mut out, self.size);
        varint::push(&mut out, self.attrs.len() as u64);
        for (name, value) in &self.attrs {
            push_blob(&mut out, name);
            push_blob(&mut out, value);
        }
        if let Some(segment) = &self.inline {
            segment.push(&mut out);
        }
        out.into()
    }

    /// Decodes an onode. Attributes are slices of `bytes`.
    pub fn decode(bytes: &Bytes) -> Result<Onode> {
        let mut r = Reader::new(bytes);
        let flags = take_flags(&mut r)?;
        let id = varint::take(&mut r, "object id")?;
        let at = r;
        let size = varint::take(&mut r, "object size")?;
        let is_inline = flags & IS_INLINE != 0;
        let limit = if is_inline { INLINE_SIZE_MAX } else { OBJECT_SIZE_MAX };
        if size > limit {
            return Err(at.error("object size", DecodeErrorKind::TooLong { length: size, limit }));
        }
        let attrs = take_attrs(&mut r, bytes)?;
        let inline = if is_inline { Some(Box::new(take_inline(&mut r)?)) } else { None };
        r.finish("onode")?;
        Ok(Onode { id, size, attrs, has_omap: flags & HAS_OMAP != 0, inline })
    }

    fn encoded_len_max(&self) -> usize {
        let blob = |bytes: &Bytes| bytes.len() + blob_head_len_max(bytes.len());
        let attrs: usize = self.attrs.iter().map(|(name, value)| blob(name) + blob(value)).sum();
        HEAD_LEN_MAX + attrs + self.inline.as_ref().map_or(0, |segment| segment.encoded_len_max())
    }
}

fn blob_head_len_max(length: usize) -> usize {
    if length < 1 << 14 { 2 } else { VARINT_LEN_MAX }
}

fn push_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::push(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_flags(r: &mut Reader<'_>) -> Result<u8> {
    let at = *r;
    let version = r.u8("onode version")?;
    if version != VERSION {
        return Err(at.invalid("onode version", version.into()));
    }
    let at = *r;
    let flags = r.u8("onode flags")?;
    if flags & !FLAGS != 0 {
        return Err(at.invalid("onode flags", flags.into()));
    }
    Ok(flags)
}

fn take_attrs(r: &mut Reader<'_>, bytes: &Bytes) -> Result<BTreeMap<Bytes, Bytes>> {
    let count = varint::take(r, "attributes")?;
    let mut attrs = BTreeMap::new();
    for _ in 0..count {
        let at = *r;
        let name = take_blob(r, "attribute name", bytes)?;
        if attrs.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err(at.invalid("order of attributes", attrs.len() as u64));
        }
        attrs.insert(name, take_blob(r, "attribute value", bytes)?);
    }
    Ok(attrs)
}

fn take_blob(r: &mut Reader<'_>, field: &'static str, bytes: &Bytes) -> Result<Bytes> {
    let length = varint::take(r, field)?;
    let start = r.offset();
    r.skip(field, usize::try_from(length).unwrap_or(usize::MAX))?;
    Ok(bytes.slice(start..r.offset()))
}

fn take_inline(r: &mut Reader<'_>) -> Result<ExtentSegment> {
    let at = *r;
    let segment = ExtentSegment::take(r)?;
    if segment.end() > INLINE_BLOCKS {
        return Err(at.invalid("end of the inline extent segment", segment.end()));
    }
    Ok(segment)
}

#[cfg(test)]
mod tests {
    use super::super::segment::tests::{any_steps, segment_of};
    use super::*;
    use proptest::prelude::*;

    fn any_onode() -> impl Strategy<Value = Onode> {
        let name = prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from);
        let value = (any::<u8>(), prop_oneof![0usize..4, 120usize..200])
            .prop_map(|(byte, length)| Bytes::from(vec![byte; length]));
        let attrs = prop::collection::btree_map(name, value, 0..4);
        let sizes = (0..=INLINE_SIZE_MAX, 0..=OBJECT_SIZE_MAX);
        let inline = prop::option::of(any_steps());
        (any::<u64>(), sizes, attrs, any::<bool>(), inline).prop_map(
            |(id, (small, large), attrs, has_omap, steps)| {
                let inline = steps.map(|steps| {
                    let mut segment = segment_of(&steps);
                    segment.clear(INLINE_BLOCKS..super::super::SEGMENT_BLOCKS);
                    Box::new(segment)
                });
                let size = if inline.is_some() { small } else { large };
                Onode { id, size, attrs, has_omap, inline }
            },
        )
    }

    proptest! {
        #[test]
        fn onodes_round_trip_and_truncations_are_errors(onode in any_onode()) {
            onode.check_invariants();
            let bytes = onode.encode();
            prop_assert!(bytes.len() <= onode.encoded_len_max());
            prop_assert_eq!(Onode::decode(&bytes).unwrap(), onode);
            for end in 0..bytes.len() {
                prop_assert!(Onode::decode(&bytes.slice(..end)).is_err());
            }
            prop_assert!(Onode::decode(&[&bytes[..], &[0]].concat().into()).is_err());
        }

        #[test]
        fn decodable_values_are_valid_and_encode_to_the_same_bytes(
            onode in any_onode(), at: prop::sample::Index, bit in 0u8..8
        ) {
            let mut bytes = onode.encode().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let bytes = Bytes::from(bytes);
            if let Ok(onode) = Onode::decode(&bytes) {
                onode.check_invariants();
                prop_assert_eq!(onode.encode(), bytes);
            }
        }

        #[test]
        fn no_bytes_make_decoding_panic(raw in prop::collection::vec(any::<u8>(), 0..80), flags in 0u8..4) {
            let _ = Onode::decode(&[&[VERSION, flags], &raw[..]].concat().into());
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let attrs = [("_", "xy"), ("a", "")].map(|(name, value)| (name.into(), value.into()));
        let mut onode = Onode { size: 300, has_omap: true, attrs: attrs.into(), ..Onode::new(7) };
        onode.inline.as_mut().unwrap().map(0, 3, &[0x0403_0201]);
        let head = [1, 3, 7, 0xac, 2, 2, 1, b'_', 2, b'x', b'y', 1, b'a', 0];
        let segment = [1, 0, 6, 1, 2, 3, 4];
        assert_eq!(onode.encode()[..], [&head[..], &segment].concat());

        onode.spill().unwrap();
        assert_eq!(onode.encode()[..2], [1, 1]);
        assert_eq!(onode.encode()[2..], head[2..]);
    }

    #[test]
    fn attributes_are_not_copied() {
        let mut onode = Onode::new(1);
        onode.attrs.insert("name".into(), vec![5; 100].into());
        let bytes = onode.encode();
        let decoded = Onode::decode(&bytes).unwrap();
        assert!(bytes.as_ptr_range().contains(&decoded.attrs["name".as_bytes()].as_ptr()));
    }

    #[test]
    fn an_inline_segment_spills_and_comes_back() {
        let mut onode = Onode::new(1);
        assert_eq!(onode.spill(), None);
        let mut segment = ExtentSegment::default();
        segment.map(0, 9, &[1; INLINE_BLOCKS as usize]);
        onode.absorb(segment.clone());
        assert_eq!(onode.spill(), Some(segment));
        assert_eq!(onode.inline, None);
    }

    #[test]
    fn faults_are_named() {
        let message =
            |bytes: &[u8]| Onode::decode(&Bytes::copy_from_slice(bytes)).unwrap_err().to_string();
        assert_eq!(message(&[9]), "onode version at byte 0: value 9 is not valid here");
        assert_eq!(message(&[1, 4]), "onode flags at byte 1: value 4 is not valid here");
        let too_large = "object size at byte 3: length 65537 exceeds the limit 65536";
        assert_eq!(message(&[1, 2, 7, 0x81, 0x80, 4, 0, 0]), too_large);
        let unordered = message(&[1, 0, 7, 0, 2, 1, b'b', 0, 1, b'a', 0]);
        assert!(unordered.starts_with("order of attributes at byte 8"), "{unordered}");
        let outside = message(&[1, 2, 7, 0, 0, 1, 0x40, 16, 6, 1, 1, 1, 1]);
        assert!(outside.starts_with("end of the inline extent segment at byte 5"), "{outside}");
    }
}
