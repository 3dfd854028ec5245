//! Transactions: sets of changes that are atomic.

use crate::{Collection, Hashes};
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EVersion, HObject};

/// Changes that become durable atomically, applied in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// The changes, each with its collection.
    pub changes: Vec<(Collection, Change)>,
}

/// One change. All changes except `Remove` and those of collections create the object if it does not exist;
/// `Remove` of an absent object has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Creates the collection, unless it exists.
    CreateCollection,
    /// Removes the collection and all of its objects.
    RemoveCollection,
    /// Moves the objects with these hashes to another collection, where they replace all objects with such
    /// hashes. A placement group splits and merges by this.
    MoveObjects {
        /// The collection that gets them.
        target: Collection,
        /// Hashes of the objects that move.
        hashes: Hashes,
    },
    /// Creates the object, unless it exists.
    Touch {
        /// The changed object.
        object: HObject,
    },
    /// Writes data; the object grows as needed.
    Write {
        /// The changed object.
        object: HObject,
        /// First byte of the range.
        offset: u64,
        /// The data.
        data: Bytes,
    },
    /// Makes the range read as zeros (a hole where possible); never changes the size.
    Zero {
        /// The changed object.
        object: HObject,
        /// First byte of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
    },
    /// Truncates or extends (with a hole) to `size`.
    Truncate {
        /// The changed object.
        object: HObject,
        /// The new size in bytes.
        size: u64,
    },
    /// Removes the object, unless it is absent.
    Remove {
        /// The changed object.
        object: HObject,
    },
    /// Sets attributes; others stay.
    SetAttrs {
        /// The changed object.
        object: HObject,
        /// Attributes by name.
        attrs: BTreeMap<Bytes, Bytes>,
    },
    /// Removes an attribute, unless it is absent.
    RemoveAttr {
        /// The changed object.
        object: HObject,
        /// Name of the attribute.
        name: Bytes,
    },
    /// Sets the omap header; an empty one is none.
    OmapSetHeader {
        /// The changed object.
        object: HObject,
        /// The header.
        header: Bytes,
    },
    /// Sets omap pairs; others stay.
    OmapSet {
        /// The changed object.
        object: HObject,
        /// The pairs.
        pairs: BTreeMap<Bytes, Bytes>,
    },
    /// Removes the pairs of these keys, as far as there are any.
    OmapRemove {
        /// The changed object.
        object: HObject,
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// Removes keys from `first` (inclusive) to `last` (exclusive).
    OmapRemoveRange {
        /// The changed object.
        object: HObject,
        /// The first key.
        first: Bytes,
        /// The key behind the last one.
        last: Bytes,
    },
    /// Removes all keys and the header.
    OmapClear {
        /// The changed object.
        object: HObject,
    },
    /// Makes `target` an exact copy of `object` (data, attributes, omap), replacing its former content.
    Clone {
        /// The object that is copied.
        object: HObject,
        /// The object that becomes the copy.
        target: HObject,
    },
    /// Stores changes durably without applying them: no read sees them. Its name ([`crate::HeldChange`])
    /// must be above those of all held changes of the collection. They are changes of named objects of one
    /// hash, no additions to omaps, and their offsets and sizes are multiples of [`crate::HELD_UNIT`];
    /// [`crate::check_held`] tells. Removing the collection removes them, and moving objects moves those with
    /// the same hashes.
    Hold {
        /// The version under which they are held.
        version: EVersion,
        /// The changes, in the order in which they will be applied.
        changes: Vec<Change>,
    },
    /// Applies all held changes of the collection up to this version, in order, and forgets them. If there
    /// are none, it has no effect. On an object that is absent by then only `Touch`, and `Clone` as its
    /// target, have an effect ([`Change::settles_absent`]): an object that a copy lacks comes back by
    /// recovery, whole, and not in part by later changes. Many may be too much at once (`TooLarge`, or
    /// `NoSpace` on a full store): then older versions are to be settled first, in smaller steps. The
    /// attributes that an object gets from several held changes count together; their sum must stay below
    /// the store's bound.
    Settle {
        /// The last version.
        through: EVersion,
    },
    /// Forgets the held changes of these versions without applying them.
    Drop {
        /// The first version.
        from: EVersion,
        /// The last version.
        through: EVersion,
    },
}

