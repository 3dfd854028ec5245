//! Repair of bad copies: they become missing, and recovery replaces them.
//!
//! A bad copy is durably in its OSD's missing set before anything of it is replaced, so that an
//! interruption at any point leaves it known, and any later primary continues the repair.

use super::service::Service;
use super::sources::has_other_shards;
use super::submit::submit;
use super::writes::Write;
use crate::EntryKind;
use crate::Member;
use crate::message::Body;
use crate::missing::Item;
use crate::scrub::{Authority, Finding};
use store::Change;
use types::{EVersion, HObject, UTime};

/// The ticket of a removal for which no request waits.
const NO_TICKET: u64 = u64::MAX;

/// Makes the bad copies of an object equal to the authoritative one; whether that was begun.
pub fn repair(service: &mut Service<'_>, now: UTime, finding: &Finding) -> bool {
    match finding.authority {
        Authority::Copy(right) | Authority::Presumed(right) => {
            let object = finding.shards.get(&right).and_then(|shard| shard.object);
            let version = object.and_then(|object| object.version());
            version
                .is_some_and(|version| mark_corrupt(service, &finding.name, version, &finding.bad))
        }
        Authority::Absence => remove_superfluous(service, now, &finding.name),
        Authority::Unknown => false,
    }
}

fn may_repair(service: &Service<'_>, object: &HObject) -> bool {
    service.is_active() && !service.core.is_premerge && !service.view().is_in_work(object)
}

/// Marks these members' copies of an object as missing; they are recovered from others, in this
/// version. False if that is not possible now.
pub fn mark_corrupt(
    service: &mut Service<'_>,
    object: &HObject,
    version: EVersion,
    bad: &[Member],
) -> bool {
    let is_own = bad.contains(&service.core.own.whoami);
    let has_source = match service.core.placement.code.is_some() {
        true => has_other_shards(service, object, version, bad),
        false => !is_own || service.view().has_other_source(object, version, bad),
    };
    if !may_repair(service, object) || !has_source {
        return false;
    }
    tracing::warn!(pg = %service.core.own.id, %object, ?bad, "copies are bad and will be replaced");
    let item = Item { need: version, have: EVersion::ZERO };
    let whoami = service.core.own.whoami;
    for osd in bad.iter().copied().filter(|osd| *osd != whoami) {
        service.miss_on_member(osd, object, item);
        service.core.send(osd, &Body::Damaged(object.clone(), version));
    }
    if is_own {
        service.miss_own(object, version);
    }
    service.serving.is_clean = false;
    service.want_object(object);
    true
}

/// Removes an object that should not exist, by a write on all members; whether that was begun.
pub fn remove_superfluous(service: &mut Service<'_>, now: UTime, object: &HObject) -> bool {
    if !may_repair(service, object) {
        return false;
    }
    submit(
        service,
        Write {
            ticket: NO_TICKET,
            object: object.clone(),
            kind: EntryKind::Delete,
            mtime: now,
            changes: vec![Change::Remove { object: object.clone() }],
            ..Write::default()
        },
    );
    true
}

/// This OSD cannot read an object that it was to send to another one.
pub fn source_failed(service: &mut Service<'_>, object: HObject, version: Option<EVersion>) {
    let need = version.unwrap_or_else(|| service.core.copy.logged_version(&object));
    let targets = service.give_up_pushing(&object);
    // Other reads of it are not needed any more.
    service.core.transfers.stop_sending(&object);
    for target in targets {
        // A backfill target gets it like an object that it misses.
        let known = service.known.peers.get(&target).and_then(|peer| peer.missing.get(&object));
        let item = known.unwrap_or(Item { need, have: EVersion::ZERO });
        service.miss_on_member(target, &object, item);
    }
    match service.view().has_other_source(&object, need, &[]) {
        true => {
            service.miss_own(&object, need);
            service.serving.is_clean = false;
            service.want_object(&object);
        }
        false => {
            tracing::error!(pg = %service.core.own.id, %object, "no copy within reach can be read");
            service.give_up(object, need);
        }
    }
}
