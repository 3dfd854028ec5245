//! A bounded cursor over received bytes.

use crate::error::{DecodeError, DecodeErrorKind, Result};

/// Reads Ceph primitives from a slice. Copying a `Reader` is cheap and remembers its place.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

macro_rules! integer {
    ($name:ident, $type:ty) => {
        #[doc = concat!("The next little-endian `", stringify!($type), "`.")]
        pub fn $name(&mut self, field: &'static str) -> Result<$type> {
            let raw = self.take(field, size_of::<$type>())?;
            Ok(<$type>::from_le_bytes(raw.try_into().expect("take returned the asked size")))
        }
    };
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of `bytes`; offsets in its errors count from there.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, offset: 0 }
    }

    /// Bytes that were read so far.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes that are left, up to the end of the slice or of the structure that confines the reader.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// True if no byte is left.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// An error at this place.
    pub fn error(&self, field: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { field, offset: self.offset, kind }
    }

    /// The error for a value that this field cannot have. Take it from a copy of the reader from before the
    /// field, so that the offset is the field's.
    pub fn invalid(&self, field: &'static str, value: u64) -> DecodeError {
        self.error(field, DecodeErrorKind::InvalidValue { value })
    }

    /// An error at this position: the value that was read is one of a newer writer.
    pub fn unknown(&self, field: &'static str, value: u64) -> DecodeError {
        self.error(field, DecodeErrorKind::Unknown { value })
    }

    /// Takes the next `count` bytes.
    pub fn take(&mut self, field: &'static str, count: usize) -> Result<&'a [u8]> {
        if count > self.remaining() {
            let kind = DecodeErrorKind::Truncated { needed: count, available: self.remaining() };
            return Err(self.error(field, kind));
        }
        let start = self.offset;
        self.offset += count;
        debug_assert!(self.offset <= self.bytes.len(), "a reader stays in its slice");
        Ok(&self.bytes[start..self.offset])
    }

    /// The next `N` bytes, without a length.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        Ok(self.take(field, N)?.try_into().expect("take returned the asked size"))
    }

    /// Ignores the next `count` bytes.
    pub fn skip(&mut self, field: &'static str, count: usize) -> Result<()> {
        self.take(field, count).map(|_| ())
    }

    /// Takes all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.offset..];
        self.offset = self.bytes.len();
        rest
    }

    integer!(u8, u8);
    integer!(u16, u16);
    integer!(u32, u32);
    integer!(u64, u64);
    integer!(i8, i8);
    integer!(i16, i16);
    integer!(i32, i32);
    integer!(i64, i64);

    /// Ceph accepts any non-zero byte as true.
    pub fn bool(&mut self, field: &'static str) -> Result<bool> {
        Ok(self.u8(field)? != 0)
    }

    /// The next IEEE 754 double, little-endian.
    pub fn f64(&mut self, field: &'static str) -> Result<f64> {
        Ok(f64::from_bits(self.u64(field)?))
    }

    /// A container's element count. Each element takes at least one byte, so a count beyond the
    /// bytes that are left is refused before anything is allocated for it.
    pub fn count(&mut self, field: &'static str) -> Result<usize> {
        let count = self.u32(field)?;
        if count as usize > self.remaining() {
            let available = self.remaining();
            return Err(self
                .error(field, DecodeErrorKind::CountTooLarge { count: count.into(), available }));
        }
        Ok(count as usize)
    }

    /// Bytes behind a 32-bit length (Ceph's `bufferlist` and `std::string`).
    pub fn blob(&mut self, field: &'static str) -> Result<&'a [u8]> {
        let length = self.u32(field)? as usize;
        self.take(field, length)
    }

    /// UTF-8 text behind a 32-bit length; other bytes are an error.
    pub fn string(&mut self, field: &'static str) -> Result<String> {
        let at = *self;
        let raw = self.blob(field)?;
        String::from_utf8(raw.to_vec()).map_err(|_| at.error(field, DecodeErrorKind::NotUtf8))
    }

    /// A container: a 32-bit count, then the elements, each read by `element`. See [`Reader::count`] for
    /// the bound of memory.
    pub fn list<T>(
        &mut self,
        field: &'static str,
        mut element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.count(field)?;
        // `count` is at most the bytes left; elements may be large in memory, so start small.
        let mut items = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            items.push(element(self)?);
        }
        Ok(items)
    }

    /// A versioned structure. `known` is the newest version this reader understands: a writer
    /// whose `compat` is above it is refused. `body` gets a reader that ends with the structure
    /// and its version; bytes that `body` leaves are a newer writer's and are skipped.
    pub fn versioned<T>(
        &mut self,
        what: &'static str,
        known: u8,
        body: impl FnOnce(&mut Reader<'a>, u8) -> Result<T>,
    ) -> Result<T> {
        let version = self.u8(what)?;
        let compat = self.u8(what)?;
        if compat > known {
            return Err(self.error(what, DecodeErrorKind::TooNew { compat, known }));
        }
        let length = self.u32(what)? as usize;
        if length > self.remaining() {
            let kind = DecodeErrorKind::Truncated { needed: length, available: self.remaining() };
            return Err(self.error(what, kind));
        }
        let end = self.offset + length;
        let mut inner = Reader { bytes: &self.bytes[..end], offset: self.offset };
        let value = body(&mut inner, version)?;
        assert!(inner.offset <= end, "a structure confines its reader");
        self.offset = end;
        Ok(value)
    }

    /// Fails if bytes are left over.
    pub fn finish(&self, what: &'static str) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(what, DecodeErrorKind::TrailingBytes { left })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absurd_count_is_refused_before_allocation() {
        let mut reader = Reader::new(&[0xff, 0xff, 0xff, 0xff, 1, 2]);
        let error = reader.list("items", |r| r.u8("item")).unwrap_err();
        assert_eq!(error.field, "items");
        assert!(matches!(error.kind, DecodeErrorKind::CountTooLarge { .. }));
    }

    #[test]
    fn a_versioned_structure_skips_its_unknown_tail_and_confines_its_reader() {
        let bytes = [3, 1, 4, 0, 0, 0, 7, 9, 9, 9, 42];
        let mut reader = Reader::new(&bytes);
        let (version, first) =
            reader.versioned("thing", 2, |r, v| Ok((v, r.u8("first")?))).unwrap();
        assert_eq!((version, first), (3, 7));
        assert_eq!(reader.u8("next").unwrap(), 42);

        let mut reader = Reader::new(&bytes);
        let error = reader.versioned("thing", 2, |r, _| r.u64("wide")).unwrap_err();
        assert!(matches!(error.kind, DecodeErrorKind::Truncated { needed: 8, available: 4 }));
    }

    #[test]
    fn a_structure_from_the_future_is_refused() {
        let error = Reader::new(&[9, 8, 0, 0, 0, 0]).versioned("thing", 7, |_, _| Ok(()));
        assert_eq!(error.unwrap_err().kind, DecodeErrorKind::TooNew { compat: 8, known: 7 });
    }
}
