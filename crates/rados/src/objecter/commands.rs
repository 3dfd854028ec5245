//! Commands to single OSDs.

use crate::effects::Effects;
use crate::names::OpId;
use crate::operation::{CommandOutput, Reply};
use crate::session::Sessions;
use bytes::Bytes;
use engine::ConnId;
use maps::OsdMap;
use std::collections::BTreeMap;
use types::{Errno, OsdId, features};
use wire::{Command, CommandReply, MessageBody};

#[derive(Debug)]
struct OsdCommand {
    osd: OsdId,
    command: String,
    input: Bytes,
    sent_on: Option<ConnId>,
}

/// Commands that wait for a session or for their reply.
#[derive(Debug, Default)]
pub(super) struct Commands {
    commands: BTreeMap<OpId, OsdCommand>,
}

impl Commands {
    /// The caller pumps it afterwards.
    pub fn insert(&mut self, id: OpId, osd: OsdId, command: String, input: Bytes) {
        let command = OsdCommand { osd, command, input, sent_on: None };
        let former = self.commands.insert(id, command);
        assert!(former.is_none(), "{id:?} was used before");
    }

    /// Sends all commands that were not sent on the current sessions of their OSDs.
    pub fn pump_all(&mut self, map: &OsdMap, sessions: &mut Sessions, fx: &mut Effects) {
        let ids: Vec<OpId> = self.commands.keys().copied().collect();
        ids.into_iter().for_each(|id| self.pump(id, map, sessions, fx));
    }

    /// Sends a command unless it was sent on the current session of its OSD. Fails it if the OSD is not up.
    pub fn pump(&mut self, id: OpId, map: &OsdMap, sessions: &mut Sessions, fx: &mut Effects) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        let Some(addrs) = map.client_addrs(command.osd) else {
            return self.fail(id, Errno::NXIO, fx);
        };
        let Some(conn) = sessions.open(command.osd, addrs, fx) else { return };
        if command.sent_on == Some(conn) {
            return;
        }
        command.sent_on = Some(conn);
        let message = Command {
            fsid: map.fsid,
            command: vec![command.command.clone()],
            input: command.input.clone(),
        };
        fx.send(conn, message.encode(features::SUPPORTED).with_tid(id.0));
    }

    /// Completes a command; an unknown `tid` is ignored.
    pub fn handle_reply(&mut self, tid: u64, reply: CommandReply, fx: &mut Effects) {
        let id = OpId(tid);
        if self.commands.remove(&id).is_some() {
            let CommandReply { result, text, output } = reply;
            fx.complete(id, Ok(Reply::Command(CommandOutput { result, text, output })));
        }
    }

    /// Does nothing if the command has completed.
    pub fn fail(&mut self, id: OpId, error: Errno, fx: &mut Effects) {
        if self.commands.remove(&id).is_some() {
            fx.complete(id, Err(error));
        }
    }

    /// Commands sent on the session are sent again on the next one.
    pub fn handle_closed(&mut self, conn: ConnId) {
        let sent = self.commands.values_mut().filter(|command| command.sent_on == Some(conn));
        sent.for_each(|command| command.sent_on = None);
    }
}
