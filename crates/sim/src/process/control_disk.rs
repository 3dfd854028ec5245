//! The control store of a simulated monitor: late, and after a crash without what was still queued.

use super::Disk;
use engine::{Duration, Time};
use mon::control::{Completion, MemControl, Request};
use std::collections::VecDeque;
use stdx::Prng;

const DELAY_MIN_US: u64 = 100;
const DELAY_MAX_US: u64 = 8_000;

pub struct ControlDisk {
    control: MemControl,
    prng: Prng,
    /// In order; due times never descend.
    queue: VecDeque<(Time, Request)>,
    completions: VecDeque<Completion>,
}

impl ControlDisk {
    pub fn new(control: MemControl, seed: u64) -> Self {
        let (queue, completions) = (VecDeque::new(), VecDeque::new());
        ControlDisk { control, prng: Prng::new(seed), queue, completions }
    }

    fn do_first(&mut self) {
        if let Some((_, request)) = self.queue.pop_front() {
            self.completions.push_back(self.control.execute(&request));
        }
    }
}

impl Disk for ControlDisk {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, now: Time, request: Request) {
        let delay = self.prng.range(DELAY_MIN_US..DELAY_MAX_US);
        let due = now + Duration::from_micros(delay);
        let due = self.queue.back().map_or(due, |(last, _)| due.max(*last));
        self.queue.push_back((due, request));
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn next_event(&self) -> Option<Time> {
        self.queue.front().map(|(due, _)| *due)
    }

    fn advance(&mut self, now: Time) {
        while self.queue.front().is_some_and(|(due, _)| *due <= now) {
            self.do_first();
        }
    }

    fn crash(&mut self) {
        let survivors = self.prng.below(self.queue.len() as u64 + 1);
        (0..survivors).for_each(|_| self.do_first());
        self.queue.clear();
        self.completions.clear();
    }
}
