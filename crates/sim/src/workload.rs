//! Load of clients: random requests to few objects, so that they conflict.

use crate::history::ObjectId;
use crate::model::{Action, ActorId, Object, State};
use crate::names::{BESIDE, BESIDE_ID, POOL, POOL_ID};
use bytes::Bytes;
use std::sync::Arc;
use stdx::Prng;
use types::PoolId;
use wire::SnapContext;

const FILLER_MAX: u64 = 40;
/// Bound for values in bytes: larger ones do not fit the smallest logs.
const VALUE_LONG_MAX: u64 = 9_000;
const KEYS: u64 = 5;
const KEYS_IN_PIECES: u64 = 24;
/// One in so many requests concerns watches.
const WATCH_ONE_IN: u64 = 12;
/// One in so many requests copies another object, in seeds with copies.
const COPY_ONE_IN: u64 = 8;
const SOURCE_LEN: u64 = 2_500;
const SOURCE_KEYS: u64 = 7;
/// One in so many clients only reads.
const READER_ONE_IN: ActorId = 4;

/// Sizes and places of writes.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    /// Upper bound of offsets and sizes in bytes.
    pub offset_max: u64,
    /// One in so many payloads is long enough for several blocks and frames.
    pub long_one_in: u64,
    /// Upper bound for the length of a long payload.
    pub long_max: u64,
    /// Number of omap keys in use.
    pub keys: u64,
}

impl Reach {
    /// Writes that overlap in one block.
    pub const NEAR: Reach = Reach { offset_max: 96, long_one_in: 60, long_max: 9_000, keys: KEYS };
    /// Writes that fill small devices soon.
    pub const WIDE: Reach =
        Reach { offset_max: 200_000, long_one_in: 2, long_max: 800_000, keys: KEYS };
    /// Objects of many blocks, with holes.
    pub const FAR: Reach =
        Reach { offset_max: 30_000, long_one_in: 50, long_max: 24_000, keys: KEYS };

    /// Writes that overlap in a few stripes of so many bytes: small ones, and now and then whole stripes.
    pub fn of_stripes(stripe: u64, keys: u64) -> Reach {
        Reach { offset_max: 3 * stripe, long_one_in: 4, long_max: 2 * stripe, keys }
    }

    /// Small and large writes all over an object of many stripes of so many bytes.
    pub fn of_many_stripes(stripe: u64, keys: u64) -> Reach {
        Reach { offset_max: 23 * stripe, long_one_in: 12, long_max: 9 * stripe, keys }
    }

    /// The same with lengths that make objects span more pieces.
    pub fn in_pieces(self) -> Reach {
        let Reach { offset_max, long_one_in, long_max, .. } = self;
        let (offset_max, long_one_in) = (offset_max.max(3_000), long_one_in.min(15));
        Reach { offset_max, long_one_in, long_max: long_max.min(5_000), keys: KEYS_IN_PIECES }
    }
}

impl Default for Reach {
    fn default() -> Self {
        Reach::NEAR
    }
}

/// An object that clients share.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name of the pool.
    pub pool: String,
    /// Name of the object.
    pub name: String,
    /// Only appended to and read.
    pub is_journal: bool,
    /// Written once, before anything else, and copied since.
    pub is_source: bool,
    /// Its pool keeps omaps.
    pub has_omap: bool,
    /// Its pool takes appends only, behind whole stripes of so many bytes.
    pub stripe: Option<u64>,
}

/// An object that is copied.
#[derive(Debug, Clone)]
struct Source {
    pool: PoolId,
    name: Bytes,
    content: Arc<State>,
}

impl Source {
    fn copy(&self) -> Action {
        let Source { pool, name, content } = self.clone();
        Action::CopyFrom { pool, source: name, content }
    }
}

/// A request that concerns watches of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchAction {
    /// Starts or ends a watch.
    Toggle(ObjectId),
    Notify(ObjectId),
}

/// Generator of requests.
pub struct Workload {
    prng: Prng,
    reach: Reach,
    /// All objects; those that do not change come last.
    pub targets: Vec<Target>,
    payloads_made: u64,
    /// The guard that a client saw last, per object.
    guards: Vec<Bytes>,
    /// Number of targets that change; the others follow them.
    changing: usize,
    sources: Vec<Source>,
}

impl Workload {
    /// A generator of requests to these objects.
    pub fn new(prng: Prng, reach: Reach, targets: Vec<Target>) -> Self {
        let guards = vec![Bytes::new(); targets.len()];
        let changing = targets.iter().filter(|target| !target.is_source).count();
        let sources = Vec::new();
        Workload { prng, reach, targets, payloads_made: 0, guards, changing, sources }
    }

