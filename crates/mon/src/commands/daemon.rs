//! Commands to one running monitor (`ceph tell mon.a …`). They concern only this monitor: no other monitor is
//! involved, and their changes are not stored.

use super::report::mon_status;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::addrs;
use crate::live::{OPERATIONS_KEPT as HISTORY_SIZE, Operation, PeerSummary};
use engine::Time;
use serde_json::{Map, Value, json};
use std::time::Duration;
use types::Errno;
use wire::internal::pg_state;
use wire::options::RUNNING_COMMANDS;

/// Ceph's defaults for monitors.
const HISTORY_DURATION: Duration = Duration::from_secs(600);
const SLOW_THRESHOLD: Duration = Duration::from_secs(10);

/// Commands that show or set data of the monitor need a session with the monitor. The others are of the
/// manager, too, which is part of a monitor (`ceph tell mgr.x …`).
const OWN: &[Command] = &[
    daemon("version", "get ceph version", version).of_manager(),
    daemon(
        "git_version",
        "get git sha1",
        |context| Ok(context.json(&json!({ "git_version": "" }))),
    )
    .of_manager(),
    daemon("mon_status", "report status of monitors", |context| {
        Ok(context.json(&mon_status(&context.view())))
    }),
    daemon("sessions", "list existing sessions", sessions),
    daemon("ops", "show the ops currently in flight", |context| {
        let ops = context.live.operations.in_flight();
        let ops: Vec<Value> = ops.map(|op| operation(op, context.now)).collect();
        Ok(context.json(&json!({ "ops": ops, "num_ops": ops.len() })))
    }),
    daemon("dump_historic_ops", "show recent ops", |context| history(context, false)),
    daemon("dump_historic_ops_by_duration", "show recent ops, sorted by duration", |context| {
        history(context, true)
    }),
    daemon("dump_historic_slow_ops", "show recent slow ops", slow),
    daemon(
        "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump non-labeled counters and their values",
        |context| {
            let counters = chosen(context, perf(context));
            Ok(context.json(&Value::Object(counters)))
        },
    )
    .of_manager(),
    daemon(
        "perf schema name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump non-labeled counters schemas",
        perf_schema,
    )
    .of_manager(),
    daemon(
        "perf histogram dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump perf histogram values",
        nothing,
    )
    .of_manager(),
    daemon("perf histogram schema", "dump perf histogram schema", nothing).of_manager(),
    daemon(
        "perf reset name=var,type=CephString",
        "perf reset <name>: perf reset all or one perfcounter name",
        |context| {
            // All counters are gauges, so there is nothing to reset.
            let success = format!("perf reset {}", context.arguments.text("var"));
            Ok(context.json(&json!({ "success": success })))
        },
    ),
    daemon("dump_mempools", "get mempool stats", mempools),
    daemon("log flush", "flush log entries to log file", nothing).of_manager(),
    daemon("log dump", "dump recent log entries to log file", nothing),
    daemon("log reopen", "reopen log file", nothing).of_manager(),
    daemon(
        "heap name=heapcmd,type=CephChoices,strings=dump|start_profiler|stop_profiler|release|\
         get_release_rate|set_release_rate|stats name=value,type=CephString,req=false",
        "show heap usage info",
        heap,
    ),
    daemon("compact", "cause compaction of monitor's storage", |_| {
        Ok(Answer::output("the control store needs no compaction\n"))
    }),
    daemon(
        "connection scores dump",
        "show the scores used in connectivity-based elections",
        |context| {
            // Monitors do not vote, so they keep no connection scores of each other.
            let rank = context.state.monmap.rank(&context.live.identity.mon_name);
            let epoch = context.state.election_epoch();
            Ok(context.json(&json!({
            "rank": rank, "epoch": epoch, "version": 0, "half_life": 0, "persist_interval": 0, "reports": [],
        })))
        },
    ),
    daemon("help", "list available commands", |context| {
        let help = context.commands.iter();
        let help = help.map(|(signature, command)| (signature.prefix.clone(), json!(command.help)));
        Ok(context.json(&Value::Object(help.collect())))
    })
    .of_manager(),
];

