//! The OSD engine: operation execution over many placement groups.
