//! Shared nouns as newtypes: epochs, ids, names, addresses, versions, object names, errno values.
//!
//! Pure values with their encodings. Knows no message, no map, no rule of any protocol exchange.

#![warn(missing_docs)]

mod addr;
mod cluster_version;
mod entity;
pub mod errno;
pub mod features;
mod ids;
mod image;
mod migration;
mod object;
mod shard;
mod time;
mod version;

pub use addr::{AddrType, EntityAddr, EntityAddrVec, ParseAddrError};
pub use cluster_version::{ClusterVersion, ParseServedVersionsError, ServedVersions};
pub use entity::{EntityName, EntityType, ParticipantName};
pub use errno::Errno;
pub use ids::{Epoch, OsdId, PgId, PoolId, SnapId, Uuid};
pub use image::{ChildSpec, ParentSpec};
pub use migration::MigrationSpec;
pub use object::HObject;
pub use shard::{PgShard, ShardId};
pub use time::UTime;
pub use version::{EVersion, RequestId};
