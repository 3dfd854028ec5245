//! The registry of commands, by prefix.

use super::answer::{Answer, Refusal};
use super::context::Context;
use super::description::{Description, Descriptions};
use super::signature::Signature;
use std::collections::BTreeMap;

/// Bound of the known commands that an error suggests for an unknown one.
const SUGGESTIONS_MAX: usize = 3;

/// Runs a command: returns its answer, with its writes collected in [`Context::change`], or the reason for
/// refusing it.
pub type Handler = fn(&mut Context<'_>) -> Result<Answer, Refusal>;

/// A command: its description, and the function that runs it.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    pub description: Description,
    pub handler: Handler,
}

/// Shorthand for the tables of the families.
pub const fn command(
    signature: &'static str,
    help: &'static str,
    module: &'static str,
    permission: &'static str,
    handler: Handler,
) -> Command {
    let (of_manager, internal, by_task) = (false, false, false);
    let description =
        Description { signature, help, module, permission, of_manager, internal, by_task };
    Command { description, handler }
}

impl Command {
    /// The same command; it may be sent in a session with the manager.
    pub const fn of_manager(mut self) -> Self {
        self.description.of_manager = true;
        self
    }

    /// The same command, for daemons of this cluster only.
    pub const fn internal(mut self) -> Self {
        self.description.internal = true;
        self
    }

    /// The same command; its handler checks a manager's capability for a pool against each task.
    pub const fn by_task(mut self) -> Self {
        self.description.by_task = true;
        self
    }
}

/// The commands of some families with their parsed signatures.
#[derive(Debug, Default)]
pub struct Registry {
    descriptions: Descriptions,
    /// In the order of the descriptions.
    handlers: Vec<Handler>,
    /// One prefix may have several signatures.
    by_prefix: BTreeMap<String, Vec<usize>>,
}

/// A command with one of its signatures.
pub type Found<'a> = (&'a Signature, Command);

impl Registry {
    /// Parses the signatures of all commands. Of the same prefix, earlier ones are tried first.
    pub fn new(families: &[&[Command]]) -> Registry {
        let mut registry = Registry::default();
        families.iter().flat_map(|family| family.iter()).for_each(|command| registry.add(command));
        registry
    }

    fn add(&mut self, command: &Command) {
        let signature = Signature::parse(command.description.signature);
        assert!(!signature.prefix.is_empty(), "a command has a name");
        let indexes = self.by_prefix.entry(signature.prefix.clone()).or_default();
        indexes.push(self.handlers.len());
        self.descriptions.push(signature, command.description);
        self.handlers.push(command.handler);
    }

    /// The signatures of a prefix, at least one; an error with suggestions for an unknown prefix.
    pub fn find(&self, prefix: &str) -> Result<Vec<Found<'_>>, Refusal> {
        let Some(indexes) = self.by_prefix.get(prefix) else { return Err(self.unknown(prefix)) };
        Ok(indexes.iter().map(|index| self.found(*index)).collect())
    }

    fn found(&self, index: usize) -> Found<'_> {
        let (signature, description) = self.descriptions.get(index);
        let handler = self.handlers[index];
        (signature, Command { description: *description, handler })
    }

    /// The descriptions of all commands, with each of their signatures.
    pub fn descriptions(&self) -> &Descriptions {
        &self.descriptions
    }

    fn unknown(&self, prefix: &str) -> Refusal {
        let mut known: Vec<&String> = self.by_prefix.keys().collect();
        known.sort_by_key(|candidate| (distance(prefix, candidate), candidate.len()));
        let quoted: Vec<String> =
            known.into_iter().take(SUGGESTIONS_MAX).map(|name| format!("'{name}'")).collect();
        let closest = quoted.join(", ");
        Refusal::invalid(format!("unknown command '{prefix}'; the closest ones are {closest}"))
    }
}

/// Levenshtein distance in which a different beginning counts double: commands that begin alike are likely
/// meant.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    2 * row[b.len()] + a.len() - common
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        const TABLE: &[Command] = &[
            command("osd pool create name=pool,type=CephPoolname", "", "osd", "rw", |_| {
                Ok(Answer::default())
            }),
            command("osd pool ls", "", "osd", "r", |_| Ok(Answer::default())),
            command("status", "", "mon", "r", |_| Ok(Answer::default())),
        ];
        Registry::new(&[TABLE])
    }

    #[test]
    fn an_unknown_command_is_named_with_its_likely_meaning() {
        let registry = registry();
        let refusal = registry.find("osd pool creat").unwrap_err();
        assert!(refusal.text.starts_with(
            "unknown command 'osd pool creat'; the closest ones are 'osd pool create'"
        ));
        assert!(registry.find("statsu").unwrap_err().text.contains("are 'status'"));
        assert!(registry.find("status").is_ok());
    }

    #[test]
    fn descriptions_carry_words_and_attributes() {
        let described = registry().descriptions().json();
        let expected =
            serde_json::json!(["osd", "pool", "create", {"name": "pool", "type": "CephPoolname"}]);
        assert_eq!(described["cmd000"]["sig"], expected);
        assert_eq!(described["cmd000"]["flags"], 0);
    }
}
