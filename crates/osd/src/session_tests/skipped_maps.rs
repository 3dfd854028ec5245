//! An OSD that has missed maps which the monitors have trimmed.

use super::lone::{Lone, OSD, config};
use maps::OsdState;

#[test]
fn an_osd_that_skips_maps_while_it_is_up_has_itself_marked_down() {
    let mut lone = Lone::new();
    lone.publish(|_| ());
    assert!(lone.leaves.is_empty(), "it has all maps");
    lone.skip_to(|_| ());
    let leave = lone.leaves.pop().expect("it asks to be marked down");
    assert!(!leave.down_and_dead, "its leases last");
    lone.publish(|_| ());
    assert!(!lone.leaves.is_empty(), "the message may have been lost");
    lone.publish(|increment| {
        increment.new_state.insert(OSD, OsdState::UP);
    });
    assert!(!lone.osd.is_up());
    lone.leaves.clear();
    let addrs = config(false).addrs;
    let [client, cluster, back, front] = [(); 4].map(|()| addrs.clone());
    lone.publish(|increment| increment.mark_up(OSD, client, cluster, back, front));
    lone.publish(|_| ());
    assert!(lone.osd.is_up() && lone.leaves.is_empty());
}
