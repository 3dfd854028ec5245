//! CPU time and memory of processes, from the kernel's accounting.

use access::{ClusterArgs, DataDir};
use std::fs;
use std::time::Duration;

/// Processes whose CPU time counts as the daemons'.
pub fn daemon_pids(named: &[u32], cluster: &ClusterArgs) -> Vec<u32> {
    if !named.is_empty() {
        return named.to_vec();
    }
    DataDir::new(&cluster.data.data).running().into_iter().collect()
}

/// User and system time of the living processes among `pids` so far, with all threads.
pub fn cpu_time(pids: &[u32]) -> Duration {
    pids.iter().filter_map(|pid| cpu_of_process(*pid)).sum()
}

/// Resident memory of the living processes among `pids`.
pub fn resident_bytes(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| resident_of_process(*pid)).sum()
}

fn cpu_of_process(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = ticks(&stat)?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

fn resident_of_process(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The 14th and 15th fields; the second, a name in parentheses, may contain any characters.
fn ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_does_not_confuse() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 123 45 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(168));
        assert!(cpu_of_process(std::process::id()).is_some());
    }

    #[test]
    fn this_process_holds_memory_and_a_dead_one_none() {
        assert!(resident_bytes(&[std::process::id()]) > 0);
        assert_eq!(resident_bytes(&[u32::MAX]), 0);
    }
}
