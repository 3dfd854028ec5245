//! Refusals and failures: an interval ends because the store of a member refused a transaction, because a
//! write was lost, or because the content that it depends on cannot be read.
//!
//! A store refuses a transaction for want of space, if it is too large, or if it changes a part of lost
//! content. To avoid refusals, members tell the primary when their disks are nearly full, and the OSD takes
//! no more writes that add to the group ([`Pg::has_space`]). If a store refuses a transaction nevertheless,
//! the log in memory is ahead of the disk. The disk has a prefix of the history, because a store applies no
//! transaction after a refused one before it is told to resume ([`RequestKind::Append`]). So the copy
//! serves nothing, waits until its store has completed everything, and reloads itself from disk as after a
//! restart. It takes part again in the next interval, which the primary asks for, and is then behind the
//! others, as if it had been away. If no member stored a write, it never happened, and objects are as they
//! were before; its client is told why.

use crate::core::Output;
use crate::follower::FollowerStage;
use crate::holding::Unconverted;
use crate::loading;
use crate::message::{Body, RefusedWrite};
use crate::primary::Primary;
use crate::role::{Loading, Role};
use crate::rows;
use crate::{Member, Pg, PgInfo, PgLog, State, Tag};
use store::{RequestKind, StoreError};
use types::EVersion;

/// The store refused a transaction. If it also settles changes, they may be the reason: then no write is
/// answered with it, and the next interval settles them without the write.
pub(crate) fn refused(pg: &mut Pg, tag: Tag, error: StoreError, settles: bool) {
    if matches!(pg.state(), State::Failed | State::Refused) {
        return;
    }
    tracing::error!(pg = %pg.core.own.id, osd = %pg.core.own.whoami, %error, "the store refuses a write");
    pg.core.settling.note_refused();
    pg.core.store_queue.note_failed();
    let refused = match tag {
        Tag::Write(version, _) if !settles => RefusedWrite::of(version, &error),
        _ => None,
    };
    if let Some(ticket) = ticket_of(pg, tag).filter(|_| !settles) {
        pg.core.outputs.push_back(Output::Refused { ticket, error });
    }
    stop_serving(pg);
    let loading = match std::mem::take(&mut pg.role) {
        Role::SplitMerge(stopped) => Loading { asked_by: None, split_merge: Some(stopped) },
        Role::Loading(loading) => loading,
        _ => Loading::default(),
    };
    pg.role = Role::Refused(loading);
    if let Some(primary) = pg.core.placement.members.primary_member()
        && primary != pg.core.own.whoami
    {
        pg.core.send(primary, &Body::Stalled(refused));
    }
}

/// Our parity cannot hold a write, because it cannot read an old row. Its object becomes missing here
/// first: it is rebuilt before the write is executed again.
pub(crate) fn refuse_write(pg: &mut Pg, refused: Unconverted) {
    let Unconverted { version, object, prior_version, error } = refused;
    tracing::error!(pg = %pg.core.own.id, osd = %pg.core.own.whoami, %object, %error, "an old row of a parity cannot be read");
    pg.core.miss(&object, prior_version);
    stop_serving(pg);
    pg.role = Role::follower(FollowerStage::Stalled);
    if let Some(primary) = pg.core.placement.members.primary_member() {
        pg.core.send(primary, &Body::Stalled(RefusedWrite::of(version, &error)));
    }
}

fn ticket_of(pg: &Pg, tag: Tag) -> Option<u64> {
    let Tag::Write(version, interval) = tag else { return None };
    let serving = pg.serving().filter(|_| interval == pg.core.placement.interval)?;
    let write = serving.in_flight.iter().find(|write| write.version == version);
    write.map(|write| write.ticket)
}

