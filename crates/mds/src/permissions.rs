//! Permissions of clients: what the capabilities of their entities allow in this file system.
//!
//! A request is checked by what it is going to change and show, before other clients are asked for anything.
//! Capabilities on inodes are limited in the same way: where a request to change an inode would be refused,
//! the client gets no bit to change it without a request.

use crate::ClientPeer;
use crate::plan::Plan;
use auth::{Caller, MdsAccess, MdsCaps, MdsLevel, Ownership};
use namespace::{AttributeChange, Ino, Inode, Operation, SetAttributes, Tree, snapshots};
use std::collections::BTreeMap;
use types::Errno;
use wire::{CapBits, ClientOp, ClientRequest};

/// Capabilities of all clients that are connected.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    file_system: String,
    clients: BTreeMap<u64, Client>,
}

#[derive(Debug)]
struct Client {
    peer: ClientPeer,
    /// Grants for this file system and the client's address.
    caps: MdsCaps,
    /// Whether they allow everything, so that no path needs to be looked at.
    is_unrestricted: bool,
}

/// Access of a request to one inode.
#[derive(Debug, Clone, Copy, Default)]
struct InodeAccess {
    reads: bool,
    writes: bool,
    requires_owner: bool,
    sets_policy: bool,
    new_owner: Option<(u32, u32)>,
    created: Option<(u32, u32)>,
    changes_snapshots: bool,
}

impl InodeAccess {
    const WRITE: InodeAccess = InodeAccess {
        reads: false,
        writes: true,
        requires_owner: false,
        sets_policy: false,
        new_owner: None,
        created: None,
        changes_snapshots: false,
    };
    const SNAPSHOTS: InodeAccess = InodeAccess { changes_snapshots: true, ..InodeAccess::WRITE };
}

impl Client {
    fn new(peer: ClientPeer, file_system: &str) -> Self {
        let caps = peer.caps.within(file_system, peer.address);
        let is_unrestricted = caps.allows_all();
        Client { peer, caps, is_unrestricted }
    }
}

impl Permissions {
    /// The name of the file system, to which grants may be limited.
    pub fn set_file_system(&mut self, name: &str) {
        if self.file_system == name {
            return;
        }
        name.clone_into(&mut self.file_system);
        for client in self.clients.values_mut() {
            *client = Client::new(client.peer.clone(), name);
        }
    }

    /// A client has a new connection, with the capabilities of its ticket.
    pub fn replace(&mut self, peer: &ClientPeer) {
        self.clients.insert(peer.client, Client::new(peer.clone(), &self.file_system));
    }

    /// A client says something. If it has several connections, the newest one counts.
    pub fn learn(&mut self, peer: &ClientPeer) {
        if !self.clients.contains_key(&peer.client) {
            self.replace(peer);
        }
    }

