//! Placement of object data: slots of slab files for small objects, a file each for others.
//!
//! This module moves bytes between memory and the page cache and records which files must be synced. It knows
//! nothing of blocks, checksums or allocation.

use crate::lock::lock;
use crate::slots::{CLASSES, Slot};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ioctl_ficlone, syncfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Up to this many dirty files are synced one by one; beyond it the file system is synced.
const FILES_SYNCED_SINGLY_MAX: usize = 16;
/// Number of directories over which object files are spread.
const DIRECTORIES: u64 = 256;
/// Bytes per step of a copy from file to file.
const COPY_STEP: usize = 1 << 20;
/// Bytes that are given up together where the device fails to read more: the unit of checksums.
const PIECE: usize = 4096;
/// A path failover or a marginal sector is no damage.
const READ_ATTEMPTS_MAX: u32 = 3;

/// Entry of a directory with a store: its objects.
pub const OBJECTS: &str = "objects";

/// The place of one object's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// The object has no data.
    Nowhere,
    Slot(Slot),
    /// A file of its own, named after the object's id.
    File(u64),
}

impl Location {
    /// Capacity in bytes.
    pub fn capacity(&self) -> u64 {
        match self {
            Location::Nowhere => 0,
            Location::Slot(slot) => CLASSES[usize::from(slot.class)],
            Location::File(_) => u64::MAX,
        }
    }
}

/// Files written and not yet synced.
#[derive(Debug, Default)]
pub struct DirtyFiles {
    slabs: [bool; CLASSES.len()],
    files: BTreeSet<u64>,
    /// Directories changed too.
    created: bool,
}

impl DirtyFiles {
    /// True if nothing needs to be synced.
    pub fn is_empty(&self) -> bool {
        self.slabs == [false; CLASSES.len()] && self.files.is_empty() && !self.created
    }
}

/// Client data is readable by the store's user only.
pub const FILE_MODE: u32 = 0o600;

/// The files of a store.
#[derive(Debug)]
pub struct Media {
    objects: PathBuf,
    /// For syncing the file system and reading its free space.
    root: File,
    slabs: [File; CLASSES.len()],
    open: Mutex<OpenFiles>,
    dirty: Mutex<DirtyFiles>,
    sync: bool,
}

/// Open object files, evicted in the order of opening, except that each use buys one more round.
#[derive(Debug)]
struct OpenFiles {
    files: HashMap<u64, (Arc<File>, bool)>,
    order: VecDeque<u64>,
    count_max: usize,
}

