//! The cause for which a request waits, in words: health reports that of the oldest slow request.

use crate::Osd;
use crate::groups::Group;
use crate::operations::Operations;
use crate::operations::object::Fate;
use crate::operations::request::Request;
use engine::Time;
use types::{EVersion, HObject, OsdId};

impl Osd {
    /// The cause for which a request waits while its group is active; the first that applies, in
    /// the order of the table in `docs/internals/waits.md`.
    pub(crate) fn cause_of_wait(&self, now: Time, key: u64, request: &Request) -> Option<String> {
        let group = self.groups.by_id.get(&request.pg).filter(|group| group.pg.is_active())?;
        let version = request.outcome.as_ref().map(|(_, version)| *version);
        let cause = match version {
            Some(version) => self.missing_acknowledgements(group, version),
            None if group.queues.waiting.contains(&key) => {
                "its group rests before it is merged".to_owned()
            }
            None if group.queues.unleased.contains(&key) => self.missing_promises(now, group),
            None if self.operations.waits_for_memory(key) => {
                "memory that other requests hold".to_owned()
            }
            None if self.operations.waits_for_copy(key) => "the object that it copies".to_owned(),
            None if request.outstanding > 0 => "the disk of this OSD".to_owned(),
            None => cause_at_object(group, &self.operations, key, request)?,
        };
        Some(format!("waits for {cause}"))
    }

    fn missing_acknowledgements(&self, group: &Group, version: EVersion) -> String {
        let members: Vec<OsdId> = group.pg.not_stored_by(version).collect();
        match members.is_empty() {
            true => "writes before it".to_owned(),
            false => format!("{} to store it", names(&members)),
        }
    }

    fn missing_promises(&self, now: Time, group: &Group) -> String {
        let own = self.env.config.id;
        let others = group.pg.members().acting.iter().copied().filter(|osd| *osd != own);
        let silent: Vec<OsdId> = others.filter(|osd| !self.leases.is_held_by(*osd, now)).collect();
        format!("promises of {}", names(&silent))
    }
}

fn cause_at_object(
    group: &Group,
    operations: &Operations,
    key: u64,
    request: &Request,
) -> Option<String> {
    let object = HObject::head_of(request.object());
    let context = operations.context(group.queues.find(&object)?)?;
    let place = context.queue.iter().position(|waiting| *waiting == key)?;
    if place > 0 {
        return Some("requests before it of the same object".to_owned());
    }
    let fate = context.fate(&group.pg, &group.snapshots, request);
    Some(match fate {
        Fate::Waits if group.pg.is_unfound(&object) => "its object, which is unfound".to_owned(),
        Fate::Waits => "its object, which is being recovered".to_owned(),
        _ => "requests before it of the same object".to_owned(),
    })
}

/// `osd.1 and osd.2`
fn names(osds: &[OsdId]) -> String {
    osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(" and ")
}
