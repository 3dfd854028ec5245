//! Writes of a group with shards, in the hands of its primary: from their submission until they are sent.
//!
//! A write is logged at once, so that a resent request finds it. It waits for the old rows that its plan
//! needs, and is sent when they are here, behind all writes before it. The old rows come from the
//! *overlay*, the rows of writes that are not settled; others are read. Writes of different objects read at
//! the same time; those of one object and its clones are planned one after the other.
//!
//! A write waits longer in three cases. An old row must be decoded: until no write of its object is in
//! flight, because shards would be of different versions. The overlay does not follow a change before it (a
//! truncation, a removal, a rollback): until that is settled here. Such a change precedes a delta: until it
//! is committed, because only then do parities settle it before they add the delta to their rows.
//!
//! When the interval ends, writes that were not sent never happened.

use super::pipeline::{Content, Pipeline, Queued, Timer};
use super::service::Service;
use super::shard_sends::{self, Ready};
use crate::Member;
use crate::backend::erasure::plan::ShardOp;
use crate::core::{Output, settling};
use crate::holding::Found;
use crate::message::{Body, NoRows, ShardRows};
use crate::rows::{self, Failed, Purpose, RowRequest, RowSet, Versions};
use std::collections::BTreeMap;
use types::{EVersion, HObject};

/// Writes that are sent and not committed. Beyond it, writes wait: members hold a bounded number of changes
/// ([`store::HELD_MAX`]), among them those of which they have not heard that they are committed.
const SENT_MAX: usize = store::HELD_MAX / 2;

/// The outcome of an attempt to compute a write's changes.
enum Attempt {
    Whole,
    /// It waits for rows, or for other writes.
    Waits,
    /// Rows must be read first.
    Read(RowRequest),
}

/// Goes on with the writes that wait: sends those that are whole.
pub(crate) fn advance(service: &mut Service<'_>) {
    let settled = settling::settled(service.core);
    service.serving.pipeline.overlay.forget(settled);
    // Places of the writes that wait.
    let mut before: Vec<usize> = Vec::new();
    for at in 0..service.serving.pipeline.queue.len() {
        let queue = &service.serving.pipeline.queue;
        let is_planned = matches!(queue[at].content, Content::Planned(_));
        let is_behind = || before.iter().any(|place| queue[*place].family == queue[at].family);
        if is_planned && (is_behind() || !prepare(service, at)) {
            before.push(at);
        }
    }
    while let Some(ready) = take_ready(service) {
        service.serving.pipeline.told = service.core.copy.committed;
        shard_sends::send(service, ready);
    }
}

/// The oldest write, if its changes are known.
fn take_ready(service: &mut Service<'_>) -> Option<Ready> {
    let pipeline = &mut service.serving.pipeline;
    let waiting = pipeline.queue.len();
    let sent = service.serving.in_flight.len().saturating_sub(waiting);
    let front = pipeline.queue.front()?;
    let (Content::Whole(_), true) = (&front.content, sent < SENT_MAX) else { return None };
    let Queued { entries, content, skipping, totals, .. } = pipeline.queue.pop_front()?;
    let Content::Whole(shards) = content else { unreachable!("it was just seen") };
    Some(Ready { entries, shards, skipping, totals })
}

/// Computes the changes of a write before which all of its family are computed; whether that is done.
fn prepare(service: &mut Service<'_>, at: usize) -> bool {
    match attempt(service, at) {
        Attempt::Whole => true,
        Attempt::Waits => false,
        Attempt::Read(request) => {
            rows::begin(service.core, request);
            false
        }
    }
}