/// As in Ceph, such a command needs all permissions of the monitor.
const fn daemon(
    signature: &'static str,
    help: &'static str,
    handler: fn(&mut Context<'_>) -> Result<Answer, Refusal>,
) -> Command {
    command(signature, help, "mon", "rwx", handler)
}

/// The commands of this file and those for the options of a running daemon.
pub(crate) fn commands() -> Vec<Command> {
    let options = RUNNING_COMMANDS.iter();
    let options = options.map(|(signature, help)| daemon(signature, help, running));
    OWN.iter().copied().chain(options).collect()
}

fn version(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let value = json!({ "version": crate::VERSION, "release": "reef", "release_type": "stable" });
    Ok(context.json(&value))
}

fn nothing(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&json!({})))
}

/// Shows or sets options of this monitor only.
fn running(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let mut given = Map::new();
    for name in ["var", "val", "injected_args"] {
        let values = context.arguments.list(name);
        if name == "var" && !values.is_empty() {
            given.insert(name.to_owned(), json!(values[0]));
        } else if !values.is_empty() {
            given.insert(name.to_owned(), json!(values));
        }
    }
    let answer = context.running.command(&context.prefix, &given);
    let answer = answer.ok_or_else(|| Refusal::invalid("there is no such command of options"))?;
    let (value, said) = answer.map_err(|(errno, text)| Refusal::new(errno, text))?;
    Ok(context.json(&value).saying(said))
}

fn sessions(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let sessions = context.live.peers.values().map(|peer| session(context, peer));
    Ok(context.json(&sessions.collect()))
}

fn session(context: &Context<'_>, peer: &PeerSummary) -> Value {
    let release = crate::dump::peers::release_of(peer.features);
    json!({
        "name": format!("{}.{}", peer.kind, peer.global_id),
        "entity_name": peer.name.to_string(),
        "addrs": addrs::vector(&peer.addrs),
        "socket_addr": addrs::one(&peer.seen_addr),
        "con_type": peer.kind.name(),
        "con_features": peer.features,
        "con_features_hex": format!("{:x}", peer.features),
        "con_features_release": release,
        "open": true,
        "caps": { "text": peer.caps },
        "authenticated": true,
        "global_id": peer.global_id,
        "global_id_status": "new_ok",
        "osd_epoch": context.state.osdmap.epoch.0,
        "remote_host": "",
    })
}

fn operation(op: &Operation, now: Time) -> Value {
    let end = op.done.unwrap_or(now);
    let duration = end.since(op.asked).as_secs_f64();
    let event = |name: &str, at: Time, duration: f64| json!({ "event": name, "time": at.wall().to_iso(), "duration": duration });
    let mut events = vec![event("initiated", op.asked, 0.0)];
    events.extend(op.done.map(|done| event("done", done, duration)));
    json!({
        "description": op.description,
        "initiated_at": op.asked.wall().to_iso(),
        "age": now.since(op.asked).as_secs_f64(),
        "duration": duration,
        "type_data": {
            "events": events,
            "info": {
                "seq": op.sequence,
                "src_is_mon": false,
                "source": op.source,
                "forwarded_to_leader": false,
            },
        },
    })
}

fn history(context: &mut Context<'_>, by_duration: bool) -> Result<Answer, Refusal> {
    let recent = |op: &&Operation| context.now.since(op.asked) <= HISTORY_DURATION;
    let mut ops: Vec<_> = context.live.operations.done().filter(recent).collect();
    if by_duration {
        ops.sort_by_key(|op| std::cmp::Reverse(op.duration()));
    }
    let ops = ops.into_iter().map(|op| operation(op, context.now));
    Ok(context.json(&json!({
        "size": HISTORY_SIZE,
        "duration": HISTORY_DURATION.as_secs(),
        "ops": ops.collect::<Vec<_>>(),
    })))
}

fn slow(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let is_slow = |op: &&Operation| op.duration() >= SLOW_THRESHOLD;
    let ops = context.live.operations.done().filter(is_slow);
    let ops = ops.map(|op| operation(op, context.now));
    Ok(context.json(&json!({
        "num to keep": HISTORY_SIZE,
        "threshold to keep": SLOW_THRESHOLD.as_secs(),
        "Ops": ops.collect::<Vec<_>>(),
    })))
}

