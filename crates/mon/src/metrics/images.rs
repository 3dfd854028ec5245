//! Metrics of images in the pools that the option `mgr/prometheus/rbd_stats_pools` names.

use super::page::{Kind, Labels, Page};
use crate::health::View;
use crate::image_traffic::{ImageKey, Row};
use std::collections::BTreeMap;

/// Pools of which images are counted, as names with commas between, or `*`; none if it is empty.
pub(crate) const POOLS_OPTION: &str = "mgr/prometheus/rbd_stats_pools";

/// Position of a value in a [`Row`], and of the number that is counted with it.
const COLUMNS: [(&str, &str, usize); 8] = [
    ("ceph_rbd_write_ops", "Requests that write", 0),
    ("ceph_rbd_read_ops", "Requests that read", 1),
    ("ceph_rbd_write_bytes", "Bytes written", 2),
    ("ceph_rbd_read_bytes", "Bytes read", 3),
    ("ceph_rbd_write_latency_sum", "Nanoseconds from arrival to reply", 4),
    ("ceph_rbd_write_latency_count", "Requests that write, with a reply", 0),
    ("ceph_rbd_read_latency_sum", "Nanoseconds from arrival to reply", 5),
    ("ceph_rbd_read_latency_count", "Requests that read, with a reply", 1),
];

pub(super) fn write(page: &mut Page, view: &View<'_>) {
    let wanted = view.state.mgr_option(POOLS_OPTION).unwrap_or_default();
    let map = &view.state.osdmap;
    let totals: BTreeMap<ImageKey, Row> = view.live.stats.images.totals();
    let rows = totals.iter().filter_map(|((pool, namespace, image), row)| {
        let pool = map.pool_name(*pool)?;
        let labels = [("pool", pool), ("namespace", namespace.as_str()), ("image", image.as_str())];
        is_wanted(wanted, pool).then(|| (Labels::of(&labels), row))
    });
    let rows: Vec<(Labels, &Row)> = rows.collect();
    if rows.is_empty() {
        return;
    }
    for (name, help, column) in COLUMNS {
        let mut family = page.family(name, Kind::Untyped, help);
        rows.iter().for_each(|(labels, row)| family.add(labels, row[column]));
    }
}

fn is_wanted(wanted: &str, pool: &str) -> bool {
    let mut names = wanted.split([',', ' ', ';']).filter(|name| !name.is_empty());
    // A namespace may follow a slash; images of all namespaces are counted.
    names.any(|name| name == "*" || name.split('/').next() == Some(pool))
}
