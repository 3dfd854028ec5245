//! Capabilities of clients on inodes, in the simplest form that is right: an inode belongs to one client,
//! or is shared by those that read, or is written by several that cache nothing.
//!
//! A request that reads or changes an inode for one client *demands* it from the others. While it does,
//! the others are left only bits that do not contradict it; the request is executed when they have confirmed.
//!
//! Invariant: bits that are issued to different clients, with those that are being revoked, obey the table of
//! [`rules::excluded_by`].

mod held;
pub(crate) mod rules;
#[cfg(test)]
mod tests;

use held::Held;
use namespace::Ino;
use rules::Sharing;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{CapBits, CapOp, ReplyCap};

/// The realm of all inodes, as there are no snapshots.
const ROOT_REALM: u64 = 1;

/// Purpose for which a request needs an inode from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Attributes must be those that the server knows.
    Read,
    /// Attributes or entries change, so no other client may rely on them.
    Change,
    /// A file's size is set, so the client itself must have told the size that it has given the file.
    Cut,
}

impl Need {
    /// Bits that other clients may keep.
    fn left_to_others(self) -> CapBits {
        match self {
            Need::Read => !(CapBits::ANY_EXCL | CapBits::FILE_WRITE | CapBits::FILE_BUFFER),
            Need::Change | Need::Cut => CapBits::PIN,
        }
    }

    /// Bits that the client itself may keep.
    fn left_to_own(self) -> CapBits {
        match self {
            Need::Read | Need::Change => !CapBits::NONE,
            // Kernels warn if they may read while a file is cut.
            Need::Cut => !CapBits::ANY_FILE | CapBits::FILE_SHARED | CapBits::FILE_CACHE,
        }
    }

    /// Bits that a client may keep during a request.
    fn left_to(self, client: u64, request: RequestId) -> CapBits {
        if client == request.client { self.left_to_own() } else { self.left_to_others() }
    }
}

/// A request: its client, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId {
    /// The client.
    pub client: u64,
    /// The transaction id.
    pub tid: u64,
}

/// A message to a client about one of its capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CapNotice {
    /// The client.
    pub client: u64,
    /// Grant or revocation.
    pub op: CapOp,
    /// The inode.
    pub ino: Ino,
    /// Id of the capability.
    pub cap_id: u64,
    /// Number of the message.
    pub seq: u32,
    /// Bits that the client has from now on.
    pub caps: CapBits,
    /// Bits that it wants, as far as the server knows.
    pub wanted: CapBits,
}

#[derive(Debug, Default)]
struct InodeCaps {
    is_directory: bool,
    holders: BTreeMap<u64, Held>,
    /// By request: what for.
    demands: BTreeMap<RequestId, Need>,
}

impl InodeCaps {
    fn sharing(&self) -> Sharing {
        let holders: Vec<_> = self.holders.iter().map(|(id, held)| (*id, held.wanted)).collect();
        rules::right_sharing(self.is_directory, &holders)
    }

    /// Bits that a client should have.
    fn target(&self, sharing: Sharing, client: u64) -> CapBits {
        let wanted = self.holders.get(&client).map_or(CapBits::NONE, |held| held.wanted);
        let demands = self.demands.iter();
        let left =
            demands.fold(!CapBits::NONE, |bits, (by, need)| bits & need.left_to(client, *by));
        let allowed = rules::allowed(sharing, self.is_directory, client);
        (wanted | rules::liked(self.is_directory)) & allowed & left | CapBits::PIN
    }

    /// Bits that a client cannot get before others have given theirs back.
    fn blocked(&self, client: u64) -> CapBits {
        let others = self.holders.iter().filter(|(id, _)| **id != client);
        others.fold(CapBits::NONE, |bits, (_, held)| bits | rules::excluded_by(held.issued()))
    }

    /// Whether no client holds a bit that contradicts a demand.
    fn is_met(&self, request: RequestId, need: Need) -> bool {
        let mut holders = self.holders.iter();
        holders.all(|(client, held)| need.left_to(*client, request).contains(held.issued()))
    }
}

/// All capabilities of a rank.
#[derive(Debug, Default)]
pub(crate) struct Caps {
    inodes: BTreeMap<Ino, InodeCaps>,
    last_id: u64,
    notices: VecDeque<CapNotice>,
    /// Requests whose inodes have lost bits of a client since they were tried.
    woken: BTreeSet<RequestId>,
}

