//! Commands: how they are described, read, allowed and run.
//!
//! A command arrives as one JSON object. [`Registry`] finds its description by prefix,
//! [`Arguments`] are validated against the description's [`Signature`], and the handler gets a
//! [`Context`]. A handler reads the committed state, collects what it wants to change, and answers;
//! it knows neither sessions nor the control store, and may be run again if the store's content
//! changed before its change was committed.

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
use crate::monitor::Overview;
use crate::state::State;
use crate::statistics::Statistics;
use auth::{Entropy, MgrAccess, MgrCaps, Rwx};
use bytes::Bytes;
use engine::Time;
use maps::RawTable;
use serde_json::Value;
use std::net::IpAddr;
use types::{EntityAddrVec, EntityName, Errno};
use wire::options::Running;

/// One command as it is announced to clients.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Prefix and parameters in the syntax of `src/mon/MonCommands.h`.
    pub signature: &'static str,
    pub help: &'static str,
    /// What capabilities call its service.
    pub module: &'static str,
    /// Letters of what it needs: `r`, `rw`, `rwx`.
    pub permission: &'static str,
    pub handler: Handler,
}

impl Command {
    /// Whether a session with the manager may ask for it at all.
    pub fn is_of_manager(&self, prefix: &str) -> bool {
        matches!(self.module, "mgr" | "pg" | "service" | MODULE) || OF_MANAGER.contains(&prefix)
    }

    /// For daemons of this cluster, which know it without being told: people see nothing of it.
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

pub type Handler = fn(&mut Context<'_>) -> Result<Answer, Refusal>;

/// Shortens the tables of the families.
pub const fn command(
    signature: &'static str,
    help: &'static str,
    module: &'static str,
    permission: &'static str,
    handler: Handler,
) -> Command {
    Command { signature, help, module, permission, handler }
}

/// All that a handler may look at.
pub struct Context<'a> {
    pub state: &'a State,
    pub stats: &'a Statistics,
    pub overview: &'a Overview,
    pub registry: &'a Registry,
    pub now: Time,
    pub caller: &'a Caller,
    /// The words that name the command.
    pub prefix: String,
    pub arguments: Arguments,
    /// What the user gave with `-i`.
    pub input: Bytes,
    pub format: Format,
    pub entropy: &'a mut Entropy,
    /// Where CRUSH puts groups, as of some earlier map.
    pub placement: &'a mut RawTable,
    /// The options of this monitor alone.
    pub running: &'a mut Running,
    pub change: Change,
}

/// Who gave the command.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    pub name: EntityName,
    pub addrs: EntityAddrVec,
    /// Whether it may change all of the OSD map, and not only what its profile or single commands allow.
    pub administers_osds: bool,
    /// What a session with the manager may do, and where it comes from.
    pub mgr_caps: Option<(MgrCaps, Option<IpAddr>)>,
}

impl Caller {
    /// Whether what concerns images of a pool and namespace is this caller's business. Where the command alone
    /// decides that, it was decided before.
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

/// What the client gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Zero or a negative errno.
    pub result: i32,
    /// A sentence for people (standard error of `ceph`).
    pub text: String,
    /// Standard output of `ceph`.
    pub output: Bytes,
}

impl Answer {
    /// Success with a sentence.
    pub fn said(text: impl Into<String>) -> Self {
        Answer { text: text.into(), ..Answer::default() }
    }

    pub fn output(output: impl Into<Bytes>) -> Self {
        Answer { output: output.into(), ..Answer::default() }
    }

    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    #[must_use]
    pub fn failing(mut self, errno: Errno) -> Self {
        self.result = errno.negative();
        self
    }
}

/// Why a command was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub errno: Errno,
    pub text: String,
}

impl Refusal {
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Refusal { errno, text: text.into() }
    }

    pub fn invalid(text: impl Into<String>) -> Self {
        Refusal::new(Errno::INVAL, text)
    }

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
    /// What health is judged by.
    pub fn view(&self) -> View<'_> {
        View { state: self.state, stats: self.stats, overview: self.overview, now: self.now }
    }

    /// JSON for programs, text for people.
    pub fn show(&self, json: impl FnOnce() -> Value, plain: impl FnOnce() -> String) -> Answer {
        match self.format {
            Format::Plain => Answer::output(plain()),
            ref format => Answer::output(format.write(&json())),
        }
    }

    /// JSON in any case, for what has no other form.
    pub fn json(&self, value: &Value) -> Answer {
        Answer::output(self.format.write(value))
    }
}
