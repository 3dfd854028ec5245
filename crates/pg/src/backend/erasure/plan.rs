//! From the changes of a write to the changes of each shard.
//!
//! [`Plan::new`] finds the old rows that are needed, [`Plan::finish`] computes the shards' changes from them.
//! Pure functions; the caller reads.

use super::cell::zero_row;
use super::geometry::{Geometry, ROW};
use super::image::{Image, Row, Run};
use crate::ShardChange;
use bytes::{Bytes, BytesMut};
use erasure::{Code, Shards};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::DerefMut;
use stdx::AlignedBuffer;
use store::Change;
use types::{HObject, ShardId};

/// Ranges of changed rows in a [`ShardChange`]. Beyond it, the whole object counts as changed.
const RANGES_MAX: usize = 64;
/// The range of a shard that is replaced.
const WHOLE: (u64, u64) = ShardChange::WHOLE;

/// A row of one shard, before the write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowRead {
    /// The object whose content it is. A rollback makes a clone's content that of the head.
    pub object: HObject,
    /// The data shard.
    pub position: usize,
    /// The number of the row in the shard.
    pub row: u64,
}

/// A change of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShardOp {
    /// A change as the store knows it.
    Store(Change),
    /// Adds to rows of a parity shard, in the sense of the code's field.
    Xor {
        /// The object.
        object: HObject,
        /// The first changed row.
        row: u64,
        /// Whole rows.
        data: Bytes,
    },
}

/// The members that a plan may count on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// The primary's own shard.
    pub own: usize,
    /// Shards that can be read.
    pub readable: Shards,
    /// Shards that take part in the write.
    pub written: Shards,
}

/// The way to the new parity of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the new content of all data shards.
    Encode,
    /// From the difference of the changed ones.
    Delta,
}

/// One step of a write, in order.
#[derive(Debug)]
enum Step {
    /// The same change for each shard.
    Same(Change),
    /// The changes of an object's data.
    Data { object: HObject, base: HObject, image: Box<Image>, ways: BTreeMap<u64, Way> },
}

/// The changes of a write, and what is needed to compute them.
#[derive(Debug)]
pub(crate) struct Plan {
    geometry: Geometry,
    steps: Vec<Step>,
    needs: Vec<RowRead>,
    written: Shards,
    /// Data that changes, by object.
    changed: BTreeMap<HObject, ShardChange>,
}

/// The data of one object while the plan is made.
#[derive(Debug)]
struct Open {
    object: HObject,
    base: HObject,
    size: u64,
    image: Image,
}

impl Plan {
    /// Plans these changes of objects, whose sizes before are given by `size_of`: `None` if an object does
    /// not exist. A new object begins with a touch: a change of an absent one would have no effect.
    pub fn new(
        geometry: Geometry,
        reach: Reach,
        changes: Vec<Change>,
        size_of: impl Fn(&HObject) -> Option<u64>,
    ) -> Self {
        let (steps, needs, changed) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut plan = Plan { geometry, steps, needs, written: reach.written, changed };
        let mut open: Option<Open> = None;
        let mut existing = Existing::default();
        for change in changes {
            let Some(object) = change.object().cloned() else {
                plan.steps.push(Step::Same(change));
                continue;
            };
            if existing.begins(&change, &size_of) {
                plan.steps.push(Step::Same(Change::Touch { object: object.clone() }));
            }
            let size_of = |object: &HObject| size_of(object).unwrap_or(0);
            match change {
                Change::Write { offset, data, .. } => {
                    let data_of = plan.opened(&mut open, reach, &object, &size_of);
                    data_of.size = data_of.size.max(offset + data.len() as u64);
                    data_of.image.write(offset, &data);
                }
                Change::Zero { offset, length, .. } => {
                    let data_of = plan.opened(&mut open, reach, &object, &size_of);
                    data_of.image.zero(offset, length, data_of.size);
                }
                Change::Truncate { size, .. } => {
                    let data_of = plan.opened(&mut open, reach, &object, &size_of);
                    data_of.size = size;
                    data_of.image.truncate(size);
                }
                Change::Remove { .. } => {
                    plan.close(&mut open, reach, Some(&object));
                    plan.replaces(&object);
                    plan.steps.push(Step::Same(change));
                    let image = Image::new(geometry, 0);
                    open = Some(Open { base: object.clone(), object, size: 0, image });
                }
                Change::Clone { object: ref source, .. } => {
                    let size = match &open {
                        Some(open) if open.object == *source => {
                            assert!(open.image.is_unchanged(), "clones come before changes");
                            open.size
                        }
                        _ => size_of(source),
                    };
                    plan.close(&mut open, reach, Some(&object));
                    plan.replaces(&object);
                    let (base, image) = (source.clone(), Image::new(geometry, size));
                    plan.steps.push(Step::Same(change));
                    open = Some(Open { object, base, size, image });
                }
                _ => plan.steps.push(Step::Same(change)),
            }
        }
        plan.close(&mut open, reach, None);
        plan.needs.sort_unstable();
        plan.needs.dedup();
        plan
    }

