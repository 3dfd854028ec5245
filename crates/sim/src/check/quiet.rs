//! When everything is answered, nothing is left over: nobody waits, and no disk has anything to do.

use crate::world::World;

pub fn check(world: &World) -> Result<(), String> {
    if world.in_flight() > 0 {
        return Err(format!("{} requests appeared out of nowhere", world.in_flight()));
    }
    for osd in world.osds() {
        let (id, pending) = (osd.config.id, osd.hosted.disk.commits_pending());
        if pending > 0 {
            return Err(format!("osd.{id} still writes: {pending} transactions"));
        }
    }
    Ok(())
}
