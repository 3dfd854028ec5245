//! Health details name every cause for which something waits. The check reads them with an administrator's
//! command.

use crate::history::Entry;
use crate::world::World;
use maps::OsdMap;
use types::OsdId;

/// Checks that details name each of these OSDs, and for each waiting request its group, one of the group's
/// OSDs, its pool, or the flag that holds it back.
pub fn check(world: &World, details: &str, down: &[OsdId]) -> Result<(), String> {
    let names = |name: &str| is_named(details, name);
    if let Some(osd) = down.iter().find(|osd| !names(&format!("osd.{osd}"))) {
        return Err(format!("osd.{osd} is not named: {details}"));
    }
    let map = world.newest_map().expect("monitors run");
    let mut waiting = world.unanswered();
    match waiting.find(|entry| !culprits(world, map, entry).iter().any(|name| names(name))) {
        None => Ok(()),
        Some(entry) => {
            let (object, known) = (entry.object, culprits(world, map, entry));
            Err(format!("nothing says why object {object} waits, of {known:?}: {details}"))
        }
    }
}

/// Causes for which a request may wait.
fn culprits(world: &World, map: &OsdMap, entry: &Entry) -> Vec<String> {
    let target = &world.records.workload.targets[entry.object];
    let Some(pool) = map.pool_id(&target.pool) else { return Vec::new() };
    let mut names = vec![format!("'{}'", target.pool), "pauserd".into(), "pausewr".into()];
    if let Some((pg, _)) = map.object_to_pg(pool, b"", b"", target.name.as_bytes()) {
        let osds = map.pg_to_osds(pg);
        names.extend(osds.acting.iter().chain(&osds.up).map(|osd| format!("osd.{osd}")));
        names.push(format!("pg {pg}"));
    }
    names
}

/// Matches whole words: `osd.12` does not name `osd.1`.
fn is_named(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let next = text[at + name.len()..].chars().next();
        !next.is_some_and(|next| next.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_number_names_another_one() {
        assert!(is_named("osd.12 is down, osd.1 (host=a) too", "osd.1"));
        assert!(!is_named("osd.12 is down", "osd.1"));
        assert!(is_named("pg 1.a is down", "pg 1.a") && !is_named("pg 1.ab is down", "pg 1.a"));
    }
}
