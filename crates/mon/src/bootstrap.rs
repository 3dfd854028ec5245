//! The creation of a cluster: the first content of an empty control store.

use crate::keys::{self, VersionGroup};
use auth::{CryptoKey, EntityAuth, Entropy, KeyType, Keyring, ServiceSecrets};
use control::Transaction;
use crush::{CrushMap, InsertError, Location, RuleKind, SimpleRule};
use maps::Release;
use maps::{
    ErasureCodeProfile, Incremental, MgrMap, MonFeatures, MonInfo, MonMap, OsdMap, OsdMapFlags,
    OsdState,
};
use std::sync::Arc;
use types::{EntityAddrVec, EntityName, Epoch, OsdId, ServedVersions, UTime, Uuid};

/// The rule that new replicated pools use.
pub const DEFAULT_RULE: &str = "replicated_rule";
/// The root bucket of the first CRUSH map.
pub const DEFAULT_ROOT: &str = "default";
/// The application of pools of file systems.
pub(crate) const FILE_SYSTEM_APPLICATION: &str = "cephfs";
/// The erasure code profile of pools and rules for which none is given.
pub const DEFAULT_PROFILE: &str = "default";
/// Its properties, and those of other profiles that do not give them, as in Ceph 20.2
/// (`osd_pool_default_erasure_code_profile`).
pub const DEFAULT_CODE: [(&str, &str); 4] =
    [("plugin", "isa"), ("technique", "reed_sol_van"), ("k", "2"), ("m", "2")];
/// Smaller global ids are never given to clients.
const GLOBAL_ID_FIRST: u64 = 4100;
/// The global id of the built-in manager in the mgr map.
pub const MANAGER_GLOBAL_ID: u64 = GLOBAL_ID_FIRST - 1;
/// Exceeds the ids that are ever reserved in a second, so that reservations do not outrun
/// [`first_global_id`].
const GLOBAL_IDS_PER_SECOND: u64 = 65_536;
/// CRUSH weight (16.16 fixed point) of an OSD until its size is known: 1.0, a tebibyte by convention.
const DEVICE_WEIGHT: u32 = 0x1_0000;

/// The parameters of a new cluster.
#[derive(Debug, Clone)]
pub struct Parameters {
    pub mon_name: String,
    pub mon_addrs: EntityAddrVec,
    pub mgr_name: String,
    pub mgr_addrs: EntityAddrVec,
    /// OSDs that get a CRUSH location and a key at once: 0 to `osd_count - 1`.
    pub osd_count: u32,
    /// The CRUSH bucket of those OSDs.
    pub host: String,
    /// The bucket type across which the default rule spreads copies: `osd` or `host`.
    pub failure_domain: String,
    /// CRUSH device class of those OSDs.
    pub device_class: Option<String>,
    /// `osd_pool_default_size`
    pub pool_size: u8,
    pub key_type: KeyType,
}

/// A new cluster.
#[derive(Debug)]
pub struct Bootstrap {
    pub fsid: Uuid,
    /// To be committed to an empty control store before a monitor starts on it.
    pub transaction: Transaction,
    /// Keys of client.admin and of the OSDs.
    pub keyring: Keyring,
}

