//! Requests of clients as operations on the tree: what a request needs, changes and shows.

mod vxattrs;

use crate::caps;
use crate::layouts::{DataPools, with_numbers};
use crate::pages::{ShownPage, ShownSnapshot, page_of};
use crate::vxattrs::new_xattrs;
use bytes::Bytes;
use fscaps::{Access, Demand, Groups, range_end};
use namespace::{
    AttributeChange, Encryption, Ino, Kind, NewInode, Operation, Place, SetAttributes, Tree,
    WriteRange,
};
use types::{Errno, SnapId};
use wire::client_request::{
    GetattrArguments, LookupInoArguments, MkdirArguments, MknodArguments, OpenArguments,
    SetattrArguments,
};
use wire::{CapBits, ClientOp, ClientRequest, FileLayout, FilePath, open_flags, setattr_mask};

/// Attributes of the group F that `setattr` changes. A time of the last change of the inode belongs to the
/// group that is changed with it.
const FILE_ATTRIBUTES: u32 = setattr_mask::SIZE
    | setattr_mask::MTIME
    | setattr_mask::ATIME
    | setattr_mask::CTIME
    | setattr_mask::MTIME_NOW
    | setattr_mask::ATIME_NOW
    | setattr_mask::FSCRYPT_FILE;

/// Objects of a reply, besides its code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shown {
    /// Directory and name of a dentry.
    pub dentry: Option<(Ino, Bytes)>,
    /// The inode.
    pub target: Option<Ino>,
    /// Bits that the client wants on the inode from now on.
    pub wanted: CapBits,
    /// The page of a directory.
    pub page: Option<ShownPage>,
    /// Whether an inode was created, so that its number is told.
    pub tells_created: bool,
    /// Whether the client assumes a capability on the inode, since it has created it before it asked.
    pub is_assumed: bool,
    /// The operation's own part of the reply.
    pub told: Option<Bytes>,
    /// An inode as a snapshot shows it; instead of the inode, or beside it for a page of `.snap`.
    pub snapshot: Option<ShownSnapshot>,
}

/// A request, as it is executed now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    /// Parts of inodes, and entries, that no other client may hide from it or rely on.
    pub demand: Demand,
    /// Changes, in order; they belong together.
    pub operations: Vec<Operation>,
    /// Objects of the reply.
    pub shown: Shown,
    /// An inode of which something is told, but which is not shown.
    pub told_of: Option<Ino>,
}

impl Plan {
    /// Shows an inode, of which the client needs what the bits of `mask` show.
    pub(crate) fn show(target: Ino, mask: CapBits) -> Self {
        let shown = Shown { target: Some(target), ..Shown::default() };
        Plan { shown, ..Plan::default() }.with(target, Access::read(Groups::of(mask)))
    }

    /// Changes an entry of a directory.
    fn change(operation: Operation, dentry: (Ino, Bytes), target: Option<Ino>) -> Self {
        let shown = Shown { dentry: Some(dentry.clone()), target, ..Shown::default() };
        let plan = Plan { operations: vec![operation], shown, ..Plan::default() };
        plan.with_entry(&dentry)
    }

    /// Shows the entry by which the inode was found.
    fn with_dentry(self, dentry: (Ino, Bytes)) -> Self {
        let mut plan = self.with(dentry.0, Access::look_up());
        plan.shown.dentry = Some(dentry);
        plan
    }

    /// Whether the client may learn of the change before it is durable. It may not if it writes data by it,
    /// except in a new file, which has no data if it is lost: sizes are found by ranges and layouts, and
    /// objects know the numbers of truncations.
    pub fn may_be_early(&self) -> bool {
        let is_for_data = |operation: &Operation| match operation {
            // Clients write by the numbers of snapshots, and none may be given out twice.
            Operation::TakeSnapshot { .. }
            | Operation::RemoveSnapshot { .. }
            | Operation::RenameSnapshot { .. } => true,
            Operation::Change { change, .. } => match &**change {
                AttributeChange::WriteRange { .. } | AttributeChange::Layout(_) => true,
                AttributeChange::Set(set) => set.size.is_some(),
                // Clients that replay it must not write as if there were none.
                AttributeChange::SetQuota(_) => true,
                _ => false,
            },
            _ => false,
        };
        !self.operations.is_empty() && !self.operations.iter().any(is_for_data)
    }

