//! What administrators want scrubbed, as the monitor passes it on.

use super::Order;
use crate::Osd;
use engine::Time;
use pg::scrub::Level;
use types::PgId;
use wire::internal::ScrubOrder;

impl Osd {
    /// All groups of which this OSD is the primary, if none is named.
    pub(crate) fn take_scrub_order(&mut self, now: Time, asked: &ScrubOrder) {
        let level = if asked.deep { Level::Deep } else { Level::Light };
        let order = Order { level, repair: asked.repair };
        let pgs: Vec<PgId> = match asked.pgs.is_empty() {
            true => self.groups.keys().copied().collect(),
            false => asked.pgs.clone(),
        };
        for pg in pgs {
            self.order_scrub(now, pg, order);
        }
    }
}
