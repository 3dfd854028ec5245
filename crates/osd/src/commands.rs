//! Commands to one OSD (`ceph tell osd.N …`), and the way to those to one of its groups.

use crate::{Osd, VERSION, group_commands};
use bytes::Bytes;
use engine::ConnId;
use serde_json::{Map, Value, json};
use types::Errno;
use types::features::SUPPORTED;
use wire::{Command, CommandReply, MessageBody};

/// Prefix and help of each command.
pub(crate) const COMMANDS: [(&str, &str); 6] = [
    ("get_command_descriptions", "list available commands"),
    ("version", "report version of OSD"),
    ("status", "high-level status of OSD"),
    ("perf dump", "dump counters"),
    ("dump_ops_in_flight", "show the operations currently in flight"),
    ("help", "list available commands"),
];

pub(crate) type Arguments = Map<String, Value>;

/// An answer in words, normally a refusal.
#[derive(Debug)]
pub(crate) struct Sentence {
    errno: Errno,
    text: String,
    /// The answer comes when what was asked for is done.
    is_later: bool,
}

impl Sentence {
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Sentence { errno, text: text.into(), is_later: false }
    }

    pub fn later() -> Self {
        Sentence { errno: Errno(0), text: String::new(), is_later: true }
    }
}

impl Osd {
    pub(crate) fn take_command(&mut self, conn: ConnId, tid: u64, command: Command) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let answer = match session.caps.allows_all() {
            true => self.run_command(&command, (conn, tid)),
            false => Err(Sentence::new(Errno::ACCES, "access denied")),
        };
        let reply = match answer {
            Err(Sentence { is_later: true, .. }) => return,
            Ok(output) => CommandReply { result: 0, text: String::new(), output: printed(&output) },
            Err(Sentence { errno, text, .. }) => {
                CommandReply { result: errno.negative(), text, output: Bytes::new() }
            }
        };
        self.send(conn, reply.encode(SUPPORTED).with_tid(tid));
    }

    fn run_command(&mut self, command: &Command, asker: (ConnId, u64)) -> Result<Value, Sentence> {
        let text = command.command.concat();
        let Ok(Value::Object(arguments)) = serde_json::from_str(&text) else {
            let text = format!("{text:?} is not a JSON object");
            return Err(Sentence::new(Errno::INVAL, text));
        };
        let prefix = arguments.get("prefix").and_then(Value::as_str).unwrap_or_default();
        match prefix {
            "get_command_descriptions" => Ok(descriptions()),
            "help" => Ok(help()),
            "version" => Ok(json!({
                "version": VERSION,
                "release": "reef",
                "release_type": "stable",
            })),
            "status" => Ok(self.status()),
            "perf dump" => Ok(self.counters()),
            "dump_ops_in_flight" => Ok(self.requests_in_work()),
            prefix if Osd::is_group_command(prefix) => {
                self.run_group_command(prefix, &arguments, asker)
            }
            other => {
                let known = COMMANDS.map(|(name, _)| name).join(", ");
                let text = format!("osd.{} has no command {other:?}; it has {known}", self.id());
                Err(Sentence::new(Errno::INVAL, text))
            }
        }
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

fn printed(output: &Value) -> Bytes {
    let mut text = serde_json::to_string_pretty(output).expect("values have no odd keys");
    text.push('\n');
    text.into()
}

fn help() -> Value {
    let own = COMMANDS.iter().map(|(prefix, help)| ((*prefix).to_owned(), json!(help)));
    let of_groups = group_commands::COMMANDS.iter();
    let of_groups = of_groups.map(|(prefix, _, help)| ((*prefix).to_owned(), json!(help)));
    Value::Object(own.chain(of_groups).collect())
}

/// What `ceph` parses to know the commands of a daemon.
fn descriptions() -> Value {
    let mut descriptions = Vec::new();
    for (prefix, help) in COMMANDS {
        descriptions.push(description(prefix.split(' ').map(|word| json!(word)).collect(), help));
    }
    for (prefix, arguments, help) in group_commands::COMMANDS {
        let arguments: Vec<Value> = arguments.iter().map(|text| argument(text)).collect();
        let mut new = vec![json!(prefix), argument("name=pgid,type=CephPgid,req=false")];
        new.extend(arguments.iter().cloned());
        descriptions.push(description(new, help));
        let choice = format!("name=cmd,type=CephChoices,strings={prefix}");
        let mut old = vec![json!("pg"), argument("name=pgid,type=CephPgid"), argument(&choice)];
        old.extend(arguments);
        descriptions.push(description(old, help));
    }
    let numbered = |(index, value)| (format!("cmd{index:03}"), value);
    Value::Object(descriptions.into_iter().enumerate().map(numbered).collect())
}

fn description(signature: Vec<Value>, help: &str) -> Value {
    json!({ "sig": signature, "help": help, "module": "osd", "perm": "r", "flags": 0 })
}

/// `name=…,type=…` as an object; what is not required says so.
fn argument(text: &str) -> Value {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let value = |name: &str, value: &str| match name {
        "req" => json!(value == "true"),
        _ => json!(value),
    };
    Value::Object(pairs.map(|(name, text)| (name.to_owned(), value(name, text))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_name_each_word_of_a_command() {
        let descriptions = descriptions();
        assert_eq!(descriptions["cmd003"]["sig"], json!(["perf", "dump"]));
        let count = COMMANDS.len() + 2 * group_commands::COMMANDS.len();
        assert_eq!(descriptions.as_object().unwrap().len(), count);
        let choice = json!({ "name": "cmd", "type": "CephChoices", "strings": "query" });
        assert_eq!(descriptions["cmd007"]["sig"][2], choice);
    }
}
