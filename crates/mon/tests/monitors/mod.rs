//! Several monitors on one control store in memory, and the sessions between them.

// Each test program uses its part of this.
#![allow(dead_code)]

use crate::cluster::{START, addrs, parameters, settings};
use bytes::Bytes;
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use mon::control::{CommitError, Completion, MemControl, Request};
use mon::{Monitor, Settings, bootstrap};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use types::{EntityAddrVec, EntityName, EntityType, ParticipantName, UTime};
use wire::internal::{OsdUsage, StatsReport};
use wire::{MessageBody, MonCommand, MonCommandAck, OsdBoot, OsdSuperblock};

const NAMES: [&str; 3] = ["a", "b", "c"];
pub const ADMIN: ConnId = ConnId(ConnId::ACCEPTED);
pub const OSD: ConnId = ConnId(ConnId::ACCEPTED + 1);
pub const TTL: Duration = Duration::from_secs(4);

/// Monitors whose sessions with each other are reliable.
pub struct Monitors {
    pub control: MemControl,
    /// The store answers no request.
    pub is_silent: bool,
    pub now: Time,
    pub running: Vec<Option<Monitor>>,
    starts: u8,
    links: Vec<Link>,
    links_made: u64,
    sent: Vec<(usize, ConnId, Message)>,
    /// Sessions of clients that monitors closed.
    pub closed: Vec<(usize, ConnId)>,
    pub unanswered: VecDeque<(usize, Request)>,
    /// Two monitors that cannot reach each other.
    parted: Option<[usize; 2]>,
    /// The monitor whose loads the store does not answer; it answers all other requests.
    unread: Option<usize>,
    /// The monitor that is notified of changes later.
    pub untold: Option<usize>,
    /// The monitor whose next commit the store does not answer in time, and whether it is applied all the
    /// same.
    pub failing: Option<usize>,
    pub is_done_unanswered: bool,
    /// How far the clock of each monitor is ahead.
    pub ahead: [Duration; 3],
}

#[derive(Clone, Copy, PartialEq)]
struct Link {
    ends: [(usize, ConnId); 2],
}

fn settings_of(index: usize) -> Settings {
    Settings {
        mon_name: NAMES[index].to_owned(),
        mon_addrs: mon_addrs(index),
        mgr_name: format!("x{}", NAMES[index]),
        mgr_addrs: addrs(&format!("v2:127.0.0.{}:6800/1", index + 1)),
        services: [("dashboard".to_owned(), format!("https://{}:8443/", NAMES[index]))].into(),
        ..settings()
    }
}

fn mon_addrs(index: usize) -> EntityAddrVec {
    addrs(&format!("v2:127.0.0.{}:3300/0", index + 1))
}

impl Monitors {
    pub fn start(count: usize) -> Self {
        let mut entropy = auth::Entropy::from_seed([7; 32]);
        let new = bootstrap(&parameters(1), UTime::from_nanos(START), &mut entropy).unwrap();
        let mut control = MemControl::new();
        control.commit(&new.transaction).unwrap();
        let mut monitors = Monitors {
            control,
            is_silent: false,
            now: Time(START),
            running: (0..3).map(|_| None).collect(),
            starts: 0,
            links: Vec::new(),
            links_made: 0,
            sent: Vec::new(),
            closed: Vec::new(),
            unanswered: VecDeque::new(),
            parted: None,
            unread: None,
            untold: None,
            failing: None,
            is_done_unanswered: false,
            ahead: [Duration::ZERO; 3],
        };
        (0..count).for_each(|index| monitors.revive(index));
        monitors.advance(Duration::from_secs(2));
        monitors
    }

    pub fn revive(&mut self, index: usize) {
        self.starts += 1;
        self.running[index] = Some(Monitor::new(settings_of(index), [self.starts; 32]));
        self.drain();
        self.open(index, ADMIN, EntityName::client("admin"));
    }

    pub fn crash(&mut self, index: usize) {
        self.running[index] = None;
        self.unanswered.retain(|(asker, _)| *asker != index);
        let is_its = |link: &Link| link.ends.iter().any(|(node, _)| *node == index);
        let (gone, left) = std::mem::take(&mut self.links).into_iter().partition(is_its);
        self.links = left;
        let gone: Vec<Link> = gone;
        for (node, conn) in gone.into_iter().flat_map(|link| link.ends) {
            let now = self.clock(node);
            self.with(node, |monitor| monitor.handle_closed(now, conn));
        }
        self.drain();
    }

    /// The clock of a monitor.
    fn clock(&self, index: usize) -> Time {
        self.now + self.ahead[index]
    }

    pub fn with(&mut self, index: usize, act: impl FnOnce(&mut Monitor)) {
        if let Some(monitor) = &mut self.running[index] {
            act(monitor);
        }
    }

    pub fn open(&mut self, index: usize, conn: ConnId, name: EntityName) {
        self.open_with(index, conn, name, "Mallow *");
    }

