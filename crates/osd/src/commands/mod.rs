//! Commands to one OSD (`ceph tell osd.N …`), and the dispatch of those to its groups.

pub(crate) mod answer;
pub(crate) mod bench;
pub(crate) mod dumps;
pub(crate) mod groups;
pub(crate) mod lost;

use self::answer::{Arguments, Sentence, Told};
use self::bench::Bench;
use self::groups as group_commands;
use self::lost::LostCommands;
use crate::report::op_history::in_flight;
use crate::report::usage::Injected;
use crate::{Osd, VERSION};
use bytes::Bytes;
use engine::{ConnId, Duration};
use serde_json::{Value, json};
use types::Errno;
use types::features::SUPPORTED;
use wire::options::RUNNING_COMMANDS;
use wire::{Command, CommandReply, Log, MessageBody};

/// Signature and help of each command, besides those of options and groups.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("get_command_descriptions", "list available commands"),
    ("version", "report version of OSD"),
    ("git_version", "get git sha1"),
    ("status", "high-level status of OSD"),
    (
        "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump non-labeled counters and their values",
    ),
    ("perf schema", "dump non-labeled counters schemas"),
    (
        "perf reset name=var,type=CephString",
        "perf reset <name>: perf reset all or one perfcounter name",
    ),
    ("ops name=filterstr,type=CephString,n=N,req=false", "show the ops currently in flight"),
    (
        "dump_ops_in_flight name=filterstr,type=CephString,n=N,req=false",
        "show the ops currently in flight",
    ),
    (
        "dump_blocked_ops name=filterstr,type=CephString,n=N,req=false",
        "show the blocked ops currently in flight",
    ),
    ("dump_historic_ops name=filterstr,type=CephString,n=N,req=false", "show recent ops"),
    (
        "dump_historic_ops_by_duration name=filterstr,type=CephString,n=N,req=false",
        "show slowest recent ops, sorted by duration",
    ),
    (
        "dump_historic_slow_ops name=filterstr,type=CephString,n=N,req=false",
        "show slowest recent ops",
    ),
    ("dump_watchers", "show clients which have active watches, and on which objects"),
    ("dump_blocklist", "dump blocklisted clients and times"),
    ("dump_pg_recovery_stats", "dump pg recovery statistics"),
    ("reset_pg_recovery_stats", "reset pg recovery statistics"),
    ("dump_recovery_reservations", "show recovery reservations"),
    ("dump_scrub_reservations", "show scrub reservations"),
    ("dump_scrubs", "print scheduled scrubs"),
    ("dump_osd_network name=value,type=CephInt,req=false", "Dump osd heartbeat network ping times"),
    ("dump_mempools", "get mempool stats"),
    ("dump_pgstate_history", "show recent state history"),
    ("get_latest_osdmap", "force osd to update the latest map from the mon"),
    ("get_mapped_pools", "dump pools whose PG(s) are mapped to this OSD."),
    ("flush_pg_stats", "flush pg stats"),
    (
        "bench name=count,type=CephInt,req=false name=size,type=CephInt,req=false",
        "OSD benchmark: write <count> <size>-byte objects(with <obj_size> <obj_num>), \
         (default count=1G default size=4MB). Results in log.",
    ),
    ("cache status", "Get OSD caches statistics"),
    ("cache drop", "Drop all OSD caches"),
    ("compact", "Commpact object store's omap. WARNING: Compaction probably slows your requests"),
    ("log flush", "flush log entries to log file"),
    ("log dump", "dump recent log entries to log file"),
    ("log reopen", "reopen log file"),
    (
        "heap name=heapcmd,type=CephChoices,strings=dump|start_profiler|stop_profiler|release|\
         get_release_rate|set_release_rate|stats name=value,type=CephString,req=false",
        "show heap usage info",
    ),
    (
        "injectfull name=type,type=CephString,req=false name=count,type=CephInt,req=false",
        "Inject a full disk (optional count times)",
    ),
    ("list_devices", "list OSD devices."),
    (
        "cluster_log name=level,type=CephChoices,strings=error|warning|info|debug \
         name=message,type=CephString,n=N",
        "log a message to the cluster log",
    ),
    ("scrub_purged_snaps", "Scrub purged_snaps vs snapmapper index"),
    (
        "debug kick_recovery_wq name=delay,type=CephInt,range=0",
        "set osd_recovery_delay_start to <val>",
    ),
    ("help", "list available commands"),
];

