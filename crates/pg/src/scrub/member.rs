//! A member's part in a scrub: it looks at what the primary asks for, and tells what it has.

use super::map::{Level, ScrubMap};
use super::scan::{Extent, Scan, ScanTag};
use store::{Collection, Outcome, RequestKind, StoreError};

/// A request of a scan to the store, with the number of the question.
pub type MemberTag = (u64, ScanTag);

#[derive(Debug, Default)]
pub struct Member {
    /// The latest question; the primary has forgotten those before.
    scan: Option<(u64, Scan)>,
}

impl Member {
    pub fn begin(&mut self, collection: Collection, number: u64, level: Level, extent: Extent) {
        self.scan = Some((number, Scan::new(collection, extent, level)));
    }

    /// What the store is to be asked.
    pub fn poll_request(&mut self) -> Option<(MemberTag, RequestKind)> {
        let (number, scan) = self.scan.as_mut()?;
        let (tag, kind) = scan.poll_request()?;
        Some(((*number, tag), kind))
    }

    pub fn handle_completion(&mut self, tag: MemberTag, outcome: Result<Outcome, StoreError>) {
        if let Some((number, scan)) = &mut self.scan
            && *number == tag.0
        {
            scan.handle(tag.1, outcome);
        }
    }

    /// The answer, once: nothing in it, if the store does not even list its objects.
    pub fn poll_answer(&mut self) -> Option<(u64, Option<ScrubMap>)> {
        let (number, scan) = self.scan.take_if(|(_, scan)| scan.is_done())?;
        Some((number, scan.finish().ok()))
    }
}
