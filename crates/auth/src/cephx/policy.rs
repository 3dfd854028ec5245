//! Policy of the monitor's side of cephx: lifetimes of tickets, and accepted keys.

use crate::KeyType;
use std::time::Duration;
use types::EntityType;

const DEFAULT_AUTH_TICKET_TTL: Duration = Duration::from_secs(72 * 3600);
const DEFAULT_SERVICE_TICKET_TTL: Duration = Duration::from_secs(3600);

/// Lifetimes of tickets and accepted key types.
#[derive(Debug, Clone)]
pub struct CephxPolicy {
    /// `auth_mon_ticket_ttl`
    pub auth_ticket_ttl: Duration,
    /// `auth_service_ticket_ttl`
    pub service_ticket_ttl: Duration,
    /// Type of the rotating secrets, except those of metadata servers. Clients never see these, so it is
    /// independent of the clients' releases.
    pub service_key_type: KeyType,
    /// Key types with which an entity may authenticate.
    pub allowed_key_types: Vec<KeyType>,
    /// `auth_allow_insecure_global_id_reclaim`, for clients before the fix of CVE-2021-20288.
    pub allow_insecure_global_id_reclaim: bool,
}

impl Default for CephxPolicy {
    fn default() -> Self {
        CephxPolicy {
            auth_ticket_ttl: DEFAULT_AUTH_TICKET_TTL,
            service_ticket_ttl: DEFAULT_SERVICE_TICKET_TTL,
            service_key_type: KeyType::Aes256k,
            allowed_key_types: vec![KeyType::Aes, KeyType::Aes256k],
            allow_insecure_global_id_reclaim: false,
        }
    }
}

impl CephxPolicy {
    pub(super) fn ticket_ttl(&self, service: EntityType) -> Duration {
        if service == EntityType::AUTH { self.auth_ticket_ttl } else { self.service_ticket_ttl }
    }

    /// Type of the rotating secrets of a service. Metadata servers may be those of Ceph, which know only the
    /// old one before release 20.
    pub(super) fn secret_type(&self, service: EntityType) -> KeyType {
        if service == EntityType::MDS { KeyType::Aes } else { self.service_key_type }
    }
}