    pub fn open_with(&mut self, index: usize, conn: ConnId, name: EntityName, caps: &'static str) {
        let number = name.id.parse().unwrap_or(4200);
        let peer = Peer {
            participant: ParticipantName::new(name.kind, number),
            name,
            addrs: addrs("v2:127.0.0.9:6900/1"),
            features: types::features::SUPPORTED,
            caps: Bytes::from_static(caps.as_bytes()),
            seen_addr: "v2:127.0.0.9:6900/1".parse().unwrap(),
        };
        let now = self.clock(index);
        self.with(index, |monitor| monitor.handle_opened(now, conn, peer));
        self.drain();
    }

    pub fn drain(&mut self) {
        while let Some((index, output)) = self.next_output() {
            match output {
                Output::Storage(request) if self.is_silent => {
                    self.unanswered.push_back((index, request));
                }
                Output::Storage(request @ Request::Range { token, .. })
                    if self.unread == Some(index) =>
                {
                    self.unanswered.push_back((index, request));
                    let (now, reason) = (self.clock(index), "the disk fails".to_owned());
                    let told = Completion::Unread { token, reason };
                    self.with(index, |monitor| monitor.handle_completion(now, told));
                }
                Output::Storage(request) => self.execute(index, &request),
                Output::Connect { conn, target } => self.connect(index, conn, target.addrs),
                Output::Send { conn, message } => self.carry(index, conn, message),
                Output::Close { conn } => self.close(index, conn),
                _ => {}
            }
        }
    }

    fn next_output(&mut self) -> Option<(usize, Output<Request>)> {
        let mut monitors = self.running.iter_mut().enumerate();
        monitors.find_map(|(index, monitor)| Some((index, monitor.as_mut()?.poll_output()?)))
    }

    pub fn execute(&mut self, index: usize, request: &Request) {
        let now = self.now;
        let completion = match request {
            Request::Commit { token, transaction }
                if transaction.lease.is_none()
                    && self.failing.take_if(|of| *of == index).is_some() =>
            {
                let reason = "the answer was lost".to_owned();
                Completion::Committed {
                    token: *token,
                    outcome: Err(CommitError::Failed { reason }),
                }
            }
            request => self.control.execute(now, request),
        };
        let told = match (request, &completion) {
            (
                Request::Commit { transaction, .. },
                Completion::Committed { outcome: Ok(revision), .. },
            ) => Some(MemControl::events(transaction, *revision)),
            (
                Request::Commit { transaction, .. },
                Completion::Committed { outcome: Err(CommitError::Failed { .. }), .. },
            ) if self.is_done_unanswered => {
                let revision = self.control.commit(transaction).expect("nobody else writes");
                Some(MemControl::events(transaction, revision))
            }
            _ => None,
        };
        let clock = self.clock(index);
        self.with(index, |monitor| monitor.handle_completion(clock, completion));
        if let Some(told) = told {
            self.tell_all(&told);
        }
    }

    pub fn tell_all(&mut self, told: &Completion) {
        let hear = (0..self.running.len()).filter(|index| Some(*index) != self.untold);
        hear.collect::<Vec<_>>().into_iter().for_each(|index| {
            let now = self.clock(index);
            self.with(index, |monitor| monitor.handle_completion(now, told.clone()));
        });
    }

    fn connect(&mut self, from: usize, conn: ConnId, to_addrs: EntityAddrVec) {
        let now = self.clock(from);
        let found = (0..self.running.len()).find(|index| mon_addrs(*index) == to_addrs);
        let is_parted =
            |to: usize| self.parted.is_some_and(|pair| pair.contains(&to) && pair.contains(&from));
        let there = found.filter(|to| self.running[*to].is_some() && !is_parted(*to));
        let Some(to) = there else {
            return self.with(from, |monitor| monitor.handle_closed(now, conn));
        };
        assert_ne!(from, to, "a monitor needs no session with itself");
        self.links_made += 1;
        let accepted = ConnId(ConnId::ACCEPTED + 1000 + self.links_made);
        self.links.push(Link { ends: [(from, conn), (to, accepted)] });
        let peer = |index: usize| Peer {
            participant: ParticipantName::new(EntityType::MON, index as i64),
            name: EntityName::new(EntityType::MON, index.to_string()),
            addrs: mon_addrs(index),
            features: types::features::SUPPORTED,
            caps: Bytes::new(),
            seen_addr: Default::default(),
        };
        let there = self.clock(to);
        self.with(to, |monitor| monitor.handle_opened(there, accepted, peer(from)));
        self.with(from, |monitor| monitor.handle_opened(now, conn, peer(to)));
    }

    fn other_end(&self, index: usize, conn: ConnId) -> Option<(usize, ConnId)> {
        let ends = self.links.iter().map(|link| link.ends);
        ends.flat_map(|[one, other]| [(one, other), (other, one)])
            .find(|(end, _)| *end == (index, conn))
            .map(|(_, other)| other)
    }

    fn carry(&mut self, index: usize, conn: ConnId, message: Message) {
        match self.other_end(index, conn) {
            Some((to, conn)) => {
                let now = self.clock(to);
                self.with(to, |monitor| monitor.handle_message(now, conn, message));
            }
            None => self.sent.push((index, conn, message)),
        }
    }

