//! The table of capabilities with clients that answer in any order.

use super::*;
use proptest::prelude::*;

const INO: Ino = Ino(0x100_0000_0001);
const READ: CapBits =
    CapBits(CapBits::FILE_SHARED.0 | CapBits::FILE_READ.0 | CapBits::FILE_CACHE.0);
const WRITE: CapBits =
    CapBits(CapBits::FILE_EXCL.0 | CapBits::FILE_WRITE.0 | CapBits::FILE_BUFFER.0);

fn issue(caps: &mut Caps, client: u64, wanted: CapBits) -> ReplyCap {
    let cap = caps.issue(INO, false, client, wanted);
    caps.end_demands(RequestId { client: 0, tid: 0 }, [INO]);
    caps.check_invariants();
    cap
}

fn notices(caps: &mut Caps) -> Vec<CapNotice> {
    std::iter::from_fn(|| caps.poll_notice()).collect()
}

/// The client gives back what it is asked for.
fn obey(caps: &mut Caps, notice: &CapNotice) {
    let CapNotice { client, cap_id, seq, .. } = *notice;
    caps.confirm(INO, client, cap_id, seq, notice.caps, notice.wanted);
    caps.check_invariants();
}

#[test]
fn the_only_user_of_a_file_may_do_everything() {
    let mut caps = Caps::default();
    let cap = issue(&mut caps, 1, READ | WRITE);
    assert_eq!(cap.caps.to_string(), "pAsxLsXsFsxcrwb");
    assert_eq!((cap.cap_id, cap.is_auth), (1, true));
    assert!(notices(&mut caps).is_empty());
}

#[test]
fn a_second_writer_waits_until_the_first_has_written_back() {
    let mut caps = Caps::default();
    issue(&mut caps, 1, WRITE);
    let second = issue(&mut caps, 2, WRITE);
    assert_eq!(second.caps.to_string(), "pLsXs");
    let revoked = notices(&mut caps);
    assert_eq!(revoked.len(), 1);
    assert_eq!((revoked[0].op, revoked[0].caps.to_string()), (CapOp::REVOKE, "pAsLsXsFrw".into()));
    obey(&mut caps, &revoked[0]);
    let granted = notices(&mut caps);
    assert_eq!((granted[0].client, granted[0].op), (2, CapOp::GRANT));
    assert_eq!(granted[0].caps.to_string(), "pAsLsXsFrw");
}

#[test]
fn a_demand_takes_what_contradicts_it_and_gives_it_back() {
    let [own, other] = [1, 2].map(|client| RequestId { client, tid: 9 });
    let mut caps = Caps::default();
    issue(&mut caps, 1, WRITE);
    assert!(caps.demand(INO, own, Need::Change), "its own client need not give anything back");
    caps.end_demands(own, [INO]);
    assert!(!caps.demand(INO, other, Need::Read));
    let revoked = notices(&mut caps);
    assert_eq!(revoked[0].caps.to_string(), "pAsLsXsFscr");
    obey(&mut caps, &revoked[0]);
    assert!(caps.demand(INO, other, Need::Read));
    assert!(!caps.demand(INO, other, Need::Change));
    let revoked = notices(&mut caps);
    assert_eq!(revoked[0].caps.to_string(), "p");
    obey(&mut caps, &revoked[0]);
    assert!(caps.demand(INO, other, Need::Change));
    caps.end_demands(other, [INO]);
    assert_eq!(notices(&mut caps)[0].caps.to_string(), "pAsxLsXsFsxcrwb");
}

#[test]
fn a_release_that_crosses_a_grant_is_ignored() {
    let mut caps = Caps::default();
    let first = issue(&mut caps, 1, READ);
    issue(&mut caps, 1, READ);
    assert!(!caps.release(INO, 1, first.cap_id, first.seq));
    assert!(!caps.release(INO, 1, 99, 99), "an id of another capability");
    assert!(caps.is_held(INO));
    assert!(caps.release(INO, 1, first.cap_id, first.seq + 1));
    assert!(!caps.is_held(INO));
}

#[test]
fn the_capabilities_of_a_closed_session_go_to_others() {
    let mut caps = Caps::default();
    issue(&mut caps, 1, WRITE);
    issue(&mut caps, 2, WRITE);
    notices(&mut caps);
    assert_eq!(caps.remove_client(1), [INO]);
    assert_eq!(notices(&mut caps)[0].caps.to_string(), "pAsxLsXsFsxcrwb");
}

#[test]
fn directories_are_given_to_one_client_and_shared_by_two() {
    let mut caps = Caps::default();
    let root = caps.issue(Ino::ROOT, true, 1, CapBits::NONE);
    assert_eq!(root.caps.to_string(), "pAsxLsXsFsx");
    assert!(!caps.demand(Ino::ROOT, RequestId { client: 2, tid: 1 }, Need::Change));
}

proptest! {
    #[test]
    fn bits_never_contradict_each_other(steps in prop::collection::vec((0u8..6, 1u64..4, any::<bool>()), 1..80)) {
        let mut caps = Caps::default();
        let mut open: Vec<CapNotice> = Vec::new();
        for (number, (step, client, flag)) in steps.into_iter().enumerate() {
            match step {
                0 => drop(issue(&mut caps, client, if flag { WRITE } else { READ })),
                1 => {
                    let need = if flag { Need::Change } else { Need::Read };
                    let request = RequestId { client, tid: number as u64 };
                    let is_met = caps.demand(INO, request, need);
                    if is_met || flag {
                        caps.end_demands(request, [INO]);
                    }
                }
                2 => drop(caps.remove_client(client)),
                // Clients answer the oldest message, or the newest one.
                3 if flag && !open.is_empty() => obey(&mut caps, &open.remove(0)),
                _ => if let Some(notice) = open.pop() { obey(&mut caps, &notice) },
            }
            caps.check_invariants();
            open.extend(notices(&mut caps));
        }
    }
}
