//! Inputs that wait until the groups have handled a map; and, by [`waiting_for_map`], those of groups that
//! wait for a map which has not come yet.

pub(crate) mod waiting_for_map;

use engine::{ConnId, Message, Peer};
use std::collections::VecDeque;
use store::Completion;

/// A held input.
#[derive(Debug)]
pub(crate) enum Input {
    Opened(ConnId, Peer),
    Message(ConnId, Message),
    /// A client's request, charged to its session.
    Request(ConnId, Message),
    /// A group message of another OSD, charged to its session.
    Group(ConnId, Message),
    Closed(ConnId),
    Completion(Completion),
}

impl Input {
    /// Length of its message.
    fn bytes(&self) -> usize {
        match self {
            Input::Message(_, message) | Input::Request(_, message) | Input::Group(_, message) => {
                message.len()
            }
            Input::Opened(..) | Input::Closed(_) | Input::Completion(_) => 0,
        }
    }
}

/// Inputs in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Held until all groups have handled the map.
    waiting: VecDeque<Input>,
    /// Message bytes of `waiting`.
    bytes: usize,
}

impl Inbox {
    /// Holds an input behind all others.
    pub fn push(&mut self, input: Input) {
        self.bytes += input.bytes();
        self.waiting.push_back(input);
    }

    /// The held input that came first.
    pub fn pop(&mut self) -> Option<Input> {
        let input = self.waiting.pop_front()?;
        self.bytes -= input.bytes();
        Some(input)
    }

    /// Number and message bytes of held inputs.
    pub fn held(&self) -> (usize, usize) {
        (self.waiting.len(), self.bytes)
    }

    /// Whether an input is held until the groups have handled the map.
    pub fn holds_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Message bytes of held requests that are charged to their sessions.
    pub fn charged(&self) -> impl Iterator<Item = usize> {
        let is_request = |input: &&Input| matches!(input, Input::Request(..));
        self.waiting.iter().filter(is_request).map(Input::bytes)
    }

    /// Session and length of each held message of a group.
    pub fn of_groups(&self) -> impl Iterator<Item = (ConnId, usize)> {
        self.waiting.iter().filter_map(|input| match input {
            Input::Group(conn, message) => Some((*conn, message.len())),
            _ => None,
        })
    }

    /// Panics unless the bytes of held messages are those counted.
    pub fn check_invariants(&self) {
        let bytes: usize = self.waiting.iter().map(Input::bytes).sum();
        assert_eq!(bytes, self.bytes, "each held message is counted");
    }

    /// Bytes of the largest held group message.
    pub fn largest_of_group(&self) -> usize {
        let is_of_group = |input: &&Input| matches!(input, Input::Group(..));
        self.waiting.iter().filter(is_of_group).map(Input::bytes).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "each held message is counted")]
    fn a_message_that_is_not_counted_is_seen() {
        let mut inbox = Inbox::default();
        inbox.push(Input::Closed(ConnId(1)));
        inbox.push(Input::Message(ConnId(1), Message::new(1, 1, 1, vec![0; 9].into())));
        inbox.check_invariants();
        inbox.bytes -= 1;
        inbox.check_invariants();
    }
}
