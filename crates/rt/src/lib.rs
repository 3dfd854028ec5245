//! One io_uring loop per core: sockets, files, timer and mailboxes of a thread.
//!
//! A [`Reactor`] owns a ring, its sockets, its timer and its mailbox. The thread that created it
//! calls [`Reactor::turn`], which submits everything that was asked since the last turn in one
//! system call, waits, and turns completions into [`Event`]s. There is no async runtime: the host
//! calls engines with each event, and what they return is submitted with the next turn.
//!
//! Invariants:
//! * Buffers that the kernel may write to or read from are owned by a socket's slot or by the
//!   buffer pool, and live until the last completion of the operation, whichever end closes first.
//! * A slot is reused only when no operation of its old owner is under way; the generation in each
//!   operation's user data proves it.
//! * This crate alone makes system calls for the data path, and (SIMD aside) holds the `unsafe`.
//!
//! It deliberately knows nothing of Ceph, sessions or daemons.

#![warn(missing_docs)]

mod buffers;
mod clock;
mod disk;
mod limits;
mod mailbox;
mod reactor;
mod ring;
mod signals;
mod socket;

pub use clock::{Clock, thread_cpu_time};
pub use disk::{
    DiskError, DiskFault, DiskFile, DiskInfo, DiskReason, DiskRequest, DiskResult, FileId,
    WriteCache,
};
pub use limits::raise_open_files;
pub use mailbox::{Mailbox, Sender, Waker, mailbox};
pub use reactor::{Config, Event, ListenerId, Reactor};
pub use ring::kernel_support;
pub use signals::{StopSignal, StopSignals};
pub use socket::SocketId;
pub use stdx::{AlignedBuffer, DIRECT_ALIGNMENT};
