//! Repaired copies, and lines for the cluster log, until they are reported.

use crate::limits;
use maps::OsdMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{Epoch, OsdId, PgId};

/// How a bad copy was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FoundBy {
    Scrub,
    Read,
}

/// Repairs and log lines that are to be reported.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    /// Repaired copies per OSD, since it came up in this epoch.
    copies: BTreeMap<OsdId, (Epoch, u64)>,
    /// Repairs that are not in the cluster log yet: number of objects, and OSDs with bad copies.
    untold: BTreeMap<(PgId, FoundBy), (u64, BTreeSet<OsdId>)>,
    /// Other lines for the cluster log.
    texts: VecDeque<String>,
    /// Sequence number of the latest entry in the cluster log.
    lines: u64,
}

impl Repairs {
    /// The next line for the cluster log. Each group has one line per report, however many of its
    /// objects were repaired.
    pub fn next_line(&mut self) -> Option<String> {
        let Some(((pg, found_by), (objects, osds))) = self.untold.pop_first() else {
            return self.texts.pop_front();
        };
        let osds: Vec<String> = osds.iter().map(|osd| format!("osd.{osd}")).collect();
        let found_by = if found_by == FoundBy::Scrub { "scrub" } else { "read" };
        let plural = if objects == 1 { "" } else { "s" };
        let osds = osds.join(",");
        Some(format!(
            "{pg} {found_by}: {objects} object{plural} repaired, bad copies were on {osds}"
        ))
    }

    /// Notes that bad copies of one object are replaced; `life_of` says since when an OSD is up.
    pub fn note(
        &mut self,
        pg: PgId,
        found_by: FoundBy,
        bad: &[OsdId],
        life_of: impl Fn(OsdId) -> Epoch,
    ) {
        for osd in bad {
            let life = life_of(*osd);
            let known = self.copies.entry(*osd).or_insert((life, 0));
            let before = if known.0 == life { known.1 } else { 0 };
            *known = (life, before + 1);
        }
        let (objects, osds) = self.untold.entry((pg, found_by)).or_default();
        *objects += 1;
        osds.extend(bad);
    }

    /// Adds a line for the cluster log; dropped if too many wait.
    pub fn note_text(&mut self, text: String) {
        if self.texts.len() < limits::LOG_LINES_WAITING_MAX {
            self.texts.push_back(text);
        }
    }

    /// Repaired copies per OSD. OSDs that have restarted since, maybe with another disk, begin at zero.
    pub fn copies(&mut self, map: &OsdMap) -> BTreeMap<OsdId, u64> {
        self.copies.retain(|osd, (life, _)| {
            map.osd(*osd).is_some_and(|known| known.info.up_from == *life)
        });
        self.copies.iter().map(|(osd, (_, copies))| (*osd, *copies)).collect()
    }

    /// The sequence number of the next entry in the cluster log.
    pub fn next_number(&mut self) -> u64 {
        self.lines += 1;
        self.lines
    }
}
