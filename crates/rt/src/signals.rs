//! SIGTERM and SIGINT, received by a thread that waits for them.

use std::io;
use std::mem::MaybeUninit;

/// The source of a stop signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT: from the terminal.
    Interrupt,
    /// SIGTERM: from a service manager.
    Terminate,
}

/// Blocks the stop signals in the creating thread and in all threads that it starts later, so that no system
/// call is interrupted; [`StopSignals::wait`] receives them.
#[derive(Debug)]
pub struct StopSignals {
    _private: (),
}

impl StopSignals {
    /// Must be called before any other thread is started.
    pub fn block() -> io::Result<Self> {
        let set = stop_set();
        // SAFETY: `set` is an initialised signal set and the old mask is not asked for.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        match result {
            0 => Ok(StopSignals { _private: () }),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Waits for the next stop signal.
    pub fn wait(&self) -> StopSignal {
        let set = stop_set();
        let mut signal = 0;
        // An interrupted wait is repeated.
        while unsafe { libc::sigwait(&set, &mut signal) } != 0 {}
        match signal {
            libc::SIGINT => StopSignal::Interrupt,
            _ => StopSignal::Terminate,
        }
    }
}

fn stop_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before anything reads it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        set.assume_init()
    }
}
