//! A store at work, and a crashed one.

use super::Report;
use super::compare::observe;
use super::generator::Generator;
use super::history::{History, Tolerance};
use super::shape::{MEMORY_TINY, MEMORY_USUAL, Shape};
use super::sound::assert_sound;
use block::BlockStore;
use block::disk::{Driver, FaultyDisk};
use engine::Time;
use stdx::Prng;
use store::mem::MemStore;
use store::{Completion, Outcome, RequestKind, StoreError, Transaction};

/// Maximum number of interruptions of a recovery.
const INTERRUPTIONS_MAX: u64 = 3;
/// Maximum number of differences that are shown.
const SHOWN_MAX: usize = 12;
/// Steps between two checks of the store's invariants, on average.
const CHECK_INTERVAL: u64 = 64;
/// Crashes between two checks of the devices, on average.
const SOUND_INTERVAL: u64 = 3;
/// Transactions between two requested checkpoints, on average, besides the store's own.
const CHECKPOINT_INTERVAL: u64 = 12;

pub struct Life {
    pub driver: Driver<BlockStore>,
    pub history: History,
    pub report: Report,
    pub prng: Prng,
    shape: Shape,
}

/// Remains of a crash.
pub struct Crashed {
    pub disk: FaultyDisk,
    /// States that the store may have, the oldest first.
    pub candidates: Vec<MemStore>,
    pub report: Report,
    prng: Prng,
    shape: Shape,
    tolerance: Tolerance,
    now: Time,
    /// Set if something was damaged that a check would report.
    pub is_damaged: bool,
}

impl Life {
    /// A new store.
    pub fn begin(shape: &Shape, seed: u64) -> Life {
        let mut prng = Prng::new(seed);
        let disk = shape.format(prng.next_u64());
        Life::begin_on(shape, disk, prng)
    }

    /// A store that was just formatted.
    pub fn begin_on(shape: &Shape, disk: FaultyDisk, prng: Prng) -> Life {
        Crashed::new(shape, disk, prng).reopen()
    }

    /// A store with this state.
    pub fn resume(shape: &Shape, disk: FaultyDisk, state: MemStore) -> Life {
        let candidates = vec![state];
        Crashed { candidates, ..Crashed::new(shape, disk, Prng::new(0)) }.reopen()
    }

    pub fn tolerating(mut self, tolerance: Tolerance) -> Life {
        self.history.tolerance = tolerance;
        self
    }

    pub fn generator(&mut self) -> Generator {
        Generator::new(self.prng.next_u64(), self.shape.object_size)
    }

    pub fn has_failed(&self) -> bool {
        self.driver.store().failure().is_some()
    }

    pub fn submit(&mut self, kind: RequestKind) {
        match kind {
            RequestKind::Commit(_) => self.report.transactions += 1,
            _ => self.report.reads += 1,
        }
        let token = self.driver.submit(kind.clone());
        self.history.submitted(token, kind);
        self.collect();
    }

    /// One step of the devices; false if no event is left.
    pub fn step(&mut self) -> bool {
        let more = self.driver.step();
        self.report.steps += 1;
        if self.prng.chance(1, CHECK_INTERVAL) {
            self.check_invariants();
        }
        self.collect();
        more
    }

    pub fn request_checkpoint(&mut self) {
        self.driver.with_store(BlockStore::request_checkpoint);
    }

    /// Makes a checkpoint and waits for its end, with nothing else in flight.
    pub fn checkpoint(&mut self) {
        self.settle();
        self.request_checkpoint();
        self.driver.run_until_idle();
        assert!(self.has_failed() || self.driver.store().is_idle(), "waits for nothing");
    }

    /// Leaves the store alone until it has nothing to do of its own accord, not even later.
    pub fn quiesce(&mut self) {
        self.settle();
        while self.step() {}
    }

    /// Closes the store like a host that ends.
    pub fn close(&mut self) {
        self.settle();
        self.driver.with_store(BlockStore::close);
        while !self.driver.store().is_closed() {
            // A host that ends does not wait for timers.
            let is_timer = self.driver.disk().next_event().is_none();
            assert!(!is_timer || self.is_due(), "nothing is on its way");
            assert!(self.step());
        }
    }

    fn is_due(&self) -> bool {
        self.driver.store().poll_timeout().is_some_and(|due| due <= self.driver.now())
    }

