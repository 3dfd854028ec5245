//! Contents of the store, observed through all of its requests, compared with the reference.

use super::generator::collection;
use block::BlockStore;
use block::disk::Driver;
use bytes::Bytes;
use std::collections::BTreeMap;
use stdx::Prng;
use store::mem::{MemObject, MemStore};
use store::{
    Change, Collection, HeldChange, ObjectMeta, OmapPage, Outcome, ReadData, RequestKind,
    StoreError,
};
use types::HObject;

/// Characters of a response that are shown.
const SHOWN_MAX: usize = 600;

/// All contents.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    collections: BTreeMap<Collection, BTreeMap<HObject, Object>>,
    held: Vec<(Collection, HeldChange, Vec<Change>)>,
}

#[derive(Debug, Clone)]
struct Object {
    meta: ObjectMeta,
    header: Bytes,
    omap: BTreeMap<Bytes, Bytes>,
    data: Bytes,
}

/// Compares a response with the reference's. Extents may be larger than those of the reference.
pub fn is_same(
    found: &Result<Outcome, StoreError>,
    expected: &Result<Outcome, StoreError>,
    asked: &RequestKind,
) -> bool {
    match (found, expected) {
        (Ok(Outcome::Read(found)), Ok(Outcome::Read(expected))) => {
            is_same_data(found, expected, asked)
        }
        (Ok(Outcome::Usage(found)), Ok(Outcome::Usage(expected))) => {
            found.objects == expected.objects
        }
        (found, expected) => found == expected,
    }
}

fn is_same_data(found: &ReadData, expected: &ReadData, asked: &RequestKind) -> bool {
    let RequestKind::Read { offset, .. } = asked else { return false };
    let end = offset.saturating_add(found.data.len() as u64);
    let ordered = found.extents.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0);
    let within = found.extents.iter().all(|&(at, len)| len > 0 && at >= *offset && at + len <= end);
    // Adjacent extents may be reported separately.
    let covered = expected.extents.iter().all(|&(start, length)| {
        let mut at = start;
        for &(from, length) in &found.extents {
            if from <= at {
                at = at.max(from + length);
            }
        }
        at >= start + length
    });
    found.data == expected.data && ordered && within && covered
}