/// Commands that are answered later.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    bench: Option<Box<Bench>>,
    lost: LostCommands,
}

impl Osd {
    /// Runs a command. Only peers with all capabilities may run any.
    pub(crate) fn take_command(&mut self, conn: ConnId, tid: u64, command: Command) {
        let Some(session) = self.clients.get(conn) else { return };
        let answer = match session.caps.allows_all() {
            true => self.run_command(conn, tid, &command),
            false => Err(Sentence::new(Errno::ACCES, "access denied")),
        };
        if let Some(answer) = answer.transpose() {
            self.tell(conn, tid, answer);
        }
    }

    /// Replies to a command.
    pub(crate) fn tell(&mut self, conn: ConnId, tid: u64, answer: Result<Told, Sentence>) {
        let reply = |text, output| CommandReply { result: 0, text, output };
        let reply = match answer {
            Err(Sentence { is_later: true, .. }) => return,
            Ok(Told::Json(value)) => reply(String::new(), printed(&value)),
            Ok(Told::Plain(text)) => reply(String::new(), text.into()),
            Ok(Told::Both(value, text)) => reply(text, printed(&value)),
            Ok(Told::Said(text)) => reply(text, Bytes::new()),
            Err(Sentence { errno, text, .. }) => {
                CommandReply { result: errno.negative(), text, output: Bytes::new() }
            }
        };
        self.send(conn, reply.encode(SUPPORTED).with_tid(tid));
    }

    /// `None` if the reply follows later.
    fn run_command(
        &mut self,
        conn: ConnId,
        tid: u64,
        command: &Command,
    ) -> Result<Option<Told>, Sentence> {
        let text = command.command.concat();
        let Ok(Value::Object(arguments)) = serde_json::from_str(&text) else {
            let text = format!("{text:?} is not a JSON object");
            return Err(Sentence::new(Errno::INVAL, text));
        };
        let prefix = arguments.get("prefix").and_then(Value::as_str).unwrap_or_default();
        if let Some(answer) = self.env.running.command(prefix, &arguments) {
            self.env.apply_options();
            let answer = answer.map_err(|(errno, text)| Sentence::new(errno, text));
            return answer.map(|(value, text)| Some(Told::Both(value, text)));
        }
        if Osd::is_group_command(prefix) {
            let told = self.run_group_command(prefix, &arguments, (conn, tid));
            return told.map(|value| Some(value.into()));
        }
        if prefix == "bench" {
            let number = |name| integer(&arguments, name);
            self.begin_bench(conn, tid, number("count")?, number("size")?)?;
            return Ok(None);
        }
        let told = self.show(prefix, &arguments).map(Told::Json);
        told.map_or_else(|| self.act(prefix, &arguments), Ok).map(Some)
    }

