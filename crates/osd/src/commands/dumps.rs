//! Output of commands that show the state of this OSD.

use crate::env::{Env, Stage};
use crate::groups::Groups;
use crate::heartbeats::Heartbeats;
use crate::maps::Maps;
use crate::operations::Operations;
use crate::operations::queues::Counters;
use crate::recovery::Recovery;
use crate::report::Report;
use crate::report::op_history::PerfBase;
use crate::report::usage::DiskUsage;
use crate::scrub::Scrubs;
use crate::sessions::clients::Clients;
use engine::Duration;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use types::OsdId;

/// Round trip in milliseconds below which `dump_osd_network` shows none by default.
const NETWORK_THRESHOLD_MS: i64 = 1000;

/// Names of Ceph's memory pools; only those with an equivalent here have values.
const MEMPOOLS: [&str; 30] = [
    "bloom_filter",
    "bluestore_alloc",
    "bluestore_cache_data",
    "bluestore_cache_onode",
    "bluestore_cache_meta",
    "bluestore_cache_other",
    "bluestore_cache_buffer",
    "bluestore_extent",
    "bluestore_blob",
    "bluestore_shared_blob",
    "bluestore_inline_bl",
    "bluestore_fsck",
    "bluestore_txc",
    "bluestore_writing_deferred",
    "bluestore_writing",
    "bluefs",
    "bluefs_file_reader",
    "bluefs_file_writer",
    "buffer_anon",
    "buffer_meta",
    "osd",
    "osd_mapbl",
    "osd_pglog",
    "osdmap",
    "osdmap_mapping",
    "pgmap",
    "mds_co",
    "unittest_1",
    "unittest_2",
    "ec_extent_cache",
];

/// The components of an OSD, for commands that only show state.
pub(crate) struct View<'a> {
    pub env: &'a Env,
    pub maps: &'a Maps,
    pub clients: &'a Clients,
    pub heartbeats: &'a Heartbeats,
    pub groups: &'a Groups,
    pub operations: &'a Operations,
    pub scrub: &'a Scrubs,
    pub recovery: &'a Recovery,
    pub usage: &'a DiskUsage,
    pub report: &'a mut Report,
}

