//! Questions about capabilities, and the check of all.

use super::LockMachine;
use crate::group::{Group, State, WRITING};
use crate::inode::InodeCaps;
use crate::requests::{InodeId, RequestId};
use crate::table;
use wire::CapBits;

impl LockMachine {
    /// Id of a client's capability on an inode.
    pub fn cap_id(&self, ino: InodeId, client: u64) -> Option<u64> {
        Some(self.inodes.get(&ino)?.holders.get(&client)?.id)
    }

    /// Bits that a client may have at all, as the last reply said; `None` if it has no capability.
    pub fn allowed(&self, ino: InodeId, client: u64) -> Option<CapBits> {
        Some(self.inodes.get(&ino)?.holders.get(&client)?.allowed())
    }

    /// Bits that a client may believe to have.
    pub fn issued(&self, ino: InodeId, client: u64) -> CapBits {
        self.inodes.get(&ino).map_or(CapBits::NONE, |inode| inode.issued(client))
    }

    /// Whether a client holds or wants the right to write data.
    pub fn writes(&self, ino: InodeId, client: u64) -> bool {
        let held = self.inodes.get(&ino).and_then(|inode| inode.holders.get(&client));
        held.is_some_and(|held| (held.wanted() | held.issued()).intersects(WRITING))
    }

    /// Whether a client may have data of any file that is not written yet, or is being written.
    pub fn holds_data_to_write(&self, client: u64) -> bool {
        let bits = CapBits::FILE_WRITE | CapBits::FILE_BUFFER;
        let inodes = self.sessions.get(client).map(|session| &session.caps);
        inodes.into_iter().flatten().any(|ino| self.issued(*ino, client).intersects(bits))
    }

    /// Whether a client may have one more request in progress.
    pub fn has_room(&self, id: RequestId) -> bool {
        self.requests.has_room(id)
    }

    /// Whether any client has a capability on an inode.
    pub fn is_held(&self, ino: InodeId) -> bool {
        self.inodes.get(&ino).is_some_and(|inode| !inode.holders.is_empty())
    }

    /// Clients with a capability on an inode.
    pub fn holders(&self, ino: InodeId) -> impl Iterator<Item = u64> {
        self.inodes.get(&ino).into_iter().flat_map(|inode| inode.holders.keys().copied())
    }

    /// Directories in which asynchronous creates and unlinks are possible, or may be on their way.
    pub fn delegating(&self) -> impl Iterator<Item = InodeId> {
        let is_one = |ino: &&InodeId| self.inodes.get(ino).is_some_and(InodeCaps::delegates);
        self.delegating.iter().filter(is_one).copied()
    }

    /// Inodes on which clients have capabilities or requests are in progress.
    pub fn inodes(&self) -> impl ExactSizeIterator<Item = InodeId> {
        self.inodes.keys().copied()
    }

    /// State of a group, or the one that it is going to.
    pub fn state(&self, ino: InodeId, group: Group) -> State {
        self.inodes.get(&ino).map_or(State::Sync, |inode| inode.target(group))
    }

    /// Capabilities of a client.
    pub fn caps_of(&self, client: u64) -> usize {
        self.sessions.get(client).map_or(0, |session| session.caps.len())
    }

    /// Leases of a client.
    pub fn leases_of(&self, client: u64) -> usize {
        self.leases.count_of(client)
    }

    /// Panics if clients hold bits that contradict each other, or parts of the machine do.
    pub fn check_invariants(&self) {
        self.check_against(&table::ROWS);
    }

    pub(crate) fn check_against(&self, rows: &[table::Row]) {
        let mut caps = 0;
        for (ino, inode) in &self.inodes {
            inode.check(rows);
            caps += inode.holders.len();
            for client in inode.holders.keys() {
                let session = self.sessions.get(*client).expect("a holder has a session");
                assert!(session.caps.contains(ino), "a session lists its capabilities");
            }
        }
        assert_eq!(
            caps,
            self.sessions.iter().map(|(_, session)| session.caps.len()).sum::<usize>()
        );
        for (id, request) in self.requests.iter().filter(|(_, request)| !request.is_ready) {
            assert!(!self.admits(id), "a request that can go on was told so: {request:?}");
        }
        self.leases.check_invariants();
    }
}
