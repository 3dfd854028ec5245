//! Set-up of the ring, and the user data that ties a completion to its owner.

use io_uring::IoUring;
use std::io;

/// Owner of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Accept,
    AcceptAgain,
    Connect,
    Receive,
    ReceiveDirect,
    Send,
    Wake,
    Cancel,
    Disk,
}

const OPERATIONS: [Operation; 9] = [
    Operation::Accept,
    Operation::AcceptAgain,
    Operation::Connect,
    Operation::Receive,
    Operation::ReceiveDirect,
    Operation::Send,
    Operation::Wake,
    Operation::Cancel,
    Operation::Disk,
];

/// Operation (8 bits), generation of the slot (24 bits), slot (32 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserData {
    /// Kind of the operation.
    pub operation: Operation,
    /// Generation of the slot, truncated to [`GENERATION_MASK`].
    pub generation: u32,
    /// Slot of the socket, listener or disk operation.
    pub slot: u32,
}

pub(crate) const GENERATION_MASK: u32 = 0x00ff_ffff;

impl UserData {
    /// The user data of a submission.
    pub fn pack(self) -> u64 {
        let operation = self.operation as u64;
        operation << 56 | u64::from(self.generation & GENERATION_MASK) << 32 | u64::from(self.slot)
    }

    /// The owner of a completion.
    pub fn unpack(raw: u64) -> UserData {
        let operation = OPERATIONS[(raw >> 56) as usize];
        let generation = (raw >> 32) as u32 & GENERATION_MASK;
        UserData { operation, generation, slot: raw as u32 }
    }
}

/// A ring for one thread. Completions are processed only when that thread asks for them (DEFER_TASKRUN, Linux
/// 6.1), which saves interrupts; older kernels get a plain ring.
pub(crate) fn build(entries: u32) -> io::Result<IoUring> {
    let deferred = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(entries * 4)
        .build(entries);
    match deferred {
        Ok(ring) => Ok(ring),
        Err(_) => IoUring::builder().setup_cqsize(entries * 4).build(entries),
    }
}

/// Checks that io_uring is allowed and has provided buffer rings (Linux 5.19).
pub fn kernel_support() -> Result<(), String> {
    let explain = |error: io::Error| {
        format!(
            "io_uring is not available ({error}): Sepiola needs Linux 6.1 or newer with \
             kernel.io_uring_disabled=0 and a container that allows io_uring"
        )
    };
    build(8).map(|_| ()).map_err(explain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_packs_and_unpacks() {
        for operation in OPERATIONS {
            let data = UserData { operation, generation: 0xabcdef, slot: 0xffff_fffe };
            assert_eq!(UserData::unpack(data.pack()), data);
        }
    }
}