impl View<'_> {
    pub(super) fn id(&self) -> OsdId {
        self.env.whoami()
    }

    /// The output of `status`.
    pub fn status(&self) -> Value {
        let own =
            self.maps.map().osd(self.id()).map(|osd| osd.uuid.to_string()).unwrap_or_default();
        let oldest = self.maps.oldest_increment().unwrap_or(self.maps.map().epoch).0;
        json!({
            "cluster_fsid": self.env.config.fsid.to_string(),
            "osd_fsid": own,
            "whoami": self.id().0,
            "state": if self.env.stage == Stage::Up { "active" } else { "booting" },
            "oldest_map": oldest,
            "cluster_osdmap_trim_lower_bound": oldest,
            "newest_map": self.maps.map().epoch.0,
            "num_pgs": self.groups.len(),
        })
    }

    /// The counters that `perf reset` resets. Statistics for the monitor are not affected.
    pub fn counted(&self) -> PerfBase {
        let mut sum = Counters::default();
        for (_, group) in self.groups.iter() {
            sum.reads += group.counters.reads;
            sum.read_bytes += group.counters.read_bytes;
            sum.writes += group.counters.writes;
            sum.write_bytes += group.counters.write_bytes;
        }
        let ((reads, writes), sums) = (self.report.latencies(), self.report.sums());
        let (queued, committing) = (sums.queued, sums.committing);
        PerfBase { counters: sum, reads, writes, queued, committing }
    }

    /// The counters as section, name and value; sections that Ceph does not have begin with `sepiola_`.
    fn perf(&self) -> Vec<(&'static str, &'static str, Value)> {
        let osd = self.perf_of_osd().into_iter().map(|(name, value)| ("osd", name, value));
        let (requests, bytes) = self.clients.in_flight();
        let budgets = &self.env.config.sizes.budgets;
        let (sums, base) = (self.report.sums(), self.report.perf_base());
        let others = [
            ("sepiola_writes", "queue_latency", sums.queued.since(base.queued).json()),
            ("sepiola_writes", "commit_latency", sums.committing.since(base.committing).json()),
            ("objecter", "op_r", json!(self.operations.fetches())),
            ("objecter", "op_w", json!(0)),
            ("throttle-osd_client_messages", "val", json!(requests)),
            ("throttle-osd_client_messages", "max", json!(budgets.all_requests)),
            ("throttle-osd_client_bytes", "val", json!(bytes)),
            ("throttle-osd_client_bytes", "max", json!(budgets.all_bytes)),
            ("sepiola_core", "cpu_seconds", json!(self.env.load.cpu.as_secs_f64())),
            ("sepiola_core", "turns", json!(self.env.load.turns)),
            ("sepiola_core", "stalls", json!(self.env.load.stalls)),
        ];
        osd.chain(others).chain(self.perf_of_store()).collect()
    }

    fn perf_of_osd(&self) -> Vec<(&'static str, Value)> {
        let (counted, base) = (self.counted(), self.report.perf_base());
        let (sum, from) = (counted.counters, base.counters);
        // The counts of groups that have left this OSD are gone.
        let since = |sum: u64, from: u64| sum.saturating_sub(from);
        let reads = since(sum.reads, from.reads);
        let writes = since(sum.writes, from.writes);
        let (read_latency, write_latency) =
            (counted.reads.since(base.reads), counted.writes.since(base.writes));
        let members = |is: &dyn Fn(&pg::Pg) -> bool| {
            self.groups.iter().filter(|(_, group)| is(&group.pg)).count()
        };
        let usage = self.usage.usage();
        vec![
            ("op_wip", json!(self.operations.len())),
            ("op", json!(reads + writes)),
            ("op_in_bytes", json!(since(sum.write_bytes, from.write_bytes))),
            ("op_out_bytes", json!(since(sum.read_bytes, from.read_bytes))),
            ("op_latency", read_latency.and(write_latency).json()),
            ("op_r", json!(reads)),
            ("op_r_out_bytes", json!(since(sum.read_bytes, from.read_bytes))),
            ("op_r_latency", read_latency.json()),
            ("op_w", json!(writes)),
            ("op_w_in_bytes", json!(since(sum.write_bytes, from.write_bytes))),
            ("op_w_latency", write_latency.json()),
            ("recovery_ops", json!(self.report.recovered())),
            ("numpg", json!(self.groups.len())),
            ("numpg_primary", json!(members(&pg::Pg::is_primary))),
            ("numpg_replica", json!(members(&|pg| !pg.is_primary() && is_acting(pg, self.id())))),
            ("numpg_stray", json!(members(&|pg| !is_acting(pg, self.id())))),
            ("stat_bytes", json!(usage.bytes_total)),
            ("stat_bytes_used", json!(usage.bytes_used)),
            ("stat_bytes_avail", json!(usage.bytes_available)),
        ]
    }

    /// The counters of the store as of the last report.
    fn perf_of_store(&self) -> impl Iterator<Item = (&'static str, &'static str, Value)> + use<> {
        let counted = self.usage.usage().counters;
        let batches = counted.batches.max(1) as f64;
        let batch_seconds = Duration::from_nanos(counted.batch_ns).as_secs_f64();
        let latency = json!({
            "avgcount": counted.batches,
            "sum": batch_seconds,
            "avgtime": batch_seconds / batches,
        });
        let counters = [
            ("commits", json!(counted.commits)),
            ("batches", json!(counted.batches)),
            ("batch_latency", latency),
            ("log_bytes", json!(counted.log_bytes)),
            ("flushes", json!(counted.flushes)),
            ("device_reads", json!(counted.device_reads)),
            ("device_read_bytes", json!(counted.device_read_bytes)),
            ("repeated_reads", json!(counted.repeated_reads)),
            ("device_writes", json!(counted.device_writes)),
            ("device_write_bytes", json!(counted.device_write_bytes)),
            ("cache_hits", json!(counted.cache_hits)),
            ("cache_misses", json!(counted.cache_misses)),
            ("checkpoints", json!(counted.checkpoints)),
            ("log_used_bytes", json!(counted.log_used_bytes)),
            ("buffered_bytes", json!(counted.buffered_bytes)),
        ];
        counters.into_iter().map(|(name, value)| ("sepiola_store", name, value))
    }

    /// The output of `perf dump`, limited to a logger and a counter if given.
    pub fn perf_dump(&self, logger: Option<&str>, counter: Option<&str>) -> Value {
        let is_wanted = |section: &str, name: &str| {
            logger.is_none_or(|wanted| wanted == section)
                && counter.is_none_or(|wanted| wanted == name)
        };
        let counters = self.perf().into_iter();
        sections(counters.filter(|(section, name, _)| is_wanted(section, name)))
    }

    /// The output of `perf schema`.
    pub fn perf_schema(&self) -> Value {
        sections(self.perf().into_iter().map(|(section, name, value)| {
            let (kind, metric, shape) = kind_of(section, name, &value);
            let units = if name.contains("bytes") { "bytes" } else { "none" };
            let row = json!({
                "type": kind,
                "metric_type": metric,
                "value_type": shape,
                "description": name.replace('_', " "),
                "nick": "",
                "priority": 5,
                "units": units,
            });
            (section, name, row)
        }))
    }

    pub fn dump_watchers(&self) -> Value {
        let mut found = Vec::new();
        for (_, group) in self.groups.iter() {
            for (object, key, watch) in group.watches.iter() {
                let session = watch.conn().and_then(|conn| self.clients.get(conn));
                let addr = session.map(|session| session.addr()).unwrap_or_default();
                found.push(json!({
                    "namespace": String::from_utf8_lossy(&object.namespace),
                    "object": String::from_utf8_lossy(&object.name),
                    "entity_name": {
                        "type": key.name.kind.to_string(),
                        "num": key.name.number,
                    },
                    "cookie": key.cookie,
                    "timeout": watch.timeout().as_secs(),
                    "entity_addr": {
                        "type": addr_kind(addr.kind),
                        "addr": addr.socket.map(|socket| socket.to_string()).unwrap_or_default(),
                        "nonce": addr.nonce,
                    },
                }));
            }
        }
        Value::from(found)
    }

    pub fn dump_blocklist(&self) -> Value {
        let row = |(addr, until): (&types::EntityAddr, &types::UTime)| {
            let (addr, until) = (addr.to_string(), until.to_iso());
            json!({ "entity_addr": addr, "expire_time": until })
        };
        Value::from(self.maps.map().blocklist.iter().map(row).collect::<Vec<_>>())
    }

    pub fn dump_scrub_reservations(&self) -> Value {
        json!({
            "scrubs_local": self.scrub.own_count(),
            "scrubs_remote": self.scrub.helped_count(),
            "osd_max_scrubs": self.env.options.max_scrubs,
        })
    }

    /// The output of `dump_osd_network`: partners with a round trip of at least so many
    /// milliseconds.
    pub fn dump_network(&self, least_ms: Option<i64>) -> Value {
        let threshold = least_ms.unwrap_or(NETWORK_THRESHOLD_MS);
        let least = Duration::from_millis(u64::try_from(threshold).unwrap_or(0));
        let slow = self.heartbeats.round_trips().filter(|(_, time)| *time >= least);
        let entry = |(osd, time): (OsdId, Duration)| {
            let milliseconds = time.as_secs_f64() * 1e3;
            json!({
                "stale": false,
                "from osd": self.id().0,
                "to osd": osd.0,
                "interface": "front",
                "average": { "1min": milliseconds, "5min": milliseconds, "15min": milliseconds },
                "last": milliseconds,
            })
        };
        json!({ "threshold": threshold, "entries": slow.map(entry).collect::<Vec<_>>() })
    }

    pub fn dump_mempools(&self) -> Value {
        let entries: usize = self.groups.iter().map(|(_, group)| group.pg.log().len()).sum();
        let objects = self.operations.objects_len();
        let mut pools = Map::new();
        let (mut items, mut bytes) = (0, 0);
        for name in MEMPOOLS {
            let (count, size) = match name {
                "buffer_anon" => self.clients.in_flight(),
                "osd_pglog" => (entries, entries * size_of::<pg::LogEntry>()),
                "osd" => (objects, objects * size_of::<crate::operations::object::ObjectContext>()),
                _ => (0, 0),
            };
            items += count;
            bytes += size;
            pools.insert(name.to_owned(), json!({ "items": count, "bytes": size }));
        }
        json!({ "mempool": { "by_pool": pools, "total": { "items": items, "bytes": bytes } } })
    }

    /// The output of `get_mapped_pools`.
    pub fn mapped_pools(&self) -> Value {
        let pools: BTreeSet<_> = self.groups.iter().map(|(pg, _)| pg.pg.pool.0).collect();
        json!(pools)
    }
}

