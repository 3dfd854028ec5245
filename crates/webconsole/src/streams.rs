//! Streams of server-sent events: each shows one view, and sends it again when it has changed.

use bytes::Bytes;
use engine::{ConnId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Streams at a time, and those of one session.
const STREAMS_MAX: usize = 64;
const OF_SESSION_MAX: usize = 8;
/// Interval at which a view is asked for.
const INTERVAL: Duration = Duration::from_secs(1);
/// A stream sends something in this time, so that the page knows that it lives.
const ALIVE: Duration = Duration::from_secs(10);
/// A view that is not answered for so long is said to wait.
const PATIENCE: Duration = Duration::from_secs(4);

/// The views that a stream may show.
const VIEWS: [&str; 9] =
    ["overview", "osds", "pools", "groups", "images", "clients", "events", "users", "files"];

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The session that it belongs to.
    pub conn: ConnId,
    view: &'static str,
    /// When the view is asked for next.
    due: Time,
    /// Since when an answer is waited for.
    asked: Option<Time>,
    is_said_to_wait: bool,
    /// The last state that was sent.
    shown: Bytes,
    /// When anything was sent last.
    sent: Time,
    /// The browser does not read: nothing is sent until it does.
    is_behind: bool,
}

/// All streams, by the browser's connection.
#[derive(Debug, Default)]
pub(crate) struct Streams(BTreeMap<u64, Stream>);

impl Streams {
    /// Adds a stream for a view; false if there are too many, or if there is no such view.
    pub fn open(&mut self, now: Time, client: u64, conn: ConnId, view: &str) -> bool {
        let Some(view) = VIEWS.iter().find(|known| **known == view) else { return false };
        let own = self.0.values().filter(|stream| stream.conn == conn).count();
        if self.0.len() >= STREAMS_MAX || own >= OF_SESSION_MAX {
            return false;
        }
        let stream = Stream {
            conn,
            view,
            due: now,
            asked: None,
            is_said_to_wait: false,
            shown: Bytes::new(),
            sent: now,
            is_behind: false,
        };
        self.0.insert(client, stream);
        true
    }

    /// Removes a stream; false if there was none.
    pub fn close(&mut self, client: u64) -> bool {
        self.0.remove(&client).is_some()
    }

    /// The streams of a session.
    pub fn of(&self, conn: ConnId) -> Vec<u64> {
        let own = self.0.iter().filter(|(_, stream)| stream.conn == conn);
        own.map(|(client, _)| *client).collect()
    }

    /// Sets whether the browser has unread data.
    pub fn set_behind(&mut self, client: u64, is_behind: bool) {
        if let Some(stream) = self.0.get_mut(&client) {
            stream.is_behind = is_behind;
        }
    }