/// Counters of the monitor as (group, name, value), under the names of Ceph's monitor.
fn perf(context: &Context<'_>) -> Vec<(&'static str, &'static str, u64)> {
    let (state, stats) = (context.state, context.live.stats);
    let (map, usage, totals) = (&state.osdmap, stats.usage(&state.osdmap), stats.totals());
    let states = stats.pgs_by_state(map);
    let with = |bits: u64| {
        let counts = states.iter().filter(|(state, _)| *state & bits == bits);
        counts.map(|(_, count)| *count).sum::<u64>()
    };
    let groups = states.iter().map(|(_, count)| *count).sum();
    vec![
        ("cluster", "num_mon", state.monmap.ranks.len() as u64),
        ("cluster", "num_mon_quorum", state.quorum().len() as u64),
        ("cluster", "num_osd", map.osd_count() as u64),
        ("cluster", "num_osd_up", map.up_count() as u64),
        ("cluster", "num_osd_in", map.in_count() as u64),
        ("cluster", "osd_epoch", map.epoch.0.into()),
        ("cluster", "osd_bytes", usage.bytes_total),
        ("cluster", "osd_bytes_used", usage.bytes_used),
        ("cluster", "osd_bytes_avail", usage.bytes_available),
        ("cluster", "num_pool", map.pools.len() as u64),
        ("cluster", "num_pg", groups),
        ("cluster", "num_pg_active_clean", with(pg_state::ACTIVE | pg_state::CLEAN)),
        ("cluster", "num_pg_active", with(pg_state::ACTIVE)),
        ("cluster", "num_pg_peering", with(pg_state::PEERING)),
        ("cluster", "num_object", totals.objects),
        ("cluster", "num_object_degraded", totals.degraded),
        ("cluster", "num_object_misplaced", totals.misplaced),
        ("cluster", "num_object_unfound", totals.unfound),
        ("cluster", "num_bytes", totals.bytes),
        ("mon", "num_sessions", context.live.peers.len() as u64),
    ]
}

fn chosen(
    context: &Context<'_>,
    counters: impl IntoIterator<Item = (&'static str, &'static str, impl Into<Value>)>,
) -> Map<String, Value> {
    let (logger, counter) =
        (context.arguments.optional("logger"), context.arguments.optional("counter"));
    let mut chosen = Map::new();
    for (group, name, value) in counters {
        let is_wanted = |wanted: Option<&str>, it: &str| wanted.is_none_or(|wanted| wanted == it);
        if is_wanted(logger, group) && is_wanted(counter, name) {
            let group = chosen.entry(group).or_insert_with(|| json!({}));
            group[name] = value.into();
        }
    }
    chosen
}

fn perf_schema(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let described = perf(context).into_iter().map(|(group, name, _)| {
        let units = if name.contains("bytes") { "bytes" } else { "none" };
        let value = json!({
            "type": 2,
            "metric_type": "gauge",
            "value_type": "integer",
            "description": name.replace('_', " "),
            "nick": "",
            "priority": 5,
            "units": units,
        });
        (group, name, value)
    });
    let schema = chosen(context, described);
    Ok(context.json(&Value::Object(schema)))
}

/// The memory that is accounted for: waiting operations and past maps.
fn mempools(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let state = context.state;
    let maps = state.history.full.values().chain(state.history.incrementals.values());
    let (maps, map_bytes) = maps.fold((0, 0), |(count, sum), map| (count + 1, sum + map.len()));
    let ops = context.live.operations.in_flight().map(|op| op.description.len());
    let (ops, op_bytes) = ops.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
    Ok(context.json(&json!({
        "mempool": {
            "by_pool": {
                "buffer_anon": { "items": ops, "bytes": op_bytes },
                "osd_mapbl": { "items": maps, "bytes": map_bytes },
            },
            "total": { "items": ops + maps, "bytes": op_bytes + map_bytes },
        },
    })))
}

fn heap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = &context.live.identity.mon_name;
    let wanted = context.arguments.text("heapcmd");
    if wanted != "stats" {
        let text =
            format!("heap {wanted}: the allocator has no profiler; only 'heap stats' is there");
        return Err(Refusal::new(Errno::NOTSUPP, text));
    }
    let sessions = context.live.peers.len();
    Ok(Answer::output(format!(
        "mon.{name} has no heap of its own: it shares that of its process. Sessions: {sessions}.\n"
    )))
}
