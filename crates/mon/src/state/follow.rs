//! Application of commits, of this monitor and of others, to the state.
//!
//! The same transaction may arrive twice: as the answer to the committer, and as a change. The answer may
//! even arrive before changes of earlier revisions. Each group's transactions are totally ordered, because
//! each compares the version that the one before it wrote; so once a group is known as of some revision,
//! events up to that revision are old.

use super::{CorruptKey, State, group_of};
use crate::control::{Event, Revision};
use crate::keys::Group;
use std::collections::BTreeSet;

impl State {
    /// The newest revision that was applied or loaded.
    pub(crate) fn newest(&self) -> Revision {
        self.newest.max(self.loaded)
    }

    /// Applies whole transactions, in order, and skips those that are known. Keys that cannot be decoded are
    /// returned; all others are applied.
    pub fn follow(&mut self, events: &[Event]) -> Vec<CorruptKey> {
        let transactions = events.chunk_by(|left, right| left.revision == right.revision);
        transactions.flat_map(|transaction| self.follow_one(transaction)).collect()
    }

    fn follow_one(&mut self, transaction: &[Event]) -> Vec<CorruptKey> {
        let Some(revision) = transaction.first().map(|event| event.revision) else {
            return Vec::new();
        };
        if revision <= self.loaded {
            return Vec::new();
        }
        self.newest = self.newest.max(revision);
        let groups: BTreeSet<Group> =
            transaction.iter().filter_map(|event| group_of(&event.key)).collect();
        let is_news = |group: &Group| self.version(*group).1 < Some(revision);
        let news: BTreeSet<Group> = groups.into_iter().filter(is_news).collect();
        let mut corrupt = Vec::new();
        for event in transaction {
            let is_new = match group_of(&event.key) {
                Some(group) => news.contains(&group),
                None => self.is_new_loose(&event.key, revision),
            };
            if is_new {
                corrupt.extend(self.apply(&event.key, event.value.as_ref(), revision).err());
            }
        }
        corrupt
    }

    fn is_new_loose(&self, key: &str, revision: Revision) -> bool {
        self.loose.get(key).is_none_or(|known| *known < revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{MemControl, Transaction};

    /// A store that returns the events of each transaction.
    #[derive(Default)]
    struct Store {
        control: MemControl,
    }

    impl Store {
        fn commit(&mut self, key: &str, value: &str) -> Vec<Event> {
            let mut transaction = Transaction::default();
            transaction.put(key, value.to_owned());
            if let Some(group) = Group::of_key(key) {
                transaction.put(group.version_key(), "7");
            }
            let revision = self.control.commit(&transaction).unwrap();
            match MemControl::events(&transaction, revision) {
                crate::control::Completion::Changed { events } => events,
                _ => Vec::new(),
            }
        }
    }

    #[test]
    fn what_is_told_late_or_twice_changes_nothing_that_is_newer() {
        let mut store = Store::default();
        let mut state = State::default();
        let old = store.commit("config-key/a", "old");
        let other = store.commit("config/global/x", "1");
        let new = store.commit("config-key/a", "new");
        assert_eq!(state.follow(&new), []);
        assert_eq!(state.follow(&[old.clone(), other, new].concat()), []);
        assert_eq!(state.config_keys["a"], "new");
        assert_eq!(state.config["global"]["x"], "1");
        let (entries, revision) = (store.control.range(""), 3);
        let mut loaded = State::load(&entries, revision).unwrap();
        assert_eq!(loaded.follow(&old), []);
        assert_eq!(loaded.config_keys["a"], "new");
    }

    #[test]
    fn a_leader_that_is_gone_does_not_come_back_by_old_news() {
        let mut state = State::default();
        let event = |value: Option<&'static str>, revision| Event {
            key: "leader".to_owned(),
            value: value.map(Into::into),
            revision,
        };
        let elected = event(Some(r#"{"name":"a","incarnation":1}"#), 5);
        state.follow(std::slice::from_ref(&elected));
        assert_eq!(state.members.leader.as_ref().unwrap().name, "a");
        state.follow(&[event(None, 9)]);
        state.follow(&[elected]);
        assert_eq!(state.members.leader, None);
    }
}
