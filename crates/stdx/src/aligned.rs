//! Memory for direct I/O without copies.
//!
//! Each thread keeps some of the large buffers that it lets go, for its next ones: new pages would have to be
//! cleared and mapped by the kernel for each.

use bytes::Bytes;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// Alignment of addresses, offsets and lengths for O_DIRECT on every supported device, in bytes.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// The shortest buffer that is kept for reuse, and the bytes that a thread keeps at most.
const REUSED_MIN: usize = 64 << 10;
const KEPT_MAX: usize = 16 << 20;

thread_local! {
    static KEPT: RefCell<KeptBuffers> = RefCell::default();
}

/// Buffers of one thread that wait for reuse, the oldest first.
#[derive(Default)]
struct KeptBuffers {
    buffers: VecDeque<(usize, *mut u8)>,
    bytes: usize,
}

impl KeptBuffers {
    fn take(&mut self, length: usize) -> Option<*mut u8> {
        let at = self.buffers.iter().rposition(|(kept, _)| *kept == length)?;
        self.bytes -= length;
        self.buffers.remove(at).map(|(_, pointer)| pointer)
    }

    /// Keeps one and frees the oldest: lengths that are no longer asked for leave.
    fn keep(&mut self, length: usize, pointer: *mut u8) {
        self.buffers.push_back((length, pointer));
        self.bytes += length;
        while self.bytes > KEPT_MAX
            && let Some((length, pointer)) = self.buffers.pop_front()
        {
            self.bytes -= length;
            // SAFETY: a kept buffer belongs to nothing else.
            unsafe { dealloc(pointer, AlignedBuffer::layout(length)) };
        }
    }
}

impl Drop for KeptBuffers {
    fn drop(&mut self) {
        for (length, pointer) in self.buffers.drain(..) {
            // SAFETY: as above.
            unsafe { dealloc(pointer, AlignedBuffer::layout(length)) };
        }
    }
}

/// Whether buffers of a length are kept.
fn is_reused(length: usize) -> bool {
    (REUSED_MIN..=KEPT_MAX).contains(&length)
}

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

    /// With any content, to be overwritten; `length` as for [`AlignedBuffer::zeroed`].
    pub fn stale(length: usize) -> Self {
        match Self::kept(length) {
            Some(pointer) => AlignedBuffer { pointer, length },
            None => AlignedBuffer::zeroed(length),
        }
    }

    /// Concatenates pieces up to `length` bytes, with zeros up to the next multiple of [`DIRECT_ALIGNMENT`].
    pub fn gathered(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>, length: usize) -> Self {
        assert!(length > 0, "nothing to gather");
        let layout = Self::layout(length.next_multiple_of(DIRECT_ALIGNMENT));
        // SAFETY: the layout has a non-zero size.
        let pointer = Self::kept(layout.size()).unwrap_or_else(|| unsafe { alloc(layout) });
        if pointer.is_null() {
            handle_alloc_error(layout);
        }
        let mut filled = 0;
        for piece in pieces {
            let piece = piece.as_ref();
            assert!(piece.len() <= length - filled, "more than {length} bytes");
            // SAFETY: the rest behind `filled` is long enough, as was just checked, and no part of a piece.
            unsafe { pointer.add(filled).copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
            filled += piece.len();
        }
        // SAFETY: the rest of what was allocated.
        unsafe { pointer.add(filled).write_bytes(0, layout.size() - filled) };
        AlignedBuffer { pointer, length: layout.size() }
    }

    fn kept(length: usize) -> Option<*mut u8> {
        if !is_reused(length) {
            return None;
        }
        KEPT.try_with(|kept| kept.borrow_mut().take(length)).ok().flatten()
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
        let (length, pointer) = (self.length, self.pointer);
        let keep = |kept: &RefCell<KeptBuffers>| kept.borrow_mut().keep(length, pointer);
        let is_kept = is_reused(length) && KEPT.try_with(keep).is_ok();
        if !is_kept {
            // SAFETY: allocated with this layout, and kept by nothing.
            unsafe { dealloc(pointer, Self::layout(length)) };
        }
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
    fn a_large_buffer_is_used_again_and_gathers_no_old_bytes() {
        let mut first = AlignedBuffer::zeroed(REUSED_MIN);
        first.fill(7);
        let address = first.as_ptr();
        drop(Bytes::from(first).slice(1..));
        let other = AlignedBuffer::stale(2 * REUSED_MIN);
        assert_ne!(other.as_ptr(), address, "another length");
        let again = AlignedBuffer::gathered([[1; 10]], REUSED_MIN);
        assert_eq!((again.as_ptr(), again[9]), (address, 1));
        assert!(again[10..].iter().all(|byte| *byte == 0));
        drop(again);
        assert!(AlignedBuffer::zeroed(REUSED_MIN).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn kept_memory_is_bounded_and_the_oldest_leaves() {
        let large = (KEPT_MAX / 4) + DIRECT_ALIGNMENT;
        for length in [REUSED_MIN, large, large, large, large, 2 * KEPT_MAX, REUSED_MIN / 2] {
            drop(AlignedBuffer::zeroed(length));
        }
        let kept: Vec<usize> =
            KEPT.with_borrow(|kept| kept.buffers.iter().map(|(length, _)| *length).collect());
        assert_eq!(kept, [large; 3]);
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
