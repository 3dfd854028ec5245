//! Stored copies of shards, as texts.
//!
//! ```text
//! started 10  settled 10'5  tail 10'3  |  x:10'5<10'4 -y:10'6<10'2  |  x=10'5/9'1
//! ```
//!
//! First fields of the info; then the log, `-` before the object for a removal; then missing objects, with
//! the versions that are needed and here. `x@1` is a clone of x; its change is of the same write as the next
//! entry. Changes above the settled version are held, except for `~x:10'6`,
//! which the copy has followed. The content of an object is its version. Of several items of an object, all
//! but the last are superseded.

use crate::core::persist::StoredIntervals;
use crate::core::steps::log_pair;
use crate::tests::world::{PG, World, object};
use crate::{
    EntryKind, ErasureCode, ErasureLayout, INFO_ATTR, Interval, Item, Layout, LogEntry, Members,
    Missing, ObjectInfo, PastIntervals, PgHistory, PgInfo, PgLog, ShardState, info, meta_object,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Change, HELD_UNIT, RequestKind, Transaction};
use types::{EVersion, Epoch, HObject, OsdId, RequestId, SnapId};

/// A group of OSDs that keep one shard each; behind the shards, OSDs that can have the first ones.
pub fn world(data: u8, parity: u8, spare: usize) -> World {
    let code = ErasureCode::IsaVandermonde;
    let layout = ErasureLayout { data, parity, unit: 4096, code };
    let positions: Vec<usize> = (0..layout.shards()).chain(0..spare).collect();
    let mut world = World::of_shards(layout, &positions);
    world.run_script("hold");
    world
}

pub fn version(text: &str) -> EVersion {
    let (epoch, number) = text.split_once('\'').expect(text);
    EVersion::new(epoch.parse().unwrap(), number.parse().unwrap())
}

/// A copy before it is stored.
struct Copy {
    info: PgInfo,
    log: Vec<LogEntry>,
    followed: Vec<EVersion>,
    missing: Missing,
}

fn entry(word: &str) -> LogEntry {
    let (name, versions) = word.split_once(':').expect(word);
    let (at, prior) = versions.split_once('<').unwrap_or((versions, "0'0"));
    let kind = if name.starts_with('-') { EntryKind::Delete } else { EntryKind::Modify };
    let object = named(name.trim_start_matches('-'));
    let request = match object.snap {
        SnapId::HEAD => crate::tests::world::request(version(at).version),
        _ => RequestId::default(),
    };
    let (version, prior_version) = (version(at), version(prior));
    LogEntry { version, prior_version, kind, object, request, ..LogEntry::default() }
}

/// The object of this name, or its clone.
fn named(name: &str) -> HObject {
    match name.split_once('@') {
        Some((head, snap)) => object(head).at(SnapId(snap.parse().unwrap())),
        None => object(name),
    }
}

impl Copy {
    fn parse(world: &World, osd: usize, text: &str) -> Self {
        let mut parts = text.split('|').map(str::split_whitespace);
        let shard = world.nodes[osd].pg.whoami().shard;
        let mut state = ShardState::of_new_copy(shard);
        let mut info = PgInfo::default();
        let mut fields = parts.next().unwrap();
        while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
            match field {
                "started" => info.last_epoch_started = Epoch(value.parse().unwrap()),
                "knew" => info.history.last_epoch_started = Epoch(value.parse().unwrap()),
                "settled" => state.settled = version(value),
                "tail" => info.log_tail = version(value),
                "absent" => state.absent_since = Epoch(value.parse().unwrap()),
                "through" => info.last_backfill = object(value),
                other => panic!("no such field: {other}"),
            }
        }
        let words: Vec<&str> = parts.next().into_iter().flatten().collect();
        let log: Vec<LogEntry> =
            words.iter().map(|word| entry(word.trim_start_matches('~'))).collect();
        let followed = words.iter().filter_map(|word| word.strip_prefix('~'));
        let followed = followed.map(|word| entry(word).version).collect();
        let mut missing = Missing::default();
        for word in parts.next().into_iter().flatten() {
            let (name, versions) = word.split_once('=').unwrap();
            let (need, have) = versions.split_once('/').unwrap();
            missing.add_stored(named(name), Item { need: version(need), have: version(have) });
        }
        info.last_update = log.last().map_or(info.log_tail, |entry| entry.version);
        info.history = PgHistory { epoch_created: Epoch(2), ..info.history };
        info.shard = Some(state);
        let of_log = PgLog::new(info.log_tail, log.iter().cloned());
        info.last_complete = crate::core::persist::last_complete(&info, &of_log, &missing);
        Copy { info, log, followed, missing }
    }

    fn settled(&self) -> EVersion {
        self.info.settled()
    }

    fn meta(&self, intervals: StoredIntervals) -> BTreeMap<Bytes, Bytes> {
        let mut pairs: BTreeMap<Bytes, Bytes> = self.log.iter().map(log_pair).collect();
        pairs.insert(info::INFO_KEY, codec::encode_to_bytes(&self.info));
        pairs.insert(info::INTERVALS_KEY, codec::encode_to_bytes(&intervals));
        pairs.extend(self.missing.iter().filter_map(|(object, _)| self.missing.pair(object)));
        pairs
    }
}