/// Why a cluster could not be created: the parameters contradict the CRUSH map or each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    #[error("the OSDs cannot be placed under host {host}")]
    Placement {
        host: String,
        #[source]
        source: InsertError,
    },
    #[error("host name '{0}' cannot name a CRUSH bucket")]
    Host(String),
    #[error("the default rule cannot be made")]
    Rule(#[source] crush::AddRuleError),
    #[error("device class '{0}' cannot be used")]
    Class(String),
    #[error("the first map cannot be made")]
    Map(#[from] maps::ApplyError),
}

/// Creates a cluster. `entropy` must be fresh: all keys come from it.
pub fn bootstrap(
    parameters: &Parameters,
    now: UTime,
    entropy: &mut Entropy,
) -> Result<Bootstrap, BootstrapError> {
    let fsid = Uuid::from_entropy(entropy.array());
    let keyring = keyring(parameters, now, entropy);
    let mut transaction = foundation(parameters, fsid, &keyring, GLOBAL_ID_FIRST, now);
    write_first_osdmap(&mut transaction, parameters, fsid, now, entropy)?;
    Ok(Bootstrap { fsid, transaction, keyring })
}

/// Lower bound for global ids reserved at `now`: no reservation of an earlier second reaches it, even if the
/// control store has forgotten reservations because it was restored from a backup.
pub fn first_global_id(now: UTime) -> u64 {
    u64::from(now.seconds) * GLOBAL_IDS_PER_SECOND
}

/// The first content of every control store except the OSD map. `global_id` is the first id that clients may
/// be given.
pub fn foundation(
    parameters: &Parameters,
    fsid: Uuid,
    keyring: &Keyring,
    global_id: u64,
    now: UTime,
) -> Transaction {
    let mut transaction = Transaction::default();
    for group in VersionGroup::all() {
        transaction.compare.push((group.version_key(), None));
        transaction.put(group.version_key(), "1");
    }
    for (name, entity) in &keyring.entities {
        transaction.put(keys::auth(name), codec::encode_to_bytes(entity));
    }
    let monmap = first_monmap(parameters, fsid, now);
    transaction.put(keys::monmap(monmap.epoch), codec::encode_to_bytes(&monmap));
    transaction.put(keys::MGRMAP, codec::encode_to_bytes(&first_mgrmap(parameters, now)));
    transaction.put(keys::SECRETS, codec::encode_to_bytes(&ServiceSecrets::default()));
    transaction.put(keys::GLOBAL_ID, global_id.to_string());
    transaction.put(keys::CLUSTER_VERSION, ServedVersions::OWN.newest.to_string());
    let size = parameters.pool_size.to_string();
    transaction.put(keys::config("global", "osd_pool_default_size"), size);
    transaction
}

fn keyring(parameters: &Parameters, now: UTime, entropy: &mut Entropy) -> Keyring {
    let mut keyring = Keyring::default();
    let mut add = |name: EntityName, caps: &[(&str, &str)]| {
        let key = CryptoKey::generate(parameters.key_type, now, entropy);
        keyring.entities.insert(name, entity(key, caps));
    };
    add(EntityName::client("admin"), &ADMIN_CAPS);
    for osd in 0..parameters.osd_count {
        add(EntityName::osd(osd as i32), &OSD_CAPS);
    }
    keyring
}

/// An entity with capabilities given as (service, text).
pub fn entity(key: CryptoKey, caps: &[(&str, &str)]) -> EntityAuth {
    let new = EntityAuth::new(key);
    caps.iter().fold(new, |entity, (service, text)| entity.with_caps(service, text))
}

/// Capabilities of `client.admin`.
pub const ADMIN_CAPS: [(&str, &str); 4] =
    [("mds", "allow *"), ("mgr", "allow *"), ("mon", "allow *"), ("osd", "allow *")];

/// Capabilities of an OSD.
pub const OSD_CAPS: [(&str, &str); 3] =
    [("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")];

/// Epoch 1 of the mon map, with the one monitor of the parameters.
pub fn first_monmap(parameters: &Parameters, fsid: Uuid, now: UTime) -> MonMap {
    let mon = MonInfo {
        name: parameters.mon_name.clone(),
        public_addrs: parameters.mon_addrs.clone(),
        time_added: now,
        ..MonInfo::default()
    };
    let mut map = MonMap::new(fsid, now, vec![mon]);
    map.min_mon_release = Release::REEF;
    map.persistent_features = MonFeatures(MonFeatures::REEF.0 * 2 - 1);
    map
}

/// Epoch 1 of the mgr map, with the built-in manager active.
pub fn first_mgrmap(parameters: &Parameters, now: UTime) -> MgrMap {
    MgrMap {
        epoch: Epoch(1),
        active_gid: MANAGER_GLOBAL_ID,
        active_name: parameters.mgr_name.clone(),
        active_addrs: parameters.mgr_addrs.clone(),
        active_change: now,
        active_mgr_features: types::features::SUPPORTED,
        available: true,
        ..MgrMap::default()
    }
}

fn write_first_osdmap(
    transaction: &mut Transaction,
    parameters: &Parameters,
    fsid: Uuid,
    now: UTime,
    entropy: &mut Entropy,
) -> Result<(), BootstrapError> {
    let mut base = OsdMap::new(fsid);
    base.created = now;
    let mut inc = Incremental::new(fsid, Epoch(1), now);
    inc.crush = Some(Arc::new(first_crush_map(parameters)?));
    inc.new_max_osd = Some(parameters.osd_count as i32);
    inc.new_flags = Some(OsdMapFlags::BASE);
    inc.new_full_ratio = Some(0.95);
    inc.new_backfillfull_ratio = Some(0.90);
    inc.new_nearfull_ratio = Some(0.85);
    inc.new_require_osd_release = Some(Release::REEF);
    inc.new_require_min_compat_client = Some(Release::LUMINOUS);
    for osd in (0..parameters.osd_count as i32).map(OsdId) {
        inc.new_state.insert(osd, OsdState::EXISTS | OsdState::NEW);
        inc.new_uuid.insert(osd, Uuid::from_entropy(entropy.array()));
    }
    inc.new_erasure_code_profiles
        .insert(DEFAULT_PROFILE.to_owned(), default_erasure_code_profile());
    let map = inc.seal(&base)?;
    transaction.put(keys::osdmap_incremental(Epoch(1)), codec::encode_to_bytes(&inc));
    transaction.put(keys::osdmap_full(Epoch(1)), codec::encode_to_bytes(&map));
    Ok(())
}

/// The erasure code profile that a new cluster has.
pub fn default_erasure_code_profile() -> ErasureCodeProfile {
    DEFAULT_CODE.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// A root, one host, its OSDs, and the default rule.
fn first_crush_map(parameters: &Parameters) -> Result<CrushMap, BootstrapError> {
    let host = &parameters.host;
    let place = |source| BootstrapError::Placement { host: host.clone(), source };
    let mut crush = CrushMap::new();
    let root_type = crush.type_id("root").unwrap_or_default();
    crush.add_bucket(DEFAULT_ROOT, root_type).map_err(place)?;
    let levels = [format!("root={DEFAULT_ROOT}"), format!("host={host}")];
    let location = Location::parse(levels.iter().map(String::as_str))
        .map_err(|_| BootstrapError::Host(host.clone()))?;
    for osd in 0..parameters.osd_count as i32 {
        let name = format!("osd.{osd}");
        crush.insert_item(osd, DEVICE_WEIGHT, &name, &location).map_err(place)?;
        if let Some(class) = &parameters.device_class {
            let set = crush.set_device_class(osd, class);
            set.map_err(|_| BootstrapError::Class(class.clone()))?;
        }
    }
    let rule = SimpleRule {
        name: DEFAULT_RULE,
        root: DEFAULT_ROOT,
        failure_domain: &parameters.failure_domain,
        class: None,
        kind: RuleKind::Replicated,
    };
    crush.add_simple_rule(&rule).map_err(BootstrapError::Rule)?;
    Ok(crush)
}
