//! The end of a server's run: reasons, and whom it tells.

use super::{End, Mds};
use crate::store::Failure;
use engine::Time;

impl Mds {
    /// Serves no longer.
    pub(super) fn stop(&mut self, end: End) {
        if self.end.is_none() {
            tracing::error!("{end}");
            self.end = Some(end);
        }
        self.rank = None;
        self.cluster = None;
    }

    /// The process has nothing left to do: a successor may have the rank.
    pub(super) fn finish(&mut self) {
        self.is_over = true;
        self.beacons.pause();
    }

    /// The rank cannot be served. Where the next server would fail, too, the monitor is told so.
    pub(super) fn fail(&mut self, now: Time, failure: Failure) {
        match failure {
            Failure::ShutOut => {
                self.stop(End::Replaced);
                self.finish();
            }
            Failure::Passing(reason) => {
                self.stop(End::Failed(reason));
                self.finish();
            }
            Failure::Damage(reason) => {
                let role = format!("{}:{}", self.map.fs_name, self.own_rank());
                self.stop(End::Damaged { reason, role });
                self.beacons.set_damaged(now);
            }
        }
    }
}
