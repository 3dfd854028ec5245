//! Plans of requests about snapshots.
//!
//! In paths an empty name stands for `.snap`, the next one is a snapshot's, and those behind it are looked up
//! as it shows them. A snapshot does not change but by attributes that clients have not written back: they do
//! that when they must give back their capabilities on the inode of today.

use crate::caps;
use crate::pages::{ShownSnapshot, page_of};
use crate::plan::{Plan, Planner, Shown};
use bytes::Bytes;
use fscaps::{Access, Groups};
use namespace::{Ino, Operation, snapshots};
use types::{Errno, SnapId};
use wire::client_request::OpenArguments;
use wire::{CapBits, ClientOp, ClientRequest, FilePath, SnapshotMetadata, open_flags};

/// A snapshot, or `.snap` itself.
struct Found {
    /// The directory whose `.snap` it is, as it is today.
    directory: Ino,
    /// The snapshot; `None` for `.snap`.
    snap: Option<SnapId>,
    /// The inode.
    ino: Ino,
    /// The entry behind the snapshot's that stands for it.
    entry: Option<(Ino, Bytes)>,
    /// Names behind the snapshot's.
    names: Vec<Bytes>,
}

impl Planner<'_> {
    fn live_directory(&self, path: &FilePath) -> Result<(Ino, Vec<Bytes>), Errno> {
        let from = if path.ino == 0 { Ino::ROOT } else { Ino(path.ino) };
        let (before, behind) = path.around_snapshots();
        let directory = self.tree.walk(from, before)?.existing()?;
        let inode = self.tree.get(directory).ok_or(Errno::STALE)?;
        if !inode.is_directory() {
            return Err(Errno::NOTDIR);
        }
        Ok((directory, behind.into_iter().map(Bytes::copy_from_slice).collect()))
    }

    fn find(&self, path: &FilePath) -> Result<Found, Errno> {
        let (directory, names) = self.live_directory(path)?;
        let behind = names.iter().skip(1).cloned().collect();
        let mut found = Found { directory, snap: None, ino: directory, entry: None, names: behind };
        for name in names {
            match found.snap {
                None => {
                    let snaps = snapshots::listed(self.tree, directory);
                    found.snap = Some(*snaps.get(&name).ok_or(Errno::NOENT)?);
                }
                Some(snap) => {
                    let inode =
                        snapshots::inode_at(self.tree, found.ino, snap).ok_or(Errno::NOENT)?;
                    if !inode.is_directory() {
                        return Err(Errno::NOTDIR);
                    }
                    let next = snapshots::entry_at(self.tree, found.ino, &name, snap);
                    found.entry = Some((found.ino, name));
                    found.ino = next.ok_or(Errno::NOENT)?;
                }
            }
        }
        Ok(found)
    }

    /// An inode as a snapshot shows it.
    pub(crate) fn show_snapshot(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let Found { directory, snap, ino, entry, names } = self.find(&request.path)?;
        let Some(snap) = snap else {
            return Ok(Plan::show(directory, CapBits::NONE));
        };
        let inode = snapshots::inode_at(self.tree, ino, snap).ok_or(Errno::NOENT)?;
        if request.op == ClientOp::OPEN {
            let arguments: OpenArguments = request.arguments.read();
            let changes = open_flags::ACCESS | open_flags::TRUNCATE | open_flags::CREATE;
            if arguments.flags & changes != 0 {
                return Err(Errno::ROFS);
            }
        }
        let snapshot = Some(ShownSnapshot { ino, snap: Some(snap), entry, names });
        let shown = Shown { snapshot, ..Shown::default() };
        let mut plan = Plan { shown, told_of: Some(directory), ..Plan::default() };
        if request.op == ClientOp::READDIR {
            if !inode.is_directory() {
                return Err(Errno::NOTDIR);
            }
            plan.shown.page = Some(page_of(request));
        }
        if self.tree.get(ino).is_some() {
            let groups = Groups::AUTH | Groups::LINK | Groups::XATTR | Groups::FILE;
            plan.demand.accesses.push((caps::inode_id(ino), Access::read(groups)));
        }
        Ok(plan)
    }

    /// A page of `.snap`.
    pub(crate) fn list_snapshots(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let (directory, _) = self.live_directory(&request.path)?;
        let mut plan = Plan::show(directory, CapBits::NONE);
        plan.shown.page = Some(page_of(request));
        plan.shown.snapshot = Some(ShownSnapshot::of_directory(directory));
        Ok(plan)
    }

    /// A snapshot is taken, removed, or gets another name.
    pub(crate) fn change_snapshot(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let one = |path: &FilePath| {
            let (before, mut behind) = path.around_snapshots();
            // Clients may name the directory by its number, and leave out what stands for `.snap`.
            let name = match (behind.pop(), &before[..]) {
                (Some(name), _) if behind.is_empty() => (path.clone(), name),
                (None, [name]) => (FilePath::new(path.ino, Bytes::new()), *name),
                _ => return Err(Errno::INVAL),
            };
            let (directory, _) = self.live_directory(&name.0)?;
            Ok((directory, Bytes::copy_from_slice(name.1)))
        };
        let (directory, name) = one(&request.path)?;
        let operation = match request.op {
            ClientOp::MKSNAP => {
                let sent = match request.data.is_empty() {
                    true => SnapshotMetadata::default(),
                    false => codec::decode_all("metadata of a snapshot", &request.data)
                        .map_err(|_| Errno::INVAL)?,
                };
                Operation::TakeSnapshot { directory, name, metadata: sent.metadata }
            }
            ClientOp::RMSNAP => Operation::RemoveSnapshot { directory, name },
            _ => {
                let (other, from) = one(&request.path2)?;
                if other != directory {
                    return Err(Errno::INVAL);
                }
                Operation::RenameSnapshot { directory, from, to: name }
            }
        };
        let shows = request.op != ClientOp::RMSNAP;
        let snapshot = shows.then(|| ShownSnapshot::of_directory(directory));
        let shown = Shown { snapshot, ..Shown::default() };
        let groups = Groups::FILE | Groups::AUTH | Groups::XATTR;
        let mut plan = Plan { operations: vec![operation], shown, ..Plan::default() };
        plan.demand.accesses.push((caps::inode_id(directory), Access::change(groups)));
        Ok(plan)
    }
}
