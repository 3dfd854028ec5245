//! Metrics of the cluster for Prometheus: text made of the state of the leading monitor.
//!
//! Names and labels that begin with `ceph_` are those of Ceph's manager, so that its dashboards and alert
//! rules find them; those of parts that Ceph does not have begin with `sepiola_`. Rendering changes nothing.

mod cluster;
mod file_systems;
mod images;
mod monitors;
mod osds;
mod page;
mod pools;

use crate::health::View;
use page::Page;

pub(crate) use images::POOLS_OPTION;

/// Media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics, in the exposition format of Prometheus.
pub(crate) fn render(view: &View<'_>) -> String {
    let mut page = Page::default();
    cluster::write(&mut page, view);
    monitors::write(&mut page, view);
    osds::write(&mut page, view);
    pools::write(&mut page, view);
    images::write(&mut page, view);
    file_systems::write(&mut page, view);
    page.into_text()
}
