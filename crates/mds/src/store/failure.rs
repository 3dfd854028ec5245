//! Why a rank cannot be served, as its server reports it.

use super::setup::{Setup, StoreError};
use types::Errno;

/// Why a rank cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server is on the blocklist, as one whose rank another one gets.
    ShutOut,
    /// A successor may do better.
    Passing(String),
    /// The stored state is damaged: each successor would find the same.
    Damage(String),
}

impl Failure {
    /// The stored state cannot be read. A file system that is only being made is not damaged: it has nothing
    /// to lose, and its rank stays for a server of a pool that is in order.
    pub(super) fn of(error: &StoreError, setup: &Setup) -> Failure {
        match error {
            StoreError::Request(error) => Failure::of_request(*error, "the rank cannot be opened"),
            error if error.is_newer() => Failure::Passing(format!(
                "{error}; this server is too old for the file system, run one of a newer version"
            )),
            error if setup.is_new => Failure::Passing(error.to_string()),
            error => Failure::Damage(error.to_string()),
        }
    }

    /// A request was refused, so that `consequence` is the case.
    pub(super) fn of_request(error: Errno, consequence: &str) -> Failure {
        match error {
            Errno::BLOCKLISTED => Failure::ShutOut,
            error => Failure::Passing(format!("{consequence}: {error}")),
        }
    }
}
