//! Memory that disks can be read into and written from without a copy.

use bytes::Bytes;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};

/// What O_DIRECT demands of addresses, offsets and lengths on every device we support.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// Memory that O_DIRECT accepts.
pub struct AlignedBuffer {
    pointer: *mut u8,
    length: usize,
}

// SAFETY: the buffer owns its memory alone.
unsafe impl Send for AlignedBuffer {}

impl AlignedBuffer {
    /// Zeroed; `length` must be a positive multiple of [`DIRECT_ALIGNMENT`].
    pub fn zeroed(length: usize) -> Self {
        assert!(length > 0 && length.is_multiple_of(DIRECT_ALIGNMENT), "length {length}");
        let layout = Self::layout(length);
        // SAFETY: the layout has a non-zero size.
        let pointer = unsafe { alloc_zeroed(layout) };
        if pointer.is_null() {
            handle_alloc_error(layout);
        }
        AlignedBuffer { pointer, length }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, DIRECT_ALIGNMENT).expect("checked when it was made")
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: allocated with this length and initialised with zeros.
        unsafe { std::slice::from_raw_parts(self.pointer, self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.length) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.pointer, Self::layout(self.length)) };
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.length)
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Slices of it at multiples of [`DIRECT_ALIGNMENT`] are aligned, too.
impl From<AlignedBuffer> for Bytes {
    fn from(buffer: AlignedBuffer) -> Bytes {
        Bytes::from_owner(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_stays_aligned_as_shared_bytes() {
        let mut buffer = AlignedBuffer::zeroed(3 * DIRECT_ALIGNMENT);
        buffer[DIRECT_ALIGNMENT] = 7;
        let bytes = Bytes::from(buffer).slice(DIRECT_ALIGNMENT..);
        assert_eq!((bytes[0], bytes.as_ptr() as usize % DIRECT_ALIGNMENT), (7, 0));
    }
}
