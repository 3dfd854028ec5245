//! The reasons why operations are not executed.

use super::queue::PATIENCE;
use types::Errno;

/// Why an operation is not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("it makes no valid map: {0}")]
    Invalid(String),
    #[error(
        "nothing was changed: the control store is older than the cluster; see CONTROL_STORE_WENT_BACK in \
         'ceph health detail'"
    )]
    WentBack,
    #[error(
        "nothing was changed: it is more than the control store takes at once; make it in parts"
    )]
    TooLarge,
    #[error("nothing was changed: the control store does not take it: {0}")]
    Refused(String),
    #[error("the monitor has too many operations to do already; try again later")]
    Busy,
    #[error(
        "nothing was changed: the control store did not answer for {} s; see CONTROL_STORE_DOWN in \
         'ceph health detail', and give the command again when that is gone", PATIENCE.as_secs()
    )]
    NotDone,
    #[error(
        "the control store did not answer for {} s, and nobody knows whether this was done; see \
         CONTROL_STORE_DOWN in 'ceph health detail', and look when that is gone", PATIENCE.as_secs()
    )]
    Doubtful,
    #[error(
        "no monitor led for {} s, and nobody knows whether this was done; see 'ceph health detail', and look \
         when one leads again", PATIENCE.as_secs()
    )]
    Leaderless,
}

impl Rejection {
    pub fn errno(&self) -> Errno {
        match self {
            Rejection::Invalid(_) | Rejection::WentBack => Errno::IO,
            Rejection::TooLarge | Rejection::Refused(_) => Errno::FBIG,
            Rejection::Busy => Errno::AGAIN,
            Rejection::NotDone | Rejection::Doubtful | Rejection::Leaderless => Errno::TIMEDOUT,
        }
    }
}