    /// Requests that create the objects that do not change afterwards.
    pub fn preparation(&mut self) -> Vec<(ObjectId, Action)> {
        let mut all = Vec::new();
        for object in self.changing..self.targets.len() {
            let data = self.unique_of_length(0, SOURCE_LEN);
            let mut content = Object::default();
            let has_omap = self.targets[object].has_omap;
            let steps = if has_omap { self.reach.keys.min(SOURCE_KEYS) } else { 1 };
            for number in 0..steps {
                let (guard, key): (Bytes, Bytes) =
                    ("source".into(), format!("key.{number}").into());
                let action = match number {
                    0 if !has_omap => Action::WriteFull { data: data.clone() },
                    0 => Action::Mix { guard, key, data: data.clone() },
                    _ => Action::OmapSet { key, value: guard },
                };
                content.apply(0, &action, &SnapContext::default()).expect("these writes succeed");
                all.push((object, action));
            }
            let target = &self.targets[object];
            let pool = match &target.pool[..] {
                POOL => POOL_ID,
                BESIDE => BESIDE_ID,
                _ => continue,
            };
            let name = Bytes::copy_from_slice(target.name.as_bytes());
            self.sources.push(Source { pool, name, content: Arc::new(content.state) });
        }
        all
    }

    /// The next request of a client.
    pub fn next(&mut self, actor: ActorId) -> (ObjectId, Action) {
        let object = self.prng.below(self.changing as u64) as usize;
        // A client that only reads never waits for a write that cannot be replicated, and so observes the
        // responses of an OSD that others have already replaced.
        if actor.is_multiple_of(READER_ONE_IN) {
            let action = if self.prng.chance(1, 2) { Action::Read } else { Action::Look };
            return (object, action);
        }
        let Target { is_journal, stripe, has_omap, .. } = self.targets[object];
        let action = match (is_journal, stripe) {
            (true, _) => self.journal_action(actor),
            (false, Some(stripe)) => self.action_on_stripes(actor, object, stripe),
            (false, None) if !has_omap => self.action_on_shards(actor, object),
            (false, None) => self.any_action(actor, object),
        };
        (object, action)
    }

    /// The objects that change.
    pub fn changing(&self) -> std::ops::Range<ObjectId> {
        0..self.changing
    }

    /// A write that the object accepts.
    pub fn append(&mut self, object: ObjectId) -> Action {
        let data = self.payload(0);
        match self.targets[object].stripe {
            None => Action::Append { data },
            Some(_) => Action::WriteFull { data },
        }
    }

    /// Draws a request that concerns watches, now and then.
    pub fn next_watch(&mut self) -> Option<WatchAction> {
        if !self.prng.chance(1, WATCH_ONE_IN) {
            return None;
        }
        let object = self.prng.below(self.changing as u64) as usize;
        Some(match self.prng.chance(1, 3) {
            true => WatchAction::Toggle(object),
            false => WatchAction::Notify(object),
        })
    }

    /// A client has read the guard of an object.
    pub fn saw_guard(&mut self, object: ObjectId, guard: &Bytes) {
        self.guards[object] = guard.clone();
    }

    /// Think time in microseconds with mean `average`; the distribution has a long tail.
    pub fn think_us(&mut self, average: u64) -> u64 {
        let spread = self.prng.below(2 * average + 1);
        if self.prng.chance(1, 40) { spread * 10 } else { spread }
    }

    fn journal_action(&mut self, actor: ActorId) -> Action {
        match self.prng.below(10) {
            0..7 => Action::Append { data: self.payload(actor) },
            7 => Action::Look,
            _ => Action::Read,
        }
    }

    fn any_action(&mut self, actor: ActorId, object: ObjectId) -> Action {
        if !self.sources.is_empty() && self.prng.chance(1, COPY_ONE_IN) {
            return self.prng.choose(&self.sources).copy();
        }
        match self.prng.below(30) {
            0..5 => Action::Append { data: self.payload(actor) },
            5..8 => {
                let offset = self.prng.below(self.reach.offset_max);
                Action::Write { offset, data: self.payload(actor) }
            }
            8..11 => Action::WriteFull { data: self.payload(actor) },
            11 => Action::Truncate { size: self.prng.below(self.reach.offset_max) },
            12 => Action::Create,
            13 => Action::Remove,
            14..17 => Action::Swap {
                expected: self.guards[object].clone(),
                new: self.value(actor),
                data: self.payload(actor),
            },
            17..19 => {
                Action::Mix { guard: self.value(actor), key: self.key(), data: self.payload(actor) }
            }
            19..21 => Action::OmapSet { key: self.key(), value: self.value(actor) },
            21 => Action::OmapRemove { key: self.key() },
            22 => Action::Lock,
            23 => Action::Unlock,
            24..26 => Action::Read,
            _ => Action::Look,
        }
    }

