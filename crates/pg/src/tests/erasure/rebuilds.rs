//! Members that were away get their shards, from the log or by backfill, while a writer goes on.

use super::writes::Trial;
use crate::State;
use crate::backend::erasure::geometry::ROW;
use crate::tests::world::object;
use types::HObject;

/// Bounds that make much of little data.
#[derive(Clone, Copy)]
struct Small {
    pieces: bool,
    log: bool,
}

fn trial(seed: u64, (k, m): (u8, u8), small: Small) -> Trial {
    let mut trial = Trial::new(seed, k, m, 4096, &[]);
    for node in &mut trial.world.nodes {
        let sizes = &mut node.pg.core.own.sizes;
        sizes.page_objects_max = 2;
        if small.pieces {
            sizes.piece_data_max = 2 * ROW;
        }
        if small.log {
            (sizes.log_entries_max, sizes.log_entries_kept) = (6, 3);
        }
    }
    trial
}

/// Publishes a map with holes at these positions.
fn map(trial: &mut Trial, away: &[usize]) {
    let epoch = trial.world.epoch + 1;
    let word = |at| if away.contains(&at) { "-".to_owned() } else { at.to_string() };
    let up: Vec<String> = (0..trial.world.nodes.len()).map(word).collect();
    trial.world.run_script(&format!("map {epoch} {}", up.join(" ")));
}

/// Lets everything happen until nothing is left to do.
fn come_to_rest(trial: &mut Trial) {
    for _ in 0..100 {
        while trial.world.step_any(&mut trial.rng) {}
        let has_new_map = trial.grant();
        trial.rest();
        if !has_new_map && !trial.grant() {
            return;
        }
    }
    panic!("the group does not become quiet");
}

/// Submits a random write, unless an object must be recovered first.
fn write_if_possible(trial: &mut Trial) {
    let primary = trial.world.primary();
    let node = trial.world.node(primary);
    let stored: Vec<HObject> =
        node.store.objects(node.pg.collection()).map(|(name, _)| name.clone()).collect();
    let all = stored.into_iter().chain(["a", "b"].map(object));
    let missing = node.pg.missing().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let is_free =
        missing.is_empty() && all.into_iter().all(|name| !node.pg.is_blocked(&name, true, false));
    if node.pg.is_active() && is_free {
        trial.write();
    }
}

fn write(trial: &mut Trial, count: usize) {
    for _ in 0..count {
        write_if_possible(trial);
        let steps = trial.rng.below(8);
        trial.step(steps);
    }
}

fn check(trial: &Trial) {
    trial.check();
    let primary = &trial.world.nodes[trial.world.primary().0 as usize].pg;
    assert!(primary.is_clean(), "{:?}", primary.state());
}

/// Members go away, others write, and the members come back while others go on.
fn away(seed: u64, code: (u8, u8), away: &[usize], small: Small) {
    let mut trial = trial(seed, code, small);
    for _ in 0..2 {
        write(&mut trial, 12);
        come_to_rest(&mut trial);
        away.iter().for_each(|at| trial.world.run_script(&format!("down {at}")));
        map(&mut trial, away);
        come_to_rest(&mut trial);
        write(&mut trial, 15);
        trial.rest();
        trial.check();
        away.iter().for_each(|at| trial.world.run_script(&format!("up {at}")));
        map(&mut trial, &[]);
        for _ in 0..40 {
            trial.step(10);
            if trial.in_flight() == 0 {
                trial.world.grant();
            }
            write_if_possible(&mut trial);
        }
        come_to_rest(&mut trial);
        check(&trial);
    }
}

#[test]
fn members_that_were_away_get_their_shards_while_others_write() {
    for seed in 0..6 {
        for at in 0..3 {
            away(seed, (2, 1), &[at], Small { pieces: seed % 2 == 1, log: false });
        }
        let (one, other) = (seed as usize % 6, (seed as usize + 2) % 6);
        away(seed, (4, 2), &[one, other], Small { pieces: seed % 2 == 1, log: false });
    }
}

#[test]
fn members_that_were_away_for_long_are_backfilled_while_others_write() {
    for seed in 0..6 {
        for at in 0..3 {
            away(seed, (2, 1), &[at], Small { pieces: seed % 2 == 1, log: true });
        }
        let (one, other) = (seed as usize % 6, (seed as usize + 2) % 6);
        away(seed, (4, 2), &[one, other], Small { pieces: seed % 2 == 1, log: true });
    }
}

#[test]
fn a_member_with_an_empty_disk_gets_all_shards() {
    for at in 0..3 {
        let mut trial = trial(3, (2, 1), Small { pieces: true, log: true });
        write(&mut trial, 30);
        come_to_rest(&mut trial);
        trial.world.run_script(&format!("wipe {at}"));
        map(&mut trial, &[]);
        come_to_rest(&mut trial);
        check(&trial);
        assert!(trial.world.nodes.iter().all(|node| node.pg.state() != State::Stray));
    }
}
