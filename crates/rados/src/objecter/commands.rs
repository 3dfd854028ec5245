//! Commands to single OSDs.

use super::Objecter;
use crate::effects::Effects;
use crate::{CommandOutput, OpId, Reply};
use bytes::Bytes;
use engine::{ConnId, Time};
use types::{Errno, OsdId, features};
use wire::{Command, CommandReply, MessageBody};

#[derive(Debug)]
pub(super) struct OsdCommand {
    osd: OsdId,
    command: String,
    input: Bytes,
    pub sent_on: Option<ConnId>,
}

impl Objecter {
    pub fn command(
        &mut self,
        now: Time,
        osd: OsdId,
        command: String,
        input: Bytes,
        fx: &mut Effects,
    ) -> OpId {
        let id = fx.next_id();
        self.commands.insert(id, OsdCommand { osd, command, input, sent_on: None });
        if let Some(timeout) = self.timeout {
            self.deadlines.push_back((now + timeout, id));
        }
        self.pump_command(id, fx);
        id
    }

    pub(super) fn pump_commands(&mut self, fx: &mut Effects) {
        let ids: Vec<OpId> = self.commands.keys().copied().collect();
        ids.into_iter().for_each(|id| self.pump_command(id, fx));
    }

    fn pump_command(&mut self, id: OpId, fx: &mut Effects) {
        let (Some(map), Some(command)) = (&self.map, self.commands.get_mut(&id)) else { return };
        let Some(addrs) = map.client_addrs(command.osd) else {
            return self.fail_command(id, Errno::NXIO, fx);
        };
        let Some(conn) = self.sessions.open(command.osd, addrs, fx) else { return };
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

    pub fn handle_command_reply(&mut self, tid: u64, reply: CommandReply, fx: &mut Effects) {
        let id = OpId(tid);
        if self.commands.remove(&id).is_some() {
            let CommandReply { result, text, output } = reply;
            fx.complete(id, Ok(Reply::Command(CommandOutput { result, text, output })));
        }
    }

    pub(super) fn fail_command(&mut self, id: OpId, error: Errno, fx: &mut Effects) {
        if self.commands.remove(&id).is_some() {
            fx.complete(id, Err(error));
        }
    }
}
