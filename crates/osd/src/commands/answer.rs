//! How the answer to a command reaches its sender.

use crate::outbox::Outbox;
use crate::sessions::clients::Clients;
use engine::ConnId;
use types::features::SUPPORTED;
use types::{Errno, OsdId};
use wire::MessageBody;
pub(crate) use wire::tell::{Arguments, CommandOutput, Sentence, integer, parse, text, words};

/// The session and the tid of a command, for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requester {
    pub conn: ConnId,
    pub tid: u64,
}

impl Requester {
    /// Replies to the command, unless its session has ended.
    pub fn tell(
        self,
        clients: &Clients,
        out: &mut Outbox,
        answer: Result<CommandOutput, Sentence>,
    ) {
        if clients.contains(self.conn) {
            let reply = wire::tell::reply(answer);
            out.send(self.conn, reply.encode(SUPPORTED).with_tid(self.tid));
        }
    }
}

/// The refusal of a command that OSDs do not have.
pub(crate) fn unknown(osd: OsdId, prefix: &str) -> Sentence {
    let id = osd.0;
    let text = format!("osd.{id} has no command {prefix:?}; see `ceph tell osd.{id} help`");
    Sentence::new(Errno::INVAL, text)
}