/// Creates a directory with access for its owner only; an existing one is left unchanged.
pub fn create_private(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

impl Media {
    /// Opens the files below `root`, creating what is missing. Without `sync`, nothing is flushed.
    pub fn open(root: &Path, open_files_max: usize, sync: bool) -> io::Result<Media> {
        let objects = root.join(OBJECTS);
        for directory in 0..DIRECTORIES {
            create_private(&objects.join(format!("{directory:02x}")))?;
        }
        let slab = |capacity: u64| {
            let path = root.join(format!("slots-{}k", capacity >> 10));
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            options.mode(FILE_MODE).open(path)
        };
        let slabs = [slab(CLASSES[0])?, slab(CLASSES[1])?, slab(CLASSES[2])?];
        let open = OpenFiles::new(open_files_max);
        let (open, dirty) = (Mutex::new(open), Mutex::new(DirtyFiles::default()));
        Ok(Media { objects, root: File::open(root)?, slabs, open, dirty, sync })
    }

    /// Writes into the page cache; the file counts as dirty.
    pub fn write(&self, at: Location, offset: u64, data: &[u8]) -> io::Result<()> {
        match at {
            Location::Nowhere => unreachable!("room is made before data is written"),
            Location::Slot(slot) => {
                let slab = usize::from(slot.class);
                self.slabs[slab].write_all_at(data, slot_start(slot) + offset)?;
                lock(&self.dirty).slabs[slab] = true;
            }
            Location::File(id) => {
                self.writable(id)?.write_all_at(data, offset)?;
                lock(&self.dirty).files.insert(id);
            }
        }
        Ok(())
    }

    /// Reads up to the end of the file; the rest of `buffer` is left unchanged. What fails is tried again.
    pub fn read(&self, at: Location, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut attempts = 1;
        loop {
            match self.read_once(at, offset, buffer) {
                Err(error) if is_damage(&error) && attempts < READ_ATTEMPTS_MAX => attempts += 1,
                result => return result,
            }
        }
    }

    /// Reads a range, and gives `each` the offset and content of all that the device returns of it. Returns
    /// the blocks that it fails to read.
    ///
    /// # Errors
    ///
    /// Those of `each`, and those of reading that are no damage, such as too many open files.
    pub fn read_in_parts(
        &self,
        at: Location,
        offset: u64,
        length: u64,
        mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<Vec<u64>> {
        let end = offset + length;
        let (mut buffer, mut unread) = (Vec::new(), Vec::new());
        for start in (offset..end).step_by(COPY_STEP) {
            buffer.clear();
            buffer.resize((end - start).min(COPY_STEP as u64) as usize, 0);
            match self.read(at, start, &mut buffer) {
                Ok(()) => each(start, &buffer)?,
                Err(error) if is_damage(&error) => {
                    for (start, piece) in (start..).step_by(PIECE).zip(buffer.chunks_mut(PIECE)) {
                        match self.read(at, start, piece) {
                            Ok(()) => each(start, piece)?,
                            Err(error) if is_damage(&error) => {
                                tracing::error!(?at, start, %error, "a block cannot be read to copy it");
                                unread.push(start / PIECE as u64);
                            }
                            Err(error) => return Err(error),
                        }
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(unread)
    }

    fn read_once(&self, at: Location, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match at {
            Location::Nowhere => Ok(()),
            Location::Slot(slot) => {
                let slab = &self.slabs[usize::from(slot.class)];
                read_to_end(slab, slot_start(slot) + offset, buffer)
            }
            Location::File(id) => read_to_end(&*self.readable(id)?, offset, buffer),
        }
    }

    /// Reads if that needs neither a disk access nor an open; otherwise returns `false`.
    pub fn read_cached(&self, at: Location, offset: u64, buffer: &mut [u8]) -> bool {
        let mut read = |file: &File, offset| {
            let length = buffer.len();
            let mut slices = [IoSliceMut::new(buffer)];
            preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT) == Ok(length)
        };
        match at {
            Location::Nowhere => true,
            Location::Slot(slot) => {
                read(&self.slabs[usize::from(slot.class)], slot_start(slot) + offset)
            }
            Location::File(id) => {
                let file = lock(&self.open).find(id);
                file.is_some_and(|file| read(&file, offset))
            }
        }
    }

    /// Creates an empty file for object `id`, replacing an existing one.
    pub fn create(&self, id: u64) -> io::Result<()> {
        let path = self.path(id);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.mode(FILE_MODE).open(path)?;
        lock(&self.open).insert(id, Arc::new(file));
        let mut dirty = lock(&self.dirty);
        dirty.files.insert(id);
        dirty.created = true;
        Ok(())
    }

    /// Frees the space behind `size`. Readable data is unaffected.
    pub fn truncate(&self, id: u64, size: u64) -> io::Result<()> {
        self.writable(id)?.set_len(size)?;
        lock(&self.dirty).files.insert(id);
        Ok(())
    }

    /// Frees the space of a range, if the file system supports it.
    pub fn punch(&self, id: u64, offset: u64, length: u64) -> io::Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(self.writable(id)?, mode, offset, length) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the file of an object; a missing one is no error.
    pub fn remove(&self, id: u64) -> io::Result<()> {
        lock(&self.open).remove(id);
        lock(&self.dirty).files.remove(&id);
        match std::fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the file of object `target` hold the ranges of `source`, durably. Returns the blocks that the
    /// device fails to read; they stay holes there.
    pub fn copy(
        &self,
        source: Location,
        target: u64,
        ranges: &[(u64, u64)],
    ) -> io::Result<Vec<u64>> {
        self.create(target)?;
        let file = self.writable(target)?;
        let cloned = match source {
            Location::File(id) => {
                self.readable(id).is_ok_and(|source| ioctl_ficlone(&*file, &*source).is_ok())
            }
            _ => false,
        };
        let mut unread = Vec::new();
        if !cloned {
            for &(offset, length) in ranges {
                unread.extend(self.read_in_parts(source, offset, length, |start, part| {
                    file.write_all_at(part, start)
                })?);
            }
        }
        if self.sync {
            file.sync_all()?;
            File::open(self.directory(target))?.sync_all()?;
        }
        Ok(unread)
    }

    /// Files written since the last call, for [`Media::sync`].
    pub fn take_dirty(&self) -> DirtyFiles {
        std::mem::take(&mut *lock(&self.dirty))
    }

    /// Makes the writes to `dirty` durable, and possibly others.
    pub fn sync(&self, dirty: &DirtyFiles) -> io::Result<()> {
        if !self.sync || dirty.is_empty() {
            return Ok(());
        }
        if dirty.created || dirty.files.len() > FILES_SYNCED_SINGLY_MAX {
            return Ok(syncfs(&self.root)?);
        }
        for (slab, _) in self.slabs.iter().zip(dirty.slabs).filter(|(_, dirty)| *dirty) {
            slab.sync_data()?;
        }
        for id in &dirty.files {
            match self.readable(*id) {
                Ok(file) => file.sync_data()?,
                // The file was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes that unprivileged writers may still use.
    pub fn bytes_available(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.root)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Ids that have a file.
    pub fn files(&self) -> io::Result<BTreeSet<u64>> {
        let mut ids = BTreeSet::new();
        for directory in std::fs::read_dir(&self.objects)? {
            for entry in std::fs::read_dir(directory?.path())? {
                let name = entry?.file_name();
                let id = name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok());
                ids.extend(id);
            }
        }
        Ok(ids)
    }

    fn directory(&self, id: u64) -> PathBuf {
        self.objects.join(format!("{:02x}", id % DIRECTORIES))
    }

    fn path(&self, id: u64) -> PathBuf {
        self.directory(id).join(format!("{id:016x}"))
    }

    fn readable(&self, id: u64) -> io::Result<Arc<File>> {
        self.open_file(id, OFlags::RDWR)
    }

    /// Creates the file again if it was removed from outside; its lost blocks fail their checksums until they
    /// are written.
    fn writable(&self, id: u64) -> io::Result<Arc<File>> {
        self.open_file(id, OFlags::RDWR | OFlags::CREATE)
    }

    fn open_file(&self, id: u64, flags: OFlags) -> io::Result<Arc<File>> {
        if let Some(file) = lock(&self.open).find(id) {
            return Ok(file);
        }
        let mode = Mode::from_raw_mode(FILE_MODE);
        let fd = rustix::fs::open(self.path(id), flags | OFlags::CLOEXEC, mode)?;
        let file = Arc::new(File::from(fd));
        lock(&self.open).insert(id, file.clone());
        Ok(file)
    }
}

impl OpenFiles {
    fn new(count_max: usize) -> Self {
        OpenFiles { files: HashMap::new(), order: VecDeque::new(), count_max: count_max.max(1) }
    }

    fn find(&mut self, id: u64) -> Option<Arc<File>> {
        let (file, used) = self.files.get_mut(&id)?;
        *used = true;
        Some(file.clone())
    }

    fn insert(&mut self, id: u64, file: Arc<File>) {
        if self.files.insert(id, (file, false)).is_none() {
            self.order.push_back(id);
        }
        while self.files.len() > self.count_max {
            let Some(oldest) = self.order.pop_front() else { break };
            match self.files.get_mut(&oldest) {
                Some((_, used)) if *used => {
                    *used = false;
                    self.order.push_back(oldest);
                }
                _ => {
                    self.files.remove(&oldest);
                }
            }
        }
    }

    fn remove(&mut self, id: u64) {
        if self.files.remove(&id).is_some() {
            self.order.retain(|other| *other != id);
        }
    }
}

/// Whether what was to be read is lost, rather than out of reach for now.
fn is_damage(error: &io::Error) -> bool {
    let lost = [Errno::IO, Errno::NODATA, Errno::ILSEQ, Errno::UCLEAN, Errno::NOENT];
    lost.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn slot_start(slot: Slot) -> u64 {
    slot.index * CLASSES[usize::from(slot.class)]
}

fn read_to_end(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            Ok(0) => break,
            Ok(count) => {
                offset += count as u64;
                buffer = &mut buffer[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nobody_else_may_read_what_clients_store() {
        let root = std::env::temp_dir().join(format!("sepiola-media-{}", std::process::id()));
        create_private(&root).unwrap();
        let media = Media::open(&root, 10, false).unwrap();
        media.create(1).unwrap();
        media.writable(2).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&root), mode(&root.join("objects"))), (0o700, 0o700));
        assert_eq!((mode(&media.path(1)), mode(&media.path(2))), (0o600, 0o600));
        for entry in std::fs::read_dir(&root).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn open_files_stay_bounded_and_keep_those_in_use() {
        let file = Arc::new(File::open("/dev/null").unwrap());
        let mut open = OpenFiles::new(4);
        for id in 0..100 {
            open.insert(id, file.clone());
            assert!(open.find(0).is_some(), "used after every insert");
            assert!(open.files.len() <= 4 && open.order.len() == open.files.len());
        }
        open.remove(0);
        assert!(open.find(0).is_none());
    }
}
