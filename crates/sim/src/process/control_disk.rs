//! Control store of simulated monitors: one shared by all, like an etcd.
//!
//! Each monitor reaches it by its own [`ControlDisk`]: requests arrive late; changes are delivered late and
//! in order. While the store is out of reach, transactions fail, some of which were applied all the same,
//! and loads wait until it is back. Leases end by the store's clock, which stops while the store is down,
//! as the next leader of an etcd extends leases.
//!
//! A store that refuses writes answers everything else. A restored store has the state at the time of its
//! backup.
//!
//! Of writes that monitors make as leaders, only those of the leader named in the store may succeed.

use super::disk::Disk;
use crate::names::MON_NAMES;
use bytes::Bytes;
use engine::{Duration, Storage, Time};
use mon::control::{CommitError, Completion, LeaseError, MemControl, Request, Transaction};
use mon::{HighWater, HighWaterGauge};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use stdx::Prng;
use types::Epoch;

const DELAY_MIN_US: u64 = 100;
const DELAY_MAX_US: u64 = 8_000;
/// Time after which a request to a store that is down fails.
const FAILURE: Duration = Duration::from_secs(2);
/// The response of one in so many transactions is lost.
const LOST_ONE_IN: u64 = 500;
/// The response to one in so many requests is late, and later ones may overtake it.
const LATE_ONE_IN: u64 = 4;

const LEADER: &str = "leader";
const MAPS: &str = "osdmap/full/";
const VERSIONS: &str = "version/";

/// State shared by all monitors.
pub struct SharedControl {
    control: MemControl,
    prng: Prng,
    /// True time; the clocks of monitors are ahead of it.
    now: Time,
    /// No monitor reaches the store before this time.
    down_until: Time,
    /// Total time for which the store was down.
    lost: Duration,
    /// The store refuses writes before this time.
    refuses_until: Time,
    backup: Option<MemControl>,
    /// Pending change notifications of each monitor, with their times.
    watchers: Vec<VecDeque<(Time, Completion)>>,
    /// Each monitor alone does not reach the store before its time.
    cut_until: Vec<Time>,
}

/// The store, as all monitors share it.
pub type Shared = Rc<RefCell<SharedControl>>;

impl SharedControl {
    /// A store that answers.
    pub fn new(control: MemControl, seed: u64, now: Time) -> Shared {
        let prng = Prng::new(seed);
        let (down_until, lost) = (Time::ZERO, Duration::ZERO);
        let shared = SharedControl {
            control,
            prng,
            now,
            down_until,
            lost,
            refuses_until: Time::ZERO,
            backup: None,
            watchers: Vec::new(),
            cut_until: Vec::new(),
        };
        Rc::new(RefCell::new(shared))
    }

    /// Moves true time forward.
    pub fn tell_time(&mut self, now: Time) {
        self.now = now;
        self.end_leases();
    }

    /// No monitor reaches the store for so long.
    pub fn fail(&mut self, duration: Duration) {
        let now = self.now;
        if now + duration > self.down_until {
            self.lost += (now + duration).since(self.down_until.max(now));
            self.down_until = now + duration;
        }
    }

    /// Refuses writes for a while; other requests are answered.
    pub fn refuse(&mut self, duration: Duration) {
        self.refuses_until = self.refuses_until.max(self.now + duration);
    }

    /// True for a write while the store refuses them. Existing leases are still renewed.
    fn refuses(&self, request: &Request) -> bool {
        let writes = match request {
            Request::Commit { transaction, .. } => !transaction.is_empty(),
            Request::Grant { .. } => true,
            Request::Range { .. } | Request::Renew { .. } => false,
        };
        writes && self.now < self.refuses_until
    }

    /// Keeps a copy of the state.
    pub fn back_up(&mut self) {
        self.backup = Some(self.control.clone());
    }

    /// True once there is a backup.
    pub fn has_backup(&self) -> bool {
        self.backup.is_some()
    }

    /// Epoch of the newest OSD map in the backup.
    pub fn backup_epoch(&self) -> Epoch {
        let maps = self.backup.as_ref().map(|backup| backup.range(MAPS)).unwrap_or_default();
        let newest = maps.last().and_then(|entry| entry.key.strip_prefix(MAPS)?.parse().ok());
        Epoch(newest.unwrap_or(0))
    }

    /// All keys with their values, but for the leader's, which ends with its lease.
    pub fn pairs(&self) -> Vec<(String, Bytes)> {
        let entries = self.control.range("").into_iter().filter(|entry| entry.key != LEADER);
        entries.map(|entry| (entry.key, entry.value)).collect()
    }

    /// Replaces all content. No monitor may be running.
    pub fn replace(&mut self, pairs: Vec<(String, Bytes)>) {
        let mut all = Transaction::default();
        pairs.into_iter().for_each(|(key, value)| all.put(key, value));
        self.control = MemControl::new();
        self.control.commit(&all).expect("an empty store has no conflict");
    }

