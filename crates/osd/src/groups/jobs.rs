//! The splits and merges in progress, and which groups each of them waits for.

use pg::{MergedVersions, Pg};
use std::collections::{BTreeMap, BTreeSet};
use types::PgShard;

/// The splits and merges in progress.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// By the group that is split, or that others are merged into.
    jobs: BTreeMap<PgShard, Job>,
    /// Whether a map was ignored.
    missed_maps: bool,
}

#[derive(Debug)]
enum Job {
    /// A split into the group itself and these.
    Split(BTreeSet<PgShard>),
    Merge {
        sources: BTreeSet<PgShard>,
        versions: Option<MergedVersions>,
        /// The groups, of the sources and the target, that have requests to the store in flight.
        busy: BTreeSet<PgShard>,
    },
}

/// The other groups of a job that has ended.
pub(super) enum Ended {
    /// The parts of a split.
    Parts(BTreeSet<PgShard>),
    /// The sources of a merge.
    Sources(BTreeSet<PgShard>),
}

impl Jobs {
    /// Whether maps must be ignored; if so, they are requested again later.
    pub fn hold_maps(&mut self) -> bool {
        self.missed_maps |= !self.jobs.is_empty();
        !self.jobs.is_empty()
    }

    /// Whether no group is being split or merged.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether a map was ignored since this was last asked.
    pub fn take_missed_maps(&mut self) -> bool {
        std::mem::take(&mut self.missed_maps)
    }

    /// Adds a split of a group into itself and these parts.
    pub fn add_split(&mut self, pg: PgShard, parts: BTreeSet<PgShard>) {
        let earlier = self.jobs.insert(pg, Job::Split(parts));
        assert!(earlier.is_none(), "{pg}: a group takes part in one split or merge at a time");
    }

    /// Adds a merge of these sources into a group.
    pub fn add_merge(
        &mut self,
        pg: PgShard,
        sources: BTreeSet<PgShard>,
        versions: Option<MergedVersions>,
    ) {
        let busy = sources.iter().copied().chain([pg]).collect();
        let earlier = self.jobs.insert(pg, Job::Merge { sources, versions, busy });
        assert!(earlier.is_none(), "{pg}: a group takes part in one split or merge at a time");
    }

    /// The group whose split or merge this group takes part in; a part does not before it has ended.
    pub fn of(&self, pg: PgShard) -> Option<PgShard> {
        let takes_part = |job: &Job| match job {
            Job::Split(_) => false,
            Job::Merge { sources, .. } => sources.contains(&pg),
        };
        let found = self.jobs.iter().find(|(id, job)| **id == pg || takes_part(job));
        found.map(|(id, _)| *id)
    }

    /// The store has confirmed all requests of a group that takes part in the job of `id`.
    pub fn note_quiet(&mut self, id: PgShard, pg: PgShard) {
        if let Some(Job::Merge { busy, .. }) = self.jobs.get_mut(&id) {
            busy.remove(&pg);
        }
    }

    /// Merges without a source that cannot be read: the merged group is incomplete.
    pub fn leave_out(&mut self, id: PgShard, pg: PgShard) {
        if let Some(Job::Merge { sources, versions, busy }) = self.jobs.get_mut(&id) {
            sources.remove(&pg);
            busy.remove(&pg);
            *versions = None;
        }
    }

    /// Splits a group, or merges others into it if it waits for none of them. `copies` are all groups.
    pub fn begin<'a>(&self, id: PgShard, copies: impl Iterator<Item = (PgShard, &'a mut Pg)>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (Job::Split(others) | Job::Merge { sources: others, .. }) = job;
        let (mut whole, mut parts): (Option<&mut Pg>, Vec<&mut Pg>) = (None, Vec::new());
        for (pg, copy) in copies {
            match pg == id {
                true => whole = Some(copy),
                false if others.contains(&pg) => parts.push(copy),
                false => {}
            }
        }
        let Some(whole) = whole else { return };
        match job {
            Job::Split(_) => {
                tracing::info!(pg = %id, parts = parts.len() + 1, "the group is split");
                whole.divide(&mut parts);
            }
            Job::Merge { busy, versions, .. } if busy.is_empty() => {
                tracing::info!(pg = %id, sources = parts.len(), "groups are merged");
                whole.merge_from(&parts, *versions);
            }
            Job::Merge { .. } => {}
        }
    }

    /// Takes out the job of a group, which has ended.
    pub fn end(&mut self, id: PgShard) -> Option<Ended> {
        Some(match self.jobs.remove(&id)? {
            Job::Split(parts) => Ended::Parts(parts),
            Job::Merge { sources, .. } => Ended::Sources(sources),
        })
    }

    /// Panics if a job names a group that does not exist, or waits for one that takes no part.
    pub fn check_invariants(&self, exists: impl Fn(PgShard) -> bool) {
        for (id, job) in &self.jobs {
            let (Job::Split(others) | Job::Merge { sources: others, .. }) = job;
            assert!(exists(*id) && others.iter().all(|pg| exists(*pg)), "{id}: {job:?}");
            assert!(!others.contains(id), "{id}: a group is no part of itself");
            if let Job::Merge { sources, busy, .. } = job {
                assert!(busy.iter().all(|pg| pg == id || sources.contains(pg)), "{id}: {job:?}");
            }
        }
    }
}
