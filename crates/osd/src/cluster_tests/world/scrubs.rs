//! Scrub orders, and the stamps that copies keep.

use super::World;
use crate::hosted::scrubbing;
use pg::scrub::STAMPS_KEY;
use std::collections::BTreeMap;
use store::Collection;
use types::{OsdId, PgShard};
use wire::internal::ScrubOrder;

impl World {
    /// Sets one option in the configuration database; all others are unset.
    pub fn set_option(&mut self, name: &str, value: &str) {
        let options = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        for machine in &mut self.machines {
            if let Some(osd) = &mut machine.osd {
                osd.shared().env.handle_config(&wire::Config { options: options.clone() });
            }
        }
    }

    /// Orders a scrub of all groups.
    pub fn order_scrub(&mut self, level: pg::scrub::Level, repair: bool) {
        let (now, deep) = (self.now, level == pg::scrub::Level::Deep);
        let order = ScrubOrder { fsid: self.monitor.map.fsid, pgs: Vec::new(), deep, repair };
        for machine in &mut self.machines {
            if let Some(osd) = &mut machine.osd {
                let (hosted, shared) = osd.parts();
                shared.env.now = now;
                scrubbing::handle_order(hosted, shared, &order);
            }
        }
        self.drain();
    }

    /// Begins a scrub of a group as the schedule does, without an order.
    pub fn begin_scrub(&mut self, name: &str, level: pg::scrub::Level) {
        let ((pg, _), primary) = (self.object(name), self.primary_of(name));
        let osd = self.machine(primary).osd.as_mut().expect("it runs");
        let (hosted, shared) = osd.parts();
        scrubbing::begin(hosted, shared, PgShard::replicated(pg), level, None);
        self.drain();
    }

    /// Scrub stamps of the primary of an object's group.
    pub fn stamps_of(&self, name: &str) -> pg::scrub::Stamps {
        let ((pg, _), primary) = (self.object(name), self.primary_of(name));
        let osd = self.machines[primary.0 as usize].osd.as_ref().expect("it runs");
        osd.hosted()
            .groups()
            .serving(pg, true)
            .expect("it has the group")
            .scrub
            .stamps()
            .unwrap_or_default()
    }

    /// The durable scrub stamps on the disk of an OSD.
    pub fn stored_stamps(&self, name: &str, osd: OsdId) -> pg::scrub::Stamps {
        let (pg, _) = self.object(name);
        let store = self.machines[osd.0 as usize].store.durable();
        let mut objects = store.objects(Collection::replicated(pg));
        let meta = objects.find(|(object, _)| **object == pg::meta_object(pg));
        let stored = meta.and_then(|(_, meta)| meta.omap.get(&STAMPS_KEY));
        stored.map(|stored| codec::decode_all("stamps", stored).unwrap()).unwrap_or_default()
    }

    /// Replaces the scrub stamps on the disk of an OSD.
    pub fn tamper_stamps(&mut self, name: &str, osd: OsdId, stamps: pg::scrub::Stamps) {
        let object = pg::meta_object(self.object(name).0);
        let pairs = BTreeMap::from([(STAMPS_KEY, codec::encode_to_bytes(&stamps))]);
        self.tamper(name, osd, |_| store::Change::OmapSet { object, pairs });
    }

    /// Scrub stamps of each copy.
    pub fn scrub_stamps(&self) -> Vec<pg::scrub::Stamps> {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        osds.flat_map(|osd| {
            osd.hosted().groups().iter().filter_map(|(_, group)| group.scrub.stamps())
        })
        .collect()
    }

    /// Scrub stamps of the primaries.
    pub fn primary_stamps(&self) -> Vec<pg::scrub::Stamps> {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        let groups = osds.flat_map(|osd| {
            osd.hosted()
                .groups()
                .iter()
                .map(|(_, group)| group)
                .filter(|group| group.pg.is_primary())
        });
        groups.map(|group| group.scrub.stamps().unwrap_or_default()).collect()
    }

    /// Number of copies of groups with an order that was not carried out.
    pub fn scrub_orders(&self) -> usize {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        let groups = osds.flat_map(|osd| osd.groups());
        groups.filter(|pg| pg.scrub_order().is_some()).count()
    }

    /// Errors that were found and not repaired, in all groups.
    pub fn scrub_errors(&self) -> u64 {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        let groups = osds.flat_map(|osd| {
            osd.hosted()
                .groups()
                .iter()
                .map(|(_, group)| group)
                .filter(|group| group.pg.is_primary())
        });
        groups.map(|group| group.scrub.stamps().map_or(0, |stamps| stamps.errors.total())).sum()
    }
}
