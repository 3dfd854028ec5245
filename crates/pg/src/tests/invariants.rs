//! Each invariant is seen to fail.

use super::World;
use crate::Member;
use crate::Pg;
use crate::primary::{Primary, Stage};
use crate::role::Role;
use crate::serving::Serving;
use std::panic::{AssertUnwindSafe, catch_unwind};
use types::{EVersion, OsdId};

/// Whether the primary's copy, or a replica's, is found out after this damage. A write is in flight.
fn is_found(osd: i32, damage: impl FnOnce(&mut Pg)) -> bool {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run\n write a one\n write b two");
    let pg = &mut world.node(OsdId(osd)).pg;
    pg.check_invariants();
    damage(pg);
    catch_unwind(AssertUnwindSafe(|| pg.check_invariants())).is_err()
}

fn primary(pg: &mut Pg) -> &mut Primary {
    let Role::Primary(primary) = &mut pg.role else { panic!("it is the primary") };
    primary
}

fn serving(pg: &mut Pg) -> &mut Serving {
    primary(pg).stage.serving_mut().expect("it serves")
}

#[test]
fn a_contradiction_in_the_stored_state_is_found() {
    let later = EVersion::new(99, 99);
    assert!(is_found(0, |pg| pg.core.copy.info.log_tail = later));
    assert!(is_found(0, |pg| pg.core.copy.info.last_complete = EVersion::ZERO));
    assert!(is_found(0, |pg| pg.core.copy.info.last_update = later));
    assert!(is_found(0, |pg| pg.core.copy.committed = later));
}

#[test]
fn a_contradiction_in_the_role_is_found() {
    assert!(is_found(0, |pg| pg.core.placement.members.primary = None));
    assert!(is_found(1, |pg| pg.core.placement.members.primary = None));
    assert!(is_found(0, |pg| pg.core.placement.members.acting.swap(0, 1)));
    assert!(is_found(0, |pg| pg.core.placement.members.min_size = 9));
    assert!(is_found(0, |pg| primary(pg).stage = Stage::Down));
    assert!(is_found(0, |pg| primary(pg).stage = Stage::WaitActingChange));
    assert!(is_found(0, |pg| {
        let serving = std::mem::take(serving(pg));
        primary(pg).stage = Stage::Inactive(serving);
    }));
    assert!(is_found(0, |pg| {
        let agreed = std::mem::take(&mut serving(pg).agreed);
        primary(pg).stage =
            Stage::GetMissing { agreed, waiting: [Member::replicated(OsdId(9))].into() };
    }));
}

#[test]
fn a_contradiction_among_writes_in_flight_is_found() {
    let later = EVersion::new(99, 99);
    assert!(is_found(0, |pg| serving(pg).in_flight.make_contiguous().reverse()));
    assert!(is_found(0, |pg| serving(pg).in_flight[1].version = later));
    assert!(is_found(0, |pg| serving(pg).in_flight[0].waiting = Default::default()));
    assert!(is_found(0, |pg| serving(pg).recovery.members_missing = 1));
}
