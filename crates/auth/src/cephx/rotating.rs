//! Rotating secrets, with which tickets are sealed.
//!
//! Each service has three: the previous one, which sealed tickets still in use; the current one, which
//! seals new tickets; and the next one, which services know before it becomes current. A secret is dropped
//! no sooner than the last ticket sealed with it expires.

use crate::{CryptoKey, Entropy, KeyType};
use codec::{Decode, Encode, Reader, Result, Writer};
use std::{collections::BTreeMap, time::Duration};
use types::{EntityType, UTime};

/// `KEY_ROTATE_NUM`: previous, current, next.
const SECRETS_KEPT: usize = 3;

/// Services for which tickets are issued.
pub const SERVICES: [EntityType; 5] =
    [EntityType::AUTH, EntityType::MON, EntityType::OSD, EntityType::MDS, EntityType::MGR];

/// `ExpiringCryptoKey`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringKey {
    /// The secret.
    pub key: CryptoKey,
    /// End of its time as the current secret.
    pub expiration: UTime,
}

impl Encode for ExpiringKey {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.value(&self.key);
        w.value(&self.expiration);
    }
}

impl Decode for ExpiringKey {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("expiring key version")?;
        Ok(ExpiringKey { key: r.value()?, expiration: r.value()? })
    }
}

/// `RotatingSecrets` of one service, by id; ids only grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RotatingSecrets {
    secrets: BTreeMap<u64, ExpiringKey>,
    id_max: u64,
}

/// The secret that seals new tickets.
#[derive(Debug, Clone, Copy)]
pub(super) struct SealingSecret<'a> {
    /// Id for tickets.
    pub id: u64,
    /// The secret itself.
    pub key: &'a CryptoKey,
    /// Longest lifetime of a ticket: none may outlive the newest secret that services know.
    pub ttl_max: Duration,
}

impl RotatingSecrets {
    /// True before the first rotation.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Adds secrets until there are three and the current one has not expired at `now`. Returns true if
    /// anything changed.
    pub fn rotate(
        &mut self,
        now: UTime,
        ttl: Duration,
        kind: KeyType,
        entropy: &mut Entropy,
    ) -> bool {
        let mut changed = false;
        while self.needs_secret(now) {
            let start = match self.secrets.last_key_value() {
                None => now,
                Some((_, newest)) => newest.expiration.max(after(now, ttl)),
            };
            let key = CryptoKey::generate(kind, now, entropy);
            self.add(ExpiringKey { key, expiration: after(start, ttl) });
            changed = true;
        }
        changed
    }

    /// The secret with an id; `None` for one that was dropped or is not known yet.
    pub fn secret(&self, id: u64) -> Option<&CryptoKey> {
        self.secrets.get(&id).map(|secret| &secret.key)
    }

    /// Time at which [`RotatingSecrets::rotate`] is next due.
    pub fn next_rotation(&self) -> Option<UTime> {
        self.current().map(|(_, secret)| secret.expiration)
    }

    pub(super) fn sealing(&self, now: UTime) -> Option<SealingSecret<'_>> {
        let newest = self.secrets.last_key_value()?;
        let current = self.current().filter(|(_, secret)| secret.expiration >= now);
        let (id, secret) = current.unwrap_or(newest);
        let ttl_max = until(now, newest.1.expiration);
        Some(SealingSecret { id: *id, key: &secret.key, ttl_max })
    }

    fn current(&self) -> Option<(&u64, &ExpiringKey)> {
        self.secrets.iter().nth(1).or_else(|| self.secrets.first_key_value())
    }

    fn needs_secret(&self, now: UTime) -> bool {
        self.secrets.len() < SECRETS_KEPT
            || self.current().is_none_or(|(_, current)| current.expiration <= now)
    }

    fn add(&mut self, secret: ExpiringKey) {
        self.id_max += 1;
        self.secrets.insert(self.id_max, secret);
        while self.secrets.len() > SECRETS_KEPT {
            self.secrets.pop_first();
        }
    }
}

impl Encode for RotatingSecrets {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.value(&self.secrets);
        w.u64(self.id_max);
    }
}

impl Decode for RotatingSecrets {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("rotating secrets version")?;
        Ok(RotatingSecrets { secrets: r.value()?, id_max: r.u64("newest secret id")? })
    }
}

/// The rotating secrets of all services, as the monitor stores them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceSecrets {
    version: u64,
    services: BTreeMap<u32, RotatingSecrets>,
}

