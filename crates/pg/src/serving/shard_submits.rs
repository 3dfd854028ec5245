//! Submits writes of a group with shards: they are logged, planned, and put behind all others.

use super::advance::{self, readable};
use super::pipeline::{Content, Planned, Queued};
use super::service::{InFlight, Service};
use super::writes::{ENTRY_LEN_USUAL, Write, also_entries, next_version};
use crate::backend::erasure::plan::{Plan, Reach};
use crate::members::MemberSet;
use crate::{EntryKind, LogEntry, Member};
use erasure::Shards;
use std::collections::BTreeSet;
use types::EVersion;

/// Orders a write after all others, logs and plans it, and returns its version. It is sent as soon as its old
/// rows are here.
pub(super) fn submit(service: &mut Service<'_>, write: Write) -> EVersion {
    let mut entries = also_entries(service, &write);
    let version = EVersion {
        version: next_version(service.core).version + entries.len() as u64,
        ..next_version(service.core)
    };
    let family = write.object.family_start();
    let totals = (write.objects, write.clones, write.bytes);
    let (ticket, changes, sizes) = (write.ticket, write.changes, write.sizes);
    let entry = LogEntry {
        version,
        prior_version: write.prior_version,
        user_version: write.user_version,
        kind: write.kind,
        object: write.object,
        request: write.request,
        mtime: write.mtime,
        result: write.result,
        returns: write.returns,
        shards: None,
    };
    let was_whole = service.view().is_whole();
    if !was_whole {
        supersede(service, &entries, &entry);
    }
    let mut skipping = BTreeSet::new();
    if service.serving.agreed.backfill.is_needed() && entry.changes_object() {
        skipping = service.note_write(&entry.object, &entries);
    }
    let reach = reach(service, &entry, &skipping);
    let geometry = service.core.placement.geometry().expect("the members keep shards");
    let plan = Plan::new(geometry, reach, changes, |object| sizes.get(object).copied());
    entries.push(entry);
    let mut encoded = Vec::with_capacity(entries.len());
    for mut entry in entries {
        if entry.changes_object() {
            entry.shards = Some(Box::new(plan.change_of(&entry.object)));
        }
        encoded.push((entry.version, codec::encode_with_capacity(&entry, ENTRY_LEN_USUAL)));
        service.core.copy.log.push(entry);
    }
    let known = &mut service.core.copy.info.last_user_version;
    *known = write.user_version.max(*known);
    let waiting = MemberSet::all(&service.serving.agreed.participants);
    service.serving.in_flight.push_back(InFlight { version, ticket, waiting });
    let content = Content::Planned(Box::new(Planned::new(plan)));
    let queued = Queued { entries: encoded, family, content, skipping, totals };
    service.serving.pipeline.push(queued);
    advance::advance(service);
    if !was_whole && service.view().is_whole() {
        service.continue_recovery();
    }
    version
}

/// Members that miss an object need not recover it any more. Their missing sets have it until the write is
/// settled, because it may be dropped.
fn supersede(service: &mut Service<'_>, also: &[LogEntry], entry: &LogEntry) {
    let version = entry.version;
    for entry in also.iter().chain([entry]).filter(|entry| entry.changes_object()) {
        let object = &entry.object;
        let is_own_lost =
            service.core.copy.missing.contains(object) || service.view().is_unreadable(object);
        let is_lost = is_own_lost || service.view().is_missing_on_members(object);
        if is_lost {
            service.serving.pipeline.superseding = version;
            service.core.transfers.stop_receiving(object);
            service.serving.recovery.unreadable.remove(object);
            service.serving.recovery.wanted.remove(object);
        }
        if is_lost || entry.kind == EntryKind::Delete {
            service.deleted_unrecovered(object);
        }
    }
}

/// The shards that a plan may count on.
fn reach(service: &Service<'_>, entry: &LogEntry, skipping: &BTreeSet<Member>) -> Reach {
    let position = |member: &Member| member.shard.position().expect("a member has a shard");
    let own = position(&service.core.own.whoami);
    let readable: Shards = readable(service, &entry.object).iter().map(position).collect();
    let participants = service.serving.agreed.participants.iter();
    let written = participants.filter(|member| !skipping.contains(member)).map(position).collect();
    Reach { own, readable, written }
}
