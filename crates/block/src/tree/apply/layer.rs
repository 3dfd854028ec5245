//! Changing one layer of the tree, from left to right.
//!
//! `frames` is the path of old inner pages down to the current position; `levels` has a builder per
//! level that collects the new content. A child without changes goes into its parent's builder as
//! it is. A child with changes is opened; at its end, the content of its builder is cut into pages,
//! and their references go into the builder above.
//!
//! * If little is left of a page, the content stays in the builder and the next sibling is opened,
//!   too, whether it has changes or not.
//! * If nothing is left of a page, the page after it takes over its range: it goes into the parent
//!   with the `pending` lower bound. Without a next page below the same parent, the page before it
//!   takes over the range, which needs no action because a page's range ends where the next one
//!   begins.
//! * A page that was opened and turns out to have no changes is kept.

use super::ahead::Ahead;
use super::changes::{Changes, successor};
use super::context::{Context, Stop};
use super::jobs::KeyBase;
use super::write::write_page;
use crate::device::BLOCK;
use crate::tree::builder::Builder;
use crate::tree::page::{CellKind, Page};
use crate::tree::read::page_key;
use crate::tree::reference::{PageRef, Top};
use crate::tree::want::Absent;
use bytes::Bytes;

mod merge;

/// A page filled with fewer bytes is merged with its neighbour.
const SMALL: usize = BLOCK / 4;
/// Removals of keys that are looked up to find out whether a leaf changes at all.
const PROBES_MAX: usize = 64;

pub(super) enum Outcome {
    Onward,
    /// The layer of these first bytes of keys must be changed next, and ended by [`Layer::leave`].
    Enter {
        prefix: Vec<u8>,
        top: Option<Top>,
    },
    Finished(Option<Top>),
}

#[derive(Debug)]
pub(super) struct Layer {
    /// Prefix of all keys of this layer, not stored in its pages.
    prefix: Bytes,
    base: KeyBase,
    top: Option<Top>,
    started: bool,
    /// All changes before this key are done; `None` if all are.
    position: Option<Vec<u8>>,
    frames: Vec<Frame>,
    leaf: Option<LeafCursor>,
    levels: Vec<Level>,
    /// Key of the layer that is being changed.
    entered: Option<Entered>,
}

/// An old inner page.
#[derive(Debug)]
struct Frame {
    page: Page,
    reference: PageRef,
    /// Next child.
    index: usize,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    changed: bool,
    /// Set if the builder of its level was empty when the page was opened.
    alone: bool,
}

impl Frame {
    fn lower(&self, index: usize) -> Vec<u8> {
        if index == 0 { self.lower.clone() } else { self.page.key(index) }
    }

    fn upper(&self, index: usize) -> Option<Vec<u8>> {
        if index + 1 < self.page.len() {
            Some(self.page.key(index + 1))
        } else {
            self.upper.clone()
        }
    }
}

/// An old leaf; `None` inside if the tree was empty.
#[derive(Debug)]
struct LeafCursor {
    page: Option<(Page, PageRef)>,
    index: usize,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Entered {
    page_key: Vec<u8>,
    inserted: bool,
}

/// The new content of one level.
#[derive(Debug)]
struct Level {
    builder: Builder,
    /// Start of the range of the next leaf. Inner pages begin with their first key.
    lower: Vec<u8>,
    /// Start of the range of an emptied page, which the next page takes over.
    pending: Option<Vec<u8>>,
    /// Pages cut since an old page of this level was opened.
    pages: usize,
}

impl Level {
    fn new(level: usize) -> Self {
        Level { builder: Builder::new(level as u8), lower: Vec::new(), pending: None, pages: 0 }
    }
}

impl Layer {
    pub(super) fn new(prefix: Vec<u8>, top: Option<Top>) -> Self {
        Layer {
            base: KeyBase::of(&prefix),
            prefix: prefix.into(),
            top,
            started: false,
            position: Some(Vec::new()),
            frames: Vec::new(),
            leaf: None,
            levels: vec![Level::new(0), Level::new(1)],
            entered: None,
        }
    }

