//! Responses to administrators' commands.

use bytes::Bytes;
use rados::CommandOutput;
use types::Errno;

/// Commands that were answered since [`Commands::forget`].
#[derive(Default)]
pub struct Commands {
    done: Vec<(String, Result<i32, Errno>)>,
    output: Bytes,
    /// The control store was restored: state that it lacks cannot be changed any more.
    has_restored_control: bool,
}

impl Commands {
    /// Notes a response. No command fails with EIO before the control store was restored, since monitors wait
    /// for the store.
    pub fn note(&mut self, command: String, outcome: Result<CommandOutput, Errno>) {
        let outcome = outcome.map(|output| {
            self.output = output.output;
            output.result
        });
        assert!(
            outcome != Ok(-Errno::IO.0) || self.has_restored_control,
            "{command}: monitors wait for the control store"
        );
        self.done.push((command, outcome));
    }

    /// The result of a command that was answered.
    pub fn outcome(&self, command: &str) -> Option<Result<i32, Errno>> {
        self.done.iter().find(|(of, _)| of == command).map(|(_, outcome)| *outcome)
    }

    /// True if one of the responses to that command is a success.
    pub fn has_succeeded(&self, command: &str) -> bool {
        self.done.iter().any(|(of, outcome)| of == command && *outcome == Ok(0))
    }

    /// The output of the last command.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Forgets all responses.
    pub fn forget(&mut self) {
        self.done.clear();
    }

    /// From now on commands may fail with EIO.
    pub fn note_restored_control(&mut self) {
        self.has_restored_control = true;
    }
}
