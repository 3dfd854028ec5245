//! The queue of each object: when a request may run, and its execution.
//!
//! Requests run in order of arrival. Writes are pipelined ahead of the store: each sees the state
//! that those before it will leave. A request that reads more than that state (data, omap), or that
//! is answered without a write, waits until the writes before it are durable.

use crate::cx::cx;
use crate::execute::{Execution, Input, Need, ObjectState, Trim, Verdict, execute, trim};
use crate::operations::Operations;
use crate::operations::checks::check_space;
use crate::operations::keys::ObjectKey;
use crate::operations::lost_object::{lost_state, remove_clone, replaced};
use crate::operations::object::{Fate, Progress};
use crate::operations::request::{Origin, Refusal, Request};
use crate::operations::state::{decode_state, store_request};
use crate::operations::submit::{is_memorable, prepare_write};
use crate::tokens::Token;
use crate::work::Work;
use crate::{Osd, limits};
use bytes::Bytes;
use engine::Time;
use pg::WatcherKey;
use pg::snaps::At;
use store::{Collection, Outcome, RequestKind, StoreError};
use types::{Errno, HObject, PgId, SnapId};

impl Osd {
    /// Starts an admitted request: it runs, or waits in its queue.
    pub(crate) fn start(&mut self, now: Time, pg: PgId, key: u64) {
        let Some(request) = self.operations.requests.get_mut(key) else { return };
        request.times.queued.get_or_insert(now);
        let Some(group) = self.groups.by_id.get_mut(&pg) else {
            return self.operations.forget(cx!(self), key);
        };
        let object = HObject::head_of(request.object());
        if group.pg.is_primary() {
            if !group.pg.is_active() || group.must_rest() {
                group.queues.waiting.push_back(key);
                return;
            }
        } else if request.nature.is_pg_op
            || request.nature.is_to_watchers
            || !group.pg.can_serve_read(&object)
        {
            // The client resends to the primary.
            return self.operations.reply_error(cx!(self), key, Errno::AGAIN);
        }
        if request.nature.is_pg_op {
            return self.list(key);
        }
        let contexts = &mut self.operations.contexts;
        let object = group.queues.enter(contexts, pg, object);
        contexts.get_mut(object).expect("it was just entered").queue.push_back(key);
        self.work.push(Work::Object(object));
    }

    /// Answers a request that was executed before with its first result; true if it was, even if
    /// the reply follows only when that write is durable.
    fn answer_repeated(&mut self, pg: PgId, key: u64) -> bool {
        let request = self.operations.requests.get(key).expect("the caller has it");
        let Origin::Client { .. } = request.origin else { return false };
        let group = self.groups.by_id.get_mut(&pg).expect("the caller has it");
        let Some(known) = group.pg.log().find_request(&request.id) else { return false };
        if known.version > group.pg.committed() {
            group.queues.repeated.entry(known.version).or_default().push(key);
            return true;
        }
        self.repeat_watches(self.env.now, key);
        self.operations.reply_again(cx!(self), key, &known);
        true
    }

    /// Runs the requests of an object's queue that may run, until one of them makes other work possible: that
    /// precedes the rest.
    pub(crate) fn advance(&mut self, now: Time, object: ObjectKey) {
        loop {
            let Some(context) = self.operations.contexts.get_mut(object) else { return };
            let pg = context.pg;
            let group = self.groups.by_id.get_mut(&pg).expect("an object has its group");
            let Some(key) = context.queue.front().copied() else { break };
            let fate = match self.operations.requests.get(key) {
                Some(request) => context.fate(&group.pg, &group.snapshots, request),
                None => Fate::Runs,
            };
            if fate == Fate::Waits {
                group.pg.want_object(&context.name);
                return self.work.push(Work::Group(pg));
            }
            if context.state.is_none() && fate != Fate::Fails {
                if !context.is_loading {
                    context.is_loading = true;
                    context.valid_through = group.pg.log().head();
                    self.load_state(object);
                }
                return;
            }
            let Some(request) = self.operations.requests.get(key) else {
                context.queue.pop_front();
                continue;
            };
            let writes = request.may_write();
            let must_wait = context.has_writer
                || writes && !context.readers.is_empty()
                || !writes && context.writes_in_flight > 0;
            if must_wait {
                // The source of a copy must not wait for another copy, or both might wait for each other.
                let Some(key) = self.operations.take_piece(object) else { return };
                if self.run(now, pg, object, key) == Progress::Blocked {
                    let context = self.operations.contexts.get_mut(object);
                    context.expect("it has what the request waits for").queue.push_back(key);
                    return self.work.push(Work::Group(pg));
                }
                if self.work.has_children() {
                    return self.work.push(Work::Object(object));
                }
                continue;
            }
            context.queue.pop_front();
            match self.run(now, pg, object, key) {
                Progress::Ran | Progress::Begun => {}
                Progress::Blocked => {
                    let context = self.operations.contexts.get_mut(object);
                    context.expect("it has what the request waits for").queue.push_front(key);
                    return self.work.push(Work::Group(pg));
                }
            }
            if self.work.has_children() {
                return self.work.push(Work::Object(object));
            }
        }
        self.forget_idle_objects(object);
    }

