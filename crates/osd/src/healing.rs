//! Reads that meet damage: the object is fetched from another member, and whoever reads it waits.

use crate::Osd;
use crate::complaints::FoundBy;
use crate::execute::Need;
use crate::objects::{head_of, store_request};
use crate::request::Request;
use crate::storage::Pending;
use engine::Time;
use pg::snaps::At;
use types::{HObject, PgId};

impl Osd {
    /// A read that failed is made once more for each request: copies would be given up one after the other because of
    /// what fails once here and once there.
    pub(crate) fn read_again(&mut self, key: u64, attempt: u32, need: &Need) -> bool {
        let is_first = |request: &&mut Request| request.attempt == attempt && !request.is_reread;
        let Some(request) = self.requests.get_mut(key).filter(is_first) else { return false };
        request.is_reread = true;
        let object = match request.at {
            Some(At::Clone(id)) => head_of(request.object()).at(id),
            _ => head_of(request.object()),
        };
        let Some(kind) = store_request(request.pg, object, need) else { return false };
        self.ask_store(Pending::Need { request: key, attempt, need: need.clone() }, kind);
        true
    }

    /// A request could not read its object. Whether it begins anew, when the object is whole again.
    pub(crate) fn heal(&mut self, now: Time, key: u64, attempt: u32) -> bool {
        let Some(request) = self.requests.get(key) else { return true };
        if request.attempt != attempt {
            return true;
        }
        let (pg, head, at) = (request.pg, head_of(request.object()), request.at);
        let whoami = self.config.id;
        let Some(group) = self.groups.get_mut(&pg).filter(|group| group.pg.is_primary()) else {
            return false;
        };
        let Some(context) = group.objects.get(&head) else { return false };
        let Some(state) = context.state.as_ref() else { return false };
        // The clone that is known here may be another one by now.
        let (object, version) = match at {
            Some(At::Clone(id)) => {
                let clone = state.snaps.as_deref().and_then(|set| set.clone_of(id));
                (head.at(id), clone.map(|clone| clone.version))
            }
            _ => (head.clone(), Some(state.info.version)),
        };
        let Some(version) = version else { return false };
        if !group.pg.missing().contains(&object) {
            if group.pg.distrust(&object, version, &[whoami]) {
                group.scrub.repairs += 1;
                self.note_repair(pg, FoundBy::Read, &[whoami]);
            } else if !group.pg.cannot_read(&object, version) {
                self.pump_group(now, pg);
                return false;
            }
        }
        tracing::error!(%pg, %object, "a read met damage; the object comes from another copy");
        self.restart_readers(pg, &head);
        self.pump_group(now, pg);
        self.pump_object(now, pg, &head);
        true
    }

    /// An object is where it belongs, or turned out to be lost: whoever waits for it goes on.
    pub(crate) fn recovered(&mut self, now: Time, pg: PgId, object: &HObject) {
        if let Some(context) = self.context_mut(pg, object) {
            // What is known of a lost object may be a guess.
            context.forget_state();
            self.pump_object(now, pg, object);
        }
    }

    /// What there is of an object does not even say in which version. Whether it comes from another copy, and whoever
    /// waits for it goes on waiting.
    pub(crate) fn heal_state(&mut self, now: Time, pg: PgId, object: &HObject) -> bool {
        let whoami = self.config.id;
        let Some(group) = self.groups.get_mut(&pg).filter(|group| group.pg.is_primary()) else {
            return false;
        };
        // Of what is lost there is no other copy.
        if group.pg.is_lost(object) {
            return false;
        }
        // It is being fetched already, or waits for a member that is down: its requests go on when it is there. To load
        // it before would fail at once, again and again.
        if group.pg.missing().contains(object) {
            return true;
        }
        let version = group.pg.logged_version(object);
        if !group.pg.distrust(object, version, &[whoami]) && !group.pg.cannot_read(object, version)
        {
            return false;
        }
        self.pump_group(now, pg);
        self.pump_object(now, pg, object);
        true
    }

    /// What they are reading is about to be replaced, so all begin anew, before those that wait.
    fn restart_readers(&mut self, pg: PgId, object: &HObject) {
        let is_reader =
            |request: &Request| request.is_marked && head_of(request.object()) == *object;
        let readers = self.requests.of_group(pg).filter(|(_, request)| is_reader(request));
        let mut keys: Vec<u64> = readers.map(|(key, _)| key).collect();
        keys.sort_unstable_by_key(|key| self.requests.get(*key).map(|request| request.tid));
        for key in keys.iter().rev() {
            self.start_over(*key);
            let group = self.groups.get_mut(&pg).expect("the caller has it");
            let Some(context) = group.objects.get_mut(object) else { continue };
            context.queue.push_front(*key);
            context.readers.clear();
            context.has_writer = false;
            (context.copier, context.is_parked) = (None, false);
        }
    }
}