    /// The old rows that [`Plan::finish`] needs, ascending.
    pub fn needs(&self) -> &[RowRead] {
        &self.needs
    }

    /// Objects to whose parities differences are added, so that the members need their old ones. After a
    /// rollback it is the clone.
    pub fn deltas(&self) -> impl Iterator<Item = &HObject> {
        self.steps.iter().filter_map(|step| match step {
            Step::Data { base, ways, .. } => {
                ways.values().any(|way| *way == Way::Delta).then_some(base)
            }
            Step::Same(_) => None,
        })
    }

    /// The data of an object that the write changes. Whether a shard is left out does not matter.
    pub fn change_of(&self, object: &HObject) -> ShardChange {
        self.changed.get(object).cloned().unwrap_or_default()
    }

    /// The data of all shards of an object is replaced.
    fn replaces(&mut self, object: &HObject) {
        let mut change = ShardChange { rows: vec![WHOLE], ..ShardChange::default() };
        (0..self.geometry.shards()).for_each(|position| change.written.insert(shard_at(position)));
        self.changed.insert(object.clone(), change);
    }

    /// Notes the data of an object that an image changes.
    fn note_image(&mut self, object: &HObject, image: &Image) {
        let (data, shards) = (self.geometry.data(), self.geometry.shards());
        let change = self.changed.entry(object.clone()).or_default();
        let parities = data..shards;
        let mut ranges = std::mem::take(&mut change.rows);
        let mut write = |position: usize| change.written.insert(shard_at(position));
        if let Some(size) = image.cut_to() {
            (0..shards).for_each(&mut write);
            // A data shard is cut there, or before: in the same stripe.
            let first = size / self.geometry.stripe() * self.geometry.unit();
            ranges.push((first, u64::MAX - first));
        }
        for (first, run) in image.runs() {
            (0..shards).for_each(&mut write);
            ranges.push((first * ROW, run.rows * ROW));
        }
        for (number, row) in image.rows() {
            let cells = row.iter().enumerate().filter(|(_, cell)| cell.is_some());
            cells.map(|(position, _)| position).chain(parities.clone()).for_each(&mut write);
            ranges.push((number * ROW, ROW));
        }
        change.rows = joined(ranges);
    }

