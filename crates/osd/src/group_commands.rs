//! Commands to one placement group (`ceph pg <pgid> …`, `ceph tell <pgid> …`).
//!
//! They go to the OSD that is the group's primary. Statistics are told as far as they are kept; the
//! names and shapes are those of Ceph, because scripts pick from them.

use crate::Osd;
use crate::commands::{Arguments, Sentence};
use crate::groups::Group;
use crate::report::state_bits;
use pg::{EntryKind, LogEntry, PgInfo, State};
use serde_json::{Map, Value, json};
use types::{Errno, OsdId, PgId};
use wire::internal::pg_state;

/// Prefix, arguments after the group's name, and help.
pub(crate) const COMMANDS: [(&str, &[&str], &str); 4] = [
    ("query", &[], "show details of a specific pg"),
    ("log", &[], "dump pg_log of a specific pg"),
    (
        "list_unfound",
        &["name=offset,type=CephString,req=false"],
        "list unfound objects on this pg, perhaps starting at an offset given in JSON",
    ),
    (
        "mark_unfound_lost",
        &["name=mulcmd,type=CephChoices,strings=revert|delete"],
        "mark all unfound objects in this pg as lost, either removing or reverting to a prior \
         version if one is available",
    ),
];

impl Osd {
    /// The older form `pg <pgid> <command>` names the command in an argument.
    pub(crate) fn is_group_command(prefix: &str) -> bool {
        prefix == "pg" || COMMANDS.iter().any(|(known, ..)| *known == prefix)
    }

    pub(crate) fn run_group_command(
        &self,
        prefix: &str,
        arguments: &Arguments,
    ) -> Result<Value, Sentence> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let prefix = if prefix == "pg" { text("cmd") } else { prefix };
        let pg: PgId = text("pgid").parse().map_err(|()| {
            Sentence::new(Errno::INVAL, format!("{:?} is not a placement group", text("pgid")))
        })?;
        let Some(group) = self.groups.get(&pg) else {
            return Err(Sentence::new(Errno::NOENT, format!("i don't have pgid {pg}")));
        };
        if !group.pg.is_primary() {
            return Err(Sentence::new(Errno::AGAIN, format!("not primary for pgid {pg}")));
        }
        match prefix {
            "query" => Ok(self.query(group)),
            "log" => Ok(log(group)),
            "list_unfound" => Ok(unfound()),
            // An object that cannot be found keeps its group incomplete: none is ever given up.
            "mark_unfound_lost" => Err(Sentence::new(Errno(0), "pg has no unfound objects")),
            other => Err(Sentence::new(Errno::INVAL, format!("no command {other:?} for a pg"))),
        }
    }

    fn query(&self, group: &Group) -> Value {
        let (pg, members) = (&group.pg, group.pg.members());
        let state = pg_state::to_text(state_bits(pg));
        let peers = pg.peers().filter_map(|(osd, info)| Some((osd, info?)));
        let peer = |(osd, known): (OsdId, &PgInfo)| {
            let mut peer = info(pg.id(), known);
            peer.insert("peer".to_owned(), json!(osd.to_string()));
            Value::Object(peer)
        };
        let mut own = info(pg.id(), pg.info());
        own.insert("stats".to_owned(), self.stats_of(group, &state));
        json!({
            "snap_trimq": "[]",
            "snap_trimq_len": 0,
            "state": state,
            "epoch": self.epoch().0,
            "up": ids(&members.up),
            "acting": ids(&members.acting),
            "acting_recovery_backfill": members.acting.iter().map(OsdId::to_string).collect::<Vec<_>>(),
            "info": own,
            "peer_info": peers.map(peer).collect::<Vec<_>>(),
            "recovery_state": self.recovery_state(group),
            "agent_state": {},
        })
    }

    fn stats_of(&self, group: &Group, state: &str) -> Value {
        let (pg, info, members) = (&group.pg, group.pg.info(), group.pg.members());
        let primary = pg.members().primary.map_or(-1, |osd| osd.0);
        json!({
            "version": info.last_update.to_string(),
            "reported_epoch": self.epoch().0,
            "state": state,
            "last_change": group.reported.1.to_iso(),
            "log_start": info.log_tail.to_string(),
            "ondisk_log_start": info.log_tail.to_string(),
            "log_size": pg.log().len(),
            "ondisk_log_size": pg.log().len(),
            "stat_sum": {
                "num_bytes": info.bytes,
                "num_objects": info.objects,
                "num_object_copies": info.objects * members.size as u64,
                "num_objects_missing": pg.objects_missing(),
                "num_objects_unfound": 0,
                "num_read": group.counters.reads,
                "num_read_kb": group.counters.read_bytes >> 10,
                "num_write": group.counters.writes,
                "num_write_kb": group.counters.write_bytes >> 10,
            },
            "up": ids(&members.up),
            "acting": ids(&members.acting),
            "up_primary": members.up.first().map_or(-1, |osd| osd.0),
            "acting_primary": primary,
        })
    }

    fn recovery_state(&self, group: &Group) -> Value {
        let pg = &group.pg;
        let waiting: Vec<String> = pg.waiting_for().map(|osd| osd.to_string()).collect();
        let mut state = json!({
            "name": state_name(pg.state()),
            "enter_time": group.reported.1.to_iso(),
            "interval": pg.interval().0,
        });
        if !waiting.is_empty() {
            state["waiting_for"] = json!(waiting);
        }
        if pg.objects_missing() > 0 {
            state["objects_missing"] = json!(pg.objects_missing());
        }
        json!([state])
    }
}

