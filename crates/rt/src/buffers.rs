//! Provided buffers: the kernel picks one when data arrives, so idle connections hold no memory.
//!
//! A filled buffer is either handed out whole (a `Bytes` that gives it back to the pool when its last
//! clone is dropped) and replaced in the ring by another, or, if little is in it, copied out and
//! offered to the kernel again at once: a few kilobytes cost less to copy than to pin a buffer for.

use bytes::Bytes;
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) const GROUP: u16 = 0;
pub(crate) const BUFFER_LEN: usize = 64 << 10;
/// Below this, copying out is cheaper than pinning a buffer.
const COPY_MAX: usize = 12 << 10;
/// Free buffers that the pool keeps for reuse; beyond that they go back to the allocator.
const POOL_MAX: usize = 64;
const PAGE: usize = 4096;

type Buffer = Box<[u8]>;
type Pool = Arc<Mutex<Vec<Buffer>>>;

/// The ring of buffers that is shared with the kernel.
pub(crate) struct ProvidedBuffers {
    entries: *mut BufRingEntry,
    layout: Layout,
    /// The buffers the kernel may fill, by buffer id.
    buffers: Vec<Buffer>,
    tail: u16,
    pool: Pool,
}

/// A handed-out buffer: goes back to the pool when dropped.
struct PooledBytes {
    buffer: Option<Buffer>,
    length: usize,
    pool: Pool,
}

impl AsRef<[u8]> for PooledBytes {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.as_ref().expect("present until dropped")[..self.length]
    }
}

impl Drop for PooledBytes {
    fn drop(&mut self) {
        let buffer = self.buffer.take().expect("dropped once");
        let mut pool = self.pool.lock().expect("no holder of the pool panics");
        if pool.len() < POOL_MAX {
            pool.push(buffer);
        }
    }
}

fn new_buffer() -> Buffer {
    vec![0; BUFFER_LEN].into_boxed_slice()
}

impl ProvidedBuffers {
    /// Registers `count` buffers (a power of two).
    pub fn register(submitter: &Submitter<'_>, count: u16) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "the kernel indexes the ring by mask");
        let size = usize::from(count) * size_of::<BufRingEntry>();
        let layout = Layout::from_size_align(size, PAGE).expect("a small, page-aligned layout");
        // SAFETY: the layout has a non-zero size.
        let entries = unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>();
        assert!(!entries.is_null(), "out of memory for {size} bytes");
        let mut this = ProvidedBuffers {
            entries,
            layout,
            buffers: (0..count).map(|_| new_buffer()).collect(),
            tail: 0,
            pool: Pool::default(),
        };
        // SAFETY: `entries` is page-aligned, zeroed, of the announced size, and lives as long as `this`,
        // which the reactor drops after the ring.
        unsafe { submitter.register_buf_ring_with_flags(entries as u64, count, GROUP, 0)? };
        for id in 0..count {
            this.offer(id);
        }
        this.publish();
        Ok(this)
    }

    fn mask(&self) -> u16 {
        self.buffers.len() as u16 - 1
    }

    /// Puts buffer `id` at the tail of the ring; the kernel sees it after `publish`.
    fn offer(&mut self, id: u16) {
        let slot = usize::from(self.tail & self.mask());
        let buffer = &mut self.buffers[usize::from(id)];
        // SAFETY: `slot` is below the number of entries, and the kernel does not touch entries at or
        // behind the published tail.
        let entry = unsafe { &mut *self.entries.add(slot) };
        entry.set_addr(buffer.as_mut_ptr() as u64);
        entry.set_len(buffer.len() as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the tail lies inside the first entry and is shared with the kernel, which reads it
        // with acquire semantics; an aligned u16 store with release semantics is what it expects.
        unsafe {
            let tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    /// Takes `length` bytes out of buffer `id`, which goes back (or is replaced) in the ring.
    pub fn take(&mut self, id: u16, length: usize) -> Bytes {
        let buffer = &mut self.buffers[usize::from(id)];
        assert!(length <= buffer.len(), "the kernel fills at most what it was offered");
        let bytes = if length <= COPY_MAX {
            Bytes::copy_from_slice(&buffer[..length])
        } else {
            let fresh = self.pool.lock().expect("no holder of the pool panics").pop();
            let full = std::mem::replace(buffer, fresh.unwrap_or_else(new_buffer));
            Bytes::from_owner(PooledBytes { buffer: Some(full), length, pool: self.pool.clone() })
        };
        self.offer(id);
        self.publish();
        bytes
    }

    /// Gives buffer `id` back unread.
    pub fn put_back(&mut self, id: u16) {
        self.offer(id);
        self.publish();
    }
}

impl Drop for ProvidedBuffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the ring that knew the memory is gone (see `register`).
        unsafe { dealloc(self.entries.cast(), self.layout) };
    }
}
