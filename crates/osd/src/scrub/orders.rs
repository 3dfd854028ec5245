//! Scrub orders of administrators, as the monitor forwards them.
//!
//! An order outlives its primary: until it is done, all members keep it beside the stamps, and the
//! next primary finds it there. Members that were down when it was done may report it at any time;
//! the stamps decide whether it is still to be done.

use crate::Osd;
use crate::groups::Group;
use engine::Time;
use pg::scrub::{Level, Order};
use types::PgId;
use wire::internal::ScrubOrder;

impl Group {
    /// The order that is still to be done, if stamps and order are known.
    pub(crate) fn wanted_scrub(&self) -> Option<Order> {
        let stamps = self.scrub.stamps?;
        self.pg.scrub_order().filter(|order| !stamps.has_done(order))
    }
}

impl Osd {
    /// Takes an order for the named groups whose primary this OSD is, or for all if none is named.
    pub(crate) fn take_scrub_order(&mut self, now: Time, asked: &ScrubOrder) {
        let level = if asked.deep { Level::Deep } else { Level::Light };
        let order = Order { level, repair: asked.repair, at: now.wall() };
        let pgs: Vec<PgId> = match asked.pgs.is_empty() {
            true => self.groups.by_id.keys().copied().collect(),
            false => asked.pgs.clone(),
        };
        for pg in pgs {
            self.order_scrub(now, pg, order);
        }
    }

    fn order_scrub(&mut self, now: Time, pg: PgId, order: Order) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        if group.pg.is_primary() {
            let waiting = group.scrub.order;
            group.scrub.order = Some(waiting.map_or(order, |waiting| order.with(waiting)));
            group.scrub.not_before = None;
            self.scrub.due = Some(now);
            self.keep_order(now, pg);
        }
        self.read_unfound_again(pg, order.repair);
    }

    /// Looks for unfound objects again on a repair order. A group with unfound objects is not
    /// clean, so it is not scrubbed; but copies that could not be read may be readable now.
    fn read_unfound_again(&mut self, pg: PgId, repair: bool) {
        let group = self.groups.by_id.get_mut(&pg).filter(|group| group.pg.is_primary() && repair);
        if let Some(group) = group {
            group.pg.ask_again();
            self.settle_group(pg);
        }
    }

    /// Has all members keep the order with the stamps, as soon as these are known and the group is
    /// active. An order that an earlier primary took came with the members' infos. A new order is
    /// merged with one that waits, so that a scrub does not replace a repair.
    pub(crate) fn keep_order(&mut self, now: Time, pg: PgId) {
        let Some(group) = self.groups.by_id.get_mut(&pg).filter(|group| group.pg.is_active())
        else {
            return;
        };
        let Some(stamps) = group.scrub.stamps else { return };
        let known = group.wanted_scrub();
        let fresh = group.scrub.order.take().map(|order| {
            let order = known.map_or(order, |known| order.with(known));
            Order { at: stamps.after(order.at), ..order }
        });
        let order = fresh.or(known);
        group.pg.set_scrub_order(order);
        if order.is_some() {
            self.scrub.due = Some(now);
            self.publish_stamps(pg, stamps);
        }
    }
}
