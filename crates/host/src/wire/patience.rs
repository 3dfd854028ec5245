//! How long a session that is opened from here bears silence.

use engine::Duration;
use msgr::Config;
use types::EntityType;

/// A daemon whose monitor's machine has died must find another one sooner than others may count it
/// as failed itself.
const MON_KEEPALIVE: Duration = Duration::from_millis(500);
const MON_SILENCE_MAX: Duration = Duration::from_secs(2);
/// A monitor succeeds a leader that is gone before OSDs may be counted as failed that went with it.
const LEADER_SILENCE_MAX: Duration = Duration::from_millis(1500);
/// Heartbeats find out sooner; this is for those that the map still shows as up.
const OSD_KEEPALIVE: Duration = Duration::from_secs(5);
const OSD_SILENCE_MAX: Duration = Duration::from_secs(15);
/// The same for a connection that is not there yet: packets to a machine that is off go nowhere.
const HANDSHAKE_MAX: Duration = Duration::from_secs(3);

/// Clients keep the defaults, which are Ceph's.
pub(crate) fn set(config: &mut Config, target: EntityType) {
    let (keepalive, silence) = match (config.kind, target) {
        (EntityType::CLIENT, _) => return,
        (EntityType::MON, EntityType::MON) => (MON_KEEPALIVE, LEADER_SILENCE_MAX),
        (_, EntityType::MON) => (MON_KEEPALIVE, MON_SILENCE_MAX),
        _ => (OSD_KEEPALIVE, OSD_SILENCE_MAX),
    };
    config.keepalive_interval = keepalive;
    config.silence_max = silence;
    config.handshake_timeout = HANDSHAKE_MAX;
}
