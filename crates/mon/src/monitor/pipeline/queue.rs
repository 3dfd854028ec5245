//! Queues of waiting operations: requests of clients, and those of the cluster itself.
//!
//! Each of the two queues has its own bound, and they take turns. However many requests clients send, boots,
//! failure reports and requests of OSDs find room, and run next.

use crate::job::{AuthJob, Job, OsdJob, ServiceJob};
use engine::{ConnId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Longest time for which an operation of a client waits; then it is rejected as not executed.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Bound of the operations of clients; further ones are refused.
pub const CLIENT_JOBS_MAX: usize = 4096;
/// Bound of their size together; further ones are refused.
pub const CLIENT_BYTES_MAX: usize = 64 << 20;
/// Bound of the operations of one session. Such a session has been paused long before; its buffers may hold
/// this many.
pub const SESSION_JOBS_MAX: usize = CLIENT_JOBS_MAX / 4;
/// A session with more operations or bytes than this is paused until it has half of that.
pub const SESSION_JOBS_PAUSE: usize = 64;
pub const SESSION_BYTES_PAUSE: usize = 4 << 20;
/// Bound of the operations of OSDs and of the monitor itself. Operations of OSDs are merged, so they stay
/// few.
pub const CLUSTER_JOBS_MAX: usize = 4096;

/// The queues, and the load of each session.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Operations to be run again, before all others.
    first: VecDeque<Job>,
    cluster: VecDeque<Job>,
    clients: VecDeque<Job>,
    by_session: BTreeMap<ConnId, Load>,
    client_bytes: usize,
    /// Whether the last operation was a client's.
    was_client: bool,
    /// Time at which operations could run last.
    pub ran: Time,
}

/// Number and size of a session's waiting operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub jobs: usize,
    pub bytes: usize,
}

impl Load {
    /// Whether a session is to be paused; the thresholds are half if it is paused already.
    pub fn pauses(self, is_paused: bool) -> bool {
        let divisor = if is_paused { 2 } else { 1 };
        self.jobs > SESSION_JOBS_PAUSE / divisor || self.bytes > SESSION_BYTES_PAUSE / divisor
    }
}

impl Jobs {
    /// Puts back an operation that must run again.
    pub fn push_first(&mut self, job: Job) {
        self.first.push_front(job);
    }

    /// Queues an operation; returns it if there is no room.
    pub fn push(&mut self, job: Job) -> Result<(), Job> {
        let Some(conn) = job.client() else { return self.push_own(job) };
        let (bytes, load) = (job.bytes(), self.load(conn));
        let is_full = self.clients.len() >= CLIENT_JOBS_MAX
            || load.jobs >= SESSION_JOBS_MAX
            || self.client_bytes + bytes > CLIENT_BYTES_MAX;
        if is_full {
            return Err(job);
        }
        let load = Load { jobs: load.jobs + 1, bytes: load.bytes + bytes };
        self.by_session.insert(conn, load);
        self.client_bytes += bytes;
        self.clients.push_back(job);
        Ok(())
    }

    fn push_own(&mut self, job: Job) -> Result<(), Job> {
        if matches!(job, Job::Of(ServiceJob::Auth(AuthJob::PromotePendingKey(..))))
            && self.cluster.iter().any(|waiting| waiting.covers(&job))
        {
            return Ok(());
        }
        if self.cluster.len() >= CLUSTER_JOBS_MAX {
            return Err(job);
        }
        assert!(job.client().is_none(), "operations of clients have their own queue");
        self.cluster.push_back(job);
        Ok(())
    }

    /// Merges the operation into a waiting one if possible, else queues it; returns it if there is no room.
    pub fn push_osd(&mut self, job: OsdJob) -> Result<(), Job> {
        let mut job = job;
        for waiting in self.first.iter_mut().chain(&mut self.cluster) {
            let Job::Of(ServiceJob::Osd(waiting)) = waiting else { continue };
            match waiting.absorb(job) {
                None => return Ok(()),
                Some(apart) => job = apart,
            }
        }
        self.push(Job::Of(ServiceJob::Osd(job)))
    }

    /// The next operation; cluster and clients take turns.
    pub fn pop(&mut self) -> Option<Job> {
        if let Some(job) = self.first.pop_front() {
            return Some(job);
        }
        self.was_client = match self.was_client {
            true => self.cluster.is_empty(),
            false => !self.clients.is_empty(),
        };
        match self.was_client {
            true => self.pop_client(),
            false => self.cluster.pop_front(),
        }
    }

    fn pop_client(&mut self) -> Option<Job> {
        let job = self.clients.pop_front()?;
        self.count_out(&job);
        Some(job)
    }

