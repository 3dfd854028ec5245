//! Sessions of clients: when they were heard of last, what they were asked for, and how much they hold.
//!
//! A client may use its capabilities until it has not renewed its session for as long as sessions last.
//! Nothing is taken from it without its answer, except by eviction.

use crate::requests::InodeId;
use engine::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Settings of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Time without a renewal after which a client uses its capabilities no longer (`session_timeout`).
    pub session_timeout: Duration,
    /// Time without a renewal after which a client is evicted in any case (`session_autoclose`).
    pub session_autoclose: Duration,
    /// Time after which a client that renews and withholds a capability is evicted; zero for never
    /// (`mds_cap_revoke_eviction_timeout`).
    pub revoke_eviction_timeout: Duration,
    /// Capabilities of one session beyond which it gets no more.
    pub session_caps_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            session_timeout: Duration::from_secs(60),
            session_autoclose: Duration::from_secs(300),
            revoke_eviction_timeout: Duration::ZERO,
            session_caps_max: 1_000_000,
        }
    }
}

/// Reason of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictReason {
    /// It is silent, and another client waits for its capability.
    SilentAndWaitedFor,
    /// It was silent for too long.
    Silent,
    /// It renews its session and withholds a capability.
    Withholds,
}

/// A finding about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    Evict(u64, EvictReason),
    Late(u64, InodeId, Time),
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    heard: Time,
    /// Inodes on which the client has capabilities.
    pub caps: BTreeSet<InodeId>,
    /// Revocations without an answer: since when, and whether that was told.
    revoking: BTreeMap<InodeId, (Time, bool)>,
    is_evicting: bool,
    /// Capabilities that it got lately; a quarter is forgotten each second.
    pub recent: u64,
}

/// All sessions, by client.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: BTreeMap<u64, Session>,
    silent: BTreeSet<u64>,
}

impl Sessions {
    /// Opens a session, or renews the one that is open.
    pub fn open(&mut self, now: Time, client: u64) {
        self.open.entry(client).or_insert_with(|| Session {
            heard: now,
            caps: BTreeSet::new(),
            revoking: BTreeMap::new(),
            is_evicting: false,
            recent: 0,
        });
        self.renew(now, client);
    }

    /// The client was heard of.
    pub fn renew(&mut self, now: Time, client: u64) {
        if let Some(session) = self.open.get_mut(&client) {
            session.heard = session.heard.max(now);
            self.silent.remove(&client);
        }
    }

    /// Removes a session.
    pub fn remove(&mut self, client: u64) -> Option<Session> {
        self.silent.remove(&client);
        self.open.remove(&client)
    }

    /// The session of a client.
    pub fn get(&self, client: u64) -> Option<&Session> {
        self.open.get(&client)
    }

    /// See [`Sessions::get`].
    pub fn get_mut(&mut self, client: u64) -> Option<&mut Session> {
        self.open.get_mut(&client)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Sessions by client.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Session)> {
        self.open.iter().map(|(client, session)| (*client, session))
    }

    /// All sessions.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.open.values_mut()
    }

    /// Clients that were not heard of for longer than sessions last.
    pub fn silent(&self) -> &BTreeSet<u64> {
        &self.silent
    }

    /// The client was asked for bits. The time of an earlier question stays.
    pub fn begin_revocation(&mut self, now: Time, client: u64, ino: InodeId) {
        if let Some(session) = self.open.get_mut(&client) {
            session.revoking.entry(ino).or_insert((now, false));
        }
    }

    /// The client has given back all bits of an inode that it was asked for.
    pub fn end_revocation(&mut self, client: u64, ino: InodeId) {
        if let Some(session) = self.open.get_mut(&client) {
            session.revoking.remove(&ino);
        }
    }

    /// Looks for silent sessions and late answers.
    pub fn examine(&mut self, now: Time, settings: &Settings) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (client, session) in &mut self.open {
            let silence = now.since(session.heard);
            let is_silent = silence > settings.session_timeout;
            if is_silent {
                self.silent.insert(*client);
            }
            let evict = session.reason_to_evict(now, silence, settings);
            if let Some(reason) = evict.filter(|_| !session.is_evicting) {
                session.is_evicting = true;
                findings.push(Finding::Evict(*client, reason));
            }
            if is_silent || session.is_evicting {
                continue;
            }
            for (ino, (since, was_told)) in &mut session.revoking {
                if !*was_told && now.since(*since) > settings.session_timeout {
                    *was_told = true;
                    findings.push(Finding::Late(*client, *ino, *since));
                }
            }
        }
        findings
    }
}

impl Session {
    fn reason_to_evict(
        &self,
        now: Time,
        silence: Duration,
        settings: &Settings,
    ) -> Option<EvictReason> {
        if silence > settings.session_autoclose {
            return Some(EvictReason::Silent);
        }
        if silence > settings.session_timeout {
            return (!self.revoking.is_empty()).then_some(EvictReason::SilentAndWaitedFor);
        }
        let patience = settings.revoke_eviction_timeout;
        let mut since = self.revoking.values().map(|(since, _)| *since);
        let withholds = !patience.is_zero() && since.any(|since| now.since(since) > patience);
        withholds.then_some(EvictReason::Withholds)
    }
}
