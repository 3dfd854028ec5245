//! The beginning and the end of roles: maps and their intervals, loading, a split or merge, removal.
//! `refusals.rs` has the ends of a role for want of something that its interval needs.

use crate::core::{Core, IntervalStored, LocalCopy, Output};
use crate::follower::{Follower, FollowerStage, send_info};
use crate::holding::Unconverted;
use crate::loading::{self, Loaded};
use crate::message::{Header, RefusedWrite};
use crate::pg::Pg;
use crate::primary::Primary;
use crate::refusals;
use crate::role::{Loading, Role};
use crate::rows;
use crate::split_merge::{MergedVersions, SplitMerge};
use crate::{MapChange, Member, Members, PgInfo, PgLog, State, Tag};
use store::{Change, Outcome, RequestKind, StoreError, Transaction};
use types::{EVersion, Epoch, PgId, PgShard};

impl Pg {
    /// Handles a new map, with the group's members. Maps come one by one in the order of epochs, including
    /// those of a time in which this OSD was down; `is_gap` is set if some are not available. After one map
    /// or several, and before any other call, [`Pg::store_interval`] must follow if [`Pg::is_store_due`].
    pub fn handle_map(&mut self, change: &MapChange, members: Members) {
        let epoch = change.epoch;
        if epoch < self.core.placement.epoch {
            tracing::error!(pg = %self.core.own.id, %epoch, newest = %self.core.placement.epoch, "ignores an older map");
            return;
        }
        let osds_before = self.core.placement.osds.replace(change.osds.clone());
        let lives_before = osds_before.clone();
        let was_up = std::mem::replace(&mut self.core.placement.is_up, change.is_up);
        let epoch_before = std::mem::replace(&mut self.core.placement.epoch, epoch);
        if epoch < self.core.placement.interval {
            return; // the stored interval is ahead of the stored map
        }
        let is_first = self.core.placement.interval == Epoch(0);
        let ends = is_first || change.is_gap || members != self.core.placement.members;
        let is_forced = self.wants_interval() && epoch > self.core.placement.interval;
        let mut absence = None;
        let is_split_or_merged = self.core.copy.created
            && !is_first
            && members.hash_bits != self.core.placement.members.hash_bits;
        if ends {
            // A copy that was just loaded has seen the first map of its interval, and perhaps later ones.
            let seen = epoch_before.max(self.core.placement.interval);
            let gap_from = change.is_gap.then_some(seen.next());
            self.core.leases.remember(self.core.placement.members.primary, epoch);
            self.core.end_interval(epoch, gap_from, osds_before.as_deref());
            self.core.placement.set_members(members);
            absence = self.core.absence(change, gap_from.filter(|_| !is_first));
            self.core.copy.knows_past |= change.is_new;
        }
        let is_noted =
            is_forced && !ends && self.core.note_forced_end(epoch, osds_before.as_deref());
        if ends || is_forced {
            self.core.placement.interval = epoch;
        }
        if ends || is_noted {
            self.core.store_queue.interval = IntervalStored::No;
        }
        match &mut self.role {
            Role::SplitMerge(stopped) if is_split_or_merged => return stopped.begin(),
            _ if is_split_or_merged => return self.split_or_merge(),
            Role::Follower(_) | Role::Primary(_) => {}
            // It is loaded first, or is a new part.
            _ => {
                self.core.placement.absent_in = self.core.placement.absent_in.or(absence);
                return;
            }
        }
        absence.into_iter().for_each(|first| self.core.note_absence(first));
        let is_due = (ends || is_noted) && self.core.copy.created;
        if is_due && !self.core.store_queue.is_store_due {
            // Until it is stored, queries are not answered and the interval does not progress.
            self.core.store_queue.is_store_due = true;
            self.core.store_queue.commits_pending += 1;
        }
        match ends || is_forced || was_up != self.core.placement.is_up {
            true => self.start_interval(!ends && was_up == self.core.placement.is_up),
            false => {
                self.forget_former_incarnations(lives_before.as_deref());
                self.with_primary(|primary, core| primary.others_changed(core));
            }
        }
    }

    /// Whether an interval has begun that is not submitted to the store yet.
    pub fn is_store_due(&self) -> bool {
        self.core.store_queue.is_store_due
    }

    /// Stores the present interval and those before it, once the OSD has passed all maps that it has. Most
    /// intervals of a catch-up are over before the group could act in them, so they share one transaction.
    pub fn store_interval(&mut self) {
        if !std::mem::take(&mut self.core.store_queue.is_store_due) {
            return;
        }
        self.core.store_queue.commits_pending -= 1;
        if self.core.copy.created {
            self.core.store_info_and_intervals(Tag::Progress);
        }
    }

