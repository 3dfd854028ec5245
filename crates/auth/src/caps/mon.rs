//! Capabilities for the monitor (`MonCap`).
//!
//! ```text
//! grant = "allow" rwx [network] [fsname NAME]
//!       | ["allow"] profile NAME [network]
//!       | "allow" service NAME rwx [network]
//!       | "allow" command PREFIX [with CONDITION...] [network]
//! ```
//!
//! The permissions of all matching grants add up: one may allow to read and another to write.

use super::{
    CapsError, Rwx,
    constraint::{self, Constraints, EqualSign},
    mon_profiles,
    network::Network,
    scanner::Scanner,
};
use crate::AuthCaps;
use std::{collections::BTreeMap, net::IpAddr};
use types::EntityName;

/// A request to the monitor whose permission is checked.
#[derive(Debug, Clone, Copy)]
pub struct MonAccess<'a> {
    pub name: &'a EntityName,
    /// The service of the monitor that is addressed: `mon`, `osd`, `pg`, `auth`, `config-key`...
    pub service: &'a str,
    /// The command's prefix; empty for messages other than commands.
    pub command: &'a str,
    pub arguments: &'a BTreeMap<String, String>,
    pub needed: Rwx,
    pub peer: Option<IpAddr>,
}

/// Parsed capabilities of one entity for the monitor.
#[derive(Debug, Clone, Default)]
pub struct MonCaps {
    grants: Vec<Grant>,
}

impl MonCaps {
    /// Parses a whole text; on an error nothing is granted.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        Scanner::grants("mon", text, read_grant).map(|grants| MonCaps { grants })
    }

    /// Capabilities of a ticket. A ticket without text grants nothing.
    pub fn granted(caps: &AuthCaps) -> Result<Self, CapsError> {
        match caps.text.as_str() {
            _ if caps.allow_all => Ok(MonCaps::allow_all()),
            "" => Ok(MonCaps::default()),
            text => MonCaps::parse(text),
        }
    }

    pub fn allow_all() -> Self {
        MonCaps { grants: vec![Grant::new(Subject::Everything, Rwx::ANY)] }
    }

    /// True if every request from every address is allowed.
    pub fn allows_all(&self) -> bool {
        self.grants.iter().any(|grant| grant.network.is_none() && grant.allows_all())
    }

    /// True if the permissions of all matching grants together include `access.needed`.
    pub fn allows(&self, access: &MonAccess<'_>) -> bool {
        let mut allowed = Rwx::NONE;
        for grant in &self.grants {
            if grant.network.as_ref().is_some_and(|network| !network.contains(access.peer)) {
                continue;
            }
            allowed = allowed | grant.allowed(access);
            if grant.allows_all() || allowed.contains(access.needed) {
                return true;
            }
        }
        false
    }

    /// True if a grant names this profile.
    pub fn has_profile(&self, name: &str) -> bool {
        let is_wanted =
            |grant: &Grant| matches!(&grant.subject, Subject::Profile(profile) if profile == name);
        self.grants.iter().any(is_wanted)
    }

    /// True if a message (not a command) to one of the monitor's services is allowed.
    pub fn allows_service(
        &self,
        name: &EntityName,
        service: &str,
        needed: Rwx,
        peer: Option<IpAddr>,
    ) -> bool {
        let arguments = &BTreeMap::new();
        self.allows(&MonAccess { name, service, command: "", arguments, needed, peer })
    }
}

/// `MonCapGrant`
#[derive(Debug, Clone)]
pub(super) struct Grant {
    subject: Subject,
    permissions: Rwx,
    network: Option<Network>,
}

/// The scope of a grant.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    Everything,
    /// As `Everything`, restricted to one file system.
    FileSystem,
    Service(String),
    Profile(String),
    Command {
        prefix: String,
        constraints: Constraints,
    },
}

impl Grant {
    pub fn new(subject: Subject, permissions: Rwx) -> Self {
        Grant { subject, permissions, network: None }
    }

    fn within(mut self, network: Option<String>) -> Self {
        self.network = network.as_deref().map(Network::parse);
        self
    }

    fn allows_all(&self) -> bool {
        matches!(self.subject, Subject::Everything) && self.permissions == Rwx::ANY
    }

    fn allowed(&self, access: &MonAccess<'_>) -> Rwx {
        let applies = match &self.subject {
            Subject::Profile(profile) => {
                return mon_profiles::expand(profile, access.name)
                    .iter()
                    .fold(Rwx::NONE, |allowed, grant| allowed | grant.allowed(access));
            }
            Subject::Service(service) => service == access.service,
            Subject::Command { prefix, constraints } => {
                prefix == access.command && constraint::all_hold(constraints, access.arguments)
            }
            // The key-value store holds secrets: only `*` grants access to it as a whole.
            Subject::Everything | Subject::FileSystem => access.service != "config-key",
        };
        if applies { self.permissions } else { Rwx::NONE }
    }
}

fn read_grant(s: &mut Scanner<'_>) -> Option<Grant> {
    s.attempt(read_blanket)
        .or_else(|| s.attempt(read_profile))
        .or_else(|| s.attempt(read_service))
        .or_else(|| s.attempt(read_command))
}

fn read_blanket(s: &mut Scanner<'_>) -> Option<Grant> {
    s.expect("allow")?;
    s.spaces()?;
    let permissions = s.rwx()?;
    let network = s.network_clause();
    let file_system = s.attempt(|s| {
        s.spaces()?;
        s.label("fsname")?;
        s.bare_word()
    });
    let subject = if file_system.is_some() { Subject::FileSystem } else { Subject::Everything };
    Some(Grant::new(subject, permissions).within(network))
}

fn read_profile(s: &mut Scanner<'_>) -> Option<Grant> {
    s.attempt(|s| {
        s.expect("allow")?;
        s.spaces()
    });
    s.label("profile")?;
    let profile = s.word()?;
    Some(Grant::new(Subject::Profile(profile), Rwx::NONE).within(s.network_clause()))
}

fn read_service(s: &mut Scanner<'_>) -> Option<Grant> {
    s.expect("allow")?;
    s.spaces()?;
    s.label("service")?;
    let service = s.word()?;
    s.spaces()?;
    let permissions = s.rwx()?;
    Some(Grant::new(Subject::Service(service), permissions).within(s.network_clause()))
}

fn read_command(s: &mut Scanner<'_>) -> Option<Grant> {
    s.expect("allow")?;
    s.spaces()?;
    s.label("command")?;
    let prefix = s.word()?;
    let conditions = s.attempt(|s| {
        s.spaced("with")?;
        s.spaces()?;
        constraint::read(s, EqualSign::Tight)
    });
    let subject = Subject::Command { prefix, constraints: conditions.unwrap_or_default() };
    Some(Grant::new(subject, Rwx::ALL).within(s.network_clause()))
}

#[cfg(test)]
mod tests;
