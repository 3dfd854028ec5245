//! The inputs of a command's handler.

use super::answer::Answer;
use super::arguments::Arguments;
use super::description::Descriptions;
use super::output::Format;
use crate::change::Change;
use crate::health::{Checks, View};
use crate::image_tasks::MODULE;
use crate::links::Links;
use crate::live::Live;
use crate::state::State;
use auth::{Entropy, MgrAccess, MgrCaps, Rwx};
use bytes::Bytes;
use engine::Time;
use maps::RawTable;
use serde_json::Value;
use std::net::IpAddr;
use types::{EntityAddrVec, EntityName};
use wire::options::Running;

/// A handler's inputs, and the change that it fills.
pub struct Context<'a> {
    pub state: &'a State,
    pub live: Live<'a>,
    /// The commands of the session's registry, for help.
    pub commands: &'a Descriptions,
    pub checks: Checks,
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
    /// One-time links to the console.
    pub links: &'a mut Links,
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
    /// Of the services that the console has buttons for, those that its capabilities allow to change.
    pub changes: Vec<&'static str>,
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

impl Context<'_> {
    /// The inputs of health checks.
    pub fn view(&self) -> View<'_> {
        View { state: self.state, live: self.live, checks: self.checks, now: self.now }
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