/// Bound of the bytes that a transaction of [`Purpose::Bookkeeping`] adds.
pub const BOOKKEEPING_BYTES_MAX: u64 = 64 << 10;

/// Bytes of a held change without names.
const HELD_CHANGE_LEN: u64 = 64;

/// Bound of the bytes that a transaction adds to record what it settles or drops, and is a
/// [`Purpose::Removal`] still.
pub const SETTLING_BYTES_MAX: u64 = 4 << 10;

/// Purpose of a transaction, which decides about it when a store is nearly full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Adds no bytes. Settling and dropping are such, with the few bytes that record it in the metadata of
    /// the placement group: settled changes were added when they were held, and may be those that free space.
    Removal,
    /// Adds few bytes to the metadata of a placement group, and otherwise only removes, or holds removals.
    /// Groups keep metadata in objects without a name, which clients cannot address.
    Bookkeeping,
    /// Adds client data.
    Addition,
}

impl Transaction {
    /// A transaction without changes.
    pub fn new() -> Self {
        Transaction::default()
    }

    /// Adds a change.
    pub fn push(&mut self, collection: Collection, change: Change) {
        self.changes.push((collection, change));
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// All collections named in the transaction, possibly with repetitions.
    pub fn collections(&self) -> impl Iterator<Item = Collection> + '_ {
        let targets = self.changes.iter().filter_map(|(_, change)| change.target_collection());
        self.changes.iter().map(|(collection, _)| *collection).chain(targets)
    }

    /// Bytes of object data in the transaction.
    pub fn data_len(&self) -> u64 {
        self.changes.iter().map(|(_, change)| change.data_len()).sum()
    }

    /// Upper bound of the bytes that the transaction adds: data, omap and attributes. Clones are not counted,
    /// since only the store knows the size of their source.
    pub fn bytes_added(&self) -> u64 {
        self.changes.iter().map(|(_, change)| change.bytes_added()).sum()
    }

    /// Purpose by the changes.
    pub fn purpose(&self) -> Purpose {
        let (mut bytes, mut held_bytes, mut ends_held) = (0, 0, false);
        for (_, change) in &self.changes {
            ends_held |= matches!(change, Change::Settle { .. } | Change::Drop { .. });
            match change.addition() {
                None => held_bytes += change.held_len(),
                Some((object, added)) if object.name.is_empty() => bytes += added,
                Some(_) => return Purpose::Addition,
            }
        }
        match bytes + held_bytes {
            0 => Purpose::Removal,
            1..=SETTLING_BYTES_MAX if ends_held && held_bytes == 0 => Purpose::Removal,
            1..=BOOKKEEPING_BYTES_MAX => Purpose::Bookkeeping,
            _ => Purpose::Addition,
        }
    }

    /// Splits into fields and bulk data: write payloads are not copied into the fields but listed
    /// in order, each with its length in the fields. [`Transaction::join`] is the inverse.
    pub fn split(&self, w: &mut Writer) -> Vec<Bytes> {
        let mut payloads = Vec::new();
        w.count(self.changes.len());
        for (collection, change) in &self.changes {
            w.value(collection);
            change.encode_fields(w, &mut payloads);
        }
        payloads
    }

    /// Decodes the result of `split`; payloads are slices of `data`, which is not copied.
    pub fn join(r: &mut Reader<'_>, data: &Bytes) -> Result<Transaction> {
        let mut taken = 0;
        let changes = r.list("changes", |r| {
            let collection = r.value()?;
            Ok((collection, Change::decode_fields(r, data, &mut taken)?))
        })?;
        Ok(Transaction { changes })
    }
}

/// As [`Transaction::split`], of changes of one collection that are held.
pub fn split_held(changes: &[Change], w: &mut Writer) -> Vec<Bytes> {
    let mut payloads = Vec::new();
    w.list(changes, |w, change| change.encode_fields(w, &mut payloads));
    payloads
}

/// The inverse of [`split_held`]. Changes that cannot be held are refused.
pub fn join_held(r: &mut Reader<'_>, data: &Bytes) -> Result<Vec<Change>> {
    decode_held(r, data, &mut 0)
}

/// Refuses nested changes, so the depth is bounded.
fn decode_held(r: &mut Reader<'_>, data: &Bytes, taken: &mut usize) -> Result<Vec<Change>> {
    r.list("held changes", |r| {
        let at = *r;
        match at.clone().u8("held change")? {
            tag @ (HOLD..) => Err(at.invalid("held change", tag.into())),
            _ => Change::decode_fields(r, data, taken),
        }
    })
}

