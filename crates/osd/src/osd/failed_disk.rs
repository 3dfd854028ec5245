//! A failed disk takes its OSD out of service.
//!
//! A store that failed to write can guarantee no durability any more (`store::StoreError::Device`).
//! So the OSD serves no requests from then on, asks the monitor to mark it down and dead, and
//! reports the cause until an administrator restarts it or replaces the disk. A failed read of data
//! is no such case: the object is recovered from another copy. A failed read of metadata is:
//! without the version that the object should have, it cannot be recovered, and clients would get
//! errors although there are other copies.

use crate::Osd;
use crate::cx::cx;
use crate::env::Stage;
use engine::{ConnId, Message, Output, Time};
use store::StoreError;
use wire::internal::RotatingSecrets as RotatingSecretsMessage;
use wire::{AuthReply, Command, MessageBody};

/// The code of the health check.
pub(crate) const CHECK: &str = "OSD_STORE_FAILED";

impl Osd {
    /// Takes the OSD out of service: ends its sessions, and asks the monitor to mark it down.
    pub(crate) fn disk_failed(&mut self, now: Time, error: &StoreError) {
        if self.env.stage == Stage::Failed {
            return;
        }
        tracing::error!(osd = %self.env.config.id, %error, "out of service");
        let was_loading = self.env.stage == Stage::Loading;
        self.env.stage = Stage::Failed;
        self.env.failure = Some(error.to_string());
        self.leave_peers();
        self.heartbeat_if_due();
        for conn in self.clients.take_all() {
            self.outbox.push(Output::Close { conn });
        }
        if was_loading {
            self.monitor.connect(cx!(self));
        }
        self.monitor.leave(cx!(self));
        self.report.request(now);
    }

    /// Whether the OSD is out of service until it is restarted.
    pub fn has_failed(&self) -> bool {
        self.env.stage == Stage::Failed
    }

    /// Dispatch of a failed OSD: commands, and the secrets that authentication needs.
    pub(crate) fn dispatch_failed(&mut self, conn: ConnId, message: &Message) -> codec::Result<()> {
        match message.kind {
            Command::KIND => self.take_command(conn, message.tid, Command::decode(message)?),
            RotatingSecretsMessage::KIND if self.monitor.is(conn) => {
                self.take_secrets(self.env.now, &RotatingSecretsMessage::decode(message)?);
            }
            AuthReply::KIND if self.monitor.is(conn) => {
                self.take_sealed_secrets(self.env.now, &AuthReply::decode(message)?.payload);
            }
            _ => {}
        }
        Ok(())
    }

    /// Code and text of its health check.
    pub(crate) fn failure_health(&self) -> Option<(String, String)> {
        let failure = self.env.failure.as_ref()?;
        let id = self.env.config.id;
        let text = format!(
            "the store of osd.{id} failed, and the OSD is out of service ({failure}); look at its disk, \
             then restart it, or give it another disk with 'sepiola osd replace --id {id}'"
        );
        Some((CHECK.to_owned(), text))
    }
}
