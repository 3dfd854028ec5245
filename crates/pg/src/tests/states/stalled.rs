//! Stalled: the interval is aborted, and another one is waited for.

use super::World;

#[test]
fn only_another_interval_ends_it() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         tell 1 0 stalled
         state 0 => Stalled
         tell 1 0 info
         tell 1 0 activated
         tell 1 0 log
         state 0 => Stalled
         map 30 0 1 2
         run
         state 0 => Active members 0 1 2",
    );
}