    /// A session has ended.
    pub fn forget(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    /// Whether a client may do everything everywhere.
    pub fn is_unrestricted(&self, client: u64) -> bool {
        self.clients.get(&client).is_some_and(|known| known.is_unrestricted)
    }

    /// Whether a client may mount a directory, or anything if it does not say which.
    ///
    /// # Errors
    ///
    /// The text for the client says why not, and what to do.
    pub fn check_mount(&self, client: u64, root: Option<&str>) -> Result<(), String> {
        let names = root.iter().flat_map(|root| root.split('/')).filter(|name| !name.is_empty());
        let names: Vec<&[u8]> = names.map(str::as_bytes).collect();
        let Some(known) = self.clients.get(&client) else {
            return Err("the client is not known".to_owned());
        };
        let level = match root {
            Some(_) => known.caps.level_at(&names),
            None => known.caps.highest_level(),
        };
        if known.is_unrestricted || level > MdsLevel::Nothing {
            return Ok(());
        }
        let (name, text, fs) = (&known.peer.name, known.peer.caps.text(), &self.file_system);
        Err(format!(
            "{name} may not mount '/{}' of file system {fs}: its mds capabilities are '{text}'. Mount a directory \
             that they name, or change them: `ceph auth get {name}` shows all capabilities, `ceph auth caps \
             {name}` replaces them all",
            root.unwrap_or_default().trim_start_matches('/')
        ))
    }

    /// Bits that a client may have on an inode at all. `held` are those that it may have already, by which
    /// inodes without a name are judged. `opened` says whether an open for writing was checked just now.
    pub fn allowed(
        &self,
        tree: &Tree,
        client: u64,
        ino: Ino,
        held: impl FnOnce() -> Option<CapBits>,
        opened: bool,
    ) -> CapBits {
        const READ: CapBits = CapBits(!(CapBits::ANY_EXCL.0 | CapBits::ANY_FILE_WRITE.0));
        const WRITE: CapBits = CapBits(!CapBits::ANY_EXCL.0);
        let Some(known) = self.clients.get(&client) else { return CapBits::PIN };
        if known.is_unrestricted {
            return CapBits::ALL;
        }
        let held = held();
        let has_opened = opened || held.is_some_and(|held| held.contains(CapBits::FILE_WRITE));
        let Some(names) = names(tree, ino) else {
            // It was opened when it had a name.
            return held.unwrap_or(if has_opened { WRITE } else { READ });
        };
        match known.caps.level_at(&names) {
            MdsLevel::Write => CapBits::ALL,
            // It depends on the user: an open for writing must come as a request.
            MdsLevel::CheckedWrite if has_opened => WRITE,
            MdsLevel::CheckedWrite | MdsLevel::Read => READ,
            MdsLevel::Nothing => CapBits::PIN,
        }
    }

    /// Whether a client may know of an inode, unless it has no name.
    pub fn reaches(&self, tree: &Tree, client: u64, ino: Ino) -> bool {
        let level = |known: &Client| names(tree, ino).map(|names| known.caps.level_at(&names));
        let known = self.clients.get(&client);
        known.is_some_and(|known| known.is_unrestricted || level(known) != Some(MdsLevel::Nothing))
    }

    /// Whether a client may do what a request was planned to do; `held` are the bits that it may have on an
    /// inode, as in [`Permissions::allowed`].
    ///
    /// # Errors
    ///
    /// EACCES if not.
    pub fn check(
        &self,
        tree: &Tree,
        client: u64,
        request: &ClientRequest,
        plan: &Plan,
        held: impl Fn(Ino) -> Option<CapBits>,
    ) -> Result<(), Errno> {
        let known = self.clients.get(&client).ok_or(Errno::ACCES)?;
        if known.is_unrestricted && !plan.operations.iter().any(needs_flag) {
            return Ok(());
        }
        let caller = caller(request);
        let may =
            |(ino, access): (Ino, InodeAccess)| known.allows(tree, caller, ino, access, held(ino));
        let may_show = || known.may_show(tree, caller, request.op, plan);
        match accesses_of(tree, request, plan).into_iter().all(may) && may_show() {
            true => Ok(()),
            false => Err(Errno::ACCES),
        }
    }

    /// Whether a client may have access to an inode that is neither reading nor writing: locks of files.
    ///
    /// # Errors
    ///
    /// EACCES if not.
    pub fn check_access(
        &self,
        tree: &Tree,
        client: u64,
        request: &ClientRequest,
        ino: Ino,
        held: impl FnOnce() -> Option<CapBits>,
    ) -> Result<(), Errno> {
        let known = self.clients.get(&client).ok_or(Errno::ACCES)?;
        match known.is_unrestricted
            || known.allows(tree, caller(request), ino, InodeAccess::default(), held())
        {
            true => Ok(()),
            false => Err(Errno::ACCES),
        }
    }
}

impl Client {
    fn allows(
        &self,
        tree: &Tree,
        caller: Caller<'_>,
        ino: Ino,
        access: InodeAccess,
        held: Option<CapBits>,
    ) -> bool {
        let Some(path) = names(tree, ino) else {
            // It was opened when it had a name.
            let may_write = |bits: CapBits| bits.contains(CapBits::FILE_WRITE);
            return !access.sets_policy
                && held.is_some_and(|bits| !access.writes || may_write(bits));
        };
        tree.get(ino).is_some_and(|inode| self.allows_at(caller, &path, inode, access))
    }

    /// Whether a snapshot may be shown: by the path that leads to its directory today and on in it, and by
    /// owner and mode that the inode had.
    fn may_show(&self, tree: &Tree, caller: Caller<'_>, op: ClientOp, plan: &Plan) -> bool {
        let (Some(snapshot), Some(directory)) = (&plan.shown.snapshot, plan.told_of) else {
            return true;
        };
        let Some(snap) = snapshot.snap else { return true };
        let (Some(mut path), Some(inode)) =
            (names(tree, directory), snapshots::inode_at(tree, snapshot.ino, snap))
        else {
            return false;
        };
        path.extend(snapshot.names.iter().map(|name| &name[..]));
        let reads = [ClientOp::OPEN, ClientOp::READDIR].contains(&op);
        self.allows_at(caller, &path, inode, InodeAccess { reads, ..InodeAccess::default() })
    }

    fn allows_at(
        &self,
        caller: Caller<'_>,
        path: &[&[u8]],
        inode: &Inode,
        access: InodeAccess,
    ) -> bool {
        let InodeAccess { reads, writes, requires_owner, new_owner, created, .. } = access;
        let InodeAccess { sets_policy, changes_snapshots, .. } = access;
        let inode = Ownership { uid: inode.owner.uid, gid: inode.owner.gid, mode: inode.mode };
        self.caps.allow(&MdsAccess {
            caller,
            path,
            inode,
            new_owner,
            created,
            reads,
            writes,
            requires_owner,
            sets_policy,
            changes_snapshots,
        })
    }
}

fn caller(request: &ClientRequest) -> Caller<'_> {
    Caller { uid: request.uid, gid: request.gid, groups: &request.groups }
}

