//! Committed writes of erasure-coded groups stay in their history, and only committed writes are settled.
//! Checked after every step of the run, so that a loss is found where it happens.
//!
//! A primary that serves says what is committed. The next one that serves must have all of that in its log. A
//! primary of an earlier interval, which has not heard of the later one, can commit only what the later one's
//! log had at its beginning.

use pg::Pg;
use std::collections::BTreeMap;
use types::{EVersion, Epoch, PgId, PgShard};

/// The newest interval of a group in which it was served.
#[derive(Debug, Clone, Copy)]
struct Served {
    interval: Epoch,
    /// The end of the log when the first look found the group served.
    began: EVersion,
    committed: EVersion,
    /// Splits and merges change it, and versions begin anew.
    hash_bits: u8,
}

/// The committed versions of all erasure-coded groups.
#[derive(Debug, Default)]
pub struct Committed {
    groups: BTreeMap<PgId, Served>,
}

impl Committed {
    /// Checks a copy, and takes what it says is committed.
    pub fn note(&mut self, pg: &Pg) -> Result<(), String> {
        if pg.pg_shard().shard.position().is_none() {
            return Ok(());
        }
        let hash_bits = pg.members().hash_bits;
        self.forget_merged(pg.id(), pg.interval(), hash_bits);
        let known = self.groups.get(&pg.id()).copied();
        let known = known.filter(|known| known.hash_bits == hash_bits);
        if !pg.is_active() {
            return known.map_or(Ok(()), |known| check_settled(pg, known));
        }
        let (interval, committed) = (pg.interval(), pg.committed());
        let head = pg.log().head();
        let served = match known {
            Some(known) if known.interval > interval => {
                return check_late(pg.pg_shard(), committed, known);
            }
            Some(known) if known.interval == interval => {
                Served { committed: committed.max(known.committed), ..known }
            }
            Some(known) if !has(pg, known.committed) => {
                return Err(format!(
                    "{} is served with a log from {} to {head}, and {} was committed in {:?}",
                    pg.pg_shard(),
                    pg.log().tail(),
                    known.committed,
                    known.interval
                ));
            }
            _ => Served { interval, began: head, committed, hash_bits },
        };
        self.groups.insert(pg.id(), served);
        check_settled(pg, served)
    }

    /// Forgets groups that were merged into this one. Later ones of the same names are split off it, and have
    /// its history.
    fn forget_merged(&mut self, pg: PgId, interval: Epoch, hash_bits: u8) {
        let was_divided = |known: &Served| known.hash_bits > hash_bits && known.interval < interval;
        if !self.groups.get(&pg).is_some_and(was_divided) {
            return;
        }
        let of_whole = |seed: u32| u64::from(seed) % (1 << hash_bits);
        let is_part = |other: &PgId| {
            other.pool == pg.pool && *other != pg && of_whole(other.seed) == of_whole(pg.seed)
        };
        self.groups.retain(|other, known| !is_part(other) || !was_divided(known));
    }
}

/// True if the log of a copy has this version, or had it before it was trimmed.
fn has(pg: &Pg, version: EVersion) -> bool {
    let mut later = pg.log().entries().skip_while(|entry| entry.version < version);
    version <= pg.log().tail() || later.next().is_some_and(|entry| entry.version == version)
}

fn check_late(pg: PgShard, committed: EVersion, known: Served) -> Result<(), String> {
    match committed <= known.began {
        true => Ok(()),
        false => Err(format!(
            "{pg} commits {committed} when interval {:?} has begun with {}",
            known.interval, known.began
        )),
    }
}

fn check_settled(pg: &Pg, known: Served) -> Result<(), String> {
    let settled = pg.info().shard.map_or(EVersion::ZERO, |shard| shard.settled);
    match settled <= known.committed {
        true => Ok(()),
        false => Err(format!(
            "{} has settled {settled}, and {} is committed",
            pg.pg_shard(),
            known.committed
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_was_merged_is_forgotten() {
        let pg = |seed| PgId { pool: types::PoolId(1), seed };
        let served = |interval, hash_bits| Served {
            interval: Epoch(interval),
            began: EVersion::ZERO,
            committed: EVersion::new(4, 2),
            hash_bits,
        };
        let groups = [(pg(1), 5), (pg(3), 6), (pg(5), 7)];
        let groups = groups.map(|(pg, interval)| (pg, served(interval, 3)));
        let mut checker = Committed { groups: groups.into() };
        // A copy that does not know of the division yet.
        checker.forget_merged(pg(1), Epoch(4), 2);
        assert_eq!(checker.groups.len(), 3);
        checker.forget_merged(pg(1), Epoch(8), 2);
        assert_eq!(checker.groups.into_keys().collect::<Vec<_>>(), [pg(1), pg(3)]);
    }

    #[test]
    fn a_primary_of_the_past_commits_nothing_that_the_next_one_lacks() {
        let version = |number| EVersion::new(4, number);
        let known =
            Served { interval: Epoch(7), began: version(5), committed: version(8), hash_bits: 3 };
        assert_eq!(check_late(PgShard::default(), version(5), known), Ok(()));
        assert!(check_late(PgShard::default(), version(6), known).is_err());
    }
}