/// Values by section and name.
fn sections(rows: impl Iterator<Item = (&'static str, &'static str, Value)>) -> Value {
    let mut sections = Map::new();
    for (section, name, value) in rows {
        let section = sections.entry(section).or_insert_with(|| json!({}));
        section[name] = value;
    }
    Value::Object(sections)
}

/// Type, metric type and value type of a counter in `perf schema`.
fn kind_of(section: &str, name: &str, value: &Value) -> (u32, &'static str, &'static str) {
    let is_state = section.starts_with("throttle")
        || ["op_wip", "log_used_bytes", "buffered_bytes"].contains(&name)
        || name.starts_with("numpg")
        || name.starts_with("stat_");
    match value {
        Value::Object(_) => (5, "gauge", "real-integer-pair"),
        _ if is_state => (2, "gauge", "integer"),
        _ if name == "cpu_seconds" => (9, "counter", "real"),
        _ => (10, "counter", "integer"),
    }
}

fn addr_kind(kind: types::AddrType) -> &'static str {
    match kind {
        types::AddrType::None => "none",
        types::AddrType::Legacy => "v1",
        types::AddrType::Msgr2 => "v2",
        types::AddrType::Any => "any",
        types::AddrType::Cidr => "cidr",
    }
}

fn is_acting(pg: &pg::Pg, osd: OsdId) -> bool {
    pg.members().acting.contains(&osd)
}
