//! File locks, by requests of owners.

use super::*;
use proptest::prelude::*;

const FILE: InodeId = InodeId(7);
const OTHER: InodeId = InodeId(8);

fn owner(client: u64) -> LockOwner {
    LockOwner { client, number: 1 }
}

fn lock(client: u64, kind: LockKind, start: u64, length: u64) -> FileLock {
    FileLock::new(owner(client), 100 + client, kind, start, length)
}

fn write(client: u64, start: u64, length: u64) -> FileLock {
    lock(client, LockKind::Exclusive, start, length)
}

fn set(locks: &mut FileLocks, ino: InodeId, rule: LockRule, lock: FileLock) -> SetOutcome {
    let id = RequestId { client: lock.owner.client, tid: lock.start };
    let outcome = locks.handle_set(LockRequest { id, ino, rule, lock, waits: true });
    locks.check_invariants();
    outcome
}

fn posix(locks: &mut FileLocks, ino: InodeId, lock: FileLock) -> SetOutcome {
    set(locks, ino, LockRule::Posix, lock)
}

fn ranges(locks: &FileLocks) -> Vec<(u64, LockKind, u64, u64)> {
    let held = locks.held(FILE, LockRule::Posix);
    held.iter().map(|lock| (lock.owner.client, lock.kind, lock.start, lock.end)).collect()
}

#[test]
fn an_owner_replaces_the_middle_of_its_range() {
    use LockKind::{Exclusive, Shared};
    let mut locks = FileLocks::default();
    posix(&mut locks, FILE, write(1, 0, 100));
    posix(&mut locks, FILE, lock(1, Shared, 40, 20));
    let split = [(1, Exclusive, 0, 40), (1, Shared, 40, 60), (1, Exclusive, 60, 100)];
    assert_eq!(ranges(&locks), split);
    posix(&mut locks, FILE, write(1, 40, 20));
    assert_eq!(ranges(&locks), [(1, Exclusive, 0, 100)], "neighbours are joined");
    locks.handle_unlock(FILE, LockRule::Posix, &write(1, 10, 0));
    assert_eq!(ranges(&locks), [(1, Exclusive, 0, 10)]);
}

#[test]
fn waiting_requests_get_their_locks_in_order() {
    let mut locks = FileLocks::default();
    assert_eq!(posix(&mut locks, FILE, write(1, 0, 10)), SetOutcome::Locked);
    for client in [2, 3] {
        assert_eq!(posix(&mut locks, FILE, write(client, 5, 10)), SetOutcome::Waits);
    }
    assert_eq!(posix(&mut locks, FILE, write(4, 20, 10)), SetOutcome::Locked, "elsewhere");
    locks.handle_unlock(FILE, LockRule::Posix, &write(1, 0, 10));
    assert_eq!(locks.poll_locked(), Some(RequestId { client: 2, tid: 5 }));
    assert_eq!(locks.poll_locked(), None);
    locks.remove_client(2);
    assert_eq!(locks.poll_locked(), Some(RequestId { client: 3, tid: 5 }));
    locks.check_invariants();
}

#[test]
fn readers_share_and_a_question_names_the_lock_in_the_way() {
    let mut locks = FileLocks::default();
    let shared = |client| lock(client, LockKind::Shared, 0, 0);
    assert_eq!(posix(&mut locks, FILE, shared(1)), SetOutcome::Locked);
    assert_eq!(posix(&mut locks, FILE, shared(2)), SetOutcome::Locked);
    let against = locks.handle_get(FILE, LockRule::Posix, &write(3, 9, 1)).unwrap();
    assert_eq!((against.pid, against.end), (101, u64::MAX));
    let request = LockRequest {
        id: RequestId { client: 3, tid: 1 },
        ino: FILE,
        rule: LockRule::Posix,
        lock: write(3, 9, 1),
        waits: false,
    };
    assert_eq!(locks.handle_set(request), SetOutcome::Held);
    assert_eq!(locks.handle_get(FILE, LockRule::Flock, &write(3, 9, 1)), None, "kinds are apart");
}

#[test]
fn a_request_that_would_wait_for_its_own_owner_is_refused() {
    let mut locks = FileLocks::default();
    posix(&mut locks, FILE, write(1, 0, 1));
    posix(&mut locks, OTHER, write(2, 0, 1));
    posix(&mut locks, OTHER, write(3, 5, 1));
    assert_eq!(posix(&mut locks, OTHER, write(1, 0, 1)), SetOutcome::Waits);
    assert_eq!(posix(&mut locks, FILE, write(3, 0, 1)), SetOutcome::Waits, "no circle");
    assert_eq!(posix(&mut locks, OTHER, write(2, 5, 1)), SetOutcome::Deadlock);
    assert_eq!(posix(&mut locks, FILE, write(2, 0, 1)), SetOutcome::Deadlock);
    // With `flock` both would wait, as in Linux.
    for (client, ino) in [(1, FILE), (2, OTHER), (1, OTHER), (2, FILE)] {
        let outcome = set(&mut locks, ino, LockRule::Flock, write(client, 0, 0));
        assert_ne!(outcome, SetOutcome::Deadlock);
    }
}

#[test]
fn an_interrupted_request_waits_no_more() {
    let mut locks = FileLocks::default();
    posix(&mut locks, FILE, write(1, 0, 1));
    posix(&mut locks, FILE, write(2, 0, 1));
    let interrupted = locks.handle_interrupt(FILE, LockRule::Posix, &write(2, 0, 1));
    assert_eq!(interrupted, Some(RequestId { client: 2, tid: 0 }));
    assert_eq!(locks.handle_interrupt(FILE, LockRule::Posix, &write(2, 0, 1)), None);
    locks.handle_unlock(FILE, LockRule::Posix, &write(1, 0, 1));
    assert_eq!(locks.poll_locked(), None);
    assert!(locks.files.is_empty() && locks.waits.is_empty());
}

proptest! {
    #[test]
    fn locks_never_contradict_each_other_and_nothing_waits_for_nothing(
        steps in prop::collection::vec((0u8..5, 1u64..5, 0u64..12, 0u64..6, any::<bool>()), 1..120)
    ) {
        let mut locks = FileLocks::default();
        for (step, client, start, length, flag) in steps {
            let kind = if flag { LockKind::Exclusive } else { LockKind::Shared };
            let ino = if start % 2 == 0 { FILE } else { OTHER };
            let bytes = lock(client, kind, start, length);
            match step {
                0 | 1 => drop(set(&mut locks, ino, LockRule::Posix, bytes)),
                2 => locks.handle_unlock(ino, LockRule::Posix, &bytes),
                3 => drop(locks.handle_interrupt(ino, LockRule::Posix, &bytes)),
                _ => locks.remove_client(client),
            }
            locks.check_invariants();
        }
        for client in 1..5 {
            locks.remove_client(client);
        }
        prop_assert!(locks.files.is_empty() && locks.waits.is_empty());
    }
}
