//! A rank as administrators are shown it: sessions, requests in progress, inodes, counters.

use super::Rank;
use crate::caps;
use crate::commands::filter::Filter;
use crate::sessions::Counted;
use engine::{Duration, Time};
use namespace::Ino;
use serde_json::{Map, Value, json};
use types::{EntityAddr, Errno};
use wire::MdsCounters;
use wire::tell::Sentence;

/// Sessions of one answer. More must be asked for by a filter.
const SESSIONS_MAX: usize = 10_000;
/// Requests of one answer. All are counted.
const REQUESTS_SHOWN: usize = 1_000;
/// Requests that wait for longer are blocked.
const COMPLAINT_TIME: Duration = Duration::from_secs(30);

/// Sessions that a filter means, as `session ls` shows them.
///
/// # Errors
///
/// There are too many for one answer.
pub(crate) fn sessions(rank: &Rank, now: Time, filter: &Filter) -> Result<Vec<Value>, Sentence> {
    let all = rank.sessions.iter().map(|(client, _)| session(rank, now, client));
    let found: Vec<Value> =
        all.filter(|session| filter.fits(session)).take(SESSIONS_MAX + 1).collect();
    if found.len() > SESSIONS_MAX {
        let text = format!("more than {SESSIONS_MAX} sessions: ask for fewer by a filter");
        return Err(Sentence::new(Errno::RANGE, text));
    }
    Ok(found)
}

fn session(rank: &Rank, now: Time, client: u64) -> Value {
    let session = rank.sessions.get(client).expect("it was listed");
    let image = session.image();
    let addr = image.addrs.legacy();
    let state = if rank.evicting.contains(&client) { "killing" } else { "open" };
    let is_absent = rank.awaited.as_ref().is_some_and(|awaited| awaited.has(client));
    let mut facts = Map::new();
    let features = json!({ "feature_bits": format!("{:#018x}", image.features) });
    facts.insert("client_features".to_owned(), features);
    facts.extend(image.metadata.iter().map(|(name, fact)| (name.clone(), json!(fact))));
    if !facts.contains_key("entity_id") {
        facts.insert("entity_id".to_owned(), json!(image.name.id));
    }
    json!({
        "id": client,
        "entity": { "name": { "type": "client", "num": client }, "addr": address(&addr) },
        "state": state,
        "num_caps": rank.caps.caps_of(client),
        "num_leases": rank.caps.leases_of(client),
        "request_load_avg": 0,
        "uptime": seconds(now.since(session.began())),
        "requests_in_flight": rank.waiting.of(client).count(),
        "num_completed_requests": image.completed.len(),
        "num_completed_flushes": 0,
        "reconnecting": is_absent,
        "inst": format!("client.{client} {addr}"),
        "completed_requests": [],
        "prealloc_inos": image.delegated.ranges()
            .map(|(start, length)| json!({ "start": start, "length": length }))
            .collect::<Vec<_>>(),
        "client_metadata": facts,
    })
}

fn address(addr: &EntityAddr) -> Value {
    let text = addr.to_string();
    let (kind, rest) = text.split_once(':').unwrap_or(("any", &text));
    let socket = rest.rsplit_once('/').map_or(rest, |(socket, _)| socket);
    json!({ "type": kind, "addr": socket, "nonce": addr.nonce })
}

fn seconds(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1000.0
}

/// Requests that wait for other clients: all, or those that have waited for too long.
pub(crate) fn operations(rank: &Rank, now: Time, blocked_only: bool) -> Value {
    let least = if blocked_only { COMPLAINT_TIME } else { Duration::ZERO };
    let waiting = rank.waiting.iter().filter(|(_, waiting)| now.since(waiting.since) >= least);
    let shown = waiting.clone().take(REQUESTS_SHOWN).map(|(id, waiting)| {
        let request = &waiting.request;
        let (ino, path) = (request.path.ino, String::from_utf8_lossy(&request.path.path));
        let op = request.op.name().unwrap_or("unknown");
        json!({
            "description": format!("client_request(client.{}:{} {op} #{ino:#x}/{path})", id.client, id.tid),
            "initiated_at": waiting.since.wall().to_iso(),
            "age": seconds(now.since(waiting.since)),
            "duration": seconds(now.since(waiting.since)),
            "type_data": {
                "flag_point": "waiting for capabilities of other clients",
                "reqid": format!("client.{}:{}", id.client, id.tid),
                "op_type": "client_request",
                "client_info": { "client": format!("client.{}", id.client), "tid": id.tid },
            },
        })
    });
    let (ops, count) = (shown.collect::<Vec<_>>(), waiting.count());
    match blocked_only {
        true => json!({
            "complaint_time": COMPLAINT_TIME.as_secs(), "num_blocked_ops": count, "ops": ops,
        }),
        false => json!({ "ops": ops, "num_ops": count }),
    }
}

/// The answer to `cache status`: all inodes are in memory.
pub(crate) fn cache(rank: &Rank) -> Value {
    json!({ "pool": { "items": rank.tree.inodes() } })
}

