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
    constraint::{self, EqualSign},
    mon_grant::{Grant, MonAccess, Subject},
    mon_profiles,
    scanner::Scanner,
};
use crate::AuthCaps;
use std::{collections::BTreeMap, net::IpAddr};
use types::EntityName;

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

    /// Capabilities of `allow *`.
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
            allowed = allowed | self::allowed(grant, access);
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

/// Permissions of one grant for a request; those of a profile are the sum of its grants.
fn allowed(grant: &Grant, access: &MonAccess<'_>) -> Rwx {
    let Subject::Profile(profile) = &grant.subject else { return grant.allowed(access) };
    let grants = mon_profiles::expand(profile, access.name);
    grants.iter().fold(Rwx::NONE, |allowed, grant| allowed | grant.allowed(access))
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
