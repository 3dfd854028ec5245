//! Messages between threads: a bounded queue and an eventfd that wakes the receiving loop.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// The reactor waits in the kernel, where only the eventfd wakes it.
const ASLEEP: u8 = 1;
/// A message was put into a mailbox.
const MAIL: u8 = 2;
/// [`Waker::wake`] was called.
const CALLED: u8 = 4;

/// Wakes a reactor from any thread. Wake-ups that come before the reactor checks are merged, and a reactor
/// that is not asleep is woken without a system call: it checks before it sleeps.
#[derive(Debug, Clone)]
pub struct Waker {
    shared: Arc<WakerShared>,
}

#[derive(Debug)]
struct WakerShared {
    event: OwnedFd,
    state: AtomicU8,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Waker { shared: Arc::new(WakerShared { event, state: AtomicU8::new(0) }) })
    }

    /// Makes the reactor return from waiting with [`crate::Event::Woken`]. From any thread.
    pub fn wake(&self) {
        self.signal(CALLED);
    }

    fn signal(&self, what: u8) {
        if self.shared.state.fetch_or(what, Ordering::AcqRel) == ASLEEP {
            // A full counter wakes as well; no other error is possible here.
            let _ = rustix::io::write(&self.shared.event, &1u64.to_ne_bytes());
        }
    }

    /// Called before the reactor waits; false if it must not sleep because a wake-up is pending.
    pub(crate) fn may_sleep(&self) -> bool {
        self.shared.state.fetch_or(ASLEEP, Ordering::AcqRel) == 0
    }

    /// Called after the wait and before mailboxes are read; true if `wake` was called.
    pub(crate) fn awake(&self) -> bool {
        // A swap, not a store: it orders this check behind the senders' writes to the mailboxes.
        self.shared.state.swap(0, Ordering::AcqRel) & CALLED != 0
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.shared.event.as_raw_fd()
    }
}

/// The sending end of a mailbox.
#[derive(Debug)]
pub struct Sender<T> {
    queue: SyncSender<T>,
    waker: Waker,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { queue: self.queue.clone(), waker: self.waker.clone() }
    }
}

impl<T> Sender<T> {
    /// Returns the message if the mailbox is full or its receiver is gone.
    pub fn send(&self, message: T) -> Result<(), T> {
        match self.queue.try_send(message) {
            Ok(()) => {
                self.waker.signal(MAIL);
                Ok(())
            }
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => Err(message),
        }
    }
}

/// The receiving end, read by the reactor's thread.
#[derive(Debug)]
pub struct Mailbox<T> {
    queue: Receiver<T>,
}

impl<T> Mailbox<T> {
    /// The oldest message; `None` if there is none, also if all senders are gone.
    pub fn receive(&mut self) -> Option<T> {
        // An abandoned mailbox is equivalent to an empty one.
        self.queue.try_recv().ok()
    }
}

/// A mailbox of at most `capacity` messages; `waker` wakes its owner, which reads it after each turn.
pub fn mailbox<T>(capacity: usize, waker: Waker) -> (Sender<T>, Mailbox<T>) {
    let (sender, receiver) = sync_channel(capacity);
    (Sender { queue: sender, waker }, Mailbox { queue: receiver })
}