fn attempt(service: &mut Service<'_>, at: usize) -> Attempt {
    let committed = service.core.copy.committed;
    let Pipeline { queue, overlay, base, .. } = &mut service.serving.pipeline;
    let version = queue[at].version();
    let Content::Planned(planned) = &mut queue[at].content else { return Attempt::Whole };
    if planned.is_reading || planned.plan.deltas().any(|object| overlay.barrier(object) > committed)
    {
        return Attempt::Waits;
    }
    let (mut waits, mut wanted) = (false, BTreeMap::<HObject, BTreeMap<usize, RowSet>>::new());
    for need in planned.plan.needs() {
        if planned.old.contains_key(need) {
            continue;
        }
        match overlay.find(&need.object, need.position, need.row) {
            Found::Row(row) => drop(planned.old.insert(need.clone(), row)),
            Found::Behind(_) => waits = true,
            Found::Stored if !settling::has_settled(service.core, &need.object, *base) => {
                waits = true;
            }
            Found::Stored => {
                let of_object = wanted.entry(need.object.clone()).or_default();
                of_object.entry(need.position).or_default().insert(need.row..need.row + 1);
            }
        }
    }
    let must_decode = planned.must_decode;
    if waits {
        settling::settle(service.core, committed);
        return Attempt::Waits;
    }
    match wanted.pop_first() {
        None => {
            compute(service, at);
            Attempt::Whole
        }
        Some((object, wanted)) => ask(service, (at, version), object, wanted, must_decode),
    }
}

/// The request for old rows, unless it must wait.
fn ask(
    service: &mut Service<'_>,
    (at, version): (usize, EVersion),
    object: HObject,
    wanted: BTreeMap<usize, RowSet>,
    must_decode: bool,
) -> Attempt {
    let sources = readable(service, &object);
    let has_shard =
        |position: &usize| sources.iter().any(|one| one.shard.position() == Some(*position));
    let must_decode = must_decode || !wanted.keys().all(has_shard);
    let mut versions = Versions::Each;
    if !must_decode && read_own(service, (at, version), &object, &wanted) {
        return Attempt::Waits;
    }
    if must_decode {
        let committed = service.core.copy.committed;
        let before = version_before(service, &object, version);
        if before > committed || !settling::has_settled(service.core, &object, committed) {
            return Attempt::Waits;
        }
        versions = Versions::Same(before);
    }
    if let Content::Planned(planned) = &mut service.serving.pipeline.queue[at].content {
        planned.is_reading = true;
        planned.must_decode = must_decode;
    }
    let purpose = Purpose::Write(version);
    Attempt::Read(RowRequest { purpose, object, wanted, sources, versions, with_attrs: false })
}

/// Reads the old rows of a write in our own store, if it has all of them; whether that was begun.
fn read_own(
    service: &mut Service<'_>,
    (at, version): (usize, EVersion),
    object: &HObject,
    wanted: &BTreeMap<usize, RowSet>,
) -> bool {
    let Service { core, serving, .. } = service;
    let Content::Planned(planned) = &mut serving.pipeline.queue[at].content else { return false };
    if !planned.needs_job {
        planned.own_read = rows::begin_own(core, version, object, wanted);
        planned.is_reading = planned.own_read.is_some();
    }
    planned.is_reading
}

/// Takes old rows of our own shard for the write of a version, and goes on.
pub(crate) fn own_rows_read(
    service: &mut Service<'_>,
    version: EVersion,
    outcome: Result<ShardRows, NoRows>,
) {
    let Some(planned) = service.serving.pipeline.planned_mut(version) else { return };
    let Some(read) = planned.own_read.take() else { return };
    planned.is_reading = false;
    match read.end(outcome) {
        Some(rows) => planned.old.extend(rows),
        None => planned.needs_job = true,
    }
    advance(service);
}

/// The version of an object before the write of this version, as far as the log reaches back.
fn version_before(service: &Service<'_>, object: &HObject, version: EVersion) -> EVersion {
    let mut before = service.core.copy.log.entries().rev().skip_while(|e| e.version >= version);
    let is_change = |entry: &&crate::LogEntry| entry.changes_object() && entry.object == *object;
    before.find(is_change).map_or(EVersion::ZERO, |entry| entry.version)
}

/// The acting members that have their shards of an object.
pub(super) fn readable(service: &Service<'_>, object: &HObject) -> Vec<Member> {
    let whoami = service.core.own.whoami;
    let has = |member: &Member| match *member == whoami {
        true => !service.core.copy.missing.contains(object),
        false => !service.known.is_missing_on(*member, object),
    };
    service.core.placement.members.acting_members().filter(has).collect()
}