    fn count_out(&mut self, job: &Job) {
        let (Some(conn), bytes) = (job.client(), job.bytes()) else { return };
        assert!(self.client_bytes >= bytes, "an operation that waits is counted");
        self.client_bytes -= bytes;
        let load = self.by_session.get_mut(&conn).expect("for its session, too");
        assert!(load.jobs > 0 && load.bytes >= bytes, "a load is a sum");
        *load = Load { jobs: load.jobs - 1, bytes: load.bytes - bytes };
        if load.jobs == 0 {
            self.by_session.remove(&conn);
        }
    }

    /// Takes out all operations that fulfil a condition.
    pub fn take(&mut self, is_wanted: impl Fn(&Job) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        for queue in [&mut self.first, &mut self.cluster] {
            taken.extend(take_from(queue, &is_wanted));
        }
        let of_clients = take_from(&mut self.clients, &is_wanted);
        of_clients.iter().for_each(|job| self.count_out(job));
        taken.extend(of_clients);
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All waiting operations.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.first.iter().chain(&self.cluster).chain(&self.clients)
    }

    /// A session's waiting operations.
    pub fn load(&self, conn: ConnId) -> Load {
        self.by_session.get(&conn).copied().unwrap_or_default()
    }

    /// Panics if a queue exceeds its bound, or if the loads of sessions are not those of their operations.
    pub fn check_invariants(&self) {
        assert!(self.clients.len() <= CLIENT_JOBS_MAX, "clients have {}", self.clients.len());
        assert!(self.cluster.len() <= CLUSTER_JOBS_MAX, "the cluster has {}", self.cluster.len());
        let mut loads = BTreeMap::<ConnId, Load>::new();
        for job in &self.clients {
            let conn = job.client().expect("the queue of clients holds nothing else");
            let load = loads.entry(conn).or_default();
            *load = Load { jobs: load.jobs + 1, bytes: load.bytes + job.bytes() };
        }
        assert_eq!(loads, self.by_session, "loads are sums over operations");
        let bytes: usize = loads.values().map(|load| load.bytes).sum();
        assert_eq!(bytes, self.client_bytes, "so is the load of all");
    }
}

/// Whether a client has waited for [`PATIENCE`].
pub(super) fn is_overdue(now: Time, job: &Job) -> bool {
    job.asked().is_some_and(|asked| now.since(asked) >= PATIENCE)
}

fn take_from(queue: &mut VecDeque<Job>, is_wanted: impl Fn(&Job) -> bool) -> VecDeque<Job> {
    let (wanted, left) = std::mem::take(queue).into_iter().partition(is_wanted);
    *queue = left;
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::OsdId;

    fn asked(conn: u64) -> Job {
        Job::Of(ServiceJob::Log { conn: ConnId(conn), entries: Vec::new() })
    }

    fn alive(osd: i32) -> OsdJob {
        OsdJob::Alive([(OsdId(osd), Default::default())].into())
    }

    #[test]
    fn clients_fill_their_queue_and_osds_are_next_all_the_same() {
        let mut jobs = Jobs::default();
        for conn in 0..8 {
            for _ in 0..SESSION_JOBS_MAX {
                let _ = jobs.push(asked(conn));
            }
        }
        assert_eq!(jobs.clients.len(), CLIENT_JOBS_MAX);
        assert!(jobs.push(asked(9)).is_err());
        assert!(jobs.push_osd(alive(1)).is_ok() && jobs.push_osd(alive(2)).is_ok());
        let two = [jobs.pop().unwrap(), jobs.pop().unwrap()];
        assert!(two.iter().any(|job| matches!(job, Job::Of(ServiceJob::Osd(_)))));
        assert_eq!(jobs.clients.len(), CLIENT_JOBS_MAX - 1);
    }

    #[test]
    #[should_panic(expected = "loads are sums over operations")]
    fn a_load_without_its_operation_is_found() {
        let mut jobs = Jobs::default();
        jobs.push(asked(1)).unwrap();
        jobs.check_invariants();
        jobs.clients.clear();
        jobs.check_invariants();
    }

    #[test]
    fn one_session_leaves_room_for_others_and_its_load_goes_down_with_its_operations() {
        let mut jobs = Jobs::default();
        while jobs.push(asked(1)).is_ok() {}
        assert_eq!(jobs.load(ConnId(1)).jobs, SESSION_JOBS_MAX);
        assert!(jobs.load(ConnId(1)).pauses(false) && jobs.push(asked(2)).is_ok());
        while jobs.load(ConnId(1)).pauses(true) {
            jobs.pop().unwrap();
        }
        assert_eq!(jobs.load(ConnId(1)).jobs, SESSION_JOBS_PAUSE / 2);
        assert_eq!(jobs.take(|_| true).len(), SESSION_JOBS_PAUSE / 2 + 1);
        assert_eq!((jobs.load(ConnId(1)), jobs.client_bytes), (Load::default(), 0));
    }
}
