//! The check of a stored rank while no server has it: reads journal and rows, and repairs them.
//!
//! ```text
//! begin -> (the map still shows the rank failed) -> confirm -> read -> flush -> read -> mend -> read -> end
//! ```
//!
//! [`Reader`] takes journal and rows, from wherever they are read, and gives them to [`fscheck`]. The
//! procedures read and write the metadata pool. A check alone is [`read`].
//!
//! Invariants of a repair:
//! * From [`begin`] to [`end`] the head says that rows are being repaired, and no server opens the rank. A
//!   server that had it before is shut out by an OSD map that [`confirm`] awaits.
//! * No row is mended before all records of the journal are in rows, and the head says so.
//! * It may be interrupted at any place, and done again from the beginning.

mod error;
mod pool;
mod reader;
mod repair;

pub use crate::rows::NAMESPACE;
pub use error::FsckError;
pub use pool::{Target, read};
pub use reader::{Found, Reader};
pub use repair::{begin, confirm, end, flush, mend};