    pub(crate) fn with(mut self, ino: Ino, access: Access) -> Self {
        if access != Access::default() {
            self.demand.accesses.push((caps::inode_id(ino), access));
        }
        self
    }

    /// An entry changes: no other client may rely on the entries of its directory.
    fn with_entry(mut self, (directory, name): &(Ino, Bytes)) -> Self {
        self.demand.entries.push(caps::entry(*directory, name));
        self.with(*directory, Access::change(Groups::FILE))
    }

    /// The number of links of an inode changes.
    fn with_link(self, ino: Option<Ino>) -> Self {
        match ino {
            Some(ino) => self.with(ino, Access::change(Groups::LINK)),
            None => self,
        }
    }
}

/// Values that a plan takes from the rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planner<'a> {
    /// The tree as it is now.
    pub tree: &'a Tree,
    /// Number for a new inode.
    pub next_ino: Ino,
    /// Layout of files below directories without one.
    pub default_layout: &'a FileLayout,
    /// Pools that layouts may name.
    pub pools: &'a DataPools,
    /// Most bytes of a file.
    pub max_file_size: u64,
    /// The client.
    pub client: u64,
}

/// Bits that a client wants with a file that it opens with these flags.
pub(crate) fn wanted_by(flags: u32) -> CapBits {
    let read = CapBits::FILE_SHARED | CapBits::FILE_READ | CapBits::FILE_CACHE;
    let exclusive = CapBits::AUTH_EXCL | CapBits::XATTR_EXCL | CapBits::FILE_EXCL;
    let write = CapBits::FILE_WRITE | CapBits::FILE_BUFFER | CapBits::AUTH_SHARED;
    let write = write | CapBits::XATTR_SHARED | exclusive;
    match flags & open_flags::ACCESS {
        open_flags::WRITE_ONLY => write,
        open_flags::READ_WRITE => read | write,
        _ => read,
    }
}