    /// Whether the store of this OSD has the present interval and all past ones. If not, the OSD stores no
    /// newer map, so that it passes this copy the same maps again after a restart.
    pub fn has_stored_interval(&self) -> bool {
        !self.core.copy.created || self.core.store_queue.interval == IntervalStored::Durable
    }

    /// Requests to an OSD that is no member are lost when it restarts, although the interval goes on.
    fn forget_former_incarnations(&mut self, before: Option<&crate::Osds>) {
        let (Some(before), Some(osds)) = (before, self.core.placement.osds.clone()) else { return };
        let is_over = |member: &Member| {
            let (then, now) = (before.status(member.osd), osds.status(member.osd));
            (then.is_up, then.up_from) != (now.is_up, now.up_from)
        };
        self.with_primary(|primary, core| {
            let members = &core.placement.members;
            let helpers = primary.known.peers.keys().filter(|peer| !members.has_member(**peer));
            let gone: Vec<Member> = helpers.copied().filter(is_over).collect();
            gone.iter().for_each(|helper| primary.forget_helper(core, *helper));
            gone.into_iter().for_each(|helper| rows::forget_source(core, helper));
        });
    }

    /// Begins an interval: resets everything but log, missing set and data.
    pub(crate) fn start_interval(&mut self, members_stay: bool) {
        self.interrupt_writes(members_stay);
        self.forget_peers();
        self.core.space.stalled_in = None;
        if self.is_primary() {
            let primary = Primary::begin(&mut self.core);
            self.role = Role::Primary(Box::new(primary));
            return;
        }
        let (whoami, placement) = (self.core.own.whoami, &self.core.placement);
        let stage = match placement.is_up && placement.members.has_member(whoami) {
            true => FollowerStage::Replica,
            false => FollowerStage::Stray,
        };
        // A new primary may not know of this copy.
        let is_reported = placement.is_up && self.core.copy.created;
        let primary = placement.members.primary_member().filter(|primary| *primary != whoami);
        let asked_by = primary.filter(|_| is_reported);
        self.role = Role::Follower(Follower { asked_by, stage });
        if is_reported && self.core.store_queue.commits_pending == 0 {
            self.drained();
        }
    }

    /// Drops all state of the interval besides the log, the missing set, and disk space.
    pub(crate) fn forget_peers(&mut self) {
        self.end_backfill();
        self.core.transfers.clear();
        self.core.holding.clear();
        self.core.rows.clear();
        if let Role::Primary(_) = self.role {
            self.role = Role::default();
        }
    }

    /// All transactions are completed: the stored state is certain.
    pub(crate) fn drained(&mut self) {
        match &mut self.role {
            Role::Refused(_) => return refusals::read_again(self),
            Role::SplitMerge(stopped) => return stopped.handle_quiesced(&mut self.core),
            _ => {}
        }
        if let Some(primary) = self.role.take_query() {
            send_info(&mut self.core, primary);
        }
        self.with_primary(|primary, core| primary.choose_authority(core));
    }

    /// Handles the primary's query; it is answered when no transaction is pending.
    pub(crate) fn handle_query(&mut self, from: Member, header: &Header) {
        if header.epoch < self.core.placement.interval
            || self.core.placement.members.primary_member() != Some(from)
        {
            return;
        }
        if header.interval > self.core.placement.interval {
            let osds = self.core.placement.osds.clone();
            self.core.note_forced_end(header.interval, osds.as_deref());
            self.core.placement.interval = header.interval;
            self.start_interval(false);
        }
        if let Role::Follower(follower) = &mut self.role {
            follower.asked_by = Some(from);
        }
        if self.core.store_queue.commits_pending == 0 {
            self.drained();
        }
    }

    /// Takes all writes in flight from the primary. Their outcome is unknown.
    pub(crate) fn take_writes(&mut self) -> Vec<u64> {
        let Role::Primary(primary) = &mut self.role else { return Vec::new() };
        let Some(serving) = primary.stage.serving_mut() else { return Vec::new() };
        let tickets = serving.in_flight.drain(..).map(|write| write.ticket).collect();
        serving.pipeline.clear();
        // Writes that were not sent never happened.
        self.core.copy.log.rewind(self.core.copy.info.last_update);
        tickets
    }

    /// Ends all writes in flight, with an unknown outcome.
    pub(crate) fn interrupt_writes(&mut self, members_stay: bool) {
        let tickets = self.take_writes();
        self.core.outputs.push_back(Output::Interrupted { tickets, members_stay });
    }