    /// The image of `object`, after closing that of another object.
    fn opened<'a>(
        &mut self,
        open: &'a mut Option<Open>,
        reach: Reach,
        object: &HObject,
        size_of: &impl Fn(&HObject) -> u64,
    ) -> &'a mut Open {
        if open.as_ref().is_none_or(|open| open.object != *object) {
            self.close(open, reach, None);
            let size = size_of(object);
            let image = Image::new(self.geometry, size);
            *open = Some(Open { object: object.clone(), base: object.clone(), size, image });
        }
        open.as_mut().expect("it was just opened")
    }

    /// Ends the changes of the open object's data; they count for nothing if it is `replaced`.
    fn close(&mut self, open: &mut Option<Open>, reach: Reach, replaced: Option<&HObject>) {
        let Some(Open { object, base, image, .. }) = open.take() else { return };
        if image.is_unchanged() || replaced == Some(&object) {
            return;
        }
        let mut ways = BTreeMap::new();
        for (number, row) in image.rows() {
            let (way, reads) = self.choose(&image, *number, row, reach);
            ways.insert(*number, way);
            self.needs.extend(reads.into_iter().map(|position| RowRead {
                object: base.clone(),
                position,
                row: *number,
            }));
        }
        self.note_image(&object, &image);
        self.steps.push(Step::Data { object, base, image: Box::new(image), ways });
    }

    /// The cheaper way to the new parity of a row, and the data shards whose old content it needs.
    fn choose(&self, image: &Image, number: u64, row: &Row, reach: Reach) -> (Way, Vec<usize>) {
        let has_parity = (self.geometry.data()..self.geometry.shards())
            .any(|position| reach.written.contains(position));
        let old = |position: &usize| image.has_old(*position, number);
        let data = 0..self.geometry.data();
        let is_part = |position: &usize| row[*position].as_ref().is_some_and(|cell| cell.is_part());
        if !has_parity {
            return (Way::Encode, data.filter(is_part).collect());
        }
        let encode: Vec<usize> = data
            .clone()
            .filter(|position| old(position) && (row[*position].is_none() || is_part(position)))
            .collect();
        let delta: Vec<usize> =
            data.filter(|position| old(position) && row[*position].is_some()).collect();
        let cost = |reads: &[usize]| {
            let remote = |position: &usize| match reach.readable.contains(*position) {
                true => usize::from(*position != reach.own),
                false => self.geometry.data(),
            };
            (reads.iter().map(remote).sum::<usize>(), reads.len())
        };
        // A primary with a parity writes it before it has sent anything, and so cannot add to it.
        let is_own_parity = reach.own >= self.geometry.data();
        match is_own_parity || cost(&encode) <= cost(&delta) {
            true => (Way::Encode, encode),
            false => (Way::Delta, delta),
        }
    }

    /// The changes of each shard that takes part, by position; empty for the others. `old` has the rows of
    /// [`Plan::needs`].
    pub fn finish(self, code: &Code, old: &BTreeMap<RowRead, Bytes>) -> Vec<Vec<ShardOp>> {
        assert_eq!((code.k(), code.shards()), (self.geometry.data(), self.geometry.shards()));
        let mut ops: Vec<Vec<ShardOp>> = vec![Vec::new(); self.geometry.shards()];
        for step in &self.steps {
            match step {
                Step::Same(change) => self
                    .written
                    .iter()
                    .for_each(|position| ops[position].push(ShardOp::Store(change.clone()))),
                Step::Data { object, base, image, ways } => {
                    let shards = Shares { plan: &self, code, object, ops: &mut ops };
                    shards.data(base, image, ways, old);
                }
            }
        }
        ops
    }
}

fn shard_at(position: usize) -> ShardId {
    ShardId::at(position).expect("a layout has at most as many shards as there are positions")
}

/// Ranges in order, without overlaps.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in ranges {
        match joined.last_mut() {
            Some((first, before)) if offset <= *first + *before => {
                *before = (*before).max(offset.saturating_add(length) - *first);
            }
            _ => joined.push((offset, length)),
        }
    }
    if joined.len() > RANGES_MAX { vec![WHOLE] } else { joined }
}

/// Objects that exist at a point of a write, as far as its changes so far decide that.
#[derive(Debug, Default)]
struct Existing {
    made: BTreeSet<HObject>,
    removed: BTreeSet<HObject>,
}

impl Existing {
    /// Notes a change; whether its object must be made first.
    fn begins(&mut self, change: &Change, size_of: impl Fn(&HObject) -> Option<u64>) -> bool {
        let object = change.object().expect("the caller found it");
        if let Change::Remove { .. } = change {
            self.made.remove(object);
            self.removed.insert(object.clone());
            return false;
        }
        let exists = self.made.contains(object)
            || !self.removed.contains(object) && size_of(object).is_some();
        if !exists && !crate::is_meta_object(object) {
            self.made.insert(object.clone());
        }
        let makes = matches!(change, Change::Touch { .. } | Change::Clone { .. });
        !exists && !makes && !crate::is_meta_object(object)
    }
}

/// The changes of the shards while they are computed.
struct Shares<'a> {
    plan: &'a Plan,
    code: &'a Code,
    object: &'a HObject,
    ops: &'a mut [Vec<ShardOp>],
}

