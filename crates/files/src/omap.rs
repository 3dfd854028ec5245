//! Changes of an object's omap since the last checkpoint, as layers over what the database holds.
//!
//! An object has at most two: the current [`Overlay`], and below it the frozen one that a running
//! checkpoint is writing into the database. Reading merges them from top to bottom: the first layer
//! that knows a key (or hides it) decides.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::OmapPage;

/// Invariants: `removed` holds disjoint, non-adjacent, non-empty ranges, and is empty if `cleared`.
#[derive(Debug, Default)]
pub struct Overlay {
    /// Hides all layers below.
    pub cleared: bool,
    /// Ranges (first inclusive, last exclusive) that are hidden in the layers below.
    pub removed: BTreeMap<Bytes, Bytes>,
    /// `None` is a removed key.
    pub pairs: BTreeMap<Bytes, Option<Bytes>>,
}

impl Overlay {
    /// The overlay of a new object.
    pub fn cleared() -> Self {
        Overlay { cleared: true, ..Overlay::default() }
    }

    /// True if the layers below decide for every key.
    pub fn is_empty(&self) -> bool {
        !self.cleared && self.removed.is_empty() && self.pairs.is_empty()
    }

    /// Sets keys to values.
    pub fn set(&mut self, pairs: &BTreeMap<Bytes, Bytes>) {
        // A copy, since the message would stay in memory otherwise.
        let own = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        let owned = |(key, value): (&Bytes, &Bytes)| (own(key), Some(own(value)));
        self.pairs.extend(pairs.iter().map(owned));
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &Bytes) {
        if self.hides(key) {
            self.pairs.remove(key);
        } else {
            self.pairs.insert(Bytes::copy_from_slice(key), None);
        }
    }

    /// Removes the keys from `first` on, before `last`.
    pub fn remove_range(&mut self, first: &Bytes, last: &Bytes) {
        if first >= last {
            return;
        }
        let inside: Vec<Bytes> =
            self.pairs.range::<Bytes, _>(first..last).map(|(key, _)| key.clone()).collect();
        for key in inside {
            self.pairs.remove(&key);
        }
        if !self.cleared {
            self.hide_range(Bytes::copy_from_slice(first), Bytes::copy_from_slice(last));
        }
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        *self = Overlay::cleared();
    }

    fn hide_range(&mut self, mut first: Bytes, mut last: Bytes) {
        let touching: Vec<Bytes> = (self.removed.range::<Bytes, _>(..=&last).rev())
            .take_while(|(_, end)| **end >= first)
            .map(|(start, _)| start.clone())
            .collect();
        for start in touching {
            let end = self.removed.remove(&start).expect("listed just now");
            first = first.min(start);
            last = last.max(end);
        }
        self.removed.insert(first, last);
    }

    fn hides(&self, key: &Bytes) -> bool {
        let range = || self.removed.range::<Bytes, _>(..=key).next_back();
        self.cleared || range().is_some_and(|(_, last)| key < last)
    }

    /// This layer's answer for a key: `None` if the layers below decide.
    fn lookup(&self, key: &Bytes) -> Option<Option<Bytes>> {
        match self.pairs.get(key) {
            Some(known) => Some(known.clone()),
            None => self.hides(key).then_some(None),
        }
    }
}

/// The value of a key; `base` is called if no layer decides.
pub fn lookup<E>(
    layers: &[&Overlay],
    key: &Bytes,
    base: impl FnOnce(&Bytes) -> Result<Option<Bytes>, E>,
) -> Result<Option<Bytes>, E> {
    match layers.iter().find_map(|layer| layer.lookup(key)) {
        Some(known) => Ok(known),
        None => base(key),
    }
}

/// Range and bounds of a listing, as in `RequestKind::OmapList`.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// The page begins behind this key.
    pub after: Option<Bytes>,
    /// Keys begin with it.
    pub prefix: Bytes,
    /// Bound for the number of keys.
    pub entries_max: usize,
    /// Bound for the bytes of keys and values; one pair is returned in any case.
    pub bytes_max: usize,
}

impl PageRequest {
    /// All keys without bounds.
    pub fn everything() -> Self {
        let (after, prefix) = (None, Bytes::new());
        PageRequest { after, prefix, entries_max: usize::MAX, bytes_max: usize::MAX }
    }

    /// Start of the listing.
    pub fn start(&self) -> Bound<&Bytes> {
        match &self.after {
            Some(after) if *after >= self.prefix => Bound::Excluded(after),
            _ => Bound::Included(&self.prefix),
        }
    }
}

