//! Choice of the OSDs that an OSD pings.

use maps::OsdMap;
use std::collections::BTreeMap;
use types::OsdId;

use std::collections::BTreeSet;

/// Number of OSDs on other hosts that are pinged besides members of common groups; chosen so that
/// each OSD is pinged by about as many.
const NEIGHBOURS: usize = 5;

/// Members of the OSD's groups that are up, and the next OSDs in a ring in which hosts alternate.
pub fn choose(map: &OsdMap, own: OsdId, members: BTreeSet<OsdId>) -> BTreeSet<OsdId> {
    let mut chosen: BTreeSet<OsdId> = members.into_iter().filter(|osd| map.is_up(*osd)).collect();
    let ring = ring(map);
    let Some(position) = ring.iter().position(|(osd, _)| *osd == own) else {
        chosen.remove(&own);
        return chosen;
    };
    let host = ring[position].1;
    let after = ring[position + 1..].iter().chain(&ring[..position]);
    let elsewhere = after.clone().filter(|(_, other)| *other != host);
    let neighbours: Vec<OsdId> = elsewhere.take(NEIGHBOURS).map(|(osd, _)| *osd).collect();
    let lacking = NEIGHBOURS - neighbours.len();
    chosen.extend(neighbours);
    // With few hosts, or one, OSDs of the same host serve as well.
    chosen.extend(after.filter(|(_, other)| *other == host).take(lacking).map(|(osd, _)| *osd));
    chosen.remove(&own);
    chosen
}

/// All OSDs that are up, with their hosts: first one of each host, then a second one, and so on.
fn ring(map: &OsdMap) -> Vec<(OsdId, i32)> {
    let host_type = map.crush.type_id("host").unwrap_or(1);
    let mut seen: BTreeMap<i32, usize> = BTreeMap::new();
    let up = map.existing_osds().filter(|(_, osd)| osd.is_up());
    let mut ring: Vec<(usize, i32, OsdId)> = up
        .map(|(osd, _)| {
            // An OSD outside of the tree counts as a host of its own.
            let host = map.crush.ancestor_of_type(osd.0, host_type).unwrap_or(osd.0);
            let rank = seen.entry(host).or_insert(0);
            *rank += 1;
            (*rank, host, osd)
        })
        .collect();
    ring.sort_unstable();
    ring.into_iter().map(|(_, host, osd)| (osd, host)).collect()
}
