//! The premerge state of a group: it takes no requests because it is about to be merged.

use pg::Pg;

/// Whether a group is about to be merged.
#[derive(Debug, Default)]
pub(crate) struct Premerge {
    /// The map announces a merge of the group.
    is_announced: bool,
    /// The group was clean since then, and takes no more requests.
    is_premerge: bool,
}

impl Premerge {
    /// Whether the group takes no more requests, as far as it was checked.
    pub fn is_premerge(&self) -> bool {
        self.is_premerge
    }

    /// Whether the group takes no more requests: it is about to be merged, and was clean since the
    /// map said so.
    pub fn check_premerge(&mut self, pg: &mut Pg) -> bool {
        self.is_premerge |= self.is_announced && pg.may_merge();
        pg.set_premerge(self.is_premerge);
        self.is_premerge
    }

    /// Notes whether the map announces a merge. Returns whether the group resumes service because it
    /// does not any more.
    pub fn announce(&mut self, is_announced: bool, pg: &mut Pg) -> bool {
        self.is_announced = is_announced;
        // An inactive one restarts or drops all waiting requests anyway.
        let resumes = self.is_premerge && !is_announced && pg.is_active();
        if resumes {
            self.resume(pg);
        }
        resumes
    }

    /// Ends the premerge state.
    pub fn resume(&mut self, pg: &mut Pg) {
        self.is_premerge = false;
        pg.set_premerge(false);
    }
}