/// A write of the primary was lost or is malformed. A replica's confirmation covers all earlier writes,
/// so this copy takes no further ones: peering in the next interval lets it recover them.
pub(crate) fn refuse_gap(pg: &mut Pg, what: &str) {
    tracing::error!(pg = %pg.core.own.id, osd = %pg.core.own.whoami, head = ?pg.core.copy.log.head(), "{what}: the members will meet again");
    stop_serving(pg);
    pg.role = Role::follower(FollowerStage::Stalled);
    if let Some(primary) = pg.core.placement.members.primary_member() {
        pg.core.send(primary, &Body::Stalled(None));
    }
}

/// An OSD's store refused a transaction: aborts the interval if the OSD is a member.
pub(crate) fn handle_stalled(pg: &mut Pg, from: Member, refused: Option<RefusedWrite>) {
    if !pg.is_primary() {
        return;
    }
    if pg.core.placement.members.has_member(from) {
        report_refused(pg, refused);
        stop_serving(pg);
        pg.role = Role::Primary(Box::new(Primary::stalled()));
    } else {
        pg.with_primary(|primary, core| {
            primary.forget_helper(core, from);
            rows::forget_source(core, from);
        });
    }
}

/// Old rows that a write needs cannot be read. The write and those behind it never happened.
pub(crate) fn give_up_write(pg: &mut Pg) {
    let unreadable = pg.serving().and_then(|serving| serving.pipeline.unreadable().cloned());
    let Some((version, object)) = unreadable else { return };
    tracing::error!(pg = %pg.core.own.id, %object, "the content that a write depends on cannot be read");
    let error = StoreError::Corrupt { object, offset: 0, length: 0 };
    if let Some(ticket) = ticket_of(pg, Tag::Write(version, pg.core.placement.interval)) {
        pg.core.outputs.push_back(Output::Refused { ticket, error });
    }
    stop_serving(pg);
    pg.role = Role::Primary(Box::new(Primary::stalled()));
}

/// A member refused a write: its request is answered with the reason if the next log does not have it.
fn report_refused(pg: &mut Pg, refused: Option<RefusedWrite>) {
    let Some(refused) = refused else { return };
    let tag = Tag::Write(refused.version, pg.core.placement.interval);
    let Some(entry) = pg.core.copy.log.entry(refused.version) else { return };
    let error = refused.error(&entry.object);
    if let Some(ticket) = ticket_of(pg, tag) {
        pg.core.outputs.push_back(Output::Refused { ticket, error });
    }
}

fn stop_serving(pg: &mut Pg) {
    pg.core.space.stalled_in = Some(pg.core.placement.interval);
    let tickets = pg.take_writes();
    pg.forget_peers();
    pg.core.outputs.push_back(Output::Interrupted { tickets, members_stay: true });
    pg.core.outputs.push_back(Output::WantsInterval);
}

/// The store failed: the outcome of every pending transaction is unknown here.
pub(crate) fn fail(pg: &mut Pg, error: &StoreError) {
    if pg.state() != State::Failed {
        tracing::error!(pg = %pg.core.own.id, osd = %pg.core.own.whoami, %error, "the copy is out of service");
        pg.core.store_queue.note_failed();
        pg.interrupt_writes(false);
        pg.end_backfill();
        let was_splitting_or_merging = pg.is_splitting_or_merging();
        pg.role = Role::Failed { asked_by: pg.role.take_query() };
        if was_splitting_or_merging {
            pg.core.outputs.push_back(Output::SplitMergeFailed);
        }
    }
}

/// Drops the state in memory, and loads the copy from disk.
pub(crate) fn read_again(pg: &mut Pg) {
    pg.core.ask_store(Tag::Resumed, RequestKind::Resume(pg.core.own.collection));
    if let Role::Refused(loading) = std::mem::take(&mut pg.role) {
        pg.role = Role::Loading(loading);
    }
    pg.core.copy.info = PgInfo::of_new_copy(pg.core.own.whoami.shard);
    pg.core.copy.log = PgLog::default();
    pg.core.copy.missing.clear();
    // The writes that it is about may not have been stored.
    pg.core.settling.forget_above(EVersion::ZERO);
    loading::load_page(&mut pg.core, None);
}
