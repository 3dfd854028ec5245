//! Permissions of clients: what the capabilities of their entities allow in this file system.
//!
//! A request is checked by what it is going to change and show, before other clients are asked for anything.
//! A client gets no bit by which it could change an inode without a request that would be refused.

use crate::ClientPeer;
use crate::plan::Plan;
use auth::{Caller, MdsAccess, MdsCaps, MdsReach, Ownership};
use namespace::{AttributeChange, Ino, Inode, Operation, SetAttributes, Tree};
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
    is_free: bool,
}

/// One thing that a request does to an inode.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    reads: bool,
    writes: bool,
    is_owners: bool,
    new_owner: Option<(u32, u32)>,
    created: Option<(u32, u32)>,
}

impl Use {
    const WRITE: Use =
        Use { reads: false, writes: true, is_owners: false, new_owner: None, created: None };
}

impl Client {
    fn new(peer: ClientPeer, file_system: &str) -> Self {
        let caps = peer.caps.within(file_system, peer.address);
        let is_free = caps.allows_all();
        Client { peer, caps, is_free }
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
        let reach = match root {
            Some(_) => known.caps.reach(&names),
            None => known.caps.reach_anywhere(),
        };
        if known.is_free || reach > MdsReach::Nothing {
            return Ok(());
        }
        let (name, text, fs) = (&known.peer.name, known.peer.caps.text(), &self.file_system);
        Err(format!(
            "{name} may not mount '/{}' of file system {fs}: its mds capabilities are '{text}'. Mount a directory \
             that they name, or give it others: ceph auth caps {name} mds 'allow rw fsname={fs}' …",
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
        if known.is_free {
            return CapBits::ALL;
        }
        let held = held();
        let has_opened = opened || held.is_some_and(|held| held.contains(CapBits::FILE_WRITE));
        let Some(names) = names(tree, ino) else {
            // It was opened when it had a name.
            return held.unwrap_or(if has_opened { WRITE } else { READ });
        };
        match known.caps.reach(&names) {
            MdsReach::Write => CapBits::ALL,
            // It depends on the user: an open for writing must come as a request.
            MdsReach::CheckedWrite if has_opened => WRITE,
            MdsReach::CheckedWrite | MdsReach::Read => READ,
            MdsReach::Nothing => CapBits::PIN,
        }
    }

    /// Whether a client may know of an inode, unless it has no name.
    pub fn reaches(&self, tree: &Tree, client: u64, ino: Ino) -> bool {
        let reach = |known: &Client| names(tree, ino).map(|names| known.caps.reach(&names));
        let known = self.clients.get(&client);
        known.is_some_and(|known| known.is_free || reach(known) != Some(MdsReach::Nothing))
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
        if known.is_free {
            return Ok(());
        }
        let caller = caller(request);
        let may = |(ino, done): (Ino, Use)| known.allows(tree, caller, ino, done, held(ino));
        match uses_of(tree, request, plan).into_iter().all(may) {
            true => Ok(()),
            false => Err(Errno::ACCES),
        }
    }

    /// Whether a client may use an inode in ways that need no right to write: for locks of files.
    ///
    /// # Errors
    ///
    /// EACCES if not.
    pub fn check_use(
        &self,
        tree: &Tree,
        client: u64,
        request: &ClientRequest,
        ino: Ino,
        held: impl FnOnce() -> Option<CapBits>,
    ) -> Result<(), Errno> {
        let known = self.clients.get(&client).ok_or(Errno::ACCES)?;
        match known.is_free || known.allows(tree, caller(request), ino, Use::default(), held()) {
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
        done: Use,
        held: Option<CapBits>,
    ) -> bool {
        let Some(path) = names(tree, ino) else {
            // It was opened when it had a name.
            return held.is_some_and(|bits| !done.writes || bits.contains(CapBits::FILE_WRITE));
        };
        let Some(inode) = tree.get(ino) else { return false };
        let Use { reads, writes, is_owners, new_owner, created } = done;
        let inode = Ownership { uid: inode.owner.uid, gid: inode.owner.gid, mode: inode.mode };
        let path = &path;
        let access =
            MdsAccess { caller, path, inode, new_owner, created, reads, writes, is_owners };
        self.caps.allow(&access)
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

/// All that a request does: what it changes, and what it shows.
fn uses_of(tree: &Tree, request: &ClientRequest, plan: &Plan) -> Vec<(Ino, Use)> {
    let mut uses: Vec<(Ino, Use)> = Vec::new();
    for operation in &plan.operations {
        match operation {
            Operation::Create { directory, .. } => {
                uses.push((*directory, Use { created: Some(request.owner()), ..Use::WRITE }));
            }
            Operation::Unlink { directory, .. } | Operation::RemoveDirectory { directory, .. } => {
                uses.push((*directory, Use::WRITE))
            }
            // Else a name within the client's reach would give it an inode that is out of it.
            Operation::Link { ino, directory, .. } => {
                uses.extend([(*directory, Use::WRITE), (*ino, Use::WRITE)]);
            }
            Operation::Rename { from, to } => {
                uses.extend([(from.0, Use::WRITE), (to.0, Use::WRITE)]);
            }
            Operation::Change { ino, change } => {
                let inode = tree.get(*ino);
                uses.extend(inode.map(|inode| (*ino, change_use(request, inode, change))));
            }
            Operation::Forget { .. } => {}
        }
    }
    // An inode that the request is about to create is in no tree yet.
    let shown = plan.shown.target.filter(|ino| tree.get(*ino).is_some());
    let wanted = plan.shown.wanted;
    uses.extend(shown.map(|ino| {
        let reads = wanted.contains(CapBits::FILE_READ) || request.op == ClientOp::READDIR;
        let writes = wanted.contains(CapBits::FILE_WRITE);
        (ino, Use { reads, writes, ..Use::default() })
    }));
    uses
}

fn change_use(request: &ClientRequest, inode: &Inode, change: &AttributeChange) -> Use {
    let AttributeChange::Set(set) = change else { return Use::WRITE };
    let SetAttributes { mode, uid, gid, size, .. } = *set;
    let changes_owner = uid.is_some() || gid.is_some();
    let new_owner = (uid.unwrap_or(inode.owner.uid), gid.unwrap_or(inode.owner.gid));
    // Times are set by the owner, or by all that may write.
    let is_owners =
        mode.is_some() || changes_owner || size.is_none() && request.uid == inode.owner.uid;
    Use { is_owners, new_owner: changes_owner.then_some(new_owner), ..Use::WRITE }
}