/// Names of the path from the root; `None` for an inode without a name.
fn names(tree: &Tree, ino: Ino) -> Option<Vec<&[u8]>> {
    let mut names = Vec::new();
    let mut next = ino;
    while next != Ino::ROOT {
        let (directory, name) = tree.home(next)?;
        names.push(&name[..]);
        next = *directory;
    }
    names.reverse();
    Some(names)
}

/// All accesses of a request: by its changes, and by the inode that it shows.
fn accesses_of(tree: &Tree, request: &ClientRequest, plan: &Plan) -> Vec<(Ino, InodeAccess)> {
    let mut accesses: Vec<(Ino, InodeAccess)> = Vec::new();
    for operation in &plan.operations {
        match operation {
            Operation::Create { directory, .. } => {
                let created = Some(request.owner());
                let sets_policy = sets_policy(operation);
                let access = InodeAccess { created, sets_policy, ..InodeAccess::WRITE };
                accesses.push((*directory, access));
            }
            Operation::Unlink { directory, .. } | Operation::RemoveDirectory { directory, .. } => {
                accesses.push((*directory, InodeAccess::WRITE))
            }
            // Else a name within the client's reach would give it an inode that is out of it.
            Operation::Link { ino, directory, .. } => {
                accesses.extend([(*directory, InodeAccess::WRITE), (*ino, InodeAccess::WRITE)]);
            }
            Operation::Rename { from, to } => {
                accesses.extend([(from.0, InodeAccess::WRITE), (to.0, InodeAccess::WRITE)]);
            }
            Operation::Change { ino, change } => {
                let inode = tree.get(*ino);
                accesses
                    .extend(inode.map(|inode| (*ino, access_of_change(request, inode, change))));
            }
            Operation::TakeSnapshot { directory, .. }
            | Operation::RemoveSnapshot { directory, .. }
            | Operation::RenameSnapshot { directory, .. } => {
                accesses.push((*directory, InodeAccess::SNAPSHOTS));
            }
            Operation::Forget { .. }
            | Operation::FlushBehind { .. }
            | Operation::ConfirmRemoved { .. }
            | Operation::TrimOldVersions { .. } => {}
        }
    }
    // The inode of a snapshot has its own check.
    let told_of = plan.told_of.filter(|_| plan.shown.snapshot.is_none());
    accesses.extend(told_of.map(|ino| (ino, InodeAccess::default())));
    // An inode that the request is about to create is in no tree yet.
    let shown = plan.shown.target.filter(|ino| tree.get(*ino).is_some());
    let wanted = plan.shown.wanted;
    accesses.extend(shown.map(|ino| {
        let reads = wanted.contains(CapBits::FILE_READ) || request.op == ClientOp::READDIR;
        let writes = wanted.contains(CapBits::FILE_WRITE);
        (ino, InodeAccess { reads, writes, ..InodeAccess::default() })
    }));
    accesses
}

/// Whether an operation needs a flag of its own, also of a client that may write everywhere.
fn needs_flag(operation: &Operation) -> bool {
    match operation {
        Operation::TakeSnapshot { .. }
        | Operation::RemoveSnapshot { .. }
        | Operation::RenameSnapshot { .. } => true,
        _ => sets_policy(operation),
    }
}

/// Whether an operation decides where data goes or how much, for which the right to write is not enough.
fn sets_policy(operation: &Operation) -> bool {
    match operation {
        Operation::Create { new, .. } => new.layout.is_some(),
        Operation::Change { change, .. } => is_policy(change),
        _ => false,
    }
}

fn is_policy(change: &AttributeChange) -> bool {
    use AttributeChange::{Layout, Pins, SetQuota};
    matches!(change, Layout(_) | Pins(_) | SetQuota(_))
}

fn access_of_change(
    request: &ClientRequest,
    inode: &Inode,
    change: &AttributeChange,
) -> InodeAccess {
    let AttributeChange::Set(set) = change else {
        let sets_policy = is_policy(change);
        return InodeAccess { sets_policy, ..InodeAccess::WRITE };
    };
    let SetAttributes { mode, uid, gid, size, .. } = *set;
    let changes_owner = uid.is_some() || gid.is_some();
    let new_owner = (uid.unwrap_or(inode.owner.uid), gid.unwrap_or(inode.owner.gid));
    // Times are set by the owner, or by all that may write.
    let requires_owner =
        mode.is_some() || changes_owner || size.is_none() && request.uid == inode.owner.uid;
    InodeAccess {
        requires_owner,
        new_owner: changes_owner.then_some(new_owner),
        ..InodeAccess::WRITE
    }
}
