//! The registry of commands, by prefix.

use super::{Command, Refusal, Signature};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Bound of the known commands that an error suggests for an unknown one.
const SUGGESTIONS_MAX: usize = 3;

/// The commands of some families with their parsed signatures.
#[derive(Debug)]
pub struct Registry {
    commands: Vec<(Signature, Command)>,
    /// One prefix may have several signatures.
    by_prefix: BTreeMap<String, Vec<usize>>,
}

/// A command with one of its signatures.
pub type Found<'a> = (&'a Signature, &'a Command);

impl Registry {
    /// Parses the signatures of all commands. Of the same prefix, earlier ones are tried first.
    pub fn new(families: &[&[Command]]) -> Registry {
        let mut registry = Registry { commands: Vec::new(), by_prefix: BTreeMap::new() };
        for command in families.iter().flat_map(|family| family.iter()) {
            let signature = Signature::parse(command.signature);
            let indexes = registry.by_prefix.entry(signature.prefix.clone()).or_default();
            indexes.push(registry.commands.len());
            registry.commands.push((signature, *command));
        }
        registry
    }

    /// The signatures of a prefix, at least one; an error with suggestions for an unknown prefix.
    pub fn find(&self, prefix: &str) -> Result<Vec<Found<'_>>, Refusal> {
        let Some(indexes) = self.by_prefix.get(prefix) else { return Err(self.unknown(prefix)) };
        Ok(indexes.iter().map(|index| &self.commands[*index]).map(|(s, c)| (s, c)).collect())
    }

    /// All commands, with each of their signatures.
    pub fn commands(&self) -> impl Iterator<Item = Found<'_>> {
        self.commands.iter().map(|(signature, command)| (signature, command))
    }

    /// The answer to `get_command_descriptions`.
    pub fn descriptions(&self) -> Value {
        let announced = self.commands().filter(|(_, command)| !command.is_internal());
        let described = announced.enumerate().map(|(number, (signature, command))| {
            (format!("cmd{number:03}"), signature.describe(command))
        });
        Value::Object(described.collect::<Map<_, _>>())
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
    use crate::command::{Answer, command};

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
        let described = registry().descriptions();
        let expected =
            serde_json::json!(["osd", "pool", "create", {"name": "pool", "type": "CephPoolname"}]);
        assert_eq!(described["cmd000"]["sig"], expected);
        assert_eq!(described["cmd000"]["flags"], 0);
    }
}
