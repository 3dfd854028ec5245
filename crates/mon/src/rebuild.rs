//! Recovery of a lost control store from the data of OSDs.
//!
//! OSDs keep their current map and their keys. From the newest such map and those keys comes a store in which
//! the data can be reached again: pools, CRUSH map, OSDs with their locations and weights.
//!
//! Invariants:
//! * Epochs that OSDs may have seen in maps that were not kept are not used again, so that the history of a
//!   group is never ahead of the map: the new map is [`EPOCHS_PASSED_OVER`] further. OSDs treat the gap as a
//!   time of which nothing is known.
//! * Client ids that may have been assigned are not assigned again: requests are recognised by them.
//! * No OSD is up until it boots.

use crate::bootstrap::{
    ADMIN_CAPS, Bootstrap, BootstrapError, FILE_SYSTEM_APPLICATION, OSD_CAPS, Parameters, entity,
    first_global_id, foundation,
};
use crate::keys;
use auth::{CryptoKey, Entropy, Keyring};
use control::Transaction;
use maps::{Incremental, OsdMap, OsdState};
use std::collections::BTreeMap;
use types::{EntityName, Epoch, OsdId, PoolId, UTime};

/// Epochs that are skipped: more than can have been made without any OSD keeping one of them.
pub const EPOCHS_PASSED_OVER: u32 = 10_000;

/// The data that was recovered from the OSDs of a cluster.
#[derive(Debug)]
pub struct Remains {
    /// The newest of the OSDs' maps.
    pub map: OsdMap,
    /// The OSDs' keys, as far as they could be read.
    pub keys: BTreeMap<OsdId, CryptoKey>,
}

/// A file system whose map is lost, while its pools are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostFileSystem {
    /// Its name.
    pub name: String,
    /// Name of its metadata pool.
    pub metadata: String,
    /// Names of its data pools, the oldest first: usually the one that it was made with.
    pub data: Vec<String>,
}

/// The file systems that had pools in a map.
pub fn lost_file_systems(map: &OsdMap) -> Vec<LostFileSystem> {
    let role = |id: &PoolId, role: &str| -> Option<String> {
        map.pool(*id)?.application_metadata.get(FILE_SYSTEM_APPLICATION)?.get(role).cloned()
    };
    let pool_name = |id: &PoolId| map.pool_name(*id).unwrap_or_default().to_owned();
    let metadata = map.pools.keys().filter_map(|id| Some((role(id, "metadata")?, pool_name(id))));
    let with_data = |(name, metadata): (String, String)| {
        let is_its = |id: &&PoolId| role(id, "data").as_deref() == Some(name.as_str());
        let data = map.pools.keys().filter(is_its).map(pool_name).collect();
        LostFileSystem { name, metadata, data }
    };
    metadata.map(with_data).collect()
}

/// Like [`crate::bootstrap()`], for a cluster that existed before. The fields of `parameters` about OSDs are
/// ignored.
pub fn rebuild(
    parameters: &Parameters,
    remains: &Remains,
    now: UTime,
    entropy: &mut Entropy,
) -> Result<Bootstrap, BootstrapError> {
    let fsid = remains.map.fsid;
    let keyring = keyring(parameters, remains, now, entropy);
    let global_id = first_global_id(now);
    let mut transaction = foundation(parameters, fsid, &keyring, global_id, now);
    write_map(&mut transaction, &remains.map, now)?;
    Ok(Bootstrap { fsid, transaction, keyring })
}

/// The administrator's key is a new one. So is that of an OSD whose key is not known: the new one must be
/// installed on it.
fn keyring(
    parameters: &Parameters,
    remains: &Remains,
    now: UTime,
    entropy: &mut Entropy,
) -> Keyring {
    let mut keyring = Keyring::default();
    let mut new_key = || CryptoKey::generate(parameters.key_type, now, entropy);
    let admin = entity(new_key(), &ADMIN_CAPS);
    keyring.entities.insert(EntityName::client("admin"), admin);
    for (osd, _) in remains.map.existing_osds() {
        let key = remains.keys.get(&osd).cloned().unwrap_or_else(&mut new_key);
        keyring.entities.insert(EntityName::osd(osd.0), entity(key, &OSD_CAPS));
    }
    keyring
}