    /// A request to an object without an omap, whose stripes are parity-coded: mostly overwrites.
    fn action_on_shards(&mut self, actor: ActorId, object: ObjectId) -> Action {
        if let Some(action) = self.copy_without_omap() {
            return action;
        }
        match self.prng.below(40) {
            0..5 => Action::Append { data: self.payload(actor) },
            5..19 => {
                let offset = self.prng.below(self.reach.offset_max);
                Action::Write { offset, data: self.payload(actor) }
            }
            19..22 => Action::WriteFull { data: self.payload(actor) },
            22..24 => Action::Truncate { size: self.prng.below(self.reach.offset_max) },
            24..26 => {
                let (offset, length) = self.range();
                Action::Zero { offset, length }
            }
            26 => Action::Create,
            27 => Action::Remove,
            28..30 => Action::Swap {
                expected: self.guards[object].clone(),
                new: self.value(actor),
                data: self.payload(actor),
            },
            30 => Action::Lock,
            31 => Action::Unlock,
            32..34 => Action::Read,
            34..37 => {
                let (offset, length) = self.range();
                Action::ReadPart { offset, length }
            }
            _ => Action::Look,
        }
    }

    /// A copy, now and then, of an object that any pool takes.
    fn copy_without_omap(&mut self) -> Option<Action> {
        let is_drawn = !self.sources.is_empty() && self.prng.chance(1, COPY_ONE_IN);
        let has_none = |source: &&Source| source.content.omap.is_empty();
        let sources: Vec<&Source> =
            self.sources.iter().filter(|_| is_drawn).filter(has_none).collect();
        (!sources.is_empty()).then(|| self.prng.choose(&sources).copy())
    }

    /// A request to an object that is replaced or appended to.
    fn action_on_stripes(&mut self, actor: ActorId, object: ObjectId, stripe: u64) -> Action {
        if let Some(action) = self.copy_without_omap() {
            return action;
        }
        match self.prng.below(20) {
            0..6 => {
                let data = self.stripes(actor, stripe);
                Action::AppendStripes { data, stripe }
            }
            6 => Action::AppendStripes { data: self.payload(actor), stripe },
            7..9 => Action::WriteFull { data: self.payload(actor) },
            9..11 => Action::WriteFull { data: self.stripes(actor, stripe) },
            11 => Action::Create,
            12 => Action::Remove,
            13 => Action::Swap {
                expected: self.guards[object].clone(),
                new: self.value(actor),
                data: self.stripes(actor, stripe),
            },
            14..16 => {
                let (offset, length) = self.range();
                Action::ReadPart { offset, length }
            }
            16..18 => Action::Read,
            _ => Action::Look,
        }
    }

    /// Unique data of one or two stripes.
    fn stripes(&mut self, actor: ActorId, stripe: u64) -> Bytes {
        let length = stripe * (1 + self.prng.below(2));
        let longer = self.unique_of_length(actor, length);
        assert!(longer.ends_with(b">") && longer.len() as u64 > length);
        let mut data = longer[..length as usize].to_vec();
        *data.last_mut().expect("a stripe has bytes") = b'>';
        data.into()
    }

    fn range(&mut self) -> (u64, u64) {
        let max = self.reach.offset_max;
        (self.prng.below(max), 1 + self.prng.below(max))
    }

    fn key(&mut self) -> Bytes {
        format!("key.{}", self.prng.below(self.reach.keys)).into()
    }

    /// Unique data.
    fn payload(&mut self, actor: ActorId) -> Bytes {
        self.unique(actor, self.reach.long_max)
    }

    /// Unique data of a length for attributes and omap pairs.
    fn value(&mut self, actor: ActorId) -> Bytes {
        self.unique(actor, self.reach.long_max.min(VALUE_LONG_MAX))
    }

    fn unique(&mut self, actor: ActorId, long_max: u64) -> Bytes {
        let long = self.prng.chance(1, self.reach.long_one_in);
        let length = self.prng.below(if long { long_max } else { FILLER_MAX });
        self.unique_of_length(actor, length)
    }

    fn unique_of_length(&mut self, actor: ActorId, length: u64) -> Bytes {
        self.payloads_made += 1;
        let filler = char::from(b'a' + (actor % 26) as u8).to_string().repeat(length as usize);
        format!("<{actor}.{}:{filler}>", self.payloads_made).into()
    }
}