impl Change {
    /// The changed object, if the change concerns a single one.
    pub fn object(&self) -> Option<&HObject> {
        use Change::*;
        match self {
            CreateCollection | RemoveCollection | MoveObjects { .. } => None,
            Hold { .. } | Settle { .. } | Drop { .. } => None,
            Clone { target, .. } => Some(target),
            Touch { object }
            | Write { object, .. }
            | Zero { object, .. }
            | Truncate { object, .. }
            | Remove { object }
            | SetAttrs { object, .. }
            | RemoveAttr { object, .. }
            | OmapSetHeader { object, .. }
            | OmapSet { object, .. }
            | OmapRemove { object, .. }
            | OmapRemoveRange { object, .. }
            | OmapClear { object } => Some(object),
        }
    }

    /// The second collection that must exist.
    pub fn target_collection(&self) -> Option<Collection> {
        match self {
            Change::MoveObjects { target, .. } => Some(*target),
            _ => None,
        }
    }

    /// Bytes of object data, held data included.
    pub fn data_len(&self) -> u64 {
        match self {
            Change::Write { data, .. } => data.len() as u64,
            Change::Hold { changes, .. } => changes.iter().map(Change::data_len).sum(),
            _ => 0,
        }
    }

    /// Whether it has an effect on an absent object when it is settled; see [`Change::Settle`].
    pub fn settles_absent(&self) -> bool {
        matches!(self, Change::Touch { .. } | Change::Clone { .. })
    }

    /// Bytes that a list of held changes takes even if they add nothing: the names of the objects, mostly.
    fn held_len(&self) -> u64 {
        let Change::Hold { changes, .. } = self else { return 0 };
        let name = |object: &HObject| object.name.len() + object.key.len() + object.namespace.len();
        let objects = changes.iter().filter_map(Change::object);
        objects.map(|object| HELD_CHANGE_LEN + name(object) as u64).sum()
    }

    /// The object that grows, and by how many bytes at most, as far as the change tells. Copying or creating
    /// an object counts as well.
    fn addition(&self) -> Option<(&HObject, u64)> {
        match (self, self.bytes_added()) {
            (Change::Hold { changes, .. }, _) => changes.iter().find_map(Change::addition),
            (Change::Touch { object } | Change::Clone { target: object, .. }, _) => {
                Some((object, 0))
            }
            (_, 0) => None,
            (change, bytes) => change.object().map(|object| (object, bytes)),
        }
    }

    pub(crate) fn bytes_added(&self) -> u64 {
        let pairs = |pairs: &BTreeMap<Bytes, Bytes>| -> u64 {
            pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
        };
        match self {
            Change::Write { data, .. } => data.len() as u64,
            Change::SetAttrs { attrs, .. } => pairs(attrs),
            Change::OmapSetHeader { header, .. } => header.len() as u64,
            Change::OmapSet { pairs: added, .. } => pairs(added),
            Change::Hold { changes, .. } => changes.iter().map(Change::bytes_added).sum(),
            _ => 0,
        }
    }

    fn encode_fields(&self, w: &mut Writer, payloads: &mut Vec<Bytes>) {
        match self {
            Change::CreateCollection => w.u8(0),
            Change::RemoveCollection => w.u8(1),
            Change::Touch { object } => tagged(w, 2, object),
            Change::Write { object, offset, data } => {
                tagged(w, 3, object);
                w.u64(*offset);
                w.count(data.len());
                payloads.push(data.clone());
            }
            Change::Zero { object, offset, length } => {
                tagged(w, 4, object);
                w.u64(*offset);
                w.u64(*length);
            }
            Change::Truncate { object, size } => {
                tagged(w, 5, object);
                w.u64(*size);
            }
            Change::Remove { object } => tagged(w, 6, object),
            Change::SetAttrs { object, attrs } => {
                tagged(w, 7, object);
                w.value(attrs);
            }
            Change::RemoveAttr { object, name } => {
                tagged(w, 8, object);
                w.blob(name);
            }
            Change::OmapSetHeader { object, header } => {
                tagged(w, 9, object);
                w.blob(header);
            }
            Change::OmapSet { object, pairs } => {
                tagged(w, 10, object);
                w.value(pairs);
            }
            Change::OmapRemove { object, keys } => {
                tagged(w, 11, object);
                w.value(keys);
            }
            Change::OmapRemoveRange { object, first, last } => {
                tagged(w, 12, object);
                w.blob(first);
                w.blob(last);
            }
            Change::OmapClear { object } => tagged(w, 13, object),
            Change::Clone { object, target } => {
                tagged(w, 14, object);
                w.value(target);
            }
            Change::MoveObjects { target, hashes } => {
                w.u8(15);
                w.value(target);
                w.value(hashes);
            }
            Change::Hold { .. } | Change::Settle { .. } | Change::Drop { .. } => {
                self.encode_held(w, payloads);
            }
        }
    }

