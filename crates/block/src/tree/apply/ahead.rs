//! Read-ahead for a checkpoint: pages with changes behind the missing one, as far as cached inner
//! pages name them, so that all are read at the same time.

use super::changes::Changes;
use super::context::{Context, PREFETCH_MAX};
use crate::tree::cached::Tree;
use crate::tree::page::Page;
use crate::tree::want::Want;

/// Pages that are examined for each that may be requested: where most are cached, looking costs
/// more than it gains.
const LOOKS_PER_PAGE: usize = 4;
/// Share of the cache that pages requested at once may take.
const CACHE_SHARE: usize = 4;

pub(super) struct Ahead<'a> {
    tree: &'a Tree,
    changes: Changes<'a>,
    /// The pages to request, needed ones first.
    pub wants: Vec<Want>,
    wants_max: usize,
    looks_left: usize,
}

impl<'a> Ahead<'a> {
    /// `wants` are needed immediately.
    pub fn new(context: &'a Context<'_>, changes: Changes<'a>, wants: Vec<Want>) -> Self {
        let wants_max = PREFETCH_MAX.min(context.tree.cache.pages_max() / CACHE_SHARE);
        let looks_left = wants_max * LOOKS_PER_PAGE;
        Ahead { tree: context.tree, changes, wants, wants_max, looks_left }
    }

    /// Examines the children of an inner page from the one at `index` on, whose range begins at
    /// `lower`. The page's own range ends at `upper`.
    pub fn look_below(&mut self, page: &Page, index: usize, lower: &[u8], upper: Option<&[u8]>) {
        let (mut index, mut lower) = (index, lower.to_vec());
        while self.wants.len() < self.wants_max && self.looks_left > 0 {
            self.looks_left -= 1;
            let Some(next) = self.changes.next_from(&lower) else { return };
            if upper.is_some_and(|upper| next >= upper) {
                return;
            }
            index = page.child_index(next).max(index);
            let start = next.to_vec();
            let end = (index + 1 < page.len()).then(|| page.key(index + 1));
            self.look_at(
                Want::page(page.child(index), page.level() - 1),
                &start,
                end.as_deref().or(upper),
            );
            let Some(end) = end else { return };
            (index, lower) = (index + 1, end);
        }
    }

    /// Examines a child with changes from `start` on.
    fn look_at(&mut self, want: Want, start: &[u8], end: Option<&[u8]>) {
        if self.tree.lacks(&want) {
            self.wants.push(want);
        } else if want.level > Some(0) {
            let Some(bytes) = self.tree.cache.peek(want.page, want.crc) else { return };
            let page = Page::checked_before(bytes);
            self.look_below(&page, page.child_index(start), start, end);
        }
    }
}
