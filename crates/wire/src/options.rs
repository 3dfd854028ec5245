//! The options that this cluster's daemons read, as `ceph config help` shows them.
//!
//! One table for both sides: the monitor checks values against it and shows its defaults, and daemons read
//! their values through it. Options of clients, and of Ceph's daemons only, are in [`upstream`].

mod running;
mod upstream;

pub use upstream::{Upstream, names as upstream_names, upstream};

pub use running::{COMMANDS as RUNNING_COMMANDS, Running, RunningAnswer};

use std::collections::BTreeMap;
use std::time::Duration;

/// One option, under Ceph's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Ceph's name of the option.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Default value as text.
    pub default: &'static str,
    /// Description for users.
    pub meaning: &'static str,
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A boolean.
    Switch,
    /// A whole number, not negative.
    Number,
    /// A number that may have a fraction.
    Real,
    /// Seconds, which may have a fraction.
    Seconds,
    /// Bytes, with an optional unit.
    Size,
}

impl Kind {
    /// Ceph's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "str",
            Kind::Switch => "bool",
            Kind::Number => "uint",
            Kind::Real => "float",
            Kind::Seconds => "secs",
            Kind::Size => "size",
        }
    }

    /// True if the text is a value of this type.
    pub fn accepts(self, value: &str) -> bool {
        match self {
            Kind::Text => true,
            Kind::Switch => switch(value).is_some(),
            Kind::Number => value.parse::<u64>().is_ok(),
            Kind::Real => real(value).is_some(),
            Kind::Seconds => seconds(value).is_some(),
            Kind::Size => stdx::parse_bytes(value).is_some(),
        }
    }
}

macro_rules! known {
    ($($name:literal, $kind:ident, $default:literal, $meaning:literal;)*) => {
        &[$(Known { name: $name, kind: Kind::$kind, default: $default, meaning: $meaning }),*]
    };
}

