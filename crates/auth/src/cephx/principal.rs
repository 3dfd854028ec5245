//! Authentication record of an entity: its key and its capabilities.

use crate::CryptoKey;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EntityName, EntityType};

/// `CEPH_AUTH_UID_DEFAULT`: constant in every encoding.
pub(super) const LEGACY_UID: u64 = u64::MAX;

/// `EntityAuth`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityAuth {
    /// The entity's secret.
    pub key: CryptoKey,
    /// Capability text by service name (`mon`, `osd`, `mgr`, `mds`).
    pub caps: BTreeMap<String, String>,
    /// A new key that replaces `key` once the entity has used it.
    pub pending_key: Option<CryptoKey>,
}

impl EntityAuth {
    /// An entity without capabilities.
    pub fn new(key: CryptoKey) -> Self {
        EntityAuth { key, ..EntityAuth::default() }
    }

    /// Adds capability text for a service, which is not validated.
    pub fn with_caps(mut self, service: &str, caps: &str) -> Self {
        self.caps.insert(service.to_owned(), caps.to_owned());
        self
    }

    /// Capability text for a service; empty if there is none.
    pub fn caps_for(&self, service: EntityType) -> &str {
        self.caps.get(service.name()).map_or("", String::as_str)
    }
}

impl Encode for EntityAuth {
    fn encode(&self, w: &mut Writer) {
        w.u8(3);
        w.u64(LEGACY_UID);
        w.value(&self.key);
        w.count(self.caps.len());
        for (service, caps) in &self.caps {
            w.string(service);
            w.sized(|w| w.string(caps));
        }
        w.value(self.pending_key.as_ref().unwrap_or(&CryptoKey::default()));
    }
}

impl Decode for EntityAuth {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8("entity version")?;
        if version >= 2 {
            r.u64("legacy uid")?;
        }
        let key = r.value()?;
        let caps = r.list("caps", |r| {
            let service = r.string("caps service")?;
            let text = Reader::new(r.blob("caps")?).string("caps text")?;
            Ok((service, text))
        })?;
        let pending_key = if version >= 3 { Some(r.value::<CryptoKey>()?) } else { None };
        Ok(EntityAuth {
            key,
            caps: caps.into_iter().collect(),
            pending_key: pending_key.filter(|key| !key.is_empty()),
        })
    }
}

/// Lookup of entities for the monitor's side of cephx.
pub trait KeyStore {
    /// `None` if there is no such entity.
    fn entity_auth(&self, name: &EntityName) -> Option<&EntityAuth>;
}

impl KeyStore for BTreeMap<EntityName, EntityAuth> {
    fn entity_auth(&self, name: &EntityName) -> Option<&EntityAuth> {
        self.get(name)
    }
}
