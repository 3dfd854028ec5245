//! The order of replies to a client about one object.
//!
//! Requests that wait for their object are in its queue. Those that have begun and cannot be
//! answered immediately keep their places: writes among those in flight, reads among the object's
//! readers. A read that could be answered, but not before earlier ones of its client, waits until it
//! is the first of them. It keeps its memory meanwhile only if the earlier ones need no more memory.

use crate::operations::Operations;
use crate::operations::keys::ObjectKey;
use crate::operations::object::Progress;
use crate::operations::request::{Class, Origin, Request};
use types::HObject;

impl Operations {
    /// Notes in the object context that the request has begun and cannot be answered immediately.
    pub fn mark_begun(&mut self, object: ObjectKey, key: u64) {
        let request = self.requests.get_mut(key).expect("the caller has it");
        if std::mem::replace(&mut request.is_marked, true) {
            return;
        }
        let writes = request.may_write();
        let copier = (request.memory.class == Class::Copy).then_some(key);
        let context = self.contexts.get_mut(object).expect("the request was in its queue");
        match writes {
            true => (context.has_writer, context.copier) = (true, copier),
            false => context.readers.push(key),
        }
    }

    /// Makes a request without a write of its own wait if it must not be answered yet: the state
    /// that it reports is true only when earlier writes are durable, and its client gets replies in
    /// order. `None` if it may be answered.
    pub fn wait_for_turn(&mut self, object: ObjectKey, key: u64) -> Option<Progress> {
        let request = self.requests.get(key).expect("the caller has it");
        let (origin, writes) = (request.origin, request.may_write());
        let context = self.contexts.get(object).expect("the request was in its queue");
        if writes {
            return (context.writes_in_flight > 0).then_some(Progress::Blocked);
        }
        let before = context.readers.iter().take_while(|reader| **reader != key);
        let before = before.filter_map(|reader| self.requests.get(*reader));
        let mut same = before.filter(|reader| reader.origin == origin).peekable();
        same.peek()?;
        let some_wait = same.any(Request::waits_outside);
        self.mark_begun(object, key);
        if some_wait {
            self.unload(key);
        }
        self.requests.get_mut(key).expect("it was just there").is_ready = true;
        Some(Progress::Begun)
    }

    /// Returns the memory of a request and forgets its loaded state; it keeps its place.
    pub fn unload(&mut self, key: u64) {
        let request = self.requests.get_mut(key).expect("the caller has it");
        self.memory.release(request);
        request.unload();
    }

    /// The request waits for memory or a lease: later reads of its client, which wait for its
    /// reply, return their memory.
    pub fn unload_behind(&mut self, object: ObjectKey, key: u64) {
        let Some(origin) = self.requests.get(key).map(|request| request.origin) else {
            return;
        };
        let Some(context) = self.contexts.get(object) else { return };
        let behind = context.readers.iter().skip_while(|reader| **reader != key).skip(1);
        let is_ready = |reader: &u64| {
            self.requests.get(*reader).is_some_and(|r| r.origin == origin && r.is_ready)
        };
        let behind: Vec<u64> = behind.copied().filter(is_ready).collect();
        for reader in behind {
            self.unload(reader);
            self.requests.get_mut(reader).expect("it was just there").is_ready = true;
        }
    }

    /// The write that waited only for readers of its object, if these are done.
    pub fn unpark(&mut self, object: ObjectKey) -> Option<u64> {
        let context = self.contexts.get_mut(object)?;
        if !context.readers.is_empty() {
            return None;
        }
        std::mem::take(&mut context.is_parked).then_some(context.copier).flatten()
    }

    /// Puts a request that had begun back into the queue of its object, and with it the later reads of its
    /// client, which must not be answered before. They may wait for long, and return their memory.
    pub fn queue_again(&mut self, object: ObjectKey, key: u64) {
        let request = self.requests.get(key).expect("it waits");
        let (origin, writes) = (request.origin, request.may_write());
        let requests = &self.requests;
        let context = self.contexts.get_mut(object);
        let context = context.expect("it has what the request waits for");
        let mut keys = vec![key];
        if writes {
            (context.has_writer, context.copier) = (false, None);
        } else if let Some(at) = context.readers.iter().position(|reader| *reader == key) {
            let behind = context.readers.split_off(at + 1);
            context.readers.pop();
            let is_same = |key: &u64| requests.get(*key).is_some_and(|r| r.origin == origin);
            let (same, others): (Vec<u64>, Vec<u64>) = behind.into_iter().partition(is_same);
            context.readers.extend(others);
            keys.extend(same);
        }
        for key in keys.into_iter().rev() {
            context.queue.push_front(key);
            if let Some(request) = self.requests.get_mut(key) {
                self.memory.release(request);
                request.reset();
            }
        }
    }

    /// The next read of a client, if it waited only for its turn to be answered.
    pub fn next_ready(&self, object: ObjectKey, origin: Origin) -> Option<u64> {
        let readers = &self.contexts.get(object)?.readers;
        let is_next = |key: &u64| self.requests.get(*key).is_some_and(|r| r.origin == origin);
        let next = readers.iter().copied().find(is_next)?;
        self.requests.get(next).is_some_and(|reader| reader.is_ready).then_some(next)
    }

    /// Takes a read for a copy out of the queue, if the queue waits for a write that is itself a
    /// copy and has not changed anything yet.
    pub fn take_piece(&mut self, object: ObjectKey) -> Option<u64> {
        let context = self.contexts.get_mut(object)?;
        if context.copier.is_none() || context.is_parked || context.writes_in_flight > 0 {
            return None;
        }
        let is_piece = |key: &u64| {
            let request = self.requests.get(*key);
            request
                .is_some_and(|request| request.memory.class == Class::Piece && !request.may_write())
        };
        let at = context.queue.iter().position(is_piece)?;
        context.queue.remove(at)
    }

    /// Restarts the requests that are reading an object which is about to be replaced, before those
    /// in its queue.
    pub fn restart_readers(&mut self, object: ObjectKey) {
        let Some(context) = self.contexts.get(object) else { return };
        let (pg, name) = (context.pg, &context.name);
        let is_reader =
            |request: &Request| request.is_marked && HObject::head_of(request.object()) == *name;
        let readers = self.requests.of_group(pg).filter(|(_, request)| is_reader(request));
        let mut keys: Vec<u64> = readers.map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.sort_unstable_by_key(|key| self.requests.get(*key).map(|request| request.tid));
        for key in keys.iter().rev() {
            self.start_over(*key);
            let context = self.contexts.get_mut(object).expect("it was just there");
            context.queue.push_front(*key);
            context.readers.clear();
            context.has_writer = false;
            (context.copier, context.is_parked) = (None, false);
        }
    }
}