    /// Runs this many steps, or until no event is left.
    pub fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            if !self.step() {
                break;
            }
        }
    }

    fn collect(&mut self) {
        while let Some(completion) = self.driver.poll_completion() {
            let has_failed = self.has_failed();
            self.history.completed(completion, has_failed);
        }
    }

    fn check_invariants(&self) {
        if !self.has_failed() {
            self.driver.store().check_invariants();
        }
    }

    /// Submits a transaction and perhaps reads, and waits until few are in flight.
    pub fn load_one(&mut self, generator: &mut Generator, depth: usize) {
        self.submit(RequestKind::Commit(generator.transaction()));
        (0..self.prng.below(3)).for_each(|_| self.submit(generator.read()));
        if self.prng.chance(1, CHECKPOINT_INTERVAL) {
            self.request_checkpoint();
        }
        self.wait_until_below(depth);
    }

    pub fn load(&mut self, generator: &mut Generator, transactions: u64, depth: usize) {
        (0..transactions).for_each(|_| self.load_one(generator, depth));
    }

    /// Waits for all completions, which a failed store owes, too.
    pub fn settle(&mut self) {
        self.wait_until_below(1);
    }

    fn wait_until_below(&mut self, depth: usize) {
        while self.history.in_flight() >= depth {
            assert!(self.step(), "requests are unanswered, and nothing is on its way");
        }
    }

    /// Commits one transaction with nothing else in flight; false if it was refused.
    pub fn commit(&mut self, transaction: Transaction) -> bool {
        let refusals = self.history.refusals;
        self.submit(RequestKind::Commit(transaction));
        self.settle();
        !self.history.is_broken && self.history.refusals == refusals
    }

    /// As [`Life::commit`], but cheaper for large contents: the reference is changed only after the
    /// completion.
    pub fn commit_alone(&mut self, transaction: Transaction) -> bool {
        self.settle();
        self.report.transactions += 1;
        let outcome = self.driver.execute(RequestKind::Commit(transaction.clone()));
        if self.prng.chance(1, CHECK_INTERVAL) {
            self.check_invariants();
        }
        self.history.committed_alone(&transaction, outcome)
    }

    /// Performs one request that is not compared with the reference, with nothing else in flight.
    pub fn execute(&mut self, kind: RequestKind) -> Result<Outcome, StoreError> {
        self.report.reads += 1;
        self.driver.execute(kind)
    }

    /// The same for several commits at once.
    pub fn execute_all(&mut self, kinds: Vec<RequestKind>) -> Vec<Result<Outcome, StoreError>> {
        let tokens: Vec<_> = kinds.into_iter().map(|kind| self.driver.submit(kind)).collect();
        let answers = tokens.into_iter().map(|token| {
            let Completion { token: of, outcome } = self.driver.next_completion();
            assert_eq!(of, token);
            outcome
        });
        answers.collect()
    }

    /// Compares all contents, with nothing in flight.
    pub fn verify(&mut self) {
        self.settle();
        self.check_invariants();
        let observed = observe(&mut self.driver, &mut self.prng);
        if let Some(difference) = observed.difference(self.history.state()) {
            panic!("{difference}");
        }
    }

    /// A power failure, or only the death of the process.
    pub fn crash(self) -> Crashed {
        let mut crashed = self.stop();
        crashed.crash_disk();
        crashed
    }

    /// A crash of a copy at this moment; the store continues.
    pub fn fork(&mut self) -> Crashed {
        let mut prng = self.prng.fork();
        let mut disk = self.driver.disk().clone();
        disk.reseed(prng.next_u64());
        let mut crashed = Crashed {
            disk,
            candidates: self.history.candidates(),
            report: Report::default(),
            prng,
            shape: self.shape.clone(),
            tolerance: self.history.tolerance,
            now: self.driver.now(),
            is_damaged: false,
        };
        crashed.crash_disk();
        crashed
    }

    /// Drops the store; its devices have not crashed yet.
    fn stop(self) -> Crashed {
        Crashed {
            candidates: self.history.candidates(),
            report: self.report,
            prng: self.prng,
            shape: self.shape,
            tolerance: self.history.tolerance,
            now: self.driver.now(),
            is_damaged: false,
            disk: self.driver.into_disk(),
        }
    }
}

impl Crashed {
    /// An empty store.
    fn new(shape: &Shape, disk: FaultyDisk, prng: Prng) -> Crashed {
        Crashed {
            disk,
            candidates: vec![MemStore::new()],
            report: Report::default(),
            prng,
            shape: shape.clone(),
            tolerance: Tolerance::None,
            now: Time::ZERO,
            is_damaged: false,
        }
    }

    fn crash_disk(&mut self) {
        match self.prng.chance(1, 5) {
            true => self.disk.restart(),
            false => drop(self.disk.crash()),
        }
    }

    /// Opens the store, perhaps after crashes during recovery, and finds out which state it has.
    pub fn recover(mut self) -> Life {
        if self.prng.chance(1, 4) {
            // The memory may differ between mounts.
            self.shape.store.memory = *self.prng.choose(&[MEMORY_TINY, MEMORY_USUAL]);
        }
        for _ in 0..self.prng.below(INTERRUPTIONS_MAX + 1) {
            self.interrupt_recovery();
        }
        self.report.crashes += 1;
        self.reopen()
    }

    fn interrupt_recovery(&mut self) {
        let placeholder = FaultyDisk::new(0, self.shape.disk.clone());
        let disk = std::mem::replace(&mut self.disk, placeholder);
        let mut driver = self.shape.start(disk, self.now);
        let limit = *self.prng.choose(&[3, 30, 300]);
        for _ in 0..self.prng.below(limit) {
            self.report.steps += u64::from(driver.step());
        }
        self.now = driver.now();
        self.disk = driver.into_disk();
        self.crash_disk();
    }

    /// Opens the store without further faults.
    pub fn reopen(mut self) -> Life {
        if !self.is_damaged && self.prng.chance(1, SOUND_INTERVAL) {
            assert_sound(&self.shape, &self.disk, "before the store is opened");
        }
        let mut driver = self.shape.start(self.disk, self.now);
        driver.run_until_ready();
        self.report.steps += driver.steps();
        if let Some(failure) = driver.store().failure() {
            panic!("a sound store does not open: {failure}");
        }
        driver.store().check_invariants();
        let observed = observe(&mut driver, &mut self.prng);
        let differences = self.candidates.iter().rev().map(|state| observed.difference(state));
        let differences: Vec<Option<String>> = differences.collect();
        let Some(newest) = differences.iter().position(Option::is_none) else {
            let count = differences.len();
            let list: Vec<String> = differences.into_iter().flatten().take(SHOWN_MAX).collect();
            panic!("the store holds none of {count} states that it may hold: {list:#?}");
        };
        let state = self.candidates.swap_remove(self.candidates.len() - 1 - newest);
        Life {
            driver,
            history: History::new(state, self.tolerance),
            report: self.report,
            prng: self.prng,
            shape: self.shape,
        }
    }
}
