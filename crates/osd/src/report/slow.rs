//! Clients' requests that are not answered in time, and the causes for which they wait, in words:
//! health reports that of the oldest one.

use crate::env::Env;
use crate::groups::{Group, Groups};
use crate::leases::Leases;
use crate::operations::Operations;
use crate::operations::object::Availability;
use crate::operations::request::Request;
use crate::report::group_state::state_bits;
use types::{EVersion, HObject, OsdId};
use wire::internal::{SlowRequests, pg_state};

/// The components in which requests wait.
pub(super) struct Waits<'a> {
    pub env: &'a Env,
    pub groups: &'a Groups,
    pub operations: &'a Operations,
    pub leases: &'a Leases,
}

impl Waits<'_> {
    /// Clients' requests that are older than `osd_op_complaint_time` and not answered, with the
    /// state of the oldest.
    pub fn slow_requests(&self) -> SlowRequests {
        let limit = self.env.options.op_complaint_time;
        let mut slow = SlowRequests::default();
        let mut oldest = None;
        for (key, request) in self.operations.iter() {
            let age = self.env.now.since(request.times.arrived);
            if !request.is_of_client() || age < limit {
                continue;
            }
            slow.count += 1;
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            if age >= slow.oldest_ms {
                (slow.oldest_ms, slow.oldest_in) = (age, request.pg.pg);
                oldest = Some((key, request));
            }
        }
        if let Some((key, request)) = oldest {
            slow.state = self.state(key, request);
        }
        slow
    }

    /// `active+clean; it waits for osd.1 to store it`
    fn state(&self, key: u64, request: &Request) -> String {
        let group = self.groups.get(request.pg);
        let state = |group: &Group| pg_state::to_text(state_bits(&group.pg));
        let state = group.map_or_else(|| "not here".to_owned(), state);
        match self.cause(key, request) {
            None => state,
            Some(cause) => format!("{state}; it {cause}"),
        }
    }

    /// The cause for which a request waits while its group is active; the first that applies, in
    /// the order of the table in `docs/internals/waits.md`.
    fn cause(&self, key: u64, request: &Request) -> Option<String> {
        let group = self.groups.get(request.pg).filter(|group| group.pg.is_active())?;
        let version = request.outcome.as_ref().map(|(_, version)| *version);
        let cause = match version {
            Some(version) => missing_acknowledgements(group, version),
            None if group.queues.waiting.contains(&key) => {
                "its group, which is premerge".to_owned()
            }
            None if group.queues.waiting_for_readable.contains(&key) => self.missing_leases(group),
            None if self.operations.waits_for_memory(key) => {
                "memory that other requests hold".to_owned()
            }
            None if self.operations.waits_for_copy(key) => "the object that it copies".to_owned(),
            None if request.outstanding > 0 => "the disk of this OSD".to_owned(),
            None => cause_at_object(group, self.operations, key, request)?,
        };
        Some(format!("waits for {cause}"))
    }

    fn missing_leases(&self, group: &Group) -> String {
        let (own, now) = (self.env.config.id, self.env.now);
        let acting = group.pg.members().acting_members().map(|member| member.osd);
        let others = acting.filter(|osd| *osd != own);
        let silent: Vec<OsdId> = others.filter(|osd| !self.leases.is_held_by(*osd, now)).collect();
        format!("read leases of {}", names(&silent))
    }
}

fn missing_acknowledgements(group: &Group, version: EVersion) -> String {
    let members: Vec<OsdId> = group.pg.not_stored_by(version).collect();
    match members.is_empty() {
        true => "writes before it".to_owned(),
        false => format!("{} to store it", names(&members)),
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
    let availability = context.availability(&group.pg, &group.snapshots, request);
    Some(match availability {
        Availability::Waits if group.pg.is_unfound(&object) => {
            "its object, which is unfound".to_owned()
        }
        Availability::Waits => "its object, which is being recovered".to_owned(),
        _ => "requests before it of the same object".to_owned(),
    })
}

/// `osd.1 and osd.2`
fn names(osds: &[OsdId]) -> String {
    osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(" and ")
}
