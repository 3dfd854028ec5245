//! Capabilities for the manager (`MgrCap`).
//!
//! ```text
//! grant = "allow" rwx [network]
//!       | ["allow"] profile NAME [CONDITION...] [network]
//!       | "allow" service NAME rwx [network]
//!       | "allow" module NAME [with CONDITION...] rwx [network]
//!       | "allow" command PREFIX [with CONDITION...] [network]
//! ```
//!
//! The permissions of all matching grants add up, as in the monitor's capabilities.

use super::{
    CapsError, Rwx,
    constraint::{self, Constraints, EqualSign},
    network::Network,
    scanner::Scanner,
};
use crate::AuthCaps;
use std::{collections::BTreeMap, net::IpAddr};

/// A request to the manager whose permission is checked.
#[derive(Debug, Clone, Copy)]
pub struct MgrAccess<'a> {
    /// The service of the manager that is addressed.
    pub service: &'a str,
    /// The module that answers; empty for the manager itself.
    pub module: &'a str,
    /// The command's prefix; empty when a module checks its own arguments.
    pub command: &'a str,
    /// The command's arguments by name, as text.
    pub arguments: &'a BTreeMap<String, String>,
    /// Permissions that the request needs.
    pub needed: Rwx,
    /// Address of the client; `None` matches no network.
    pub peer: Option<IpAddr>,
}

/// Parsed capabilities of one entity for the manager.
#[derive(Debug, Clone, Default)]
pub struct MgrCaps {
    grants: Vec<Grant>,
}

impl MgrCaps {
    /// Parses a whole text; on an error nothing is granted.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let grants = Scanner::grants("mgr", text, read_grant)?;
        let grants = grants.into_iter().map(Grant::resolve).collect::<Result<_, _>>()?;
        Ok(MgrCaps { grants })
    }

    /// Capabilities of a ticket. A ticket without text grants nothing.
    pub fn granted(caps: &AuthCaps) -> Result<Self, CapsError> {
        match caps.text.as_str() {
            _ if caps.allow_all => Ok(MgrCaps::allow_all()),
            "" => Ok(MgrCaps::default()),
            text => MgrCaps::parse(text),
        }
    }

    /// Capabilities of `allow *`.
    pub fn allow_all() -> Self {
        MgrCaps { grants: vec![Grant::new(Subject::Everything, Rwx::ANY)] }
    }

    /// True if every request from every address is allowed.
    pub fn allows_all(&self) -> bool {
        self.grants.iter().any(|grant| grant.network.is_none() && grant.allows_all())
    }

    /// True if any request from this address may be allowed.
    pub fn grants_any(&self, peer: Option<IpAddr>) -> bool {
        self.grants.iter().any(|grant| grant.is_for(peer))
    }

    /// True if the permissions of all matching grants together include `access.needed`.
    pub fn allows(&self, access: &MgrAccess<'_>) -> bool {
        let mut allowed = Rwx::NONE;
        for grant in &self.grants {
            if !grant.is_for(access.peer) {
                continue;
            }
            allowed = allowed | grant.allowed(access);
            if grant.allows_all() || allowed.contains(access.needed) {
                return true;
            }
        }
        false
    }
}

/// `MgrCapGrant`
#[derive(Debug, Clone)]
struct Grant {
    subject: Subject,
    permissions: Rwx,
    network: Option<Network>,
}

/// The scope of a grant.
#[derive(Debug, Clone)]
enum Subject {
    Everything,
    /// A known profile that grants nothing here.
    Nothing,
    Service(String),
    Module {
        module: String,
        constraints: Constraints,
    },
    Profile {
        profile: String,
        constraints: Constraints,
    },
    Command {
        prefix: String,
        constraints: Constraints,
    },
}

impl Grant {
    fn new(subject: Subject, permissions: Rwx) -> Self {
        Grant { subject, permissions, network: None }
    }

    fn within(mut self, network: Option<String>) -> Self {
        self.network = network.as_deref().map(Network::parse);
        self
    }

    /// Replaces a profile by the grant that it abbreviates.
    fn resolve(self) -> Result<Self, CapsError> {
        let Subject::Profile { profile, constraints } = self.subject else { return Ok(self) };
        let (subject, permissions) = expand(profile, constraints)?;
        Ok(Grant { subject, permissions, network: self.network })
    }

