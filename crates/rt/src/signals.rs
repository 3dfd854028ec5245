//! SIGTERM and SIGINT, received by a thread that waits for them.

use std::io;
use std::mem::MaybeUninit;

/// Who wants us to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT: a person at the terminal
    Interrupt,
    /// SIGTERM: a program
    Terminate,
}

/// Blocks the stop signals in the thread that creates it and in all that it starts afterwards, so
/// that none of them is interrupted; whoever wants to know asks [`StopSignals::wait`].
#[derive(Debug)]
pub struct StopSignals {
    _private: (),
}

impl StopSignals {
    /// To be called before any other thread is started.
    pub fn block() -> io::Result<Self> {
        let set = stop_set();
        // SAFETY: `set` is an initialised signal set and the old mask is not asked for.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        match result {
            0 => Ok(StopSignals { _private: () }),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Waits for the next of them.
    pub fn wait(&self) -> StopSignal {
        let set = stop_set();
        let mut signal = 0;
        // SAFETY: both pointers are valid; an interrupted wait is begun again.
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
