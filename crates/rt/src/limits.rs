//! Resource limits of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to the hard limit, since each client takes a descriptor of each daemon;
/// returns it.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    };
    now.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_as_high_as_it_may_be() {
        let files = raise_open_files();
        assert_eq!(files, getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX));
    }
}
