//! The queue of work that is possible now.
//!
//! A change that may enable something pushes an item instead of calling a function that may call back. Items
//! are performed depth first, as nested calls would be: what an item pushes comes before everything older,
//! in the order in which it was pushed. So the order of outputs is that of the calls which the items replace.
//!
//! Most items are hints: keys without state, harmless if late, repeated or without an object. `Piece`,
//! `Trimmed`, `GivenUp` and `Repaired` are results: each is pushed exactly once, when its request ends.

use crate::operations::keys::ObjectKey;
use crate::operations::request::Origin;
use pg::WatcherKey;
use std::collections::VecDeque;
use types::{HObject, PgShard};
use wire::OsdReply;

/// Something that may be possible now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    /// The group may have outputs.
    Group(PgShard),
    /// The queue of the object may have a request that can run.
    Object(ObjectKey),
    /// This request, which has begun, has got all that it waited for.
    Continue(u64),
    /// The next read of this origin may be answered, as the one before it is.
    Readers(ObjectKey, Origin),
    /// A request of our own can be admitted.
    Admit(u64),
    /// A piece of the copy with this number was read here.
    Piece(u64, Box<OsdReply>),
    /// The removal of a snapshot from an object has ended, with success or not.
    Trimmed(PgShard, bool),
    /// The removal of a lost object has ended with this result, for the command with this number.
    GivenUp(u64, i32),
    /// The watch of an object must end: its client is silent or blocklisted.
    Unwatch(Box<(PgShard, HObject, WatcherKey)>),
    /// So many of the requests that waited for the group can be started.
    Wake(PgShard, usize),
    /// A group's own copy of an object that a read or write found damaged is replaced.
    Repaired(PgShard),
    /// Reads wait for leases, which must be requested.
    AskForLeases,
    /// A reservation for backfill may be free.
    GrantBackfill,
    /// No split or merge is left that the map waits for.
    StoreMap,
}

const _: () = assert!(size_of::<Work>() <= 40, "items are moved often");

/// Work in the order in which it must be performed.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    items: VecDeque<Work>,
    /// Number of items, in front, that the item in work has pushed.
    children: usize,
    is_settling: bool,
}

impl WorkQueue {
    /// Adds an item behind those that the item in work has pushed, and before all older ones.
    pub fn push(&mut self, work: Work) {
        self.items.insert(self.children, work);
        self.children += 1;
    }

    /// The next item; the one before it is done.
    pub fn pop(&mut self) -> Option<Work> {
        self.children = 0;
        self.items.pop_front()
    }

    /// Whether the item in work has pushed any, which must precede the rest of it.
    pub fn has_children(&self) -> bool {
        self.children > 0
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Notes that work is being performed. Panics if it already is: an item must not perform others.
    pub fn begin(&mut self) {
        assert!(!std::mem::replace(&mut self.is_settling, true), "work performs no work");
    }

    /// Notes that no work is left.
    pub fn end(&mut self) {
        assert!(self.items.is_empty(), "work is performed until none is left");
        self.is_settling = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tree of work: the number of an item, and what it makes possible.
    #[derive(Debug, Clone)]
    struct Tree(u64, Vec<Tree>);

    fn trees() -> impl Strategy<Value = Tree> {
        let leaf = any::<u64>().prop_map(|number| Tree(number, Vec::new()));
        leaf.prop_recursive(6, 200, 6, |inner| {
            let children = prop::collection::vec(inner, 0..6);
            (any::<u64>(), children).prop_map(|(number, children)| Tree(number, children))
        })
    }

    fn call(tree: &Tree, performed: &mut Vec<u64>) {
        performed.push(tree.0);
        tree.1.iter().for_each(|child| call(child, performed));
    }

    /// Performs a tree from the queue. Numbers of items are places in `known`.
    fn settle(roots: &[Tree]) -> Vec<u64> {
        let (mut queue, mut known, mut performed) = (WorkQueue::default(), Vec::new(), Vec::new());
        let push_all = |queue: &mut WorkQueue, known: &mut Vec<Tree>, trees: &[Tree]| {
            for tree in trees {
                queue.push(Work::Continue(known.len() as u64));
                known.push(tree.clone());
            }
        };
        push_all(&mut queue, &mut known, roots);
        queue.begin();
        while let Some(work) = queue.pop() {
            let Work::Continue(place) = work else { unreachable!("nothing else was pushed") };
            let Tree(number, children) = known[place as usize].clone();
            performed.push(number);
            push_all(&mut queue, &mut known, &children);
            assert_eq!(queue.has_children(), !children.is_empty());
        }
        queue.end();
        performed
    }

    proptest! {
        #[test]
        fn items_are_performed_in_the_order_of_nested_calls(
            roots in prop::collection::vec(trees(), 0..4),
        ) {
            let mut called = Vec::new();
            roots.iter().for_each(|tree| call(tree, &mut called));
            prop_assert_eq!(settle(&roots), called);
        }
    }

    #[test]
    #[should_panic(expected = "work performs no work")]
    fn work_that_performs_work_is_a_defect() {
        let mut queue = WorkQueue::default();
        queue.begin();
        queue.begin();
    }
}
