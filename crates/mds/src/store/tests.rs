//! A rank over a model of the metadata pool that may lose, at a crash, any write that it has not answered.

mod asynchronous;
mod crashes;
mod cuts;
mod fsck;
mod journal;
mod pool;
mod purges;
mod shut_out;
mod takeover;
mod world;

use super::{Failure, Setup, Store, Task};
use crate::rank::{evictions, reconnect};
use crate::{ClientPeer, Rank};
use bytes::Bytes;
use codec::{Reader, Writer};
use engine::{Duration, Message, Time};
use fsjournal::Limits;
use namespace::{Ino, PageStart, snapshots};
use pool::Pool;
use rados::{
    ClusterRequest, ClusterRequestId, Operation, OperationReply, Procedure, Reply, RequestSource,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{EntityAddrVec, EntityName, EntityType, Epoch, Errno, PoolId, SnapId, UTime};
use wire::client_request::{
    FileLockArguments, GetattrArguments, MkdirArguments, MknodArguments, OpenArguments,
    SetattrArguments, setattr_mask,
};
use wire::op::{OpCode, op_flags};
use wire::osd_op::Extent;
use wire::*;
use world::World;

const START: Time = Time(1_000_000_000);
/// The pool of the clients' data.
const DATA_POOL: PoolId = PoolId(3);
/// Bytes of an object of a file.
const OBJECT: u64 = 4 << 20;
/// Size of a file of three objects.
const LONG: u64 = 9 << 20;
/// The newest OSD map that the monitor has. It shuts out those that were evicted, and predecessors.
const NEWEST_MAP: Epoch = Epoch(12);
/// Sizes at which segments and frames end after a few records.
const SMALL: Limits =
    Limits { frame_bytes: 600, segment_bytes: 3_000, frames_in_flight: 3, bytes_in_flight: 4_000 };

fn setup(is_new: bool) -> Setup {
    Setup {
        pool: PoolId(2),
        rank: 0,
        id: [7; 16],
        incarnation: 4409,
        data_pool: PoolId(3),
        osd_epoch: Epoch(9),
        is_new,
        now: UTime::ZERO,
        limits: SMALL,
    }
}

fn addrs(client: u64) -> EntityAddrVec {
    format!("v2:10.0.0.{client}:0/77").parse().map(EntityAddrVec::one).expect("an address")
}

fn peer(client: u64) -> ClientPeer {
    let name = EntityName::new(EntityType::CLIENT, client.to_string());
    ClientPeer {
        client,
        name,
        addrs: addrs(client),
        address: None,
        caps: std::sync::Arc::new(auth::MdsCaps::allow_all()),
    }
}

fn request(op: ClientOp, path: &str) -> ClientRequest {
    let path = FilePath::new(1, Bytes::copy_from_slice(path.as_bytes()));
    ClientRequest { op, path, ..ClientRequest::default() }
}

fn mkdir(path: &str) -> ClientRequest {
    let arguments = RequestArguments::of(&MkdirArguments { mode: 0o755 });
    ClientRequest { arguments, ..request(ClientOp::MKDIR, path) }
}

fn create(path: &str) -> ClientRequest {
    let flags = open_flags::CREATE | open_flags::WRITE_ONLY;
    let arguments = OpenArguments { flags, mode: 0o644, ..OpenArguments::default() };
    let arguments = RequestArguments::of(&arguments);
    ClientRequest { arguments, ..request(ClientOp::CREATE, path) }
}

/// A create as it is asked for by a client that has created already.
fn create_new(path: &str) -> ClientRequest {
    let flags = open_flags::CREATE | open_flags::EXCLUSIVE | open_flags::WRITE_ONLY;
    let arguments = OpenArguments { flags, mode: 0o644, ..OpenArguments::default() };
    let arguments = RequestArguments::of(&arguments);
    ClientRequest { arguments, ..request(ClientOp::CREATE, path) }
}

/// A client sets the size of a file.
fn resize(path: &str, size: u64) -> ClientRequest {
    let arguments = SetattrArguments { mask: setattr_mask::SIZE, size, ..Default::default() };
    let arguments = RequestArguments::of(&arguments);
    ClientRequest { arguments, ..request(ClientOp::SETATTR, path) }
}

fn data_name(ino: u64, object: u64) -> String {
    format!("{ino:x}.{object:08x}")
}
