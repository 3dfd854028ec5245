//! Sources of an object's shards.

use super::service::Service;
use crate::Member;
use crate::core::{Core, settling};
use crate::message::Body;
use types::{EVersion, HObject};

/// The members with a shard of the object in this version, our own first.
pub fn shard_sources(service: &Service<'_>, object: &HObject, version: EVersion) -> Vec<Member> {
    let own = std::iter::once(service.core.own.whoami);
    let own = own.filter(|_| !service.core.copy.missing.contains(object));
    own.chain(service.view().sources(object, version)).collect()
}

/// Notes the strays whose logs are parts of ours: they may settle what is committed of them.
pub fn note_strays(service: &mut Service<'_>) {
    let members = &service.core.placement.members;
    let is_stray = |member: &Member| !members.has_member(*member);
    for (member, peer) in service.known.peers.iter().filter(|(member, _)| is_stray(member)) {
        let info = peer.info.as_ref().filter(|_| peer.is_missing_known);
        if let Some(info) = info {
            service.core.rows.note_stray(*member, info.last_update);
        }
    }
}

/// Whether enough shards of an object are on other members than these.
pub fn has_other_shards(
    service: &Service<'_>,
    object: &HObject,
    version: EVersion,
    bad: &[Member],
) -> bool {
    let sources = shard_sources(service, object, version);
    let others = sources.into_iter().filter(|source| !bad.contains(source));
    service.core.placement.backend.can_restore(others)
}

/// The version up to which members may settle changes of shards; zero if they may settle none, as in a group
/// that does not serve, and if they keep whole objects.
pub fn committed_shards(core: &Core) -> EVersion {
    match core.placement.code.is_some() && core.placement.can_serve() {
        true => core.copy.committed,
        false => EVersion::ZERO,
    }
}

/// Has a member settle what is committed, before it takes the messages that follow.
pub fn settle_member(core: &mut Core, member: Member) {
    let committed = committed_shards(core);
    match committed > EVersion::ZERO {
        true if member == core.own.whoami => settling::settle(core, committed),
        true => core.send(member, &Body::Settle(committed)),
        false => {}
    }
}