    /// Does one piece of work. Reports missing pages before it changes anything.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) -> Result<Outcome, Stop> {
        if !self.started {
            self.start(context)?;
            self.started = true;
            Ok(Outcome::Onward)
        } else if self.leaf.is_some() {
            self.merge_leaf(context)
        } else if !self.frames.is_empty() {
            self.advance_frame(context)
        } else {
            self.finish(context)
        }
    }

    /// Ends the entered layer, whose new top is `top`.
    pub(super) fn leave(&mut self, top: Option<Top>) {
        let entered = self.entered.take().expect("a layer is left after it was entered");
        if let Some(top) = top {
            let builder = &mut self.levels[0].builder;
            let Entered { page_key, inserted } = entered;
            builder.push(&page_key, CellKind::Layer, &top.to_bytes(), inserted);
        }
    }

    fn start(&mut self, context: &mut Context<'_>) -> Result<(), Stop> {
        match self.top {
            Some(top) => self.open(context, top.page, top.height - 1, Vec::new(), None)?,
            None => {
                let (page, index, lower, upper) = (None, 0, Vec::new(), None);
                self.leaf = Some(LeafCursor { page, index, lower, upper });
            }
        }
        Ok(())
    }

    fn open(
        &mut self,
        context: &mut Context<'_>,
        reference: PageRef,
        level: u8,
        lower: Vec<u8>,
        upper: Option<Vec<u8>>,
    ) -> Result<(), Absent> {
        let page = context.tree.fetch_page(reference, level)?;
        context.output.pages_seen += 1;
        if self.position.as_ref().is_some_and(|position| *position < lower) {
            self.position = Some(lower.clone());
        }
        self.level(usize::from(level) + 1);
        let alone = self.levels[usize::from(level)].builder.is_empty();
        if level > 0 {
            let (index, changed) = (0, false);
            self.frames.push(Frame { page, reference, index, lower, upper, changed, alone });
        } else if alone && !self.changes_leaf(context, &page, upper.as_deref()) {
            self.keep(0, lower, reference);
            self.position = upper;
            self.child_done(false);
        } else {
            if alone {
                self.levels[0].lower.clone_from(&lower);
            }
            self.leaf = Some(LeafCursor { page: Some((page, reference)), index: 0, lower, upper });
        }
        Ok(())
    }

    /// Set if anything in the leaf is put or removed from the position on.
    fn changes_leaf(&self, context: &Context<'_>, leaf: &Page, upper: Option<&[u8]>) -> bool {
        let Some(position) = &self.position else { return false };
        let changes = Changes::new(context.table, &self.prefix);
        for (probes, (key, value)) in changes.points(position, upper).enumerate() {
            if value.is_some() || probes == PROBES_MAX || leaf.search(page_key(key)).is_ok() {
                return true;
            }
        }
        if !changes.removes_some(position, upper) {
            return false;
        }
        let mut ranges = changes.ranges(position);
        (0..leaf.len()).any(|index| match leaf.entry(index).kind {
            CellKind::Layer => {
                let key = leaf.key(index);
                changes.removes_some(&key, successor(&key).as_deref())
            }
            _ => ranges.cover(&leaf.key(index)),
        })
    }

    fn advance_frame(&mut self, context: &mut Context<'_>) -> Result<Outcome, Stop> {
        let frame = self.frames.last().expect("the caller looked");
        let below = usize::from(frame.page.level()) - 1;
        let carries = !self.levels[below].builder.is_empty();
        if frame.index == frame.page.len() {
            if carries {
                self.flush(context, below)?;
            }
            self.close_frame(context)?;
        } else if carries || self.keep_unchanged(context)? {
            self.open_child(context)?;
        }
        Ok(Outcome::Onward)
    }