/// Sorted by subject; names are unique.
pub const TABLE: &[Known] = known! {
    "mon_allow_pool_delete", Switch, "true", "allow pool deletions";
    "mon_allow_pool_size_one", Switch, "true", "allow pools with a single copy";
    "mon_clock_drift_allowed", Real, "0.05", "largest difference between clocks of monitors in seconds before MON_CLOCK_SKEW";
    "mgr_service_beacon_grace", Seconds, "60", "time without a report after which a service daemon is removed from the service map";
    "mgr_stats_period", Seconds, "5", "time between reports of service daemons";
    "mon_max_pg_per_osd", Number, "1000", "largest number of placement groups per OSD with a new pool";
    "mon_warn_on_pool_no_app", Switch, "true", "warn about pools without an application";
    "mon_warn_on_pool_no_redundancy", Switch, "true", "warn about pools with a single copy";
    "mon_osd_min_down_reporters", Number, "2", "failure domains that must report an OSD before it is marked down, or all others if there are fewer";
    "mon_osd_reporter_subtree_level", Text, "host", "the kind of CRUSH bucket whose OSDs count as one reporter";
    "mon_osd_adjust_heartbeat_grace", Switch, "true", "wait longer before marking down OSDs that were marked down wrongly before";
    "mon_osd_adjust_down_out_interval", Switch, "true", "wait longer before marking out OSDs that were marked down wrongly before";
    "mon_osd_laggy_halflife", Seconds, "3600", "time in which the record of an OSD's wrong markdowns loses half of its weight";
    "mon_osd_laggy_weight", Real, "0.3", "weight of the last markdown in that record against earlier ones";
    "mon_osd_laggy_max_interval", Seconds, "300", "the longest absence that counts as laggy";
    "mon_osd_min_up_ratio", Real, "0.3", "the share of OSDs below which no more are marked down";
    "mon_osd_min_in_ratio", Real, "0.75", "the share of OSDs below which no more are marked out automatically";
    "mon_osd_report_timeout", Seconds, "900", "time without a report of an OSD after which it is marked down; 0 is never";
    "mon_osd_down_out_interval", Seconds, "600", "time until an OSD that is down is marked out; 0 is never";
    "mon_osd_down_out_subtree_limit", Text, "rack", "the smallest kind of CRUSH bucket that is not marked out if it is down as a whole";
    "mon_osd_destroyed_out_interval", Seconds, "600", "time until a destroyed OSD is marked out";
    "mon_osd_auto_mark_in", Switch, "false", "mark any OSD in that boots";
    "mon_osd_auto_mark_auto_out_in", Switch, "true", "mark OSDs in that boot and were marked out automatically";
    "mon_osd_auto_mark_new_in", Switch, "true", "mark new OSDs in that boot";
    "mon_warn_on_misplaced", Switch, "false", "warn about objects that are complete and on other OSDs than the up set";
    "mon_warn_on_pool_pg_num_not_power_of_two", Switch, "true", "warn about pools whose pg_num is not a power of two";
    "mon_warn_pg_not_scrubbed_ratio", Real, "0.5", "share of osd_scrub_max_interval after its end at which PG_NOT_SCRUBBED is raised; 0 is never";
    "mon_warn_pg_not_deep_scrubbed_ratio", Real, "0.75", "share of osd_deep_scrub_interval after its end at which PG_NOT_DEEP_SCRUBBED is raised; 0 is never";
    "mon_osd_warn_num_repaired", Number, "10", "number of repaired copies of an OSD since its start at which OSD_TOO_MANY_REPAIRS is raised";
    "mon_target_pg_per_osd", Number, "100", "target of the autoscaler for copies of placement groups per OSD";
    "target_max_misplaced_ratio", Real, "0.05", "largest share of misplaced copies at which the balancer or a change of pg_num continues";
    "upmap_max_deviation", Number, "1", "placement groups by which an OSD may differ from its share before the balancer acts";
    "upmap_max_optimizations", Number, "10", "changes of one step of the balancer";
    "osd_pool_default_size", Number, "3", "copies of each object in new pools";
    "osd_pool_default_min_size", Number, "0", "copies needed to write; 0: size - size / 2";
    "osd_pool_default_pg_num", Number, "32", "placement groups of new pools";
    "osd_pool_default_pgp_num", Number, "0", "placement groups of new pools for placement";
    "osd_pool_default_pg_autoscale_mode", Text, "off", "autoscaling of new pools";
    "osd_pool_default_flag_nodelete", Switch, "false", "whether new pools are protected";
    "osd_pool_default_flag_ec_overwrites", Switch, "true", "whether objects of new erasure-coded pools can be overwritten in part";
    "osd_heartbeat_interval", Seconds, "0.5", "time between heartbeats to a peer";
    "osd_heartbeat_grace", Seconds, "2", "time without an answer after which a peer counts as failed";
    "osd_max_markdown_count", Number, "5", "wrong markdowns within osd_max_markdown_period after which the boot of an OSD is refused until the period is over";
    "osd_max_markdown_period", Seconds, "60", "the period of osd_max_markdown_count";
    "osd_max_backfills", Number, "1", "groups that an OSD backfills at once";
    "osd_recovery_max_active", Number, "3", "objects that an OSD recovers at once";
    "osd_recovery_sleep", Seconds, "0", "pause between recovered objects";
    "osd_scrub_min_interval", Seconds, "86400", "time between scrubs of a group while there is little load";
    "osd_scrub_max_interval", Seconds, "604800", "time after which a group is scrubbed in any case";
    "osd_deep_scrub_interval", Seconds, "604800", "time between deep scrubs of a group";
    "osd_max_scrubs", Number, "1", "groups that an OSD scrubs at once";
    "osd_deep_scrub_large_omap_object_key_threshold", Number, "200000", "keys of an object that deep scrub warns of";
    "osd_deep_scrub_large_omap_object_value_sum_threshold", Size, "1073741824", "bytes of an object's omap values that deep scrub warns of";
    "osd_scrub_auto_repair", Switch, "true", "repair inconsistent objects automatically if the authoritative copy is certain";
    "osd_snap_trim_sleep", Seconds, "0.02", "pause between two steps of removing a snapshot, of 16 objects each, while clients are active";
    "osd_op_complaint_time", Seconds, "30", "age at which a request that is not answered counts as slow (SLOW_OPS)";
    "osd_op_history_size", Number, "20", "operations that dump_historic_ops shows, at most 1000";
    "osd_op_history_duration", Seconds, "600", "time for which completed operations are shown";
    "osd_op_history_slow_op_size", Number, "20", "operations that dump_historic_slow_ops shows, at most 1000";
    "osd_op_history_slow_op_threshold", Seconds, "10", "time after which an operation counts as slow in dump_historic_slow_ops";
    "osd_bench_small_size_max_iops", Number, "100", "assumed operations per second of bench with small blocks";
    "osd_bench_large_size_max_throughput", Size, "104857600", "assumed bytes per second of bench with large blocks";
    "osd_bench_max_block_size", Size, "67108864", "the largest block of bench";
    "osd_bench_duration", Number, "30", "longest duration of bench in seconds at the assumed rates";
    "osd_max_object_name_len", Number, "2048", "the longest name of an object";
    "osd_max_write_size", Number, "90", "the largest write in MiB";
    "osd_client_message_size_cap", Size, "524288000", "client data in memory";
    "debug_osd", Text, "1/5", "debug level of OSDs";
    "debug_mon", Text, "1/5", "debug level of monitors";
    "debug_ms", Text, "0/0", "debug level of the messenger";
    "log_to_file", Switch, "true", "whether logs go to files";
    "auth_allow_insecure_global_id_reclaim", Switch, "false", "see CVE-2021-20288";
    "rbd_default_features", Text, "61", "features of new images";
    "rbd_default_pool", Text, "rbd", "the pool of images that name none";
};

