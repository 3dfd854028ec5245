//! Why a command fails: an errno, and a sentence for the user.

use types::Errno;

/// The reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The errno of the command's reply.
    pub errno: Errno,
    /// A sentence for the user.
    pub text: String,
}

impl Failure {
    /// A failure with a sentence for the user.
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Failure { errno, text: text.into() }
    }

    /// EINVAL
    pub fn invalid(text: impl Into<String>) -> Self {
        Failure::new(Errno::INVAL, text)
    }

    /// ENOENT
    pub fn missing(text: impl Into<String>) -> Self {
        Failure::new(Errno::NOENT, text)
    }
}

/// Adds to an errno the step that failed.
pub(crate) trait During<T> {
    /// The error tells the step: `making /volumes/a: permission denied`.
    fn during(self, step: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T> During<T> for Result<T, Errno> {
    fn during(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(errno, format!("{}: {}", step(), errno.text())))
    }
}
