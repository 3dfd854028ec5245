//! Whoever has an image to himself finds in it what he wrote, each time he reads and in the end.

use crate::world::World;

pub fn check(world: &World) -> Result<(), String> {
    let mut users = world.nodes.iter().filter_map(|node| node.body.image_user());
    match users.find_map(|user| user.failure()) {
        Some(failure) => Err(failure.to_owned()),
        None => Ok(()),
    }
}
