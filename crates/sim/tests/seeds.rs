//! Runs a few seeds, and checks that a run is a function of its seed.

use sim::run::{Options, run};

fn must_run(seed: u64) -> sim::run::Report {
    run(seed, &Options::default()).unwrap_or_else(|failure| {
        panic!("seed {seed}: {}\n{}\n{}", failure.what, failure.scenario, failure.last_lines)
    })
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [1, 2, 3] {
        assert_eq!(must_run(seed), must_run(seed));
    }
}

#[test]
fn seeds_differ() {
    assert_ne!(must_run(1).hash, must_run(2).hash);
}