impl Caps {
    /// The next message for a client.
    pub fn poll_notice(&mut self) -> Option<CapNotice> {
        self.notices.pop_front()
    }

    /// The next request that may have all that it demands, since a client has given bits back.
    pub fn poll_woken(&mut self) -> Option<RequestId> {
        self.woken.pop_first()
    }

    /// Whether a client holds a capability on an inode; its id.
    pub fn id(&self, ino: Ino, client: u64) -> Option<u64> {
        Some(self.inodes.get(&ino)?.holders.get(&client)?.id)
    }

    /// Bits that a client may have.
    pub fn issued(&self, ino: Ino, client: u64) -> CapBits {
        let held = self.inodes.get(&ino).and_then(|inode| inode.holders.get(&client));
        held.map_or(CapBits::NONE, |held| held.issued())
    }

    /// Whether a client holds or wants to write data.
    pub fn writes(&self, ino: Ino, client: u64) -> bool {
        let held = self.inodes.get(&ino).and_then(|inode| inode.holders.get(&client));
        held.is_some_and(|held| (held.wanted | held.issued()).intersects(rules::WRITING))
    }

    /// Whether any client has a capability on an inode.
    pub fn is_held(&self, ino: Ino) -> bool {
        self.inodes.get(&ino).is_some_and(|inode| !inode.holders.is_empty())
    }

    /// Gives a client a capability in a reply, or renews the one that it has, with all bits that it may have
    /// now; `wanted` is added to those that it wants.
    pub fn issue(
        &mut self,
        ino: Ino,
        is_directory: bool,
        client: u64,
        wanted: CapBits,
    ) -> ReplyCap {
        let inode = self.inodes.entry(ino).or_default();
        inode.is_directory = is_directory;
        let held = inode.holders.entry(client).or_insert_with(|| {
            self.last_id += 1;
            Held::new(self.last_id)
        });
        held.wanted |= wanted;
        let bits = inode.target(inode.sharing(), client) - inode.blocked(client);
        let held = inode.holders.get_mut(&client).expect("it was inserted");
        // A reply takes nothing away: that is the business of revocations.
        held.send_in_reply(bits | held.pending());
        ReplyCap {
            caps: held.pending(),
            wanted: held.wanted,
            cap_id: held.id,
            seq: held.seq(),
            mseq: 0,
            realm: ROOT_REALM,
            is_auth: true,
        }
    }

    /// Takes a capability that a client of a predecessor claims. Bits that contradict those of others it
    /// loses.
    pub fn adopt(
        &mut self,
        ino: Ino,
        is_directory: bool,
        client: u64,
        cap_id: u64,
        issued: CapBits,
        wanted: CapBits,
    ) {
        self.last_id = self.last_id.max(cap_id);
        let inode = self.inodes.entry(ino).or_default();
        inode.is_directory = is_directory;
        let kept = issued - inode.blocked(client);
        let mut held = Held::adopted(cap_id, kept | CapBits::PIN, wanted);
        if kept != issued {
            tracing::warn!(client, %ino, %issued, "a client claims what another one has");
            held.send(kept | CapBits::PIN);
            self.notices.push_back(notice(CapOp::REVOKE, ino, client, &held));
        }
        inode.holders.insert(client, held);
    }

