//! Memory for direct I/O without copies.

use bytes::Bytes;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};

/// Alignment of addresses, offsets and lengths for O_DIRECT on every supported device, in bytes.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// Memory aligned for O_DIRECT.
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

    /// Concatenates pieces up to `length` bytes, with zeros up to the next multiple of [`DIRECT_ALIGNMENT`].
    pub fn gathered(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>, length: usize) -> Self {
        assert!(length > 0, "nothing to gather");
        let layout = Self::layout(length.next_multiple_of(DIRECT_ALIGNMENT));
        // SAFETY: the layout has a non-zero size.
        let pointer = unsafe { alloc(layout) };
        if pointer.is_null() {
            handle_alloc_error(layout);
        }
        let mut filled = 0;
        for piece in pieces {
            let piece = piece.as_ref();
            assert!(piece.len() <= length - filled, "more than {length} bytes");
            // SAFETY: what is left behind `filled` is long enough, as was just checked, and new.
            unsafe { pointer.add(filled).copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
            filled += piece.len();
        }
        // SAFETY: the rest of what was allocated.
        unsafe { pointer.add(filled).write_bytes(0, layout.size() - filled) };
        AlignedBuffer { pointer, length: layout.size() }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, DIRECT_ALIGNMENT).expect("checked when it was made")
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: allocated with this length and initialised as a whole.
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

    #[test]
    fn gathered_pieces_end_in_zeros() {
        let pieces = [[1; 5000].as_slice(), &[], &[2; 100]];
        let buffer = AlignedBuffer::gathered(pieces, 5100);
        assert_eq!((buffer.len(), buffer[4999], buffer[5000], buffer[5099]), (8192, 1, 2, 2));
        assert!(buffer[5100..].iter().all(|byte| *byte == 0));
        // Missing bytes become zeros.
        let short = AlignedBuffer::gathered([[3; 10]], DIRECT_ALIGNMENT);
        assert_eq!((short[9], short[10], short.len()), (3, 0, DIRECT_ALIGNMENT));
    }
}
