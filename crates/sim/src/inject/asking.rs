//! Administrators who repeat a command until it succeeds.

use crate::world::World;
use engine::Duration;

/// Interval at which an administrator tries again.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Sends a command, unless the same one is in flight.
pub(super) fn ask_unless_asked(world: &mut World, command: &str) {
    let node = world.cast.clients[0];
    let Some(client) = world.nodes.client(node) else { return };
    if !client.is_asking(command) {
        world.command(node, command);
    }
}