    /// A client of a predecessor has sent what it wrote by bits that it had given back, without knowing
    /// whether that arrived: it has these bits until its message is handled.
    pub fn adopt_dirty(&mut self, ino: Ino, client: u64, cap_id: u64, dirty: CapBits) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let kept = dirty - inode.blocked(client);
        if let Some(held) = inode.holders.get_mut(&client).filter(|held| held.id == cap_id) {
            held.adopt_dirty(kept);
        }
    }

    /// Revokes and grants on all inodes, after capabilities were adopted.
    pub fn evaluate_all(&mut self) {
        for ino in self.inodes.keys().copied().collect::<Vec<_>>() {
            self.evaluate(ino);
        }
    }

    /// Sends a client its capability again, since attributes have changed.
    pub fn repeat(&mut self, ino: Ino, client: u64) {
        let inode = self.inodes.get_mut(&ino);
        let Some(held) = inode.and_then(|inode| inode.holders.get_mut(&client)) else { return };
        let bits = held.pending();
        held.send(bits);
        self.notices.push_back(notice(CapOp::GRANT, ino, client, held));
    }

    /// Needs an inode for a request; true if no client holds anything against it.
    pub fn demand(&mut self, ino: Ino, request: RequestId, need: Need) -> bool {
        let Some(inode) = self.inodes.get_mut(&ino) else { return true };
        let demand = inode.demands.entry(request).or_insert(need);
        *demand = need.max(*demand);
        self.evaluate(ino);
        self.inodes.get(&ino).is_none_or(|inode| inode.is_met(request, need))
    }

    /// Ends the demands of a request on inodes, and gives others what they may have again.
    pub fn end_demands(&mut self, request: RequestId, inodes: impl IntoIterator<Item = Ino>) {
        for ino in inodes {
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.demands.remove(&request);
                self.evaluate(ino);
            }
        }
    }

    /// A client has seen the message `seq` and keeps `kept`. `wanted` replaces the bits that it wants if it
    /// has seen the last message.
    pub fn confirm(
        &mut self,
        ino: Ino,
        client: u64,
        cap_id: u64,
        seq: u32,
        kept: CapBits,
        wanted: CapBits,
    ) {
        let inode = self.inodes.get_mut(&ino);
        let Some(held) = inode.and_then(|inode| inode.holders.get_mut(&client)) else { return };
        if held.id != cap_id {
            return;
        }
        if seq >= held.seq() {
            held.wanted = wanted;
        } else {
            held.wanted |= wanted;
        }
        held.confirm(seq, kept | CapBits::PIN);
        self.given_back(ino);
    }

    /// A client gives a capability up; false if it has not seen the last grant.
    pub fn release(&mut self, ino: Ino, client: u64, cap_id: u64, issue_seq: u32) -> bool {
        let Some(inode) = self.inodes.get_mut(&ino) else { return false };
        let held = inode.holders.get(&client);
        if !held.is_some_and(|held| held.id == cap_id && held.may_release(issue_seq)) {
            return false;
        }
        inode.holders.remove(&client);
        self.given_back(ino);
        true
    }

    /// Takes all capabilities of a client whose session has ended; returns their inodes.
    pub fn remove_client(&mut self, client: u64) -> Vec<Ino> {
        let held = self.inodes.iter().filter(|(_, inode)| inode.holders.contains_key(&client));
        let inodes: Vec<Ino> = held.map(|(ino, _)| *ino).collect();
        for ino in &inodes {
            self.inodes.get_mut(ino).expect("it was listed").holders.remove(&client);
            self.given_back(*ino);
        }
        inodes
    }

    /// A client may hold less of an inode than before.
    fn given_back(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get(&ino) {
            self.woken.extend(inode.demands.keys());
        }
        self.evaluate(ino);
    }

    /// Revokes bits that clients should not have, and grants those that they may have now.
    fn evaluate(&mut self, ino: Ino) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        if inode.holders.is_empty() && inode.demands.is_empty() {
            self.inodes.remove(&ino);
            return;
        }
        let sharing = inode.sharing();
        let clients: Vec<u64> = inode.holders.keys().copied().collect();
        for client in &clients {
            let target = inode.target(sharing, *client);
            let held = inode.holders.get_mut(client).expect("it was listed");
            if !target.contains(held.pending()) {
                let left = held.pending() & target;
                held.send(left);
                self.notices.push_back(notice(CapOp::REVOKE, ino, *client, held));
            }
        }
        for client in &clients {
            let bits = inode.target(sharing, *client) - inode.blocked(*client);
            let held = inode.holders.get_mut(client).expect("it was listed");
            // Bits that a client gets without asking it gets with a reply, else it could return them and be
            // given them for ever.
            if !held.is_revoking() && !held.pending().contains(bits & held.wanted) {
                held.send(bits | held.pending());
                self.notices.push_back(notice(CapOp::GRANT, ino, *client, held));
            }
        }
    }

    /// Panics if clients hold bits that contradict each other.
    pub fn check_invariants(&self) {
        for (ino, inode) in &self.inodes {
            for (one, held) in &inode.holders {
                let excluded = rules::excluded_by(held.issued());
                for (other, others) in inode.holders.iter().filter(|(other, _)| *other != one) {
                    let (a, b) = (held.issued(), others.issued());
                    assert!(!excluded.intersects(b), "{ino}: {one} has {a}, {other} has {b}");
                }
            }
        }
    }
}

fn notice(op: CapOp, ino: Ino, client: u64, held: &Held) -> CapNotice {
    let (cap_id, seq, caps, wanted) = (held.id, held.seq(), held.pending(), held.wanted);
    CapNotice { client, op, ino, cap_id, seq, caps, wanted }
}
