//! The exclusive lock of an open image: taken when the first write needs it, given up when another asks for
//! it, taken again when the next write needs it.
//!
//! While it is taken or given up, requests wait, so that each finds the image as its owner does.

use super::Image;
use super::header_watch::HeaderWatch;
use crate::header::{self, Header};
use crate::lock::{self, Attempt};
use crate::notify::{ClientId, Maintenance, Notification, Response, WishId};
use crate::object_map::{self, ObjectMap};
use crate::steps::{Answer, AskId, Part, Steps, Stop, Task};
use crate::{Asker, Error, Features};
use bytes::Bytes;
use engine::Duration;
use rados::WatchId;
use std::collections::VecDeque;
use types::Errno;

/// So long one who was asked for the lock lets others have it.
const REST_AFTER_YIELD: Duration = Duration::from_millis(100);
/// Who asks for more maintenance is to ask again.
const WISHES_MAX: usize = 16;
/// Bits of a question's number that are the task's.
const NUMBER_BITS: u32 = 32;

#[derive(Debug)]
pub(super) enum Change {
    Taking(Task<Taking>),
    Renewing(Renewal),
    /// Does what somebody asked for, as the owner.
    Working(Task<Taking>, WishId),
    /// The writes that are under way come first.
    Draining,
    Releasing(Task<()>),
}

/// The lock gets the name of a new watch.
#[derive(Debug)]
pub(super) struct Renewal {
    task: Task<bool>,
    watch: WatchId,
    /// It was about to be given up.
    is_draining: bool,
}

/// What came of a try to take the lock; with it, the header as the last owner left it.
#[derive(Debug)]
pub(super) enum Taking {
    Taken(ClientId, Box<Header>, Option<ObjectMap>),
    NotYet,
}

/// Maintenance, asked for by somebody who does not get the lock.
#[derive(Debug, Clone)]
struct Wish {
    id: WishId,
    what: Maintenance,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    /// By which watch the lock is held, and who we are with it.
    held: Option<ClientId>,
    /// It was taken away, perhaps in the midst of writes, and not taken again since.
    is_lost: bool,
    change: Option<Change>,
    /// Nobody else gets it while the image is open.
    is_kept: bool,
    /// Somebody asks for it.
    is_asked_for: bool,
    /// What others are waiting for, since it is kept from them.
    wishes: VecDeque<Wish>,
    /// It was given up because somebody asked for it.
    has_yielded: bool,
    /// Of changes, whose questions are told apart by it.
    generation: u64,
    /// Requests under way that write.
    writes: usize,
}

impl Lock {
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    fn poll_ask(&mut self) -> Option<(AskId, crate::Ask)> {
        let (id, ask) = match self.change.as_mut()? {
            Change::Taking(task) | Change::Working(task, _) => task.poll_ask()?,
            Change::Renewing(renewal) => renewal.task.poll_ask()?,
            Change::Releasing(task) => task.poll_ask()?,
            Change::Draining => return None,
        };
        let part = if id.part == Part::Nobody { Part::Nobody } else { Part::Lock };
        Some((AskId { part, number: self.generation << NUMBER_BITS | id.number }, ask))
    }
}

impl Image {
    /// Takes the exclusive lock at once and keeps it from everybody else until the image is closed.
    pub fn keep_lock(&mut self) {
        self.lock.is_kept = true;
        self.go_on();
    }

    pub fn keeps_lock(&self) -> bool {
        self.lock.is_kept
    }

    /// Whether writes are this client's alone at the moment.
    pub fn has_lock(&self) -> bool {
        self.lock.is_held()
    }

    fn must_have_lock(&self) -> bool {
        self.is_writable
            && self.failure.is_none()
            && self.header.features.contains(Features::EXCLUSIVE_LOCK)
            && !self.lock.is_held()
    }

    /// Takes the lock if a request, or the image itself, needs it; whether that is so.
    pub(super) fn needs_lock_first(&mut self, key: Option<u64>) -> bool {
        let is_wanted = match key {
            Some(key) => self.requests.get(key).is_some_and(|pending| pending.writes()),
            None => self.lock.is_kept && !self.is_closing,
        };
        if !is_wanted || !self.must_have_lock() || !self.is_ready() {
            return false;
        }
        self.take_lock();
        true
    }

