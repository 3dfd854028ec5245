//! The rows to read for a job: pure functions.

use super::ranges::RowSet;
use super::state::{Failed, RowRequest, Versions};
use crate::Member;
use erasure::Shards;
use std::collections::{BTreeMap, BTreeSet};

/// The shards that a job reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ReadPlan {
    /// The member of each shard that is read, and the rows.
    pub reads: BTreeMap<usize, (Member, RowSet)>,
    /// Shards whose rows are decoded.
    pub lost: Shards,
    /// Shards from which they are decoded.
    pub sources: Shards,
    /// The rows that are decoded.
    pub decoded: RowSet,
}

/// Plans a request of a code with `data` data shards, without these members.
pub(super) fn plan(
    data: usize,
    request: &RowRequest,
    without: &BTreeSet<Member>,
) -> Result<ReadPlan, Failed> {
    let mut holders: BTreeMap<usize, Member> = BTreeMap::new();
    for member in request.sources.iter().filter(|member| !without.contains(member)) {
        let position = member.shard.position().expect("a source has a shard");
        holders.entry(position).or_insert(*member);
    }
    let mut plan = ReadPlan::default();
    for (position, rows) in &request.wanted {
        match holders.get(position) {
            Some(member) => drop(plan.reads.insert(*position, (*member, rows.clone()))),
            None => {
                plan.lost.insert(*position);
                plan.decoded.extend(rows);
            }
        }
    }
    if plan.lost.is_empty() {
        return Ok(plan);
    }
    if request.versions == Versions::Each {
        return Err(Failed::MustDecode);
    }
    // The lowest positions are the data.
    plan.sources = holders.keys().copied().take(data).collect();
    if plan.sources.len() < data {
        return Err(Failed::TooFew);
    }
    for position in plan.sources.iter() {
        let member = holders[&position];
        let (_, rows) = plan.reads.entry(position).or_insert((member, RowSet::default()));
        rows.extend(&plan.decoded);
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::super::state::Purpose;
    use super::*;
    use types::{EVersion, HObject, OsdId, ShardId};

    fn member(position: usize) -> Member {
        Member { osd: OsdId(10 + position as i32), shard: ShardId::at(position).unwrap() }
    }

    fn request(wanted: &[(usize, std::ops::Range<u64>)], sources: &[usize]) -> RowRequest {
        RowRequest {
            purpose: Purpose::Client(1),
            object: HObject::default(),
            wanted: wanted.iter().map(|(at, rows)| (*at, RowSet::of(rows.clone()))).collect(),
            sources: sources.iter().map(|at| member(*at)).collect(),
            versions: Versions::Same(EVersion::new(1, 1)),
            with_attrs: false,
        }
    }

    fn one(rows: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
        RowSet::of(rows).ranges().collect()
    }

    fn reads(plan: &ReadPlan) -> Vec<(usize, Vec<std::ops::Range<u64>>)> {
        let reads = plan.reads.iter();
        reads.map(|(at, (_, rows))| (*at, rows.ranges().collect())).collect()
    }

    #[test]
    fn a_shard_that_can_be_read_is_the_only_one_that_is_asked() {
        let plan = plan(4, &request(&[(2, 3..5)], &[0, 1, 2, 3, 4, 5]), &BTreeSet::new()).unwrap();
        assert_eq!(reads(&plan), [(2, one(3..5))]);
        assert!(plan.lost.is_empty() && plan.decoded.is_empty());
    }

    #[test]
    fn a_lost_shard_is_decoded_from_the_first_others_that_are_left() {
        let request = request(&[(1, 3..5), (3, 8..9)], &[0, 2, 3, 4, 5]);
        let plan = |without: &[usize]| {
            super::plan(4, &request, &without.iter().map(|at| member(*at)).collect())
        };
        let all = plan(&[]).unwrap();
        let both = vec![3..5, 8..9];
        assert_eq!(reads(&all)[..2], [(0, one(3..5)), (2, one(3..5))]);
        assert_eq!(reads(&all)[2..], [(3, both), (4, one(3..5))]);
        assert_eq!(all.sources, [0, 2, 3, 4].into_iter().collect());
        let fewer = plan(&[3]).unwrap();
        assert_eq!(fewer.lost, [1, 3].into_iter().collect());
        assert_eq!(fewer.sources, [0, 2, 4, 5].into_iter().collect());
        assert_eq!(plan(&[3, 5]), Err(Failed::TooFew));
    }

    #[test]
    fn shards_that_may_differ_in_version_are_not_decoded() {
        let request =
            RowRequest { versions: Versions::Each, ..request(&[(1, 3..5)], &[0, 2, 3, 4, 5]) };
        assert_eq!(plan(4, &request, &BTreeSet::new()), Err(Failed::MustDecode));
    }
}
