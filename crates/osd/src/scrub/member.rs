//! Scrubs of other primaries, for which this OSD reads its copies; messages and storage of all scrubs.

use super::state::Scrubbed;
use crate::cx::Cx;
use crate::outbox::Outbox;
use crate::sessions::peers::Peers;
use crate::tokens::{ScrubTag, Token};
use bytes::Bytes;
use pg::Member;
use pg::message::Header;
use pg::scrub::message::Body;
use std::collections::BTreeMap;
use store::{Change, RequestKind, Transaction};
use types::EVersion;

impl Scrubbed<'_> {
    /// Performs reads for the scrub of another primary, and sends the answer.
    pub(super) fn advance_member(&mut self, cx: &mut Cx<'_>, peers: &mut Peers) {
        loop {
            if let Some((tag, kind)) = self.scrub.member.poll_request() {
                self.scan(cx.out, ScrubTag::Member(tag), kind);
                continue;
            }
            let Some((number, mut map)) = self.scrub.member.poll_answer() else { return };
            let Some((primary, interval)) = self.scrub.member_of else { return };
            if interval == self.pg.interval() {
                if let Some(map) = &mut map {
                    self.add_to_index(cx.out, std::mem::take(&mut map.unindexed));
                }
                self.send(cx, peers, primary, &Body::Map(number, map));
            }
        }
    }

    /// Sends a message to another member.
    pub(super) fn send(&self, cx: &mut Cx<'_>, peers: &mut Peers, to: Member, body: &Body) {
        let header = Header {
            pg: self.pg.id(),
            epoch: cx.map.epoch,
            interval: self.pg.interval(),
            to: to.shard,
            from: self.pg.whoami().shard,
        };
        peers.send(cx, to.osd, body.encode(&header));
    }

    /// Reads objects of this copy, once the store shows all that is committed.
    pub(super) fn scan(&mut self, out: &mut Outbox, tag: ScrubTag, kind: RequestKind) {
        let through = self.pg.settle_committed();
        self.scan_through(out, through, tag, kind);
    }

    fn scan_through(
        &mut self,
        out: &mut Outbox,
        through: EVersion,
        tag: ScrubTag,
        kind: RequestKind,
    ) {
        match self.pg.shows(through) {
            true => self.ask(out, tag, kind),
            false => self.scrub.unsettled.push((through, tag, kind)),
        }
    }

    /// The store shows more than before: reads go on.
    pub(crate) fn settled(&mut self, out: &mut Outbox) {
        for (through, tag, kind) in std::mem::take(&mut self.scrub.unsettled) {
            self.scan_through(out, through, tag, kind);
        }
    }

    /// Sends a request to the store.
    pub(super) fn ask(&self, out: &mut Outbox, tag: ScrubTag, kind: RequestKind) {
        out.ask(Token::Scrub { pg: self.pg.pg_shard(), serial: self.serial, tag }, kind);
    }

    /// Restores pairs of the index of clones that stored heads imply; outdated ones do no harm.
    pub(super) fn add_to_index(&self, out: &mut Outbox, pairs: BTreeMap<Bytes, Bytes>) {
        if !pairs.is_empty() {
            self.set_pairs(out, ScrubTag::StoreIndex, pairs);
        }
    }

    /// Stores pairs of the group's own object.
    pub(super) fn set_pairs(&self, out: &mut Outbox, tag: ScrubTag, pairs: BTreeMap<Bytes, Bytes>) {
        let change = Change::OmapSet { object: pg::meta_object(self.pg.id()), pairs };
        let changes = vec![(self.pg.collection(), change)];
        self.ask(out, tag, RequestKind::Commit(Transaction { changes }));
    }
}
