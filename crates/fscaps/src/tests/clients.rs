//! Model clients of one inode, which remember the messages that they were sent.

use crate::*;
use engine::{Duration, Time};
use std::collections::BTreeMap;
use wire::{CapBits, CapOp};

/// A capability as its client knows it.
#[derive(Debug, Clone, Default)]
pub struct Cap {
    pub id: u64,
    pub issue_seq: u32,
    pub wanted: CapBits,
    /// Messages that the client has not answered: number, and bits.
    pub unread: Vec<(u32, CapBits)>,
    pub last: (u32, CapBits),
}

pub struct World {
    pub machine: LockMachine,
    pub now: Time,
    pub kind: Kind,
    pub caps: BTreeMap<u64, Cap>,
    pub ready: Vec<RequestId>,
    /// Bits that some clients may have at all.
    pub allowed: BTreeMap<u64, CapBits>,
}

impl World {
    pub const INO: InodeId = InodeId(7);

    pub fn new() -> Self {
        let now = Time(1_000_000_000);
        let revoke_eviction_timeout = Duration::from_secs(200);
        let settings = Settings { revoke_eviction_timeout, ..Settings::default() };
        let mut machine = LockMachine::new(settings);
        (1..5).for_each(|client| machine.open_session(now, client));
        let (caps, ready) = (BTreeMap::new(), Vec::new());
        World { machine, now, kind: Kind::File, caps, ready, allowed: BTreeMap::new() }
    }

    /// Bits as they are printed.
    pub fn bits(text: &str) -> CapBits {
        let (mut bits, mut shift) = (0, 0);
        for letter in text.chars() {
            match letter {
                '-' => {}
                'p' => bits |= 1,
                'A' | 'L' | 'X' | 'F' => shift = 2 + 2 * "ALXF".find(letter).expect("it is one"),
                _ => bits |= 1 << ("sxcrwbal".find(letter).expect("a bit") + shift),
            }
        }
        CapBits(bits)
    }

    pub fn groups(text: &str) -> Groups {
        text.chars().fold(Groups::NONE, |groups, letter| {
            groups
                | match letter {
                    'A' => Groups::AUTH,
                    'L' => Groups::LINK,
                    'X' => Groups::XATTR,
                    _ => Groups::FILE,
                }
        })
    }

    pub fn entry(name: &str) -> Entry {
        Entry { directory: Self::INO, name: name.to_owned().into() }
    }

    fn issue_of(&self, client: u64, wanted: CapBits, may_delegate: bool) -> Issue {
        Issue {
            ino: Self::INO,
            kind: self.kind,
            client,
            wanted,
            may_delegate,
            is_assumed: false,
            allowed: self.allowed(client),
        }
    }

    fn allowed(&self, client: u64) -> CapBits {
        self.allowed.get(&client).copied().unwrap_or(CapBits::ALL)
    }

    pub fn gets(&mut self, client: u64, wanted: CapBits, may_delegate: bool) -> String {
        let issue = self.issue_of(client, wanted, may_delegate);
        let Some(issued) = self.machine.issue(self.now, issue) else {
            return format!("{client} is answered without a capability");
        };
        let cap = self.caps.entry(client).or_default();
        if cap.id != issued.cap_id {
            *cap = Cap::default();
        }
        (cap.id, cap.issue_seq, cap.wanted) = (issued.cap_id, issued.seq, issued.wanted);
        cap.unread.push((issued.seq, issued.caps));
        format!("{client} is answered with {}", issued.caps)
    }

    /// A client comes back to a server that has taken over.
    pub fn claims(&mut self, client: u64, issued: CapBits, wanted: CapBits) -> String {
        let (cap_id, mseq) = (100 + client, 0);
        let cap = Cap { id: cap_id, wanted, last: (0, issued), ..Cap::default() };
        self.caps.insert(client, cap);
        let (ino, kind) = (Self::INO, self.kind);
        let claim = Claim {
            client,
            ino,
            kind,
            cap_id,
            mseq,
            issued,
            wanted,
            allowed: self.allowed(client),
        };
        match self.machine.handle_claim(&claim) {
            true => format!("{client} has it"),
            false => format!("{client} claims what another one has"),
        }
    }

    /// A client sends again what it has written by bits that it had given back before the take-over.
    pub fn flushes_again(&mut self, client: u64, dirty: CapBits) {
        self.machine.handle_claimed_flush(client, Self::INO, self.caps[&client].id, dirty);
    }

