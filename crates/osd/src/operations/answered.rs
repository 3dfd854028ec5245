//! Answered requests, as far as reports need them.

use crate::operations::request::{Request, Times};
use types::{EntityAddr, PgId, RequestId};
use wire::OsdRequest;

/// A client's request that was answered, as far as reports need it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub message: OsdRequest,
    pub id: RequestId,
    pub pg: PgId,
    pub addr: EntityAddr,
    pub writes: bool,
    pub times: Times,
    /// Length of its message in bytes.
    pub input_bytes: usize,
    /// Bytes of the outputs in its reply.
    pub output_bytes: u64,
}

impl Answered {
    /// The facts of a request, whose reply has outputs of so many bytes.
    pub fn new(request: Request, output_bytes: u64) -> Self {
        Answered {
            writes: request.may_write(),
            message: request.message,
            id: request.id,
            pg: request.pg.pg,
            addr: request.caller.addr,
            times: request.times,
            input_bytes: request.bytes,
            output_bytes,
        }
    }
}
