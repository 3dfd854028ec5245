//! Roles of processes in a scenario.

use crate::node::NodeId;

/// Node ids by role.
#[derive(Debug, Clone)]
pub struct Cast {
    /// Monitors by rank.
    pub monitors: Vec<NodeId>,
    /// OSDs by id, with those that join later.
    pub osds: Vec<NodeId>,
    /// OSDs of each host.
    pub hosts: Vec<Vec<NodeId>>,
    /// Those of `osds` that join later.
    pub spares: Vec<NodeId>,
    /// Clients that use single objects.
    pub clients: Vec<NodeId>,
    /// The OSD whose disk misreads now and then, if there is one. With a second one, both might fail to
    /// read the same data.
    pub troubled: Option<NodeId>,
    /// The OSD that is removed while faults happen, and the one whose data rots.
    pub removed: Option<NodeId>,
    /// The OSD whose data rots while faults happen.
    pub rotting: Option<NodeId>,
    /// Clients with an image.
    pub image_users: Vec<NodeId>,
    /// Metadata servers.
    pub servers: Vec<NodeId>,
    /// Clients of the file system.
    pub file_clients: Vec<NodeId>,
    /// Those of `image_users` that may die.
    pub sharers: Vec<NodeId>,
}

impl Cast {
    /// Monitors and OSDs.
    pub fn daemons(&self) -> Vec<NodeId> {
        [self.monitors.clone(), self.osds.clone()].concat()
    }

    /// All processes.
    pub fn all(&self) -> Vec<NodeId> {
        let files = [&self.servers[..], &self.file_clients].concat();
        [self.daemons(), self.clients.clone(), self.image_users.clone(), files].concat()
    }

    /// Clients that may die.
    pub fn mortal_clients(&self) -> Vec<NodeId> {
        [&self.clients[..], &self.sharers[..]].concat()
    }
}
