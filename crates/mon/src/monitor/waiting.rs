//! What a follower has passed on, or could not yet, and what was not answered: by number, and counted by session.

use super::queue::Load;
use engine::{ConnId, Message, Time};
use std::collections::BTreeMap;

/// Messages that wait for a leader; beyond it, the session that brings more ends.
const WAITING_MAX: usize = 16_384;
/// Of these, so many may be of others than OSDs.
const CLIENTS_MAX: usize = WAITING_MAX / 2;

pub(super) struct Waiting {
    pub conn: ConnId,
    pub message: Message,
    pub since: Time,
}

#[derive(Default)]
pub(super) struct WaitingList {
    messages: BTreeMap<u64, Waiting>,
    by_session: BTreeMap<ConnId, Load>,
    taken: u64,
}

impl WaitingList {
    pub fn has_room(&self, is_osd: bool) -> bool {
        self.messages.len() < if is_osd { WAITING_MAX } else { CLIENTS_MAX }
    }

    pub fn add(&mut self, waiting: Waiting) -> u64 {
        self.taken += 1;
        let load = self.by_session.entry(waiting.conn).or_default();
        *load = Load { jobs: load.jobs + 1, bytes: load.bytes + waiting.message.len() };
        self.messages.insert(self.taken, waiting);
        self.taken
    }

    pub fn remove(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.messages.remove(&number)?;
        if let Some(load) = self.by_session.get_mut(&waiting.conn) {
            *load = Load { jobs: load.jobs - 1, bytes: load.bytes - waiting.message.len() };
            if load.jobs == 0 {
                self.by_session.remove(&waiting.conn);
            }
        }
        Some(waiting)
    }

    pub fn end_session(&mut self, conn: ConnId) {
        self.messages.retain(|_, waiting| waiting.conn != conn);
        self.by_session.remove(&conn);
    }

    pub fn get(&self, number: u64) -> Option<&Waiting> {
        self.messages.get(&number)
    }

    pub fn load(&self, conn: ConnId) -> Load {
        self.by_session.get(&conn).copied().unwrap_or_default()
    }

    pub fn numbers(&self) -> Vec<u64> {
        self.messages.keys().copied().collect()
    }

    /// Numbers of those that fulfil a condition.
    pub fn find(&self, is_wanted: impl Fn(&Waiting) -> bool) -> Vec<u64> {
        let found = self.messages.iter().filter(|(_, waiting)| is_wanted(waiting));
        found.map(|(number, _)| *number).collect()
    }

    /// What an answer with this number of its session answers.
    pub fn answered(&self, conn: ConnId, tid: u64) -> Option<u64> {
        let mut messages = self.messages.iter();
        let found =
            messages.find(|(_, waiting)| waiting.conn == conn && waiting.message.tid == tid);
        found.map(|(number, _)| *number)
    }
}
