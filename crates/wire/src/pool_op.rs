//! Creation and removal of pools and their snapshots by clients of librados.

use bytes::Bytes;
use codec::{Reader, Result, Writer};
use engine::Message;
use types::{SnapId, Uuid};

/// `POOL_OP_*`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolOpKind {
    /// Creates a pool.
    Create = 0x01,
    /// Deletes a pool.
    Delete = 0x02,
    /// Changes the owner; obsolete.
    AuidChange = 0x03,
    /// Takes a snapshot of the pool.
    CreateSnap = 0x11,
    /// Deletes a snapshot of the pool.
    DeleteSnap = 0x12,
    /// Allocates a self-managed snapshot id.
    CreateUnmanagedSnap = 0x21,
    /// Deletes a self-managed snapshot id.
    DeleteUnmanagedSnap = 0x22,
}

impl PoolOpKind {
    const ALL: [PoolOpKind; 7] = [
        PoolOpKind::Create,
        PoolOpKind::Delete,
        PoolOpKind::AuidChange,
        PoolOpKind::CreateSnap,
        PoolOpKind::DeleteSnap,
        PoolOpKind::CreateUnmanagedSnap,
        PoolOpKind::DeleteUnmanagedSnap,
    ];

    /// The action with this number.
    pub fn from_wire(value: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == value)
    }
}

/// `MPoolOp`
#[derive(Debug, Clone, PartialEq)]
pub struct PoolOp {
    /// Version of the OSD map that the sender has.
    pub version: u64,
    /// Id of the cluster.
    pub fsid: Uuid,
    /// The pool; 0 if one is created.
    pub pool: u32,
    /// Action.
    pub op: PoolOpKind,
    /// Snapshot to delete.
    pub snap: SnapId,
    /// Name of the pool or snapshot to create.
    pub name: String,
    /// -1 leaves the choice to the monitor.
    pub crush_rule: i16,
}

impl crate::MessageBody for PoolOp {
    const KIND: u16 = 49;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::new();
        crate::body::encode_paxos(&mut w, self.version);
        w.value(&self.fsid);
        w.u32(self.pool);
        w.u32(self.op as u32);
        w.u64(0); // once the owner
        w.value(&self.snap);
        w.value(&self.name);
        w.u8(0); // once the rule
        w.i16(self.crush_rule);
        Message::new(Self::KIND, 4, 2, w.into_bytes())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let version = crate::body::decode_paxos(&mut r)?;
        let fsid = r.value()?;
        let pool = r.u32("pool")?;
        let at = r;
        let op = r.u32("pool operation")?;
        let op =
            PoolOpKind::from_wire(op).ok_or_else(|| at.invalid("pool operation", op.into()))?;
        r.skip("owner", 8)?;
        let snap = r.value()?;
        let name = r.string("name")?;
        let old_rule = if message.version >= 3 { i16::from(r.u8("crush rule")?) } else { -1 };
        let crush_rule = if message.version >= 4 { r.i16("crush rule")? } else { old_rule };
        Ok(PoolOp { version, fsid, pool, op, snap, name, crush_rule })
    }
}

message! {
    /// `MPoolOpReply`
    PoolOpReply = 48, version 1, compat 1, paxos(version) {
        /// Id of the cluster.
        fsid: Uuid;
        /// 0 or a negative errno.
        result: i32;
        /// Epoch of the OSD map that shows the effect.
        epoch: u32;
        /// Id of a created snapshot.
        response: Option<Bytes>;
    }
}
