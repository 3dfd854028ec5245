//! The table of options: all that daemons of this cluster read, and a few that tools and clients ask for.
//!
//! `ceph config help`, the checks of `config set` and docs/CONFIGURATION.md are made from it.

use super::known::{Known, number, real, seconds, size, switch, text};

/// Longest time that a daemon waits for anything: ten years.
const FOREVER: f64 = 315_360_000.0;
/// Bounds of the operations that the history of an OSD keeps.
const HISTORY_MAX: f64 = 1000.0;
/// Copies that a pool can have.
const COPIES_MAX: f64 = 10.0;
/// Groups that a pool can have.
const GROUPS_MAX: f64 = 65_536.0;

const ON_OFF: &[&str] = &["off", "warn", "on"];

/// Sorted by subject; names are unique.
pub const TABLE: &[Known] = &[
    // Pools
    switch("mon_allow_pool_delete", "true")
        .means("Whether pools can be deleted.")
        .change("Set to false on a cluster whose pools stay: a mistyped command then deletes nothing."),
    switch("mon_allow_pool_size_one", "true")
        .means("Whether a pool may have a single copy.")
        .change("Set to false where no data is expendable."),
    number("mon_max_pg_per_osd", "1000")
        .unit("groups")
        .at_least(1.0)
        .means("Largest number of placement groups per OSD that a new pool or a larger pg_num may lead to.")
        .change("Lower it on machines with little memory; each group costs some of it."),
    number("mon_target_pg_per_osd", "100")
        .unit("groups")
        .at_least(1.0)
        .means("Copies of placement groups per OSD that the autoscaler aims at.")
        .change("Raise it for a more even distribution on clusters with few pools."),
    number("osd_pool_default_size", "3")
        .unit("copies")
        .within(1.0, COPIES_MAX)
        .read_by(&["mon"])
        .means("Copies of each object in new replicated pools.")
        .change("Set to 2 where the loss of two disks at once is acceptable; `up --size` sets it."),
    number("osd_pool_default_min_size", "0")
        .unit("copies")
        .within(0.0, COPIES_MAX)
        .read_by(&["mon"])
        .means("Copies that must be there for a write in new pools; 0 is size - size / 2.")
        .change("Leave it. 1 accepts writes that a single disk holds."),
    number("osd_pool_default_pg_num", "32")
        .unit("groups")
        .within(1.0, GROUPS_MAX)
        .read_by(&["mon"])
        .means("Placement groups of new pools.")
        .change("About 100 × OSDs ÷ copies ÷ large pools, rounded to a power of two."),
    number("osd_pool_default_pgp_num", "0")
        .unit("groups")
        .within(0.0, GROUPS_MAX)
        .read_by(&["mon"])
        .means("Placement groups of new pools by which their data is placed; 0 is pg_num.")
        .change("Leave it."),
    text("osd_pool_default_pg_autoscale_mode", "off")
        .one_of(ON_OFF)
        .read_by(&["mon"])
        .means("What the autoscaler does with new pools.")
        .change("`on` lets pg_num follow the amount of data; groups are then divided and merged."),
    switch("osd_pool_default_flag_nodelete", "false")
        .read_by(&["mon"])
        .means("Whether new pools are protected from deletion.")
        .change("Set to true to protect each new pool until its flag `nodelete` is unset."),
    switch("osd_pool_default_flag_ec_overwrites", "true")
        .read_by(&["mon"])
        .means("Whether objects of new erasure-coded pools can be overwritten in part.")
        .change("Set to false for applications that expect Ceph's default."),
    switch("mon_warn_on_pool_no_app", "true")
        .means("Whether a pool without an application is a warning.")
        .change("Set to false if your applications do not enable theirs on their pools."),
    switch("mon_warn_on_pool_no_redundancy", "true")
        .means("Whether a pool with a single copy is a warning.")
        .change("Set to false once such a pool is intended."),
    switch("mon_warn_on_pool_pg_num_not_power_of_two", "true")
        .means("Whether a pg_num that is not a power of two is a warning.")
        .change("Leave it: such groups differ in size by a factor of two."),
    // Failures
    seconds("osd_heartbeat_interval", "0.5")
        .within(0.05, 60.0)
        .means("Time between heartbeats to a peer.")
        .change("Raise it together with osd_heartbeat_grace on networks that lose packets for longer."),
    seconds("osd_heartbeat_grace", "2")
        .within(0.2, 3600.0)
        .read_by(&["mon", "osd"])
        .means("Time without an answer after which a peer counts as failed.")
        .change("Raise it if OSDs are marked down wrongly: writes then wait longer for one that did fail."),
    number("mon_osd_min_down_reporters", "2")
        .unit("failure domains")
        .at_least(1.0)
        .means("Failure domains that must report an OSD before it is marked down, or all others if there are fewer.")
        .change("Leave it, unless one host's network fails often."),
    text("mon_osd_reporter_subtree_level", "host")
        .means("Kind of CRUSH bucket whose OSDs count as one reporter.")
        .change("Set to rack where a rack shares a switch."),
    switch("mon_osd_adjust_heartbeat_grace", "true")
        .means("Whether OSDs that were marked down wrongly before are waited for longer.")
        .change("Set to false to fail over at the same speed always."),
    switch("mon_osd_adjust_down_out_interval", "true")
        .means("Whether OSDs that were marked down wrongly before are marked out later.")
        .change("Leave it."),
    seconds("mon_osd_laggy_halflife", "3600")
        .within(1.0, FOREVER)
        .means("Time in which the record of an OSD's wrong markdowns loses half of its weight.")
        .change("Leave it."),
    real("mon_osd_laggy_weight", "0.3")
        .within(0.0, 1.0)
        .means("Weight of the last markdown in that record against earlier ones.")
        .change("Leave it."),
    seconds("mon_osd_laggy_max_interval", "300")
        .within(0.0, FOREVER)
        .means("Longest absence that counts as a wrong markdown.")
        .change("Leave it."),
    real("mon_osd_min_up_ratio", "0.3")
        .unit("share of OSDs")
        .within(0.0, 1.0)
        .means("Share of OSDs that stay marked up, whatever is reported of them.")
        .change("Lower it on clusters of few hosts where most may be off at once."),
    real("mon_osd_min_in_ratio", "0.75")
        .unit("share of OSDs")
        .within(0.0, 1.0)
        .means("Share of OSDs that are in below which none is marked out automatically.")
        .change("Raise it where disks are too full for the data of those that fail."),
    seconds("mon_osd_report_timeout", "900")
        .within(0.0, FOREVER)
        .means("Time without a report of an OSD after which it is marked down; 0 is never.")
        .change("Leave it: heartbeats between OSDs notice failures long before."),
    seconds("mon_osd_down_out_interval", "600")
        .within(0.0, FOREVER)
        .means("Time until an OSD that is down is marked out, after which its data is copied to others; 0 is never.")
        .change("Raise it to the time in which a machine can be repaired; or set the flag `noout` meanwhile."),
    text("mon_osd_down_out_subtree_limit", "rack")
        .means("Smallest kind of CRUSH bucket that is not marked out if all of it is down.")
        .change("Set to host if a host that is off comes back as a rule."),
    seconds("mon_osd_destroyed_out_interval", "600")
        .within(0.0, FOREVER)
        .means("Time until a destroyed OSD is marked out.")
        .change("Raise it to the time in which disks are replaced."),
    switch("mon_osd_auto_mark_in", "false")
        .means("Whether any OSD is marked in when it boots.")
        .change("Leave it: an OSD that an operator has marked out stays out."),
    switch("mon_osd_auto_mark_auto_out_in", "true")
        .means("Whether an OSD that was marked out automatically is marked in when it boots.")
        .change("Set to false if a disk that has failed once is to be looked at first."),
    switch("mon_osd_auto_mark_new_in", "true")
        .means("Whether a new OSD is marked in when it boots.")
        .change("Set to false to add many OSDs first, and to move data once."),
    number("osd_max_markdown_count", "5")
        .unit("times")
        .means("Wrong markdowns within osd_max_markdown_period after which an OSD may not boot until the period is over.")
        .change("Leave it."),
    seconds("osd_max_markdown_period", "60")
        .within(1.0, FOREVER)
        .means("The period of osd_max_markdown_count.")
        .change("Leave it."),
    seconds("mds_beacon_grace", "15")
        .within(4.0, 3600.0)
        .read_by(&["mon", "mds"])
        .means("Time without a beacon after which a metadata server is replaced by a standby.")
        .change("Lower it to fail over sooner, but not below 10: servers send a beacon every 4 s."),
    switch("mds_asynchronous_unlinks", "false")
        .read_by(&["mds"])
        .means("Whether Linux's clients remove files without waiting for the server.")
        .change("Leave it for Linux 6.0 and later, which waits for all its cores after each such removal: `rm -rf` takes ten times as long. It saves older clients a round trip for each file, and applies to directories that a client uses afterwards."),
    real("mon_clock_drift_allowed", "0.05")
        .unit("s")
        .within(0.0, 3600.0)
        .means("Difference between clocks of monitors from which MON_CLOCK_SKEW is raised.")
        .change("Leave it, and run a time service."),
    // Recovery
    number("osd_max_backfills", "1")
        .unit("groups")
        .means("Groups that an OSD backfills at once; 0 pauses backfill.")
        .change("Raise it to finish sooner, at the price of clients' latency."),
    number("osd_recovery_max_active", "3")
        .unit("objects")
        .at_least(1.0)
        .means("Objects that an OSD recovers at once.")
        .change("Raise it to finish sooner, at the price of clients' latency."),
    seconds("osd_recovery_sleep", "0")
        .within(0.0, 60.0)
        .means("Pause between two recovered objects.")
        .change("Set to some milliseconds on rotating disks that clients use at the same time."),
    seconds("osd_snap_trim_sleep", "0.02")
        .within(0.0, 60.0)
        .means("Pause between two steps of removing a snapshot, of 16 objects each, while clients are active.")
        .change("Lower it if removed snapshots hold space for too long."),
    real("target_max_misplaced_ratio", "0.05")
        .unit("share of copies")
        .within(0.0, 1.0)
        .read_by(&["mgr"])
        .means("Largest share of misplaced copies at which the balancer or a change of pg_num continues.")
        .change("Raise it to move data faster."),
    number("upmap_max_deviation", "1")
        .unit("groups")
        .at_least(1.0)
        .read_by(&["mgr"])
        .means("Groups by which an OSD may differ from its share before the balancer acts.")
        .change("Raise it to have less data moved."),
    number("upmap_max_optimizations", "10")
        .unit("changes")
        .at_least(1.0)
        .read_by(&["mgr"])
        .means("Changes that one step of the balancer makes at most.")
        .change("Leave it."),
    switch("mon_warn_on_misplaced", "false")
        .means("Whether objects that are complete but on other OSDs than they should be are a warning.")
        .change("Set to true to see every movement of data in the health."),
    // Scrub
    seconds("osd_scrub_min_interval", "86400")
        .within(1.0, FOREVER)
        .means("Time between scrubs of a group while there is little load.")
        .change("Raise it on clusters with much cold data."),
    seconds("osd_scrub_max_interval", "604800")
        .within(1.0, FOREVER)
        .read_by(&["mon", "osd"])
        .means("Time after which a group is scrubbed in any case.")
        .change("Raise it if PG_NOT_SCRUBBED stays although all disks are well."),
    seconds("osd_deep_scrub_interval", "604800")
        .within(1.0, FOREVER)
        .read_by(&["mon", "osd"])
        .means("Time between deep scrubs of a group, which read all data.")
        .change("Raise it on large disks that cannot be read within a week."),
    number("osd_max_scrubs", "1")
        .unit("groups")
        .means("Groups that an OSD scrubs at once; 0 pauses scrub.")
        .change("Raise it if scrubs do not keep up with their interval."),
    switch("osd_scrub_auto_repair", "true")
        .means("Whether an inconsistent object is repaired automatically if the authoritative copy is certain.")
        .change("Set to false to look at each inconsistency before `ceph pg repair`."),
    number("osd_deep_scrub_large_omap_object_key_threshold", "200000")
        .unit("keys")
        .at_least(1.0)
        .means("Keys of one object's omap from which deep scrub warns (LARGE_OMAP_OBJECTS).")
        .change("Raise it if an application is known to have such objects."),
    size("osd_deep_scrub_large_omap_object_value_sum_threshold", "1073741824")
        .at_least(1.0)
        .means("Bytes of one object's omap values from which deep scrub warns (LARGE_OMAP_OBJECTS).")
        .change("Raise it if an application is known to have such objects."),
    real("mon_warn_pg_not_scrubbed_ratio", "0.5")
        .unit("share of the interval")
        .within(0.0, 1000.0)
        .means("Share of osd_scrub_max_interval after its end at which PG_NOT_SCRUBBED is raised; 0 is never.")
        .change("Raise it to be warned later."),
    real("mon_warn_pg_not_deep_scrubbed_ratio", "0.75")
        .unit("share of the interval")
        .within(0.0, 1000.0)
        .means("Share of osd_deep_scrub_interval after its end at which PG_NOT_DEEP_SCRUBBED is raised; 0 is never.")
        .change("Raise it to be warned later."),
    number("mon_osd_warn_num_repaired", "10")
        .unit("copies")
        .means("Repaired copies of an OSD since its start from which OSD_TOO_MANY_REPAIRS is raised.")
        .change("Lower it to replace disks early."),
    // Slow operations and measurements
    seconds("osd_op_complaint_time", "30")
        .within(0.1, FOREVER)
        .means("Age at which a request that is not answered counts as slow (SLOW_OPS).")
        .change("Lower it where clients expect answers within seconds."),
    number("osd_op_history_size", "20")
        .unit("operations")
        .within(0.0, HISTORY_MAX)
        .means("Operations that dump_historic_ops shows.")
        .change("Raise it while looking for a cause of latency."),
    seconds("osd_op_history_duration", "600")
        .within(0.0, FOREVER)
        .means("Time for which completed operations are shown.")
        .change("Raise it while looking for a cause of latency."),
    number("osd_op_history_slow_op_size", "20")
        .unit("operations")
        .within(0.0, HISTORY_MAX)
        .means("Operations that dump_historic_slow_ops shows.")
        .change("Raise it while looking for a cause of latency."),
    seconds("osd_op_history_slow_op_threshold", "10")
        .within(0.0, FOREVER)
        .means("Time after which an operation counts as slow in dump_historic_slow_ops.")
        .change("Lower it on flash, where 0.1 s is slow."),
    number("osd_bench_small_size_max_iops", "100")
        .unit("operations/s")
        .at_least(1.0)
        .means("Assumed rate of `tell osd.N bench` with small blocks, which bounds its work.")
        .change("Raise it on flash for longer measurements."),
    size("osd_bench_large_size_max_throughput", "104857600")
        .at_least(1.0)
        .means("Assumed bytes per second of `tell osd.N bench` with large blocks, which bound its work.")
        .change("Raise it on flash for longer measurements."),
    size("osd_bench_max_block_size", "67108864")
        .at_least(1.0)
        .means("Largest block of `tell osd.N bench`.")
        .change("Leave it."),
    number("osd_bench_duration", "30")
        .unit("s")
        .within(1.0, 3600.0)
        .means("Longest duration of `tell osd.N bench` at the assumed rates.")
        .change("Leave it."),
    // Space and services
    seconds("mgr_service_beacon_grace", "60")
        .within(1.0, FOREVER)
        .means("Time without a report after which a service daemon is removed from the service map.")
        .change("Raise it for services that pause for longer."),
    number("mon_data_avail_warn", "30")
        .unit("%")
        .within(0.0, 100.0)
        .means("Free space at a monitor's directory at which MON_DISK_LOW is raised, and below.")
        .change("Lower it if the directory is on a large disk that other data fills."),
    number("mon_data_avail_crit", "5")
        .unit("%")
        .within(0.0, 100.0)
        .means("Free space at a monitor's directory at which MON_DISK_CRIT is raised, and below.")
        .change("Leave it: a monitor without space stops."),
    number("mon_min_osdmap_epochs", "500")
        .unit("maps")
        .within(1.0, 100_000.0)
        .means("OSD maps that are kept although no group needs them. OSDs that were away for longer do not know what happened meanwhile.")
        .change("Raise it if OSDs are often away for longer than so many maps."),
    number("mon_pool_quota_warn_threshold", "80")
        .unit("% of the quota")
        .within(0.0, 100.0)
        .means("Use of a pool's quota from which POOL_NEAR_FULL is raised; 0 is never.")
        .change("Raise it for pools that are full as a rule."),
    seconds("mgr_stats_period", "5")
        .within(1.0, 3600.0)
        .means("Time between reports of service daemons.")
        .change("Leave it."),
    switch("auth_allow_insecure_global_id_reclaim", "false")
        .read_by(&["mon"])
        .fixed()
        .means("Whether clients may reclaim an id without proof (CVE-2021-20288).")
        .change("It stays false: clients of 16.2 and later do not need it."),
    text("rbd_default_features", "61")
        .read_by(&["client"])
        .means("Features of new images, as names or as a sum.")
        .change("Set to `layering` for clients that know nothing else."),
    text("rbd_default_pool", "rbd")
        .read_by(&["client"])
        .means("Pool of images that name none.")
        .change("Set it where images have a pool of another name."),
    // Shown to tools that ask; compiled in
    number("osd_max_object_name_len", "2048")
        .unit("bytes")
        .fixed()
        .means("Longest name of an object.")
        .change("It cannot be changed."),
    number("osd_max_write_size", "90")
        .unit("MiB")
        .fixed()
        .means("Largest write of one request.")
        .change("It cannot be changed."),
    size("osd_client_message_size_cap", "524288000")
        .fixed()
        .means("Data of clients' requests that an OSD holds in memory.")
        .change("It cannot be changed."),
    text("debug_osd", "1/5")
        .fixed()
        .means("Log level of OSDs, for tools that expect it.")
        .change("Use the environment variable SEPIOLA_LOG of the daemon instead."),
    text("debug_mon", "1/5")
        .fixed()
        .means("Log level of monitors, for tools that expect it.")
        .change("Use the environment variable SEPIOLA_LOG of the daemon instead."),
    text("debug_ms", "0/0")
        .read_by(&["client"])
        .means("Log level of clients' messenger; daemons do not read it.")
        .change("Raise it to see what a client sends."),
    switch("log_to_file", "true")
        .read_by(&["client"])
        .means("Whether clients log to files; daemons log to standard error, and so to the journal.")
        .change("Set to false for clients in containers."),
];
