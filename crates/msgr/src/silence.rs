//! Silence of the peer of an open session: keepalives, and the end of the connection.
//!
//! The connecting end sends a keepalive to a silent peer. The accepting end only drops idle connections,
//! since kernel clients do not support keepalives.

use crate::config::Config;
use crate::event::CloseReason;
use auth::Side;
use engine::Time;

#[derive(Debug)]
pub(crate) struct Silence {
    last_received: Time,
    keepalive_sent: bool,
}

/// The next step towards a silent peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Wait,
    Keepalive,
    End(CloseReason),
}

impl Silence {
    /// The peer was heard at `now`.
    pub fn new(now: Time) -> Self {
        Self { last_received: now, keepalive_sent: false }
    }

    /// Bytes have arrived, or a connection begins.
    pub fn heard(&mut self, now: Time) {
        *self = Self::new(now);
    }

    /// Time of the last sign of life.
    pub fn since(&self) -> Time {
        self.last_received
    }

    /// Time for the next call of [`Silence::next`].
    pub fn deadline(&self, config: &Config, side: Side) -> Time {
        let patience = match (side, self.keepalive_sent) {
            (Side::Accepting, _) => config.idle_max,
            (Side::Connecting, true) => config.silence_max,
            (Side::Connecting, false) => config.keepalive_interval,
        };
        self.last_received + patience
    }

    /// The caller performs what is returned; a keepalive counts as sent.
    pub fn next(&mut self, now: Time, config: &Config, side: Side) -> Next {
        let silence = now.since(self.last_received);
        match side {
            Side::Accepting if silence >= config.idle_max => Next::End(CloseReason::Idle),
            Side::Accepting => Next::Wait,
            Side::Connecting if silence >= config.silence_max => Next::End(CloseReason::Silent),
            Side::Connecting if silence >= config.keepalive_interval && !self.keepalive_sent => {
                self.keepalive_sent = true;
                Next::Keepalive
            }
            Side::Connecting => Next::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connecting_end_asks_once_and_then_gives_up() {
        let (config, start) = (Config::client(1), Time(1_000));
        let mut silence = Silence::new(start);
        let mut at = |now| silence.next(now, &config, Side::Connecting);
        assert_eq!(at(start), Next::Wait);
        assert_eq!(at(start + config.keepalive_interval), Next::Keepalive);
        assert_eq!(at(start + config.keepalive_interval), Next::Wait);
        assert_eq!(at(start + config.silence_max), Next::End(CloseReason::Silent));
    }
}
