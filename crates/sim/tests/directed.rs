//! Overwrites of erasure-coded objects that some shards hold when the power fails.

use sim::directed::dropped::{self, Dropped};
use sim::directed::{Case, play};

fn play_all(cases: impl Iterator<Item = Case>) {
    let failed: Vec<String> = cases
        .filter_map(|case| play(case).err().map(|problem| format!("{case:?}: {problem}")))
        .collect();
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn an_overwrite_held_by_any_of_three_shards_happens_or_does_not() {
    play_all(Case::all(2, 1));
}

#[test]
fn an_overwrite_held_by_some_of_four_shards_happens_or_does_not() {
    play_all(Case::all(2, 2).step_by(23));
}

#[test]
fn an_object_that_a_shard_misses_is_missing_again_when_its_removal_is_dropped() {
    for case in Dropped::all() {
        assert_eq!(dropped::play(case), Ok(()), "{case:?}");
    }
}