    fn is_for(&self, peer: Option<IpAddr>) -> bool {
        self.network.as_ref().is_none_or(|network| network.contains(peer))
    }

    fn allows_all(&self) -> bool {
        matches!(self.subject, Subject::Everything) && self.permissions == Rwx::ANY
    }

    fn allowed(&self, access: &MgrAccess<'_>) -> Rwx {
        let applies = match &self.subject {
            Subject::Everything => true,
            Subject::Nothing | Subject::Profile { .. } => false,
            Subject::Service(service) => service == access.service,
            // A module checks the arguments of a command itself, with a second request without the command.
            Subject::Module { module, constraints } => {
                module == access.module
                    && (!access.command.is_empty()
                        || constraint::all_hold(constraints, access.arguments))
            }
            Subject::Command { prefix, constraints } => {
                prefix == access.command && constraint::all_hold(constraints, access.arguments)
            }
        };
        if applies { self.permissions } else { Rwx::NONE }
    }
}

fn expand(profile: String, constraints: Constraints) -> Result<(Subject, Rwx), CapsError> {
    let rbd_support = |permissions| {
        let foreign = constraints.keys().find(|key| !matches!(key.as_str(), "pool" | "namespace"));
        match foreign.cloned() {
            Some(key) => Err(CapsError::UnknownMgrProfileKey { profile: profile.clone(), key }),
            None => {
                let (module, constraints) = ("rbd_support".to_owned(), constraints.clone());
                Ok((Subject::Module { module, constraints }, permissions))
            }
        }
    };
    match profile.as_str() {
        "read-only" => Ok((Subject::Everything, Rwx::READ)),
        "read-write" => Ok((Subject::Everything, Rwx::READ_WRITE)),
        "crash" => {
            let (prefix, constraints) = ("crash post".to_owned(), Constraints::new());
            Ok((Subject::Command { prefix, constraints }, Rwx::ANY))
        }
        "osd" | "mds" => Ok((Subject::Nothing, Rwx::NONE)),
        "rbd" => rbd_support(Rwx::READ_WRITE),
        "rbd-read-only" => rbd_support(Rwx::READ),
        _ => Err(CapsError::UnknownMgrProfile(profile)),
    }
}

fn read_grant(s: &mut Scanner<'_>) -> Option<Grant> {
    s.attempt(read_blanket)
        .or_else(|| s.attempt(read_profile))
        .or_else(|| s.attempt(read_service))
        .or_else(|| s.attempt(read_module))
        .or_else(|| s.attempt(read_command))
}

fn read_blanket(s: &mut Scanner<'_>) -> Option<Grant> {
    s.expect("allow")?;
    s.spaces()?;
    let permissions = s.rwx()?;
    Some(Grant::new(Subject::Everything, permissions).within(s.network_clause()))
}

fn read_profile(s: &mut Scanner<'_>) -> Option<Grant> {
    s.attempt(|s| {
        s.expect("allow")?;
        s.spaces()
    });
    s.label("profile")?;
    let profile = s.word()?;
    let conditions = s.attempt(|s| {
        s.spaces()?;
        constraint::read(s, EqualSign::MayBeSpaced)
    });
    let subject = Subject::Profile { profile, constraints: conditions.unwrap_or_default() };
    Some(Grant::new(subject, Rwx::NONE).within(s.network_clause()))
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

fn read_module(s: &mut Scanner<'_>) -> Option<Grant> {
    s.expect("allow")?;
    s.spaces()?;
    s.label("module")?;
    let module = s.word()?;
    let constraints = read_with(s);
    s.spaces()?;
    let permissions = s.rwx()?;
    let subject = Subject::Module { module, constraints };
    Some(Grant::new(subject, permissions).within(s.network_clause()))
}

fn read_command(s: &mut Scanner<'_>) -> Option<Grant> {
    s.expect("allow")?;
    s.spaces()?;
    s.label("command")?;
    let prefix = s.word()?;
    let subject = Subject::Command { prefix, constraints: read_with(s) };
    Some(Grant::new(subject, Rwx::ANY).within(s.network_clause()))
}

/// ` with CONDITION...`, or no constraints.
fn read_with(s: &mut Scanner<'_>) -> Constraints {
    let conditions = s.attempt(|s| {
        s.spaced("with")?;
        s.spaces()?;
        constraint::read(s, EqualSign::MayBeSpaced)
    });
    conditions.unwrap_or_default()
}

#[cfg(test)]
mod tests;