    /// Commands that only show state.
    fn show(&mut self, prefix: &str, arguments: &Arguments) -> Option<Value> {
        let filter = words(arguments.get("filterstr"));
        let (now, options) = (self.env.now, &self.env.options);
        let requests = self.operations.iter().map(|(_, request)| request);
        Some(match prefix {
            "get_command_descriptions" => descriptions(),
            "help" => help(),
            "version" => json!({ "version": VERSION, "release": "reef", "release_type": "stable" }),
            "git_version" => json!({ "git_version": "" }),
            "status" => self.status(),
            "perf dump" => {
                let name = |name: &str| arguments.get(name).and_then(Value::as_str);
                self.perf_dump(name("logger"), name("counter"))
            }
            "perf schema" => self.perf_schema(),
            "ops" | "dump_ops_in_flight" => {
                let ops = filtered(in_flight(now, requests, Duration::ZERO), &filter);
                json!({ "num_ops": ops.len(), "ops": ops })
            }
            "dump_blocked_ops" => {
                let ops = filtered(in_flight(now, requests, options.op_complaint_time), &filter);
                let complaint_time = options.op_complaint_time.as_secs();
                json!({ "complaint_time": complaint_time, "num_blocked_ops": ops.len(), "ops": ops })
            }
            "dump_historic_ops" => {
                filtered_in(self.report.dump_history(now, options, false), "ops", &filter)
            }
            "dump_historic_ops_by_duration" => {
                filtered_in(self.report.dump_history(now, options, true), "ops", &filter)
            }
            "dump_historic_slow_ops" => {
                filtered_in(self.report.dump_slow(now, options), "Ops", &filter)
            }
            "dump_watchers" => self.dump_watchers(),
            "dump_blocklist" => self.dump_blocklist(),
            "dump_pg_recovery_stats" => self.groups.state_times.json(),
            "dump_recovery_reservations" => self.dump_reservations(),
            "dump_scrub_reservations" => self.dump_scrub_reservations(),
            "dump_scrubs" => self.dump_scrubs(),
            "dump_osd_network" => self.dump_network(arguments.get("value").and_then(Value::as_i64)),
            "dump_mempools" => self.dump_mempools(),
            "dump_pgstate_history" => {
                let states = self.groups.by_id.iter().map(|(pg, group)| group.states.json(*pg));
                json!({ "pgs": states.collect::<Vec<_>>() })
            }
            "get_mapped_pools" => self.mapped_pools(),
            "cache status" => {
                let objects = self.operations.objects_len();
                json!({ "object_ctx": objects, "bluestore_onode": 0, "bluestore_buffers": 0 })
            }
            "log flush" | "log dump" | "log reopen" => json!({}),
            // Only the host knows the device.
            "list_devices" => json!([]),
            _ => return None,
        })
    }

    /// Commands that change state.
    fn act(&mut self, prefix: &str, arguments: &Arguments) -> Result<Told, Sentence> {
        match prefix {
            "perf reset" => self.perf_reset(text(arguments, "var")),
            "reset_pg_recovery_stats" => self.groups.state_times.reset(),
            "get_latest_osdmap" => self.ask_for_maps(),
            "flush_pg_stats" => return Ok(json!(self.flush_stats()).into()),
            "cache drop" => self.drop_caches(),
            // The store writes checkpoints continuously, and its tree in place.
            "compact" => {}
            "heap" => return self.heap(text(arguments, "heapcmd")),
            "injectfull" => self.inject_full(arguments)?,
            "cluster_log" => {
                let message = words(arguments.get("message")).join(" ");
                self.log_to_cluster(text(arguments, "level"), message)?;
            }
            // Each scrub of a group compares its clones with the removed snapshots.
            "scrub_purged_snaps" => {}
            "debug kick_recovery_wq" => {
                let delay = integer(arguments, "delay")?.unwrap_or(0);
                self.kick_recovery(self.env.now);
                let said =
                    format!("kicking recovery queue. set osd_recovery_delay_start to {delay}");
                return Ok(Told::Said(said));
            }
            other => {
                let text = format!(
                    "osd.{} has no command {other:?}; see `ceph tell osd.{} help`",
                    self.id(),
                    self.id()
                );
                return Err(Sentence::new(Errno::INVAL, text));
            }
        }
        Ok(match prefix {
            "perf reset" => {
                json!({ "success": format!("perf reset {}", text(arguments, "var")) }).into()
            }
            _ => Told::nothing(),
        })
    }

    fn heap(&self, command: &str) -> Result<Told, Sentence> {
        if command != "stats" {
            let text = format!(
                "heap {command}: the allocator has no profiler; only 'heap stats' is there"
            );
            return Err(Sentence::new(Errno::NOTSUPP, text));
        }
        let (requests, bytes) = self.clients.in_flight();
        Ok(Told::Plain(format!(
            "osd.{} has no heap of its own: it shares that of its process. \
             Requests in flight: {requests}, of {bytes} bytes.\n",
            self.id()
        )))
    }

    /// Makes the disk appear fuller than it is.
    fn inject_full(&mut self, arguments: &Arguments) -> Result<(), Sentence> {
        let (kind, count) = (text(arguments, "type"), integer(arguments, "count")?);
        let map = self.maps.map();
        let used = match if kind.is_empty() { "full" } else { kind } {
            "none" => None,
            "nearfull" => Some(f64::from(map.nearfull_ratio)),
            "backfillfull" => Some(f64::from(map.backfillfull_ratio)),
            "full" => Some(f64::from(map.full_ratio)),
            "failsafe" => Some(FAILSAFE_USED),
            other => {
                let text = format!(
                    "unrecognized full type '{other}': \
                     expected none, nearfull, backfillfull, full or failsafe"
                );
                return Err(Sentence::new(Errno::INVAL, text));
            }
        };
        let reports = count.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
        let used = used.map(|used| (used + SLIGHTLY_MORE).min(1.0));
        self.usage.inject(used.map(|used| Injected { used, reports }));
        self.report.request(self.env.now);
        self.check_room(self.env.now);
        Ok(())
    }