    fn change_lock(&mut self, change: Change) {
        self.lock.generation += 1;
        self.lock.change = Some(change);
    }

    fn take_lock(&mut self) {
        let HeaderWatch::Watching(watch) = self.watch else { return };
        let header = self.header.clone();
        let rest = std::mem::take(&mut self.lock.has_yielded).then_some(REST_AFTER_YIELD);
        self.change_lock(Change::Taking(Task::new(move |steps| {
            if let Some(rest) = rest {
                steps.rest(rest)?;
            }
            match lock::attempt(steps, &header, watch)? {
                Attempt::NotYet => Ok(Taking::NotYet),
                Attempt::Taken(me) => look_as_owner(steps, &header, me),
            }
        })));
    }

    fn release_lock(&mut self) {
        let Some(me) = self.lock.held else { return };
        let header = self.header.clone();
        self.set_map(None);
        self.change_lock(Change::Releasing(Task::new(move |steps| {
            object_map::close(steps, &header)?;
            lock::release(steps, &header, WatchId(me.handle))?;
            steps.tell(|| lock::notification(&header, Notification::ReleasedLock(me)));
            Ok(())
        })));
    }

    /// A new watch: the lock must bear its name, or its owner seems to be dead.
    pub(super) fn watch_changed(&mut self, watch: WatchId) {
        let Some(me) = self.lock.held.filter(|me| me.handle != watch.0) else { return };
        let is_draining = matches!(self.lock.change, Some(Change::Draining));
        // One that is released needs no new name, and after other changes it is looked at again.
        if self.lock.is_changing() && !is_draining {
            return;
        }
        let (header, old) = (self.header.clone(), WatchId(me.handle));
        let task = Task::new(move |steps| lock::renew(steps, &header, old, watch));
        self.change_lock(Change::Renewing(Renewal { task, watch, is_draining }));
    }

    /// Watches that began during another change.
    fn catch_up_with_watch(&mut self) {
        if let HeaderWatch::Watching(watch) = self.watch {
            self.watch_changed(watch);
        }
    }

    pub(super) fn poll_lock_ask(&mut self) -> Option<(AskId, crate::Ask)> {
        self.lock.poll_ask()
    }

    pub(super) fn lock_answered(&mut self, id: AskId, answer: Answer) {
        if id.number >> NUMBER_BITS != self.lock.generation {
            return;
        }
        let id = AskId { part: Part::Task, number: id.number & ((1 << NUMBER_BITS) - 1) };
        match &mut self.lock.change {
            Some(Change::Taking(task) | Change::Working(task, _)) => task.handle_answer(id, answer),
            Some(Change::Renewing(renewal)) => renewal.task.handle_answer(id, answer),
            Some(Change::Releasing(task)) => task.handle_answer(id, answer),
            Some(Change::Draining) | None => {}
        }
        self.advance_lock();
    }

    fn advance_lock(&mut self) {
        match &mut self.lock.change {
            Some(Change::Taking(task)) => {
                if let Some(outcome) = task.poll_outcome() {
                    self.asks.extend(last_words(task));
                    self.lock.change = None;
                    self.lock_taken(outcome);
                }
            }
            Some(Change::Working(task, wish)) => {
                let wish = *wish;
                if let Some(outcome) = task.poll_outcome() {
                    self.lock.change = None;
                    self.work_done(wish, outcome);
                }
            }
            Some(Change::Renewing(renewal)) => {
                let watch = renewal.watch;
                if let Some(outcome) = renewal.task.poll_outcome() {
                    self.lock.change = renewal.is_draining.then_some(Change::Draining);
                    self.lock_renewed(outcome, watch);
                }
            }
            Some(Change::Releasing(task)) => {
                if let Some(outcome) = task.poll_outcome() {
                    self.asks.extend(last_words(task));
                    (self.lock.change, self.lock.held) = (None, None);
                    self.lock.has_yielded = std::mem::take(&mut self.lock.is_asked_for);
                    self.lock_changed(outcome);
                }
            }
            Some(Change::Draining) | None => {}
        }
    }