    /// The context of a request's object, if that has one.
    pub(crate) fn object_of(&self, key: u64) -> Option<ObjectKey> {
        let request = self.operations.requests.get(key)?;
        let group = self.groups.by_id.get(&request.pg)?;
        group.queues.find(&HObject::head_of(request.object()))
    }

    /// Runs a request at the head of its object's order.
    pub(crate) fn run(&mut self, now: Time, pg: PgId, object: ObjectKey, key: u64) -> Progress {
        loop {
            if let Some(progress) = self.try_run(now, pg, object, key) {
                return progress;
            }
        }
    }

    /// Likewise; `None` if the request has more memory now and can be executed again.
    fn try_run(&mut self, now: Time, pg: PgId, object: ObjectKey, key: u64) -> Option<Progress> {
        if self.is_abandoned(key) {
            self.operations.forget(cx!(self), key);
            return Some(Progress::Ran);
        }
        let request = self.operations.requests.get(key).expect("it was just there");
        if let Err(errno) = self.checks().check_blocklist(request) {
            return Some(self.reject(object, key, errno));
        }
        // Not earlier: a request and its resend may both have waited in the queue.
        if self.operations.requests.get(key).is_some_and(Request::may_write)
            && self.answer_repeated(pg, key)
        {
            return Some(Progress::Ran);
        }
        let request = self.operations.requests.get(key).expect("it was just there");
        if self.groups.by_id[&pg].queues.held_back.covers(request) {
            // A write before it in the queue was dropped.
            self.hold_back(key);
            return Some(Progress::Ran);
        }
        let looks_back = request.nature.rolls_back || request.object().snap < SnapId::HEAD;
        if self.fate_of(object, key) == Fate::Fails {
            return Some(self.reject(object, key, Errno::IO));
        }
        if let Some(refusal) = request.refused.filter(Refusal::is_final) {
            return Some(self.refuse(now, pg, object, key, refusal));
        }
        if looks_back && let Some(progress) = self.find_clones(pg, object, key) {
            return Some(progress);
        }
        let is_lost = self.is_given_up(object);
        if is_lost && self.needs_lost_head(key) {
            return Some(self.reject(object, key, Errno::IO));
        }
        let verdict = self.execute(now, pg, object, key, is_lost);
        let request = self.operations.requests.get_mut(key).expect("the caller has it");
        request.times.started.get_or_insert(now);
        let writes = request.may_write();
        // Reads do not begin while writes are in flight.
        let busy =
            writes && self.operations.contexts.get(object).is_some_and(|c| c.writes_in_flight > 0);
        match verdict {
            Verdict::Missing { .. } if busy => Some(Progress::Blocked),
            Verdict::Missing { needs, cost } => self.provide(now, object, key, needs, cost),
            // A lost object cannot be preserved in a clone.
            Verdict::Done(execution) if is_lost && execution.makes_clone() => {
                Some(self.reject(object, key, Errno::IO))
            }
            Verdict::Done(execution) => {
                self.watches.reserve(&execution.effects);
                let is_logged = execution.modifies() || writes && is_memorable(&execution);
                if !is_logged && writes && busy {
                    // Its result is true only if the writes before it become durable.
                    return Some(Progress::Blocked);
                }
                Some(match is_logged {
                    true => self.submit(now, pg, object, key, execution),
                    false => self.finish_unmodified(now, pg, object, key, &execution),
                })
            }
        }
    }

    /// Reserves memory for a request, then loads what it needs. `None` if it needed only memory.
    fn provide(
        &mut self,
        now: Time,
        object: ObjectKey,
        key: u64,
        needs: Vec<Need>,
        cost: u64,
    ) -> Option<Progress> {
        let expected = self.operations.requests.get(key).map_or(0, |request| request.expected);
        match self.operations.reserve(&self.env.config.sizes.budgets, key, cost.max(expected)) {
            Err(errno) => Some(self.reject(object, key, errno)),
            Ok(false) => {
                self.operations.mark_begun(object, key);
                self.operations.unload_behind(object, key);
                Some(Progress::Begun)
            }
            // An output was not built for lack of memory.
            Ok(true) if needs.is_empty() => None,
            Ok(true) => {
                self.operations.mark_begun(object, key);
                self.load_needs(now, object, key, needs);
                Some(Progress::Begun)
            }
        }
    }