/// The option of this name, if daemons of this cluster read it.
pub fn known(name: &str) -> Option<&'static Known> {
    TABLE.iter().find(|known| known.name == name)
}

/// The spellings of a switch.
pub fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn real(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(real(text)?).ok()
}

/// Values by name, with the table's defaults for unset and unreadable ones.
///
/// A name that is not in the table has the value zero, which the tests of the caller detect.
#[derive(Debug, Clone, Copy)]
pub struct Values<F>(pub F);

impl<'a, F: Fn(&str) -> Option<&'a str>> Values<F> {
    fn read<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
        let set = (self.0)(name).and_then(parse);
        set.or_else(|| known(name).and_then(|known| parse(known.default)))
    }

    /// Value of an option of type [`Kind::Number`].
    pub fn number(&self, name: &str) -> u64 {
        self.read(name, |text| text.parse().ok()).unwrap_or_default()
    }

    /// Value of an option of type [`Kind::Real`].
    pub fn real(&self, name: &str) -> f64 {
        self.read(name, real).unwrap_or_default()
    }

    /// Value of an option of type [`Kind::Seconds`].
    pub fn duration(&self, name: &str) -> Duration {
        self.read(name, seconds).unwrap_or_default()
    }

    /// Value in bytes of an option of type [`Kind::Size`].
    pub fn size(&self, name: &str) -> u64 {
        self.read(name, stdx::parse_bytes).unwrap_or_default()
    }

    /// Value of an option of type [`Kind::Switch`].
    pub fn switch(&self, name: &str) -> bool {
        self.read(name, switch).unwrap_or_default()
    }

    /// Value of an option of type [`Kind::Text`].
    pub fn text(&self, name: &str) -> &'a str {
        let default = known(name).map_or("", |known| known.default);
        (self.0)(name).unwrap_or(default)
    }
}

/// The values of a configuration message.
pub fn values<'a>(set: &'a BTreeMap<String, String>) -> Values<impl Fn(&str) -> Option<&'a str>> {
    Values(move |name: &str| set.get(name).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_fit_their_kinds() {
        for (index, known) in TABLE.iter().enumerate() {
            assert!(known.kind.accepts(known.default), "{}", known.name);
            assert!(TABLE[..index].iter().all(|other| other.name != known.name), "{}", known.name);
        }
    }

    #[test]
    fn what_is_set_wins_unless_it_cannot_be_read() {
        let set = [("osd_max_backfills", "4"), ("osd_heartbeat_grace", "soon")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let values = values(&set);
        assert_eq!(values.number("osd_max_backfills"), 4);
        assert_eq!(values.duration("osd_heartbeat_grace"), Duration::from_secs(2));
        assert_eq!(values.duration("osd_heartbeat_interval"), Duration::from_millis(500));
        assert!(values.switch("osd_scrub_auto_repair"));
        assert_eq!(values.text("mon_osd_reporter_subtree_level"), "host");
    }

    #[test]
    fn values_that_no_daemon_could_read_are_not_accepted() {
        assert!(Kind::Seconds.accepts("2.5") && Kind::Size.accepts("4K"));
        assert!(!Kind::Seconds.accepts("-1") && !Kind::Real.accepts("inf"));
        assert!(!Kind::Switch.accepts("maybe") && !Kind::Number.accepts("1.5"));
    }
}
