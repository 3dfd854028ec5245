//! Operations on names of a file system, as procedures make them.
//!
//! Paths begin at the root, without a slash; an empty name in a path stands for `.snap`.

use crate::procedure::{Steps, Ticket};
use bytes::Bytes;
use codec::Reader;
use fsclient::{Answer, Call};
use types::Errno;
use wire::client_request::{
    FileLockArguments, GetattrArguments, MkdirArguments, OpenArguments, ReaddirArguments,
    SetattrArguments, SetxattrArguments,
};

use wire::{
    CapBits, ClientOp, ClientReply, ClientRequest, DirectoryPage, FilePath, InodeStat,
    RequestArguments, open_flags, readdir_flags, setattr_mask,
};

/// Inode of the root.
const ROOT: u64 = 1;
/// Bytes of a small file that is read as a whole; a larger one is refused with EFBIG.
pub(crate) const SMALL_FILE_MAX: u64 = 256 << 10;
/// Bytes of one write of a small file.
const PIECE: usize = 64 << 10;
/// `CEPH_XATTR_REPLACE` is not asked for: the attribute is made or replaced.
const SET: u32 = 0;
/// Type bits of a mode, and their values.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// `CEPH_LOCK_FCNTL`, `CEPH_LOCK_EXCL` and `CEPH_LOCK_UNLOCK`.
const FCNTL: u8 = 1;
const EXCLUSIVE: u8 = 2;
const UNLOCK: u8 = 4;

/// The client of a `ceph_filelock`; `None` if nothing is locked.
fn decode_owner(r: &mut Reader<'_>) -> codec::Result<Option<u64>> {
    let (_start, _length) = (r.u64("start")?, r.u64("length")?);
    let client = r.u64("client")?;
    let (_owner, _pid) = (r.u64("owner")?, r.u64("pid")?);
    let kind = r.u8("kind")?;
    Ok((kind != UNLOCK).then_some(client))
}

/// The kind of an inode that a mode tells.
pub(crate) fn is_directory(stat: &InodeStat) -> bool {
    stat.mode & TYPE == DIRECTORY
}

pub(crate) fn is_file(stat: &InodeStat) -> bool {
    stat.mode & TYPE == FILE
}

pub(crate) fn is_link(stat: &InodeStat) -> bool {
    stat.mode & TYPE == LINK
}

/// Entries of one page, and the name behind which the next one begins; `None` after the last.
pub(crate) type Page = (Vec<(Bytes, InodeStat)>, Option<Bytes>);

/// The names of a file system, through a client.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    steps: Steps,
}

fn at(path: impl AsRef<[u8]>) -> FilePath {
    FilePath::new(ROOT, Bytes::copy_from_slice(path.as_ref()))
}

/// The path of an inode itself.
fn of_inode(ino: u64) -> FilePath {
    FilePath::new(ino, Bytes::new())
}

fn named(text: impl AsRef<[u8]>) -> FilePath {
    FilePath { ino: 0, path: Bytes::copy_from_slice(text.as_ref()) }
}

fn request(op: ClientOp, path: impl AsRef<[u8]>) -> ClientRequest {
    ClientRequest { op, path: at(path), ..ClientRequest::default() }
}

/// New owner, permissions and times; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: Option<u32>,
    pub(crate) owner: Option<(u32, u32)>,
    /// Access and modification.
    pub(crate) times: Option<(types::UTime, types::UTime)>,
}

impl Tree {
    pub(crate) fn new(steps: Steps) -> Self {
        Tree { steps }
    }

    pub(crate) fn steps(&self) -> &Steps {
        &self.steps
    }

    async fn ask(&self, message: ClientRequest) -> Result<ClientReply, Errno> {
        match self.steps.call(Call::Request(Box::new(message))).await? {
            Answer::Reply(reply) => Ok(*reply),
            _ => Err(Errno::IO),
        }
    }

    /// Attributes of an object.
    pub(crate) async fn stat(&self, path: impl AsRef<[u8]>) -> Result<InodeStat, Errno> {
        let mask = CapBits::PIN | CapBits::ANY_SHARED;
        let arguments = RequestArguments::of(&GetattrArguments { mask });
        let op = if path.as_ref().is_empty() { ClientOp::GETATTR } else { ClientOp::LOOKUP };
        let reply = self.ask(ClientRequest { arguments, ..request(op, path) }).await?;
        reply.target.ok_or(Errno::IO)
    }