    /// Logs the error of a write that the store refused, so that a resend gets the same error. If
    /// the store has no room even for the log entry, the error is only sent. If it could not read what
    /// the write changes in part, the object comes from another copy first.
    fn refuse(
        &mut self,
        now: Time,
        pg: PgId,
        object: ObjectKey,
        key: u64,
        refusal: Refusal,
    ) -> Progress {
        let errno = refusal.errno;
        if refusal.times > 1 {
            return self.reject(object, key, errno);
        }
        let context = self.operations.contexts.get(object).expect("the request was in its queue");
        if refusal.is_damage && (context.writes_in_flight > 0 || self.heal_refused(pg, object, key))
        {
            return Progress::Blocked;
        }
        let context = self.operations.contexts.get(object).expect("the request was in its queue");
        let state = context.state.as_ref().expect("it is loaded before");
        let execution = Execution::failed(errno, state);
        self.submit(now, pg, object, key, Box::new(execution))
    }

    /// Whether the origin of the request does not wait for it any more.
    pub(crate) fn is_abandoned(&self, key: u64) -> bool {
        let request = self.operations.requests.get(key).expect("the caller has it");
        match request.origin {
            Origin::Client { conn } => !self.clients.contains(conn),
            Origin::Copy { copy } => !self.operations.copies.is_known(copy),
            Origin::WatchTimeout => false,
            Origin::SnapTrim { .. } => !self.groups.by_id[&request.pg].pg.is_clean(),
            Origin::Lost { .. } => false,
        }
    }

    fn execute(
        &mut self,
        now: Time,
        pg: PgId,
        object: ObjectKey,
        key: u64,
        is_lost: bool,
    ) -> Verdict {
        let group = &self.groups.by_id[&pg];
        let request = self.operations.requests.get(key).expect("the caller has it");
        let context = self.operations.contexts.get(object).expect("the caller has it");
        let object = &context.name;
        let head = context.state.as_ref().expect("it is loaded before");
        if let Origin::SnapTrim { snap, clone } = request.origin {
            let (removed, version) = (&*group.snapshots.removed, group.pg.next_version());
            let input = Trim { head: object, state: head, clone, snap, removed, version };
            return Verdict::Done(Box::new(trim(&input)));
        }
        if let Origin::Lost { clone, .. } = request.origin
            && clone != SnapId::HEAD
        {
            return Verdict::Done(Box::new(remove_clone(object, head, clone, &group.pg)));
        }
        let (absent, target);
        let (name, state) = match request.at {
            None => (request.object(), head),
            Some(At::Head) => (object, head),
            Some(At::Clone(id)) => {
                target = object.at(id);
                (&target, &*context.clone.as_ref().expect("it was loaded before").1)
            }
            Some(At::Nowhere) => {
                absent = ObjectState::default();
                (object, &absent)
            }
        };
        let snaps = group.snapshots.to_preserve(request);
        let watches = group.watches.of(object);
        let is_connected = |key: &WatcherKey| {
            watches.and_then(|watches| watches.get(key)).is_some_and(|watch| watch.is_connected())
        };
        let replacing = (is_lost && request.replaces_object()).then(|| request.as_replacement());
        let verdict = execute(&Input {
            object: name,
            ops: replacing.as_ref().map_or(&request.message.ops, |(ops, _)| ops),
            may_write: request.may_write(),
            state,
            loaded: &request.loaded,
            caller: &request.caller,
            now: now.wall(),
            mtime: request.message.mtime,
            version: group.pg.next_version(),
            last_user_version: group.pg.info().last_user_version,
            snapshots: group.snapshots.of_request(request, &snaps),
            notify_id: self.watches.next_id(self.maps.map().epoch),
            allowance: request.reserved,
            is_connected: &is_connected,
        });
        match (verdict, replacing) {
            (Verdict::Done(execution), Some((_, is_removed_before))) => {
                Verdict::Done(replaced(execution, name, is_removed_before))
            }
            (verdict, _) => verdict,
        }
    }

