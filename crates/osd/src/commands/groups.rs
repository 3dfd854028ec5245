//! Commands to one placement group (`ceph pg <pgid> …`, `ceph tell <pgid> …`).
//!
//! They are sent to the primary of the group. The names and shapes of statistics are Ceph's,
//! because scripts parse them; those that are not kept are missing.

use crate::commands::answer::{Arguments, Sentence, text};
use crate::groups::states::state_name;
use crate::groups::{Group, Groups};
use crate::report::group_state::{shortage, state_bits};
use pg::{EntryKind, LogDup, LogEntry, Member, PgInfo, Probe};
use serde_json::{Map, Value, json};
use types::{Epoch, Errno, HObject, OsdId, PgId, PgShard, SnapId, Uuid};
use wire::internal::{ScrubOrder, pg_state};

/// Prefix, arguments after the group's id, and help.
pub(crate) const COMMANDS: [(&str, &[&str], &str); 7] = [
    ("query", &[], "show details of a specific pg"),
    ("scrub", &[], "start scrub on a specific pg"),
    ("deep-scrub", &[], "start deep-scrub on a specific pg"),
    ("repair", &[], "start repair on a specific pg"),
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

/// A command to a group.
#[derive(Debug)]
pub(crate) enum GroupCommand {
    Scrub(ScrubOrder, String),
    /// `mark_unfound_lost`, with its mode.
    GiveUp(String),
    /// All others, by their name.
    Show(String),
}

/// Whether the prefix is that of a group's command. The older form `pg <pgid> <command>` has the
/// command in an argument.
pub(crate) fn is_group_command(prefix: &str) -> bool {
    prefix == "pg" || COMMANDS.iter().any(|(known, ..)| *known == prefix)
}

/// The group that a command is for, and the command.
pub(crate) fn parse(
    prefix: &str,
    arguments: &Arguments,
    fsid: Uuid,
) -> Result<(PgId, GroupCommand), Sentence> {
    let prefix = if prefix == "pg" { text(arguments, "cmd") } else { prefix };
    let pgid = text(arguments, "pgid");
    let pg: PgId = pgid
        .parse()
        .map_err(|()| Sentence::new(Errno::INVAL, format!("{pgid:?} is not a placement group")))?;
    let scrub = |deep, repair| {
        let order = ScrubOrder { fsid, pgs: vec![pg], deep, repair };
        GroupCommand::Scrub(order, format!("told pg {pg} to {prefix}"))
    };
    let command = match prefix {
        "scrub" => scrub(false, false),
        "deep-scrub" => scrub(true, false),
        "repair" => scrub(true, true),
        "mark_unfound_lost" => GroupCommand::GiveUp(text(arguments, "mulcmd").to_owned()),
        _ => GroupCommand::Show(prefix.to_owned()),
    };
    Ok((pg, command))
}

/// The group, if this OSD is its primary.
pub(crate) fn primary(groups: &Groups, pg: PgId) -> Result<&Group, Sentence> {
    let copies = || groups.shards_of(pg).filter_map(|id| groups.get(id));
    match copies().find(|group| group.pg.is_primary()) {
        Some(group) => Ok(group),
        None if copies().next().is_some() => {
            Err(Sentence::new(Errno::AGAIN, format!("not primary for pgid {pg}")))
        }
        None => Err(Sentence::new(Errno::NOENT, format!("i don't have pgid {pg}"))),
    }
}

/// The answer to a command that only shows the state of a group. `epoch` is that of the map.
pub(crate) fn show(name: &str, group: &Group, epoch: Epoch) -> Result<Value, Sentence> {
    match name {
        "query" => Ok(query(group, epoch)),
        "log" => Ok(log(group)),
        "list_unfound" => Ok(unfound(group)),
        other => Err(Sentence::new(Errno::INVAL, format!("no command {other:?} for a pg"))),
    }
}

fn query(group: &Group, epoch: Epoch) -> Value {
    let (pg, members) = (&group.pg, group.pg.members());
    let state = pg_state::to_text(state_bits(pg));
    let peers = pg.peers().filter_map(|(member, info)| Some((member, info?)));
    let peer = |(member, known): (Member, &PgInfo)| {
        let mut peer = info(PgShard { pg: pg.id(), shard: member.shard }, known);
        peer.insert("peer".to_owned(), json!(member.to_string()));
        Value::Object(peer)
    };
    let mut own = info(PgShard { pg: pg.id(), shard: pg.whoami().shard }, pg.info());
    own.insert("stats".to_owned(), stats_of(group, epoch, &state));
    json!({
        "snap_trimq": "[]",
        "snap_trimq_len": 0,
        "state": state,
        "epoch": epoch.0,
        "up": ids(&members.up),
        "acting": ids(&members.acting),
        "backfill_targets": pg.backfill_targets().map(|(member, _)| member.to_string()).collect::<Vec<_>>(),
        "acting_recovery_backfill": members.all().map(|osd| osd.to_string()).collect::<Vec<_>>(),
        "info": own,
        "peer_info": peers.map(peer).collect::<Vec<_>>(),
        "recovery_state": recovery_state(group),
        "agent_state": {},
    })
}

fn stats_of(group: &Group, epoch: Epoch, state: &str) -> Value {
    let (pg, info, members) = (&group.pg, group.pg.info(), group.pg.members());
    let shortage = shortage(pg);
    let primary = pg.members().primary.map_or(-1, |osd| osd.0);
    json!({
        "version": info.last_update.to_string(),
        "reported_epoch": epoch.0,
        "state": state,
        "last_change": group.report.since().to_iso(),
        "log_start": info.log_tail.to_string(),
        "ondisk_log_start": info.log_tail.to_string(),
        "log_size": pg.log().len(),
        "ondisk_log_size": pg.log().len(),
        "stat_sum": {
            "num_bytes": info.bytes,
            "num_objects": info.objects,
            "num_object_copies": info.objects * members.size as u64,
            "num_objects_missing_on_primary": pg.missing().len(),
            "num_objects_missing": pg.objects_missing(),
            "num_objects_degraded": shortage.degraded,
            "num_objects_misplaced": shortage.misplaced,
            "num_objects_unfound": pg.unfound().count(),
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

fn recovery_state(group: &Group) -> Value {
    let pg = &group.pg;
    let waiting: Vec<String> = pg.waiting_for().map(|osd| osd.to_string()).collect();
    let mut state = json!({
        "name": state_name(pg.state()),
        "enter_time": group.report.since().to_iso(),
        "interval": pg.interval().0,
    });
    if !waiting.is_empty() {
        state["waiting_for"] = json!(waiting);
    }
    let blocked: Vec<String> = pg.blocked_by().map(|osd| osd.to_string()).collect();
    if !blocked.is_empty() {
        state["blocked"] = json!("peering is blocked due to down osds");
        state["down_osds_we_would_probe"] = json!(blocked);
    }
    if pg.objects_missing() > 0 {
        state["objects_missing"] = json!(pg.objects_missing());
    }
    json!([state])
}

fn ids(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

/// `pg_info_t`. Of a shard, its position is part of the id.
fn info(pg: PgShard, info: &PgInfo) -> Map<String, Value> {
    let history = &info.history;
    let last_backfill = match info.last_backfill.max {
        true => "MAX".to_owned(),
        false if info.last_backfill == HObject::default() => "MIN".to_owned(),
        false => info.last_backfill.to_string(),
    };
    let value = json!({
        "pgid": pg.to_string(),
        "last_update": info.last_update.to_string(),
        "last_complete": info.last_complete.to_string(),
        "log_tail": info.log_tail.to_string(),
        "last_user_version": info.last_user_version,
        "last_backfill": last_backfill,
        "purged_snaps": [],
        "history": {
            "epoch_created": history.epoch_created.0,
            "last_epoch_started": history.last_epoch_started.0,
            "last_interval_started": history.last_epoch_started.0,
            "last_epoch_clean": history.last_epoch_clean.0,
            "last_interval_clean": history.last_epoch_clean.0,
            "same_interval_since": history.same_interval_since.0,
        },
        "empty": i32::from(info.is_empty()),
        "dne": 0,
        "incomplete": i32::from(!info.is_complete()),
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
        "dups": log.dups().iter().map(dup).collect::<Vec<_>>(),
    })
}

fn dup(dup: LogDup) -> Value {
    json!({
        "reqid": dup.request.to_string(),
        "version": dup.version.to_string(),
        "user_version": dup.user_version,
        "return_code": dup.result,
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

fn unfound(group: &Group) -> Value {
    let pg = &group.pg;
    let object = |object: &HObject| {
        let item = pg.unfound_item(object);
        let snap = if object.snap == SnapId::HEAD { -2 } else { object.snap.0 as i64 };
        json!({
            "oid": {
                "oid": String::from_utf8_lossy(&object.name),
                "key": String::from_utf8_lossy(&object.key),
                "snapid": snap,
                "hash": object.hash,
                "max": 0,
                "pool": object.pool.0,
                "namespace": String::from_utf8_lossy(&object.namespace),
            },
            "need": item.need.to_string(),
            "have": item.have.to_string(),
            "flags": "none",
            "locations": [],
        })
    };
    let objects: Vec<Value> = pg.unfound().map(object).collect();
    let holders = match objects.is_empty() {
        true => Default::default(),
        false => pg.may_have_unfound(),
    };
    let holder =
        |(osd, probe): (OsdId, Probe)| json!({ "osd": osd.to_string(), "status": probe.name() });
    let may_have: Vec<Value> = holders.into_iter().map(holder).collect();
    json!({
        "num_missing": pg.missing().len(),
        "num_unfound": objects.len(),
        "objects": objects,
        "state": "Active",
        "available_might_have_unfound": true,
        "might_have_unfound": may_have,
        "more": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PoolId, ShardId};

    #[test]
    fn the_id_of_a_shards_info_has_its_position() {
        let pg = PgId { pool: PoolId(1), seed: 10 };
        for (shard, id) in [(ShardId::NONE, "1.a"), (ShardId::at(2).unwrap(), "1.as2")] {
            assert_eq!(info(PgShard { pg, shard }, &PgInfo::default())["pgid"], id);
        }
    }
}
