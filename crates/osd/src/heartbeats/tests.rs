//! Detection of silent partners.

use super::clock::AwakeClock;
use super::partner::{Liveness, Partner};
use engine::{ConnId, Duration, Time};
use types::{EntityAddrVec, Epoch};

const GRACE: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(500);

/// A watcher that pings every half second; its timers are late when it is paused.
struct Watcher {
    clock: AwakeClock,
    partner: Partner,
    now: Time,
    due: Time,
}

impl Watcher {
    fn new() -> Self {
        let now = Time(1_000_000_000_000);
        let mut partner = Partner::new(EntityAddrVec::default(), Epoch(1));
        partner.connected(ConnId(1), now);
        Watcher { clock: AwakeClock::default(), partner, now, due: now }
    }

    /// Fires the next timer, so much too late. Returns the silence to report, in milliseconds.
    fn tick(&mut self, late: Duration) -> Option<u64> {
        self.now = self.due + late;
        self.clock.woke(self.due, self.now);
        self.due = self.now + INTERVAL;
        let awake = self.clock.at(self.now);
        let liveness = self.partner.check(awake, GRACE);
        self.partner.ask(self.now, awake);
        match liveness {
            Liveness::Silent { since, .. } => Some(since.as_millis() as u64),
            _ => None,
        }
    }

    fn answer(&mut self) -> bool {
        self.partner.answered(self.now, self.now)
    }

    /// Milliseconds from the first unanswered ping to each report.
    fn reports(&mut self, ticks: usize) -> Vec<u64> {
        (0..ticks).filter_map(|_| self.tick(Duration::ZERO)).collect()
    }
}

#[test]
fn who_answers_is_never_reported() {
    let mut watcher = Watcher::new();
    for _ in 0..100 {
        assert_eq!(watcher.tick(Duration::ZERO), None);
        assert!(!watcher.answer());
    }
    assert_eq!(watcher.partner.round_trip(), Some(Duration::ZERO));
}

#[test]
fn silence_is_reported_after_the_grace_and_every_second_while_it_lasts() {
    let mut watcher = Watcher::new();
    watcher.tick(Duration::ZERO);
    watcher.answer();
    assert_eq!(watcher.reports(10), [2000, 3000, 4000]);
    assert!(watcher.answer(), "the report is taken back");
    assert!(watcher.reports(4).is_empty());
}

#[test]
fn a_pause_of_the_watcher_counts_against_nobody() {
    let mut watcher = Watcher::new();
    for pause in [0, 300, 5_000, 60_000] {
        watcher.tick(Duration::ZERO);
        watcher.answer();
        // The answers to these are in flight, or lost with the pause.
        assert_eq!(watcher.tick(Duration::from_millis(pause)), None);
        assert_eq!(watcher.tick(Duration::from_millis(pause)), None);
        watcher.answer();
    }
    // A partner that is silent all the time is reported, but later.
    let slow = Duration::from_millis(250);
    let reported = (0..20).find_map(|_| watcher.tick(slow));
    assert_eq!(reported, Some(2000));
}

#[test]
fn a_new_monitor_is_told_at_once_and_an_old_session_given_up() {
    let mut watcher = Watcher::new();
    let mut states = Vec::new();
    for _ in 0..5 {
        watcher.tick(Duration::ZERO);
        watcher.partner.report_again();
        states.push(watcher.partner.check(watcher.clock.at(watcher.now), GRACE));
    }
    let silent = Liveness::Silent { since: GRACE, session_is_old: true };
    assert_eq!(states.pop(), Some(silent));
    assert!(states.iter().all(|liveness| *liveness == Liveness::Answering));
}

#[test]
fn an_answer_of_long_ago_settles_what_was_asked_before_it_only() {
    let mut watcher = Watcher::new();
    watcher.tick(Duration::ZERO);
    let first = watcher.now;
    watcher.tick(Duration::ZERO);
    assert!(!watcher.partner.answered(watcher.now, first));
    assert!(!watcher.partner.answered(watcher.now, first), "it came twice");
    assert_eq!(watcher.reports(4), [2000]);
}