    fn encode_held(&self, w: &mut Writer, payloads: &mut Vec<Bytes>) {
        match self {
            Change::Hold { version, changes } => {
                w.u8(HOLD);
                w.value(version);
                w.list(changes, |w, change| change.encode_fields(w, payloads));
            }
            Change::Settle { through } => {
                w.u8(SETTLE);
                w.value(through);
            }
            Change::Drop { from, through } => {
                w.u8(DROP);
                w.value(from);
                w.value(through);
            }
            _ => unreachable!("not about held changes"),
        }
    }

    fn decode_fields(r: &mut Reader<'_>, data: &Bytes, taken: &mut usize) -> Result<Change> {
        let at = *r;
        let tag = r.u8("change")?;
        match tag {
            0 => return Ok(Change::CreateCollection),
            1 => return Ok(Change::RemoveCollection),
            15 => return Ok(Change::MoveObjects { target: r.value()?, hashes: r.value()? }),
            HOLD => {
                let version = r.value()?;
                return Ok(Change::Hold { version, changes: decode_held(r, data, taken)? });
            }
            SETTLE => return Ok(Change::Settle { through: r.value()? }),
            DROP => return Ok(Change::Drop { from: r.value()?, through: r.value()? }),
            _ => {}
        }
        let object = r.value()?;
        Ok(match tag {
            2 => Change::Touch { object },
            3 => {
                let offset = r.u64("write offset")?;
                let length = r.u32("write length")? as usize;
                Change::Write { object, offset, data: payload(r, data, taken, length)? }
            }
            4 => Change::Zero { object, offset: r.u64("zero offset")?, length: r.u64("length")? },
            5 => Change::Truncate { object, size: r.u64("size")? },
            6 => Change::Remove { object },
            7 => Change::SetAttrs { object, attrs: r.value()? },
            8 => Change::RemoveAttr { object, name: r.value()? },
            9 => Change::OmapSetHeader { object, header: r.value()? },
            10 => Change::OmapSet { object, pairs: r.value()? },
            11 => Change::OmapRemove { object, keys: r.value()? },
            12 => Change::OmapRemoveRange { object, first: r.value()?, last: r.value()? },
            13 => Change::OmapClear { object },
            14 => Change::Clone { object, target: r.value()? },
            _ => return Err(at.invalid("change", tag.into())),
        })
    }
}

/// Tags of changes that cannot be held themselves; all later ones are reserved for such.
const HOLD: u8 = 16;
const SETTLE: u8 = 17;
const DROP: u8 = 18;

fn tagged(w: &mut Writer, tag: u8, object: &HObject) {
    w.u8(tag);
    w.value(object);
}

