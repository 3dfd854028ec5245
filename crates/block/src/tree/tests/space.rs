//! Tests of the metadata space.

use crate::device::Extent;
use crate::tree::{PageSource, PageSpace};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
enum Action {
    Take(u64),
    Free(usize),
    Commit,
    Abandon,
    AddRun(u64),
    Return(u64),
    AddRuns(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1u64..20).prop_map(Action::Take),
        3 => any::<usize>().prop_map(Action::Free),
        1 => Just(Action::Commit),
        1 => Just(Action::Abandon),
        1 => (1u64..200).prop_map(Action::AddRun),
        1 => prop_oneof![1..100u64, Just(u64::MAX)].prop_map(Action::Return),
        1 => (1u64..100).prop_map(Action::AddRuns),
    ]
}

#[derive(Default)]
struct Model {
    total: u64,
    end: u64,
    old: BTreeSet<u64>,
    new: BTreeSet<u64>,
    leaving: BTreeSet<u64>,
}

impl Model {
    fn apply(&mut self, space: &mut PageSpace, action: &Action) {
        match action {
            Action::Take(pages) => match space.allocate_run(*pages) {
                Some(extent) => {
                    assert!((1..=*pages).contains(&extent.count));
                    for page in extent.start..extent.end() {
                        assert!(!self.old.contains(&page) && self.new.insert(page));
                    }
                }
                None => assert_eq!(self.total, (self.old.len() + self.new.len()) as u64),
            },
            Action::Free(which) => {
                let stays: Vec<u64> = self.old.difference(&self.leaving).copied().collect();
                if let Some(page) = stays.get(which % stays.len().max(1)) {
                    self.leaving.insert(*page);
                    space.free_later(Extent::new(*page, 1)).unwrap();
                }
            }
            Action::Commit => {
                space.commit();
                self.old.append(&mut self.new);
                self.old.retain(|page| !self.leaving.contains(page));
                self.leaving.clear();
            }
            Action::Abandon => {
                space.abandon();
                self.new.clear();
                self.leaving.clear();
            }
            Action::AddRun(pages) => {
                space.add_run(Extent::new(self.end, *pages));
                self.total += pages;
                self.end += pages + pages % 3;
            }
            Action::AddRuns(runs) => {
                // In reverse order, and some of them are adjacent.
                for run in (0..*runs).rev() {
                    space.add_run(Extent::new(self.end + 3 * run, 1 + run % 3));
                    self.total += 1 + run % 3;
                }
                self.end += 3 * runs;
            }
            Action::Return(pages) => {
                let has_some = space.has_free_runs(*pages, pages % 9 + 1);
                let extents = space.take_free_runs(*pages, pages % 9 + 1);
                assert_eq!(has_some, !extents.is_empty());
                for extent in &extents {
                    self.total -= extent.count;
                    let used = |page| self.old.contains(&page) || self.new.contains(&page);
                    assert!(!(extent.start..extent.end()).any(used));
                }
                assert!(extents.iter().map(|extent| extent.count).sum::<u64>() <= *pages);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_are_given_out_once(actions in proptest::collection::vec(action(), 1..100)) {
        let (mut space, mut model) = (PageSpace::default(), Model::default());
        for action in &actions {
            model.apply(&mut space, action);
            space.check_invariants();
            let used = (model.old.len() + model.new.len()) as u64;
            prop_assert_eq!((space.used_pages(), space.free_pages()), (used, model.total - used));
            prop_assert_eq!(space.leaving_pages(), model.leaving.len() as u64);
        }
        let encoded = space.encode();
        prop_assert_eq!(encoded.len(), space.encoded_length());
        let reread = PageSpace::decode(&encoded).unwrap();
        space.commit();
        reread.check_invariants();
        prop_assert_eq!(reread.encode(), space.encode());
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(at in 0usize..60, noise: [u8; 8]) {
        let mut space = PageSpace::default();
        space.add_run(Extent::new(5, 70));
        let mut raw = space.encode();
        for length in 0..raw.len() {
            prop_assert!(PageSpace::decode(&raw[..length]).is_err());
        }
        let at = at.min(raw.len() - noise.len());
        let changed = raw[at..at + 8] != noise;
        raw[at..at + 8].copy_from_slice(&noise);
        prop_assert_eq!(PageSpace::decode(&raw).is_err(), changed);
    }
}

#[test]
fn pages_that_are_not_in_use_cannot_be_given_back() {
    let mut space = PageSpace::default();
    space.add_run(Extent::new(10, 10));
    space.add_run(Extent::new(20, 10));
    let taken = space.allocate_run(10).unwrap();
    assert!(space.free_later(Extent::new(5, 10)).is_err());
    assert!(space.free_later(Extent::new(taken.start, 11)).is_err());
    assert!(space.free_later(taken).is_ok());
    // Freeing twice counts once.
    assert!(space.free_later(taken).is_ok());
    space.commit();
    space.check_invariants();
    assert_eq!(space.free_pages(), 20);
}

#[test]
fn a_run_is_torn_to_give_back_what_is_free_in_its_middle() {
    let mut space = PageSpace::default();
    // One run, because they are adjacent.
    space.add_run(Extent::new(10, 150));
    space.add_run(Extent::new(160, 150));
    assert_eq!(space.runs().count(), 1);
    assert_eq!(space.allocate_run(300), Some(Extent::new(10, 300)));
    space.free_later(Extent::new(50, 100)).unwrap();
    space.free_later(Extent::new(200, 30)).unwrap();
    space.commit();
    space.check_invariants();
    assert!(!space.has_free_runs(7, 8));
    assert_eq!(space.take_free_runs(110, 8), [Extent::new(50, 100), Extent::new(200, 10)]);
    assert_eq!(space.take_free_runs(7, 8), []);
    space.check_invariants();
    let left = [Extent::new(10, 40), Extent::new(150, 50), Extent::new(210, 100)];
    assert!(space.runs().eq(left));
    assert_eq!((space.free_pages(), space.used_pages()), (20, 170));
}

#[test]
fn pages_are_taken_in_ascending_order() {
    let mut space = PageSpace::default();
    space.add_run(Extent::new(100, 10));
    space.add_run(Extent::new(200, 10));
    let taken: Vec<u64> = (0..20).filter_map(|_| space.allocate()).collect();
    assert!(taken.is_sorted() && taken.len() == 20);
    assert_eq!(space.allocate(), None);
}

#[test]
fn the_longest_piece_is_found_wherever_it_is() {
    let mut space = PageSpace::default();
    (0..600).for_each(|run| space.add_run(Extent::new(3 * run, 1)));
    space.add_run(Extent::new(5000, 20));
    assert_eq!(space.allocate_run(30).map(|extent| extent.count), Some(1), "a short search");
    assert_eq!(space.allocate_longest(15, 9), [Extent::new(5000, 15)]);
    assert_eq!(space.allocate_longest(15, 1), [Extent::new(5015, 5)]);
    space.check_invariants();
}

/// Each of many runs takes few bytes, because a checkpoint writes all of them.
#[test]
fn many_runs_are_short_in_the_bitmap() {
    let mut space = PageSpace::default();
    (0..10_000).for_each(|run| space.add_run(Extent::new(1_000_000 + 2 * run, 1)));
    let encoded = space.encode();
    assert!(encoded.len() <= 10_000 * 5 + 20, "{} bytes", encoded.len());
    assert_eq!(PageSpace::decode(&encoded).unwrap().run_count(), 10_000);
}

#[test]
fn a_long_run_is_looked_for_before_it_is_torn() {
    let mut space = PageSpace::default();
    space.add_run(Extent::new(0, 4));
    space.add_run(Extent::new(100, 50));
    assert_eq!(space.allocate_run(40), Some(Extent::new(100, 40)));
    assert_eq!(space.allocate_run(40).map(|extent| extent.count), Some(10));
}
