//! An append-only buffer of Ceph primitives.

use bytes::Bytes;

/// Writes Ceph primitives. Lengths of versioned structures patch themselves.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

macro_rules! integer {
    ($($name:ident),*) => {$(
        #[doc = concat!("Appends a little-endian `", stringify!($name), "`.")]
        pub fn $name(&mut self, value: $name) {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    )*};
}

impl Writer {
    /// An empty buffer that allocates with its first byte.
    pub fn new() -> Self {
        Writer::default()
    }

    /// An empty buffer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Writer { bytes: Vec::with_capacity(capacity) }
    }

    /// Appends to `bytes`.
    pub fn append_to(bytes: Vec<u8>) -> Self {
        Writer { bytes }
    }

    /// Bytes written, those included that the buffer began with.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the buffer up.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    /// Gives the buffer up, without copying it.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from(self.bytes)
    }

    integer!(u8, u16, u32, u64, i8, i16, i32, i64);

    /// Appends one byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    /// Appends an IEEE 754 double, little-endian.
    pub fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    /// Bytes as they are, without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends `count` zero bytes.
    pub fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    /// A container's element count.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("no container of ours has 2^32 elements"));
    }

    /// Bytes behind a 32-bit length (Ceph's `bufferlist` and `std::string`).
    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Appends the text's UTF-8 bytes behind a 32-bit length.
    pub fn string(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    /// Appends a container: a 32-bit count, then the elements, each written by `element`.
    pub fn list<T>(&mut self, items: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.count(items.len());
        for item in items {
            element(self, item);
        }
    }

    /// A structure behind `(version, compat, length)`.
    pub fn versioned(&mut self, version: u8, compat: u8, body: impl FnOnce(&mut Self)) {
        self.u8(version);
        self.u8(compat);
        self.sized(body);
    }

    /// `body` behind its 32-bit length.
    pub fn sized(&mut self, body: impl FnOnce(&mut Self)) {
        let at = self.len();
        self.u32(0);
        body(self);
        let length = self.len() - at - 4;
        self.patch_u32(at, u32::try_from(length).expect("no structure of ours reaches 4 GiB"));
    }

    /// Overwrites four bytes that were written before.
    pub fn patch_u32(&mut self, at: usize, value: u32) {
        assert!(at + 4 <= self.bytes.len(), "only bytes that were written can be overwritten");
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}