/// Lists pairs. `base` yields the database's pairs from `request.start()` on, in key order.
pub fn page<E>(
    layers: &[&Overlay],
    base: impl Iterator<Item = Result<(Bytes, Bytes), E>>,
    request: &PageRequest,
) -> Result<OmapPage, E> {
    let mut page = OmapPage::default();
    let mut bytes = 0;
    for pair in merged(layers, base, request.start()) {
        let (key, value) = pair?;
        if !key.starts_with(&request.prefix) {
            break;
        }
        bytes += key.len() + value.len();
        let full = page.pairs.len() >= request.entries_max;
        if full || (bytes > request.bytes_max && !page.pairs.is_empty()) {
            page.more = true;
            break;
        }
        page.pairs.insert(key, value);
    }
    Ok(page)
}

fn merged<'a, E: 'a>(
    layers: &'a [&'a Overlay],
    base: impl Iterator<Item = Result<(Bytes, Bytes), E>> + 'a,
    start: Bound<&Bytes>,
) -> impl Iterator<Item = Result<(Bytes, Bytes), E>> + 'a {
    let ranges =
        layers.iter().map(|layer| layer.pairs.range::<Bytes, _>((start, Bound::Unbounded)));
    let mut ranges: Vec<_> = ranges.map(Iterator::peekable).collect();
    let hidden = layers.iter().any(|layer| layer.cleared);
    let mut base = base.take_while(move |_| !hidden).peekable();
    std::iter::from_fn(move || {
        loop {
            if let Some(Err(_)) = base.peek() {
                return base.next();
            }
            let base_key = base.peek().and_then(|pair| pair.as_ref().ok()).map(|(key, _)| key);
            let keys = ranges.iter_mut().filter_map(|range| range.peek().map(|(key, _)| *key));
            let key = keys.chain(base_key).min()?.clone();
            let below = match base.next_if(|pair| pair.as_ref().is_ok_and(|(k, _)| *k == key)) {
                Some(Ok((_, value))) => Some(value),
                _ => None,
            };
            for range in &mut ranges {
                range.next_if(|(k, _)| **k == key);
            }
            let known = layers.iter().find_map(|layer| layer.lookup(&key));
            if let Some(value) = known.unwrap_or(below) {
                return Some(Ok((key, value)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    type Plain = BTreeMap<Bytes, Bytes>;

    #[derive(Debug, Clone)]
    enum Step {
        Set(Plain),
        Remove(Bytes),
        RemoveRange(Bytes, Bytes),
        Clear,
    }

    fn any_key() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(0u8..4, 1..3).prop_map(Bytes::from)
    }

    fn any_plain() -> impl Strategy<Value = Plain> {
        prop::collection::btree_map(any_key(), any_key(), 0..6)
    }

    fn any_steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => any_plain().prop_map(Step::Set),
            2 => any_key().prop_map(Step::Remove),
            2 => (any_key(), any_key()).prop_map(|(first, last)| Step::RemoveRange(first, last)),
            1 => Just(Step::Clear),
        ];
        prop::collection::vec(step, 0..12)
    }

    fn apply(plain: &mut Plain, overlay: &mut Overlay, step: &Step) {
        match step {
            Step::Set(pairs) => {
                plain.extend(pairs.clone());
                overlay.set(pairs);
            }
            Step::Remove(key) => {
                plain.remove(key);
                overlay.remove(key);
            }
            Step::RemoveRange(first, last) => {
                plain.retain(|key, _| key < first || key >= last);
                overlay.remove_range(first, last);
            }
            Step::Clear => {
                plain.clear();
                overlay.clear();
            }
        }
    }

    proptest! {
        #[test]
        fn layers_over_a_base_equal_one_map(
            base in any_plain(), below in any_steps(), above in any_steps(), key in any_key(),
            after in prop::option::of(any_key()), entries_max in 1usize..9
        ) {
            let (mut plain, mut frozen, mut current) =
                (base.clone(), Overlay::default(), Overlay::default());
            below.iter().for_each(|step| apply(&mut plain, &mut frozen, step));
            above.iter().for_each(|step| apply(&mut plain, &mut current, step));
            let layers = [&current, &frozen];
            let found = lookup(&layers, &key, |key| Ok::<_, Infallible>(base.get(key).cloned()));
            prop_assert_eq!(found.unwrap(), plain.get(&key).cloned());

            let request = PageRequest { after, entries_max, ..PageRequest::everything() };
            let range = (request.start(), Bound::Unbounded);
            let pairs = base.range::<Bytes, _>(range).map(|(k, v)| Ok((k.clone(), v.clone())));
            let listed = page::<Infallible>(&layers, pairs, &request).unwrap();
            let mut rest = plain.range::<Bytes, _>(range);
            let expected: Plain = rest.by_ref().take(entries_max)
                .map(|(k, v)| (k.clone(), v.clone())).collect();
            prop_assert_eq!(listed.pairs, expected);
            prop_assert_eq!(listed.more, rest.next().is_some());
        }
    }
}
