//! Commands: their descriptions, arguments, capabilities and execution.
//!
//! A command arrives as one JSON object. [`Registry`] finds its description by prefix,
//! [`Arguments`] are validated against the description's [`Signature`], and the handler gets a
//! [`Context`]. A handler reads the committed state, collects its changes, and answers; it knows neither
//! sessions nor the control store, and may be run again if the store's content changed before its change was
//! committed.

mod arguments;
mod output;
mod registry;
mod signature;
mod xml;

pub use arguments::Arguments;
pub use output::{Format, number, pretty};
pub use registry::{Found, Registry};
pub use signature::{Kind, Param, Signature};

use crate::change::Change;
use crate::health::View;
use crate::image_tasks::MODULE;
use crate::live::Live;
use crate::state::State;
use auth::{Entropy, MgrAccess, MgrCaps, Rwx};
use bytes::Bytes;
use engine::Time;
use maps::RawTable;
use serde_json::Value;
use std::net::IpAddr;
use types::{EntityAddrVec, EntityName, Errno};
use wire::options::Running;

/// One command as described to clients.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Prefix and parameters in the syntax of `src/mon/MonCommands.h`.
    pub signature: &'static str,
    /// One line for `ceph --help`.
    pub help: &'static str,
    /// The service whose capability the command needs (`mon`, `osd`, `mgr`, …).
    pub module: &'static str,
    /// The permissions it needs, as letters: `r`, `rw`, `rwx`.
    pub permission: &'static str,
    pub handler: Handler,
}

impl Command {
    /// Whether it may be sent in a session with the manager.
    pub fn is_of_manager(&self, prefix: &str) -> bool {
        matches!(self.module, "mgr" | "pg" | "service" | MODULE) || OF_MANAGER.contains(&prefix)
    }

    /// Whether it is for daemons of this cluster only, and is hidden from help.
    fn is_internal(&self) -> bool {
        self.help.starts_with("for workers: ")
    }
}

/// Commands that Ceph's manager answers although their services are those of monitors.
const OF_MANAGER: [&str; 27] = [
    "osd blocked-by",
    "osd deep-scrub",
    "osd destroy",
    "osd df",
    "osd ok-to-stop",
    "osd perf",
    "osd pool autoscale-status",
    "osd pool cancel-force-backfill",
    "osd pool cancel-force-recovery",
    "osd pool deep-scrub",
    "osd pool force-backfill",
    "osd pool force-recovery",
    "osd pool get noautoscale",
    "osd pool repair",
    "osd pool scrub",
    "osd pool set noautoscale",
    "osd pool set threshold",
    "osd pool stats",
    "osd pool unset noautoscale",
    "osd purge",
    "osd repair",
    "osd reweight-by-pg",
    "osd reweight-by-utilization",
    "osd safe-to-destroy",
    "osd scrub",
    "osd test-reweight-by-pg",
    "osd test-reweight-by-utilization",
];

/// Runs a command: returns its answer, with its writes collected in [`Context::change`], or the reason for
/// refusing it.
pub type Handler = fn(&mut Context<'_>) -> Result<Answer, Refusal>;

/// Shorthand for the tables of the families.
pub const fn command(
    signature: &'static str,
    help: &'static str,
    module: &'static str,
    permission: &'static str,
    handler: Handler,
) -> Command {
    Command { signature, help, module, permission, handler }
}

/// A handler's inputs, and the change that it fills.
pub struct Context<'a> {
    pub state: &'a State,
    pub live: Live<'a>,
    pub registry: &'a Registry,
    /// Time of this run.
    pub now: Time,
    pub caller: &'a Caller,
    /// The leading words that name the command.
    pub prefix: String,
    pub arguments: Arguments,
    /// The contents of the file given with `-i`.
    pub input: Bytes,
    pub format: Format,
    pub entropy: &'a mut Entropy,
    /// CRUSH results for all groups, as of some earlier map.
    pub placement: &'a mut RawTable,
    /// Options set on this monitor only.
    pub running: &'a mut Running,
    /// The writes of the command; committed only if the handler returns an answer.
    pub change: Change,
}

/// The entity that sent the command.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    pub name: EntityName,
    pub addrs: EntityAddrVec,
    /// Whether its capabilities allow all changes of the OSD map, and not only those of a profile or of
    /// single commands.
    pub administers_osds: bool,
    /// In a session with the manager: the capabilities, and the address the client connects from.
    pub mgr_caps: Option<(MgrCaps, Option<IpAddr>)>,
}

impl Caller {
    /// Whether the caller's manager capabilities allow access to images of a pool and namespace. Always true
    /// in sessions with a monitor: there the command's own check has decided.
    pub fn may_use_images(&self, pool: &str, namespace: &str, needed: &str) -> bool {
        let Some((caps, peer)) = &self.mgr_caps else { return true };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        caps.allows(&MgrAccess {
            service: "",
            module: MODULE,
            command: "",
            arguments: &[pair("pool", pool), pair("namespace", namespace)].into(),
            needed: Rwx::from_letters(needed),
            peer: *peer,
        })
    }
}

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Zero or a negative errno.
    pub result: i32,
    /// A sentence for the user (standard error of `ceph`).
    pub text: String,
    /// Standard output of `ceph`.
    pub output: Bytes,
}

impl Answer {
    /// Success with a sentence for the user.
    pub fn said(text: impl Into<String>) -> Self {
        Answer { text: text.into(), ..Answer::default() }
    }

    /// Success with data on standard output.
    pub fn output(output: impl Into<Bytes>) -> Self {
        Answer { output: output.into(), ..Answer::default() }
    }

    /// The same answer with a sentence for the user.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// The same answer with an error as its result.
    #[must_use]
    pub fn failing(mut self, errno: Errno) -> Self {
        self.result = errno.negative();
        self
    }
}

/// The reason a command was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub errno: Errno,
    pub text: String,
}

impl Refusal {
    /// A refusal with a message for the user.
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Refusal { errno, text: text.into() }
    }

    /// `EINVAL`
    pub fn invalid(text: impl Into<String>) -> Self {
        Refusal::new(Errno::INVAL, text)
    }

    /// `ENOENT`
    pub fn missing(text: impl Into<String>) -> Self {
        Refusal::new(Errno::NOENT, text)
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Answer { result: refusal.errno.negative(), text: refusal.text, ..Answer::default() }
    }
}

impl Context<'_> {
    /// The inputs of health checks.
    pub fn view(&self) -> View<'_> {
        View { state: self.state, live: self.live, now: self.now }
    }

    /// Output in the requested format: `json` for structured formats, `plain` otherwise.
    pub fn show(&self, json: impl FnOnce() -> Value, plain: impl FnOnce() -> String) -> Answer {
        match self.format {
            Format::Plain => Answer::output(plain()),
            ref format => Answer::output(format.write(&json())),
        }
    }

    /// Structured output in any case, for commands that have no plain form.
    pub fn json(&self, value: &Value) -> Answer {
        Answer::output(self.format.write(value))
    }
}
