//! Commands to one OSD (`ceph tell osd.N …`): their answers. Those that change state are performed by the
//! OSD itself.

pub(crate) mod answer;
pub(crate) mod bench;
pub(crate) mod cluster_log;
pub(crate) mod dumps;
pub(crate) mod fullness;
pub(crate) mod groups;
pub(crate) mod lost;
pub(crate) mod table;

use self::answer::{Arguments, CommandOutput, Sentence, words};
use self::dumps::View;
use self::table::{descriptions, help};
use crate::VERSION;
use crate::report::op_history::in_flight;
use crate::scrub::schedule;
use engine::Duration;
use serde_json::{Value, json};
use types::Errno;

impl View<'_> {
    /// Commands that only show state.
    pub fn show(&mut self, prefix: &str, arguments: &Arguments) -> Option<Value> {
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
            "perf histogram dump" | "perf histogram schema" => {
                let name = |name: &str| arguments.get(name).and_then(Value::as_str);
                match name("logger") {
                    None | Some("osd") => {
                        self.report.histograms(prefix.ends_with("dump"), name("counter"))
                    }
                    Some(_) => json!({}),
                }
            }
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
            "dump_pg_recovery_stats" => self.groups.state_times().json(),
            "dump_recovery_reservations" => self.recovery.reservations.dump(options.max_backfills),
            "dump_scrub_reservations" => self.dump_scrub_reservations(),
            "dump_scrubs" => schedule::dump(self.env, self.maps.map(), self.groups.scrubs()),
            "dump_osd_network" => self.dump_network(arguments.get("value").and_then(Value::as_i64)),
            "dump_mempools" => self.dump_mempools(),
            "dump_pgstate_history" => {
                let states = self.groups.iter().map(|(pg, group)| group.states.json(pg.pg));
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

    /// The answer to `heap`.
    pub fn heap(&self, command: &str) -> Result<CommandOutput, Sentence> {
        if command != "stats" {
            let text = format!(
                "heap {command}: the allocator has no profiler; only 'heap stats' is there"
            );
            return Err(Sentence::new(Errno::NOTSUPP, text));
        }
        let (requests, bytes) = self.clients.in_flight();
        Ok(CommandOutput::Plain(format!(
            "osd.{} has no heap of its own: it shares that of its process. \
             Requests in flight: {requests}, of {bytes} bytes.\n",
            self.id()
        )))
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