    pub fn demands(&mut self, client: u64, access: Access, entry: Option<&str>) -> Admission {
        let entries = entry.map(Self::entry).into_iter().collect();
        let demand = Demand { accesses: vec![(Self::INO, access)], entries };
        self.machine.handle_request(self.now, RequestId { client, tid: 1 }, demand)
    }

    pub fn ends(&mut self, client: u64, wanted: Option<CapBits>) -> Vec<String> {
        let users = wanted.map(|wanted| self.issue_of(client, wanted, false));
        let id = RequestId { client, tid: 1 };
        self.machine.end_request(self.now, id, users.as_slice());
        let mut told = self.outputs();
        told.extend(wanted.map(|wanted| self.gets(client, wanted, false)));
        told
    }

    /// The client answers a message: it keeps what the message leaves.
    pub fn acks(&mut self, client: u64, at: usize) -> Vec<String> {
        let cap = self.caps.get_mut(&client).expect("it has a capability");
        let at = at.min(cap.unread.len() - 1);
        let (seq, bits) = cap.unread.drain(..=at).next_back().expect("it was sent a message");
        cap.last = (seq, bits);
        self.update(client, bits);
        Vec::new()
    }

    pub fn keeps(&mut self, client: u64, bits: CapBits, wanted: CapBits) {
        let cap = self.caps.get_mut(&client).expect("it has a capability");
        cap.last = cap.unread.drain(..).next_back().unwrap_or(cap.last);
        cap.wanted = wanted;
        self.update(client, bits);
    }

    /// The client has returned bits, and then reads a message that takes nothing from it any more.
    pub fn keeps_before_last(&mut self, client: u64, bits: CapBits) {
        let cap = self.caps.get_mut(&client).expect("it has a capability");
        let last = cap.unread.pop().expect("it was sent a message");
        cap.last = cap.unread.drain(..).next_back().unwrap_or(cap.last);
        self.update(client, bits);
        self.caps.get_mut(&client).expect("it has a capability").last = last;
    }

    fn update(&mut self, client: u64, kept: CapBits) {
        let cap = &self.caps[&client];
        let update = Update {
            client,
            ino: Self::INO,
            cap_id: cap.id,
            mseq: 0,
            seq: cap.last.0,
            issue_seq: cap.issue_seq,
            kept,
            wanted: cap.wanted,
        };
        self.machine.handle_update(self.now, &update);
    }

    pub fn releases(&mut self, client: u64, before: u32) -> Vec<String> {
        let cap = &self.caps[&client];
        let (cap_id, issue_seq) = (cap.id, cap.issue_seq - before);
        let release = Release { client, ino: Self::INO, cap_id, mseq: 0, issue_seq };
        match self.machine.handle_release(self.now, &release) {
            true => Vec::new(),
            false => vec!["is ignored".to_owned()],
        }
    }

    pub fn leases(&mut self, client: u64, name: &str) -> String {
        match self.machine.grant_lease(self.now, client, Self::entry(name)) {
            Some(lease) => format!("{client} may trust {name} for {} s", lease.duration.as_secs()),
            None => "there is no lease".to_owned(),
        }
    }

    /// Messages, and other effects, as text.
    pub fn outputs(&mut self) -> Vec<String> {
        let outputs: Vec<Output> = std::iter::from_fn(|| self.machine.poll_output()).collect();
        outputs.into_iter().map(|output| self.told(output)).collect()
    }

    fn told(&mut self, output: Output) -> String {
        match output {
            Output::Notice(notice) => {
                let Notice { client, caps, seq, .. } = notice;
                if let Some(cap) = self.caps.get_mut(&client).filter(|cap| cap.id == notice.cap_id)
                {
                    cap.unread.push((seq, caps));
                }
                let verb = if notice.op == CapOp::REVOKE { "must go down to" } else { "now has" };
                let range = self.machine.max_size(Self::INO, client);
                let range = if range > 0 { format!(" up to {range}") } else { String::new() };
                format!("{client} {verb} {caps}{range}")
            }
            Output::Ready(id) => {
                self.ready.push(id);
                format!("{} goes on", id.client)
            }
            Output::RevokeLease { client, entry, .. } => {
                format!("{client} must forget {}", String::from_utf8_lossy(&entry.name))
            }
            Output::RecordRange { client, end: Some(end), .. } => {
                format!("record that {client} writes up to {end}")
            }
            Output::RecordRange { client, end: None, .. } => {
                format!("record that {client} writes no more")
            }
            Output::Recall { client, caps_max } => format!("{client} should keep {caps_max}"),
            Output::LateRelease { client, .. } => format!("{client} is late"),
            Output::Evict { client, reason } => format!("evict {client}: {reason:?}"),
        }
    }
}
