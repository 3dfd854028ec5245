//! The kinds of daemons that a process can run, one file each. A kind is added by another [`host::Member`].

mod common;
mod control;
mod mark;
mod mds;
mod metrics;
mod monitor;
mod nbd;
mod osd;

pub use common::msgr2_addrs;
pub use mds::{MdsMember, RunEnded};
pub use metrics::MetricsAddr;
pub use monitor::MonMember;
pub use nbd::{NbdExport, NbdMember, NbdSettings};
pub use osd::OsdMember;

use anyhow::Result;
use host::{Member, Plan};

/// Daemons on so many cores.
pub fn plan(members: Vec<Box<dyn Member>>, cores: Option<usize>) -> Result<Plan> {
    Ok(Plan::new(members, cores, machine::random_u64()?))
}
