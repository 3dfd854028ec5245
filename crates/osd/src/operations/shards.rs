//! Reads of groups whose members keep shards: data comes from several members, and metadata from the own
//! store once it shows all that is committed.

use crate::operations::service::Service;
use crate::operations::shard_reads::{NeedOf, Unsettled};
use crate::tokens::Token;
use crate::work::Work;
use pg::{Layout, ObjectInfo, Pg, Read};
use store::RequestKind;
use types::{EVersion, HObject};

/// Whether the members of a group keep shards.
pub(super) fn has_shards(pg: &Pg) -> bool {
    pg.members().layout != Layout::Replicated
}

/// Reads from the own store what clients see: at once, or, in a group with shards, when the store shows all
/// committed changes of the object, or of all objects.
pub(super) fn read_store(s: &mut Service<'_>, token: Token, kind: RequestKind) {
    let through = match object_of(&kind) {
        Some(_) => EVersion::ZERO,
        None => s.group.pg.settle_committed(),
    };
    ask_store(s, Unsettled { through, token, kind });
}

fn ask_store(s: &mut Service<'_>, read: Unsettled) {
    let pg = &mut *s.group.pg;
    let is_shown = match object_of(&read.kind) {
        Some(object) => pg.shows_committed(object),
        None => pg.shows(read.through),
    };
    if is_shown {
        return s.cx.out.ask(read.token, read.kind);
    }
    s.group.queues.shard_reads.unsettled.push(read);
    s.cx.work.push(Work::Group(s.group.id));
}

/// The only object that a read concerns.
fn object_of(kind: &RequestKind) -> Option<&HObject> {
    match kind {
        RequestKind::Meta { object, .. }
        | RequestKind::Read { object, .. }
        | RequestKind::OmapHeader { object, .. }
        | RequestKind::OmapGet { object, .. }
        | RequestKind::OmapList { object, .. } => Some(object),
        _ => None,
    }
}

/// The store of a group shows more than before: reads may go on.
pub(crate) fn settled(s: &mut Service<'_>) {
    for read in std::mem::take(&mut s.group.queues.shard_reads.unsettled) {
        ask_store(s, read);
    }
}

/// Reads data of an object with this info for a request.
pub(super) fn read_data(
    s: &mut Service<'_>,
    object: HObject,
    info: &ObjectInfo,
    (offset, length): (u64, u64),
    part: NeedOf,
) {
    let ticket = s.group.queues.shard_reads.data.insert(part);
    let (version, size) = (info.version, info.size);
    s.group.pg.read_shards(Read { ticket, object, version, size, offset, length });
    s.cx.work.push(Work::Group(s.group.id));
}
