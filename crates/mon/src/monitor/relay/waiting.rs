//! A follower's unanswered requests for the leader, by number, and counted by session.

use crate::monitor::pipeline::Load;
use engine::{ConnId, Message, Time};
use std::collections::BTreeMap;
use wire::{
    GetPoolStats, GetPoolStatsReply, MessageBody, MgrCommand, MgrCommandReply, MonCommand,
    MonCommandAck, MonGetVersion, MonGetVersionReply, PoolOp, PoolOpReply, Statfs, StatfsReply,
};

/// Bound of the messages that wait for a leader; a session that sends more is closed.
const WAITING_MAX: usize = 16_384;
/// Bound of the messages of sessions other than OSDs'.
const CLIENTS_MAX: usize = WAITING_MAX / 2;

/// A request, its session, and the time of its arrival.
pub struct Waiting {
    pub conn: ConnId,
    pub message: Message,
    pub since: Time,
}

/// The waiting requests.
#[derive(Default)]
pub struct WaitingList {
    messages: BTreeMap<u64, Waiting>,
    by_session: BTreeMap<ConnId, Load>,
    taken: u64,
}

impl WaitingList {
    /// The bound that another message of an OSD, or of another peer, would exceed.
    pub fn exceeded(&self, is_osd: bool) -> Option<u64> {
        let max = if is_osd { WAITING_MAX } else { CLIENTS_MAX };
        (self.messages.len() >= max).then_some(max as u64)
    }

    /// Adds a message and returns its number.
    pub fn add(&mut self, waiting: Waiting) -> u64 {
        self.taken += 1;
        let load = self.by_session.entry(waiting.conn).or_default();
        *load = Load { jobs: load.jobs + 1, bytes: load.bytes + waiting.message.len() };
        let before = self.messages.insert(self.taken, waiting);
        assert!(before.is_none(), "each message has its own number");
        self.taken
    }

    /// Takes a request out.
    pub fn remove(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.messages.remove(&number)?;
        let load = self.by_session.get_mut(&waiting.conn).expect("a message that waits is counted");
        assert!(load.jobs > 0 && load.bytes >= waiting.message.len(), "a load is a sum");
        *load = Load { jobs: load.jobs - 1, bytes: load.bytes - waiting.message.len() };
        if load.jobs == 0 {
            self.by_session.remove(&waiting.conn);
        }
        Some(waiting)
    }

    /// Drops the messages of a session.
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

    /// The numbers of all messages, oldest first.
    pub fn numbers(&self) -> Vec<u64> {
        self.messages.keys().copied().collect()
    }

    /// The numbers of messages that fulfil a condition, oldest first.
    pub fn find(&self, is_wanted: impl Fn(&Waiting) -> bool) -> Vec<u64> {
        let found = self.messages.iter().filter(|(_, waiting)| is_wanted(waiting));
        found.map(|(number, _)| *number).collect()
    }

    /// The number of the request that an answer belongs to. Clients number commands, pool operations and
    /// others separately, so requests of two kinds may have the same `tid`.
    pub fn answered(&self, conn: ConnId, answer: &Message) -> Option<u64> {
        let is_answered = |waiting: &Waiting| {
            let request = &waiting.message;
            (waiting.conn, request.tid, kind_of_answer(request.kind))
                == (conn, answer.tid, Some(answer.kind))
        };
        let mut messages = self.messages.iter();
        messages.find(|(_, waiting)| is_answered(waiting)).map(|(number, _)| *number)
    }

    /// Panics if the loads of sessions are not those of their messages.
    pub fn check_invariants(&self) {
        assert!(self.messages.len() <= WAITING_MAX, "{} messages wait", self.messages.len());
        let mut loads = BTreeMap::<ConnId, Load>::new();
        for waiting in self.messages.values() {
            let load = loads.entry(waiting.conn).or_default();
            *load = Load { jobs: load.jobs + 1, bytes: load.bytes + waiting.message.len() };
        }
        assert_eq!(loads, self.by_session, "loads are sums over messages");
    }
}

/// The kind of the answer to a request that a follower keeps until the leader has answered it.
fn kind_of_answer(request: u16) -> Option<u16> {
    Some(match request {
        MonCommand::KIND => MonCommandAck::KIND,
        MgrCommand::KIND => MgrCommandReply::KIND,
        MonGetVersion::KIND => MonGetVersionReply::KIND,
        PoolOp::KIND => PoolOpReply::KIND,
        Statfs::KIND => StatfsReply::KIND,
        GetPoolStats::KIND => GetPoolStatsReply::KIND,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(conn: u64) -> Waiting {
        Waiting {
            conn: ConnId(conn),
            message: Message::new(7, 1, 1, "abc".into()),
            since: Time::ZERO,
        }
    }

    #[test]
    fn a_load_goes_down_with_its_messages() {
        let mut list = WaitingList::default();
        let numbers = [1, 2, 1].map(|conn| list.add(message(conn)));
        list.check_invariants();
        assert_eq!(list.load(ConnId(1)).jobs, 2);
        assert!(list.remove(numbers[0]).is_some() && list.remove(numbers[0]).is_none());
        list.check_invariants();
        list.end_session(ConnId(1));
        list.check_invariants();
        assert_eq!(list.numbers(), [numbers[1]]);
    }

    #[test]
    #[should_panic(expected = "loads are sums over messages")]
    fn a_load_without_its_message_is_found() {
        let mut list = WaitingList::default();
        list.add(message(1));
        list.messages.clear();
        list.check_invariants();
    }
}
