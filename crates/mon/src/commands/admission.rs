//! Admission of requests: a command is parsed and checked against capabilities when it arrives, before it
//! waits or changes anything; and the messages that reply to it.

use super::image_tasks;
use crate::command::{
    Answer, Arguments, Caller, Command, Description, Format, Refusal, Registry, command,
};
use crate::image_tasks::MODULE;
use crate::job::{Channel, CommandJob, Job};
use crate::sessions::{Caps, Session};
use crate::state::State;
use auth::{MgrAccess, MonAccess, Rwx};
use engine::{ConnId, Message, Time};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use types::Errno;
use wire::{
    CommandReply, MessageBody, MgrCommand, MgrCommandReply, MonCommand, MonCommandAck, PeerFault,
    PoolOp, decode_from_peer,
};

/// The commands of the cluster, and those of this monitor.
pub(crate) struct Registries {
    cluster: Registry,
    daemon: Registry,
}

impl Registries {
    pub fn new(cluster: Registry, daemon: Registry) -> Self {
        Registries { cluster, daemon }
    }

    /// The commands that messages of a channel may carry.
    pub fn of(&self, channel: Channel) -> &Registry {
        match channel {
            Channel::Monitor | Channel::Manager => &self.cluster,
            Channel::Tell => &self.daemon,
        }
    }
}

/// The services whose commands the console has buttons for.
const CHANGED_BY_CONSOLE: [&str; 4] = ["mon", "osd", "pg", "mgr"];

/// Allowed in every session: clients learn the available commands from it.
const DESCRIPTIONS: Command = command("get_command_descriptions", "", "mon", "", |context| {
    Ok(Answer::output(context.commands.json().to_string()))
});

/// A command with valid arguments that the session is allowed to run.
pub(crate) struct Admitted {
    pub command: Command,
    pub prefix: String,
    pub arguments: Arguments,
    pub format: Format,
}

impl Admitted {
    /// Whether it can run without waiting in the queue.
    pub fn only_reads(&self) -> bool {
        self.command.description.only_reads()
    }
}

/// Parses a command and checks it against the capabilities of its session. Does not depend on the
/// cluster's state.
pub(crate) fn admit(
    session: Option<&Session>,
    registries: &Registries,
    job: &CommandJob,
) -> Result<Admitted, Refusal> {
    let given = parse(&job.command)?;
    let prefix = given.get("prefix").and_then(Value::as_str);
    let prefix = prefix.ok_or_else(|| Refusal::invalid("the command has no 'prefix'"))?;
    if prefix == "get_command_descriptions" {
        let (command, arguments, prefix) = (DESCRIPTIONS, Arguments::default(), prefix.to_owned());
        return Ok(Admitted { command, prefix, arguments, format: Format::Json });
    }
    let format = given.get("format").and_then(Value::as_str).unwrap_or_default();
    let format = Format::from_name(format, prefix);
    let candidates = registries.of(job.channel).find(prefix)?;
    assert!(!candidates.is_empty(), "a known command has a signature");
    check_manager(session, prefix, &candidates[0].1.description)?;
    let validated: Vec<_> = candidates
        .iter()
        .map(|(signature, command)| (Arguments::validate(signature, &given), *command))
        .collect();
    // The first signature that fits; if none does, the error of the last one.
    let fitting = validated.iter().position(|(arguments, _)| arguments.is_ok());
    let index = fitting.unwrap_or(validated.len() - 1);
    let (arguments, command) = validated.into_iter().nth(index).expect("the index is valid");
    let words = arguments.as_ref().map(Arguments::flattened).unwrap_or_default();
    if !may_run(session, prefix, &command.description, &words) {
        return Err(Refusal::new(Errno::ACCES, "access denied"));
    }
    let prefix = prefix.to_owned();
    Ok(Admitted { command, prefix, arguments: arguments?, format })
}

/// Restricts a session with the manager to the manager's commands. Its capabilities are given to users
/// with few rights at the monitors, and do not cover the keys that monitors protect even from `allow rw`.
fn check_manager(
    session: Option<&Session>,
    prefix: &str,
    description: &Description,
) -> Result<(), Refusal> {
    let is_manager = session.is_some_and(|session| matches!(session.caps(), Caps::Mgr(_)));
    match is_manager && !description.is_of_manager() {
        true => Err(Refusal::invalid(format!(
            "the manager does not know '{prefix}': it is a command of the monitors"
        ))),
        false => Ok(()),
    }
}