    fn close(&mut self, index: usize, conn: ConnId) {
        if let Some((to, other)) = self.other_end(index, conn) {
            let now = self.clock(to);
            self.links.retain(|link| !link.ends.contains(&(index, conn)));
            self.with(to, |monitor| monitor.handle_closed(now, other));
        } else {
            self.closed.push((index, conn));
        }
    }

    pub fn part(&mut self, one: usize, other: usize) {
        self.parted = Some([one, other]);
        let between = |link: &&Link| link.ends.iter().all(|(node, _)| [one, other].contains(node));
        let ends: Vec<_> = self.links.iter().filter(between).flat_map(|link| link.ends).collect();
        for (node, conn) in ends {
            self.links.retain(|link| !link.ends.contains(&(node, conn)));
            let now = self.clock(node);
            self.with(node, |monitor| monitor.handle_closed(now, conn));
        }
        self.drain();
    }

    /// Makes a monitor miss changes, and be unable to load the state.
    pub fn cannot_read(&mut self, index: usize) {
        self.unread = Some(index);
        let now = self.clock(index);
        self.with(index, |monitor| monitor.handle_completion(now, Completion::Missed));
        self.drain();
    }

    /// Answers all pending requests to the store, which works again.
    pub fn answer_all(&mut self) {
        (self.is_silent, self.unread) = (false, None);
        while let Some((index, request)) = self.unanswered.pop_front() {
            self.execute(index, &request);
            self.drain();
        }
    }

    pub fn health(&mut self, index: usize) -> Value {
        self.json(index, json!({ "prefix": "health", "detail": "detail" }))["checks"].take()
    }

    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.now = self.now + Duration::from_millis(100);
            let now = self.now;
            while let Some(told) = self.control.end_lease(now).filter(|_| !self.is_silent) {
                self.tell_all(&told);
            }
            for index in 0..self.running.len() {
                let now = self.clock(index);
                self.with(index, |monitor| {
                    if monitor.poll_timeout().is_some_and(|due| due <= now) {
                        monitor.handle_timeout(now);
                    }
                });
                self.drain();
            }
        }
    }

    pub fn send<M: MessageBody>(&mut self, index: usize, conn: ConnId, tid: u64, message: &M) {
        let (now, message) =
            (self.clock(index), message.encode(types::features::SUPPORTED).with_tid(tid));
        self.with(index, |monitor| monitor.handle_message(now, conn, message));
        self.drain();
    }

    pub fn ask(&mut self, index: usize, tid: u64, command: &Value) {
        let command = vec![command.to_string()];
        let input = Bytes::new();
        let fsid = self.running[index].as_ref().unwrap().fsid();
        self.send(index, ADMIN, tid, &MonCommand { version: 0, fsid, command, input });
    }

    pub fn take<M: MessageBody>(&mut self, index: usize, conn: ConnId) -> Vec<(u64, M)> {
        let is_wanted = |(node, to, message): &(usize, ConnId, Message)| {
            (*node, *to, message.kind) == (index, conn, M::KIND)
        };
        let (taken, left) = std::mem::take(&mut self.sent).into_iter().partition(is_wanted);
        self.sent = left;
        let taken: Vec<(usize, ConnId, Message)> = taken;
        taken.iter().map(|(_, _, message)| (message.tid, M::decode(message).unwrap())).collect()
    }

    /// The answer to a command, which must have arrived.
    pub fn json(&mut self, index: usize, mut command: Value) -> Value {
        command["format"] = json!("json");
        self.ask(index, 42, &command);
        let answers = self.take::<MonCommandAck>(index, ADMIN);
        assert_eq!(answers.len(), 1, "{command} at {index}");
        assert_eq!(answers[0].1.result, 0, "{command}: {}", answers[0].1.text);
        serde_json::from_slice(&answers[0].1.output).unwrap_or_default()
    }

    pub fn leader(&mut self, index: usize) -> String {
        let status = self.json(index, json!({ "prefix": "quorum_status" }));
        status["quorum_leader_name"].as_str().unwrap().to_owned()
    }

    /// An OSD at monitor `index` that boots and reports its usage.
    pub fn boot(&mut self, index: usize, bytes_used: u64) {
        self.open(index, OSD, EntityName::osd(0));
        let fsid = self.running[index].as_ref().unwrap().fsid();
        let superblock = OsdSuperblock { cluster_fsid: fsid, ..OsdSuperblock::default() };
        self.send(index, OSD, 0, &OsdBoot { superblock, ..OsdBoot::default() });
        self.report(index, bytes_used);
    }

    pub fn report(&mut self, index: usize, bytes_used: u64) {
        let (bytes_total, bytes_available) = (1 << 40, (1 << 40) - bytes_used);
        let usage = OsdUsage { bytes_total, bytes_available, bytes_used, ..OsdUsage::default() };
        let report = StatsReport { usage, is_complete: true, ..StatsReport::default() };
        self.send(index, OSD, 0, &report);
    }

    pub fn used(&mut self, index: usize) -> u64 {
        let status = self.json(index, json!({ "prefix": "status" }));
        status["pgmap"]["bytes_used"].as_u64().unwrap_or(0)
    }
}
