//! Clients that hold, use, release and write back, and whose messages cross those of the server.
//!
//! Messages of each direction arrive in order, and as late as the seed wants. The checkers are the table,
//! over bits that the server believes issued and over those that clients have, and the condition of a
//! request: no other client has a bit that stands against it when it is executed.

use super::clients::World;
use crate::group::{hides, relies_on};
use crate::table::{ROWS, Row, contradiction, excluded_by};
use crate::*;
use engine::Duration;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use wire::{CapBits, CapOp};

#[derive(Debug, Clone, Copy)]
enum ToClient {
    Reply(IssuedCap),
    Notice(Notice),
}

#[derive(Debug, Clone, Copy)]
enum ToServer {
    Update(Update),
    Release(Release),
}

/// A client with the bits that it has and uses.
#[derive(Debug, Default)]
struct Client {
    inbox: VecDeque<ToClient>,
    outbox: VecDeque<ToServer>,
    cap: Option<Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    id: u64,
    seq: u32,
    issue_seq: u32,
    has: CapBits,
    /// Bits that it may keep.
    left: CapBits,
    wanted: CapBits,
}

impl Client {
    fn bits(&self) -> CapBits {
        self.cap.map_or(CapBits::NONE, |cap| cap.has)
    }

    fn read(&mut self, number: u64) {
        match (self.inbox.pop_front(), &mut self.cap) {
            (Some(ToClient::Reply(issued)), Some(cap)) if cap.id == issued.cap_id => {
                cap.seq = issued.seq;
                cap.issue_seq = issued.seq;
                cap.has |= issued.caps;
                cap.left = issued.caps;
            }
            (Some(ToClient::Reply(issued)), cap) => {
                let IssuedCap { cap_id: id, seq, caps, wanted, .. } = issued;
                *cap = Some(Known { id, seq, issue_seq: seq, has: caps, left: caps, wanted });
            }
            (Some(ToClient::Notice(notice)), Some(cap)) if cap.id == notice.cap_id => {
                cap.seq = notice.seq;
                cap.has |= notice.caps;
                cap.left = notice.caps;
                if notice.op == CapOp::REVOKE && number == 2 && !cap.left.contains(cap.has) {
                    self.answer(number, CapBits::NONE);
                }
            }
            // It has dropped the capability, and says so again.
            (Some(ToClient::Notice(notice)), _) => {
                self.outbox.push_back(ToServer::Release(Release {
                    client: number,
                    ino: World::INO,
                    cap_id: notice.cap_id,
                    mseq: notice.mseq,
                    issue_seq: notice.seq,
                }));
            }
            (None, _) => {}
        }
    }

    /// Tells the server what it keeps: what it may, without some bits, and those that it still uses.
    fn answer(&mut self, number: u64, dropped: CapBits) {
        let Some(cap) = &mut self.cap else { return };
        cap.has = (cap.has & cap.left) - dropped;
        cap.left = cap.has;
        self.outbox.push_back(ToServer::Update(Update {
            client: number,
            ino: World::INO,
            cap_id: cap.id,
            mseq: 0,
            seq: cap.seq,
            issue_seq: cap.issue_seq,
            kept: cap.has,
            wanted: cap.wanted,
        }));
    }

    /// Tells the server something else, and still uses what it must give back.
    fn ask(&mut self, number: u64, wanted: CapBits) {
        let Some(cap) = &mut self.cap else { return };
        cap.wanted = wanted;
        let (kept, left) = (cap.has, cap.left);
        self.answer(number, CapBits::NONE);
        let Some(ToServer::Update(update)) = self.outbox.back_mut() else { unreachable!() };
        update.kept = kept;
        let cap = self.cap.as_mut().expect("it has one");
        (cap.has, cap.left) = (kept, left);
    }

    fn release(&mut self, number: u64) {
        let Some(cap) = self.cap.take() else { return };
        self.outbox.push_back(ToServer::Release(Release {
            client: number,
            ino: World::INO,
            cap_id: cap.id,
            mseq: 0,
            issue_seq: cap.issue_seq,
        }));
    }
}

/// Steps of one run: what, by which client, and with which bits.
type Step = (u8, u64, u16);

struct Run {
    machine: LockMachine,
    now: engine::Time,
    kind: Kind,
    clients: BTreeMap<u64, Client>,
    demands: BTreeMap<RequestId, Access>,
    /// Whether some clients may not have all bits.
    limits: bool,
    issues: u32,
    /// Pairs of bits of different clients that were seen beside each other.
    seen: Vec<Row>,
}

impl Run {
    fn new(kind: Kind) -> Self {
        let mut machine = LockMachine::new(Settings::default());
        let now = engine::Time(1_000_000_000);
        let clients: BTreeMap<u64, Client> = (1..4).map(|n| (n, Client::default())).collect();
        clients.keys().for_each(|client| machine.open_session(now, *client));
        let demands = BTreeMap::new();
        Run { machine, now, kind, clients, demands, limits: false, issues: 0, seen: Vec::new() }
    }

