//! Read-only view of a copy, for the OSD and for reports.

use crate::members::MemberSet;
use crate::missing::Item;
use crate::peers::Known;
use crate::primary::Primary;
use crate::role::Role;
use crate::scrub::{self, Order};
use crate::serving::{BackfillState, Probe, Serving, View};
use crate::{Layout, Member, Members, Missing, Pg, PgInfo, PgLog, State};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use store::Collection;
use types::{EVersion, Epoch, HObject, OsdId, PgId, PgShard};

/// The knowledge of a copy that is not the primary's.
static KNOWN_OF_OTHERS: LazyLock<Known> = LazyLock::new(Known::default);
/// The work of a copy that does not serve.
static SERVING_OF_OTHERS: LazyLock<Serving> = LazyLock::new(Serving::default);

impl Pg {
    /// The group.
    pub fn id(&self) -> PgId {
        self.core.own.id
    }

    /// The group with the shard of this copy: by that, the OSD finds it.
    pub fn pg_shard(&self) -> PgShard {
        self.core.own.collection.0
    }

    /// The collection of this copy in the store of this OSD.
    pub fn collection(&self) -> Collection {
        self.core.own.collection
    }

    /// The identity of this copy among the group's members.
    pub fn whoami(&self) -> Member {
        self.core.own.whoami
    }

    /// The state of this copy.
    pub fn state(&self) -> State {
        self.role.state()
    }

    /// The info as it is stored, or in a transaction in flight.
    pub fn info(&self) -> &PgInfo {
        &self.core.copy.info
    }

    /// The log as it is stored, or in a transaction in flight.
    pub fn log(&self) -> &PgLog {
        &self.core.copy.log
    }

    /// Objects that the log knows and the store of this copy does not have.
    pub fn missing(&self) -> &Missing {
        &self.core.copy.missing
    }

    /// The members in the present interval.
    pub fn members(&self) -> &Members {
        &self.core.placement.members
    }

    /// The first epoch of the present interval; zero before the first map.
    pub fn interval(&self) -> Epoch {
        self.core.placement.interval
    }

    /// The newest version that is known here to be durable on all members.
    pub fn committed(&self) -> EVersion {
        self.core.copy.committed
    }

    /// The version of the newest write that was submitted. In a group with shards that may be more than the
    /// info has: a write waits for its old rows.
    pub fn submitted(&self) -> EVersion {
        self.core.copy.log.head()
    }

    /// Whether this copy is the group's primary, and its OSD up.
    pub fn is_primary(&self) -> bool {
        self.core.is_primary() && self.core.placement.is_up
    }

    /// Whether this OSD is the group's primary, and serves requests.
    pub fn is_active(&self) -> bool {
        self.state() == State::Active
    }

    /// Whether no write is in flight.
    pub fn is_settled(&self) -> bool {
        self.serving().is_none_or(|serving| serving.in_flight.is_empty())
    }

    /// Whether this copy takes part in writes now.
    pub fn is_serving(&self) -> bool {
        matches!(self.state(), State::Active | State::ReplicaActive)
    }

    /// Whether this OSD stores nothing of the group.
    pub fn is_absent(&self) -> bool {
        !self.core.copy.created
    }

    /// The members that answered in this interval, with their infos; `None` if they have no copy.
    pub fn peers(&self) -> impl Iterator<Item = (Member, Option<&PgInfo>)> {
        self.view().known.peers.iter().map(|(member, peer)| (*member, peer.info.as_ref()))
    }

