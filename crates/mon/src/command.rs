//! Commands: their descriptions, arguments, capabilities and execution.
//!
//! A command arrives as one JSON object. [`Registry`] finds its description by prefix,
//! [`Arguments`] are validated against the description's [`Signature`], and the handler gets a
//! [`Context`]. A handler reads the committed state, collects its changes, and answers; it knows neither
//! sessions nor the control store, and may be run again if the store's content changed before its change was
//! committed.

mod answer;
mod arguments;
mod context;
mod description;
mod output;
mod registry;
mod signature;
mod xml;

pub use answer::{Answer, Refusal};
pub use arguments::Arguments;
pub use context::{Caller, Context};
pub use description::{Description, Descriptions};
pub use output::{Format, number, pretty};
pub use registry::{Command, Found, Handler, Registry, command};
pub use signature::{Kind, Param, Signature};
