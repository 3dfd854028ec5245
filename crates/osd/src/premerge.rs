//! The premerge state of a group: it takes no requests because it is about to be merged.

use pg::Pg;

/// Whether a group is about to be merged.
#[derive(Debug, Default)]
pub(crate) struct Premerge {
    /// The map announces a merge of the group.
    is_announced: bool,
    /// The group was clean since then, and takes no more requests.
    rests: bool,
}

impl Premerge {
    /// Whether the group takes no more requests, as far as it was checked.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// Whether the group takes no more requests: it is about to be merged, and was clean since the
    /// map said so.
    pub fn must_rest(&mut self, pg: &mut Pg) -> bool {
        self.rests |= self.is_announced && pg.is_clean();
        pg.set_premerge(self.rests);
        self.rests
    }

    /// Notes whether the map announces a merge. Returns whether the group resumes service because it
    /// does not any more.
    pub fn announce(&mut self, is_announced: bool, pg: &mut Pg) -> bool {
        self.is_announced = is_announced;
        // An inactive one restarts or drops all waiting requests anyway.
        let resumes = self.rests && !is_announced && pg.is_active();
        if resumes {
            self.resume(pg);
        }
        resumes
    }

    /// Ends the premerge state.
    pub fn resume(&mut self, pg: &mut Pg) {
        self.rests = false;
        pg.set_premerge(false);
    }
}