    /// Gives up the reservations of the interval, as primary or as target.
    pub(crate) fn end_backfill(&mut self) {
        let was_reserved = match &mut self.role {
            Role::Follower(follower) => follower.drop_reservation(),
            _ => false,
        };
        if self.view().agreed.backfill.is_begun() || was_reserved {
            self.core.outputs.push_back(Output::Release);
        }
    }

    /// Takes a page of the stored state.
    pub(crate) fn loaded(&mut self, outcome: Result<Outcome, StoreError>) {
        let Role::Loading(_) = self.role else { return }; // removed meanwhile
        match loading::take_page(&mut self.core, outcome) {
            Loaded::InPart => {}
            Loaded::Damaged => self.role = Role::Failed { asked_by: None },
            Loaded::Failed(error) => self.fail(&error),
            Loaded::Whole if self.is_splitting_or_merging() => self.quiesced(),
            Loaded::Whole => {
                if let Role::Loading(loading) = std::mem::take(&mut self.role)
                    && self.core.placement.epoch.0 > 0
                {
                    self.join_interval(loading.asked_by);
                }
            }
        }
    }

    /// The stored state is known (again): takes part in the present interval. `asked_by` is a query that
    /// came before.
    pub(crate) fn join_interval(&mut self, asked_by: Option<(Member, Header)>) {
        if let Some(epoch) = self.core.placement.absent_in.take() {
            self.core.note_absence(epoch);
        }
        let is_member = self.core.placement.members.has_member(self.core.own.whoami);
        let is_stalled = self.core.space.stalled_in == Some(self.core.placement.interval);
        if self.core.copy.created && !is_stalled && !self.has_stored_interval() {
            // It began while the copy was not loaded. A store that refuses it is not asked again before the
            // next interval.
            self.core.store_info_and_intervals(Tag::Progress);
        }
        match is_stalled && is_member {
            true if self.is_primary() => self.role = Role::Primary(Box::new(Primary::stalled())),
            true => self.role = Role::follower(FollowerStage::Stalled),
            false => self.start_interval(false),
        }
        if let Some((from, header)) = asked_by {
            self.handle_query(from, &header);
        }
    }

    /// The map splits or merges the group: stops the copy, if necessary once it is loaded.
    pub(crate) fn split_or_merge(&mut self) {
        match &mut self.role {
            Role::Failed { .. } => {}
            Role::Loading(loading) | Role::Refused(loading) => {
                loading.split_merge.get_or_insert_default().begin();
            }
            _ => self.quiesced(),
        }
    }

    /// Stops the copy until it is split or merged.
    pub(crate) fn quiesced(&mut self) {
        self.interrupt_writes(false);
        self.forget_peers();
        self.core.space.stalled_in = None;
        let mut stopped = match std::mem::take(&mut self.role) {
            Role::Loading(Loading { asked_by, split_merge }) => {
                let mut stopped = split_merge.unwrap_or_default();
                stopped.asked_by = asked_by.or(stopped.asked_by);
                stopped
            }
            Role::SplitMerge(stopped) => stopped,
            _ => Box::default(),
        };
        stopped.begin();
        if self.core.store_queue.commits_pending == 0 {
            stopped.handle_quiesced(&mut self.core);
        }
        self.role = Role::SplitMerge(stopped);
    }

    /// The map has merged this group into another one: stops it for good.
    pub fn begin_merging(&mut self) {
        // It has no members any more.
        let Members { hash_bits, layout, .. } = self.core.placement.members;
        let members = Members { hash_bits, layout, ..Members::default() };
        self.core.placement.set_members(members);
        self.split_or_merge();
    }

    /// Takes part in the present interval again. Call at [`Output::SplitMerged`], on the copy and its parts.
    pub fn finish_split_merge(&mut self) {
        let stopped = match std::mem::take(&mut self.role) {
            Role::SplitMerge(stopped) => *stopped,
            _ => SplitMerge::default(),
        };
        let asked_by = stopped.asked_by;
        let (own, held) = stopped.end();
        if let Some(own) = own {
            (self.core.copy.info, self.core.copy.log, self.core.copy.missing) =
                (own.info, own.log, own.missing);
        }
        self.core.copy.created = true;
        self.core.copy.begin_committed();
        // The last step has stored it.
        self.core.store_queue.interval = IntervalStored::Durable;
        self.join_interval(asked_by);
        for (from, header, body) in held {
            self.dispatch(from, &header, body);
        }
    }

