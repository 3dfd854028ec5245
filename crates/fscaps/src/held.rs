//! The capability of one client on one inode.

use wire::CapBits;

/// A capability, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// Id, never reused.
    pub id: u64,
    /// Number of its migrations between ranks.
    pub mseq: u32,
    /// Bits that the client wants beyond those that it is given anyway, as far as it may have them.
    wanted: CapBits,
    /// Bits that the client may have at all.
    allowed: CapBits,
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
    /// Earlier messages that the client may not have seen and that had bits which no later one has, oldest
    /// first. There are no more of them than bits.
    earlier: Vec<Sent>,
}

/// A message with bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    seq: u32,
    /// Number of the last reply up to it.
    issue_seq: u32,
    bits: CapBits,
}

impl Held {
    /// A capability without bits.
    pub fn new(id: u64) -> Self {
        Held {
            id,
            mseq: 0,
            wanted: CapBits::NONE,
            allowed: CapBits::NONE,
            may_delegate: false,
            is_known: false,
            pending: CapBits::NONE,
            issued: CapBits::NONE,
            seq: 0,
            issue_seq: 0,
            earlier: Vec::new(),
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

    /// Bits that the client may have at all from now on.
    pub fn allow(&mut self, allowed: CapBits) {
        self.allowed = allowed | CapBits::PIN;
        self.wanted = self.wanted & self.allowed;
    }

    /// Bits that the client may have at all.
    pub fn allowed(&self) -> CapBits {
        self.allowed
    }

    /// Bits that the client wants, and may have.
    pub fn wanted(&self) -> CapBits {
        self.wanted
    }

    /// Sets what the client wants; bits that it may not have are left out.
    pub fn want(&mut self, wanted: CapBits) {
        self.wanted = wanted & self.allowed;
    }

    /// The client has given back these bits of a predecessor, which may not know it.
    pub fn adopt_returned(&mut self, bits: CapBits) {
        self.issued |= bits;
    }

    /// Bits are gone that the client never should have had.
    pub fn lose(&mut self, bits: CapBits) {
        if self.issued.intersects(bits) {
            self.seq += 1;
        }
        self.pending = self.pending - bits;
        self.issued = self.issued - bits;
    }

    /// Adds bits by a message, or repeats those that the client has.
    pub fn grant(&mut self, bits: CapBits) {
        self.send(self.pending | bits);
        self.issued |= bits;
    }

    fn send(&mut self, bits: CapBits) {
        let mut last = std::mem::take(&mut self.earlier);
        last.push(Sent { seq: self.seq, issue_seq: self.issue_seq, bits: self.pending });
        let mut later = bits;
        for sent in last.into_iter().rev() {
            if !later.contains(sent.bits) {
                later |= sent.bits;
                self.earlier.insert(0, sent);
            }
        }
        self.seq += 1;
        self.pending = bits;
    }

    /// The same by a reply, which also is the grant that a release must have seen.
    pub fn grant_in_reply(&mut self, bits: CapBits) {
        self.grant(bits);
        self.issue_seq = self.seq;
        self.is_known = true;
    }

    /// Asks for all bits but `left`.
    pub fn revoke(&mut self, left: CapBits) {
        self.send(self.pending & left);
    }

    /// The client has seen the message `seq`, and has kept `kept` of the bits that it had by then. It has
    /// bits of later messages, too, although it may have given them back before: a message gives all that it
    /// names.
    ///
    /// No later answer can be waited for instead: a client does not answer a revocation of bits that it does
    /// not have.
    pub fn confirm(&mut self, seq: u32, kept: CapBits) {
        self.earlier.retain(|sent| sent.seq > seq);
        if seq >= self.seq {
            self.pending = self.pending & kept;
        }
        self.keep(kept);
    }

    /// The client had released the capability before it saw a later reply that gives it again. Notices
    /// between its release and that reply gave it nothing, whether it saw them before or after: it has no
    /// capability to which they apply, and answers none that it saw before.
    pub fn released(&mut self, issue_seq: u32) {
        self.earlier.retain(|sent| sent.issue_seq > issue_seq);
        self.keep(CapBits::NONE);
    }

    fn keep(&mut self, kept: CapBits) {
        let earlier = self.earlier.iter().fold(CapBits::NONE, |bits, sent| bits | sent.bits);
        self.issued = self.issued & (kept | earlier | self.pending);
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
    fn an_answer_to_the_first_of_two_revocations_leaves_the_second() {
        let mut held = Held::new(1);
        held.grant_in_reply(READ | SHARED);
        held.revoke(SHARED);
        let first = held.seq();
        held.revoke(CapBits::NONE);
        held.confirm(first, SHARED);
        assert_eq!(bits(&held), [SHARED, CapBits::NONE]);
        held.confirm(held.seq(), CapBits::NONE);
        assert!(!held.is_revoking());
    }

    #[test]
    fn bits_that_were_given_back_before_are_not_waited_for() {
        let mut held = Held::new(1);
        held.grant_in_reply(READ | SHARED | CapBits::FILE_EXCL);
        let first = held.seq();
        held.revoke(READ);
        held.revoke(CapBits::NONE);
        // The client has returned all but `Fs` by itself; the first revocation gave it `Fr` again.
        held.confirm(first, SHARED);
        assert_eq!(bits(&held), [READ | SHARED, CapBits::NONE]);
        held.confirm(first + 1, CapBits::NONE);
        assert_eq!(bits(&held), [CapBits::NONE; 2], "the second one is not answered");
    }

    #[test]
    fn a_release_that_crosses_a_reply_ends_all_before_that_reply() {
        let mut held = Held::new(1);
        held.grant_in_reply(READ | SHARED);
        let seen = held.issue_seq();
        // The client sees the first revocation, and releases all instead of answering. The second one and
        // the reply are on their way.
        held.revoke(SHARED);
        held.revoke(CapBits::NONE);
        held.grant_in_reply(CapBits::FILE_LAZY);
        held.released(seen);
        assert_eq!(bits(&held), [CapBits::FILE_LAZY; 2]);
    }

    #[test]
    fn messages_without_answers_are_forgotten_when_later_ones_have_their_bits() {
        let mut held = Held::new(1);
        for _ in 0..100 {
            held.grant(READ);
            held.grant(SHARED);
            held.revoke(READ);
            held.revoke(CapBits::NONE);
        }
        assert!(held.earlier.len() <= 2, "{:?}", held.earlier);
        held.confirm(held.seq() - 1, READ);
        assert_eq!(bits(&held), [READ, CapBits::NONE]);
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
