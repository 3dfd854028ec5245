//! The stamps of a group: when it was last scrubbed, and what was found.

use super::state::Scrubbed;
use crate::cx::Cx;
use crate::env::Env;
use crate::outbox::Outbox;
use crate::sessions::peers::Peers;
use crate::tokens::ScrubTag;
use pg::scrub::message::Body;
use pg::scrub::{STAMPS_KEY, Stamps};
use std::collections::BTreeMap;
use store::{Outcome, RequestKind, StoreError};

impl Scrubbed<'_> {
    /// Reads the stamps, if this OSD has become the primary of the group and does not know them.
    pub fn load_stamps(&mut self, env: &Env, out: &mut Outbox) {
        if !self.pg.is_primary() || !self.pg.is_active() || self.scrub.stamps.is_some() {
            return;
        }
        self.scrub.since.get_or_insert(env.now.wall());
        if std::mem::replace(&mut self.scrub.is_loading, true) {
            return;
        }
        let (collection, object) = (self.pg.collection(), pg::meta_object(self.pg.id()));
        let kind = RequestKind::OmapGet { collection, object, keys: vec![STAMPS_KEY] };
        self.ask(out, ScrubTag::LoadStamps, kind);
    }

    /// Handles loaded stamps. Returns whether they show inconsistencies. Stamps that could not be read stay
    /// unknown, and the next look asks again.
    pub(super) fn stamps_loaded(&mut self, outcome: Result<Outcome, StoreError>) -> bool {
        self.scrub.is_loading = false;
        let stored = match outcome {
            Ok(Outcome::OmapPairs(pairs)) => pairs.get(&STAMPS_KEY).cloned(),
            Err(StoreError::NoObject { .. }) => None,
            other => {
                let pg = self.pg.id();
                tracing::error!(%pg, ?other, "the stamps of scrubs cannot be read");
                return false;
            }
        };
        let stamps = stored.map(|stored| codec::decode_all::<Stamps>("scrub stamps", &stored));
        // Damaged stamps count as missing: the group is scrubbed.
        let stamps = stamps.and_then(Result::ok).unwrap_or_default();
        self.scrub.stamps.get_or_insert(stamps);
        stamps.errors.total() > 0
    }

    /// Has all members keep the stamps, and the order that is still to be done.
    pub(super) fn publish_stamps(&mut self, cx: &mut Cx<'_>, peers: &mut Peers, stamps: Stamps) {
        let order = self.pg.scrub_order().filter(|order| !stamps.has_done(order));
        let stamps = Stamps { order, ..stamps };
        self.scrub.stamps = Some(stamps);
        let whoami = self.pg.whoami();
        let members = self.pg.members().acting_members().filter(|member| *member != whoami);
        for member in Vec::from_iter(members) {
            self.send(cx, peers, member, &Body::Keep(stamps));
        }
        self.store_stamps(cx.out, stamps);
    }

    pub(super) fn store_stamps(&self, out: &mut Outbox, stamps: Stamps) {
        let pairs = BTreeMap::from([(STAMPS_KEY, codec::encode_to_bytes(&stamps))]);
        self.set_pairs(out, ScrubTag::StoreStamps, pairs);
    }
}
