//! The outcome of a command: an answer, or the reason for refusing it.

use bytes::Bytes;
use types::Errno;

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Zero or a negative errno.
    pub result: i32,
    /// A sentence for the user (standard error of `ceph`).
    pub text: String,
    /// Standard output of `ceph`.
    pub output: Bytes,
}

impl Answer {
    /// Success with a sentence for the user.
    pub fn said(text: impl Into<String>) -> Self {
        Answer { text: text.into(), ..Answer::default() }
    }

    /// Success with data on standard output.
    pub fn output(output: impl Into<Bytes>) -> Self {
        Answer { output: output.into(), ..Answer::default() }
    }

    /// The same answer with a sentence for the user.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// The same answer with an error as its result.
    #[must_use]
    pub fn failing(mut self, errno: Errno) -> Self {
        self.result = errno.negative();
        self
    }
}

/// The reason a command was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub errno: Errno,
    pub text: String,
}

impl Refusal {
    /// A refusal with a message for the user.
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Refusal { errno, text: text.into() }
    }

    /// `EINVAL`
    pub fn invalid(text: impl Into<String>) -> Self {
        Refusal::new(Errno::INVAL, text)
    }

    /// `ENOENT`
    pub fn missing(text: impl Into<String>) -> Self {
        Refusal::new(Errno::NOENT, text)
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Answer { result: refusal.errno.negative(), text: refusal.text, ..Answer::default() }
    }
}
