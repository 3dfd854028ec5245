//! A pending change: the writes that one operation collects, and their translation to a transaction.
//!
//! All changes of the OSD map collect in one [`Incremental`]. A change is decided on a committed [`State`]
//! and is void once another transaction was committed first: then the operation is run again on the newer
//! state.

use crate::image_traffic::Note;
use crate::keys::{self, VersionGroup};
use crate::state::{FULL_MAPS_KEPT, LeaderClock, State};
use crate::volume_work;
use bytes::Bytes;
use control::Transaction;
use crush::CrushMap;
use engine::Time;
use maps::{ApplyError, FsMap, Incremental, OsdState, Pool, PoolFlags, PoolSnap};
use std::collections::BTreeSet;
use std::sync::Arc;
use types::{EntityAddr, Epoch, OsdId, PoolId, SnapId, UTime};
use wire::LogEntry;
use wire::internal::ScrubOrder;

/// The writes of one operation, and the orders to OSDs that follow once they are durable.
#[derive(Debug)]
pub struct Change {
    now: UTime,
    incremental: Option<Incremental>,
    fsmap: Option<Box<FsMap>>,
    clock: Option<LeaderClock>,
    transaction: Transaction,
    /// Entries for the cluster log: severity and text.
    notes: Vec<(u16, String)>,
    /// Scrub orders that are sent to OSDs once the change is durable.
    orders: Vec<(OsdId, ScrubOrder)>,
    /// Updates of the image traffic, which is kept in memory only.
    image_notes: Vec<Note>,
    /// Effect on the orders to workers of file systems, which are kept in memory only.
    order_note: Option<volume_work::Note>,
}

impl Change {
    /// An empty change; `now` becomes the time of modification of the maps it touches.
    pub fn new(now: UTime) -> Self {
        Change {
            now,
            incremental: None,
            fsmap: None,
            clock: None,
            transaction: Transaction::default(),
            notes: Vec::new(),
            orders: Vec::new(),
            image_notes: Vec::new(),
            order_note: None,
        }
    }

    /// Whether there is nothing to commit. Notes and orders do not count.
    pub fn is_empty(&self) -> bool {
        self.incremental.is_none()
            && self.fsmap.is_none()
            && self.clock.is_none()
            && self.transaction.is_empty()
    }

    /// The wall-clock time at which the change began.
    pub fn now(&self) -> UTime {
        self.now
    }

    /// Whether it makes a new epoch of the OSD map.
    pub fn touches_osdmap(&self) -> bool {
        self.incremental.is_some()
    }

    /// Whether it makes a new epoch of a map, which a store that went back must not issue again.
    pub fn touches_maps(&self) -> bool {
        self.touches_osdmap() || self.fsmap.is_some()
    }

    /// The changes to the OSD map so far.
    pub fn incremental(&self) -> Option<&Incremental> {
        self.incremental.as_ref()
    }

    /// Adds an entry to the cluster log, which is committed with the change. Severities are those of
    /// [`wire::LogEntry`].
    pub fn note(&mut self, severity: u16, text: String) {
        self.notes.push((severity, text));
    }