fn payload(r: &Reader<'_>, data: &Bytes, taken: &mut usize, length: usize) -> Result<Bytes> {
    let available = data.len() - *taken;
    if length > available {
        return Err(r.error("write data", DecodeErrorKind::Truncated { needed: length, available }));
    }
    let start = *taken;
    *taken += length;
    Ok(data.slice(start..*taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_transaction_is_for_follows_from_what_it_adds_to() {
        let meta = HObject::default();
        let named = HObject { name: Bytes::from_static(b"named"), ..HObject::default() };
        let set = |object: &HObject, length: usize| {
            let pairs = BTreeMap::from([(Bytes::from_static(b"k"), vec![0; length].into())]);
            Change::OmapSet { object: object.clone(), pairs }
        };
        let purpose = |changes: &[&Change]| {
            let changes = changes.iter().map(|change| (Collection::default(), (*change).clone()));
            Transaction { changes: changes.collect() }.purpose()
        };
        let remove = Change::Remove { object: named.clone() };
        let log = set(&meta, 300);
        assert_eq!(purpose(&[&remove, &Change::CreateCollection]), Purpose::Removal);
        assert_eq!(purpose(&[&remove, &log]), Purpose::Bookkeeping);
        assert_eq!(purpose(&[&log]), Purpose::Bookkeeping);
        assert_eq!(purpose(&[&set(&meta, BOOKKEEPING_BYTES_MAX as usize)]), Purpose::Addition);
        assert_eq!(purpose(&[&remove, &log, &set(&named, 1)]), Purpose::Addition);
        assert_eq!(purpose(&[&Change::Touch { object: named.clone() }]), Purpose::Addition);
        let clone = Change::Clone { object: meta.clone(), target: named };
        assert_eq!(purpose(&[&clone, &log]), Purpose::Addition);
        let version = EVersion::ZERO;
        let hold = |change: &Change| Change::Hold { version, changes: vec![change.clone()] };
        assert_eq!(purpose(&[&hold(&remove), &log]), Purpose::Bookkeeping);
        assert_eq!(purpose(&[&hold(&clone)]), Purpose::Addition);
        let settle = Change::Settle { through: version };
        assert_eq!(purpose(&[&settle]), Purpose::Removal);
        let drop = Change::Drop { from: version, through: version };
        let much = set(&meta, SETTLING_BYTES_MAX as usize);
        for ends in [settle, drop] {
            assert_eq!(purpose(&[&ends]), Purpose::Removal);
            assert_eq!(purpose(&[&ends, &log]), Purpose::Removal, "it records itself");
            assert_eq!(purpose(&[&ends, &much]), Purpose::Bookkeeping);
            assert_eq!(purpose(&[&ends, &hold(&remove), &log]), Purpose::Bookkeeping);
        }
        let long = HObject { name: vec![b'n'; 2048].into(), ..HObject::default() };
        let removes = vec![Change::Remove { object: long }; 32];
        assert_eq!(purpose(&[&Change::Hold { version, changes: removes }]), Purpose::Addition);
    }

    #[test]
    fn a_transaction_splits_and_joins_without_copying_data() {
        let object = HObject::default();
        let collection = Collection::default();
        let payload = Bytes::from(vec![7; 4096]);
        let mut transaction = Transaction::new();
        transaction.push(collection, Change::CreateCollection);
        transaction.push(
            collection,
            Change::Write { object: object.clone(), offset: 9, data: payload.clone() },
        );
        transaction.push(collection, Change::Clone { object: object.clone(), target: object });
        let hashes = Hashes::new(3, 5);
        transaction.push(collection, Change::MoveObjects { target: collection, hashes });
        let (from, through) = (EVersion::new(1, 2), EVersion::new(3, 4));
        let remove = Change::Remove { object: HObject::default() };
        let write = Change::Write { object: HObject::default(), offset: 0, data: payload.clone() };
        transaction.push(collection, Change::Hold { version: from, changes: vec![remove, write] });
        transaction.push(collection, Change::Settle { through });
        transaction.push(collection, Change::Drop { from, through });
        let mut w = Writer::new();
        let payloads = transaction.split(&mut w);
        assert_eq!(payloads[0].as_ptr(), payload.as_ptr());
        assert_eq!((payloads.len(), transaction.data_len()), (2, 8192));
        let data: Bytes = payloads.concat().into();
        let joined = Transaction::join(&mut Reader::new(w.as_slice()), &data).unwrap();
        assert_eq!(joined, transaction);
        for end in 0..w.len() {
            let mut r = Reader::new(&w.as_slice()[..end]);
            assert!(Transaction::join(&mut r, &data).is_err());
        }
    }

    #[test]
    fn nested_held_changes_do_not_decode() {
        let through = EVersion::ZERO;
        let mut nested = Change::Settle { through };
        for _ in 0..2 {
            let mut transaction = Transaction::new();
            transaction.push(Collection::default(), nested.clone());
            let mut w = Writer::new();
            transaction.split(&mut w);
            let decoded = Transaction::join(&mut Reader::new(w.as_slice()), &Bytes::new());
            assert_eq!(decoded.is_ok(), matches!(nested, Change::Settle { .. }));
            nested = Change::Hold { version: through, changes: vec![nested] };
        }
    }
}