    /// The participants that have not stored this in-flight write; none if it is not in flight.
    pub fn not_stored_by(&self, version: EVersion) -> impl Iterator<Item = OsdId> + '_ {
        let mut in_flight = self.serving().into_iter().flat_map(|serving| &serving.in_flight);
        let write = in_flight.find(|write| write.version == version);
        let waiting = write.map_or(MemberSet::default(), |write| write.waiting);
        self.view().agreed.participants.select(waiting).map(|member| member.osd)
    }

    /// The OSDs whose answers the present state waits for.
    pub fn waiting_for(&self) -> impl Iterator<Item = OsdId> + '_ {
        let stage = self.primary().map(|primary| primary.stage.waiting_for());
        stage.into_iter().flatten().map(|member| member.osd)
    }

    /// The down OSDs that must come back or be marked lost.
    pub fn blocked_by(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.view().known.blocked_by.iter().copied()
    }

    /// Whether this OSD is not a member of the group.
    pub fn is_stray(&self) -> bool {
        self.state() == State::Stray
    }

    /// Whether there are all copies that the pool wants, they are equal, and those of the up set are among
    /// them.
    pub fn is_clean(&self) -> bool {
        self.is_active() && self.serving().is_some_and(|serving| serving.is_clean)
    }

    /// Whether the group may be merged: it is clean, and its shards are where those of the other half will
    /// be.
    pub fn may_merge(&self) -> bool {
        let members = self.members();
        let is_in_place = members.layout == Layout::Replicated || members.acting == members.up;
        self.is_clean() && is_in_place
    }

    /// The acting set to ask the monitor for; empty means the up set.
    pub fn wanted_acting(&self) -> Option<&[OsdId]> {
        self.view().known.wanted.as_deref()
    }

    /// The `up_thru` to ask the monitor for.
    pub fn wanted_up_thru(&self) -> Option<Epoch> {
        (self.state() == State::WaitUpThru).then_some(self.core.placement.interval)
    }

    /// Whether this copy may answer a read of the object: its version is durable on all members.
    pub fn can_serve_read(&self, object: &HObject) -> bool {
        match self.state() {
            State::Active => true,
            State::ReplicaActive => {
                self.core.copy.info.history.last_epoch_started >= self.core.placement.interval
                    && self.core.placement.members.is_acting(self.core.own.whoami)
                    && !self.core.copy.missing.contains(object)
                    && !self.core.copy.is_written_above(object, self.core.copy.committed)
            }
            _ => false,
        }
    }

    /// The version of an object according to the log; zero if the log does not have it.
    pub fn logged_version(&self, object: &HObject) -> EVersion {
        self.core.copy.logged_version(object)
    }

    /// Whether the log proves that no write of the object came after this version.
    pub fn is_unchanged_since(&self, object: &HObject, version: EVersion) -> bool {
        self.core.copy.is_unchanged_since(object, version)
    }

    /// The state that a scrub of this group needs at each step.
    pub fn scrub_view(&self) -> scrub::View<'_> {
        scrub::View {
            log: &self.core.copy.log,
            committed: self.core.copy.committed,
            recoveries: (self.recovering() == 0).then(|| self.recoveries_begun()),
            shards: self.core.placement.geometry().zip(self.core.placement.code.as_deref()),
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        let (primary, serving) = (self.primary(), self.serving());
        let agreed = primary.and_then(|primary| primary.stage.agreed());
        View {
            core: &self.core,
            known: primary.map_or_else(|| &*KNOWN_OF_OTHERS, |primary| &primary.known),
            agreed: agreed.unwrap_or_else(|| &SERVING_OF_OTHERS.agreed),
            recovery: &serving.unwrap_or_else(|| &SERVING_OF_OTHERS).recovery,
            is_active: self.is_active(),
        }
    }

    pub(crate) fn primary(&self) -> Option<&Primary> {
        match &self.role {
            Role::Primary(primary) => Some(primary),
            _ => None,
        }
    }

    pub(crate) fn serving(&self) -> Option<&Serving> {
        self.primary()?.stage.serving()
    }

    /// Whether no participant misses an object, the primary can read all of its own, and no recovery runs.
    pub fn is_whole(&self) -> bool {
        self.view().is_whole()
    }

    /// Number of missing objects, counted once for each copy that misses them.
    pub fn objects_missing(&self) -> usize {
        self.view().objects_missing()
    }

    /// Whether a request for the object must wait until it is recovered. Deletions need only the
    /// primary's metadata.
    pub fn is_blocked(&self, object: &HObject, writes: bool, deletes: bool) -> bool {
        self.view().is_blocked(object, writes, deletes)
    }

    /// Whether [`Pg::recover_next`] may start something.
    pub fn wants_recovery(&self) -> bool {
        self.is_recovering_state() && self.view().wants_recovery()
    }

    /// Whether [`Pg::retry_recovery`] may help.
    pub fn wants_retry(&self) -> bool {
        self.is_recovering_state() && self.view().wants_retry()
    }

    /// Whether objects are unfound: as far as counted, or among the first that are missing.
    pub fn has_unfound(&self) -> bool {
        self.view().has_unfound()
    }

    /// Objects that this primary lacks or cannot read, and that no reachable copy has.
    pub fn unfound(&self) -> impl Iterator<Item = &HObject> {
        self.view().unfound()
    }

    /// The needed and the stored version of an unfound object.
    pub fn unfound_item(&self, object: &HObject) -> Item {
        self.view().unfound_item(object)
    }

    /// Whether this primary lacks the object or cannot read it, and no reachable copy has it.
    pub fn is_unfound(&self, object: &HObject) -> bool {
        self.view().is_unfound(object)
    }

    /// Whether our own copy could not be read, and is not in the missing set.
    pub fn is_unreadable(&self, object: &HObject) -> bool {
        self.view().is_unreadable(object)
    }

    /// Whether the object is unfound, and all OSDs that may have it were probed.
    pub fn is_lost(&self, object: &HObject) -> bool {
        self.view().is_lost(object)
    }

    /// The needed version of a lost object that is missing on a member. `None` if all members have at least a
    /// damaged copy, to which writes can be applied.
    pub fn lost_version(&self, object: &HObject) -> Option<EVersion> {
        self.view().lost_version(object)
    }

    /// Whether a reachable copy has an older version.
    pub fn has_older(&self, object: &HObject) -> bool {
        self.view().has_older(object)
    }

    /// Whether all OSDs that may have unfound objects were probed.
    pub fn all_probed(&self) -> bool {
        self.view().all_probed()
    }

    /// The OSDs that may have unfound objects, besides this primary.
    pub fn may_have_unfound(&self) -> BTreeMap<OsdId, Probe> {
        let holders = self.view().may_have_unfound().into_iter();
        holders.map(|(member, probe)| (member.osd, probe)).collect()
    }

    /// The state of backfill; `None` if no member needs it.
    pub fn backfill_state(&self) -> Option<BackfillState> {
        self.view().backfill_state()
    }

    /// Members that need backfill, with their progress.
    pub fn backfill_targets(&self) -> impl Iterator<Item = (Member, &HObject)> {
        self.view().backfill_targets()
    }

    /// Whether the maps of some time since the group was last clean were not available here.
    pub fn has_gap(&self) -> bool {
        self.core.copy.past.has_gap()
    }

    /// Number of recoveries that were begun in this interval.
    pub fn recoveries_begun(&self) -> u64 {
        self.view().recovery.begun()
    }

    /// Number of objects in recovery.
    pub fn recovering(&self) -> usize {
        self.view().recovery.count()
    }

    /// Whether a disk has no space for an object to recover.
    pub fn is_recovery_toofull(&self) -> bool {
        self.view().recovery.is_toofull
    }

    pub(crate) fn is_recovering_state(&self) -> bool {
        matches!(self.state(), State::Active | State::Inactive)
    }

    /// Whether a write may add to the group: no acting member's disk is nearly full.
    pub fn has_space(&self) -> bool {
        !self.core.space.is_short && self.view().agreed.short.is_empty()
    }

    /// Whether this primary needs another interval, and so a new map, to proceed.
    pub fn wants_interval(&self) -> bool {
        self.core.is_primary() && self.core.space.stalled_in == Some(self.core.placement.interval)
    }

    /// Whether the map has split or merged this group, and its store has not.
    pub fn is_splitting_or_merging(&self) -> bool {
        match &self.role {
            Role::Loading(loading) | Role::Refused(loading) => {
                loading.split_merge.as_ref().is_some_and(|stopped| stopped.is_begun())
            }
            Role::SplitMerge(stopped) => stopped.is_begun(),
            _ => false,
        }
    }

    /// Whether the copy is stopped because its disk has no space for the split or merge. A copy
    /// whose store has failed since then is not stopped any more.
    pub fn is_split_merge_toofull(&self) -> bool {
        matches!(&self.role, Role::SplitMerge(stopped) if stopped.lacks_space())
    }

    /// The scrub order that is not carried out yet.
    pub fn scrub_order(&self) -> Option<Order> {
        self.core.copy.scrub_order
    }

    /// Whether the stored state is loaded. True for a copy that is new.
    pub fn is_loaded(&self) -> bool {
        self.state() != State::Loading
    }
}
