//! The contract between a core and what runs on it: daemons, their storage, and streams of other protocols.

use bytes::{Bytes, BytesMut};
use engine::{Node, Storage, Time};
use rt::{DiskRequest, DiskResult, FileId, SocketId};
use std::net::SocketAddr;
use types::ParticipantName;

/// Storage on real disks. Completions are polled after each request, whenever the core was woken, and
/// after a disk operation.
///
/// A storage with threads of its own wakes the core. One without threads uses the core's reactor: its disk
/// operations begin together after the daemons of a turn have run, and completed ones are delivered at the
/// beginning of a turn.
pub trait DiskStorage: Storage {
    /// The next disk operation to begin. What it completes is polled after the last one.
    fn poll_io(&mut self) -> Option<StorageIo> {
        None
    }
    /// A disk operation has ended.
    fn handle_io(&mut self, _now: Time, _token: u64, _result: DiskResult) {}
    /// True if it serves requests; an error if it failed to open. Requests are accepted before.
    fn is_open(&self) -> anyhow::Result<bool> {
        Ok(true)
    }
    /// The process is about to end: optional writes are made now.
    fn close(&mut self) {}
    /// True when these writes are done.
    fn is_closed(&self) -> bool {
        true
    }
}

/// A disk operation of a daemon's storage, identified by `token`.
#[derive(Debug)]
pub struct StorageIo {
    /// File of the core's reactor.
    pub file: FileId,
    /// Handed back with the result.
    pub token: u64,
    /// The operation.
    pub request: DiskRequest,
}

/// A node on a core: with disk operations, and streams of other protocols.
pub trait Hosted: Node {
    /// Name towards its peers.
    fn participant(&self) -> ParticipantName;
    /// Delivers storage completions to the daemon; true if there were any.
    fn pump_storage(&mut self, now: Time) -> bool;
    /// See [`DiskStorage::poll_io`].
    fn poll_io(&mut self) -> Option<StorageIo> {
        None
    }
    /// A disk operation has ended.
    fn handle_io(&mut self, _now: Time, _token: u64, _result: DiskResult) {}
    /// An event of a connection that is not a session.
    fn handle_stream(&mut self, _now: Time, _socket: SocketId, _event: StreamEvent) {}
    /// The next action on a stream.
    fn poll_stream(&mut self) -> Option<(SocketId, StreamOutput)> {
        None
    }
    /// See [`DiskStorage::is_open`].
    fn is_open(&self) -> anyhow::Result<bool> {
        Ok(true)
    }
    /// An error if it cannot go on: its core ends. Asked after each turn, when all outputs were
    /// taken; it may not make new ones.
    fn check(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
    /// The process is about to end; see [`DiskStorage::close`].
    fn close(&mut self) {}
    /// True when it may be dropped.
    fn is_closed(&self) -> bool {
        true
    }
}

/// An event of a stream.
#[derive(Debug)]
pub enum StreamEvent {
    /// A peer has connected: the first event of the stream. Unix sockets have no addresses.
    Accepted {
        /// Where the host listens.
        listener: Option<SocketAddr>,
        /// Where the peer is.
        peer: Option<SocketAddr>,
    },
    /// Received bytes, in order.
    Received(Bytes),
    /// The buffer of [`StreamOutput::ReceiveInto`] with received bytes appended.
    Filled(BytesMut),
    /// No receive is armed: the daemon decides how to continue.
    Idle,
    /// Too many bytes are queued; `Drained` follows.
    Behind,
    /// The queue is short again after `Behind`.
    Drained,
    /// Last event of the stream.
    Closed,
}

/// Action of a daemon on a stream.
#[derive(Debug)]
pub enum StreamOutput {
    /// Queues bytes; `Flush` sends them.
    Send(Bytes),
    /// Sends the queued bytes.
    Flush,
    /// Stops receiving if true, and resumes it if false.
    Pause(bool),
    /// Stops receiving; `Idle` follows.
    StopReceiving,
    /// Receives the next bytes into buffers of the core, after `Idle`.
    Receive,
    /// Receives as many bytes as the number says, and appends them to the buffer: `Filled` follows.
    /// For large data, which is not copied then.
    ReceiveInto(BytesMut, usize),
    /// Closes the connection once the queued bytes are sent: `Closed` follows.
    Finish,
    /// Closes the connection; no event follows. Queued bytes are sent as far as the kernel takes
    /// them at once.
    Close,
}
