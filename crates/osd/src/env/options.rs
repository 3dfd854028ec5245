//! Options that `ceph config set osd …` changes while the OSD runs.

use engine::Duration;
use std::collections::BTreeMap;
use wire::options;

/// Upper bound of the history sizes, whatever is configured: operations kept per ring.
const HISTORY_MAX: usize = 1000;

/// The options that the engine reads, each named as in the configuration database without `osd_`.
/// Unset ones have the default of [`wire::options`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub heartbeat_interval: Duration,
    pub heartbeat_grace: Duration,
    pub max_backfills: usize,
    pub recovery_max_active: usize,
    pub recovery_sleep: Duration,
    pub scrub_min_interval: Duration,
    pub scrub_max_interval: Duration,
    pub deep_scrub_interval: Duration,
    pub max_scrubs: usize,
    pub scrub_auto_repair: bool,
    /// Keys and bytes of one object's omap beyond which a deep scrub warns of it.
    pub omap_keys_usual: u64,
    pub omap_bytes_usual: u64,
    pub snap_trim_sleep: Duration,
    pub op_complaint_time: Duration,
    /// Bounds of `dump_historic_ops` and `dump_historic_slow_ops`.
    pub history_size: usize,
    pub history_duration: Duration,
    pub history_slow_size: usize,
    pub history_slow_threshold: Duration,
    pub bench: BenchLimits,
}

/// Limits of `ceph tell osd.N bench`.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchLimits {
    /// Writes per second, for blocks below 1 MiB.
    pub small_iops: u64,
    /// Bytes per second, for larger blocks.
    pub large_throughput: u64,
    /// Maximum size of a block in bytes.
    pub block_max: u64,
    /// Expected duration at these rates.
    pub seconds: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options::read(&BTreeMap::new())
    }
}

impl Options {
    /// The options that follow from those set for this OSD, by name.
    pub fn read(set: &BTreeMap<String, String>) -> Self {
        let values = options::values(set);
        let count = |name: &str| usize::try_from(values.number(name)).unwrap_or(usize::MAX);
        Options {
            heartbeat_interval: values.duration("osd_heartbeat_interval"),
            heartbeat_grace: values.duration("osd_heartbeat_grace"),
            max_backfills: count("osd_max_backfills"),
            recovery_max_active: count("osd_recovery_max_active"),
            recovery_sleep: values.duration("osd_recovery_sleep"),
            scrub_min_interval: values.duration("osd_scrub_min_interval"),
            scrub_max_interval: values.duration("osd_scrub_max_interval"),
            deep_scrub_interval: values.duration("osd_deep_scrub_interval"),
            max_scrubs: count("osd_max_scrubs"),
            scrub_auto_repair: values.switch("osd_scrub_auto_repair"),
            omap_keys_usual: values.number("osd_deep_scrub_large_omap_object_key_threshold"),
            omap_bytes_usual: values.size("osd_deep_scrub_large_omap_object_value_sum_threshold"),
            snap_trim_sleep: values.duration("osd_snap_trim_sleep"),
            op_complaint_time: values.duration("osd_op_complaint_time"),
            history_size: count("osd_op_history_size").min(HISTORY_MAX),
            history_duration: values.duration("osd_op_history_duration"),
            history_slow_size: count("osd_op_history_slow_op_size").min(HISTORY_MAX),
            history_slow_threshold: values.duration("osd_op_history_slow_op_threshold"),
            bench: BenchLimits {
                small_iops: values.number("osd_bench_small_size_max_iops"),
                large_throughput: values.size("osd_bench_large_size_max_throughput"),
                block_max: values.size("osd_bench_max_block_size"),
                seconds: values.number("osd_bench_duration"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_a_default_that_works() {
        let defaults = Options::default();
        assert!(defaults.max_backfills > 0 && defaults.recovery_max_active > 0);
        assert!(defaults.heartbeat_interval < defaults.heartbeat_grace);
        assert!(defaults.deep_scrub_interval > Duration::ZERO && defaults.max_scrubs > 0);
        assert!(defaults.scrub_min_interval <= defaults.scrub_max_interval);
        assert!(defaults.scrub_auto_repair && defaults.recovery_sleep == Duration::ZERO);
    }

    #[test]
    fn what_is_set_takes_effect() {
        let set = [("osd_max_backfills", "7"), ("osd_heartbeat_grace", "20")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let options = Options::read(&set);
        assert_eq!((options.max_backfills, options.heartbeat_grace.as_secs()), (7, 20));
    }
}
