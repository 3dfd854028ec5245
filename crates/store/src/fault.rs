//! Faults of a device, or of a store's data on it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Reason why a device or the store on it is of no use: an operation failed, the store's data contradict each
/// other, or the store has not opened or has stopped. Callers treat all alike, users read the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFault(Cause);

impl DeviceFault {
    /// A fault with the text of this error.
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        DeviceFault(Cause::new(cause))
    }
}

impl From<Cause> for DeviceFault {
    fn from(cause: Cause) -> Self {
        DeviceFault(cause)
    }
}

impl From<std::io::Error> for DeviceFault {
    fn from(error: std::io::Error) -> Self {
        DeviceFault::new(error)
    }
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
    fn a_fault_has_the_text_of_its_cause() {
        let fault = DeviceFault::from(io::Error::from_raw_os_error(5));
        assert_eq!(fault.to_string(), "Input/output error (os error 5)");
        let other = DeviceFault::from(io::Error::other("no answer"));
        assert_eq!(other.to_string(), "no answer");
        assert_ne!(fault, other);
    }

    #[test]
    fn equal_causes_have_equal_texts() {
        let cause = || Cause::new(io::Error::other("no answer"));
        assert_eq!(cause(), cause());
        assert_ne!(cause(), Cause::new(io::Error::other("an answer")));
    }
}
