//! Messages between threads: a bounded queue and an eventfd that wakes the receiving loop.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Wakes a reactor from any thread. Wake-ups that come before the reactor has looked are one.
#[derive(Debug, Clone)]
pub struct Waker {
    shared: Arc<WakerShared>,
}

#[derive(Debug)]
struct WakerShared {
    event: OwnedFd,
    pending: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Waker { shared: Arc::new(WakerShared { event, pending: AtomicBool::new(false) }) })
    }

    pub fn wake(&self) {
        // Only the first of many pays for the system call.
        if !self.shared.pending.swap(true, Ordering::AcqRel) {
            // A counter that is full is awake already; nothing else can fail here.
            let _ = rustix::io::write(&self.shared.event, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn acknowledge(&self) {
        // A swap, not a store: whoever found it set has put its message where the reactor looks next.
        self.shared.pending.swap(false, Ordering::AcqRel);
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
    /// Gives the message back if the mailbox is full or its owner is gone.
    pub fn send(&self, message: T) -> Result<(), T> {
        match self.queue.try_send(message) {
            Ok(()) => {
                self.waker.wake();
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
    pub fn receive(&mut self) -> Option<T> {
        // Empty and abandoned are the same to the reader.
        self.queue.try_recv().ok()
    }
}

/// A mailbox of at most `capacity` messages whose owner is woken by `waker`.
pub fn mailbox<T>(capacity: usize, waker: Waker) -> (Sender<T>, Mailbox<T>) {
    let (sender, receiver) = sync_channel(capacity);
    (Sender { queue: sender, waker }, Mailbox { queue: receiver })
}
