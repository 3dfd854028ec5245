//! New maps: whether they end the interval.

use crate::intervals::Interval;
use crate::primary::Primary;
use crate::role::{Follower, FollowerStage, Role};
use crate::{MapChange, Members, Pg, Tag};
use std::sync::Arc;
use types::{Epoch, OsdId};

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
        let is_reshaped = self.core.copy.created
            && !is_first
            && members.hash_bits != self.core.placement.members.hash_bits;
        if ends {
            let gap_from = change.is_gap.then_some(epoch_before.next());
            self.core.leases.remember(self.core.placement.members.primary, epoch);
            self.end_interval(epoch, gap_from, osds_before);
            self.core.placement.members = members;
            self.core.copy.knows_past |= change.is_new;
        }
        if ends || is_forced {
            self.core.placement.interval = epoch;
        }
        match &mut self.role {
            Role::SplitMerge(stopped) if is_reshaped => return stopped.begin(),
            _ if is_reshaped => return self.split_or_merge(),
            Role::Follower(_) | Role::Primary(_) => {}
            _ => return, // it is loaded first, or is a new part
        }
        if ends && self.core.copy.created && !self.core.line.is_store_due {
            // Until it is stored, queries are not answered and the interval does not progress.
            self.core.line.is_store_due = true;
            self.core.line.commits_pending += 1;
        }
        match ends || is_forced || was_up != self.core.placement.is_up {
            true => self.start_interval(!ends && was_up == self.core.placement.is_up),
            false => {
                self.forget_former_lives(lives_before.as_deref());
                self.with_primary(|primary, core| primary.others_changed(core));
            }
        }
    }

    /// Whether an interval has begun that is not submitted to the store yet.
    pub fn is_store_due(&self) -> bool {
        self.core.line.is_store_due
    }

    /// Stores the present interval and those before it, once the OSD has passed all maps that it has. Most
    /// intervals of a catch-up are over before the group could act in them, so they share one transaction.
    pub fn store_interval(&mut self) {
        if !std::mem::take(&mut self.core.line.is_store_due) {
            return;
        }
        self.core.line.commits_pending -= 1;
        if self.core.copy.created {
            self.core.store_info_and_intervals(Tag::Progress);
        }
    }

    /// Requests to an OSD that is no member are lost when it restarts, although the interval goes on.
    fn forget_former_lives(&mut self, before: Option<&crate::Osds>) {
        let (Some(before), Some(osds)) = (before, self.core.placement.osds.clone()) else { return };
        let is_over = |osd: &OsdId| {
            let (then, now) = (before.status(*osd), osds.status(*osd));
            (then.is_up, then.up_from) != (now.is_up, now.up_from)
        };
        self.with_primary(|primary, core| {
            let members = &core.placement.members;
            let helpers = primary.known.peers.keys().filter(|osd| !members.is_member(**osd));
            let gone: Vec<OsdId> = helpers.copied().filter(is_over).collect();
            gone.into_iter().for_each(|osd| primary.forget_helper(osd));
        });
    }

    /// Adds the present interval, and the gap after it, to the past intervals.
    fn end_interval(
        &mut self,
        epoch: Epoch,
        gap_from: Option<Epoch>,
        osds: Option<Arc<crate::Osds>>,
    ) {
        if self.core.placement.interval == Epoch(0) {
            return;
        }
        let last = Epoch(epoch.0 - 1);
        // After a gap, the last map of the interval is not known either.
        let seen = osds.as_deref().filter(|_| gap_from.is_none());
        let end = gap_from.map_or(last, |first| Epoch(first.0.saturating_sub(1)));
        self.core.copy.past.push(Interval::of(
            &self.core.placement.members,
            self.core.placement.interval,
            end.max(self.core.placement.interval),
            seen,
        ));
        if let Some(first) = gap_from {
            self.core.copy.past.push(Interval::gap(first, last));
        }
        self.core.copy.past.trim(self.core.copy.info.history.last_epoch_clean);
    }

    /// Begins an interval: resets everything but log, missing set and data.
    pub(crate) fn start_interval(&mut self, members_stay: bool) {
        self.interrupt_writes(members_stay);
        self.forget_peers();
        self.core.room.stalled_in = None;
        if self.is_primary() {
            let primary = Primary::begin(&mut self.core);
            self.role = Role::Primary(Box::new(primary));
            return;
        }
        let (whoami, placement) = (self.core.own.whoami, &self.core.placement);
        let stage = match placement.is_up && placement.members.is_member(whoami) {
            true => FollowerStage::Replica,
            false => FollowerStage::Stray,
        };
        // A new primary may not know of this copy.
        let is_reported = placement.is_up && self.core.copy.created;
        let primary = placement.members.primary.filter(|osd| *osd != whoami);
        let asked_by = primary.filter(|_| is_reported);
        self.role = Role::Follower(Follower { asked_by, stage });
        if is_reported && self.core.line.commits_pending == 0 {
            self.drained();
        }
    }

    /// Drops all state of the interval besides the log, the missing set, and room.
    pub(crate) fn forget_peers(&mut self) {
        self.end_backfill();
        self.core.transfers.clear();
        if let Role::Primary(_) = self.role {
            self.role = Role::default();
        }
    }

    /// All transactions are completed: the stored state is certain.
    pub(crate) fn drained(&mut self) {
        match self.role {
            Role::Refused(_) => return self.read_again(),
            Role::SplitMerge(_) => return self.stands_still(),
            _ => {}
        }
        if let Some(primary) = self.role.take_query() {
            self.tell_info(primary);
        }
        self.with_primary(|primary, core| primary.choose_authority(core));
    }
}
