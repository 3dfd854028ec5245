//! Overwrites of erasure-coded objects that some shards hold when the power fails.

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
