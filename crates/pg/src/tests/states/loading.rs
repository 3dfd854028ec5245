//! Loading: the copy reads its info and log from the store.

use super::World;

/// Behind the interval, which the copy stores first.
#[test]
fn a_query_that_comes_meanwhile_is_answered_afterwards() {
    let mut world = World::new(3);
    world.run_script("map 20 0 1 2\n run\n write a one\n run");
    let node = &mut world.nodes[1];
    node.pg = crate::Pg::load(types::PgShard::replicated(super::PG), types::OsdId(1));
    world.run_script(
        "map 30 0 1 2
         state 1 => Loading
         tell 0 1 query
         tell 0 1 replicate
         state 1 => Loading asked 0
         head 1 => 0'0
         sent 1 =>
         store 1
         state 1 => Replica
         head 1 => 21'1
         sent 1 => Info to 0",
    );
}
