//! The pairs of the tree as the replayed log changes them, in order of their keys.

use crate::table::{Entry, Table};
use bytes::Bytes;
use std::iter::Peekable;

/// Receives keys and values.
pub(crate) type Visit<'a> = dyn FnMut(&Bytes, &Bytes) + 'a;

/// Merges a table over the pairs of the tree, which come in order.
pub(crate) struct Overlay<'t> {
    entries: Peekable<Box<dyn Iterator<Item = Entry<'t>> + 't>>,
    removed_until: Option<&'t Bytes>,
}

impl<'t> Overlay<'t> {
    /// Merges `table`, which must have no change meanwhile, over a walk from its beginning.
    pub fn new(table: &'t Table) -> Self {
        let entries: Box<dyn Iterator<Item = Entry<'t>> + 't> = Box::new(table.iter());
        Overlay { entries: entries.peekable(), removed_until: None }
    }

    /// Visits pairs of the table before the tree's next pair, and the resulting pair.
    pub fn pair(&mut self, key: &Bytes, value: &Bytes, visit: &mut Visit<'_>) {
        while let Some(entry) = self.entries.next_if(|entry| first_key(entry) <= key) {
            match entry {
                Entry::Range { last, .. } => self.removed_until = Some(last),
                Entry::Value { key: own, value } => {
                    visit(&Bytes::copy_from_slice(own), value);
                    if own == key {
                        return;
                    }
                }
                Entry::Removed { key: own } if own == key => return,
                Entry::Removed { .. } => {}
            }
        }
        if self.removed_until.is_none_or(|end| end <= key) {
            visit(key, value);
        }
    }

    /// Visits the pairs of the table after the tree's last one.
    pub fn finish(mut self, visit: &mut Visit<'_>) {
        for entry in self.entries.by_ref() {
            if let Entry::Value { key, value } = entry {
                visit(&Bytes::copy_from_slice(key), value);
            }
        }
    }
}

fn first_key<'t>(entry: &Entry<'t>) -> &'t [u8] {
    match entry {
        Entry::Range { first, .. } => first,
        Entry::Value { key, .. } | Entry::Removed { key } => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Op;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(number: u8) -> Bytes {
        Bytes::from(vec![number])
    }

    fn any_op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0u8..12, any::<u8>()).prop_map(|(k, v)| Op::Put { key: key(k).into(), value: key(v) }),
            (0u8..12).prop_map(|k| Op::Delete { key: key(k).into() }),
            (0u8..12, 0u8..12).prop_map(|(a, b)| Op::DeleteRange { first: key(a), last: key(b) }),
        ]
    }

    proptest! {
        #[test]
        fn the_overlay_shows_pairs_with_all_changes(
            stored in prop::collection::btree_map(0u8..12, any::<u8>(), 0..12),
            ops in prop::collection::vec(any_op(), 0..12),
        ) {
            let mut expected: BTreeMap<Bytes, Bytes> =
                stored.iter().map(|(k, v)| (key(*k), key(*v))).collect();
            let mut table = Table::default();
            for op in ops {
                table.apply(op.clone());
                match op {
                    Op::Put { key, value } => {
                        drop(expected.insert(Bytes::copy_from_slice(&key), value));
                    }
                    Op::Delete { key } => drop(expected.remove(&key[..])),
                    Op::DeleteRange { first, last } => {
                        expected.retain(|key, _| *key < first || *key >= last);
                    }
                }
            }
            let mut found = Vec::new();
            let mut visit = |key: &Bytes, value: &Bytes| found.push((key.clone(), value.clone()));
            let mut overlay = Overlay::new(&table);
            for (k, v) in &stored {
                overlay.pair(&key(*k), &key(*v), &mut visit);
            }
            overlay.finish(&mut visit);
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
