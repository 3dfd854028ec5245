//! `mds_info_t`: one metadata server, as the maps list it.

use crate::CompatSet;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeSet;
use types::{EntityAddrVec, UTime};

/// The version of the encoding, and the oldest reader that can read it. Address vectors begin with version 8.
const VERSION: u8 = 10;
const COMPAT: u8 = 4;
const OLDEST: u8 = 8;

/// A place in the tree that one metadata server serves; -1 for none.
pub type MdsRank = i32;
/// Global id of a metadata server's run.
pub type MdsGid = u64;
/// The number of a file system; -1 for none.
pub type FsId = i32;

/// No rank.
pub const NO_RANK: MdsRank = -1;
/// No file system.
pub const NO_FILE_SYSTEM: FsId = -1;

/// `CEPH_MDS_STATE_*`: negative for servers without a rank that clients can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MdsState(pub i32);

impl MdsState {
    /// Does not exist: a server asks to be removed from the map with it, as it ends.
    pub const DNE: Self = MdsState(0);
    /// Ended; the rank is not served any more.
    pub const STOPPED: Self = MdsState(-1);
    /// Announces itself for the first time.
    pub const BOOT: Self = MdsState(-4);
    /// Idle, may take a rank.
    pub const STANDBY: Self = MdsState(-5);
    /// Creates a rank that never existed.
    pub const CREATING: Self = MdsState(-6);
    /// Takes a rank that was stopped.
    pub const STARTING: Self = MdsState(-7);
    /// Follows the journal of an active rank.
    pub const STANDBY_REPLAY: Self = MdsState(-8);
    /// Replays the journal of a failed rank.
    pub const REPLAY: Self = MdsState(8);
    /// Agrees with other ranks about their common changes.
    pub const RESOLVE: Self = MdsState(9);
    /// Waits for the clients of its predecessor.
    pub const RECONNECT: Self = MdsState(10);
    /// Agrees with other ranks about their caches.
    pub const REJOIN: Self = MdsState(11);
    /// Executes requests that clients replay.
    pub const CLIENTREPLAY: Self = MdsState(12);
    /// Serves clients.
    pub const ACTIVE: Self = MdsState(13);
    /// Hands its tree to other ranks.
    pub const STOPPING: Self = MdsState(14);
    /// Reports that the rank's metadata is damaged.
    pub const DAMAGED: Self = MdsState(15);

    /// The name in the output of commands, such as `up:active`.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "down:dne",
            -1 => "down:stopped",
            -4 => "up:boot",
            -5 => "up:standby",
            -6 => "up:creating",
            -7 => "up:starting",
            -8 => "up:standby-replay",
            8 => "up:replay",
            9 => "up:resolve",
            10 => "up:reconnect",
            11 => "up:rejoin",
            12 => "up:clientreplay",
            13 => "up:active",
            14 => "up:stopping",
            15 => "down:damaged",
            _ => "unknown",
        }
    }
}

/// `mds_info_t`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdsInfo {
    /// Global id of the run.
    pub gid: MdsGid,
    /// The name without its type: `a` of `mds.a`.
    pub name: String,
    /// The rank that it serves.
    pub rank: MdsRank,
    /// Epoch in which the server took the rank.
    pub incarnation: i32,
    /// State that the monitor has granted.
    pub state: MdsState,
    /// Number of the beacon that asked for the state.
    pub state_seq: u64,
    /// Addresses.
    pub addrs: EntityAddrVec,
    /// Time since which the server is silent; zero if it is not.
    pub laggy_since: UTime,
    /// Ranks that it may hand parts of its tree to.
    pub export_targets: BTreeSet<MdsRank>,
    /// Feature bits of the server.
    pub features: u64,
    /// The only file system that it serves, if it is bound to one.
    pub join_fscid: FsId,
    /// Flag bit 0: the server is frozen, and must not be replaced.
    pub flags: u64,
    /// On-disk features that the server knows.
    pub compat: CompatSet,
}

impl Default for MdsInfo {
    fn default() -> Self {
        MdsInfo {
            gid: 0,
            name: String::new(),
            rank: NO_RANK,
            incarnation: 0,
            state: MdsState::STANDBY,
            state_seq: 0,
            addrs: EntityAddrVec::default(),
            laggy_since: UTime::ZERO,
            export_targets: BTreeSet::new(),
            features: 0,
            join_fscid: NO_FILE_SYSTEM,
            flags: 0,
            compat: CompatSet::default(),
        }
    }
}

impl MdsInfo {
    /// Whether it has been silent for too long.
    pub fn is_laggy(&self) -> bool {
        self.laggy_since != UTime::ZERO
    }
}

impl Encode for MdsInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, COMPAT, |w| {
            w.u64(self.gid);
            w.value(&self.name);
            w.i32(self.rank);
            w.i32(self.incarnation);
            w.i32(self.state.0);
            w.u64(self.state_seq);
            w.value(&self.addrs);
            w.value(&self.laggy_since);
            // Once the rank and the name of the server that it stands by for.
            w.i32(NO_RANK);
            w.string("");
            w.value(&self.export_targets);
            w.u64(self.features);
            w.i32(self.join_fscid);
            w.bool(false);
            w.u64(self.flags);
            w.value(&self.compat);
        });
    }
}

impl Decode for MdsInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("metadata server", VERSION, |r, version| {
            if version < OLDEST {
                let kind = codec::DecodeErrorKind::TooOld { version, oldest: OLDEST };
                return Err(r.error("metadata server", kind));
            }
            let mut info = MdsInfo {
                gid: r.u64("gid")?,
                name: r.value()?,
                rank: r.i32("rank")?,
                incarnation: r.i32("incarnation")?,
                state: MdsState(r.i32("state")?),
                state_seq: r.u64("state sequence")?,
                addrs: r.value()?,
                laggy_since: r.value()?,
                ..MdsInfo::default()
            };
            r.i32("standby for rank")?;
            r.string("standby for name")?;
            info.export_targets = r.value()?;
            info.features = r.u64("features")?;
            info.join_fscid = r.i32("file system to join")?;
            r.bool("standby replay")?;
            if version >= 9 {
                info.flags = r.u64("flags")?;
            }
            if version >= 10 {
                info.compat = r.value()?;
            }
            Ok(info)
        })
    }
}
