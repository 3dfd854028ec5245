//! Calls of an activated primary.

use crate::core::Core;
use crate::message::Body;
use crate::primary::Primary;
use crate::role::Role;
use crate::scrub::Finding;
use crate::serving::{self, Service, UnfoundCount, Write};
use crate::{Output, Pg};
use engine::Time;
use types::{EVersion, HObject, OsdId, UTime};

impl Pg {
    /// The primary of an activated group; `None` in all other states.
    pub(crate) fn service(&mut self) -> Option<Service<'_>> {
        match &mut self.role {
            Role::Primary(primary) => primary.service(&mut self.core),
            _ => None,
        }
    }

    /// Passes the primary of an activated group what has happened. All others ignore it.
    pub(crate) fn with(&mut self, handle: impl FnOnce(&mut Service<'_>)) {
        if let Some(mut service) = self.service() {
            handle(&mut service);
        }
    }

    /// Passes a primary what has happened. All others ignore it.
    pub(crate) fn with_primary(&mut self, handle: impl FnOnce(&mut Primary, &mut Core)) {
        if let Role::Primary(primary) = &mut self.role {
            handle(primary, &mut self.core);
        }
    }

    /// The time of [`Output::WaitUntil`] has come. Harmless at any other time.
    pub fn time_passed(&mut self) {
        self.with_primary(|primary, core| primary.time_passed(core));
    }

    /// Sets the present time, and until when the read lease holds that this OSD granted to the present
    /// primary, or, if this OSD is the primary, until when its replicas may answer reads. Call before
    /// anything that may end an interval or make the group active.
    pub fn set_time(&mut self, now: Time, promised: Time) {
        self.core.leases.now = now;
        self.core.leases.promised = promised;
    }

    /// The same, while requests are served.
    fn active(&mut self) -> Option<Service<'_>> {
        self.service().filter(Service::is_active)
    }

    /// The version that the next write will get.
    pub fn next_version(&self) -> EVersion {
        serving::next_version(&self.core)
    }

    /// Orders a write after all others, stores and replicates it, and returns its version. Panics unless
    /// the group is active.
    pub fn submit(&mut self, write: Write) -> EVersion {
        serving::submit(&mut self.active().expect("writes come to active groups"), write)
    }

    /// A client waits for this object: starts its recovery if that is possible now.
    pub fn want_object(&mut self, object: &HObject) {
        if let Some(mut service) = self.service() {
            service.want_object(object);
        }
    }

    /// Starts the recovery of one more object, oldest version first; false if none could be started among a
    /// bounded number. There may be others as long as [`Pg::wants_recovery`].
    pub fn recover_next(&mut self) -> bool {
        self.service().is_some_and(|mut service| service.recover_next())
    }

    /// Tries again what found no room or no reservation.
    pub fn retry_recovery(&mut self) {
        if let Some(mut service) = self.service() {
            service.retry_recovery();
        }
    }

    /// Our own copy of the object, of this version, cannot be read. Returns whether requests for it should
    /// wait because another copy may turn up.
    pub fn cannot_read(&mut self, object: &HObject, version: EVersion) -> bool {
        self.active().is_some_and(|mut service| service.cannot_read(object, version))
    }

    /// Has all copies that could not be read read once more.
    pub fn ask_again(&mut self) {
        if let Some(mut service) = self.service() {
            service.ask_again();
        }
    }

    /// Makes the bad copies of an object equal to the authoritative one; whether that was begun.
    pub fn repair(&mut self, now: UTime, finding: &Finding) -> bool {
        self.active().is_some_and(|mut service| serving::repair(&mut service, now, finding))
    }

    /// Marks these members' copies of an object as missing; they are recovered from others, in this
    /// version. False if that is not possible now.
    pub fn distrust(&mut self, object: &HObject, version: EVersion, bad: &[OsdId]) -> bool {
        self.active()
            .is_some_and(|mut service| serving::mark_corrupt(&mut service, object, version, bad))
    }

    /// Removes an object that should not exist, by a write on all members; whether that was begun.
    pub fn remove_remains(&mut self, now: UTime, object: &HObject) -> bool {
        self.active().is_some_and(|mut service| serving::remove_remains(&mut service, now, object))
    }

    /// Counts unfound objects, by examining at most `looks` missing ones. Exact if there are no more;
    /// otherwise the result of the last round, or of this one if that is higher already.
    pub fn count_unfound(&mut self, looks: usize) -> u64 {
        let mut count = match &mut self.role {
            Role::Primary(primary) => std::mem::take(&mut primary.known.unfound),
            _ => UnfoundCount::default(),
        };
        let known = self.view().count_unfound(&mut count, looks);
        if let Role::Primary(primary) = &mut self.role {
            primary.known.unfound = count;
        }
        known
    }

    /// The OSD's decision on a reservation that [`Output::Reserve`] requested; `primary` as there.
    pub fn reserved(&mut self, primary: Option<OsdId>, granted: bool) {
        let is_taken = match primary {
            Some(primary) => self.reserved_as_target(primary, granted),
            None => self.service().is_some_and(|mut service| service.reserved(granted)),
        };
        if !is_taken {
            // The reservation is not needed any more.
            self.core.outputs.push_back(Output::Release);
        }
    }

    fn reserved_as_target(&mut self, primary: OsdId, granted: bool) -> bool {
        let is_wanted = self.role.is_backfilled_by(primary);
        if is_wanted {
            if !granted {
                self.role.drop_reservation();
            }
            self.core.send(primary, &Body::Reserved(granted));
        }
        is_wanted
    }

    /// Gives up the reservations of the interval, as primary or as target.
    pub(crate) fn end_backfill(&mut self) {
        let was_reserved = self.role.drop_reservation();
        if self.view().agreed.backfill.is_begun() || was_reserved {
            self.core.outputs.push_back(Output::Release);
        }
    }
}