/// The changes of one write: the whole object.
fn changes(entry: &LogEntry) -> Vec<Change> {
    let object = || entry.object.clone();
    if entry.kind == EntryKind::Delete {
        return vec![Change::Remove { object: object() }];
    }
    let mut data = entry.version.to_string().into_bytes();
    data.resize(HELD_UNIT as usize, b' ');
    let info = ObjectInfo { version: entry.version, ..ObjectInfo::default() };
    let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
    vec![
        Change::Touch { object: object() },
        Change::Write { object: object(), offset: 0, data: data.into() },
        Change::SetAttrs { object: object(), attrs },
    ]
}

/// Intervals by their first epochs, each until the next one; the last is the present one. All that had enough
/// members were written. `gap` stands for a time without maps.
fn intervals(layout: Layout, min_size: usize, text: &[(u32, &str)]) -> StoredIntervals {
    let osds = |text: &str| -> Vec<OsdId> {
        text.split_whitespace().map(|word| word.parse().map_or(OsdId::NONE, OsdId)).collect()
    };
    let members = |acting: &str| {
        let acting = osds(acting);
        let primary = acting.iter().copied().find(|osd| *osd != OsdId::NONE);
        let size = acting.len();
        let up_from = vec![Epoch(1); size];
        let hash_bits = crate::tests::world::HASH_BITS;
        Members { up: acting.clone(), acting, primary, up_from, layout, size, min_size, hash_bits }
    };
    let mut past = PastIntervals::default();
    for pair in text.windows(2) {
        let (first, last) = (Epoch(pair[0].0), Epoch(pair[1].0 - 1));
        if pair[0].1 == "gap" {
            past.push(Interval::gap(first, last));
            continue;
        }
        let of = members(pair[0].1);
        let may_serve = of.acting_members().count() >= min_size;
        past.push(Interval::of(&of, first, last, None, may_serve));
    }
    let (first, acting) = text.last().expect("there is a present interval");
    StoredIntervals { past, first: Epoch(*first), members: members(acting) }
}

/// Stores a copy, and has its OSD load it.
pub fn store(world: &mut World, osd: usize, of: &[(u32, &str)], text: &str) {
    let copy = Copy::parse(world, osd, text);
    let intervals = intervals(world.layout, world.min_size, of);
    let collection = world.nodes[osd].pg.collection();
    let mut transaction = Transaction::new();
    transaction.push(collection, Change::CreateCollection);
    let meta = Change::OmapSet { object: meta_object(PG), pairs: copy.meta(intervals) };
    transaction.push(collection, meta);
    let mut of_write = Vec::new();
    for entry in &copy.log {
        // An object that is missing has an older content, which the log need not have.
        let is_older = copy.missing.need(&entry.object) == Some(entry.version);
        if copy.followed.contains(&entry.version) || is_older {
            continue;
        }
        of_write.extend(changes(entry));
        if entry.object.snap != SnapId::HEAD {
            continue;
        }
        let changes = std::mem::take(&mut of_write);
        match entry.version > copy.settled() {
            true => {
                transaction.push(collection, Change::Hold { version: entry.version, changes });
            }
            false => changes.into_iter().for_each(|change| transaction.push(collection, change)),
        }
    }
    world.nodes[osd].ask_store(RequestKind::Commit(transaction)).unwrap();
    world.restart(OsdId(osd as i32), false);
}

/// The same copy on several OSDs.
pub fn store_all(world: &mut World, osds: &[usize], of: &[(u32, &str)], text: &str) {
    osds.iter().for_each(|osd| store(world, *osd, of, text));
}

/// Versions that a store holds.
pub fn held(world: &World, osd: usize) -> Vec<String> {
    let node = &world.nodes[osd];
    let held = node.store.held().of(node.pg.collection());
    held.map(|(name, _)| name.version.to_string()).collect()
}

/// The log's head, the held versions, and the missing objects of a copy, as `10'5 held 10'6 missing
/// x=10'5/9'1`.
pub fn told(world: &World, osd: usize) -> String {
    let pg = &world.nodes[osd].pg;
    let mut told = pg.log().head().to_string();
    let held = held(world, osd);
    if !held.is_empty() {
        told += &format!(" held {}", held.join(" "));
    }
    let name = |object: &HObject| String::from_utf8_lossy(&object.name).into_owned();
    let missing = pg.missing().iter();
    let missing: Vec<String> = missing
        .map(|(object, item)| format!("{}={}/{}", name(object), item.need, item.have))
        .collect();
    if !missing.is_empty() {
        told += &format!(" missing {}", missing.join(" "));
    }
    told
}
