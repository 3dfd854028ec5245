//! State of one OSD in the map.

use crate::bits::bit_set;
use types::{EntityAddrVec, Epoch, UTime, Uuid};

/// Weight or affinity 1.0 in 16.16 fixed point.
pub const WEIGHT_IN: u32 = 0x1_0000;

/// One slot of the OSD map; the OSD may not exist.
#[derive(Debug, Clone, PartialEq)]
pub struct Osd {
    /// State bits.
    pub state: OsdState,
    /// 16.16 fixed point: [`WEIGHT_IN`] is in, zero is out.
    pub weight: u32,
    /// 16.16 fixed point: [`WEIGHT_IN`] is the default, zero means never primary.
    pub primary_affinity: u32,
    /// Addresses for clients and monitors.
    pub client_addrs: EntityAddrVec,
    /// Addresses for other OSDs.
    pub cluster_addrs: EntityAddrVec,
    /// Heartbeat addresses in the cluster network.
    pub heartbeat_back_addrs: EntityAddrVec,
    /// Heartbeat addresses in the public network.
    pub heartbeat_front_addrs: EntityAddrVec,
    /// Id of the OSD's store; nil if it has none yet.
    pub uuid: Uuid,
    /// Epochs in which the OSD was alive.
    pub info: OsdInfo,
    /// Extended information.
    pub xinfo: OsdXinfo,
}

/// The slot of an OSD that does not exist.
impl Default for Osd {
    fn default() -> Self {
        Osd {
            state: OsdState::default(),
            weight: 0,
            primary_affinity: WEIGHT_IN,
            client_addrs: EntityAddrVec::default(),
            cluster_addrs: EntityAddrVec::default(),
            heartbeat_back_addrs: EntityAddrVec::default(),
            heartbeat_front_addrs: EntityAddrVec::default(),
            uuid: Uuid::default(),
            info: OsdInfo::default(),
            xinfo: OsdXinfo::default(),
        }
    }
}

impl Osd {
    /// True if the slot is in use.
    pub fn exists(&self) -> bool {
        self.state.contains(OsdState::EXISTS)
    }

    /// True if the OSD exists and is up.
    pub fn is_up(&self) -> bool {
        self.state.contains(OsdState::EXISTS | OsdState::UP)
    }

    /// True if the OSD exists and has a weight.
    pub fn is_in(&self) -> bool {
        self.exists() && self.weight != 0
    }
}

bit_set! {
    /// `CEPH_OSD_*`: state bits of an OSD.
    OsdState(u32) {
        EXISTS = 0, "exists";
        UP = 1, "up";
        /// Marked out by the monitor because it was down too long, not by an administrator.
        AUTOOUT = 2, "autoout";
        /// Never marked in.
        NEW = 3, "new";
        FULL = 4, "full";
        NEARFULL = 5, "nearfull";
        BACKFILLFULL = 6, "backfillfull";
        DESTROYED = 7, "destroyed";
        NOUP = 8, "noup";
        NODOWN = 9, "nodown";
        NOIN = 10, "noin";
        NOOUT = 11, "noout";
        STOP = 12, "stop";
    }
}

/// `osd_info_t`: epochs in which the OSD was alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdInfo {
    /// The last interval that ended with a clean shutdown.
    pub last_clean_begin: Epoch,
    /// Last epoch of that interval.
    pub last_clean_end: Epoch,
    /// Epoch in which the OSD was last marked up.
    pub up_from: Epoch,
    /// The last epoch in which the OSD is known to have been alive.
    pub up_thru: Epoch,
    /// Epoch in which the OSD was last marked down.
    pub down_at: Epoch,
    /// Epoch in which an administrator declared the OSD's data lost.
    pub lost_at: Epoch,
}

/// `osd_xinfo_t`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdXinfo {
    /// Time when the OSD was last marked down.
    pub down_stamp: UTime,
    /// 0: not laggy; `u32::MAX`: certainly laggy.
    pub laggy_probability: u32,
    /// Average time in seconds for which the OSD was down although it ran.
    pub laggy_interval: u32,
    /// Feature bits of the OSD.
    pub features: u64,
    /// The weight before the OSD was marked out automatically.
    pub old_weight: u32,
    /// Time of the last comparison of its trimmed snapshots with the map.
    pub last_purged_snaps_scrub: UTime,
    /// Epoch in which the OSD was certainly dead.
    pub dead_epoch: Epoch,
}