    /// Takes the log entries out: severity and text.
    pub fn take_notes(&mut self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.notes)
    }

    /// Sends a scrub order to an OSD once the change is durable.
    pub fn order(&mut self, osd: OsdId, order: ScrubOrder) {
        self.orders.push((osd, order));
    }

    /// Takes the scrub orders out.
    pub fn take_orders(&mut self) -> Vec<(OsdId, ScrubOrder)> {
        std::mem::take(&mut self.orders)
    }

    /// Updates the image traffic once the change is durable.
    pub fn note_images(&mut self, note: Note) {
        self.image_notes.push(note);
    }

    /// Takes the updates of the image traffic out.
    pub fn take_image_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.image_notes)
    }

    /// Changes the orders to workers once the leader is confirmed.
    pub(crate) fn note_order(&mut self, note: volume_work::Note) {
        self.order_note = Some(note);
    }

    /// Takes the change of the orders out.
    pub(crate) fn take_order_note(&mut self) -> Option<volume_work::Note> {
        self.order_note.take()
    }

    /// Writes a key of the control store. Keys of the OSD map are written by [`Change::finish`].
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<Bytes>) {
        let key = key.into();
        assert!(is_known(&key), "{key} is of no part of the state");
        self.transaction.put(key, value);
    }

    /// Deletes a key of the control store.
    pub fn delete(&mut self, key: impl Into<String>) {
        let key = key.into();
        assert!(is_known(&key), "{key} is of no part of the state");
        self.transaction.delete(key);
    }

    /// The incremental of the OSD map, which is begun if there is none yet.
    pub fn osdmap(&mut self, state: &State) -> &mut Incremental {
        let (map, now) = (&state.osdmap, self.now);
        let begun = || Incremental::new(map.fsid, map.epoch.next(), now);
        let incremental = self.incremental.get_or_insert_with(begun);
        assert_eq!(incremental.epoch, map.epoch.next(), "a change is decided on one state");
        incremental
    }

    /// The file system map with the changes so far, to be changed further. It has the epoch that the change
    /// leads to; those of its parts are set when the change is finished.
    pub fn fsmap(&mut self, state: &State) -> &mut FsMap {
        let begun = || {
            let map = state.fs.map.clone();
            Box::new(FsMap { epoch: map.epoch.next(), ..map })
        };
        self.fsmap.get_or_insert_with(begun)
    }

    /// The file system map that this change leads to, for reading.
    pub fn fsmap_after<'a>(&'a self, state: &'a State) -> &'a FsMap {
        self.fsmap.as_deref().unwrap_or(&state.fs.map)
    }

    /// A pool with the changes so far, to be changed further; sets its `last_change`. `None` if there is no
    /// such pool.
    pub fn pool(&mut self, state: &State, id: PoolId) -> Option<&mut Pool> {
        let epoch = state.osdmap.epoch.next();
        let pool = self.pool_unmarked(state, id)?;
        pool.last_change = epoch;
        Some(pool)
    }

    /// Like [`Change::pool`], for changes to the pool's snapshots, which set `snap_epoch` instead.
    pub fn pool_snapshots(&mut self, state: &State, id: PoolId) -> Option<&mut Pool> {
        let epoch = state.osdmap.epoch.next();
        let pool = self.pool_unmarked(state, id)?;
        pool.snap_epoch = epoch;
        Some(pool)
    }

    fn pool_unmarked(&mut self, state: &State, id: PoolId) -> Option<&mut Pool> {
        let current = state.osdmap.pool(id)?;
        let incremental = self.osdmap(state);
        Some(incremental.new_pools.entry(id).or_insert_with(|| current.clone()))
    }

    /// The CRUSH map with the changes so far, to be changed further.
    pub fn crush(&mut self, state: &State) -> &mut CrushMap {
        let crush = self.osdmap(state).crush.get_or_insert_with(|| state.osdmap.crush.clone());
        Arc::make_mut(crush)
    }

    /// The CRUSH map that this change leads to, for reading.
    pub fn crush_after<'a>(&'a self, state: &'a State) -> &'a CrushMap {
        let changed = self.incremental.as_ref().and_then(|incremental| incremental.crush.as_ref());
        changed.unwrap_or(&state.osdmap.crush)
    }

    /// Adds a pool snapshot with the next id.
    pub fn add_pool_snapshot(&mut self, state: &State, id: PoolId, name: &str, now: Time) {
        if let Some(pool) = self.pool_snapshots(state, id) {
            pool.flags.insert(PoolFlags::POOL_SNAPS);
            pool.snap_seq = SnapId(pool.snap_seq.0 + 1);
            let id = pool.snap_seq;
            pool.snaps.insert(id, PoolSnap { id, stamp: now.wall(), name: name.to_owned() });
        }
    }

    /// Removes a pool snapshot, and queues it for snapshot trimming.
    pub fn remove_pool_snapshot(&mut self, state: &State, id: PoolId, snap: SnapId) {
        if let Some(pool) = self.pool_snapshots(state, id) {
            pool.snaps.remove(&snap);
            pool.snap_seq = SnapId(pool.snap_seq.0 + 1);
        }
        self.osdmap(state).new_removed_snaps.entry(id).or_default().insert(snap);
    }

    /// Marks an OSD down in this epoch; the map itself records the time.
    pub fn mark_down(&mut self, state: &State, osd: OsdId) {
        // The bit toggles.
        assert!(state.osdmap.is_up(osd), "osd.{osd} is up until it is marked down");
        let states = self.osdmap(state).new_state.entry(osd).or_default();
        *states = *states | OsdState::UP;
    }

    /// Marks an OSD down that serves no reads any more: a new primary need not wait for its read leases to
    /// expire.
    pub fn mark_dead(&mut self, state: &State, osd: OsdId) {
        self.mark_down(state, osd);
        let incremental = self.osdmap(state);
        if let Some(known) = state.osdmap.osd(osd) {
            let mut xinfo = known.xinfo;
            // A value set here replaces the one that the map records.
            xinfo.down_stamp = incremental.modified;
            xinfo.dead_epoch = state.osdmap.epoch;
            incremental.new_xinfo.insert(osd, xinfo);
        }
    }

    /// Appends entries to the cluster log with the next numbers.
    pub fn append_log(&mut self, state: &State, entries: Vec<LogEntry>) {
        let next = state.log.last_key_value().map_or(1, |(newest, _)| newest + 1);
        assert!(next > 0, "numbers of entries begin with one");
        for (sequence, entry) in (next..).zip(entries) {
            self.put(keys::log(sequence), codec::encode_to_bytes(&entry));
        }
    }

    /// Stores a reading of the leader's clock. If that is ahead of the stored reading, all entries of the
    /// blocklist are postponed.
    pub fn stamp_clock(&mut self, state: &State) {
        self.clock(state);
    }

    /// Stores a reading if the blocklist gets new entries, which expire by it. It may note something, so it
    /// is called before notes are taken.
    pub fn stamp_new_entries(&mut self, state: &State) {
        let is_new = |map: &Incremental| {
            !(map.new_blocklist.is_empty() && map.new_range_blocklist.is_empty())
        };
        if self.incremental.as_ref().is_some_and(is_new) {
            self.stamp_clock(state);
        }
    }

    /// The reading of the leader's clock that this change stores: one for all of its entries.
    fn clock(&mut self, state: &State) -> &mut LeaderClock {
        let known = state.members.clock.as_ref();
        if let Some(known) = known.filter(|known| self.clock.is_none() && known.is_ahead(self.now))
        {
            let seconds = known.age(self.now).as_secs();
            let text = format!(
                "the expiry of all blocklist entries is postponed by {seconds} s: no monitor was running for so \
                 long, or this monitor's clock is ahead of the former leader's; check NTP ('ceph time-sync-status')"
            );
            self.note(3, text);
        }
        let first = || LeaderClock { shows: self.now.as_nanos(), ..LeaderClock::default() };
        let next = || known.map_or_else(first, |known| known.next(self.now, &state.osdmap));
        self.clock.get_or_insert_with(next)
    }

    /// Postpones an entry that is listed already. In maps it keeps its first expiry time.
    pub fn extend_blocklist(&mut self, state: &State, addr: &EntityAddr, until: UTime) {
        let known = self.clock.as_ref().or(state.members.clock.as_ref());
        if known.is_some_and(|known| known.end_of(addr, until) > until.as_nanos()) {
            return;
        }
        let clock = self.clock(state);
        let end = clock.end_of(addr, until);
        clock.ends.insert(addr.to_string(), end);
    }

    /// The transaction to commit. It compares the version of each group that it writes to with that of
    /// `state`.
    pub fn finish(mut self, state: &State) -> Result<Transaction, ApplyError> {
        if let Some(incremental) = self.incremental.take() {
            self.write_osdmap(state, incremental)?;
        }
        if let Some(fsmap) = self.fsmap.take() {
            self.write_fsmap(state, *fsmap);
        }
        if let Some(clock) = self.clock.take() {
            self.put(keys::CLOCK, serde_json::to_vec(&clock).unwrap_or_default());
        }
        let mut transaction = self.transaction;
        assert!(transaction.compare.is_empty(), "versions are compared once");
        let groups: BTreeSet<VersionGroup> =
            transaction.writes.keys().filter_map(|key| VersionGroup::of_key(key)).collect();
        for group in groups {
            let (version, revision) = state.version(group);
            transaction.compare.push((group.version_key(), revision));
            transaction.put(group.version_key(), (version + 1).to_string());
        }
        Ok(transaction)
    }

    /// Sets the epoch and the time of each file system that has changed, and forgets servers that are gone.
    fn write_fsmap(&mut self, state: &State, mut map: FsMap) {
        let (before, epoch) = (&state.fs.map, map.epoch);
        assert_eq!(epoch, before.epoch.next(), "epochs follow each other");
        for (id, fs) in &mut map.file_systems {
            if before.file_systems.get(id) != Some(fs) {
                (fs.map.epoch, fs.map.modified) = (epoch, self.now);
                fs.map.inc = fs.map.in_ranks.iter().map(|rank| (*rank, epoch.0 as i32)).collect();
            }
        }
        let is_changed =
            |(gid, info): &(&u64, &maps::MdsInfo)| before.standbys.get(gid) != Some(info);
        let changed = map.standbys.iter().filter(is_changed).map(|(gid, _)| (*gid, epoch));
        map.standby_epochs.extend(changed);
        map.check_invariants();
        for gid in state.fs.metadata.keys().filter(|gid| map.server(**gid).is_none()) {
            self.delete(keys::mds_metadata(*gid));
        }
        self.put(keys::FSMAP, codec::encode_to_bytes(&map));
    }

    fn write_osdmap(
        &mut self,
        state: &State,
        mut incremental: Incremental,
    ) -> Result<(), ApplyError> {
        let moves_up = |bits: &OsdState| bits.is_empty() || bits.contains(OsdState::UP);
        if !incremental.new_up_client.is_empty() || incremental.new_state.values().any(moves_up) {
            incremental.new_last_up_change = Some(self.now);
        }
        // New entries expire by the leader's clock, so the map must show it.
        if !(incremental.new_blocklist.is_empty() && incremental.new_range_blocklist.is_empty()) {
            self.stamp_clock(state);
        }
        if !incremental.new_weight.is_empty() {
            incremental.new_last_in_change = Some(self.now);
        }
        let mut next = incremental.seal(&state.osdmap)?;
        if incremental.clean(&next) {
            next = incremental.seal(&state.osdmap)?;
        }
        let epoch = next.epoch;
        assert_eq!(epoch, state.osdmap.epoch.next(), "epochs follow each other");
        self.put(keys::osdmap_incremental(epoch), codec::encode_to_bytes(&incremental));
        self.put(keys::osdmap_full(epoch), codec::encode_to_bytes(&next));
        let oldest = Epoch((epoch.0 + 1).saturating_sub(FULL_MAPS_KEPT as u32));
        for old in state.history.full.range(..oldest).map(|(epoch, _)| *epoch) {
            self.delete(keys::osdmap_full(old));
        }
        Ok(())
    }
}

/// Whether a key is read when the state is loaded. Others would be written for nothing.
fn is_known(key: &str) -> bool {
    key == keys::CLOCK || VersionGroup::of_key(key).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "fsmaps is of no part of the state")]
    fn a_key_that_no_part_reads_is_not_written() {
        let mut change = Change::new(UTime::default());
        change.put(keys::config_key("a"), "1");
        change.put("fsmaps", "1");
    }
}