    /// Discards all changes since the backup. No monitor may be running.
    pub fn restore(&mut self) {
        self.control = self.backup.take().expect("a backup was made");
        self.watchers.iter_mut().for_each(VecDeque::clear);
        self.end_leases();
    }

    /// One monitor loses the store; all others keep it.
    pub fn cut(&mut self, monitor: usize, duration: Duration) {
        self.cut_until[monitor] = self.now + duration;
    }

    /// Time until which that monitor does not reach the store.
    fn out_of_reach(&self, monitor: usize) -> Time {
        self.down_until.max(self.cut_until[monitor])
    }

    /// Ends all faults of the store.
    pub fn mend(&mut self) {
        let now = self.now;
        self.cut_until.fill(Time::ZERO);
        self.refuses_until = Time::ZERO;
        if self.down_until > now {
            self.lost = self.lost.saturating_sub(self.down_until.since(now));
            self.down_until = now;
        }
    }

    fn is_down(&self) -> bool {
        self.now < self.down_until
    }

    /// The clock that ends leases.
    fn clock(&self) -> Time {
        let ahead = self.down_until.since(self.now);
        self.now - self.lost.saturating_sub(ahead)
    }

    fn end_leases(&mut self) {
        if self.is_down() {
            return;
        }
        let clock = self.clock();
        while let Some(change) = self.control.end_lease(clock) {
            self.publish(&change);
        }
    }

    fn publish(&mut self, change: &Completion) {
        let now = self.now;
        for watcher in &mut self.watchers {
            let due = now + Duration::from_micros(self.prng.range(DELAY_MIN_US..DELAY_MAX_US));
            let due = watcher.back().map_or(due, |(last, _)| due.max(*last));
            watcher.push_back((due, change.clone()));
        }
    }

    /// Executes a monitor's request, and checks that no monitor other than the leader writes as leader.
    fn execute_for(&mut self, monitor: usize, leads: bool, request: &Request) -> Completion {
        let leader = self.control.range(LEADER).pop();
        let completion = self.execute(request);
        if let (
            true,
            Request::Commit { transaction, .. },
            Completion::Committed { outcome: Ok(_), .. },
            Some(leader),
        ) = (leads, request, &completion, leader)
            && writes_state(transaction)
        {
            let (leader, name) = (String::from_utf8_lossy(&leader.value), MON_NAMES[monitor]);
            assert!(
                leader.contains(&format!("\"name\":\"{name}\"")),
                "mon.{name} wrote as the leader, and the store has another: {leader}"
            );
        }
        completion
    }

    fn execute(&mut self, request: &Request) -> Completion {
        let completion = self.control.execute(self.clock(), request);
        if let (
            Request::Commit { transaction, .. },
            Completion::Committed { outcome: Ok(revision), .. },
        ) = (request, &completion)
            && !transaction.is_empty()
        {
            self.publish(&MemControl::events(transaction, *revision));
        }
        completion
    }
}

/// The way of one monitor to the store.
pub struct ControlDisk {
    shared: Shared,
    number: usize,
    /// By how much the monitor's clock is ahead of true time; all other times here are true time.
    ahead: Duration,
    prng: Prng,
    /// The monitor believes that it is the leader.
    pub leads: bool,
    /// In order; due times never descend. The flag is set for requests made as leader.
    queue: VecDeque<(Time, Request, bool)>,
    /// The high-water mark in the monitor's directory.
    gauge: HighWaterGauge,
    /// Failures that are reported later.
    failures: VecDeque<(Time, Completion)>,
    /// Late responses, in no order.
    late: Vec<(Time, Completion)>,
    completions: VecDeque<Completion>,
}

impl ControlDisk {
    /// A way for the next monitor.
    pub fn new(shared: &Shared, seed: u64) -> Self {
        let number = shared.borrow().watchers.len();
        shared.borrow_mut().watchers.push(VecDeque::new());
        shared.borrow_mut().cut_until.push(Time::ZERO);
        ControlDisk {
            shared: shared.clone(),
            number,
            ahead: Duration::ZERO,
            prng: Prng::new(seed),
            leads: false,
            queue: VecDeque::new(),
            gauge: HighWaterGauge::default(),
            failures: VecDeque::new(),
            late: Vec::new(),
            completions: VecDeque::new(),
        }
    }

    /// The store shared by this monitor and the others.
    pub fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// The newest state of the store that the monitor has seen.
    pub fn mark(&self) -> HighWater {
        self.gauge.mark().clone()
    }

    /// Loses the file of the high-water mark.
    pub fn lose_mark(&mut self) {
        self.gauge = HighWaterGauge::default();
    }

    fn do_first(&mut self, now: Time) {
        let Some((_, request, leads)) = self.queue.pop_front() else { return };
        if self.shared.borrow().out_of_reach(self.number) > now {
            return self.fail(now, request, leads);
        }
        if self.shared.borrow().refuses(&request) {
            self.completions.extend(refused(&request));
            return;
        }
        let mut shared = self.shared.borrow_mut();
        if let Request::Range { .. } = request {
            // Earlier changes are part of the loaded state.
            shared.watchers[self.number].clear();
        }
        let completion = shared.execute_for(self.number, leads, &request);
        drop(shared);
        match completion {
            Completion::Committed { token, .. } if self.prng.chance(1, LOST_ONE_IN) => {
                self.failures.push_back((now + FAILURE, failed(token)));
            }
            completion if self.prng.chance(1, LATE_ONE_IN) => {
                let delay = self.prng.range(DELAY_MIN_US..DELAY_MAX_US);
                self.late.push((now + Duration::from_micros(delay), completion));
            }
            completion => self.completions.push_back(completion),
        }
    }