impl Planner<'_> {
    /// The plan of a request.
    ///
    /// # Errors
    ///
    /// Of its path, or EOPNOTSUPP for an operation that this server does not know.
    pub fn plan(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        match request.op {
            ClientOp::MKSNAP | ClientOp::RMSNAP | ClientOp::RENAMESNAP => {
                self.change_snapshot(request)
            }
            ClientOp::LSSNAP => self.list_snapshots(request),
            _ if shows_snapshots(request) => self.show_snapshot(request),
            ClientOp::LOOKUP => self.lookup(request),
            ClientOp::GETATTR => {
                let GetattrArguments { mask } = request.arguments.read();
                Ok(Plan::show(self.walk(&request.path)?.existing()?, mask))
            }
            ClientOp::LOOKUPHASH => {
                Ok(Plan::show(self.walk(&request.path)?.existing()?, CapBits::NONE))
            }
            ClientOp::LOOKUPINO => self.lookup_ino(request),
            ClientOp::LOOKUPPARENT => self.lookup_parent(request),
            ClientOp::LOOKUPNAME => self.lookup_name(request),
            ClientOp::READDIR => self.readdir(request),
            ClientOp::OPEN => self.open(request),
            ClientOp::CREATE => self.create(request),
            ClientOp::MKNOD | ClientOp::MKDIR | ClientOp::SYMLINK => self.make(request),
            ClientOp::LINK => self.link(request),
            ClientOp::UNLINK | ClientOp::RMDIR => self.remove(request),
            ClientOp::RENAME => self.rename(request),
            ClientOp::SETATTR => self.setattr(request),
            ClientOp::SETXATTR | ClientOp::RMXATTR => self.xattr(request),
            ClientOp::SETLAYOUT | ClientOp::SETDIRLAYOUT => self.set_layout_numbers(request),
            ClientOp::GETVXATTR => self.get_vxattr(request),
            _ => Err(Errno::NOTSUPP),
        }
    }

    /// The plan of a request that has created an inode, when it is sent again.
    ///
    /// # Errors
    ///
    /// ESTALE if the inode is gone.
    pub fn show_again(&self, request: &ClientRequest, created: Ino) -> Result<Plan, Errno> {
        self.tree.get(created).ok_or(Errno::STALE)?;
        let mut plan = Plan::show(created, CapBits::ANY_SHARED);
        plan.shown.dentry = self.tree.home(created).cloned();
        if request.op == ClientOp::CREATE {
            let arguments: OpenArguments = request.arguments.read();
            plan.shown.wanted = wanted_by(arguments.flags);
            plan.shown.tells_created = true;
            plan.shown.is_assumed = request.is_asynchronous();
        }
        Ok(plan)
    }

    pub(crate) fn walk(&self, path: &FilePath) -> Result<Place, Errno> {
        if path.is_in_snapshots() {
            return Err(Errno::ROFS);
        }
        let from = if path.ino == 0 { Ino::ROOT } else { Ino(path.ino) };
        self.tree.walk(from, path.names())
    }

    /// Directory and name of a path that must have a name.
    fn entry(&self, path: &FilePath) -> Result<((Ino, Bytes), Option<Ino>), Errno> {
        let place = self.walk(path)?;
        Ok((place.entry.ok_or(Errno::INVAL)?, place.target))
    }

    fn lookup(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let GetattrArguments { mask } = request.arguments.read();
        let (entry, target) = self.entry(&request.path)?;
        Ok(Plan::show(target.ok_or(Errno::NOENT)?, mask).with_dentry(entry))
    }

    fn lookup_ino(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let LookupInoArguments { mask, snap, .. } = request.arguments.read();
        if ![0, SnapId::HEAD.0].contains(&snap) {
            return Err(Errno::STALE);
        }
        let ino = Ino(request.path.ino);
        let inode = self.tree.get(ino).ok_or(Errno::STALE)?;
        if inode.nlink == 0 { Err(Errno::STALE) } else { Ok(Plan::show(ino, mask)) }
    }

    fn lookup_parent(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let ino = self.walk(&request.path)?.existing()?;
        let (directory, _) = self.tree.home(ino).ok_or(Errno::NOENT)?;
        Ok(Plan::show(*directory, CapBits::NONE))
    }

    /// The name of an inode, in a directory if the second path names one.
    fn lookup_name(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let ino = Ino(request.path2.ino);
        let ino = if self.tree.get(ino).is_some() { ino } else { Ino(request.path.ino) };
        let home = self.tree.home(ino).ok_or(Errno::NOENT)?;
        Ok(Plan::show(ino, CapBits::NONE).with_dentry(home.clone()))
    }

    fn readdir(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let directory = self.walk(&request.path)?.existing()?;
        if self.tree.get(directory).is_none_or(|inode| !inode.is_directory()) {
            return Err(Errno::NOTDIR);
        }
        let mut plan = Plan::show(directory, CapBits::FILE_SHARED);
        plan.shown.page = Some(page_of(request));
        Ok(plan)
    }

    fn open(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let place = self.walk(&request.path)?;
        let plan = self.open_existing(request, place.existing()?)?;
        // Linux opens a name that it has not looked up, and takes it from the reply.
        Ok(match place.entry {
            Some(entry) => plan.with_dentry(entry),
            None => plan,
        })
    }

    fn open_existing(&self, request: &ClientRequest, target: Ino) -> Result<Plan, Errno> {
        let arguments: OpenArguments = request.arguments.read();
        let inode = self.tree.get(target).ok_or(Errno::STALE)?;
        let writes = arguments.flags & open_flags::ACCESS != 0;
        match inode.kind() {
            Kind::Directory if writes => return Err(Errno::ISDIR),
            Kind::Directory => return Ok(Plan::show(target, arguments.mask)),
            _ if arguments.flags & open_flags::DIRECTORY != 0 => return Err(Errno::NOTDIR),
            _ => {}
        }
        let mut plan = Plan::show(target, arguments.mask);
        plan.shown.wanted = wanted_by(arguments.flags);
        if arguments.flags & open_flags::TRUNCATE != 0 {
            plan = plan.with(target, Access::change(Groups::FILE));
            let change = SetAttributes { size: Some(0), ..SetAttributes::default() };
            plan.operations.push(change_of(target, AttributeChange::Set(change)));
        }
        if writes && inode.is_file() {
            let change = self.write_range(target, inode.size);
            plan.operations.push(change_of(target, change));
        }
        Ok(plan)
    }

    /// The right to write beyond a size, which grows with the file.
    fn write_range(&self, ino: Ino, size: u64) -> AttributeChange {
        let old =
            self.tree.get(ino).and_then(|inode| inode.write_ranges.get(&self.client)).copied();
        let end =
            range_end(caps::unit_of(self.layout_of(ino)), size).max(old.unwrap_or_default().end);
        AttributeChange::WriteRange { client: self.client, range: Some(WriteRange { end }) }
    }

    /// The layout of a file, or of new files in a directory.
    fn layout_of(&self, ino: Ino) -> &FileLayout {
        self.tree.layout_of(ino).unwrap_or(self.default_layout)
    }

    /// The layout that a client wants for a new file; `None` for that of its directory.
    fn wanted_layout(
        &self,
        directory: Ino,
        arguments: &OpenArguments,
    ) -> Result<Option<FileLayout>, Errno> {
        let OpenArguments { stripe_unit, stripe_count, object_size: object, pool, .. } = *arguments;
        let sizes = [stripe_unit, stripe_count, object];
        if sizes == [0; 3] && pool <= 0 {
            return Ok(None);
        }
        let inherited = self.layout_of(directory);
        let wanted = with_numbers(inherited, sizes, pool, self.pools)?;
        Ok((wanted != *inherited).then_some(wanted))
    }

    fn create(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let arguments: OpenArguments = request.arguments.read();
        let (entry, target) = self.entry(&request.path)?;
        if let Some(target) = target {
            if arguments.flags & open_flags::EXCLUSIVE != 0 {
                return Err(Errno::EXIST);
            }
            return Ok(self.open_existing(request, target)?.with_dentry(entry));
        }
        let mode = Kind::FILE_MODE | arguments.mode & 0o7777;
        let layout = self.wanted_layout(entry.0, &arguments)?;
        let unit = caps::unit_of(layout.as_ref().unwrap_or_else(|| self.layout_of(entry.0)));
        let writer = Some((self.client, WriteRange { end: range_end(unit, 0) }));
        let new = NewInode { writer, layout, ..self.new_inode(request, mode)? };
        let mut plan = self.creation(entry, new);
        plan.shown.wanted = wanted_by(arguments.flags);
        plan.shown.tells_created = true;
        plan.shown.is_assumed = request.is_asynchronous();
        Ok(plan)
    }

    fn make(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let (entry, _) = self.entry(&request.path)?;
        let new = match request.op {
            ClientOp::MKDIR => {
                let MkdirArguments { mode } = request.arguments.read();
                self.new_inode(request, Kind::DIRECTORY_MODE | mode & 0o7777)?
            }
            ClientOp::SYMLINK => {
                let symlink = request.path2.path.clone();
                NewInode { symlink, ..self.new_inode(request, Kind::SYMLINK_MODE | 0o777)? }
            }
            _ => {
                let MknodArguments { mode, rdev } = request.arguments.read();
                let mode = if mode & !0o7777 == 0 { mode | Kind::FILE_MODE } else { mode };
                // Directories and symbolic links have operations of their own, and no mode has more bits.
                if mode > 0o177_777 || !matches!(Kind::of(mode), Kind::File | Kind::Special) {
                    return Err(Errno::INVAL);
                }
                NewInode { rdev, ..self.new_inode(request, mode)? }
            }
        };
        Ok(self.creation(entry, new))
    }

    fn new_inode(&self, request: &ClientRequest, mode: u32) -> Result<NewInode, Errno> {
        let (auth, file) = (request.fscrypt_auth.clone(), request.fscrypt_file.clone());
        Ok(NewInode {
            ino: self.next_ino,
            mode,
            default_layout: self.default_layout.clone(),
            encryption: Encryption { auth, file },
            xattrs: new_xattrs(&request.data)?,
            ..NewInode::default()
        })
    }

    fn creation(&self, entry: (Ino, Bytes), new: NewInode) -> Plan {
        let (directory, name) = entry.clone();
        let operation = Operation::Create { directory, name, new: Box::new(new) };
        Plan::change(operation, entry, Some(self.next_ino))
    }

    fn link(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let (entry, _) = self.entry(&request.path)?;
        let ino = self.walk(&request.path2)?.existing()?;
        let (directory, name) = entry.clone();
        let operation = Operation::Link { ino, directory, name };
        Ok(Plan::change(operation, entry, Some(ino)).with_link(Some(ino)))
    }

    fn remove(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        if request.path.ends_in_dots() {
            return Err(Errno::NOTEMPTY);
        }
        let (entry, target) = self.entry(&request.path)?;
        let (directory, name) = entry.clone();
        let operation = match request.op {
            ClientOp::RMDIR => Operation::RemoveDirectory { directory, name },
            _ => Operation::Unlink { directory, name },
        };
        let plan = Plan::change(operation, entry, None).with_link(target);
        Ok(match target {
            // Whether it is empty must be known.
            Some(target) if request.op == ClientOp::RMDIR => {
                plan.with(target, Access::read(Groups::FILE))
            }
            _ => plan,
        })
    }

    /// The first path is the new name, the second one the old.
    fn rename(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        if request.path.ends_in_dots() || request.path2.ends_in_dots() {
            return Err(Errno::BUSY);
        }
        let (to, replaced) = self.entry(&request.path)?;
        let (from, ino) = self.entry(&request.path2)?;
        let operation = Operation::Rename { from: from.clone(), to: to.clone() };
        let plan = Plan::change(operation, to, ino).with_entry(&from);
        let plan = plan.with_link(ino).with_link(replaced);
        // Whether a directory is empty must be known, as for its removal.
        let is_directory =
            |ino: &Ino| self.tree.get(*ino).is_some_and(|inode| inode.is_directory());
        Ok(match replaced.filter(is_directory) {
            Some(replaced) => plan.with(replaced, Access::read(Groups::FILE)),
            None => plan,
        })
    }

    fn setattr(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let ino = self.walk(&request.path)?.existing()?;
        let arguments: SetattrArguments = request.arguments.read();
        let has = |mask: u32| arguments.mask & mask != 0;
        if has(setattr_mask::SIZE) && arguments.size > self.max_file_size {
            return Err(Errno::FBIG);
        }
        let set = SetAttributes {
            mode: has(setattr_mask::MODE).then_some(arguments.mode),
            uid: has(setattr_mask::UID).then_some(arguments.uid),
            gid: has(setattr_mask::GID).then_some(arguments.gid),
            mtime: has(setattr_mask::MTIME).then_some(arguments.mtime),
            atime: has(setattr_mask::ATIME).then_some(arguments.atime),
            btime: has(setattr_mask::BTIME).then_some(arguments.btime),
            size: has(setattr_mask::SIZE).then_some(arguments.size),
            kill_set_ids: has(setattr_mask::KILL_SGUID),
            kill_set_user_id: has(setattr_mask::KILL_SUID),
            kill_set_group_id: has(setattr_mask::KILL_SGID),
            fscrypt_auth: has(setattr_mask::FSCRYPT_AUTH).then(|| request.fscrypt_auth.clone()),
            fscrypt_file: has(setattr_mask::FSCRYPT_FILE).then(|| request.fscrypt_file.clone()),
        };
        let file = has(FILE_ATTRIBUTES & !setattr_mask::CTIME);
        let auth = !file || arguments.mask & !FILE_ATTRIBUTES != 0;
        let groups = [(file, Groups::FILE), (auth, Groups::AUTH)].into_iter();
        let groups = groups.filter(|(is_changed, _)| *is_changed);
        let groups = groups.fold(Groups::NONE, |all, (_, group)| all | group);
        Ok(self.changed(ino, groups, AttributeChange::Set(set)))
    }

    pub(crate) fn changed(&self, ino: Ino, groups: Groups, change: AttributeChange) -> Plan {
        let shown = Shown { target: Some(ino), ..Shown::default() };
        let plan = Plan { operations: vec![change_of(ino, change)], shown, ..Plan::default() };
        plan.with(ino, Access::change(groups))
    }
}

/// Whether a request is for something that a snapshot shows.
fn shows_snapshots(request: &ClientRequest) -> bool {
    let reads = matches!(
        request.op,
        ClientOp::LOOKUP
            | ClientOp::LOOKUPSNAP
            | ClientOp::GETATTR
            | ClientOp::OPEN
            | ClientOp::READDIR
    );
    reads && request.path.is_in_snapshots() || request.op == ClientOp::LOOKUPSNAP
}

fn change_of(ino: Ino, change: AttributeChange) -> Operation {
    Operation::Change { ino, change: Box::new(change) }
}
