//! One inode: its holders, requests that need it, and the states of its groups.
//!
//! A group has a *target*. As soon as the target changes, clients are left only bits that it allows; when
//! all have given back the others, the target is *reached*, and bits that only it allows are granted. Another
//! target in between changes nothing of a revocation that is on its way.

use crate::group::{
    DIRECTORY_OPERATIONS, Group, Kind, State, USING, WRITING, changed_by_server, hides, liked,
    relies_on,
};
use crate::held::Held;
use crate::requests::{Access, RequestId};
use crate::table;
use std::collections::{BTreeMap, BTreeSet};
use wire::CapBits;

/// Clients that were not heard of for longer than their sessions last.
pub(crate) type Silent = BTreeSet<u64>;

/// A message about a capability that a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Revoked(u64),
    Granted(u64),
}

#[derive(Debug, Default)]
pub(crate) struct InodeCaps {
    /// Its kind.
    pub kind: Kind,
    /// Capabilities by client.
    pub holders: BTreeMap<u64, Held>,
    /// Requests in progress that need it.
    pub requests: BTreeMap<RequestId, Access>,
    targets: [State; 4],
}

impl InodeCaps {
    /// Whether nothing is known of the inode that must be remembered.
    pub fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.requests.is_empty()
    }

    /// State of a group, or the one that it is going to.
    pub fn target(&self, group: Group) -> State {
        self.targets[group as usize]
    }

    /// Bits of a client's capability that it may believe to have.
    pub fn issued(&self, client: u64) -> CapBits {
        self.holders.get(&client).map_or(CapBits::NONE, Held::issued)
    }

    fn issued_to_others(&self, client: u64) -> CapBits {
        let others = self.holders.iter().filter(|(other, _)| **other != client);
        others.fold(CapBits::NONE, |bits, (_, held)| bits | held.issued())
    }

    /// The client that should have the inode for itself.
    fn loner(&self, silent: &Silent) -> Option<u64> {
        let uses = |held: &Held| match self.kind {
            Kind::Directory => true,
            Kind::File => held.wanted().intersects(USING),
        };
        let heard = self.holders.iter().filter(|(client, _)| !silent.contains(client));
        let mut users = heard.filter(|(_, held)| uses(held)).map(|(client, _)| *client);
        match users.next() {
            Some(first) => users.next().is_none().then_some(first),
            // A client that has closed the file stays the loner until another one comes.
            None => self.last_loner().filter(|loner| !silent.contains(loner)),
        }
    }

    /// The only holder, if the inode is its own.
    fn last_loner(&self) -> Option<u64> {
        let mut holders = self.holders.keys();
        let only = *holders.next()?;
        let is_alone = holders.next().is_none();
        (is_alone && self.targets.contains(&State::Excl(only))).then_some(only)
    }

    /// The state that is right when no request needs the group.
    fn resting(&self, group: Group, loner: Option<u64>) -> State {
        let wants = |held: &Held, bits: CapBits| held.wanted().intersects(bits);
        // A loner gets nothing of L that others cannot have, too.
        let Some(loner) = loner.filter(|_| group != Group::Link) else {
            let mut holders = self.holders.values();
            let is_written = holders.any(|held| wants(held, WRITING));
            let is_mixed = is_written && group == Group::File && self.kind == Kind::File;
            return if is_mixed { State::Mix } else { State::Sync };
        };
        let changing = if group == Group::File { WRITING } else { group.exclusive() };
        // A client that only reads takes no bits away from others, which may come back to read, too.
        let takes = wants(&self.holders[&loner], changing);
        let is_alone = !self.issued_to_others(loner).intersects(group.mask());
        // Without asking, a loner gets nothing of X that others cannot have, too.
        let likes = group != Group::Xattr;
        let keeps = is_alone || self.target(group) == State::Excl(loner);
        match takes || likes && keeps {
            true => State::Excl(loner),
            false => State::Sync,
        }
    }

    /// Whether a client has the rights to create and unlink asynchronously, or may get them.
    pub fn delegates(&self) -> bool {
        let is_directory = self.kind == Kind::Directory;
        let may = |held: &Held| held.may_delegate || held.issued().intersects(DIRECTORY_OPERATIONS);
        is_directory && self.holders.values().any(may)
    }

    /// Whether another client may get the rights to create and unlink asynchronously.
    fn delegates_beside(&self, client: u64) -> bool {
        let is_directory = self.kind == Kind::Directory;
        let mut others = self.holders.iter().filter(|(other, _)| **other != client);
        is_directory && others.any(|(_, held)| held.may_delegate)
    }

    /// The state that is right now.
    fn right(&self, group: Group, resting: State) -> State {
        let accesses = self.requests.iter();
        let mut changing = accesses.clone().filter(|(_, access)| access.changes.contains(group));
        if let Some((first, _)) = changing.next() {
            let is_one = changing.all(|(id, _)| id.client == first.client);
            let keeps_all = changed_by_server(group, self.kind).is_empty();
            return match resting {
                State::Excl(loner) if is_one && loner == first.client && keeps_all => resting,
                _ => State::Lock(if is_one { first.client } else { 0 }),
            };
        }
        let reads = |id: &RequestId, access: &Access| {
            let looks_up = access.looks_up && group == Group::File;
            access.reads.contains(group) || looks_up && self.delegates_beside(id.client)
        };
        let is_file = group == Group::File && self.kind == Kind::File;
        let mut readers =
            accesses.filter(|(id, access)| reads(id, access)).map(|(id, _)| id.client);
        match resting {
            State::Excl(loner) if readers.any(|client| client != loner) => {
                let wanted = self.holders[&loner].wanted();
                let reads_only = wanted.contains(CapBits::FILE_READ) && !wanted.intersects(WRITING);
                match is_file && !reads_only {
                    // Buffers of the loner survive.
                    true => State::Lock(0),
                    // A client that reads keeps what it reads by.
                    false => State::Sync,
                }
            }
            State::Mix if readers.next().is_some() => State::Sync,
            resting => resting,
        }
    }

    /// Whether no client has bits that the target does not allow.
    fn is_reached(&self, group: Group) -> bool {
        let target = self.target(group);
        self.holders.iter().all(|(client, held)| {
            let kept = target.kept(group, self.kind, *client);
            kept.contains(held.issued() & group.mask())
        })
    }

    /// Bits that a client should have and does not believe to have.
    pub fn grantable(&self, client: u64, silent: &Silent) -> CapBits {
        self.grantable_in(client, &self.reached(silent))
    }

    /// State and resting state of each group whose target is reached: the same for all clients.
    fn reached(&self, silent: &Silent) -> [Option<[State; 2]>; 4] {
        let loner = self.loner(silent);
        Group::ALL.map(|group| {
            self.is_reached(group).then(|| [self.target(group), self.resting(group, loner)])
        })
    }

    fn grantable_in(&self, client: u64, reached: &[Option<[State; 2]>; 4]) -> CapBits {
        let Some(held) = self.holders.get(&client) else { return CapBits::NONE };
        let mut bits = CapBits::PIN;
        for (group, states) in Group::ALL.into_iter().zip(reached) {
            let Some(states) = states else { continue };
            // Bits that would be taken away at the end of a request are not given before.
            let [now, later] = states.map(|state| state.granted(group, self.kind, client));
            bits |= now & later;
        }
        if self.kind == Kind::Directory && !held.may_delegate {
            bits = bits - DIRECTORY_OPERATIONS;
        }
        (bits & held.allowed() & (held.wanted() | liked(self.kind))) - held.issued()
    }

    /// Sets the targets that are right now.
    pub fn retarget(&mut self, silent: &Silent) {
        let loner = self.loner(silent);
        for group in Group::ALL {
            self.targets[group as usize] = self.right(group, self.resting(group, loner));
        }
    }

    /// Bits that a client may keep.
    fn kept(&self, client: u64, held: &Held) -> CapBits {
        let groups = Group::ALL.into_iter();
        let kept = groups.fold(CapBits::PIN, |bits, group| {
            bits | self.target(group).kept(group, self.kind, client)
        });
        let kept = kept & held.allowed();
        match self.kind == Kind::Directory && !held.may_delegate {
            true => kept - DIRECTORY_OPERATIONS,
            false => kept,
        }
    }

    /// Revokes what clients should not have, and grants what they want and may have now, except to a client
    /// that a reply is going to give it.
    pub fn evaluate(&mut self, silent: &Silent, answered: Option<u64>) -> Vec<Change> {
        self.retarget(silent);
        let mut changes = Vec::new();
        let clients: Vec<u64> = self.holders.keys().copied().collect();
        for client in &clients {
            let held = &self.holders[client];
            let kept = self.kept(*client, held);
            if !kept.contains(held.pending()) {
                self.holders.get_mut(client).expect("it was listed").revoke(kept);
                changes.push(Change::Revoked(*client));
            }
        }
        let reached = self.reached(silent);
        for client in &clients {
            let bits = self.grantable_in(*client, &reached);
            let held = self.holders.get_mut(client).expect("it was listed");
            // Bits that a client gets without asking it gets with a reply, else it could return them and be
            // given them for ever.
            let is_told = held.is_known && answered != Some(*client);
            if is_told && bits.intersects(held.wanted()) {
                held.grant(bits);
                changes.push(Change::Granted(*client));
            }
        }
        changes
    }

    /// Whether no other client holds a bit that contradicts a request.
    pub fn admits(&self, client: u64, access: &Access, is_replay: bool) -> bool {
        let hidden = access.reads.iter().map(|group| hides(group, self.kind));
        let relied_on = access.changes.iter().map(|group| relies_on(group, self.kind));
        let mut contrary = hidden.chain(relied_on).fold(CapBits::NONE, |bits, more| bits | more);
        if access.looks_up && self.kind == Kind::Directory {
            contrary |= DIRECTORY_OPERATIONS;
        }
        let own = access.changes.iter().map(|group| changed_by_server(group, self.kind));
        let own = own.fold(CapBits::NONE, |bits, more| bits | more);
        let is_in_way = |own| !is_replay && self.issued(client).intersects(own);
        !self.issued_to_others(client).intersects(contrary) && !is_in_way(own)
    }

    /// Takes a capability that a client had from a predecessor of the server; false if it loses bits that
    /// contradict those of others.
    pub fn adopt(&mut self, client: u64, mut held: Held, rows: &[table::Row]) -> bool {
        self.holders.remove(&client);
        let others = self.issued_to_others(client);
        let contrary = table::excluded_by(rows, others) | !held.allowed();
        let is_right = !held.issued().intersects(contrary);
        held.lose(contrary);
        self.holders.insert(client, held);
        is_right
    }

    /// A client may believe to have these bits of a predecessor, too, as far as they do not contradict those
    /// of others, and gives them back without being asked.
    pub fn adopt_returned(&mut self, client: u64, cap_id: u64, bits: CapBits, rows: &[table::Row]) {
        let contrary = table::excluded_by(rows, self.issued_to_others(client));
        let held = self.holders.get_mut(&client).filter(|held| held.id == cap_id);
        if let Some(held) = held {
            held.adopt_returned((bits & held.allowed()) - contrary);
        }
    }

    /// Panics if clients hold bits that contradict each other by the table.
    pub fn check(&self, rows: &[table::Row]) {
        let holders = self.holders.iter().map(|(client, held)| (*client, held.issued()));
        if let Some([(one, a), (other, b)]) = table::contradiction(rows, holders) {
            panic!("client {one} holds {a} beside {b} of client {other}");
        }
        for held in self.holders.values() {
            assert!(held.issued().contains(held.pending()), "bits that were sent are issued");
            assert!(
                held.allowed().contains(held.wanted()),
                "a client wants no bits that it may not have"
            );
        }
    }
}
