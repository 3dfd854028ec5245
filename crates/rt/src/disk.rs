//! Files opened O_DIRECT, read, written and flushed through the ring.

use rustix::fs::{Mode, OFlags};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What O_DIRECT demands of addresses, offsets and lengths on every device we support.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// Names an open file of one reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) usize);

/// An open file, not yet given to a reactor.
#[derive(Debug)]
pub struct DiskFile {
    pub(crate) fd: OwnedFd,
}

impl DiskFile {
    /// Opens (creating a regular file if needed) for direct I/O.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(DiskFile { fd })
    }
}

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

/// A disk operation under way; holds the buffer until the kernel is done with it.
pub(crate) struct DiskOperation {
    pub token: u64,
    pub buffer: Option<AlignedBuffer>,
}
