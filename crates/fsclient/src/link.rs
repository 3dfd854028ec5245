//! A connection to a monitor or to the metadata server.

use engine::{ConnId, Duration, Time};

/// Pause before the next attempt.
pub(crate) const RETRY: Duration = Duration::from_millis(500);
/// A peer that has not answered by then is given up.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection, or the time of the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Waiting(Time),
    /// It is given up at the time.
    Opening(ConnId, Time),
    Open(ConnId),
}

impl Link {
    pub(crate) fn owns(self, conn: ConnId) -> bool {
        self.conn() == Some(conn)
    }

    pub(crate) fn conn(self) -> Option<ConnId> {
        match self {
            Link::Waiting(_) => None,
            Link::Opening(conn, _) | Link::Open(conn) => Some(conn),
        }
    }

    pub(crate) fn open(self) -> Option<ConnId> {
        if let Link::Open(conn) = self { Some(conn) } else { None }
    }

    /// When something must be done about it.
    pub(crate) fn due(self) -> Option<Time> {
        match self {
            Link::Waiting(until) | Link::Opening(_, until) => Some(until),
            Link::Open(_) => None,
        }
    }
}