    fn log_to_cluster(&mut self, level: &str, message: String) -> Result<(), Sentence> {
        let severity = match level {
            "debug" => 0,
            "info" => 1,
            "warning" => 3,
            "error" => 4,
            _ => return Err(Sentence::new(Errno::INVAL, format!("unknown level '{level}'"))),
        };
        let Some(monitor) = self.monitor.conn() else {
            return Err(Sentence::new(Errno::AGAIN, "no monitor is reached at the moment"));
        };
        let entry = self.cluster_log_entry(self.env.now, severity, message);
        let log = Log { version: 0, fsid: self.env.config.fsid, entries: vec![entry] };
        self.send(monitor, log.encode(SUPPORTED));
        Ok(())
    }
}

/// Above the share at which `osd_failsafe_full_ratio` refuses writes.
const FAILSAFE_USED: f64 = 0.98;
/// So that rounding does not leave a disk just below its ratio.
const SLIGHTLY_MORE: f64 = 0.001;

fn text<'a>(arguments: &'a Arguments, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number; clients also send it as text.
fn integer(arguments: &Arguments, name: &str) -> Result<Option<i64>, Sentence> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
            let refusal = || Sentence::new(Errno::INVAL, format!("{name} is no number: {value}"));
            number.map(Some).ok_or_else(refusal)
        }
    }
}

fn words(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(words)) => {
            words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Operations whose description has one of the words; all if there are none.
fn filtered(mut ops: Vec<Value>, words: &[String]) -> Vec<Value> {
    ops.retain(|op| {
        let description = op["description"].as_str().unwrap_or_default();
        words.is_empty() || words.iter().any(|word| description.contains(word.as_str()))
    });
    ops
}

fn filtered_in(mut dump: Value, name: &str, words: &[String]) -> Value {
    if let Value::Array(ops) = dump[name].take() {
        dump[name] = Value::from(filtered(ops, words));
    }
    dump
}

fn printed(output: &Value) -> Bytes {
    let mut text = serde_json::to_string_pretty(output).expect("values have no odd keys");
    text.push('\n');
    text.into()
}

/// Signature and help of all commands that are not for one group.
fn own_commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().chain(&RUNNING_COMMANDS).copied()
}

/// The words of a signature before its first argument.
pub(crate) fn prefix_of(signature: &str) -> String {
    let words = signature.split(' ').take_while(|word| !word.contains('='));
    words.collect::<Vec<_>>().join(" ")
}

fn help() -> Value {
    let own = own_commands().map(|(signature, help)| (prefix_of(signature), json!(help)));
    let of_groups = group_commands::COMMANDS.iter();
    let of_groups = of_groups.map(|(prefix, _, help)| ((*prefix).to_owned(), json!(help)));
    Value::Object(own.chain(of_groups).collect())
}

/// The command descriptions that `ceph` parses.
fn descriptions() -> Value {
    let mut descriptions = Vec::new();
    for (signature, help) in own_commands() {
        let words = signature.split(' ');
        let words = words.map(|word| if word.contains('=') { argument(word) } else { json!(word) });
        descriptions.push(description(words.collect(), help));
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

/// `name=…,type=…` as an object.
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
        let signatures: Vec<&Value> =
            descriptions.as_object().unwrap().values().map(|command| &command["sig"]).collect();
        assert!(signatures.contains(&&json!(["perf", "schema"])));
        let count = own_commands().count() + 2 * group_commands::COMMANDS.len();
        assert_eq!(signatures.len(), count);
        let choice = json!({ "name": "cmd", "type": "CephChoices", "strings": "query" });
        assert!(signatures.iter().any(|signature| signature[2] == choice));
        let help = help();
        assert_eq!(
            help["config set"],
            "config set <field> <val> [<val> ...]: set a config variable"
        );
    }
}