pub fn brief(what: &impl std::fmt::Debug) -> String {
    let mut text = format!("{what:?}");
    if text.len() > SHOWN_MAX {
        let end = (0..=SHOWN_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

/// Reads everything, in pages of random size, with nothing else in flight.
pub fn observe(driver: &mut Driver<BlockStore>, prng: &mut Prng) -> Observed {
    let mut observer = Observer { driver, prng };
    let Outcome::Collections(collections) = observer.execute(RequestKind::Collections) else {
        panic!("not collections")
    };
    let held = collections.iter().flat_map(|at| observer.held(*at)).collect();
    let all = collections.into_iter().map(|collection| (collection, observer.objects(collection)));
    Observed { collections: all.collect(), held }
}

struct Observer<'a> {
    driver: &'a mut Driver<BlockStore>,
    prng: &'a mut Prng,
}

impl Observer<'_> {
    fn execute(&mut self, kind: RequestKind) -> Outcome {
        let answer = self.driver.execute(kind.clone());
        answer.unwrap_or_else(|error| panic!("{}: {error}", brief(&kind)))
    }

    fn held(&mut self, collection: Collection) -> Vec<(Collection, HeldChange, Vec<Change>)> {
        let (mut all, mut after, mut more) = (Vec::new(), None, true);
        while more {
            let entries_max = self.prng.range(1..9) as usize;
            let Outcome::Held(page, has_more) =
                self.execute(RequestKind::Held { collection, after, entries_max })
            else {
                panic!("not held changes")
            };
            assert!(page.len() <= entries_max && !(has_more && page.is_empty()));
            (after, more) = (page.last().copied(), has_more);
            for held in page {
                let read = self.execute(RequestKind::ReadHeld { collection, held });
                let Outcome::HeldRead(Some(changes)) = read else { panic!("{held:?} is listed") };
                all.push((collection, held, changes));
            }
        }
        all
    }

    fn objects(&mut self, collection: Collection) -> BTreeMap<HObject, Object> {
        let (mut objects, mut from) = (BTreeMap::new(), Some(HObject::default()));
        while let Some(start) = from {
            let entries_max = self.prng.range(1..9) as usize;
            let list = RequestKind::List { collection, from: start.clone(), entries_max };
            let Outcome::List(page, next) = self.execute(list) else { panic!("not a list") };
            assert!(page.len() <= entries_max && page.iter().all(|object| *object >= start));
            assert!(page.is_sorted(), "{}", brief(&page));
            for object in page {
                let content = self.object(collection, &object);
                assert!(objects.insert(object, content).is_none(), "an object is listed twice");
            }
            assert!(next.as_ref().is_none_or(|next| *next > start), "a list that goes back");
            from = next;
        }
        objects
    }

    fn object(&mut self, collection: Collection, name: &HObject) -> Object {
        let object = || name.clone();
        let meta = self.execute(RequestKind::Meta { collection, object: object() });
        let Outcome::Meta(Some(meta)) = meta else { panic!("{name} is listed but has no meta") };
        let header = self.execute(RequestKind::OmapHeader { collection, object: object() });
        let Outcome::OmapHeader(header) = header else { panic!("not a header") };
        let omap = self.omap(collection, name);
        let data = self.data(collection, name);
        Object { meta, header, omap, data }
    }

    fn omap(&mut self, collection: Collection, name: &HObject) -> BTreeMap<Bytes, Bytes> {
        let (mut omap, mut after) = (BTreeMap::new(), None);
        loop {
            let list = RequestKind::OmapList {
                collection,
                object: name.clone(),
                after: after.take(),
                prefix: Bytes::new(),
                entries_max: self.prng.range(1..200) as usize,
                bytes_max: self.prng.range(1..20_000) as usize,
            };
            let Outcome::OmapPage(OmapPage { pairs, more }) = self.execute(list) else {
                panic!("not a page")
            };
            after = pairs.keys().next_back().cloned();
            omap.extend(pairs);
            if !more {
                break;
            }
            assert!(after.is_some(), "an empty page, and more to come");
        }
        self.check_values(collection, name, &omap);
        omap
    }

    /// Checks that single values equal those of the listing.
    fn check_values(&mut self, at: Collection, name: &HObject, omap: &BTreeMap<Bytes, Bytes>) {
        let some = |_: &(&Bytes, &Bytes)| self.prng.chance(1, 8);
        let pairs: BTreeMap<Bytes, Bytes> =
            omap.iter().filter(some).map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut keys: Vec<Bytes> = pairs.keys().cloned().collect();
        keys.push(Bytes::from_static(b"a key that no object has"));
        let get = RequestKind::OmapGet { collection: at, object: name.clone(), keys };
        let found = self.execute(get);
        assert!(found == Outcome::OmapPairs(pairs), "values of {name} differ from the list");
    }

    fn data(&mut self, collection: Collection, name: &HObject) -> Bytes {
        let whole = self.read(collection, name, 0, u64::MAX);
        let offset = self.prng.below(whole.len() as u64 + 10);
        let length = self.prng.below(whole.len() as u64 + 10);
        let part = self.read(collection, name, offset, length);
        let start = whole.len().min(offset as usize);
        let end = whole.len().min((offset + length) as usize);
        assert!(part == whole[start..end], "a part of {name} differs from the whole");
        whole
    }

    fn read(&mut self, collection: Collection, name: &HObject, offset: u64, length: u64) -> Bytes {
        let object = name.clone();
        let read = self.execute(RequestKind::Read { collection, object, offset, length });
        let Outcome::Read(read) = read else { panic!("not data") };
        read.data
    }
}

impl Observed {
    /// First difference from the reference.
    pub fn difference(&self, model: &MemStore) -> Option<String> {
        let names: Vec<Collection> = model.collections().collect();
        if !self.collections.keys().eq(&names) {
            let found: Vec<String> = self.collections.keys().map(Collection::to_string).collect();
            return Some(format!("collections {found:?} instead of {}", brief(&names)));
        }
        let held = self.held.iter().map(|(at, name, changes)| (*at, *name, changes));
        if !held.eq(model.held().iter()) {
            let names: Vec<_> = self.held.iter().map(|(at, name, _)| (*at, name.version)).collect();
            let expected: Vec<_> =
                model.held().iter().map(|(at, name, _)| (at, name.version)).collect();
            return Some(format!("held {} instead of {}", brief(&names), brief(&expected)));
        }
        self.collections.iter().find_map(|(collection, objects)| {
            let found: Vec<&HObject> = objects.keys().collect();
            let expected: Vec<&HObject> =
                model.objects(*collection).map(|(name, _)| name).collect();
            if found != expected {
                return Some(format!(
                    "{collection}: {} objects, not {}",
                    found.len(),
                    expected.len()
                ));
            }
            let mut both = objects.iter().zip(model.objects(*collection));
            both.find_map(|((name, object), (_, expected))| {
                Some(format!("{collection} {name}: {}", object.difference(expected)?))
            })
        })
    }
}

impl Object {
    fn difference(&self, model: &MemObject) -> Option<String> {
        let meta = model.meta();
        if self.meta != meta {
            return Some(format!("meta {} instead of {}", brief(&self.meta), brief(&meta)));
        }
        if self.header != model.omap_header {
            return Some("another omap header".to_owned());
        }
        if self.omap != model.omap {
            return Some(format!("{} omap pairs, not {}", self.omap.len(), model.omap.len()));
        }
        let expected = model.read(0, u64::MAX).data;
        if self.data.len() != expected.len() {
            return Some(format!("{} bytes, not {}", self.data.len(), expected.len()));
        }
        if self.data == expected {
            return None;
        }
        let at = self.data.iter().zip(&expected).position(|(found, expected)| found != expected)?;
        Some(format!("byte {at} of {} differs", expected.len()))
    }
}

/// Requests that together show all contents of the model, and that there is nothing else.
pub fn all_requests(model: &MemStore) -> Vec<RequestKind> {
    let mut requests = vec![RequestKind::Collections];
    let absent = collection(u64::from(u32::MAX));
    requests.push(RequestKind::Meta { collection: absent, object: HObject::default() });
    for collection in model.collections() {
        requests.push(RequestKind::Held { collection, after: None, entries_max: usize::MAX });
        let (from, entries_max) = (HObject::default(), usize::MAX);
        requests.push(RequestKind::List { collection, from, entries_max });
        for (object, _) in model.objects(collection) {
            let object = || object.clone();
            requests.push(RequestKind::Meta { collection, object: object() });
            requests.push(RequestKind::OmapHeader { collection, object: object() });
            let (offset, length) = (0, u64::MAX);
            requests.push(RequestKind::Read { collection, object: object(), offset, length });
            requests.push(RequestKind::OmapList {
                collection,
                object: object(),
                after: None,
                prefix: Bytes::new(),
                entries_max: usize::MAX,
                bytes_max: usize::MAX,
            });
        }
    }
    requests
}