    /// Loads what a request needs; it runs again when all has been loaded.
    pub(crate) fn load_needs(&mut self, now: Time, object: ObjectKey, key: u64, needs: Vec<Need>) {
        let context = self.operations.contexts.get(object).expect("its request runs");
        let (pg, mut target) = (context.pg, context.name.clone());
        let request = self.operations.requests.get_mut(key).expect("the caller has it");
        request.outstanding = needs.len();
        let attempt = request.attempt;
        if let Some(At::Clone(id)) = request.at {
            target = target.at(id);
        }
        for need in needs {
            match store_request(pg, target.clone(), &need) {
                Some(kind) => self.outbox.ask(Token::Need { request: key, attempt, need }, kind),
                None => {
                    let Need::Copy(request) = need else { continue };
                    self.begin_copy(now, key, attempt, *request);
                }
            }
        }
    }

    /// Whether recovery of a request's object has begun while the request was loading: other
    /// members are sent the present version.
    pub(crate) fn is_blocked(&self, object: ObjectKey, key: u64) -> bool {
        self.fate_of(object, key) == Fate::Waits
    }

    fn fate_of(&self, object: ObjectKey, key: u64) -> Fate {
        let Operations { contexts, requests, .. } = &self.operations;
        let (Some(context), Some(request)) = (contexts.get(object), requests.get(key)) else {
            return Fate::Runs;
        };
        let group = &self.groups.by_id[&context.pg];
        context.fate(&group.pg, &group.snapshots, request)
    }

    fn load_state(&mut self, object: ObjectKey) {
        let context = self.operations.contexts.get(object).expect("the caller has it");
        let (collection, name) = (Collection::replicated(context.pg), context.name.clone());
        let kind = RequestKind::Meta { collection, object: name };
        self.outbox.ask(Token::State { object }, kind);
    }

    /// Handles the loaded metadata of an object: its queue runs, or the object is recovered if damaged.
    pub(crate) fn state_loaded(
        &mut self,
        now: Time,
        object: ObjectKey,
        outcome: Result<Outcome, StoreError>,
    ) {
        let Some(context) = self.operations.contexts.get_mut(object) else { return };
        let pg = context.pg;
        let group = &self.groups.by_id[&pg];
        context.is_loading = false;
        let state = match group.pg.lost_version(&context.name) {
            None => decode_state(outcome),
            Some(need) => lost_state(decode_state(outcome), need, group.pg.info().clones > 0),
        };
        match state {
            Ok(state) => {
                context.state = Some(state);
                self.adopt_watchers(now, object);
                self.work.push(Work::Object(object));
            }
            Err(errno) => {
                let name = &context.name;
                tracing::error!(%pg, object = %name, %errno, "the object's state cannot be read");
                if self.heal_state(object) {
                    return;
                }
                let errno = self.unreadable_errno(pg, errno);
                let Some(context) = self.operations.contexts.get_mut(object) else { return };
                for key in std::mem::take(&mut context.queue) {
                    // A write that was executed before keeps its result, whatever became of the
                    // object since.
                    let may_write =
                        self.operations.requests.get(key).is_some_and(Request::may_write);
                    if !may_write || !self.answer_repeated(pg, key) {
                        self.operations.reply_error(cx!(self), key, errno);
                    }
                }
                // A replica keeps no context of an idle object.
                self.work.push(Work::Object(object));
            }
        }
    }

    /// The error for an object that cannot be read here: `EAGAIN` on a replica, so that the client
    /// turns to the primary, which may have another copy.
    pub(crate) fn unreadable_errno(&self, pg: PgId, errno: Errno) -> Errno {
        let is_primary = self.groups.by_id.get(&pg).is_some_and(|group| group.pg.is_primary());
        if is_primary { errno } else { Errno::AGAIN }
    }

    /// Submits a write to its group; the reply waits until it is durable. A write that changes
    /// nothing is only logged, so that a resend gets the same reply.
    fn submit(
        &mut self,
        now: Time,
        pg: PgId,
        object: ObjectKey,
        key: u64,
        mut execution: Box<Execution>,
    ) -> Progress {
        let modifies = execution.modifies();
        if modifies && let Err(errno) = self.check_outcome(key, &mut execution) {
            return self.reject(object, key, errno);
        }
        let adds = execution.delta.bytes > 0 || execution.delta.objects > 0;
        if adds || execution.makes_clone() {
            match self
                .checks()
                .may_grow(self.operations.requests.get(key).expect("the caller has it"))
            {
                Ok(true) => {}
                Ok(false) => {
                    self.hold_back(key);
                    return Progress::Ran;
                }
                Err(errno) => return self.reject(object, key, errno),
            }
        }
        let request = self.operations.requests.get_mut(key).expect("the caller has it");
        let group = self.groups.by_id.get_mut(&pg).expect("the caller has it");
        let context = self.operations.contexts.get_mut(object).expect("the caller has it");
        if !request.origin.is_maintenance() {
            group.counters.note_write(request.bytes);
        }
        let write = prepare_write(context, key, request, &mut execution, &group.pg);
        request.times.submitted = Some(now);
        let version = group.pg.submit(write);
        request.outcome = Some((execution, version));
        self.work.push(Work::Group(pg));
        Progress::Ran
    }

