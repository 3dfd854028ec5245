//! Scrubs of the groups: their begin, orders, messages of other members, and repairs of what they find.

use super::HostedGroups;
use crate::cx::cx;
use crate::report::repairs::FoundBy;
use crate::scrub::orders::order_of;
use crate::scrub::{Found, schedule};
use crate::shared::Shared;
use crate::tokens::ScrubTag;
use engine::Message;
use pg::Member;
use pg::scrub;
use pg::scrub::{Level, Order};
use store::{Outcome, StoreError};
use types::{EVersion, HObject, OsdId, PgShard, ShardId};
use wire::internal::ScrubOrder;

/// Begins scrubs that are due, as far as `osd_max_scrubs` allows.
pub(crate) fn begin_if_due(hosted: &mut HostedGroups, shared: &mut Shared) {
    if !hosted.scrub.begin_look(&shared.env) {
        return;
    }
    for pg in hosted.scrub.take_own() {
        if let Some(group) = hosted.groups.get_mut(pg) {
            let (cx, peers) = (cx!(shared), &mut shared.peers);
            hosted.scrub.keep_or_abort(cx, peers, &mut group.scrubbed());
        }
    }
    for (_, group) in hosted.groups.iter_mut() {
        group.scrubbed().load_stamps(&shared.env, &mut shared.outbox);
    }
    while hosted.scrub.has_place(&shared.env) {
        let next = schedule::next(&shared.env, shared.maps.map(), hosted.groups.scrubs());
        let Some((pg, level, order)) = next else { break };
        begin(hosted, shared, pg, level, order);
    }
    hosted.scrub.end_look(shared.env.now, hosted.groups.scrubs());
}

/// Begins a scrub of a group whose primary this OSD is.
pub(crate) fn begin(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    pg: PgShard,
    level: Level,
    order: Option<Order>,
) {
    let Some(group) = hosted.groups.get_mut(pg) else { return };
    let reports = &mut shared.report.schedule;
    hosted.scrub.begin(&shared.env, reports, &mut group.scrubbed(), level, order);
    advance(hosted, shared, pg);
}

/// Performs the outputs of a round.
fn advance(hosted: &mut HostedGroups, shared: &mut Shared, pg: PgShard) {
    if let Some(group) = hosted.groups.get_mut(pg)
        && group.pg.settle_committed() > EVersion::ZERO
    {
        // Members are told to settle before they are told to scan.
        hosted.settle_group(shared, pg);
    }
    while let Some(group) = hosted.groups.get_mut(pg) {
        let reports = &mut shared.report.schedule;
        let (cx, peers) = (cx!(shared), &mut shared.peers);
        match hosted.scrub.advance(cx, peers, reports, &mut group.scrubbed()) {
            None => return,
            Some(Found::LargeOmap(object, size)) => {
                shared.report.note_large_omap(pg.pg, &object, size);
                continue;
            }
            Some(Found::Inconsistent) => {}
            Some(Found::Repaired(object, bad)) => {
                forget_state(hosted, pg, &object);
                shared.report.note_repair(shared.maps.map(), pg.pg, FoundBy::Scrub, &bad);
            }
        }
        hosted.settle_group(shared, pg);
    }
}

/// Has the state of a repaired object be loaded again when it is needed and has been recovered.
fn forget_state(hosted: &mut HostedGroups, pg: PgShard, object: &HObject) {
    let key = hosted.groups.get(pg).and_then(|group| group.queues.find(object));
    if let Some(context) = key.and_then(|key| hosted.operations.context_mut(key)) {
        context.forget_state();
    }
}

/// Takes an order for the named groups whose primary this OSD is, or for all if none is named.
pub(crate) fn handle_order(hosted: &mut HostedGroups, shared: &mut Shared, asked: &ScrubOrder) {
    let order = order_of(shared.env.now, asked);
    let pgs = match asked.pgs.is_empty() {
        true => hosted.groups.ids(),
        false => asked.pgs.iter().flat_map(|pg| hosted.groups.shards_of(*pg)).collect(),
    };
    for pg in pgs {
        let Some(group) = hosted.groups.get_mut(pg) else { continue };
        let (cx, peers) = (cx!(shared), &mut shared.peers);
        hosted.scrub.order(cx, peers, &mut group.scrubbed(), order);
        // A group with unfound objects is not clean, so it is not scrubbed; but copies that could not
        // be read may be readable now.
        if order.repair && group.pg.is_primary() {
            group.pg.retry_unreadable();
            hosted.settle_group(shared, pg);
        }
    }
}

/// Handles a message of a scrub from another member. Messages of other intervals are ignored.
pub(crate) fn handle_message(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    from: OsdId,
    message: &Message,
) {
    let (header, body) = match scrub::message::Body::decode(message) {
        Ok(decoded) => decoded,
        Err(error) => {
            tracing::error!(%from, %error, "a scrub's message does not decode");
            return;
        }
    };
    if body == scrub::message::Body::Reserve {
        let groups = &hosted.groups;
        hosted.scrub.end_old_help(|pg| Some(groups.get(pg)?.pg.interval()));
    }
    let pg = PgShard { pg: header.pg, shard: header.to };
    let Some(group) = hosted.groups.get_mut(pg) else { return };
    let from = Member { osd: from, shard: header.from };
    let is_member = group.pg.members().acting_members().any(|member| member == from);
    if header.interval != group.pg.interval() || !is_member {
        return;
    }
    let (cx, peers) = (cx!(shared), &mut shared.peers);
    if hosted.scrub.handle_message(cx, peers, &mut group.scrubbed(), from, body) {
        advance(hosted, shared, pg);
    }
    settle_shard(hosted, shared, pg);
}

/// Handles a completion of the store for a scrub of the group with this serial number.
pub(super) fn handle_completion(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    (pg, serial): (PgShard, u64),
    tag: ScrubTag,
    outcome: Result<Outcome, StoreError>,
) {
    let Some(group) = hosted.groups.get_same(pg, serial) else { return };
    let (cx, peers, group) = (cx!(shared), &mut shared.peers, &mut group.scrubbed());
    let reports = &mut shared.report.schedule;
    if hosted.scrub.handle_completion(cx, peers, reports, group, tag, outcome) {
        advance(hosted, shared, pg);
    }
    settle_shard(hosted, shared, pg);
}

/// Performs the outputs of a shard that settles before it is read.
fn settle_shard(hosted: &mut HostedGroups, shared: &mut Shared, pg: PgShard) {
    if pg.shard != ShardId::NONE {
        hosted.settle_group(shared, pg);
    }
}
