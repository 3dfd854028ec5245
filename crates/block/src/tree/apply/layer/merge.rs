//! Merging an old leaf with the changes in its range.

use super::{Entered, Layer, LeafCursor, Outcome};
use crate::table::Table;
use crate::tree::apply::changes::{Changes, Points, Ranges, successor};
use crate::tree::apply::context::{Context, Stop};
use crate::tree::apply::release::release_entry;
use crate::tree::apply::write::write_overflow;
use crate::tree::page::{CellKind, KEY_LEN_MAX, Page, is_inline};
use crate::tree::read::page_key;
use crate::tree::reference::Top;
use bytes::Bytes;
use std::cmp::Ordering;
use std::iter::Peekable;

/// Inputs of merging a leaf.
struct Sources<'a> {
    changes: Changes<'a>,
    points: Peekable<Points<'a>>,
    ranges: Ranges<'a>,
}

/// Next entry of the merge.
enum Next<'a> {
    /// An old pair without a change.
    Old,
    /// A put or removed key, and whether it is in the old leaf.
    Point { key: &'a [u8], value: &'a Option<Bytes>, is_old: bool },
}

impl Layer {
    /// Continues until the leaf is at its end, the step is exhausted or a layer must be entered.
    pub(super) fn merge_leaf(&mut self, context: &mut Context<'_>) -> Result<Outcome, Stop> {
        let prefix = self.prefix.clone();
        let mut cursor = self.leaf.take().expect("the caller looked");
        let mut sources = self.sources(context.table, &prefix, &cursor);
        // Key of the current old entry.
        let mut old = Vec::new();
        cursor.load_key(&mut old);
        loop {
            self.spill(context, 0)?;
            let Some(next) = next(&mut sources, &cursor, &old) else { break };
            if context.is_exhausted() {
                self.pause(next, cursor, old);
                return Ok(Outcome::Onward);
            }
            if let Some(entered) = self.layer_to_enter(&sources, &next, &cursor, &old) {
                return Ok(self.enter(entered, cursor));
            }
            match next {
                Next::Old => self.merge_old(context, &mut sources, &cursor, &old),
                Next::Point { key, value, is_old } => {
                    sources.points.next();
                    context.output.changes_merged += 1;
                    if is_old {
                        self.release_old(context, &cursor);
                    }
                    if let Some(value) = value {
                        self.put(context, key, value, !is_old)?;
                    }
                    if !is_old {
                        continue;
                    }
                }
            }
            cursor.index += 1;
            cursor.load_key(&mut old);
        }
        self.close_leaf(context, cursor)?;
        Ok(Outcome::Onward)
    }

    fn sources<'a>(&self, table: &'a Table, prefix: &'a [u8], cursor: &LeafCursor) -> Sources<'a> {
        let changes = Changes::new(table, prefix);
        let upper = cursor.upper.as_deref();
        let (points, ranges) = match &self.position {
            Some(position) => (changes.points(position, upper), changes.ranges(position)),
            None => (Points::none(), Ranges::none()),
        };
        Sources { changes, points: points.peekable(), ranges }
    }

    fn pause(&mut self, next: Next<'_>, cursor: LeafCursor, old: Vec<u8>) {
        self.position = match next {
            Next::Old => Some(old),
            Next::Point { key, .. } => Some(key.to_vec()),
        };
        self.leaf = Some(cursor);
    }

    /// The layer of the current pairs, if they lie in one and it changes.
    fn layer_to_enter(
        &self,
        sources: &Sources<'_>,
        next: &Next<'_>,
        cursor: &LeafCursor,
        old: &[u8],
    ) -> Option<(Entered, Option<Top>)> {
        match next {
            Next::Point { key, is_old, .. } if key.len() >= KEY_LEN_MAX => {
                let entered = Entered { page_key: page_key(key).to_vec(), inserted: !is_old };
                Some((entered, is_old.then(|| cursor.layer())))
            }
            Next::Old if old.len() == KEY_LEN_MAX => {
                let behind = successor(old);
                let changes = sources.changes;
                let changed = changes.removes_some(old, behind.as_deref())
                    && !changes.removes_all(old, behind.as_deref());
                let entered = Entered { page_key: old.to_vec(), inserted: false };
                changed.then(|| (entered, Some(cursor.layer())))
            }
            _ => None,
        }
    }

    fn enter(&mut self, (entered, top): (Entered, Option<Top>), mut cursor: LeafCursor) -> Outcome {
        let prefix = [&self.prefix, entered.page_key.as_slice()].concat();
        self.position = successor(&entered.page_key);
        cursor.index += usize::from(top.is_some());
        self.leaf = Some(cursor);
        self.entered = Some(entered);
        Outcome::Enter { prefix, top }
    }

    fn merge_old(
        &mut self,
        context: &mut Context<'_>,
        sources: &mut Sources<'_>,
        cursor: &LeafCursor,
        old: &[u8],
    ) {
        if sources.ranges.cover(old) {
            return self.release_old(context, cursor);
        }
        let entry = cursor.page().entry(cursor.index);
        self.levels[0].builder.push(old, entry.kind, entry.cell, false);
    }

    fn release_old(&self, context: &mut Context<'_>, cursor: &LeafCursor) {
        release_entry(context, cursor.page(), cursor.index, self.base);
    }

    fn put(
        &mut self,
        context: &mut Context<'_>,
        key: &[u8],
        value: &[u8],
        inserted: bool,
    ) -> Result<(), Stop> {
        let pair = self.base.pair(key.first().copied(), key.len(), value.len());
        context.output.totals.add(pair, 1);
        context.output.longest = context.output.longest.max(key.len());
        let builder = &mut self.levels[0].builder;
        if is_inline(key.len(), value.len()) {
            builder.push(key, CellKind::Inline, value, inserted);
        } else {
            let cell = write_overflow(context, value)?;
            builder.push(key, CellKind::Overflow, &cell, inserted);
        }
        Ok(())
    }

    fn close_leaf(&mut self, context: &mut Context<'_>, cursor: LeafCursor) -> Result<(), Stop> {
        if let Some((_, reference)) = cursor.page {
            context.output.free_page(reference.page, 0);
        }
        self.position = cursor.upper;
        self.child_done(true);
        self.page_done(context, 0, cursor.lower)
    }
}

impl LeafCursor {
    fn page(&self) -> &Page {
        &self.page.as_ref().expect("there is an old entry").0
    }

    fn has_entry(&self) -> bool {
        self.page.as_ref().is_some_and(|(page, _)| self.index < page.len())
    }

    fn load_key(&self, key: &mut Vec<u8>) {
        key.clear();
        if self.has_entry() {
            key.extend_from_slice(self.page().prefix());
            key.extend_from_slice(self.page().entry(self.index).suffix);
        }
    }

    fn layer(&self) -> Top {
        Top::from_bytes(self.page().entry(self.index).cell)
    }
}

fn next<'a>(sources: &mut Sources<'a>, cursor: &LeafCursor, old: &[u8]) -> Option<Next<'a>> {
    let point = sources.points.peek().copied();
    let order = match (cursor.has_entry(), &point) {
        (false, None) => return None,
        (true, None) => Ordering::Less,
        (false, Some(_)) => Ordering::Greater,
        (true, Some((key, _))) => old.cmp(page_key(key)),
    };
    match point {
        Some((key, value)) if order != Ordering::Less => {
            Some(Next::Point { key, value, is_old: order == Ordering::Equal })
        }
        _ => Some(Next::Old),
    }
}
