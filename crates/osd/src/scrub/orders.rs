//! Scrub orders of administrators, as the monitor forwards them.
//!
//! An order outlives its primary: until it is done, all members keep it beside the stamps, and the
//! next primary finds it there. Members that were down when it was done may report it at any time;
//! the stamps decide whether it is still to be done.

use super::state::{GroupScrub, Scrubbed};
use crate::cx::Cx;
use crate::sessions::peers::Peers;
use engine::Time;
use pg::Pg;
use pg::scrub::{Level, Order};
use wire::internal::ScrubOrder;

/// The order that a message of the monitor, or an administrator, gives now.
pub(crate) fn order_of(now: Time, asked: &ScrubOrder) -> Order {
    let level = if asked.deep { Level::Deep } else { Level::Light };
    Order { level, repair: asked.repair, at: now.wall() }
}

impl GroupScrub {
    /// The order that is still to be done, if stamps and order are known.
    pub fn wanted(&self, pg: &Pg) -> Option<Order> {
        let stamps = self.stamps?;
        pg.scrub_order().filter(|order| !stamps.has_done(order))
    }
}

impl Scrubbed<'_> {
    /// Has all members keep the order with the stamps, as soon as these are known and the group is
    /// active. An order that an earlier primary took came with the members' infos. A new order is
    /// merged with one that waits, so that a scrub does not replace a repair. Returns whether there
    /// is one.
    pub(super) fn keep_order(&mut self, cx: &mut Cx<'_>, peers: &mut Peers) -> bool {
        let Some(stamps) = self.scrub.stamps.filter(|_| self.pg.is_active()) else { return false };
        let known = self.scrub.wanted(self.pg);
        let fresh = self.scrub.order.take().map(|order| {
            let order = known.map_or(order, |known| order.with(known));
            Order { at: stamps.after(order.at), ..order }
        });
        let order = fresh.or(known);
        self.pg.set_scrub_order(order);
        if order.is_some() {
            self.publish_stamps(cx, peers, stamps);
        }
        order.is_some()
    }
}