fn may_run(
    session: Option<&Session>,
    prefix: &str,
    description: &Description,
    arguments: &BTreeMap<String, String>,
) -> bool {
    let Some(session) = session else { return false };
    let (module, needed) = (description.module, Rwx::from_letters(description.permission));
    let (name, peer) = (&session.peer().name, session.ip());
    match session.caps() {
        Caps::Mon(caps) => caps.allows(&MonAccess {
            name,
            service: module,
            command: prefix,
            arguments,
            needed,
            peer,
        }),
        Caps::Mgr(caps) if module == MODULE => {
            let allows = |command, arguments| {
                caps.allows(&MgrAccess { service: "", module, command, arguments, needed, peer })
            };
            // A capability for a pool is checked against the pool of the named image, or against that of
            // each task.
            let by_task = description.by_task;
            allows(prefix, arguments) && (by_task || allows("", &image_tasks::scope(arguments)))
        }
        Caps::Mgr(caps) => caps.allows(&MgrAccess {
            service: module,
            module: "",
            command: prefix,
            arguments,
            needed,
            peer,
        }),
    }
}

/// The caller of a command, from its session.
pub(crate) fn caller(session: Option<&Session>) -> Caller {
    let Some(session) = session else { return Caller::default() };
    let mgr_caps = match session.caps() {
        Caps::Mgr(caps) => Some((caps.clone(), session.ip())),
        Caps::Mon(_) => None,
    };
    let peer = session.peer();
    let administers_osds = session.may("osd", Rwx::READ_WRITE);
    let mut changes = CHANGED_BY_CONSOLE.to_vec();
    changes.retain(|service| session.may(service, Rwx::READ_WRITE));
    Caller {
        name: peer.name.clone(),
        addrs: peer.addrs.clone(),
        administers_osds,
        changes,
        mgr_caps,
    }
}

/// The pieces of a command together begin with one JSON object. Trailing text is ignored: `rbd perf image
/// iostat` of 16.2 to 20.2 sends a quotation mark there.
fn parse(command: &[String]) -> Result<Map<String, Value>, Refusal> {
    let text = command.concat();
    match serde_json::Deserializer::from_str(&text).into_iter().next() {
        Some(Ok(Value::Object(object))) => Ok(object),
        Some(Ok(_)) => Err(Refusal::invalid("the command is not a JSON object")),
        Some(Err(error)) => {
            Err(Refusal::invalid(format!("the command is not valid JSON: {error}")))
        }
        None => Err(Refusal::invalid("the command is not valid JSON: it is empty")),
    }
}

/// The operation that a message requests; `None` for messages that are no operations.
pub(crate) fn decode_job(
    asked: Time,
    conn: ConnId,
    message: &Message,
) -> Result<Option<Job>, PeerFault> {
    let (channel, command, input) = match message.kind {
        MonCommand::KIND => {
            let MonCommand { command, input, .. } = decode_from_peer::<MonCommand>(message)?;
            (Channel::Monitor, command, input)
        }
        MgrCommand::KIND => {
            let MgrCommand { command, input, .. } = decode_from_peer::<MgrCommand>(message)?;
            (Channel::Manager, command, input)
        }
        wire::Command::KIND => {
            let wire::Command { command, input, .. } = decode_from_peer::<wire::Command>(message)?;
            (Channel::Tell, command, input)
        }
        PoolOp::KIND => {
            let (tid, op) = (message.tid, decode_from_peer::<PoolOp>(message)?);
            return Ok(Some(Job::PoolOp { conn, tid, op, asked }));
        }
        _ => return Ok(None),
    };
    let command = CommandJob { conn, tid: message.tid, channel, command, input, asked };
    Ok(Some(Job::Command(Box::new(command))))
}

/// The reply to a command, in the message kind of its channel.
pub(crate) fn reply(job: &CommandJob, state: &State, answer: Answer) -> Message {
    let Answer { result, text, output } = answer;
    let message = match job.channel {
        Channel::Monitor => MonCommandAck {
            version: state.osdmap.epoch.0.into(),
            result,
            text,
            command: job.command.clone(),
            output,
        }
        .encode(0),
        Channel::Manager => MgrCommandReply { result, text, output }.encode(0),
        Channel::Tell => CommandReply { result, text, output }.encode(0),
    };
    message.with_tid(job.tid)
}
