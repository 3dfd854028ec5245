//! The OSD engine: operation execution over many placement groups.
pub mod execute;
mod limits;
