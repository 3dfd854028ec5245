//! One grant of monitor capabilities, and the requests that it covers.

use super::{
    constraint::{self, Constraints},
    network::Network,
    permissions::Rwx,
};
use std::{collections::BTreeMap, net::IpAddr};
use types::EntityName;

/// A request to the monitor whose permission is checked.
#[derive(Debug, Clone, Copy)]
pub struct MonAccess<'a> {
    /// The entity: some profiles cover only keys under its own name.
    pub name: &'a EntityName,
    /// The service of the monitor that is addressed: `mon`, `osd`, `pg`, `auth`, `config-key`...
    pub service: &'a str,
    /// The command's prefix; empty for messages other than commands.
    pub command: &'a str,
    /// The command's arguments by name, as text.
    pub arguments: &'a BTreeMap<String, String>,
    /// Permissions that the request needs.
    pub needed: Rwx,
    /// Address of the client; `None` matches no network.
    pub peer: Option<IpAddr>,
}

/// `MonCapGrant`
#[derive(Debug, Clone)]
pub(super) struct Grant {
    /// The scope of the grant.
    pub subject: Subject,
    permissions: Rwx,
    /// Clients to whom the grant is restricted.
    pub network: Option<Network>,
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
    /// A grant for clients anywhere.
    pub fn new(subject: Subject, permissions: Rwx) -> Self {
        Grant { subject, permissions, network: None }
    }

    /// Restricts the grant to a network, if there is one.
    pub fn within(mut self, network: Option<String>) -> Self {
        self.network = network.as_deref().map(Network::parse);
        self
    }

    /// True for `allow *`.
    pub fn allows_all(&self) -> bool {
        matches!(self.subject, Subject::Everything) && self.permissions == Rwx::ANY
    }

    /// Permissions for a request that a grant other than a profile gives.
    pub fn allowed(&self, access: &MonAccess<'_>) -> Rwx {
        let applies = match &self.subject {
            // Profiles do not contain profiles; their grants are added up above.
            Subject::Profile(_) => false,
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