fn write_map(
    transaction: &mut Transaction,
    newest: &OsdMap,
    now: UTime,
) -> Result<(), BootstrapError> {
    let mut base = newest.clone();
    base.epoch = Epoch(newest.epoch.0 + EPOCHS_PASSED_OVER);
    let mut increment = Incremental::new(base.fsid, base.epoch.next(), now);
    for (osd, known) in base.existing_osds() {
        if known.is_up() {
            increment.new_state.insert(osd, OsdState::UP);
        }
    }
    let map = increment.seal(&base)?;
    transaction.put(keys::osdmap_incremental(map.epoch), codec::encode_to_bytes(&increment));
    transaction.put(keys::osdmap_full(map.epoch), codec::encode_to_bytes(&map));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;
    use control::MemControl;
    use types::EntityAddrVec;

    fn parameters() -> Parameters {
        let addrs = EntityAddrVec::one("v2:10.0.0.1:3300/0".parse().unwrap());
        Parameters {
            mon_name: "a".to_owned(),
            mon_addrs: addrs.clone(),
            mgr_name: "a".to_owned(),
            mgr_addrs: addrs,
            osd_count: 2,
            host: "host".to_owned(),
            failure_domain: "osd".to_owned(),
            device_class: None,
            pool_size: 2,
            key_type: auth::KeyType::Aes,
        }
    }

    fn state_of(made: &Bootstrap) -> State {
        let mut control = MemControl::new();
        control.commit(&made.transaction).unwrap();
        State::load(&control.range(""), 1).unwrap()
    }

    #[test]
    fn file_systems_are_found_by_the_marks_of_their_pools() {
        let mut map = OsdMap::new(types::Uuid::default());
        for (id, role) in [(1, "metadata"), (2, "data"), (3, "data"), (4, "")] {
            let mut pool = maps::Pool::new(maps::PoolType::Replicated, 2, 8, 0);
            let mark = [(role.to_owned(), "home".to_owned())].into();
            pool.application_metadata.insert("cephfs".to_owned(), mark);
            map.pools.insert(PoolId(id), pool);
            map.pool_names.insert(PoolId(id), format!("pool{id}"));
        }
        let data = vec!["pool2".to_owned(), "pool3".to_owned()];
        let (name, metadata) = ("home".to_owned(), "pool1".to_owned());
        assert_eq!(lost_file_systems(&map), [LostFileSystem { name, metadata, data }]);
    }

    #[test]
    fn what_osds_remember_is_there_again_and_nothing_is_counted_twice() {
        let now = UTime { seconds: 1_700_000_000, nanoseconds: 0 };
        let mut entropy = Entropy::from_seed([1; 32]);
        let lost = crate::bootstrap(&parameters(), now, &mut entropy).unwrap();
        let mut map = state_of(&lost).osdmap;
        let mut increment = Incremental::new(map.fsid, map.epoch.next(), now);
        let pool = maps::Pool::new(maps::PoolType::Replicated, 2, 8, 0);
        increment.new_pool_max = Some(PoolId(1));
        increment.new_pools.insert(PoolId(1), pool);
        increment.new_pool_names.insert(PoolId(1), "data".to_owned());
        let addrs = EntityAddrVec::one("v2:10.0.0.1:6800/1".parse().unwrap());
        increment.mark_up(OsdId(0), addrs.clone(), addrs.clone(), addrs.clone(), addrs);
        map = increment.seal(&map).unwrap();
        let known = lost.keyring.key(&EntityName::osd(0)).unwrap().clone();
        let remains = Remains { map: map.clone(), keys: [(OsdId(0), known.clone())].into() };

        let made = rebuild(&parameters(), &remains, now, &mut entropy).unwrap();
        let state = state_of(&made);
        assert_eq!(state.monmap.fsid, map.fsid);
        assert_eq!(state.osdmap.pool_id("data"), Some(PoolId(1)));
        assert!(state.osdmap.epoch.0 > map.epoch.0 + EPOCHS_PASSED_OVER);
        assert_eq!(state.osdmap.up_count(), 0);
        let key = |name: &EntityName| made.keyring.key(name).unwrap().to_string();
        assert_eq!(key(&EntityName::osd(0)), known.to_string());
        assert!(made.keyring.key(&EntityName::osd(1)).is_some());
        let admin = EntityName::client("admin");
        assert_ne!(key(&admin), lost.keyring.key(&admin).unwrap().to_string());
        assert!(state.global_id_next > 1_000_000_000);
    }
}