    /// Keeps children up to the next one with changes. True if that one is to be opened; otherwise
    /// there is none, or it was dropped as a whole.
    fn keep_unchanged(&mut self, context: &mut Context<'_>) -> Result<bool, Stop> {
        let prefix = self.prefix.clone();
        let changes = Changes::new(context.table, &prefix);
        let frame = self.frames.last_mut().expect("the caller looked");
        let level = usize::from(frame.page.level());
        let from = match &self.position {
            Some(position) => Some(frame.lower(frame.index).max(position.clone())),
            None => None,
        };
        let next = from.as_ref().and_then(|from| changes.next_from(from));
        let next = next.filter(|next| frame.upper.as_ref().is_none_or(|upper| *next < &upper[..]));
        let target = match next {
            Some(next) => frame.page.child_index(next).max(frame.index),
            None => frame.page.len(),
        };
        keep_children(&mut self.levels, frame, target);
        let dropped = next.is_some() && self.drop_child(context, changes, level - 1);
        self.spill(context, level)?;
        Ok(next.is_some() && !dropped)
    }

    /// Drops the current child if all of it is removed.
    fn drop_child(
        &mut self,
        context: &mut Context<'_>,
        changes: Changes<'_>,
        below: usize,
    ) -> bool {
        let frame = self.frames.last_mut().expect("the caller looked");
        let (lower, upper) = (frame.lower(frame.index), frame.upper(frame.index));
        if !changes.removes_all(&lower, upper.as_deref()) {
            return false;
        }
        context.release.page(frame.page.child(frame.index), below as u8, self.base);
        frame.index += 1;
        frame.changed = true;
        self.levels[below].pending.get_or_insert(lower);
        self.position = upper;
        true
    }

    fn open_child(&mut self, context: &mut Context<'_>) -> Result<(), Stop> {
        let frame = self.frames.last().expect("the caller looked");
        let (index, level) = (frame.index, frame.page.level() - 1);
        let (lower, upper) = (frame.lower(index), frame.upper(index));
        let result = self.open(context, frame.page.child(index), level, lower, upper);
        result.map_err(|absent| self.absent_with_next(context, absent).into())
    }

    /// Adds the following pages with changes to the missing ones, to be read at the same time.
    fn absent_with_next(&self, context: &Context<'_>, absent: Absent) -> Absent {
        let Absent::Missing(wants) = absent else { return absent };
        let changes = Changes::new(context.table, &self.prefix);
        let mut ahead = Ahead::new(context, changes, wants);
        for frame in self.frames.iter().rev() {
            let first = frame.index + 1;
            if first < frame.page.len() {
                ahead.look_below(
                    &frame.page,
                    first,
                    &frame.page.key(first),
                    frame.upper.as_deref(),
                );
            }
        }
        Absent::Missing(ahead.wants)
    }

    fn close_frame(&mut self, context: &mut Context<'_>) -> Result<(), Stop> {
        let frame = self.frames.pop().expect("the caller looked");
        let level = usize::from(frame.page.level());
        self.levels[level - 1].pending = None;
        if !frame.changed && frame.alone {
            self.levels[level].builder.clear();
            self.keep(level, frame.lower, frame.reference);
            self.child_done(false);
            return Ok(());
        }
        context.output.free_page(frame.reference.page, level as u8);
        self.child_done(true);
        self.page_done(context, level, frame.lower)
    }

    fn child_done(&mut self, changed: bool) {
        if let Some(parent) = self.frames.last_mut() {
            parent.index += 1;
            parent.changed |= changed;
        }
    }

