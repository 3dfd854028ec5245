//! What the log says of a control store that cannot be read.

use super::{Monitor, Sync};
use engine::Time;

impl Monitor {
    /// A load that is under way was refused, or not answered; it goes on. Or nothing is told of changes, and all is loaded
    /// now and then.
    pub(super) fn unread(&mut self, now: Time, reason: String) {
        let subject = if self.sync == Sync::Loading { "load" } else { "watch" };
        if self.complaints.is_due(now, subject, &reason) {
            tracing::error!(reason, "the control store cannot be read as it should; it is tried again");
        }
    }

    /// The store was read.
    pub(super) fn note_read(&mut self) {
        if self.complaints.is_over("load") {
            tracing::warn!("the control store can be read again");
        }
    }
}
