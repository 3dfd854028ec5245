//! One OSD of the test world: its copy of the group, its store, and the faults of that.

use super::*;

pub struct Node {
    pub pg: Pg,
    pub store: MemStore,
    /// The largest transaction that the store was given, in bytes added.
    pub largest: u64,
    /// Whether the store has space for each of its next commits; later ones succeed.
    pub(super) fates: VecDeque<bool>,
    pub(super) status: OsdStatus,
    /// Set after a restart until the next map: it takes part in nothing.
    pub(super) is_starting: bool,
    pub(super) may_fill: bool,
    /// Set while the OSD's only backfill reservation is taken.
    pub has_place: bool,
    pub(super) granted_until: Time,
    pub(super) waits_until: Option<Time>,
    pub(super) damaged: BTreeSet<HObject>,
    pub(super) meta_damaged: BTreeSet<HObject>,
    /// The kind of read that fails next.
    pub(super) failing: Option<String>,
    pub(super) is_full: bool,
    /// Its store refuses to settle more entries at once.
    pub settled_max: usize,
    /// The epoch of the newest map that it was passed.
    pub(super) seen: u32,
    /// The epoch of the map that its OSD has stored: after a restart it is passed those behind.
    pub(super) stored: u32,
    pub completions: VecDeque<(Tag, Result<store::Outcome, store::StoreError>)>,
    /// Requests to the store that are not executed; see [`World::is_lazy`].
    pub(super) requests: VecDeque<(Tag, RequestKind)>,
    /// The copy of the other group after a split.
    pub part: Option<Pg>,
    pub is_merging: bool,
    pub versions: Option<MergedVersions>,
}

impl Node {
    pub(super) fn new(id: i32, shard: ShardId) -> Self {
        let status =
            OsdStatus { exists: true, is_up: true, up_from: Epoch(1), ..OsdStatus::default() };
        Node {
            pg: Pg::new(PgShard { pg: PG, shard }, OsdId(id)),
            store: MemStore::new(),
            largest: 0,
            fates: VecDeque::new(),
            status,
            is_starting: false,
            may_fill: true,
            has_place: false,
            granted_until: Time::ZERO,
            waits_until: None,
            damaged: BTreeSet::new(),
            meta_damaged: BTreeSet::new(),
            failing: None,
            is_full: false,
            settled_max: usize::MAX,
            seen: 1,
            stored: 1,
            completions: VecDeque::new(),
            requests: VecDeque::new(),
            part: None,
            is_merging: false,
            versions: None,
        }
    }

    pub fn ask_store(&mut self, kind: RequestKind) -> Result<store::Outcome, store::StoreError> {
        let is_commit = kind.is_commit();
        let name = match &kind {
            RequestKind::List { .. } => "list",
            RequestKind::Meta { .. } => "meta",
            RequestKind::Read { .. } => "read",
            RequestKind::OmapHeader { .. } | RequestKind::OmapList { .. } => "omap",
            _ => "",
        };
        if self.failing.take_if(|failing| failing == name).is_some() {
            return Err(store::StoreError::Device(std::io::Error::other("one read fails").into()));
        }
        if let RequestKind::Meta { object, .. } = &kind
            && self.meta_damaged.contains(object)
        {
            let object = object.clone();
            return Err(store::StoreError::Corrupt { object, offset: 0, length: 0 });
        }
        if let RequestKind::Read { object, offset, length, .. } = &kind
            && self.damaged.contains(object)
        {
            let (object, offset, length) = (object.clone(), *offset, *length);
            return Err(store::StoreError::Corrupt { object, offset, length });
        }
        if let RequestKind::Commit(transaction) | RequestKind::Append(transaction) = &kind {
            self.largest = self.largest.max(transaction.bytes_added());
            for (_, change) in &transaction.changes {
                if let Change::Remove { object } = change {
                    self.damaged.remove(object);
                    self.meta_damaged.remove(object);
                }
            }
        }
        let adds = match &kind {
            RequestKind::Commit(given) | RequestKind::Append(given) => {
                given.purpose() == store::Purpose::Addition
            }
            _ => false,
        };
        let is_refused = is_commit
            && (self.fates.pop_front() == Some(false) || self.is_full && adds)
            || self.settles_too_much(&kind);
        if let (RequestKind::Append(refused), true) = (&kind, is_refused) {
            self.store.close_behind(refused);
        }
        match is_refused {
            true => Err(store::StoreError::NoSpace { needed: 1, available: 0 }),
            false => self.store.execute(kind),
        }
    }

    /// Whether a request settles more than the store takes at once.
    pub(super) fn settles_too_much(&mut self, kind: &RequestKind) -> bool {
        let (RequestKind::Commit(given) | RequestKind::Append(given)) = kind else { return false };
        let settled = given.changes.iter().find_map(|(collection, change)| match change {
            Change::Settle { through } => Some((*collection, *through)),
            _ => None,
        });
        let Some((collection, through)) = settled.filter(|_| self.settled_max < usize::MAX) else {
            return false;
        };
        let held = RequestKind::Held { collection, after: None, entries_max: 2000 };
        match self.store.execute(held) {
            Ok(store::Outcome::Held(held, _)) => {
                held.iter().filter(|held| held.version <= through).count() > self.settled_max
            }
            other => panic!("{other:?}"),
        }
    }

    /// Passes it all maps that it missed; only the newest shows its present incarnation as up.
    pub(super) fn catch_up(&mut self, maps: &BTreeMap<u32, (MapChange, Members)>) {
        let newest = maps.last_key_value().map(|(epoch, _)| *epoch);
        for (epoch, (change, members)) in maps.range(self.seen + 1..) {
            let is_up = Some(*epoch) == newest;
            self.pg.handle_map(&MapChange { is_up, ..change.clone() }, members.clone());
            self.pg.store_interval();
            self.seen = *epoch;
            self.begin_part(change, members);
        }
    }

    /// As an OSD does, stores its map behind the interval of its copy.
    pub(super) fn store_map(&mut self) {
        if self.pg.has_stored_interval() {
            self.stored = self.seen;
        }
    }

    /// Whether outcomes of `commits` are left over.
    pub fn has_fates(&self) -> bool {
        !self.fates.is_empty()
    }

    /// The data of an object, if it is stored.
    pub fn value(&self, object: &HObject) -> Option<Bytes> {
        let stored = self.store.object(self.pg.collection(), object)?;
        Some(stored.data.read(0, stored.data.size()).data)
    }

    /// Whether the read that `fail` names did not come yet.
    pub fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// The version of an object in the store; zero if there is none.
    pub fn version(&self, object: &HObject) -> EVersion {
        let stored = self.store.object(self.pg.collection(), object);
        let info = stored.and_then(|object| object.attrs.get(&INFO_ATTR));
        let info = info.map(|info| codec::decode_all::<ObjectInfo>("info", info).unwrap());
        info.map_or(EVersion::ZERO, |info| info.version)
    }
}
