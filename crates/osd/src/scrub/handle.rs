//! Messages of other members, completions of the store, and orders of administrators.

use super::round::view;
use super::state::{Scrubbed, Scrubs};
use crate::cx::Cx;
use crate::report::schedule::Schedule;
use crate::sessions::peers::Peers;
use crate::tokens::ScrubTag;
use pg::Member;
use pg::scrub::Order;
use pg::scrub::message::Body;
use store::{Outcome, StoreError};

impl Scrubs {
    /// Handles a message of another member of the group, in its present interval. Returns whether
    /// the round of this OSD may go on.
    pub fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        group: &mut Scrubbed<'_>,
        from: Member,
        body: Body,
    ) -> bool {
        let (pg, interval) = (group.pg.pg_shard(), group.pg.interval());
        match body {
            Body::Reserve => {
                let is_free = self.helped.len() < cx.env.options.max_scrubs.max(1);
                if is_free {
                    self.helped.insert(pg, interval);
                }
                group.send(cx, peers, from, &Body::Reserved(is_free));
            }
            Body::Release => drop(self.helped.remove(&pg)),
            Body::Scan(number, level, extent) => {
                group.scrub.member_of = Some((from, interval));
                group.scrub.member.begin(group.pg.collection(), number, level, extent);
                group.advance_member(cx, peers);
            }
            Body::Keep(stamps) => {
                group.scrub.stamps = Some(stamps);
                group.pg.set_scrub_order(stamps.order);
                group.store_stamps(cx.out, stamps);
            }
            Body::Reserved(_) | Body::Map(..) => {
                let view = view(group.pg);
                if let Some(running) = &mut group.scrub.running {
                    running.heard = cx.env.now;
                    running.round.handle_message(from, body, view);
                }
                return true;
            }
        }
        false
    }

    /// Handles a completion of the store. Returns whether the round of this OSD may go on.
    pub fn handle_completion(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        reports: &mut Schedule,
        group: &mut Scrubbed<'_>,
        tag: ScrubTag,
        outcome: Result<Outcome, StoreError>,
    ) -> bool {
        match tag {
            ScrubTag::LoadStamps => {
                if group.stamps_loaded(outcome) {
                    reports.request(cx.env.now);
                }
                self.keep_order(cx, peers, group);
            }
            ScrubTag::StoreStamps | ScrubTag::StoreIndex => {}
            ScrubTag::Member(tag) => {
                group.scrub.member.handle_completion(tag, outcome);
                group.advance_member(cx, peers);
            }
            ScrubTag::Round(serial, tag) => {
                let view = view(group.pg);
                let Some(running) = &mut group.scrub.running else { return false };
                if running.serial == serial {
                    running.heard = cx.env.now;
                    running.round.handle_completion(tag, outcome, view);
                    return true;
                }
            }
        }
        false
    }

    /// Takes an order of an administrator for a group, if this OSD is its primary.
    pub fn order(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        group: &mut Scrubbed<'_>,
        order: Order,
    ) {
        if group.pg.is_primary() {
            let waiting = group.scrub.order;
            group.scrub.order = Some(waiting.map_or(order, |waiting| order.with(waiting)));
            group.scrub.not_before = None;
            self.due = Some(cx.env.now);
            self.keep_order(cx, peers, group);
        }
    }

    /// Has all members keep the order of a group, as soon as it is known and the group is active.
    pub fn keep_order(&mut self, cx: &mut Cx<'_>, peers: &mut Peers, group: &mut Scrubbed<'_>) {
        if group.keep_order(cx, peers) {
            self.due = Some(cx.env.now);
        }
    }
}
