//! Backoffs: an OSD asks a client to hold operations on a range of objects.

use codec::{Decode, Encode, Reader, Result, Writer};
use types::{Epoch, HObject, PgShard};

/// `CEPH_OSD_BACKOFF_OP_*`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackoffOp {
    /// OSD to client: hold operations on the range.
    #[default]
    Block = 1,
    /// Client to OSD: operations are held.
    AckBlock = 2,
    /// OSD to client: send the operations again.
    Unblock = 3,
}

impl Encode for BackoffOp {
    fn encode(&self, w: &mut Writer) {
        w.u8(*self as u8);
    }
}

impl Decode for BackoffOp {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        match r.u8("backoff operation")? {
            1 => Ok(BackoffOp::Block),
            2 => Ok(BackoffOp::AckBlock),
            3 => Ok(BackoffOp::Unblock),
            other => Err(at.invalid("backoff operation", other.into())),
        }
    }
}

message! {
    /// `MOSDBackoff`
    OsdBackoff = 61, version 1, compat 1 {
        /// The placement group.
        pg: PgShard;
        /// Map epoch of the sender.
        map_epoch: Epoch;
        /// Action.
        op: BackoffOp;
        /// Id of the backoff within the session.
        id: u64;
        /// The range `[begin, end)`; if both are equal, that one object.
        begin: HObject;
        /// End of the range, exclusive.
        end: HObject;
    }
}