/// Computes the changes of a write, whose old rows are here.
fn compute(service: &mut Service<'_>, at: usize) {
    let code = service.core.placement.code.clone().expect("a group that is served has its code");
    let Pipeline { queue, overlay, .. } = &mut service.serving.pipeline;
    let version = queue[at].version();
    let content = std::mem::replace(&mut queue[at].content, Content::Whole(Vec::new()));
    let Content::Planned(planned) = content else { unreachable!("it was just attempted") };
    let shards = planned.plan.finish(&code, &planned.old);
    for (position, ops) in shards.iter().enumerate().take(code.k()) {
        for op in ops {
            if let ShardOp::Store(change) = op {
                overlay.note(version, position, change);
            }
        }
    }
    queue[at].content = Content::Whole(shards);
}

/// Takes the old rows of a write, and goes on. Without them, the interval is aborted.
pub(crate) fn old_rows_read(
    service: &mut Service<'_>,
    request: &RowRequest,
    outcome: Result<rows::Content, Failed>,
) {
    take_rows(service, request, outcome);
    advance(service);
}

/// Notes the old rows of a write. If they must be decoded, it waits for that.
fn take_rows(
    service: &mut Service<'_>,
    request: &RowRequest,
    outcome: Result<rows::Content, Failed>,
) {
    let Purpose::Write(version) = request.purpose else { panic!("rows of another purpose") };
    let Some(planned) = service.serving.pipeline.planned_mut(version) else { return };
    planned.is_reading = false;
    match outcome {
        Ok(content) => planned.old.extend(content.into_reads(&request.object, &request.wanted)),
        Err(Failed::MustDecode) => planned.must_decode = true,
        Err(Failed::TooFew | Failed::Absent) => {
            planned.is_reading = true; // it is not tried again
            service.serving.pipeline.unreadable = Some((version, request.object.clone()));
        }
    }
}

/// Writes were committed: goes on with those that waited for that, and has members told soon.
pub(crate) fn committed(service: &mut Service<'_>) {
    advance(service);
    let superseding = &mut service.serving.pipeline.superseding;
    if *superseding > EVersion::ZERO && *superseding <= service.core.copy.committed {
        *superseding = EVersion::ZERO;
        service.continue_recovery();
    }
    // Requests for an object that was missing wait until the write that replaced it is settled.
    if service.core.copy.missing.has_superseded() {
        return tell(service);
    }
    let pipeline = &mut service.serving.pipeline;
    if pipeline.told < service.core.copy.committed && pipeline.timer == Timer::Off {
        pipeline.timer = Timer::Asked;
        // The time is not known here: it is told with the call.
        service.core.outputs.push_back(Output::WaitUntil(service.core.leases.now));
    }
}

/// Reads of the store see more than before.
pub(crate) fn settled(service: &mut Service<'_>) {
    if service.core.placement.geometry().is_some() {
        advance(service);
    }
}

/// The time of the timer may have come.
pub(crate) fn time_passed(service: &mut Service<'_>) {
    let now = service.core.leases.now;
    match service.serving.pipeline.timer {
        Timer::Asked => {
            let until = now + service.core.own.sizes.settle_idle;
            service.serving.pipeline.timer = Timer::At(until);
            service.core.outputs.push_back(Output::WaitUntil(until));
        }
        Timer::At(until) if now >= until => {
            service.serving.pipeline.timer = Timer::Off;
            tell(service);
        }
        Timer::At(_) | Timer::Off => {}
    }
}

/// The first step of an active group: its log's head is committed, and nothing is served before the primary
/// has begun to settle it.
pub(crate) fn begin(service: &mut Service<'_>) {
    service.serving.pipeline.base = service.core.copy.committed;
    tell(service);
}

/// Tells all participants what is committed, and settles it here.
pub(crate) fn tell(service: &mut Service<'_>) {
    let committed = service.core.copy.committed;
    if service.serving.pipeline.told >= committed || service.core.placement.geometry().is_none() {
        return;
    }
    service.serving.pipeline.told = committed;
    for member in service.serving.agreed.participants.without(service.core.own.whoami) {
        service.core.send(member, &Body::Settle(committed));
    }
    settling::settle(service.core, committed);
}
