//! The bound of the capabilities of a session.

use crate::*;
use engine::Time;
use wire::CapBits;

#[test]
fn a_client_at_its_bound_has_the_files_that_it_has_made() {
    let now = Time(1_000_000_000);
    let mut machine = LockMachine::new(Settings { session_caps_max: 1, ..Settings::default() });
    machine.open_session(now, 1);
    let mut issue = |ino, is_assumed| {
        let (kind, wanted, allowed) = (Kind::File, CapBits::FILE_WRITE, CapBits(!0));
        let ino = InodeId(ino);
        let issue =
            Issue { ino, kind, client: 1, wanted, may_delegate: false, allowed, is_assumed };
        let issued = machine.issue(now, issue);
        machine.check_invariants();
        issued.map(|issued| issued.cap_id)
    };
    assert!(issue(7, false).is_some());
    assert_eq!(issue(8, false), None);
    assert_eq!(issue(9, true), Some(1), "its size would be lost");
}
