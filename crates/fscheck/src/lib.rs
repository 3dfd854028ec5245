//! The check of a stored file system: reads rows and records, names contradictions, and plans their repair.
//!
//! ```text
//! Check::new(rank) -> record(…)* row(…)* session(…)* purge(…)* -> finish() -> Checked { report, … }
//! Checked::wanted() -> keys       plan(their rows) -> Plan { changes of rows, objects to remove, numbers }
//! ```
//!
//! Records of the journal come first and hide the rows that they replace, as for a take-over. A repair needs
//! the journal in rows: [`Checked::journal_rows`] are the changes that put it there.
//!
//! Invariants:
//! * A state that a metadata server can leave behind, whenever it dies, has no finding but leftovers.
//! * A plan takes no name from an inode that exists, unless it has two inodes for one directory, or the name
//!   lies where no directory is; then the inode is found in `lost+found`. It removes no inode at all.
//! * A row that does not decode is kept aside, byte for byte.
//!
//! Keeps about 300 bytes for each name and inode, and the records of the journal; not the rows themselves.
//! Knows no RADOS and no sessions but for the numbers that they have.

#![warn(missing_docs)]

mod check;
mod facts;
mod finding;
mod fix;
mod numbers;
mod object;
mod overlay;
mod paths;
mod plan;
mod settle;
mod settlement;
mod snapshots;
mod state;

pub use check::{Check, Checked};
pub use finding::{FINDINGS_MAX, Finding, Problem, Report, Totals};
pub use fix::{RowChange, decode_row};
pub use object::{DAMAGED_OBJECT, Table, table_of};
pub use plan::Plan;
