//! The capability of one client on one inode.

use std::collections::VecDeque;
use wire::CapBits;

/// Messages about a capability that are remembered until the client has shown that it has seen them. More are
/// merged, which only makes the server believe for longer that the client has bits.
const SENT_MAX: usize = 16;

/// A capability, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// Id, never reused.
    pub id: u64,
    /// Bits that the client wants beyond those that it is given anyway.
    pub wanted: CapBits,
    /// Bits of the last message.
    pending: CapBits,
    /// Bits that the client may believe to have: `pending`, and those that it has not given back yet.
    issued: CapBits,
    /// Number of the last message.
    seq: u32,
    /// Number of the last reply that gave the capability.
    issue_seq: u32,
    /// Messages that the client may not have seen: number and bits.
    sent: VecDeque<(u32, CapBits)>,
}

impl Held {
    /// A capability without bits.
    pub fn new(id: u64) -> Self {
        Held {
            id,
            wanted: CapBits::NONE,
            pending: CapBits::NONE,
            issued: CapBits::NONE,
            seq: 0,
            issue_seq: 0,
            sent: VecDeque::new(),
        }
    }

    /// A capability of a predecessor, of which the client counts messages from 0 again.
    pub fn adopted(id: u64, issued: CapBits, wanted: CapBits) -> Self {
        Held { wanted, pending: issued, issued, ..Held::new(id) }
    }

    /// Bits that the client had given back, and by which it has written.
    pub fn adopt_dirty(&mut self, dirty: CapBits) {
        self.issued |= dirty;
    }

    /// Bits of the last message.
    pub fn pending(&self) -> CapBits {
        self.pending
    }

    /// Bits that the client may believe to have.
    pub fn issued(&self) -> CapBits {
        self.issued
    }

    /// Number of the last message.
    pub fn seq(&self) -> u32 {
        self.seq
    }

    /// Whether the client has bits that it must give back.
    pub fn is_revoking(&self) -> bool {
        !self.pending.contains(self.issued)
    }

    /// Sends new bits; returns the number of the message.
    pub fn send(&mut self, bits: CapBits) -> u32 {
        self.seq += 1;
        self.pending = bits;
        self.issued |= bits;
        self.sent.push_back((self.seq, bits));
        if self.sent.len() > SENT_MAX {
            let (_, oldest) = self.sent.pop_front().expect("it has more than one");
            self.sent.front_mut().expect("it has more than one").1 |= oldest;
        }
        self.seq
    }

    /// The same by a reply, which also is the grant that a release must have seen.
    pub fn send_in_reply(&mut self, bits: CapBits) {
        self.issue_seq = self.send(bits);
    }

    /// The client has seen the message `seq`, and has kept `kept` of the bits that it had by then. Bits that
    /// were sent later stay.
    pub fn confirm(&mut self, seq: u32, kept: CapBits) {
        while self.sent.front().is_some_and(|(sent, _)| *sent <= seq) {
            self.sent.pop_front();
        }
        let later = self.sent.iter().fold(CapBits::NONE, |bits, sent| bits | sent.1);
        self.issued = self.issued & (kept | later);
        self.pending = self.pending & (kept | later);
    }

    /// Whether a release that names a grant has seen the last one.
    pub fn may_release(&self, issue_seq: u32) -> bool {
        issue_seq >= self.issue_seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: CapBits = CapBits::FILE_READ;
    const SHARED: CapBits = CapBits::FILE_SHARED;

    #[test]
    fn revoked_bits_are_issued_until_the_client_confirms() {
        let mut held = Held::new(1);
        held.send_in_reply(READ | SHARED);
        let revoke = held.send(SHARED);
        assert!(held.is_revoking());
        held.confirm(revoke - 1, READ | SHARED);
        assert_eq!((held.issued(), held.is_revoking()), (READ | SHARED, true));
        held.confirm(revoke, SHARED);
        assert_eq!((held.issued(), held.is_revoking()), (SHARED, false));
    }

    #[test]
    fn bits_that_are_granted_later_survive_an_earlier_acknowledgement() {
        let mut held = Held::new(1);
        held.send_in_reply(READ);
        let revoke = held.send(CapBits::PIN);
        held.send(READ);
        held.confirm(revoke, CapBits::PIN);
        assert_eq!((held.issued(), held.pending()), (READ | CapBits::PIN, READ));
    }

    #[test]
    fn merged_messages_do_not_forget_bits() {
        let mut held = Held::new(1);
        held.send(READ);
        for _ in 0..100 {
            held.send(SHARED);
        }
        held.confirm(0, CapBits::NONE);
        assert_eq!(held.issued(), READ | SHARED);
        held.confirm(held.seq(), SHARED);
        assert_eq!((held.issued(), held.is_revoking()), (SHARED, false));
    }
}
