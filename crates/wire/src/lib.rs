//! msgr2 frames and one file per Ceph message.
//!
//! [`frame`] is the outer layer: how bytes on a connection become messages. Everything else is the
//! inner layer: what the fields of an [`engine::Message`] mean, one plain struct per message, which
//! implements [`MessageBody`]. Structures that travel inside messages or as payloads of operations
//! lie beside them.
//!
//! Invariants:
//! * Bulk data is never copied: what a message carries in its data segment stays a slice of it.
//! * Decoding accepts what a newer writer appends, and everything that supported clients send.
//!
//! Knows no session, no map's meaning, no execution of operations.

#![warn(missing_docs)]

#[macro_use]
mod body;

pub mod auth_exchange;
pub mod cap_bits;
pub mod client_caps;
pub mod client_reclaim;
pub mod client_reconnect;
pub mod client_reply;
pub mod client_request;
pub mod client_session;
pub mod client_snap;
pub mod command;
pub mod config;
pub mod copy;
pub mod file_layout;
pub mod forward;
pub mod frame;
pub mod inode_stat;
pub mod internal;
pub mod listing;
pub mod locator;
pub mod log;
pub mod mds_beacon;
pub mod mds_map;
pub mod mds_report;
pub mod mgr_map;
pub mod mgr_session;
pub mod mon_map;
pub mod mon_subscribe;
pub mod mon_version;
pub mod op;
pub mod options;
pub mod osd_backoff;
pub mod osd_boot;
pub mod osd_map;
pub mod osd_op;
pub mod osd_reply;
pub mod osd_reports;
pub mod osd_request;
pub mod peer_fault;
pub mod ping;
pub mod pool_op;
pub mod pool_stats;
pub mod remove_snaps;
pub mod snapshots;
pub mod statfs;
pub mod tell;
pub mod watch;

pub use auth_exchange::{Auth, AuthReply};
pub use body::MessageBody;
pub use cap_bits::CapBits;
pub use client_caps::{
    CapItem, CapOp, ClientCapRelease, ClientCaps, ClientLease, ClientQuota, client_caps_flags,
};
pub use client_reclaim::{ClientReclaim, ClientReclaimReply};
pub use client_reconnect::{ClaimedCap, ClaimedRealm, ClientReconnect};
pub use client_reply::{
    ClientReply, CreatedInode, DirectoryEntry, DirectoryPage, ReplyDentry, SnapshotMetadata,
    VirtualAttribute, readdir_flags,
};
pub use client_request::{
    ClientOp, ClientRequest, ClientRequestForward, FilePath, RequestArguments, RequestRelease,
    client_flags, open_flags, setattr_mask,
};
pub use client_session::{ClientSession, FeatureBits, SessionOp, SnapRealmInfo, session_features};
pub use client_snap::ClientSnap;
pub use command::{Command, CommandReply, MgrCommand, MgrCommandReply, MonCommand, MonCommandAck};
pub use config::Config;
pub use file_layout::FileLayout;
pub use inode_stat::{DirStat, InodeStat, LeaseStat, QuotaInfo, ReplyCap};
pub use locator::{ObjectLocator, Redirect};
pub use log::{Log, LogAck, LogEntry};
pub use mds_beacon::{MdsBeacon, MdsHealth, MdsHealthMetric};
pub use mds_map::{FsMapMessage, FsMapUserMessage, MdsMapMessage};
pub use mds_report::{MdsCounters, MdsReport};
pub use mgr_map::MgrMapMessage;
pub use mgr_session::{MgrClose, MgrConfigure, MgrOpen, MgrReport, ServiceDaemon};
pub use mon_map::{MonGetMap, MonMapMessage};
pub use mon_subscribe::{MonSubscribe, MonSubscribeAck, SubscribeItem};
pub use mon_version::{MonGetVersion, MonGetVersionReply};
pub use osd_backoff::{BackoffOp, OsdBackoff};
pub use osd_boot::{OsdBoot, OsdSuperblock};
pub use osd_map::OsdMapMessage;
pub use osd_op::OsdOp;
pub use osd_reply::{OpResult, OsdReply};
pub use osd_reports::{OsdAlive, OsdBeacon, OsdFailure, OsdMarkMeDown, OsdPgTemp};
pub use osd_request::OsdRequest;
pub use peer_fault::{FaultKind, PeerFault, decode_from_peer};
pub use ping::Ping;
pub use pool_op::{PoolOp, PoolOpKind, PoolOpReply};
pub use pool_stats::{GetPoolStats, GetPoolStatsReply, PoolStat};
pub use remove_snaps::RemoveSnaps;
pub use snapshots::SnapContext;
pub use statfs::{Statfs, StatfsReply};
pub use watch::WatchNotify;
