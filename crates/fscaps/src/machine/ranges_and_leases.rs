//! Inputs about ranges of files that clients write, and about leases of entries.

use super::LockMachine;
use crate::exchange::Output;
use crate::leases::LeaseGrant;
use crate::ranges::{Unit, range_end};
use crate::requests::{Entry, InodeId};
use engine::Time;

impl LockMachine {
    /// A client wants to write up to `wanted` in a file of `size` bytes. It must hold or want the right to
    /// write.
    pub fn handle_size(&mut self, ino: InodeId, client: u64, size: u64, wanted: u64, unit: Unit) {
        if !self.writes(ino, client) {
            return;
        }
        let end = range_end(unit, wanted.max(size));
        if let Some(end) = self.ranges.extend(ino, client, end) {
            self.outputs.push_back(Output::RecordRange { ino, client, end: Some(end) });
        }
    }

    /// The record of a range is durable: its writer may know it.
    pub fn handle_range_durable(&mut self, ino: InodeId, client: u64, end: u64) {
        if self.ranges.recorded(ino, client, end) {
            self.repeat(ino, client);
        }
    }

    /// A client has a range by the record of a create or an open.
    pub fn adopt_range(&mut self, ino: InodeId, client: u64, end: u64) {
        self.ranges.adopt(ino, client, end);
    }

    /// Removes the ranges of clients that neither hold nor want the right to write, after a take-over.
    pub fn remove_unclaimed_ranges(&mut self) {
        for (ino, client) in self.ranges.all() {
            self.tend_range(ino, client);
        }
    }

    /// A client that was evicted may have written up to the ends of its ranges: they stay recorded.
    pub fn leave_ranges(&mut self, client: u64) {
        self.ranges.remove_client(client);
    }

    /// Bytes up to which a client may write, as far as that is durable; 0 for none.
    pub fn max_size(&self, ino: InodeId, client: u64) -> u64 {
        self.ranges.durable(ino, client)
    }

    /// Whether a client may have written to any file, or may be writing: it has a range.
    pub fn has_range(&self, client: u64) -> bool {
        self.ranges.has_any(client)
    }

    /// A client that neither holds nor wants the right to write has no range.
    pub(super) fn tend_range(&mut self, ino: InodeId, client: u64) {
        if !self.writes(ino, client) && self.ranges.remove(ino, client) {
            self.outputs.push_back(Output::RecordRange { ino, client, end: None });
        }
    }

    /// Gives a client a lease of an entry; none while it is about to change.
    pub fn grant_lease(&mut self, now: Time, client: u64, entry: Entry) -> Option<LeaseGrant> {
        self.sessions.get(client)?;
        self.leases.grant(now, client, entry)
    }

    /// A client has forgotten a lease, and tells its number in an acknowledgement: if it was given another
    /// one meanwhile, that stays. Requests come in the order of replies, and have no number that counts:
    /// Linux does not keep those of replies.
    pub fn handle_lease_released(&mut self, client: u64, entry: &Entry, seq: Option<u32>) {
        let is_meant = seq.is_none() || seq == self.leases.seq(client, entry);
        if is_meant && self.leases.remove(client, entry) {
            self.wake_for_entry(entry);
        }
    }

    /// A client asks for more time; `None` if it has no lease, or the entry is about to change.
    pub fn handle_lease_renewal(
        &mut self,
        now: Time,
        client: u64,
        entry: Entry,
    ) -> Option<LeaseGrant> {
        self.leases.seq(client, &entry)?;
        self.leases.grant(now, client, entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::{Demand, RequestId};
    use crate::{Admission, Settings};

    #[test]
    fn a_late_acknowledgement_does_not_end_the_next_lease() {
        let mut machine = LockMachine::new(Settings::default());
        let now = Time(1_000_000_000);
        [1, 2, 3].into_iter().for_each(|client| machine.open_session(now, client));
        let entry = Entry { directory: InodeId(1), name: "f".into() };
        let first = machine.grant_lease(now, 1, entry.clone()).unwrap();
        let demand = Demand { accesses: Vec::new(), entries: vec![entry.clone()] };
        let change = |client| RequestId { client, tid: 1 };
        assert_eq!(machine.handle_request(now, change(2), demand.clone()), Admission::Waits);
        // The session of the request ends, and with it the change; the client gets another lease.
        machine.close_session(now, 2);
        machine.grant_lease(now, 1, entry.clone()).unwrap();
        machine.handle_lease_released(1, &entry, Some(first.seq));
        assert_eq!(machine.handle_request(now, change(3), demand), Admission::Waits);
        machine.handle_lease_released(1, &entry, None);
        let is_ready = |output| output == Output::Ready(change(3));
        assert!(std::iter::from_fn(|| machine.poll_output()).any(is_ready));
    }
}
