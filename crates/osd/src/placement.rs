//! What a new map means for the groups on this OSD.

use crate::Osd;
use crate::groups::Group;
use crate::osd::{Early, Stage};
use engine::{ConnId, Time};
use maps::OsdMap;
use pg::{Members, Others};
use std::collections::BTreeMap;
use types::{Epoch, OsdId, PgId, PoolId, UTime};
use wire::{MessageBody, OsdMapMessage};

impl Osd {
    pub(crate) fn map_changed(&mut self, now: Time) {
        self.check_own_state(now);
        self.remove_groups_of_deleted_pools(now);
        self.place_groups(now);
        self.peers_changed();
        self.resend_copies(now);
        self.take_early(now);
    }

    fn remove_groups_of_deleted_pools(&mut self, now: Time) {
        let map = &self.map;
        let deleted = |pg: &&PgId| map.pool(pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num);
        let deleted: Vec<PgId> = self.groups.keys().filter(deleted).copied().collect();
        for pg in deleted {
            self.drop_requests(now, pg);
            let group = self.groups.get_mut(&pg).expect("its key was just read");
            group.pg.remove();
            self.pump_group(now, pg);
        }
    }

    fn place_groups(&mut self, now: Time) {
        match self.stage {
            Stage::Loading => return,
            Stage::Booting => return self.idle_groups(now),
            Stage::Up => {}
        }
        let map = std::mem::take(&mut self.map);
        self.candidates.update(&map, self.config.id);
        let mut others: BTreeMap<PoolId, Others> = BTreeMap::new();
        for pg in self.candidates.with(self.groups.keys().copied()) {
            // Only whole copies can be held yet.
            let pool = map.pool(pg.pool).filter(|pool| pool.is_replicated());
            let Some(pool) = pool.filter(|pool| pg.seed < pool.pg_num) else { continue };
            let mapping = self.candidates.mapping(&map, pg);
            let is_member = mapping.acting.contains(&self.config.id);
            if !is_member && !self.groups.contains_key(&pg) {
                continue;
            }
            let up_from = |osd: &OsdId| map.osd(*osd).map_or(Epoch(0), |osd| osd.info.up_from);
            let members = Members {
                up_from: mapping.acting.iter().map(up_from).collect(),
                up: mapping.up,
                acting: mapping.acting,
                primary: mapping.acting_primary,
                size: pool.size.into(),
                min_size: pool.min_size.into(),
            };
            let others = others.entry(pg.pool);
            let others = others.or_insert_with(|| surroundings(&map, pool.create_time));
            self.place_group(map.epoch, pg, members, others.clone());
        }
        self.map = map;
        self.pump_groups(now);
    }

    /// An OSD that the map does not show up at its present address takes part in nothing.
    fn idle_groups(&mut self, now: Time) {
        let epoch = self.map.epoch;
        let placed = self.groups.values_mut().filter(|group| group.pg.interval() > Epoch(0));
        for group in placed {
            group.pg.handle_map(epoch, Members::default(), Others::default());
        }
        self.pump_groups(now);
    }

    fn pump_groups(&mut self, now: Time) {
        let pgs: Vec<PgId> = self.groups.keys().copied().collect();
        pgs.into_iter().for_each(|pg| self.pump_group(now, pg));
    }

    fn place_group(&mut self, epoch: Epoch, pg: PgId, members: Members, others: Others) {
        let whoami = self.config.id;
        let serial = &mut self.group_serial;
        let group = self.groups.entry(pg).or_insert_with(|| {
            *serial += 1;
            Group::new(pg::Pg::new(pg, whoami), *serial)
        });
        group.pg.set_room(!self.reporting.is_disk_full());
        let was_primary = group.pg.is_primary();
        group.pg.handle_map(epoch, members, others);
        if group.pg.is_primary() && !was_primary {
            // A primary that was just started may have been it for others since it is up.
            let up_from = group.pg.members().acting.iter().position(|osd| *osd == whoami);
            let up_from = up_from.map(|index| group.pg.members().up_from[index]);
            let first = group.primary_since.is_none();
            group.primary_since = if first { up_from } else { Some(epoch) };
        }
    }

    /// What waited for this map.
    fn take_early(&mut self, now: Time) {
        let epoch = self.epoch();
        let (ready, early) =
            std::mem::take(&mut self.early).into_iter().partition(|(needed, _)| *needed <= epoch);
        self.early = early;
        let ready: Vec<(Epoch, Early)> = ready;
        for (_, early) in ready {
            match early {
                Early::Request(key) => self.admit(now, key),
                Early::Group { from, message } => self.deliver_group_message(now, from, message),
            }
        }
    }

    /// Gives a client that is behind the maps that it lacks; clients rely on it.
    pub(crate) fn share_map(&mut self, conn: ConnId, known: Epoch) {
        let newest = self.epoch();
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        session.map_epoch = session.map_epoch.max(known);
        if session.map_epoch >= newest || session.is_osd() {
            return;
        }
        let features = session.peer.features;
        let increments = self.history.range(session.map_epoch, newest, features);
        session.map_epoch = newest;
        let mut message = OsdMapMessage {
            fsid: self.map.fsid,
            oldest: newest,
            newest,
            ..OsdMapMessage::default()
        };
        match increments {
            Some(increments) => message.incrementals = increments,
            None => {
                message.full.insert(newest, self.map.to_bytes(features));
            }
        }
        if let Some(first) = message.incrementals.keys().next() {
            message.oldest = *first;
        }
        self.send(conn, message.encode(features));
    }
}

/// Which OSDs besides its members may hold a group of a pool that exists since `created`.
fn surroundings(map: &OsdMap, created: UTime) -> Others {
    let lost = |osd: &maps::Osd| osd.info.lost_at >= osd.info.down_at && osd.info.lost_at.0 > 0;
    let absent = |osd: &maps::Osd| !osd.is_up() && !lost(osd) && osd.xinfo.down_stamp >= created;
    let down = map.existing_osds().filter(|(_, osd)| absent(osd));
    let up = map.existing_osds().filter(|(_, osd)| osd.is_up());
    Others {
        up: up.map(|(id, osd)| (id, osd.info.up_from)).collect(),
        down: down.map(|(id, osd)| (id, osd.info.down_at)).collect(),
    }
}
