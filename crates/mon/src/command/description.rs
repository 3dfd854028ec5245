//! Descriptions of commands, as clients and capabilities see them.

use super::signature::{Param, Signature};
use crate::image_tasks::MODULE;
use serde_json::{Map, Value, json};

/// Flag of commands that clients send to the manager, whose capabilities count.
const FOR_MANAGER: u32 = 1 << 3;

/// One command as described to clients.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// Prefix and parameters in the syntax of `src/mon/MonCommands.h`.
    pub signature: &'static str,
    /// One line for `ceph --help`.
    pub help: &'static str,
    /// The service whose capability the command needs (`mon`, `osd`, `mgr`, …).
    pub module: &'static str,
    /// The permissions it needs, as letters: `r`, `rw`, `rwx`.
    pub permission: &'static str,
    /// Whether Ceph's manager answers it although its service is one of monitors.
    pub of_manager: bool,
    /// Whether it is for daemons of this cluster only, and is hidden from help.
    pub internal: bool,
    /// Whether the handler checks a manager's capability for a pool against each task. The others of
    /// `rbd_support` are checked on admission, against the pool of the image that the arguments name.
    pub by_task: bool,
}

impl Description {
    /// Whether it may be sent in a session with the manager.
    pub fn is_of_manager(&self) -> bool {
        self.of_manager || matches!(self.module, "mgr" | "pg" | "service" | MODULE)
    }

    /// Whether it changes nothing.
    pub fn only_reads(&self) -> bool {
        !self.permission.contains('w')
    }

    /// As in `get_command_descriptions`.
    pub fn describe(&self, signature: &Signature) -> Value {
        let words = signature.prefix.split(' ').map(|word| Value::from(word.to_owned()));
        let shown: Vec<Value> = words.chain(signature.params.iter().map(Param::describe)).collect();
        json!({
            "sig": shown,
            "help": self.help,
            "module": self.module,
            "perm": self.permission,
            "flags": if self.module == MODULE { FOR_MANAGER } else { 0 },
        })
    }
}

/// The commands of a registry, with their parsed signatures.
#[derive(Debug, Default)]
pub struct Descriptions(Vec<(Signature, Description)>);

impl Descriptions {
    /// Appends a command.
    pub(super) fn push(&mut self, signature: Signature, description: Description) {
        self.0.push((signature, description));
    }

    /// The command of an index.
    pub(super) fn get(&self, index: usize) -> &(Signature, Description) {
        &self.0[index]
    }

    /// All commands, with each of their signatures.
    pub fn iter(&self) -> impl Iterator<Item = (&Signature, &Description)> {
        self.0.iter().map(|(signature, description)| (signature, description))
    }

    /// The answer to `get_command_descriptions`.
    pub fn json(&self) -> Value {
        let announced = self.iter().filter(|(_, description)| !description.internal);
        let described = announced.enumerate().map(|(number, (signature, description))| {
            (format!("cmd{number:03}"), description.describe(signature))
        });
        Value::Object(described.collect::<Map<_, _>>())
    }
}