/// Ceph's name of the state that comes nearest.
fn state_name(state: State) -> &'static str {
    match state {
        State::Loading => "Initial",
        State::Stray => "Started/Stray",
        State::Replica | State::CatchingUp | State::ReplicaActive => "Started/ReplicaActive",
        State::GetInfo => "Started/Primary/Peering/GetInfo",
        State::GetLog => "Started/Primary/Peering/GetLog",
        State::Recovering | State::Equalizing => "Started/Primary/Active/Recovering",
        State::Activating => "Started/Primary/Active/Activating",
        State::Active => "Started/Primary/Active",
        State::Inactive => "Started/Primary/Peering/WaitActingChange",
        State::Incomplete => "Started/Primary/Peering/Incomplete",
        State::Refused | State::Stalled => "Started/Primary/Active/RecoveryToofull",
        State::Failed => "Crashed",
    }
}

fn ids(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

/// `pg_info_t`
fn info(pg: PgId, info: &PgInfo) -> Map<String, Value> {
    let complete = info.is_complete();
    let value = json!({
        "pgid": pg.to_string(),
        "last_update": info.last_update.to_string(),
        "last_complete": if complete { info.last_update } else { info.log_tail }.to_string(),
        "log_tail": info.log_tail.to_string(),
        "last_user_version": info.last_user_version,
        "last_backfill": if complete { "MAX" } else { "MIN" },
        "purged_snaps": [],
        "history": {
            "last_epoch_started": info.last_epoch_started.0,
            "last_epoch_clean": info.last_epoch_started.0,
            "last_interval_started": info.last_epoch_started.0,
        },
        "empty": i32::from(info.is_empty()),
        "dne": 0,
        "incomplete": i32::from(!complete),
        "last_epoch_started": info.last_epoch_started.0,
    });
    match value {
        Value::Object(value) => value,
        _ => unreachable!("it was just made"),
    }
}

fn log(group: &Group) -> Value {
    let log = group.pg.log();
    json!({
        "head": log.head().to_string(),
        "tail": log.tail().to_string(),
        "log": log.entries().map(entry).collect::<Vec<_>>(),
        "dups": [],
    })
}

fn entry(entry: &LogEntry) -> Value {
    let op = match entry.kind {
        EntryKind::Modify => "modify",
        EntryKind::Delete => "delete",
        EntryKind::Unchanged => "error",
    };
    json!({
        "op": op,
        "object": entry.object.to_string(),
        "version": entry.version.to_string(),
        "prior_version": entry.prior_version.to_string(),
        "reqid": entry.request.to_string(),
        "mtime": entry.mtime.to_iso(),
        "return_code": entry.result,
        "user_version": entry.user_version,
    })
}

fn unfound() -> Value {
    json!({
        "num_missing": 0,
        "num_unfound": 0,
        "objects": [],
        "state": "Active",
        "available_might_have_unfound": false,
        "might_have_unfound": [],
        "more": false,
    })
}