    /// The streams whose view is to be asked for now, with their sessions and the command.
    pub fn take_due(&mut self, now: Time) -> Vec<(u64, ConnId, String)> {
        let mut due = Vec::new();
        for (client, stream) in &mut self.0 {
            if stream.due > now || stream.is_behind || stream.asked.is_some() {
                continue;
            }
            (stream.due, stream.asked) = (now + INTERVAL, Some(now));
            let view = stream.view;
            let command = format!(r#"{{"prefix":"console {view}","format":"json"}}"#);
            due.push((*client, stream.conn, command));
        }
        due
    }

    /// Takes an answer: the event to send, if it shows anything new.
    pub fn answered(&mut self, now: Time, client: u64, state: &Bytes) -> Option<Bytes> {
        let stream = self.0.get_mut(&client)?;
        let waited = std::mem::take(&mut stream.is_said_to_wait);
        stream.asked = None;
        if stream.shown == *state && !waited {
            return None;
        }
        (stream.shown, stream.sent) = (state.clone(), now);
        Some(event("state", state))
    }

    /// Events that say that a stream lives, or that its view is not answered.
    pub fn take_signs(&mut self, now: Time) -> Vec<(u64, Bytes)> {
        let mut signs = Vec::new();
        for (client, stream) in self.0.iter_mut().filter(|(_, stream)| !stream.is_behind) {
            let waits = stream.asked.is_some_and(|asked| now.since(asked) >= PATIENCE);
            if waits && !stream.is_said_to_wait {
                (stream.is_said_to_wait, stream.sent) = (true, now);
                signs.push((*client, event("waiting", b"{}")));
            } else if now.since(stream.sent) >= ALIVE {
                stream.sent = now;
                signs.push((*client, event("alive", b"{}")));
            }
        }
        signs
    }

    /// When a stream has something to do next.
    pub fn next_due(&self) -> Option<Time> {
        let streams = self.0.values().filter(|stream| !stream.is_behind);
        let next = |stream: &Stream| match stream.asked {
            None => stream.due.min(stream.sent + ALIVE),
            Some(asked) if !stream.is_said_to_wait => (asked + PATIENCE).min(stream.sent + ALIVE),
            Some(_) => stream.sent + ALIVE,
        };
        streams.map(next).min()
    }
}

/// An event. The data is JSON, in which line breaks mean as much as spaces do; in an event they would end it.
pub(crate) fn event(name: &str, data: &[u8]) -> Bytes {
    let mut event = [b"event: ", name.as_bytes(), b"\ndata: "].concat();
    event.extend(data.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    event.extend(b"\n\n");
    event.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_state_is_sent_once_and_again_when_it_has_changed() {
        let (mut streams, now) = (Streams::default(), Time(1));
        assert!(streams.open(now, 7, ConnId(1), "osds"));
        let [(7, ConnId(1), command)] = &streams.take_due(now)[..] else { panic!("one is due") };
        assert_eq!(command, r#"{"prefix":"console osds","format":"json"}"#);
        let mut answer = |now: Time, text: &'static str| {
            streams.take_due(now);
            streams.answered(now, 7, &Bytes::from_static(text.as_bytes()))
        };
        assert_eq!(answer(now, "{}").unwrap(), "event: state\ndata: {}\n\n");
        assert_eq!(answer(now + SECOND, "{}"), None);
        assert!(answer(now + 2 * SECOND, "{1}").is_some());
        assert!(streams.take_signs(now + 3 * SECOND).is_empty());
        assert_eq!(streams.take_signs(now + 13 * SECOND).len(), 1, "it lives");
    }

    #[test]
    fn an_answer_of_another_version_cannot_end_its_event() {
        assert_eq!(event("state", b"{\n\r}"), "event: state\ndata: {  }\n\n");
    }

    #[test]
    fn a_view_that_is_not_answered_is_asked_for_once_and_said_to_wait() {
        let (mut streams, now) = (Streams::default(), Time(1));
        streams.open(now, 7, ConnId(1), "osds");
        assert_eq!(streams.take_due(now).len(), 1);
        assert!(streams.take_due(now + 5 * SECOND).is_empty());
        let signs = streams.take_signs(now + 5 * SECOND);
        assert_eq!(signs, [(7, Bytes::from_static(b"event: waiting\ndata: {}\n\n"))]);
        assert!(streams.take_signs(now + 6 * SECOND).is_empty());
        assert!(
            streams.answered(now + 7 * SECOND, 7, &Bytes::new()).is_some(),
            "it is shown again"
        );
    }

    #[test]
    fn a_browser_that_does_not_read_costs_nothing() {
        let (mut streams, now) = (Streams::default(), Time(1));
        streams.open(now, 7, ConnId(1), "osds");
        streams.set_behind(7, true);
        assert!(streams.take_due(now).is_empty() && streams.next_due().is_none());
        assert!(streams.take_signs(now + 60 * SECOND).is_empty());
        streams.set_behind(7, false);
        assert_eq!(streams.take_due(now + 60 * SECOND).len(), 1);
    }

    #[test]
    fn streams_are_bounded_and_show_what_there_is() {
        let (mut streams, now) = (Streams::default(), Time(1));
        assert!(!streams.open(now, 0, ConnId(1), "secrets"));
        for client in 0..OF_SESSION_MAX as u64 {
            assert!(streams.open(now, client, ConnId(1), "osds"));
        }
        assert!(!streams.open(now, 90, ConnId(1), "osds"));
        assert!(streams.open(now, 90, ConnId(2), "osds"));
        assert_eq!(streams.of(ConnId(2)), [90]);
    }
}