    fn lock_taken(&mut self, outcome: Result<Taking, Error>) {
        match outcome {
            Ok(Taking::Taken(me, header, map)) => {
                (self.lock.held, self.lock.is_lost) = (Some(me), false);
                // The last owner may have removed objects.
                self.guards.forget();
                let told = lock::notification(&header, Notification::AcquiredLock(me));
                self.ask(Part::Nobody, 0, told);
                self.take_header(*header);
                self.set_map(map);
                self.catch_up_with_watch();
                self.go_on();
            }
            Ok(Taking::NotYet) => self.go_on(),
            Err(error) => self.lock_refused(error),
        }
    }

    fn lock_renewed(&mut self, outcome: Result<bool, Error>, watch: WatchId) {
        match (&outcome, &mut self.lock.held) {
            (Ok(true), Some(me)) => me.handle = watch.0,
            (Err(error), _) => self.lose_lock(Some(error.clone())),
            _ => self.lose_lock(None),
        }
        self.catch_up_with_watch();
        self.drain();
        self.go_on();
    }

    /// Writes that have begun must not go on without the lock and its map.
    fn lose_lock(&mut self, error: Option<Error>) {
        (self.lock.held, self.lock.change, self.lock.is_lost) = (None, None, true);
        if let Some(error) = error {
            self.fail(error);
        }
        self.abandon_map();
    }

    /// Why an object must not be changed now.
    pub(super) fn write_obstacle(&self) -> Option<Error> {
        let lost = || {
            let image = &self.header.spec;
            let text = format!(
                "the exclusive lock of {image} was taken away during a write (`rbd lock ls` names \
                 its owner); write again"
            );
            Error::cluster(text, Errno::BUSY)
        };
        self.failure.clone().or_else(|| self.lock.is_lost.then(lost))
    }

