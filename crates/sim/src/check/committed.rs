//! Committed writes of erasure-coded groups stay in their history, and only committed writes are settled.
//! Checked after every step of the run, so that a loss is found where it happens.
//!
//! A primary that serves says what is committed. The next one that serves must have all of that in its log. A
//! primary of an earlier interval, which has not heard of the later one, can commit only what the later one's
//! log had at its beginning.
//!
//! A process handles several inputs between two looks. So a primary may commit writes and leave its interval,
//! and another copy on its OSD may settle them, before a look sees any of that.

use crate::process::OsdProcess;
use pg::Pg;
use std::collections::BTreeMap;
use types::{EVersion, Epoch, OsdId, PgId, PgShard};

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
    /// Copies that served at the last look, with their intervals.
    serving: BTreeMap<(OsdId, PgShard), Epoch>,
    /// Groups that were merged into others, and the first interval of these.
    merged: BTreeMap<PgId, Epoch>,
    /// The division of each group in its newest interval, as far as any copy knows.
    divisions: BTreeMap<PgId, Division>,
}

/// Intervals of a group in which its pool had the same number of groups.
#[derive(Debug, Clone, Copy)]
struct Division {
    hash_bits: u8,
    /// The first interval that was seen, after another division.
    began: Epoch,
    newest: Epoch,
}

impl Committed {
    /// Checks all copies of an OSD, after it has taken what its primaries say is committed.
    pub fn look(&mut self, osd: &OsdProcess) -> Result<(), String> {
        for pg in osd.groups().filter(is_shard) {
            let (interval, hash_bits) = (pg.interval(), pg.members().hash_bits);
            self.forget_merged(pg.id(), interval, hash_bits);
            self.forget_divided(pg.id(), interval, hash_bits);
            if !self.is_over(pg) {
                self.note(osd.id(), pg)?;
            }
        }
        let mut shards = osd.groups().filter(|pg| is_shard(pg) && !self.is_over(pg));
        shards.try_for_each(|pg| match self.known(pg) {
            // A late primary was compared when it was noted.
            Some(known) if !pg.is_active() || known.interval <= pg.interval() => {
                check_settled(pg, known)
            }
            _ => Ok(()),
        })
    }

    fn known(&self, pg: &Pg) -> Option<Served> {
        let known = self.groups.get(&pg.id()).copied();
        known.filter(|known| known.hash_bits == pg.members().hash_bits)
    }

    /// Whether the copy belongs to a group that others know to have been merged, or divided anew.
    fn is_over(&self, pg: &Pg) -> bool {
        let merged = self.merged.get(&pg.id()).copied();
        let divided = self.divisions.get(&pg.id()).map(|division| division.began);
        merged.max(divided).is_some_and(|began| pg.interval() < began)
    }

    /// Whether the group has been split or merged since, as others know.
    fn is_of_another_division(&self, pg: &Pg) -> bool {
        self.groups.get(&pg.id()).is_some_and(|newest| {
            newest.hash_bits != pg.members().hash_bits && newest.interval > pg.interval()
        })
    }

    /// Takes what a primary says is committed.
    fn note(&mut self, osd: OsdId, pg: &Pg) -> Result<(), String> {
        let key = (osd, pg.pg_shard());
        let known = self.known(pg);
        let (interval, committed) = (pg.interval(), pg.committed());
        if !pg.is_active() {
            let served = self.serving.remove(&key);
            // Its word counts no more if another one has served since.
            let is_newest = served.is_some() && known.map(|known| known.interval) == served;
            if let Some(known) = self.groups.get_mut(&pg.id()).filter(|_| is_newest) {
                known.committed = known.committed.max(committed);
            }
            return Ok(());
        }
        self.serving.insert(key, interval);
        if self.is_of_another_division(pg) {
            return Ok(());
        }
        let head = pg.log().head();
        let hash_bits = pg.members().hash_bits;
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
        Ok(())
    }

    /// Forgets what is known of a group when it is seen in a later division: versions begin anew, also if a
    /// merge and a split leave as many groups as before.
    fn forget_divided(&mut self, pg: PgId, interval: Epoch, hash_bits: u8) {
        let first = Division { hash_bits, began: Epoch::default(), newest: interval };
        let division = self.divisions.entry(pg).or_insert(first);
        if division.hash_bits == hash_bits {
            division.newest = division.newest.max(interval);
        } else if interval > division.newest {
            *division = Division { hash_bits, began: interval, newest: interval };
            self.groups.remove(&pg);
        }
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
        let gone = self.groups.iter().filter(|(other, known)| is_part(other) && was_divided(known));
        let gone: Vec<PgId> = gone.map(|(other, _)| *other).collect();
        for other in gone {
            self.groups.remove(&other);
            self.merged.insert(other, interval);
        }
    }
}

fn is_shard(pg: &&Pg) -> bool {
    pg.pg_shard().shard.position().is_some()
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
        let mut checker = Committed { groups: groups.into(), ..Committed::default() };
        // A copy that does not know of the division yet.
        checker.forget_merged(pg(1), Epoch(4), 2);
        assert_eq!(checker.groups.len(), 3);
        checker.forget_merged(pg(1), Epoch(8), 2);
        assert_eq!(
            checker.merged,
            [(pg(5), Epoch(8))].into(),
            "copies of it that come late do not count"
        );
        assert_eq!(checker.groups.into_keys().collect::<Vec<_>>(), [pg(1), pg(3)]);
    }

    #[test]
    fn a_group_that_was_merged_and_split_again_is_another_one() {
        let pg = PgId { pool: types::PoolId(1), seed: 5 };
        let mut checker = Committed::default();
        checker.forget_divided(pg, Epoch(137), 5);
        let committed = EVersion::new(9, 2);
        let interval = Epoch(137);
        checker.groups.insert(pg, Served { interval, began: committed, committed, hash_bits: 5 });
        checker.forget_divided(pg, Epoch(136), 4);
        assert_eq!(checker.groups.len(), 1, "a copy that comes late tells nothing");
        checker.forget_divided(pg, Epoch(158), 4);
        checker.forget_divided(pg, Epoch(159), 5);
        assert!(checker.groups.is_empty());
        assert_eq!(checker.divisions[&pg].began, Epoch(159));
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
