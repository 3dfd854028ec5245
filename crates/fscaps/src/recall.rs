//! Recall: which clients are asked to give capabilities back when memory is short.

use crate::sessions::{Session, Sessions};
use std::cmp::Reverse;

/// Capabilities by which one message lowers a session at most.
const RECALLED_MAX: usize = 30_000;

/// How short memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// Capabilities that must go to bring memory down to its goal.
    pub excess: usize,
    /// Whether the budget is used up, so that no client gets a capability that it does not have.
    pub is_full: bool,
}

/// Clients that are asked, with the number of capabilities that they may keep. Those with most capabilities
/// for their recent use come first.
pub(crate) fn recall(
    sessions: &Sessions,
    pressure: Pressure,
    session_caps_max: usize,
) -> Vec<(u64, usize)> {
    let mut by_use: Vec<(u64, &Session)> = sessions.iter().collect();
    by_use.sort_by_key(|(client, session)| {
        (Reverse(session.caps.len() as u64 / (session.recent + 1)), *client)
    });
    let (mut excess, mut asked) = (pressure.excess, Vec::new());
    for (client, session) in by_use {
        let held = session.caps.len();
        let own = held.saturating_sub(session_caps_max);
        // The root stays: a client without any capability cannot work.
        let dropped = excess.max(own).min(RECALLED_MAX).min(held.saturating_sub(1));
        if dropped > 0 {
            asked.push((client, held - dropped));
            excess = excess.saturating_sub(dropped);
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::InodeId;
    use engine::Time;

    fn sessions(held: &[(u64, u64, u64)]) -> Sessions {
        let mut sessions = Sessions::default();
        for (client, caps, recent) in held {
            sessions.open(Time::ZERO, *client);
            let session = sessions.get_mut(*client).unwrap();
            session.caps = (0..*caps).map(InodeId).collect();
            session.recent = *recent;
        }
        sessions
    }

    #[test]
    fn clients_that_use_least_of_what_they_hold_are_asked_first() {
        let sessions = sessions(&[(1, 50_000, 50_000), (2, 50_000, 10), (3, 100, 0)]);
        let pressure = Pressure { excess: 30_050, is_full: false };
        let asked = recall(&sessions, pressure, 1_000_000);
        assert_eq!(asked, [(2, 20_000), (3, 50)]);
    }

    #[test]
    fn a_session_above_its_own_bound_is_asked_without_need_of_memory() {
        let sessions = sessions(&[(1, 120, 0), (2, 90, 0)]);
        assert_eq!(recall(&sessions, Pressure::default(), 100), [(1, 100)]);
    }
}
