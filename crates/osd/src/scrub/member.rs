//! Scrubs of other primaries, for which this OSD reads its copies.

use crate::Osd;
use crate::cx::cx;
use crate::tokens::{ScrubTag, Token};
use pg::message::Header;
use pg::scrub::message::Body;
use types::{OsdId, PgId};

impl Osd {
    /// Performs reads for the scrub of another primary, and sends the answer.
    pub(super) fn pump_member(&mut self, pg: PgId) {
        while let Some(group) = self.groups.by_id.get_mut(&pg) {
            if let Some((tag, kind)) = group.scrub.member.poll_request() {
                let serial = group.serial;
                self.outbox.ask(Token::Scrub { pg, serial, tag: ScrubTag::Member(tag) }, kind);
                continue;
            }
            let Some((number, mut map)) = group.scrub.member.poll_answer() else { return };
            let Some((primary, interval)) = group.scrub.member_of else { return };
            if interval == group.pg.interval() {
                if let Some(map) = &mut map {
                    self.add_to_index(pg, std::mem::take(&mut map.unindexed));
                }
                self.send_scrub(pg, primary, &Body::Map(number, map));
            }
        }
    }

    pub(super) fn send_scrub(&mut self, pg: PgId, to: OsdId, body: &Body) {
        let Some(group) = self.groups.by_id.get(&pg) else { return };
        let header = Header { pg, epoch: self.maps.map().epoch, interval: group.pg.interval() };
        self.peers.send(cx!(self), to, body.encode(&header));
    }

    pub(super) fn promise_help(&mut self, pg: PgId, to: OsdId) {
        let groups = &self.groups.by_id;
        self.scrub.helped.retain(|pg, interval| {
            groups.get(pg).is_some_and(|group| group.pg.interval() == *interval)
        });
        let is_free = self.scrub.helped.len() < self.env.options.max_scrubs.max(1);
        if is_free {
            let interval = self.groups.by_id[&pg].pg.interval();
            self.scrub.helped.insert(pg, interval);
        }
        self.send_scrub(pg, to, &Body::Reserved(is_free));
    }
}