impl ServiceSecrets {
    /// Rotates the secrets that are due. Returns true if anything changed and must be stored.
    pub fn rotate(
        &mut self,
        now: UTime,
        policy: &super::CephxPolicy,
        entropy: &mut Entropy,
    ) -> bool {
        let mut changed = false;
        for service in SERVICES {
            let secrets = self.services.entry(service.0.into()).or_default();
            let kind = policy.secret_type(service);
            if service == EntityType::MDS {
                // Of a release that served no file systems, so no ticket is sealed with them.
                secrets.secrets.retain(|_, secret| secret.key.kind() == kind);
            }
            changed |= secrets.rotate(now, policy.ticket_ttl(service), kind, entropy);
        }
        self.version += u64::from(changed);
        changed
    }

    /// `None` before the first rotation, and for services without tickets.
    pub fn service(&self, service: EntityType) -> Option<&RotatingSecrets> {
        self.services.get(&service.0.into())
    }

    /// Number of rotations so far.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Time at which [`ServiceSecrets::rotate`] is next due.
    pub fn next_rotation(&self) -> Option<UTime> {
        self.services.values().filter_map(RotatingSecrets::next_rotation).min()
    }
}

impl Encode for ServiceSecrets {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u64(self.version);
        w.value(&self.services);
    }
}

impl Decode for ServiceSecrets {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("service secrets version")?;
        Ok(ServiceSecrets { version: r.u64("rotation count")?, services: r.value()? })
    }
}

pub(super) fn after(time: UTime, duration: Duration) -> UTime {
    UTime::from_nanos(time.as_nanos().saturating_add(nanos(duration)))
}

fn until(now: UTime, later: UTime) -> Duration {
    Duration::from_nanos(later.as_nanos().saturating_sub(now.as_nanos()))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(seconds: u32) -> UTime {
        UTime { seconds, nanoseconds: 0 }
    }

    fn rotated(now: UTime) -> (RotatingSecrets, Entropy) {
        let (mut secrets, mut entropy) = (RotatingSecrets::default(), Entropy::from_seed([0; 32]));
        assert!(secrets.rotate(now, HOUR, KeyType::Aes, &mut entropy));
        (secrets, entropy)
    }

    #[test]
    fn a_ticket_never_outlives_the_secret_that_sealed_it() {
        let (mut secrets, mut entropy) = rotated(at(1000));
        let mut now = at(1000);
        for _ in 0..200 {
            let sealing = secrets.sealing(now).unwrap();
            let (id, expires) = (sealing.id, after(now, HOUR.min(sealing.ttl_max)));
            let mut later = secrets.clone();
            let mut time = now;
            while time < expires {
                assert!(later.secret(id).is_some(), "sealed at {now:?}, missing at {time:?}");
                time = after(time, Duration::from_secs(100));
                later.rotate(time.min(at(expires.seconds - 1)), HOUR, KeyType::Aes, &mut entropy);
            }
            now = after(now, Duration::from_secs(777));
            secrets.rotate(now, HOUR, KeyType::Aes, &mut entropy);
        }
    }

    #[test]
    fn metadata_servers_of_ceph_18_can_read_their_secrets() {
        let policy = super::super::CephxPolicy::default();
        let mut entropy = Entropy::from_seed([0; 32]);
        let mut secrets = ServiceSecrets::default();
        let known = secrets.services.entry(EntityType::MDS.0.into()).or_default();
        known.rotate(at(1000), HOUR, KeyType::Aes256k, &mut entropy);
        assert!(secrets.rotate(at(1000), &policy, &mut entropy));
        let kinds = |service| {
            let secrets = secrets.service(service).unwrap().secrets.values();
            secrets.map(|secret| secret.key.kind()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(EntityType::MDS), [KeyType::Aes; 3]);
        assert_eq!(kinds(EntityType::OSD), [KeyType::Aes256k; 3]);
    }

    #[test]
    fn rotation_waits_until_the_current_secret_expires() {
        let (mut secrets, mut entropy) = rotated(at(1000));
        assert_eq!(secrets.next_rotation(), Some(at(1000 + 7200)));
        assert!(!secrets.rotate(at(8199), HOUR, KeyType::Aes, &mut entropy));
        let first = secrets.sealing(at(1000)).unwrap().id;
        assert!(secrets.rotate(at(8200), HOUR, KeyType::Aes, &mut entropy));
        assert_eq!(secrets.sealing(at(8200)).unwrap().id, first + 1);
    }

    #[test]
    fn after_a_long_pause_all_secrets_are_new() {
        let (mut secrets, mut entropy) = rotated(at(1000));
        let old: Vec<u64> = secrets.secrets.keys().copied().collect();
        secrets.rotate(at(1_000_000), HOUR, KeyType::Aes, &mut entropy);
        let sealing = secrets.sealing(at(1_000_000)).unwrap();
        assert!(!old.contains(&sealing.id));
        assert!(sealing.ttl_max >= HOUR);
    }
}
