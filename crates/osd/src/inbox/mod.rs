//! Inputs that wait: for the groups to handle a map, or for a map that has not come yet.

pub(crate) mod waiting_for_map;

use crate::Budgets;
use engine::{ConnId, Message, Peer};
use std::collections::VecDeque;
use store::Completion;
use waiting_for_map::WaitingForMap;

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
    /// Inputs that wait for a newer map.
    pub waiting_for_map: WaitingForMap,
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

    /// Whether the map of some inputs has come that waited for it.
    pub fn has_ready(&self) -> bool {
        self.waiting_for_map.is_ready()
    }

    /// Describes a session that exceeds its bound for group messages from ahead of the map.
    pub fn excess(&self, budgets: &Budgets) -> Option<String> {
        self.waiting_for_map.excess(budgets, self.largest_of_group())
    }

    /// Number of inputs that wait for a map.
    #[cfg(test)]
    pub fn early_len(&self) -> usize {
        self.waiting_for_map.len()
    }

    /// Bytes of the largest held group message.
    fn largest_of_group(&self) -> usize {
        let is_of_group = |input: &&Input| matches!(input, Input::Group(..));
        self.waiting.iter().filter(is_of_group).map(Input::bytes).max().unwrap_or(0)
    }
}