impl Shares<'_> {
    fn data(
        mut self,
        base: &HObject,
        image: &Image,
        ways: &BTreeMap<u64, Way>,
        old: &BTreeMap<RowRead, Bytes>,
    ) {
        let geometry = self.plan.geometry;
        if let Some(size) = image.cut_to() {
            for position in self.plan.written.iter() {
                let size = geometry.shard_len(size, position);
                let object = self.object.clone();
                self.push(position, Change::Truncate { object, size });
            }
        }
        image.runs().iter().for_each(|(first, run)| self.run(*first, run));
        for (number, row) in image.rows() {
            let read = |position| {
                let read = RowRead { object: base.clone(), position, row: *number };
                old.get(&read).cloned().expect("the rows that were needed are here")
            };
            self.row(image, *number, row, ways[number], read);
        }
    }

    fn push(&mut self, position: usize, change: Change) {
        self.ops[position].push(ShardOp::Store(change));
    }

    fn write(&mut self, position: usize, row: u64, data: Bytes) {
        if self.plan.written.contains(position) {
            let object = self.object.clone();
            self.push(position, Change::Write { object, offset: row * ROW, data });
        }
    }

    fn parities(&self) -> std::ops::Range<usize> {
        self.plan.geometry.data()..self.plan.geometry.shards()
    }

    fn run(&mut self, first: u64, run: &Run) {
        let Some(shards) = &run.shards else {
            let (offset, length) = (first * ROW, run.rows * ROW);
            for position in self.plan.written.iter() {
                let object = self.object.clone();
                self.push(position, Change::Zero { object, offset, length });
            }
            return;
        };
        for (position, data) in shards.iter().enumerate() {
            self.write(position, first, data.clone());
        }
        self.encode(first, shards);
    }

    /// Writes the parities of these data shards.
    fn encode(&mut self, first: u64, data: &[Bytes]) {
        let length = data[0].len();
        let parities: Vec<Bytes> = match length as u64 {
            ROW => self.encoded(data, || BytesMut::zeroed(length)),
            // Stores write aligned memory as it is.
            _ => self.encoded(data, || AlignedBuffer::stale(length)),
        };
        for (position, parity) in self.parities().zip(parities) {
            self.write(position, first, parity);
        }
    }

    /// The parities of these data shards, in memory of `output`, which is overwritten as a whole.
    fn encoded<B>(&self, data: &[Bytes], output: impl Fn() -> B) -> Vec<Bytes>
    where
        B: DerefMut<Target = [u8]> + Into<Bytes>,
    {
        let sources: Vec<&[u8]> = data.iter().map(|shard| &shard[..]).collect();
        let mut parities: Vec<B> = (0..self.code.m()).map(|_| output()).collect();
        let mut outputs: Vec<&mut [u8]> = parities.iter_mut().map(|out| &mut out[..]).collect();
        self.code.encode(&sources, &mut outputs);
        parities.into_iter().map(Into::into).collect()
    }

    fn row(
        &mut self,
        image: &Image,
        number: u64,
        row: &Row,
        way: Way,
        read: impl Fn(usize) -> Bytes,
    ) {
        let old = |position: usize| match image.has_old(position, number) {
            true => read(position),
            false => zero_row(),
        };
        let new = |position: usize| match &row[position] {
            Some(cell) if cell.is_part() => Some(cell.resolve(&old(position))),
            Some(cell) => Some(cell.resolve(&zero_row())),
            None => None,
        };
        let changed: Vec<Option<Bytes>> = (0..row.len()).map(new).collect();
        match way {
            _ if !self.parities().any(|position| self.plan.written.contains(position)) => {}
            Way::Encode => {
                let whole = |(position, new): (usize, &Option<Bytes>)| {
                    new.clone().unwrap_or_else(|| old(position))
                };
                let data: Vec<Bytes> = changed.iter().enumerate().map(whole).collect();
                self.encode(number, &data);
            }
            Way::Delta => self.delta(number, &changed, old),
        }
        for (position, new) in changed.into_iter().enumerate() {
            let Some(new) = new else { continue };
            let is_zero = image.is_empty_before(position, number) && new == zero_row();
            if !is_zero {
                self.write(position, number, new);
            }
        }
    }

    /// Adds the difference of the changed data shards to the parities.
    fn delta(&mut self, number: u64, changed: &[Option<Bytes>], old: impl Fn(usize) -> Bytes) {
        let mut deltas = vec![BytesMut::zeroed(ROW as usize); self.code.m()];
        for (position, new) in changed.iter().enumerate() {
            let Some(new) = new else { continue };
            let mut outputs: Vec<&mut [u8]> = deltas.iter_mut().map(|out| &mut out[..]).collect();
            self.code.apply_delta(position, &old(position), new, &mut outputs);
        }
        for (position, delta) in self.parities().zip(deltas) {
            if self.plan.written.contains(position) {
                let (object, data) = (self.object.clone(), delta.freeze());
                self.ops[position].push(ShardOp::Xor { object, row: number, data });
            }
        }
    }
}