    fn client(&mut self, number: u64) -> &mut Client {
        self.clients.get_mut(&number).expect("it is one of them")
    }

    fn step(&mut self, (step, number, bits): Step) {
        let wanted = CapBits(u32::from(bits)) & (CapBits::ANY_FILE | CapBits::AUTH_EXCL);
        let wanted = wanted - CapBits::FILE_EXTEND;
        match step {
            0 => self.issue(number, wanted),
            1 => self.demand(number, bits),
            2 | 3 => self.client(number).read(number),
            4 | 5 => self.deliver(number),
            6 => self.client(number).answer(number, CapBits::NONE),
            7 => self.client(number).answer(number, CapBits(u32::from(bits)) - CapBits::PIN),
            8 => self.client(number).ask(number, wanted),
            9 => self.client(number).release(number),
            10 => {
                self.now = self.now + Duration::from_millis(u64::from(bits));
                self.machine.handle_renewal(self.now, number);
                self.machine.handle_timeout(self.now);
            }
            11 => self.machine.set_delegation(self.now, World::INO, bits & 1 == 0),
            _ => self.close(number),
        }
        self.take_outputs();
        self.check();
    }

    fn issue_of(&self, client: u64, wanted: CapBits) -> Issue {
        let may_delegate = wanted.intersects(CapBits::FILE_LAZY);
        Issue {
            ino: World::INO,
            kind: self.kind,
            client,
            wanted,
            may_delegate,
            allowed: self.allowed(client),
            is_assumed: false,
        }
    }

    /// One client may never write; what another one may have changes with each reply.
    fn allowed(&self, client: u64) -> CapBits {
        match (self.limits, client) {
            (true, 3) => CapBits::ALL - (CapBits::ANY_EXCL | CapBits::ANY_FILE_WRITE),
            (true, 2) if self.issues % 2 == 1 => CapBits::ALL - CapBits::ANY_EXCL,
            _ => CapBits::ALL,
        }
    }

    fn issue(&mut self, number: u64, wanted: CapBits) {
        // Messages keep their order with replies.
        self.take_outputs();
        self.issues += 1;
        let issue = self.issue_of(number, wanted);
        let issued = self.machine.issue(self.now, issue).expect("memory is there");
        self.client(number).inbox.push_back(ToClient::Reply(issued));
    }

    fn demand(&mut self, number: u64, bits: u16) {
        let groups = |shift: u32| {
            let groups = [Groups::AUTH, Groups::LINK, Groups::XATTR, Groups::FILE];
            let chosen = (0..4).filter(|at| bits >> shift >> at & 1 != 0);
            chosen.fold(Groups::NONE, |all, at| all | groups[at])
        };
        let (reads, changes) = (groups(0), groups(4));
        let access = Access { reads, changes, looks_up: bits >> 8 & 1 != 0 };
        let client = if bits >> 9 & 3 == 0 { 0 } else { number };
        let id = RequestId { client, tid: u64::from(bits >> 11 & 1) };
        let demand = Demand { accesses: vec![(World::INO, access)], entries: Vec::new() };
        self.demands.insert(id, access);
        if self.machine.handle_request(self.now, id, demand) == Admission::Ready {
            self.execute(id);
        }
    }

    fn execute(&mut self, id: RequestId) {
        let access = self.demands.remove(&id).expect("it was demanded");
        for (number, client) in self.clients.iter().filter(|(number, _)| **number != id.client) {
            let mut contrary = CapBits::NONE;
            for group in Group::ALL {
                if access.reads.contains(group) {
                    contrary |= hides(group, self.kind);
                }
                if access.changes.contains(group) {
                    contrary |= relies_on(group, self.kind);
                }
            }
            let has = client.bits();
            assert!(!has.intersects(contrary), "{id:?} {access:?} beside {has} of {number}");
        }
        let users = (id.client != 0).then(|| self.issue_of(id.client, CapBits::FILE_READ));
        self.machine.end_request(self.now, id, users.as_slice());
        self.take_outputs();
        if id.client != 0 {
            self.issue(id.client, CapBits::FILE_READ);
        }
    }

    fn deliver(&mut self, number: u64) {
        match self.client(number).outbox.pop_front() {
            Some(ToServer::Update(update)) => drop(self.machine.handle_update(self.now, &update)),
            Some(ToServer::Release(release)) => {
                self.machine.handle_release(self.now, &release);
            }
            None => {}
        }
    }

