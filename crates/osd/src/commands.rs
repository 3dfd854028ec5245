//! Commands to one OSD (`ceph tell osd.N …`).

use crate::{Osd, VERSION};
use bytes::Bytes;
use engine::ConnId;
use serde_json::{Value, json};
use types::Errno;
use types::features::SUPPORTED;
use wire::{Command, CommandReply, MessageBody};

/// Prefix and help of each command.
const COMMANDS: [(&str, &str); 6] = [
    ("get_command_descriptions", "list available commands"),
    ("version", "report version of OSD"),
    ("status", "high-level status of OSD"),
    ("perf dump", "dump counters"),
    ("dump_ops_in_flight", "show the operations currently in flight"),
    ("help", "list available commands"),
];

impl Osd {
    pub(crate) fn take_command(&mut self, conn: ConnId, tid: u64, command: Command) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let (result, text, output) = match session.caps.allows_all() {
            true => self.run_command(&command),
            false => (Errno::ACCES.negative(), "access denied".to_owned(), Bytes::new()),
        };
        let reply = CommandReply { result, text, output };
        self.send(conn, reply.encode(SUPPORTED).with_tid(tid));
    }

    fn run_command(&self, command: &Command) -> (i32, String, Bytes) {
        let text = command.command.concat();
        let Ok(Value::Object(arguments)) = serde_json::from_str(&text) else {
            return refused(format!("{text:?} is not a JSON object"));
        };
        let prefix = arguments.get("prefix").and_then(Value::as_str).unwrap_or_default();
        let output = match prefix {
            "get_command_descriptions" => descriptions(),
            "help" => json!(COMMANDS.iter().map(|(name, help)| (*name, *help)).collect::<Vec<_>>()),
            "version" => json!({
                "version": VERSION,
                "release": "reef",
                "release_type": "stable",
            }),
            "status" => self.status(),
            "perf dump" => self.counters(),
            "dump_ops_in_flight" => self.requests_in_work(),
            other => {
                let known = COMMANDS.map(|(name, _)| name).join(", ");
                return refused(format!(
                    "osd.{} has no command {other:?}; it has {known}",
                    self.id()
                ));
            }
        };
        let mut text = serde_json::to_string_pretty(&output).expect("values have no odd keys");
        text.push('\n');
        (0, String::new(), text.into())
    }

    fn status(&self) -> Value {
        let own = self.map.osd(self.id()).map(|osd| osd.uuid.to_string()).unwrap_or_default();
        json!({
            "cluster_fsid": self.config.fsid.to_string(),
            "osd_fsid": own,
            "whoami": self.id().0,
            "state": if self.is_up() { "active" } else { "booting" },
            "newest_map": self.epoch().0,
            "num_pgs": self.groups.len(),
        })
    }

    fn counters(&self) -> Value {
        let mut sum = crate::groups::Counters::default();
        for group in self.groups.values() {
            sum.reads += group.counters.reads;
            sum.read_bytes += group.counters.read_bytes;
            sum.writes += group.counters.writes;
            sum.write_bytes += group.counters.write_bytes;
        }
        json!({
            "osd": {
                "op": sum.reads + sum.writes,
                "op_r": sum.reads,
                "op_r_out_bytes": sum.read_bytes,
                "op_w": sum.writes,
                "op_w_in_bytes": sum.write_bytes,
                "op_wip": self.requests.len(),
                "numpg": self.groups.len(),
                "numpg_primary": self.groups.values().filter(|g| g.pg.is_primary()).count(),
            }
        })
    }

    fn requests_in_work(&self) -> Value {
        let requests = self.requests.iter().map(|(_, request)| {
            let ops: Vec<String> =
                request.message.ops.iter().map(|op| op.code.to_string()).collect();
            json!({
                "description": format!("{} {} [{}]", request.id, request.object(), ops.join(",")),
                "pg": request.pg.to_string(),
            })
        });
        let requests: Vec<Value> = requests.collect();
        json!({ "num_ops": requests.len(), "ops": requests })
    }
}

fn refused(text: String) -> (i32, String, Bytes) {
    (Errno::INVAL.negative(), text, Bytes::new())
}

/// What `ceph` parses to know the commands of a daemon.
fn descriptions() -> Value {
    let command = |(index, (prefix, help)): (usize, &(&str, &str))| {
        let words: Vec<Value> = prefix.split(' ').map(|word| json!(word)).collect();
        let description = json!({
            "sig": words,
            "help": help,
            "module": "osd",
            "perm": "r",
            "flags": 0,
        });
        (format!("cmd{index:03}"), description)
    };
    Value::Object(COMMANDS.iter().enumerate().map(command).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_name_each_word_of_a_command() {
        let descriptions = descriptions();
        assert_eq!(descriptions["cmd003"]["sig"], json!(["perf", "dump"]));
        assert_eq!(descriptions.as_object().unwrap().len(), COMMANDS.len());
    }
}
