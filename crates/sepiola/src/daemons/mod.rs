//! The kinds of daemons that a process can run, one file each. A kind is added by another [`host::Member`].

mod common;
mod console;
mod control;
mod mark;
mod mds;
mod metrics;
mod monitor;
mod monitor_node;
mod nbd;
mod osd;
mod service_addr;

pub use common::msgr2_addrs;
pub use mds::{MdsMember, RunEnded};
pub use monitor::MonMember;
pub use nbd::{NbdExport, NbdMember, NbdSettings};
pub use osd::OsdMember;
pub use service_addr::ServiceAddr;

use anyhow::Result;
use host::{Member, Plan};

/// Daemons on so many cores.
pub fn plan(members: Vec<Box<dyn Member>>, cores: Option<usize>) -> Result<Plan> {
    Ok(Plan::new(members, cores, machine::random_u64()?))
}
