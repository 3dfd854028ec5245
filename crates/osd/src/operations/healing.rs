//! Reads of damaged objects: the object is recovered from another member, and its readers wait.

use crate::Osd;
use crate::execute::Need;
use crate::operations::keys::ObjectKey;
use crate::operations::request::Request;
use crate::operations::state::store_request;
use crate::report::repairs::FoundBy;
use crate::tokens::Token;
use crate::work::Work;
use pg::snaps::At;
use types::{HObject, PgId};

impl Osd {
    /// Repeats a failed read once per request, so that a transient error does not make this OSD
    /// give up copy after copy. True if it does.
    pub(crate) fn read_again(&mut self, key: u64, attempt: u32, need: &Need) -> bool {
        let is_first = |request: &&mut Request| request.attempt == attempt && !request.is_reread;
        let Some(request) = self.operations.requests.get_mut(key).filter(is_first) else {
            return false;
        };
        request.is_reread = true;
        let object = match request.at {
            Some(At::Clone(id)) => HObject::head_of(request.object()).at(id),
            _ => HObject::head_of(request.object()),
        };
        let Some(kind) = store_request(request.pg, object, need) else { return false };
        self.outbox.ask(Token::Need { request: key, attempt, need: need.clone() }, kind);
        true
    }

    /// Handles a failed read of a request's object: true if the request restarts when the object is
    /// recovered.
    pub(crate) fn heal(&mut self, key: u64, attempt: u32) -> bool {
        let Some(request) = self.operations.requests.get(key) else { return true };
        if request.attempt != attempt {
            return true;
        }
        let (pg, at) = (request.pg, request.at);
        let whoami = self.env.config.id;
        let Some(group) = self.groups.by_id.get_mut(&pg).filter(|group| group.pg.is_primary())
        else {
            return false;
        };
        let request = self.operations.requests.get(key).expect("it was just there");
        let Some(head) = group.queues.find(&HObject::head_of(request.object())) else {
            return false;
        };
        let Some(context) = self.operations.contexts.get(head) else { return false };
        let Some(state) = context.state.as_ref() else { return false };
        // The cached state of the clone may be of another one by now.
        let (object, version) = match at {
            Some(At::Clone(id)) => {
                let clone = state.snaps.as_deref().and_then(|set| set.clone_of(id));
                (context.name.at(id), clone.map(|clone| clone.version))
            }
            _ => (context.name.clone(), Some(state.info.version)),
        };
        let Some(version) = version else { return false };
        if !group.pg.missing().contains(&object) {
            if group.pg.distrust(&object, version, &[whoami]) {
                group.scrub.count_repair();
                self.report.note_repair(self.maps.map(), pg, FoundBy::Read, &[whoami]);
            } else if !group.pg.cannot_read(&object, version) {
                self.settle_group(pg);
                return false;
            }
        }
        tracing::error!(%pg, %object, "a read met damage; the object comes from another copy");
        self.operations.restart_readers(head);
        self.work.push(Work::Group(pg));
        self.work.push(Work::Object(head));
        true
    }

    /// Replaces the own copy of an object that the store could not change for damage: true if there is
    /// another copy, and the write waits for it.
    pub(crate) fn heal_refused(&mut self, pg: PgId, object: ObjectKey, key: u64) -> bool {
        let whoami = self.env.config.id;
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return false };
        let Some(context) = self.operations.contexts.get(object) else { return false };
        let Some(state) = context.state.as_ref() else { return false };
        let object = &context.name;
        if !group.pg.distrust(object, state.info.version, &[whoami]) {
            return false;
        }
        tracing::error!(%pg, %object, "a write met damage; the object comes from another copy");
        group.scrub.count_repair();
        self.report.note_repair(self.maps.map(), pg, FoundBy::Read, &[whoami]);
        let request = self.operations.requests.get_mut(key).expect("the caller has it");
        request.refused.as_mut().expect("its store refused it").is_healed = true;
        true
    }

    /// Resumes the requests for an object that was recovered, or turned out to be lost.
    pub(crate) fn recovered(&mut self, pg: PgId, object: &HObject) {
        let Some(group) = self.groups.by_id.get(&pg) else { return };
        let Some(key) = group.queues.find(&HObject::head_of(object)) else { return };
        // The assumed state of a lost object may be wrong.
        self.operations.contexts.get_mut(key).expect("it was just found").forget_state();
        self.work.push(Work::Object(key));
    }

    /// Handles an object whose metadata cannot be read, so that even its version is unknown: true
    /// if it is recovered from another copy, and its requests wait.
    pub(crate) fn heal_state(&mut self, key: ObjectKey) -> bool {
        let whoami = self.env.config.id;
        let Some(context) = self.operations.contexts.get(key) else { return false };
        let (pg, object) = (context.pg, &context.name);
        let Some(group) = self.groups.by_id.get_mut(&pg).filter(|group| group.pg.is_primary())
        else {
            return false;
        };
        // A lost object has no other copy.
        if group.pg.is_lost(object) {
            return false;
        }
        // It is being recovered already, or waits for a member that is down: its requests continue
        // when it is there. Loading it earlier would fail again and again.
        if group.pg.missing().contains(object) {
            return true;
        }
        let version = group.pg.logged_version(object);
        if !group.pg.distrust(object, version, &[whoami]) && !group.pg.cannot_read(object, version)
        {
            return false;
        }
        self.work.push(Work::Group(pg));
        self.work.push(Work::Object(key));
        true
    }
}