    fn lock_changed(&mut self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            self.fail(error);
        }
        self.go_on();
    }

    /// The writes that waited for the lock fail; whoever writes later asks again.
    fn lock_refused(&mut self, error: Error) {
        if self.lock.is_kept || error.errno() == Errno::BLOCKLISTED {
            self.fail(error.clone());
        }
        for key in std::mem::take(&mut self.held) {
            match self.requests.get(key) {
                Some(pending) if pending.writes() => self.refuse(key, error.clone()),
                _ => self.held.push_back(key),
            }
        }
        self.go_on();
    }

    /// A request that writes begins or ends.
    pub(super) fn write_begun(&mut self) {
        self.lock.writes += 1;
    }

    pub(super) fn write_ended(&mut self) {
        self.lock.writes -= 1;
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        let is_idle = self.lock.writes == 0 && !self.map.is_busy();
        if is_idle && matches!(self.lock.change, Some(Change::Draining)) {
            match self.lock.wishes.pop_front() {
                Some(wish) => self.work(wish),
                None => self.release_lock(),
            }
        }
    }

    /// Gives the lock to one who asks for it, once no write needs it any more.
    pub(super) fn yield_lock_if_asked(&mut self) {
        if self.lock.is_asked_for || !self.lock.wishes.is_empty() {
            self.yield_lock();
        }
    }

    /// Nobody else writes meanwhile, and requests wait.
    fn work(&mut self, wish: Wish) {
        let (header, me) = (self.header.clone(), self.lock.held.unwrap_or_default());
        let task = Task::new(move |steps| {
            crate::tasks::maintain(steps, &header, &wish.what)?;
            read_as_owner(steps, &header, me)
        });
        self.change_lock(Change::Working(task, wish.id));
        // What is refused is over already.
        self.advance_lock();
    }

    fn work_done(&mut self, wish: WishId, outcome: Result<Taking, Error>) {
        let result = outcome.as_ref().err().map_or(0, |error| error.errno().negative());
        let told = Notification::Complete { wish, result };
        self.ask(Part::Nobody, 0, lock::notification(&self.header, told));
        match outcome {
            Ok(Taking::Taken(_, header, map)) => {
                self.take_header(*header);
                self.set_map(map);
            }
            Ok(Taking::NotYet) => {}
            Err(error) => {
                let image = &self.header.spec;
                tracing::warn!(%image, %error, "what another client asked for was not done");
                // What was changed before it failed is read again with the lock.
                self.change_lock(Change::Draining);
                self.drain();
            }
        }
        self.catch_up_with_watch();
        self.go_on();
    }

    /// False if there is nothing to give.
    pub(super) fn yield_lock(&mut self) -> bool {
        if !self.lock.is_held() {
            self.lock.is_asked_for = false;
            return false;
        }
        if !self.lock.is_changing() {
            self.change_lock(Change::Draining);
            self.drain();
        }
        true
    }

    /// What is to be answered to something that somebody says about the lock.
    pub(super) fn lock_notified(&mut self, notification: &Notification) -> Bytes {
        match notification {
            Notification::RequestLock { from, .. } => self.lock_requested(*from),
            Notification::ReleasedLock(_) => {
                if let Some(Change::Taking(task)) = &mut self.lock.change {
                    task.end_rest();
                    self.advance_lock();
                }
                Bytes::new()
            }
            // Who does not get the lock has it done.
            Notification::Wanted { wish, what } if self.lock.is_held() && self.lock.is_kept => {
                self.wanted(Wish { id: *wish, what: what.clone() })
            }
            // Peers then ask for the lock and do it themselves.
            other if other.is_for_owner() && self.lock.is_held() => {
                Response(Errno::NOTSUPP.negative()).encoded()
            }
            _ => Bytes::new(),
        }
    }

    /// Whoever hears nothing for long says the same again.
    fn wanted(&mut self, wish: Wish) -> Bytes {
        let is_working =
            matches!(&self.lock.change, Some(Change::Working(_, id)) if *id == wish.id);
        let is_known = is_working || self.lock.wishes.iter().any(|other| other.id == wish.id);
        if !is_known && self.lock.wishes.len() >= WISHES_MAX {
            return Response(Errno::TIMEDOUT.negative()).encoded();
        }
        if !is_known {
            self.lock.wishes.push_back(wish);
            self.go_on();
        }
        Response(0).encoded()
    }

    fn lock_requested(&mut self, from: ClientId) -> Bytes {
        if !self.lock.is_held() || self.lock.held == Some(from) {
            return Bytes::new();
        }
        if self.lock.is_kept {
            return Response(Errno::ROFS.negative()).encoded();
        }
        self.lock.is_asked_for = true;
        self.go_on();
        Response(0).encoded()
    }

    pub(super) fn blocklisted(&mut self) {
        let error = lock::blocklisted(&self.header);
        self.fail(error);
    }
}

/// The image as the last owner left it; the lock is given up again if that cannot be known.
fn look_as_owner(steps: &mut Steps, header: &Header, me: ClientId) -> Result<Taking, Stop> {
    let outcome = read_as_owner(steps, header, me);
    if let Err(Stop::Failed(_)) = &outcome {
        // Why it is given up says more than why that failed too.
        if let Err(Stop::Waiting) = lock::release(steps, header, WatchId(me.handle)) {
            return Err(Stop::Waiting);
        }
        steps.tell(|| lock::notification(header, Notification::ReleasedLock(me)));
    }
    outcome
}

fn read_as_owner(steps: &mut Steps, header: &Header, me: ClientId) -> Result<Taking, Stop> {
    let header = header::with_ancestors(steps, |steps| {
        header::read_with_id(steps, &header.spec, header.id.clone())
    })?;
    let map = object_map::open(steps, &header)?;
    Ok(Taking::Taken(me, Box::new(header), map))
}

/// What a task that is over still tells others.
fn last_words<T>(task: &mut Task<T>) -> impl Iterator<Item = (AskId, crate::Ask)> {
    let told = std::iter::from_fn(|| task.poll_ask());
    told.map(|(_, ask)| (AskId { part: Part::Nobody, number: 0 }, ask))
}