    /// Attributes of an object, if it is there.
    pub(crate) async fn find(&self, path: impl AsRef<[u8]>) -> Result<Option<InodeStat>, Errno> {
        match self.stat(path).await {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Makes a directory; returns its inode.
    pub(crate) async fn mkdir(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<u64, Errno> {
        let arguments = RequestArguments::of(&MkdirArguments { mode });
        let reply = self.ask(ClientRequest { arguments, ..request(ClientOp::MKDIR, path) }).await?;
        reply.target.map(|stat| stat.ino).ok_or(Errno::IO)
    }

    /// Makes a directory, and those above it, unless they are there. All are of the superuser.
    pub(crate) async fn mkdirs(&self, path: &str, mode: u32) -> Result<(), Errno> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            match self.mkdir(&path[..end], mode).await {
                Ok(_) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Makes a symbolic link; returns its inode.
    pub(crate) async fn symlink(
        &self,
        path: impl AsRef<[u8]>,
        target: &[u8],
    ) -> Result<u64, Errno> {
        let path2 = named(target);
        let reply = self.ask(ClientRequest { path2, ..request(ClientOp::SYMLINK, path) }).await?;
        reply.target.map(|stat| stat.ino).ok_or(Errno::IO)
    }

    /// Gives a file another name.
    pub(crate) async fn link_at(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        self.ask(ClientRequest { path2: at(from), ..request(ClientOp::LINK, to) }).await?;
        Ok(())
    }

    /// Removes an empty directory.
    pub(crate) async fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.ask(request(ClientOp::RMDIR, path)).await.map(|_| ())
    }

    /// Removes a name that is not a directory's.
    pub(crate) async fn unlink(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.ask(request(ClientOp::UNLINK, path)).await.map(|_| ())
    }

    /// Begins the removal of a name that is not a directory's.
    pub(crate) fn begin_unlink(&self, path: impl AsRef<[u8]>) -> Ticket {
        self.steps.begin(Call::Request(Box::new(request(ClientOp::UNLINK, path))))
    }

    /// Gives an object another path.
    pub(crate) async fn rename(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<(), Errno> {
        self.ask(ClientRequest { path2: at(from), ..request(ClientOp::RENAME, to) }).await?;
        Ok(())
    }

    /// Changes owner, permissions and times. Not of a symbolic link's target, but of the link.
    pub(crate) async fn set(&self, path: impl AsRef<[u8]>, new: Attributes) -> Result<(), Errno> {
        self.set_at(at(path), new).await
    }

    /// The same of an inode, whatever names it has.
    pub(crate) async fn set_of(&self, ino: u64, new: Attributes) -> Result<(), Errno> {
        self.set_at(of_inode(ino), new).await
    }

    async fn set_at(&self, path: FilePath, new: Attributes) -> Result<(), Errno> {
        let mut arguments = SetattrArguments::default();
        if let Some(mode) = new.mode {
            arguments.mode = mode;
            arguments.mask |= setattr_mask::MODE;
        }
        if let Some((uid, gid)) = new.owner {
            (arguments.uid, arguments.gid) = (uid, gid);
            arguments.mask |= setattr_mask::UID | setattr_mask::GID;
        }
        if let Some((atime, mtime)) = new.times {
            (arguments.atime, arguments.mtime) = (atime, mtime);
            arguments.mask |= setattr_mask::ATIME | setattr_mask::MTIME;
        }
        if arguments.mask == 0 {
            return Ok(());
        }
        let arguments = RequestArguments::of(&arguments);
        self.ask(ClientRequest { arguments, path, ..request(ClientOp::SETATTR, "") }).await?;
        Ok(())
    }

    /// Sets an extended attribute.
    pub(crate) async fn set_xattr(
        &self,
        path: &str,
        name: &str,
        value: String,
    ) -> Result<(), Errno> {
        self.set_xattr_at(at(path), name.as_bytes(), value.into()).await
    }

    /// The same of an inode, and of any name and value.
    pub(crate) async fn set_xattr_of(
        &self,
        ino: u64,
        name: &[u8],
        data: Bytes,
    ) -> Result<(), Errno> {
        self.set_xattr_at(of_inode(ino), name, data).await
    }

    async fn set_xattr_at(&self, path: FilePath, name: &[u8], data: Bytes) -> Result<(), Errno> {
        let arguments =
            RequestArguments::of(&SetxattrArguments { flags: SET, ..Default::default() });
        let path2 = named(name);
        let message = request(ClientOp::SETXATTR, "");
        self.ask(ClientRequest { arguments, path, path2, data, ..message }).await?;
        Ok(())
    }

    async fn page_of(
        &self,
        op: ClientOp,
        path: impl AsRef<[u8]>,
        after: &[u8],
    ) -> Result<Page, Errno> {
        let arguments = ReaddirArguments { flags: 1, ..ReaddirArguments::default() };
        let arguments = RequestArguments::of(&arguments);
        let message = ClientRequest { arguments, path2: named(after), ..request(op, path) };
        let reply = self.ask(message).await?;
        let page: DirectoryPage = codec::decode_all("page", &reply.extra).map_err(|_| Errno::IO)?;
        let is_last = page.flags & readdir_flags::FRAG_END != 0;
        let entries: Vec<_> =
            page.entries.into_iter().map(|entry| (entry.name, entry.inode)).collect();
        let next = entries.last().map(|(name, _)| name.clone()).filter(|_| !is_last);
        Ok((entries, next))
    }

    /// A page of a directory behind a name; the first one behind the empty name.
    pub(crate) async fn page(&self, path: impl AsRef<[u8]>, after: &[u8]) -> Result<Page, Errno> {
        self.page_of(ClientOp::READDIR, path, after).await
    }

    /// All entries of a directory with names of text, which is all that this crate makes.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<(String, InodeStat)>, Errno> {
        self.all(ClientOp::READDIR, path).await
    }

    /// All snapshots that a directory shows, also those of directories above it, whose names begin with `_`.
    pub(crate) async fn snapshots(&self, path: &str) -> Result<Vec<(String, InodeStat)>, Errno> {
        self.all(ClientOp::LSSNAP, path).await
    }

    async fn all(&self, op: ClientOp, path: &str) -> Result<Vec<(String, InodeStat)>, Errno> {
        let (mut all, mut after) = (Vec::new(), Bytes::new());
        loop {
            let (entries, next) = self.page_of(op, path, &after).await?;
            all.extend(
                entries.into_iter().filter_map(|(name, stat)| {
                    Some((String::from_utf8(name.to_vec()).ok()?, stat))
                }),
            );
            match next {
                Some(next) => after = next,
                None => return Ok(all),
            }
        }
    }

    /// Takes a snapshot of a directory.
    pub(crate) async fn take_snapshot(&self, path: &str, name: &str) -> Result<(), Errno> {
        self.ask(request(ClientOp::MKSNAP, format!("{path}//{name}"))).await.map(|_| ())
    }

    /// Removes a snapshot of a directory.
    pub(crate) async fn remove_snapshot(&self, path: &str, name: &str) -> Result<(), Errno> {
        self.ask(request(ClientOp::RMSNAP, format!("{path}//{name}"))).await.map(|_| ())
    }

    /// Names of all snapshots that a directory shows.
    pub(crate) async fn snapshot_names(&self, path: &[u8]) -> Result<Vec<Bytes>, Errno> {
        let (mut names, mut after) = (Vec::new(), Bytes::new());
        loop {
            let (entries, next) = self.page_of(ClientOp::LSSNAP, path, &after).await?;
            names.extend(entries.into_iter().map(|(name, _)| name));
            match next {
                Some(next) => after = next,
                None => return Ok(names),
            }
        }
    }

    /// Removes a snapshot of a directory of any path.
    pub(crate) async fn remove_snapshot_of(&self, path: &[u8], name: &[u8]) -> Result<(), Errno> {
        let path = [path, b"//", name].concat();
        self.ask(request(ClientOp::RMSNAP, path)).await.map(|_| ())
    }

    /// The content of a small file.
    pub(crate) async fn read(&self, path: impl AsRef<[u8]>) -> Result<Bytes, Errno> {
        let stat = self.open(path).await?;
        let ino = stat.ino;
        let read = self.read_open(&stat).await;
        self.steps.call(Call::Close(ino)).await?;
        read
    }

    /// The content of a small file as a snapshot shows it.
    pub(crate) async fn read_snapshot(&self, path: impl AsRef<[u8]>) -> Result<Bytes, Errno> {
        let stat = self.stat(path).await?;
        if stat.size > SMALL_FILE_MAX {
            return Err(Errno::FBIG);
        }
        let (offset, length) = (0, SMALL_FILE_MAX);
        let stat = Box::new(stat);
        match self.steps.call(Call::ReadSnapshotRange { stat, offset, length }).await? {
            Answer::Data(data) => Ok(data),
            _ => Err(Errno::IO),
        }
    }

    async fn read_open(&self, stat: &InodeStat) -> Result<Bytes, Errno> {
        let (ino, length) = (stat.ino, SMALL_FILE_MAX + 1);
        match self.steps.call(Call::Read { ino, offset: 0, length }).await? {
            Answer::Data(data) if data.len() as u64 > SMALL_FILE_MAX => Err(Errno::FBIG),
            Answer::Data(data) => Ok(data),
            _ => Err(Errno::IO),
        }
    }

    async fn open_with(
        &self,
        op: ClientOp,
        path: impl AsRef<[u8]>,
        flags: u32,
    ) -> Result<InodeStat, Errno> {
        let arguments = OpenArguments { flags, mode: 0o600, ..OpenArguments::default() };
        let arguments = RequestArguments::of(&arguments);
        let reply = self.ask(ClientRequest { arguments, ..request(op, path) }).await?;
        reply.target.ok_or(Errno::IO)
    }

    /// Opens a file to read it.
    pub(crate) async fn open(&self, path: impl AsRef<[u8]>) -> Result<InodeStat, Errno> {
        self.open_with(ClientOp::OPEN, path, 0).await
    }

    /// The client that has locked one byte of a file, if any has.
    pub(crate) async fn lock_owner(&self, ino: u64, place: u64) -> Result<Option<u64>, Errno> {
        let asked = FileLockArguments {
            rule: FCNTL,
            kind: EXCLUSIVE,
            start: place,
            length: 1,
            ..FileLockArguments::default()
        };
        let (arguments, path) = (RequestArguments::of(&asked), of_inode(ino));
        let message = ClientRequest { arguments, path, ..request(ClientOp::GETFILELOCK, "") };
        let told = self.ask(message).await?.extra;
        let owner = decode_owner(&mut Reader::new(&told)).map_err(|_| Errno::IO)?;
        Ok(owner)
    }

    /// Makes a file, which must not exist, and opens it.
    pub(crate) async fn create(&self, path: impl AsRef<[u8]>) -> Result<InodeStat, Errno> {
        let flags = open_flags::READ_WRITE | open_flags::CREATE | open_flags::EXCLUSIVE;
        self.open_with(ClientOp::CREATE, path, flags).await
    }

    /// Writes to an open file, in pieces that do not cross an object.
    pub(crate) async fn write(
        &self,
        stat: &InodeStat,
        mut offset: u64,
        mut data: Bytes,
    ) -> Result<(), Errno> {
        let unit = u64::from(stat.layout.stripe_unit.max(1));
        while !data.is_empty() {
            let room = usize::try_from(unit - offset % unit).unwrap_or(usize::MAX);
            let piece = data.split_to(room.min(data.len()));
            let length = piece.len() as u64;
            self.steps.call(Call::Write { ino: stat.ino, offset, data: piece }).await?;
            offset += length;
        }
        Ok(())
    }

    /// Makes an open file durable and closes it.
    pub(crate) async fn close(&self, ino: u64) -> Result<(), Errno> {
        let synced = self.steps.call(Call::Fsync(ino)).await;
        self.steps.call(Call::Close(ino)).await?;
        synced.map(|_| ())
    }

    /// Replaces a small file as a whole, durably: a crash leaves the former content or the new one. The
    /// former file is not written, so snapshots keep it.
    pub(crate) async fn replace(&self, path: &str, content: Bytes, mode: u32) -> Result<(), Errno> {
        let new = format!("{path}.tmp");
        match self.unlink(&new).await {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let stat = self.create(&new).await?;
        let mut written = Ok(());
        for (number, piece) in content.chunks(PIECE).enumerate() {
            let offset = (number * PIECE) as u64;
            written = self.write(&stat, offset, Bytes::copy_from_slice(piece)).await;
            if written.is_err() {
                break;
            }
        }
        self.close(stat.ino).await?;
        written?;
        self.set(&new, Attributes { mode: Some(mode), ..Attributes::default() }).await?;
        self.rename(&new, path).await
    }

    /// Waits until all that was done is durable.
    pub(crate) async fn sync(&self) -> Result<(), Errno> {
        self.steps.call(Call::Sync).await.map(|_| ())
    }
}
