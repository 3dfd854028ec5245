//! Memory for reads, reused when its last reader drops it.
//!
//! Buffer sizes are powers of two. A reused buffer is not cleared: it was initialised once, and readers see
//! only what the kernel has filled since.

use bytes::Bytes;
use std::sync::{Arc, Mutex};
use stdx::{AlignedBuffer, DIRECT_ALIGNMENT};

/// Sizes from 4 KiB to 4 MiB; larger buffers come from the allocator and go back to it.
const CLASSES: usize = 11;
/// Bytes that the pool keeps for reuse; beyond that, buffers go back to the allocator.
const KEPT_MAX: usize = 16 << 20;

#[derive(Default)]
struct FreeLists {
    classes: [Vec<AlignedBuffer>; CLASSES],
    kept: usize,
}

#[derive(Default, Clone)]
pub(crate) struct BufferPool {
    free_lists: Arc<Mutex<FreeLists>>,
}

/// A buffer of which the first `length` bytes are valid; returns to its pool when dropped.
pub(crate) struct PooledBuffer {
    buffer: Option<AlignedBuffer>,
    length: usize,
    pool: BufferPool,
}

impl BufferPool {
    /// `length` is a positive multiple of [`DIRECT_ALIGNMENT`].
    pub fn take(&self, length: usize) -> PooledBuffer {
        let capacity = length.next_power_of_two();
        let class = class_of(capacity);
        let used = class.and_then(|class| {
            let mut free_lists = self.free_lists.lock().expect("no holder of the pool panics");
            let used = free_lists.classes[class].pop()?;
            free_lists.kept -= used.len();
            Some(used)
        });
        let size = if class.is_some() { capacity } else { length };
        let buffer = used.unwrap_or_else(|| AlignedBuffer::zeroed(size));
        PooledBuffer { buffer: Some(buffer), length, pool: self.clone() }
    }

    fn give_back(&self, buffer: AlignedBuffer) {
        let Some(class) = class_of(buffer.len()) else { return };
        let mut free_lists = self.free_lists.lock().expect("no holder of the pool panics");
        if free_lists.kept + buffer.len() <= KEPT_MAX {
            free_lists.kept += buffer.len();
            free_lists.classes[class].push(buffer);
        }
    }
}

/// The size class of a power of two, if buffers of that size are pooled.
fn class_of(size: usize) -> Option<usize> {
    let class = (size / DIRECT_ALIGNMENT).trailing_zeros() as usize;
    (size.is_power_of_two() && class < CLASSES).then_some(class)
}

impl PooledBuffer {
    /// Number of valid bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Pointer behind the first `done` bytes.
    pub fn pointer_at(&mut self, done: usize) -> *mut u8 {
        self.buffer.as_mut().expect("present until dropped")[done..].as_mut_ptr()
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.as_ref().expect("present until dropped")[..self.length]
    }
}

impl From<PooledBuffer> for Bytes {
    fn from(buffer: PooledBuffer) -> Bytes {
        Bytes::from_owner(buffer)
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let buffer = self.buffer.take().expect("dropped once");
        self.pool.give_back(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_its_last_reader_has_let_it_go() {
        let pool = BufferPool::default();
        let first = Bytes::from(pool.take(3 * DIRECT_ALIGNMENT));
        let address = first.as_ptr();
        let part = first.slice(DIRECT_ALIGNMENT..);
        drop(first);
        let other = pool.take(4 * DIRECT_ALIGNMENT);
        assert_ne!(other.as_ref().as_ptr(), address);
        drop(part);
        let again = pool.take(4 * DIRECT_ALIGNMENT);
        assert_eq!((again.as_ref().as_ptr(), again.len()), (address, 4 * DIRECT_ALIGNMENT));
    }

    #[test]
    fn what_the_pool_keeps_is_bounded() {
        let pool = BufferPool::default();
        let taken: Vec<_> = (0..6).map(|_| pool.take(4 << 20)).collect();
        let large = pool.take((4 << 20) + DIRECT_ALIGNMENT);
        assert_eq!(large.buffer.as_ref().unwrap().len(), large.len());
        drop((taken, large));
        assert_eq!(pool.free_lists.lock().unwrap().kept, KEPT_MAX);
    }
}
