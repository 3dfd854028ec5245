//! A replica's part in a scrub: it scans the objects that the primary names, and returns a map of them.

use super::map::{Level, ScrubMap};
use super::scan::{Extent, Scan, ScanTag};
use store::{Collection, Outcome, RequestKind, StoreError};

/// A scan's request to the store, with the number of the scan.
pub type MemberTag = (u64, ScanTag);

/// The scans of one replica, for one group.
#[derive(Debug, Default)]
pub struct ReplicaScan {
    /// The latest scan and its number; the primary has dropped those before.
    scan: Option<(u64, Scan)>,
}

impl ReplicaScan {
    /// Begins a scan in place of the latest one.
    pub fn begin(&mut self, collection: Collection, number: u64, level: Level, extent: Extent) {
        self.scan = Some((number, Scan::new(collection, extent, level)));
    }

    /// The next request to the store.
    pub fn poll_request(&mut self) -> Option<(MemberTag, RequestKind)> {
        let (number, scan) = self.scan.as_mut()?;
        let (tag, kind) = scan.poll_request()?;
        Some(((*number, tag), kind))
    }

    /// Handles the outcome of a request; outcomes for earlier scans are ignored.
    pub fn handle_completion(&mut self, tag: MemberTag, outcome: Result<Outcome, StoreError>) {
        if let Some((number, scan)) = &mut self.scan
            && *number == tag.0
        {
            scan.handle(tag.1, outcome);
        }
    }

    /// The number and the result of a scan, once; `None` if the store cannot list its objects.
    pub fn poll_answer(&mut self) -> Option<(u64, Option<ScrubMap>)> {
        let (number, scan) = self.scan.take_if(|(_, scan)| scan.is_done())?;
        Some((number, scan.finish().ok()))
    }
}
