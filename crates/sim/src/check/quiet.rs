//! Quiescence: after all responses, no request waits anywhere and no disk has unfinished work.

use crate::world::World;

/// Checks that no request is in flight, and no disk has work.
pub fn check(world: &World) -> Result<(), String> {
    if world.in_flight() > 0 {
        return Err(format!("{} requests appeared out of nowhere", world.in_flight()));
    }
    for osd in world.osds().filter(|osd| osd.daemon().is_some()) {
        if let Some(what) = osd.disk().unfinished() {
            return Err(format!("osd.{} still writes: {what}", osd.id()));
        }
    }
    Ok(())
}
