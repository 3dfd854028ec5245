//! The capability of one client on one inode.

use wire::CapBits;

/// A capability, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// Id, never reused.
    pub id: u64,
    /// Number of its migrations between ranks.
    pub mseq: u32,
    /// Bits that the client wants beyond those that it is given anyway.
    pub wanted: CapBits,
    /// Whether the client may get the rights to create and unlink asynchronously.
    pub may_delegate: bool,
    /// Whether the client knows of it, by a reply or from a predecessor of the server.
    pub is_known: bool,
    /// Bits of the last message.
    pending: CapBits,
    /// Bits that the client may believe to have: `pending`, and those that are being revoked.
    issued: CapBits,
    /// Number of the last message.
    seq: u32,
    /// Number of the last reply that gave the capability.
    issue_seq: u32,
    /// Number of the last revocation.
    revoke_seq: u32,
}

impl Held {
    /// A capability without bits.
    pub fn new(id: u64) -> Self {
        Held {
            id,
            mseq: 0,
            wanted: CapBits::NONE,
            may_delegate: false,
            is_known: false,
            pending: CapBits::NONE,
            issued: CapBits::NONE,
            seq: 0,
            issue_seq: 0,
            revoke_seq: 0,
        }
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

    /// Number of the last reply that gave the capability.
    pub fn issue_seq(&self) -> u32 {
        self.issue_seq
    }

    /// Whether the client has bits that it must give back.
    pub fn is_revoking(&self) -> bool {
        !self.pending.contains(self.issued)
    }

    /// A capability that a client had from a predecessor of the server. Messages count from 0 again.
    pub fn adopted(id: u64, mseq: u32, issued: CapBits, wanted: CapBits) -> Self {
        let issued = issued | CapBits::PIN;
        Held { mseq, wanted, is_known: true, pending: issued, issued, ..Held::new(id) }
    }

    /// Bits are gone that the client never should have had.
    pub fn lose(&mut self, bits: CapBits) {
        if self.issued.intersects(bits) {
            self.seq += 1;
            self.revoke_seq = self.seq;
        }
        self.pending = self.pending - bits;
        self.issued = self.issued - bits;
    }

    /// Adds bits by a message, or repeats those that the client has.
    pub fn grant(&mut self, bits: CapBits) {
        self.seq += 1;
        self.pending |= bits;
        self.issued |= bits;
    }

    /// The same by a reply, which also is the grant that a release must have seen.
    pub fn grant_in_reply(&mut self, bits: CapBits) {
        self.grant(bits);
        self.issue_seq = self.seq;
        self.is_known = true;
    }

    /// Asks for all bits but `left`.
    pub fn revoke(&mut self, left: CapBits) {
        self.seq += 1;
        self.revoke_seq = self.seq;
        self.pending = self.pending & left;
    }

    /// The client has seen the message `seq`, and has kept `kept` of the bits that it had by then.
    ///
    /// Messages that crossed the client's own change nothing of what they say: bits that were granted later
    /// stay, and so does a later revocation, which the client will answer, too.
    pub fn confirm(&mut self, seq: u32, kept: CapBits) {
        if seq >= self.seq {
            self.pending = self.pending & kept;
            self.issued = self.issued & kept;
        } else if seq >= self.revoke_seq {
            self.issued = self.issued & (kept | self.pending);
        }
    }

    /// Whether the client has seen the last reply that gave the capability.
    pub fn has_seen_issue(&self, issue_seq: u32) -> bool {
        issue_seq >= self.issue_seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: CapBits = CapBits::FILE_READ;
    const SHARED: CapBits = CapBits::FILE_SHARED;

    fn bits(held: &Held) -> [CapBits; 2] {
        [held.issued(), held.pending()]
    }

    #[test]
    fn revoked_bits_are_issued_until_the_client_confirms() {
        let mut held = Held::new(1);
        held.grant_in_reply(READ | SHARED);
        held.revoke(SHARED);
        held.confirm(held.seq() - 1, READ | SHARED);
        assert_eq!((held.issued(), held.is_revoking()), (READ | SHARED, true));
        held.confirm(held.seq(), SHARED);
        assert_eq!((held.issued(), held.is_revoking()), (SHARED, false));
    }

    #[test]
    fn bits_that_are_granted_later_survive_an_earlier_acknowledgement() {
        let mut held = Held::new(1);
        held.grant_in_reply(READ | SHARED);
        held.revoke(SHARED);
        let revocation = held.seq();
        held.grant(CapBits::FILE_LAZY);
        held.confirm(revocation, SHARED);
        assert_eq!(bits(&held), [SHARED | CapBits::FILE_LAZY; 2]);
    }

    #[test]
    fn an_answer_to_the_first_of_two_revocations_ends_none() {
        let mut held = Held::new(1);
        held.grant_in_reply(READ | SHARED);
        held.revoke(SHARED);
        let first = held.seq();
        held.revoke(CapBits::NONE);
        held.confirm(first, SHARED);
        assert_eq!(bits(&held), [READ | SHARED, CapBits::NONE]);
        held.confirm(held.seq(), CapBits::NONE);
        assert!(!held.is_revoking());
    }

    #[test]
    fn a_client_that_still_uses_a_revoked_bit_keeps_it() {
        let mut held = Held::new(1);
        held.grant_in_reply(READ | SHARED);
        held.revoke(CapBits::NONE);
        held.confirm(held.seq(), READ);
        assert_eq!((held.issued(), held.is_revoking()), (READ, true));
    }
}
