//! One NBD connection: its session, with TLS if the client requests it.

use crate::tls::TlsPolicy;
use anyhow::Result;
use bytes::{Bytes, BytesMut};
use nbd::{Limits, Session};
use tls::Tls;

pub(crate) struct Client {
    pub(crate) session: Session,
    tls: Option<Tls>,
    /// The client's bytes do not decrypt.
    is_broken: bool,
    /// The client does not read its output.
    pub(crate) is_behind: bool,
    pub(crate) is_paused: bool,
    /// The client is in the node's `touched`.
    pub(crate) is_touched: bool,
}

impl Client {
    pub(crate) fn new(tls: &TlsPolicy) -> Self {
        Client {
            session: Session::new(Limits::default(), tls.of_new_sessions()),
            tls: None,
            is_broken: false,
            is_behind: false,
            is_paused: false,
            is_touched: false,
        }
    }

    /// True while input from the client must wait.
    pub(crate) fn must_wait(&self) -> bool {
        self.is_behind || self.session.is_choked()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Output in the clear must have been taken before.
    pub(crate) fn start_tls(&mut self, policy: &TlsPolicy) {
        match policy.begin() {
            Ok(tls) => self.tls = Some(tls),
            Err(error) => self.fail(&error),
        }
    }

    pub(crate) fn received(&mut self, bytes: Bytes) {
        let Some(tls) = &mut self.tls else { return self.session.handle_received(bytes) };
        let mut plain = Vec::new();
        let result = tls.receive(&bytes, &mut plain);
        plain.into_iter().for_each(|piece| self.session.handle_received(piece));
        if let Err(error) = result {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &anyhow::Error) {
        tracing::warn!(error = %format!("{error:#}"), "TLS with a client of NBD failed");
        self.is_broken = true;
    }

    /// Missing bytes that are received straight into a buffer; 0 for encrypted sessions.
    pub(crate) fn receive_hint(&self) -> Option<usize> {
        if self.tls.is_some() { None } else { self.session.receive_hint() }
    }

    pub(crate) fn take_receive_buffer(&mut self) -> Option<(BytesMut, usize)> {
        let length = self.receive_hint()?;
        Some((self.session.take_receive_buffer()?, length))
    }

    /// Output bytes, encrypted if TLS is active.
    pub(crate) fn poll_transmit(&mut self, pieces: &mut Vec<Bytes>) {
        self.session.poll_transmit(pieces);
        let Some(tls) = &mut self.tls else { return };
        let sent: Result<()> = pieces.drain(..).try_for_each(|piece| tls.send(&piece));
        pieces.extend(tls.poll_transmit());
        if let Err(error) = sent {
            self.fail(&error);
        }
    }

    /// Ends the output; only the rest in `poll_transmit` follows.
    pub(crate) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end();
        }
    }
}