    /// Removes this copy and its data from the store; [`crate::Output::Removed`] follows. A copy that is
    /// stopped for a split or merge is removed as it is, and the split or merge is forgotten.
    pub fn remove(&mut self) {
        if self.state() == State::Refused {
            self.core.ask_store(Tag::Resumed, RequestKind::Resume(self.core.own.collection));
        }
        self.forget_peers();
        self.role = Role::default();
        let mut transaction = Transaction::new();
        transaction.push(self.core.own.collection, Change::RemoveCollection);
        self.core.copy.created = false;
        if std::mem::take(&mut self.core.store_queue.is_store_due) {
            self.core.store_queue.commits_pending -= 1;
        }
        self.core.copy.knows_past = false;
        self.core.copy.scrub_order = None;
        self.core.copy.info = PgInfo::of_new_copy(self.core.own.whoami.shard);
        self.core.copy.log = PgLog::default();
        self.core.copy.missing.clear();
        self.core.copy.past.clear();
        self.core.copy.committed = EVersion::ZERO;
        self.core.settling.forget_above(EVersion::ZERO);
        self.core.commit(Tag::Removed, transaction);
    }

    /// A part of this copy that becomes a group of its own. The caller passes it the map that this copy was
    /// passed just now.
    pub fn new_part(&self, id: PgId) -> Pg {
        let (own, whole) = (&self.core.own, &self.core.copy);
        let mut part = Pg::new(PgShard { pg: id, shard: own.whoami.shard }, own.whoami.osd)
            .with_sizes(own.sizes);
        part.core.copy = LocalCopy {
            created: whole.created,
            past: whole.past.clone(),
            knows_past: whole.knows_past,
            scrub_order: whole.scrub_order,
            info: PgInfo::of_new_copy(own.whoami.shard),
            ..LocalCopy::default()
        };
        part.core.leases.prior = self.core.leases.prior.clone();
        part.role = match self.role {
            _ if !whole.created => Role::default(),
            Role::Failed { .. } => Role::Failed { asked_by: None },
            _ => Role::SplitMerge(Box::default()),
        };
        part
    }

    /// Has the store split this copy into itself and these new parts. Call at [`Output::Quiesced`].
    pub fn divide(&mut self, parts: &mut [&mut Pg]) {
        let mut parts: Vec<&mut Core> = parts.iter_mut().map(|part| &mut part.core).collect();
        self.with_stopped(|stopped, core| stopped.divide(core, &mut parts));
    }

    /// Has the store merge these copies into this one. The merged copy is complete only if there is one
    /// source and both have just these `versions`. Call when all of them have given [`Output::Quiesced`].
    pub fn merge_from(&mut self, sources: &[&mut Pg], versions: Option<MergedVersions>) {
        let sources: Vec<&Core> = sources.iter().map(|source| &source.core).collect();
        self.with_stopped(|stopped, core| stopped.merge_from(core, &sources, versions));
    }

    /// Tries a refused split or merge again; [`Output::Quiesced`] follows.
    pub fn retry_split_merge(&mut self) {
        self.with_stopped(|stopped, core| stopped.retry(core));
    }

    /// The copy that this is to be a part of has failed.
    pub fn fail_split_merge(&mut self) {
        self.core.store_queue.interval = IntervalStored::No;
        self.role = Role::Failed { asked_by: None };
    }

    /// Passes a copy that is stopped for a split or merge what has happened. All others ignore it.
    pub(crate) fn with_stopped(&mut self, handle: impl FnOnce(&mut SplitMerge, &mut Core)) {
        if let Role::SplitMerge(stopped) = &mut self.role {
            handle(stopped, &mut self.core);
        }
    }

    /// See [`refusals::refused`].
    pub(crate) fn refused(&mut self, tag: Tag, error: StoreError, settles: bool) {
        refusals::refused(self, tag, error, settles);
    }

    /// See [`refusals::refuse_write`].
    pub(crate) fn refuse_write(&mut self, refused: Unconverted) {
        refusals::refuse_write(self, refused);
    }

    /// See [`refusals::refuse_gap`].
    pub(crate) fn refuse_gap(&mut self, what: &str) {
        refusals::refuse_gap(self, what);
    }

    /// See [`refusals::handle_stalled`].
    pub(crate) fn handle_stalled(&mut self, from: Member, refused: Option<RefusedWrite>) {
        refusals::handle_stalled(self, from, refused);
    }

    /// See [`refusals::give_up_write`].
    pub(crate) fn give_up_write(&mut self) {
        refusals::give_up_write(self);
    }

    /// See [`refusals::fail`].
    pub(crate) fn fail(&mut self, error: &StoreError) {
        refusals::fail(self, error);
    }
}