/// An inode with the capabilities that clients have on it.
///
/// # Errors
///
/// It does not exist.
pub(crate) fn inode(rank: &Rank, number: u64) -> Result<Value, Sentence> {
    let ino = Ino(number);
    let missing =
        || Sentence::new(Errno::NOENT, format!("there is no inode {number} ({number:#x})"));
    let inode = rank.tree.get(ino).ok_or_else(missing)?;
    let id = caps::inode_id(ino);
    let holders = rank.sessions.iter().filter_map(|(client, _)| {
        let cap_id = rank.caps.cap_id(id, client)?;
        let issued = rank.caps.issued(id, client).to_string();
        Some(json!({ "client_id": client, "cap_id": cap_id, "issued": issued }))
    });
    let path = rank.tree.path(ino);
    let [ctime, mtime, atime, btime] =
        [inode.ctime, inode.mtime, inode.atime, inode.btime].map(|time| time.to_iso());
    let layout = inode.layout.as_ref().map(|layout| {
        json!({
            "stripe_unit": layout.stripe_unit,
            "stripe_count": layout.stripe_count,
            "object_size": layout.object_size,
            "pool_id": layout.pool.0,
        })
    });
    Ok(json!({
        "path": if path.is_empty() && ino == Ino::ROOT { "/".to_owned() } else { path },
        "ino": number,
        "version": inode.version,
        "mode": inode.mode,
        "uid": inode.owner.uid,
        "gid": inode.owner.gid,
        "nlink": inode.nlink,
        "rdev": inode.rdev,
        "size": inode.size,
        "truncate_seq": inode.truncation.seq,
        "truncate_size": inode.truncation.size,
        "time_warp_seq": inode.time_warp_seq,
        "change_attr": inode.change_attr,
        "ctime": ctime, "mtime": mtime, "atime": atime, "btime": btime,
        "layout": layout,
        "xattrs": inode.xattrs.values.len(),
        "client_ranges": inode.write_ranges.iter().map(|(client, range)| {
            json!({ "client": client, "byte range": { "first": 0, "last": range.end } })
        }).collect::<Vec<_>>(),
        "client_caps": holders.collect::<Vec<_>>(),
    }))
}

/// Counters by part, under Ceph's names where it has them.
pub(crate) fn counters(rank: &Rank) -> Value {
    let counters = measured(rank);
    let clients = || rank.sessions.iter().map(|(client, _)| client);
    let leases: usize = clients().map(|client| rank.caps.leases_of(client)).sum();
    let (inodes, held, open) = (counters.inodes, counters.caps, counters.sessions);
    let latency =
        json!({ "avgcount": counters.replies_timed, "sum": counters.reply_ns as f64 / 1e9 });
    let mut shown = json!({
        "mds": {
            "request": counters.requests,
            "reply": counters.replies,
            "reply_latency": latency,
            "reply_early": counters.early_replies,
            "request_async": counters.asynchronous,
            "inodes": inodes,
            "caps": held,
            "leases": leases,
            "requests_waiting": rank.waiting.len(),
        },
        "mds_mem": { "ino": inodes, "dir": counters.directories, "cap": held },
        "mds_server": { "handle_client_request": counters.requests },
        "mds_sessions": {
            "session_count": open,
            "session_add": rank.sessions.counted.sessions,
            "sessions_open": open,
            "sessions_evicted": counters.evictions,
        },
        "purge_queue": { "pq_item_in_journal": counters.purges },
    });
    if let Some(log) = rank.log.measured() {
        shown["mds_log"] = log;
    }
    shown
}

/// The counters that the monitor is told.
pub(crate) fn measured(rank: &Rank) -> MdsCounters {
    let count = |number: usize| number as u64;
    let Counted { requests, replies, early_replies, asynchronous, evictions, .. } =
        rank.sessions.counted;
    let clients = || rank.sessions.iter().map(|(client, _)| client);
    let (log, latencies) = (&rank.log, &rank.sessions.latencies);
    MdsCounters {
        requests,
        replies,
        early_replies,
        asynchronous,
        reply_ns: u64::try_from(latencies.total.as_nanos()).unwrap_or(u64::MAX),
        replies_timed: latencies.replies,
        in_flight: count(latencies.in_flight()),
        sessions: count(clients().count()),
        inodes: count(rank.tree.inodes()),
        directories: rank.tree.statistics(Ino::ROOT).directories,
        caps: count(clients().map(|client| rank.caps.caps_of(client)).sum()),
        records: log.records(),
        segments: count(log.segments()),
        records_kept: log.records().saturating_sub(log.checkpoint().unwrap_or_default()),
        purges: count(rank.purges.len()),
        evictions,
        cpu_ns: 0,
    }
}

/// The OSD map that clients must have before they use what an evicted one had.
pub(crate) fn barrier(rank: &Rank) -> u32 {
    rank.barrier.0
}