    /// Checks the space of a write, and drops its results and outputs unless the client wants them.
    /// `EOVERFLOW` if they are too long for a log entry.
    fn check_outcome(&self, key: u64, execution: &mut Execution) -> Result<(), Errno> {
        let request = self.operations.requests.get(key).expect("the caller has it");
        let has_room = self.groups.by_id.get(&request.pg).is_some_and(|group| group.pg.has_room());
        let has_room = has_room && !self.usage.is_disk_full();
        check_space(request, execution.makes_clone(), has_room)?;
        if !request.wants_returns() {
            execution.result = 0;
            execution.outputs.iter_mut().for_each(|(_, output)| *output = Bytes::new());
            return Ok(());
        }
        match is_memorable(execution) {
            true => Ok(()),
            false => Err(Errno::OVERFLOW),
        }
    }

    /// Replies to a write that is durable on all members.
    pub(crate) fn committed(&mut self, now: Time, pg: PgId, key: u64) {
        let Some(request) = self.operations.requests.get_mut(key) else { return };
        let (execution, version) = request.outcome.take().expect("a write has its outcome");
        request.times.committed = Some(now);
        let object = self.object_of(key);
        self.perform_effects(now, key, &execution);
        self.operations.reply_written(cx!(self), key, &execution, version);
        let group = self.groups.by_id.get_mut(&pg).expect("it has just committed");
        // Immediately, or later requests of that client would be answered before.
        for repeated in group.queues.repeated.remove(&version).unwrap_or_default() {
            self.repeat_watches(now, repeated);
            self.operations.reply_written(cx!(self), repeated, &execution, version);
        }
        if let Some(context) = object.and_then(|object| self.operations.contexts.get_mut(object)) {
            context.writes_in_flight -= 1;
        }
        let group = self.groups.by_id.get_mut(&pg).expect("it has just committed");
        if group.premerge.rests() {
            self.report.schedule.request(now);
        }
        if let Some(object) = object {
            self.work.push(Work::Object(object));
        }
    }

    fn finish_unmodified(
        &mut self,
        now: Time,
        pg: PgId,
        object: ObjectKey,
        key: u64,
        execution: &Execution,
    ) -> Progress {
        if let Some(waits) = self.operations.wait_for_turn(object, key) {
            return waits;
        }
        let group = self.groups.by_id.get_mut(&pg).expect("the caller has it");
        if group.pg.is_active() {
            if !group.lease.is_known(now) && !self.may_read(now, pg) {
                self.wait_for_lease(now, pg, object, key);
                return Progress::Begun;
            }
        } else if execution.has_failed_to_read() || !self.serves_as_replica(now, object) {
            // This copy is damaged, a write overtook the read, or a new primary may have taken over.
            self.operations.reply_error(cx!(self), key, Errno::AGAIN);
            return Progress::Ran;
        }
        let group = self.groups.by_id.get_mut(&pg).expect("it is still there");
        group.counters.reads += 1;
        let bytes = execution.outputs.iter().map(|(_, output)| output.len() as u64);
        group.counters.read_bytes += bytes.sum::<u64>();
        if execution.result >= 0 {
            self.perform_effects(now, key, execution);
        }
        let copy = &self.groups.by_id[&pg].pg;
        self.operations.reply_unmodified(cx!(self), copy, key, object, execution);
        Progress::Ran
    }

    /// Evicts idle objects beyond the group's share. Replicas keep none, because writes bypass
    /// their contexts.
    fn forget_idle_objects(&mut self, object: ObjectKey) {
        let share = limits::objects_cached_max(self.groups.by_id.len());
        let Some(context) = self.operations.contexts.get(object) else { return };
        let group = self.groups.by_id.get_mut(&context.pg).expect("an object has its group");
        let contexts = &mut self.operations.contexts;
        match group.pg.is_primary() {
            true => group.queues.evict(contexts, &group.watches, share),
            false => group.queues.forget_if_idle(contexts, object),
        }
    }
}
