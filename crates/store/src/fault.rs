//! Faults of a device, or of a store's data on it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use types::Errno;

/// Kinds of [`DeviceFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// An operation failed; the number is the system's, if it gave one.
    Io(Option<Errno>),
    /// The store's data contradict each other.
    Damaged,
    /// The store has not opened, or has stopped: it answers all requests so.
    Stopped,
}

/// Reason why a device or the store on it is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFault {
    /// Its kind, for decisions.
    pub kind: FaultKind,
    /// Its description, for users.
    pub cause: Cause,
}

impl DeviceFault {
    /// An operation failed.
    pub fn io(errno: Option<Errno>, cause: Cause) -> Self {
        DeviceFault { kind: FaultKind::Io(errno), cause }
    }

    /// The store's data contradict each other.
    pub fn damaged(cause: impl Error + Send + Sync + 'static) -> Self {
        DeviceFault { kind: FaultKind::Damaged, cause: Cause::new(cause) }
    }

    /// The store has not opened, or has stopped.
    pub fn stopped(cause: impl Error + Send + Sync + 'static) -> Self {
        DeviceFault { kind: FaultKind::Stopped, cause: Cause::new(cause) }
    }
}

impl From<std::io::Error> for DeviceFault {
    fn from(error: std::io::Error) -> Self {
        DeviceFault::io(error.raw_os_error().map(Errno), Cause::new(error))
    }
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// The error of the layer that met a fault. It is shared, since all later requests fail for the first
/// fault of a store.
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// Shares an error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Cause(Arc::new(error))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Causes are equal if users see the same.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_fault_has_the_text_of_its_cause_and_the_number_of_the_system() {
        let fault = DeviceFault::from(io::Error::from_raw_os_error(5));
        assert_eq!(fault.kind, FaultKind::Io(Some(Errno(5))));
        assert_eq!(fault.to_string(), "Input/output error (os error 5)");
        let other = DeviceFault::from(io::Error::other("no answer"));
        assert_eq!((other.kind, other.to_string()), (FaultKind::Io(None), "no answer".into()));
        assert_ne!(fault, other);
    }

    #[test]
    fn equal_causes_have_equal_texts() {
        let cause = || Cause::new(io::Error::other("no answer"));
        assert_eq!(cause(), cause());
        assert_ne!(cause(), Cause::new(io::Error::other("an answer")));
    }
}
