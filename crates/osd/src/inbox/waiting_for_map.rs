//! Inputs that were sent by a newer map than this OSD has, and wait for that map.
//!
//! Requests are bounded as all requests are (`sessions/throttle.rs`). Group messages of other OSDs are
//! bounded per session: a session beyond its bound is paused until the map has come. Nothing is
//! dropped, because members do not resend; when a session ends, its waiting messages end with it.

use crate::cx::cx;
use crate::operations::request::Origin;
use crate::{Budgets, Osd};
use engine::{ConnId, Message, Output, Time};
use std::collections::{BTreeMap, VecDeque};
use types::{Epoch, OsdId};

/// An input that waits for a map: a request by its key, or a group message.
#[derive(Debug)]
pub(crate) enum Early {
    Request(u64),
    Group { conn: ConnId, from: OsdId, message: Message },
}

/// All inputs that wait for a map.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// In order of arrival, with the epoch that is waited for.
    all: Vec<(Epoch, Early)>,
    /// Inputs whose map has come, handled a bounded number at a time.
    ready: VecDeque<Early>,
    /// Group messages that wait, by session.
    sessions: BTreeMap<ConnId, Held>,
}

/// Group messages of one session.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    messages: usize,
    bytes: usize,
    is_paused: bool,
}

impl Held {
    fn is_full(&self, budgets: &Budgets) -> bool {
        self.messages >= budgets.early_messages || self.bytes >= budgets.early_bytes
    }
}

impl Waiting {
    /// Describes a session that exceeds its bound by more than the message that reached it.
    pub fn excess(&self, budgets: &Budgets, largest_held: usize) -> Option<String> {
        let messages = self.all.iter().filter_map(|(_, early)| match early {
            Early::Group { message, .. } => Some(message.len()),
            Early::Request(_) => None,
        });
        let largest = messages.max().unwrap_or(0).max(largest_held);
        let is_above = |held: &&Held| {
            held.messages > budgets.early_messages || held.bytes > budgets.early_bytes + largest
        };
        let held = self.sessions.values().find(is_above)?;
        Some(format!("{} messages ahead of the map, {} bytes", held.messages, held.bytes))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether the map of some inputs has come.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

impl Osd {
    /// The epoch to wait for, if an input of this epoch cannot be handled yet.
    fn awaited(&self, epoch: Epoch) -> Option<Epoch> {
        let is_early = epoch > self.epoch() || !self.is_up();
        is_early.then(|| epoch.max(self.epoch().next()))
    }

    /// Makes a request wait if its epoch is not known yet; true if it waits.
    pub(crate) fn await_map(&mut self, epoch: Epoch, key: u64) -> bool {
        let Some(awaited) = self.awaited(epoch) else { return false };
        self.inbox.early.all.push((awaited, Early::Request(key)));
        true
    }

    /// Likewise for a group message; returns one that need not wait.
    pub(crate) fn hold_message(
        &mut self,
        conn: ConnId,
        from: OsdId,
        epoch: Epoch,
        message: Message,
    ) -> Option<Message> {
        let Some(awaited) = self.awaited(epoch) else { return Some(message) };
        self.charge_group_message(conn, message.len());
        self.inbox.early.all.push((awaited, Early::Group { conn, from, message }));
        None
    }

    /// Handles the inputs that waited for the present map.
    pub(crate) fn take_early(&mut self, now: Time) {
        let epoch = self.epoch();
        let all = std::mem::take(&mut self.inbox.early.all);
        let (ready, early): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(awaited, _)| *awaited <= epoch);
        self.inbox.early.all = early;
        self.inbox.early.ready.extend(ready.into_iter().map(|(_, early)| early));
        self.take_ready(now);
    }

    /// Handles a bounded number of them. Inputs that arrive meanwhile wait behind them
    /// (`inbox/mod.rs`).
    pub(crate) fn take_ready(&mut self, now: Time) {
        for _ in 0..crate::limits::HELD_INPUTS_PER_TURN {
            match self.inbox.early.ready.pop_front() {
                None => return,
                Some(Early::Request(key)) => {
                    self.admit(now, key);
                    self.settle();
                }
                Some(Early::Group { conn, from, message }) => {
                    self.uncharge_group_message(conn, message.len());
                    self.resume_member(conn);
                    if let Err(error) = self.deliver_group_message(now, conn, from, message) {
                        // Its other messages are forgotten with it.
                        self.end_session(now, conn, &error);
                    }
                }
            }
        }
    }

    /// Counts a held group message of a session, and pauses the session at its bound.
    pub(crate) fn charge_group_message(&mut self, conn: ConnId, bytes: usize) {
        let held = self.inbox.early.sessions.entry(conn).or_default();
        held.messages += 1;
        held.bytes += bytes;
        if held.is_full(&self.env.config.sizes.budgets) && !held.is_paused {
            held.is_paused = true;
            tracing::info!(?conn, messages = held.messages, "an OSD is ahead of our map and waits");
            self.outbox.push(Output::Pause { conn, paused: true });
        }
    }

    /// Counts a held message no more. Call [`Osd::resume_member`] once it is handled or held again.
    pub(crate) fn uncharge_group_message(&mut self, conn: ConnId, bytes: usize) {
        if let Some(held) = self.inbox.early.sessions.get_mut(&conn) {
            held.messages -= 1;
            held.bytes -= bytes;
        }
    }

    pub(crate) fn resume_member(&mut self, conn: ConnId) {
        let Some(held) = self.inbox.early.sessions.get_mut(&conn) else { return };
        if held.is_paused && !held.is_full(&self.env.config.sizes.budgets) {
            held.is_paused = false;
            self.outbox.push(Output::Pause { conn, paused: false });
        }
        if held.messages == 0 {
            self.inbox.early.sessions.remove(&conn);
        }
    }

    /// Forgets the waiting inputs of a session that has ended.
    pub(crate) fn forget_early(&mut self, conn: ConnId) {
        self.inbox.early.sessions.remove(&conn);
        let mut gone = Vec::new();
        let requests = &self.operations;
        let mut stays = |early: &Early| match early {
            Early::Group { conn: of, .. } => *of != conn,
            Early::Request(key) => {
                let origin = requests.get(*key).map(|request| request.origin);
                let ends = origin == Some(Origin::Client { conn });
                gone.extend(ends.then_some(*key));
                !ends
            }
        };
        self.inbox.early.all.retain(|(_, early)| stays(early));
        self.inbox.early.ready.retain(stays);
        gone.into_iter().for_each(|key| self.operations.forget(cx!(self), key));
    }
}