    /// Delivers the late responses that are due, in order of their times.
    fn deliver_late(&mut self, now: Time) {
        let due = |late: &mut (Time, Completion)| late.0 <= now;
        let mut due: Vec<_> = self.late.extract_if(.., due).collect();
        due.sort_by_key(|(due, _)| *due);
        self.completions.extend(due.into_iter().map(|(_, completion)| completion));
    }

    fn fail(&mut self, now: Time, request: Request, leads: bool) {
        let completion = match request {
            // A load is retried until it succeeds.
            request @ Request::Range { .. } => {
                let back = self.shared.borrow().out_of_reach(self.number);
                return self.queue.push_front((back, request, leads));
            }
            Request::Commit { token, .. } => failed(token),
            Request::Grant { token, .. } | Request::Renew { token, .. } => {
                let reason = "the store is down".to_owned();
                Completion::Leased { token, outcome: Err(LeaseError::Failed { reason }) }
            }
        };
        self.failures.push_back((now + FAILURE, completion));
    }

    /// Sets the monitor's clock and returns the true time.
    fn set_clock(&mut self, clock: Time) -> Time {
        let now = self.shared.borrow().now;
        self.ahead = clock.since(now);
        now
    }

    /// Changes behind a load follow it.
    fn next_change(&self) -> Option<Time> {
        if self.late.iter().any(|(_, late)| matches!(late, Completion::Loaded { .. })) {
            return None;
        }
        let shared = self.shared.borrow();
        let (due, _) = shared.watchers[self.number].front()?;
        Some((*due).max(shared.out_of_reach(self.number)))
    }
}

/// True if the transaction changes state of services, not only leases.
fn writes_state(transaction: &Transaction) -> bool {
    transaction.writes.keys().any(|key| key.starts_with(VERSIONS))
}

fn refused(request: &Request) -> Option<Completion> {
    let reason = "no space left on the device".to_owned();
    match request {
        Request::Commit { token, .. } => {
            let outcome = Err(CommitError::Failed { reason });
            Some(Completion::Committed { token: *token, outcome })
        }
        Request::Grant { token, .. } => {
            let outcome = Err(LeaseError::Failed { reason });
            Some(Completion::Leased { token: *token, outcome })
        }
        Request::Range { .. } | Request::Renew { .. } => None,
    }
}

fn failed(token: u64) -> Completion {
    let reason = "the answer was lost".to_owned();
    Completion::Committed { token, outcome: Err(CommitError::Failed { reason }) }
}

impl Storage for ControlDisk {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, clock: Time, request: Request) {
        let now = self.set_clock(clock);
        let delay = self.prng.range(DELAY_MIN_US..DELAY_MAX_US);
        let due = now + Duration::from_micros(delay);
        let due = self.queue.back().map_or(due, |(last, ..)| due.max(*last));
        self.gauge.asked(&request);
        self.queue.push_back((due, request, self.leads));
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        let completion = self.completions.pop_front()?;
        self.gauge.told(&completion);
        Some(completion)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let request = self.queue.front().map(|(due, ..)| *due);
        let failure = self.failures.front().map(|(due, _)| *due);
        let late = self.late.iter().map(|(due, _)| *due).min();
        let due = [request, failure, late, self.next_change()].into_iter().flatten().min();
        due.map(|due| due + self.ahead)
    }

    fn handle_timeout(&mut self, clock: Time) {
        let now = self.set_clock(clock);
        self.deliver_late(now);
        while self.next_change().is_some_and(|due| due <= now) {
            let change = self.shared.borrow_mut().watchers[self.number].pop_front();
            self.completions.extend(change.map(|(_, change)| change));
        }
        while self.queue.front().is_some_and(|(due, ..)| *due <= now) {
            self.do_first(now);
        }
        while self.failures.front().is_some_and(|(due, _)| *due <= now) {
            self.completions.extend(self.failures.pop_front().map(|(_, completion)| completion));
        }
    }
}

impl Disk for ControlDisk {
    fn crash(&mut self) {
        let survivors = self.prng.below(self.queue.len() as u64 + 1);
        let requests: Vec<_> = self.queue.drain(..).take(survivors as usize).collect();
        for (_, request, leads) in requests {
            let mut shared = self.shared.borrow_mut();
            if shared.out_of_reach(self.number) <= shared.now && !shared.refuses(&request) {
                shared.execute_for(self.number, leads, &request);
            }
        }
        self.gauge = HighWaterGauge::new(self.mark());
        self.failures.clear();
        self.late.clear();
        self.completions.clear();
    }
}
