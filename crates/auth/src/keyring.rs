//! Keyring files: text with the keys and capabilities of entities.
//!
//! ```text
//! [client.admin]
//!         key = AQ...==
//!         caps mon = "allow *"
//! ```
//!
//! The text follows the rules of Ceph's configuration files as far as keyrings use them: sections, `name =
//! value`, quotes, `#` and `;` comments, `_` for a blank in names. [`Keyring::to_string`] writes the format
//! of `ceph auth export`.

use crate::{CryptoKey, EntityAuth, KeyStore, KeyTextError};
use std::{collections::BTreeMap, fmt, str::FromStr};
use types::EntityName;

/// `KeyRing`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyring {
    /// Keys and capabilities by name.
    pub entities: BTreeMap<EntityName, EntityAuth>,
}

/// Reason why text is not a keyring; lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The name of a section is no entity.
    #[error("line {line}: '{name}' is no entity name such as client.admin")]
    EntityName {
        /// Number of the line.
        line: usize,
        /// Name of the section.
        name: String,
    },
    /// A line that is neither a section, nor a setting, nor a comment.
    #[error("line {line}: expected 'name = value' or a [section], found '{text}'")]
    Syntax {
        /// Number of the line.
        line: usize,
        /// The line.
        text: String,
    },
    /// A setting that belongs to no entity.
    #[error("line {line}: '{setting}' stands before any [section]")]
    NoSection {
        /// Number of the line.
        line: usize,
        /// Name of the setting.
        setting: String,
    },
    /// A setting that keyrings do not have.
    #[error("line {line}: unknown setting '{setting}', known are key and caps")]
    UnknownSetting {
        /// Number of the line.
        line: usize,
        /// Name of the setting.
        setting: String,
    },
    /// The value of `key` is no key.
    #[error("line {line}: bad key")]
    Key {
        /// Number of the line.
        line: usize,
        /// The reason.
        #[source]
        source: KeyTextError,
    },
}

impl Keyring {
    /// `None` if the keyring does not have the entity.
    pub fn key(&self, name: &EntityName) -> Option<&CryptoKey> {
        self.entities.get(name).map(|entity| &entity.key)
    }

    fn apply(
        &mut self,
        line: usize,
        section: &EntityName,
        setting: &str,
        value: &str,
    ) -> Result<(), KeyringError> {
        let entity = self.entities.entry(section.clone()).or_default();
        let setting = setting.replace('_', " ");
        let words: Vec<&str> = setting.split_whitespace().collect();
        match words[..] {
            ["key"] => entity.key = parse_key(line, value)?,
            ["pending", "key"] => entity.pending_key = Some(parse_key(line, value)?),
            ["caps", service] => {
                entity.caps.insert(service.to_owned(), value.to_owned());
            }
            // Keyrings of very old clusters have a numeric owner, which is ignored.
            ["auid"] => {}
            _ => return Err(KeyringError::UnknownSetting { line, setting }),
        }
        Ok(())
    }
}

impl KeyStore for Keyring {
    fn entity_auth(&self, name: &EntityName) -> Option<&EntityAuth> {
        self.entities.get(name)
    }
}

impl FromStr for Keyring {
    type Err = KeyringError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut keyring = Keyring::default();
        // Settings of a section named `global` belong to no entity.
        let mut section: Option<Option<EntityName>> = None;
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = section_name(text) {
                let entity = parse_section(line, name)?;
                if let Some(name) = &entity {
                    keyring.entities.entry(name.clone()).or_default();
                }
                section = Some(entity);
                continue;
            }
            let syntax = || KeyringError::Syntax { line, text: text.to_owned() };
            let (setting, value) = text.split_once('=').ok_or_else(syntax)?;
            let setting = setting.trim();
            let value = unquote(value.trim()).ok_or_else(syntax)?;
            match &section {
                None => return Err(KeyringError::NoSection { line, setting: setting.into() }),
                Some(None) => {}
                Some(Some(name)) => keyring.apply(line, name, setting, &value)?,
            }
        }
        Ok(keyring)
    }
}

impl fmt::Display for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, entity) in &self.entities {
            writeln!(f, "[{name}]\n\tkey = {}", entity.key)?;
            if let Some(pending) = &entity.pending_key {
                writeln!(f, "\tpending key = {pending}")?;
            }
            for (service, caps) in &entity.caps {
                writeln!(f, "\tcaps {service} = \"{}\"", caps.replace('"', "\\\""))?;
            }
        }
        Ok(())
    }
}

fn section_name(text: &str) -> Option<&str> {
    let end = text.find(']')?;
    text[..end].strip_prefix('[').map(str::trim)
}

fn parse_section(line: usize, name: &str) -> Result<Option<EntityName>, KeyringError> {
    if name == "global" {
        return Ok(None);
    }
    let name = name.parse().map_err(|()| KeyringError::EntityName { line, name: name.into() })?;
    Ok(Some(name))
}

fn parse_key(line: usize, value: &str) -> Result<CryptoKey, KeyringError> {
    value.parse().map_err(|source| KeyringError::Key { line, source })
}

/// A value without its quotes, escapes and trailing comment; `None` if a quote is not closed.
fn unquote(value: &str) -> Option<String> {
    let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let end = value.find(['#', ';']).unwrap_or(value.len());
        return Some(value[..end].trim_end().to_owned());
    };
    let mut text = String::new();
    let mut chars = value[1..].chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next()?),
            c if c == quote => return Some(text),
            c => text.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `ceph-authtool` 16.2.15.
    const ADMIN: &str = include_str!("../tests/golden/admin.keyring");
    /// Written by `ceph-authtool` 20.2.4 with `--key-type aes256k`.
    const STRONG: &str = include_str!("../tests/golden/aes256k.keyring");

    #[test]
    fn files_of_the_real_tool_are_read_and_written_unchanged() {
        for text in [ADMIN, STRONG] {
            let keyring: Keyring = text.parse().unwrap();
            assert_eq!(keyring.to_string(), text);
        }
    }

    #[test]
    fn names_keys_and_caps_are_understood() {
        let keyring: Keyring = ADMIN.parse().unwrap();
        let admin = &keyring.entities[&EntityName::client("admin")];
        assert_eq!(admin.key.kind(), crate::KeyType::Aes);
        assert_eq!(admin.caps["mon"], "allow *");
        assert_eq!(admin.caps["osd"], "allow rwx pool=\"a b\", allow r");
    }

    #[test]
    fn loose_spelling_is_accepted() {
        let key =
            CryptoKey::from_secret(crate::KeyType::Aes, Default::default(), &[1; 16]).unwrap();
        let text = format!(
            "# comment\n[global]\nfsid = x\n  [ client.a ]  ; one\nkey={key}\ncaps_mon = allow r ; c\n\
             caps osd = 'allow \"x\"' # more\nauid = 0\n"
        );
        let keyring: Keyring = text.parse().unwrap();
        let entity = &keyring.entities[&EntityName::client("a")];
        assert_eq!(entity.key, key);
        assert_eq!(entity.caps["mon"], "allow r");
        assert_eq!(entity.caps["osd"], "allow \"x\"");
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| text.parse::<Keyring>().unwrap_err().to_string();
        assert!(error("[nobody]").starts_with("line 1: 'nobody' is no entity name"));
        assert!(error("key = x").starts_with("line 1: 'key' stands before"));
        assert_eq!(error("\n[client.a]\nkey = ?"), "line 3: bad key");
        assert!(error("[client.a]\ncolour = red").starts_with("line 2: unknown setting 'colour'"));
        assert!(error("[client.a]\ncaps mon = \"open").starts_with("line 2: expected"));
    }
}
