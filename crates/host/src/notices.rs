//! Events for the thread that runs daemons: signals, the end of a core, the end of the parent process.

use anyhow::{Context, Result};
use rt::{StopSignal, StopSignals};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

/// Exit code of a process ended by SIGINT, as shells show it.
const INTERRUPTED_EXIT_CODE: i32 = 130;

/// An event for the thread that runs daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A stop was requested.
    StopRequested,
    /// A core has ended by itself; `stop` returns the reason.
    CoreEnded,
}

/// Queue of the events of a process.
pub struct Notices {
    sender: Sender<Notice>,
    receiver: Receiver<Notice>,
}

impl Notices {
    /// Turns stop signals into notices; to be called before other threads are started. The first signal asks
    /// the process to stop; an impatient Ctrl-C then ends it.
    pub fn of_signals() -> Result<Self> {
        let (sender, receiver) = channel();
        let (signals, notify) = (StopSignals::block()?, sender.clone());
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            signals.wait();
            // The receiver is gone when the process is about to end.
            let _ = notify.send(Notice::StopRequested);
            while signals.wait() != StopSignal::Interrupt {}
            eprintln!("sepiola: ended at once; what was acknowledged is in the logs");
            std::process::exit(INTERRUPTED_EXIT_CODE);
        })?;
        Ok(Notices { sender, receiver })
    }

    /// Requests a stop when the parent process ends, which holds the other end of standard input.
    pub fn watch_parent(&self) -> Result<()> {
        let notify = self.sender();
        std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            // The receiver is gone when the process is about to end.
            let _ = notify.send(Notice::StopRequested);
        })?;
        Ok(())
    }

    /// A queue that no signal reaches.
    #[cfg(test)]
    pub(crate) fn without_signals() -> Self {
        let (sender, receiver) = channel();
        Notices { sender, receiver }
    }

    pub(crate) fn sender(&self) -> Sender<Notice> {
        self.sender.clone()
    }

    /// Waits for the next notice.
    pub fn wait(&self) -> Result<Notice> {
        self.receiver.recv().context("waiting for the end")
    }

    /// Waits for the next notice, and not longer than `timeout`; false if there was none.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.receiver.recv_timeout(timeout) != Err(RecvTimeoutError::Timeout)
    }

    /// Takes a notice if there is one: true if the process is to stop.
    pub fn has_any(&self) -> bool {
        self.receiver.try_recv() != Err(TryRecvError::Empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_with_a_notice() {
        let notices = Notices::without_signals();
        assert!(!notices.wait_timeout(Duration::ZERO));
        notices.sender().send(Notice::StopRequested).unwrap();
        assert!(notices.wait_timeout(Duration::MAX));
    }
}