    fn close(&mut self, number: u64) {
        self.machine.close_session(self.now, number);
        self.machine.open_session(self.now, number);
        *self.client(number) = Client::default();
        self.demands.retain(|id, _| id.client != number);
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Notice(notice) => {
                    self.client(notice.client).inbox.push_back(ToClient::Notice(notice));
                }
                Output::Ready(id) => self.execute(id),
                _ => {}
            }
        }
    }

    fn check(&mut self) {
        self.machine.check_invariants();
        let has = self.clients.iter().map(|(number, client)| (*number, client.bits()));
        assert_eq!(contradiction(&ROWS, has), None, "what clients have obeys the table");
        for (number, client) in &self.clients {
            let may_write = !self.limits || *number != 3;
            assert!(may_write || !client.bits().intersects(CapBits::ANY_FILE_WRITE), "{number}");
            let believed = self.machine.issued(World::INO, *number);
            let is_known = client.cap.map(|cap| cap.id) == self.machine.cap_id(World::INO, *number);
            let has = client.bits();
            assert!(!is_known || believed.contains(has), "{number} has {has}, not {believed}");
        }
        for (one, a) in &self.clients {
            for (_, b) in self.clients.iter().filter(|(other, _)| *other > one) {
                self.seen.push((a.bits(), b.bits()));
            }
        }
    }

    /// All clients read, and are heard, until nothing is left to say. A client does not answer a revocation
    /// of bits that it has given back before.
    fn settle(&mut self) {
        for _ in 0..100 {
            for number in 1..4 {
                while !self.client(number).inbox.is_empty() {
                    self.client(number).read(number);
                }
                let client = self.client(number);
                if client.cap.is_some_and(|cap| !cap.left.contains(cap.has)) {
                    client.answer(number, CapBits::NONE);
                }
                while !self.client(number).outbox.is_empty() {
                    self.deliver(number);
                    self.take_outputs();
                    self.check();
                }
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u8..13, 1u64..4, any::<u16>()), 1..120)
}

proptest! {
    #[test]
    fn bits_obey_the_table_and_requests_are_executed(
        steps in steps(), is_directory in any::<bool>(), limits in any::<bool>()
    ) {
        let mut run = Run::new(if is_directory { Kind::Directory } else { Kind::File });
        run.limits = limits;
        steps.into_iter().for_each(|step| run.step(step));
        run.settle();
        prop_assert!(run.demands.is_empty(), "each request is executed when clients answer");
    }

    #[test]
    fn messages_without_sense_do_no_harm(
        messages in prop::collection::vec((0u8..4, 0u64..6, 0u64..4, any::<u32>(), any::<u32>()), 1..80)
    ) {
        let mut run = Run::new(Kind::File);
        for (what, client, cap_id, seq, bits) in messages {
            let (ino, mseq, bits) = (World::INO, seq % 3, CapBits(bits));
            match what {
                0 if client > 0 && client < 4 => run.issue(client, bits),
                1 => drop(run.machine.handle_update(run.now, &Update {
                    client, ino, cap_id, mseq, seq: seq % 8, issue_seq: seq % 5, kept: bits, wanted: bits,
                })),
                2 => drop(run.machine.handle_release(run.now, &Release {
                    client, ino, cap_id, mseq, issue_seq: seq % 5,
                })),
                _ => drop(run.machine.handle_request(run.now, RequestId { client, tid: cap_id }, Demand {
                    accesses: vec![(ino, Access::change(Groups::of(bits)))],
                    entries: vec![World::entry("x")],
                })),
            }
            while run.machine.poll_output().is_some() {}
            run.machine.check_invariants();
        }
    }
}

/// A table that forbids two bits beside each other which the right one allows.
fn mutant(a: CapBits, b: CapBits) -> Vec<Row> {
    let mut rows = ROWS.to_vec();
    for (bit, excluded) in &mut rows {
        for (one, other) in [(a, b), (b, a)] {
            if *bit == one {
                *excluded |= other;
            }
        }
    }
    rows
}

#[test]
fn each_pair_of_bits_that_the_table_allows_is_seen_so_a_stricter_table_fails() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = Vec::new();
    for _ in 0..400 {
        let mut run = Run::new(Kind::File);
        let steps = steps().new_tree(&mut runner).expect("it makes steps").current();
        steps.into_iter().for_each(|step| run.step(step));
        seen.append(&mut run.seen);
    }
    seen.sort_unstable_by_key(|(a, b)| (a.0, b.0));
    seen.dedup();
    let bits: Vec<CapBits> = ROWS.iter().map(|(bit, _)| *bit).collect();
    for a in &bits {
        let allowed = bits.iter().filter(|b| !excluded_by(&ROWS, *a).contains(**b));
        for b in allowed.filter(|b| Groups::of(**b) == Groups::of(*a)) {
            let rows = mutant(*a, *b);
            let fails =
                |pair: &Row| contradiction(&rows, [(1, pair.0), (2, pair.1)].into_iter()).is_some();
            assert!(seen.iter().any(fails), "{a} beside {b} is never seen");
        }
    }
}