    /// Decides the fate of an old page whose content is in its builder.
    fn page_done(
        &mut self,
        context: &mut Context<'_>,
        level: usize,
        lower: Vec<u8>,
    ) -> Result<(), Stop> {
        // The fate of the top is decided at the end.
        let Some(parent) = self.frames.last() else { return Ok(()) };
        let has_sibling = parent.index < parent.page.len();
        let Level { builder, pending, pages, .. } = &mut self.levels[level];
        if builder.is_empty() && *pages == 0 {
            pending.get_or_insert(lower);
            return Ok(());
        }
        if *pages == 0 && has_sibling && builder.fits(SMALL) {
            return Ok(());
        }
        self.flush(context, level)
    }

    /// Keeps the old page.
    fn keep(&mut self, level: usize, lower: Vec<u8>, page: PageRef) {
        let lower = self.levels[level].pending.take().unwrap_or(lower);
        let above = self.level(level + 1);
        above.builder.push(&lower, CellKind::Child, &page.to_bytes(), false);
    }

    /// Cuts all content of a level into pages.
    fn flush(&mut self, context: &mut Context<'_>, level: usize) -> Result<(), Stop> {
        let mut done = 0;
        for end in self.levels[level].builder.cuts() {
            self.emit(context, level, end - done)?;
            done = end;
        }
        self.levels[level].pages = 0;
        Ok(())
    }

    /// Cuts off full pages if there is more content than must be kept at hand.
    fn spill(&mut self, context: &mut Context<'_>, level: usize) -> Result<(), Stop> {
        while let Some(entries) = self.levels[level].builder.spill() {
            self.emit(context, level, entries)?;
        }
        Ok(())
    }

    fn emit(
        &mut self,
        context: &mut Context<'_>,
        level: usize,
        entries: usize,
    ) -> Result<(), Stop> {
        let Level { builder, lower, pending, pages } = &mut self.levels[level];
        let page = write_page(context, builder, level as u8, entries)?;
        let own = if level == 0 { std::mem::take(lower) } else { builder.key(0).to_vec() };
        if level == 0 && entries < builder.len() {
            *lower = builder.separator(entries).to_vec();
        }
        builder.remove_first(entries);
        let (own, inserted) = (pending.take().unwrap_or(own), *pages > 0);
        *pages += 1;
        let above = self.level(level + 1);
        above.builder.push(&own, CellKind::Child, &page.to_bytes(), inserted);
        self.spill(context, level + 1)
    }

    fn level(&mut self, level: usize) -> &mut Level {
        while self.levels.len() <= level {
            self.levels.push(Level::new(self.levels.len()));
        }
        &mut self.levels[level]
    }

    /// All old pages are done: cuts the remaining content into pages until one page holds all.
    fn finish(&mut self, context: &mut Context<'_>) -> Result<Outcome, Stop> {
        let mut level = self.top.map_or(0, |top| usize::from(top.height) - 1);
        loop {
            let builder = &self.level(level).builder;
            if level > 0 && builder.len() == 1 && builder.pages == 0 {
                let page = PageRef::from_bytes(builder.cell(0));
                return Ok(Outcome::Finished(Some(Top { page, height: level as u8 })));
            }
            if builder.is_empty() && self.level(level + 1).builder.is_empty() {
                return Ok(Outcome::Finished(None));
            }
            self.flush(context, level)?;
            level += 1;
        }
    }
}

/// Moves the frame's children up to `target` to the builder without changes.
fn keep_children(levels: &mut [Level], frame: &mut Frame, target: usize) {
    let level = usize::from(frame.page.level());
    for index in frame.index..target {
        let entry = frame.page.entry(index);
        let pending = levels[level - 1].pending.take();
        let builder = &mut levels[level].builder;
        match pending {
            Some(lower) => builder.push(&lower, CellKind::Child, entry.cell, false),
            None if index == 0 => builder.push(&frame.lower, CellKind::Child, entry.cell, false),
            None => {
                let (prefix, suffix) = (frame.page.prefix(), entry.suffix);
                builder.push_split(prefix, suffix, CellKind::Child, entry.cell, false);
            }
        }
    }
    frame.index = target;
}
