//! The check of what is stored, and repairs of each damage, after which a server opens the rank.

use super::*;
use crate::store::fsck::{self, Found, FsckError, Reader, Target};
use fscheck::{Problem, Report};
use namespace::{EntryImage, EntryKey, Inode, Row, RowKey};

const TARGET: Target = Target { pool: PoolId(2), rank: 0, osd_epoch: Epoch(9) };
/// Time of repairs.
const LATER: UTime = UTime { seconds: 99, nanoseconds: 0 };

/// Reads a pool at one moment.
fn read(pool: &Pool) -> Option<Found> {
    let head = pool.objects.get("rank.0".as_bytes())?;
    let mut reader = Reader::new(0, &head.data, false).unwrap();
    while let Some(segment) = reader.next_segment() {
        let data = pool.objects.get(segment.as_bytes());
        // Some tests damage the journal, which is not the matter of rows.
        reader.segment(data.map(|object| object.data.clone().into()).as_ref()).ok()?;
    }
    for (name, object) in &pool.objects {
        if reader.object(name) {
            let name = String::from_utf8_lossy(name);
            object.pairs.iter().for_each(|(key, value)| reader.row(&name, key, value));
        }
    }
    Some(reader.finish())
}

/// A server may have died at this moment: but for parts of the journal, nothing is left over.
pub(super) fn assert_sound(pool: &Pool) {
    let Some(found) = read(pool) else { return };
    let is_journal = |object: &str| object.starts_with("journal.");
    let mut findings = found.checked.report.findings;
    findings.retain(|finding| !is_journal(&finding.object));
    assert_eq!(findings, []);
}

/// Carries out a procedure; `None` if it is interrupted, after `max` operations that write.
fn outcome<T>(
    pool: &mut Pool,
    mut procedure: Procedure<Result<T, FsckError>>,
    max: usize,
) -> Option<Result<T, FsckError>> {
    let mut done = 0;
    loop {
        if let Some(outcome) = procedure.poll_outcome() {
            return Some(outcome);
        }
        let (id, request) = procedure.poll_request().expect("it goes on");
        let answer = match request {
            ClusterRequest::NewestMap => Ok(Reply::Map(NEWEST_MAP)),
            ClusterRequest::Identify => Ok(Reply::Identity { global_id: 77 }),
            ClusterRequest::Operate(operation) => {
                let writes = operation.flags != 0;
                if writes && done == max {
                    return None;
                }
                done += usize::from(writes);
                pool.execute(&operation)
            }
            other => panic!("{other:?}"),
        };
        procedure.handle_response(id, answer);
    }
}

fn run<T>(pool: &mut Pool, procedure: Procedure<Result<T, FsckError>>, max: usize) -> Option<T> {
    outcome(pool, procedure, max).map(|outcome| outcome.unwrap())
}

fn check(pool: &mut Pool) -> Found {
    let names = pool.objects.keys().cloned().collect();
    let read = Procedure::new(move |steps| fsck::read(steps, TARGET, names, false));
    run(pool, read, usize::MAX).expect("it is not interrupted")
}

/// Repairs a pool; each part may be interrupted after so many operations that write.
fn repair(pool: &mut Pool, max: usize) -> Option<Report> {
    run(pool, Procedure::new(|steps| fsck::begin(steps, TARGET, true)), max)?;
    run(pool, Procedure::new(|steps| fsck::confirm(steps, TARGET)), max)?;
    let found = check(pool);
    run(pool, Procedure::new(move |steps| fsck::flush(steps, TARGET, found)), max)?;
    let found = check(pool);
    run(pool, Procedure::new(move |steps| fsck::mend(steps, TARGET, found, LATER)), max)?;
    let report = check(pool).checked.report;
    run(pool, Procedure::new(|steps| fsck::end(steps, TARGET)), max)?;
    Some(report)
}

fn link(from: &str, to: &str) -> ClientRequest {
    let path2 = FilePath::new(1, Bytes::copy_from_slice(from.as_bytes()));
    ClientRequest { path2, ..request(ClientOp::LINK, to) }
}

/// A tree that is stored in rows, with a file of two names, and a snapshot of `d` that shows `d/gone`.
fn stored() -> World {
    let mut world = World::new(&[1]);
    for asked in [
        mkdir("d"),
        mkdir("d/e"),
        create("d/one"),
        create("d/gone"),
        create("d/e/two"),
        link("d/e/two", "both"),
        request(ClientOp::MKSNAP, "d//s"),
        request(ClientOp::UNLINK, "d/gone"),
        resize("d/one", LONG),
    ] {
        world.ask(1, asked);
        world.finish();
    }
    let answers = &world.clients[&1].answers;
    assert!(answers.iter().all(|(_, result)| *result == 0), "{answers:?}");
    world.release(1);
    world.store.ask_checkpoint();
    world.finish();
    world
}

/// Rows of a pool, by their places.
struct Rows<'a>(&'a mut Pool);

impl Rows<'_> {
    fn get(&mut self, key: &RowKey) -> Row {
        let value = self.0.objects[key.object(0).as_bytes()].pairs[&key.key()].clone();
        fscheck::decode_row(key, &value).unwrap()
    }

    fn set(&mut self, key: &RowKey, row: &Row) {
        self.put(key, row.encode());
    }

    fn put(&mut self, key: &RowKey, value: Bytes) {
        let object = self.0.objects.entry(key.object(0).into()).or_default();
        object.pairs.insert(key.key(), value);
    }

    fn remove(&mut self, key: &RowKey) {
        let object = self.0.objects.get_mut(key.object(0).as_bytes()).expect("it exists");
        object.pairs.remove(&key.key()).expect("the row exists");
    }

    fn inode(&mut self, key: &RowKey) -> Inode {
        match self.get(key) {
            Row::Entry(EntryImage::Primary(inode), _) | Row::Inode(inode) => *inode,
            other => panic!("{other:?}"),
        }
    }
}

fn entry(directory: u64, name: &str) -> RowKey {
    RowKey::Entry(Ino(directory), EntryKey::of(&Bytes::copy_from_slice(name.as_bytes())))
}

fn primary(inode: Inode) -> Row {
    Row::Entry(EntryImage::Primary(Box::new(inode)), SnapId(0))
}

/// Damages a stored tree: the check finds these problems, and nothing else. The repair mends all, also when
/// it is interrupted after each of its writes, and a server serves these paths then.
fn damaged(
    damage: impl Fn(&mut Rows<'_>, &BTreeMap<String, u64>),
    problems: &[Problem],
    lost: &[&str],
    found: &[&str],
) {
    let mut world = stored();
    let paths = world.paths();
    world.crash(0);
    damage(&mut Rows(&mut world.pool), &paths);
    let report = check(&mut world.pool).checked.report;
    let is_journal = |object: &str| object.starts_with("journal.");
    let findings = report.findings.iter().filter(|finding| !is_journal(&finding.object));
    let kinds: BTreeSet<Problem> = findings.map(|finding| finding.problem).collect();
    assert_eq!(kinds, problems.iter().copied().collect(), "{:#?}", report.findings);
    for max in (0..).chain([usize::MAX]) {
        let mut pool = world.pool.clone();
        let is_interrupted = repair(&mut pool, max).is_none();
        if is_interrupted && max > 0 {
            refuses_to_open(pool.clone());
        }
        let report = repair(&mut pool, usize::MAX).expect("it is not interrupted");
        assert_eq!(report.findings, [], "after {max} writes");
        assert_sound(&pool);
        let mut expected: BTreeSet<String> = paths.keys().cloned().collect();
        lost.iter().for_each(|path| assert!(expected.remove(*path), "{path}"));
        expected.extend(found.iter().map(|path| (*path).to_owned()));
        let mut successor = open(pool);
        let served: BTreeSet<String> = successor.paths().into_keys().collect();
        assert_eq!(served, expected, "after {max} writes");
        if !is_interrupted {
            return;
        }
    }
}

/// A server refuses a rank that is being repaired, and is not damaged by it.
fn refuses_to_open(pool: Pool) {
    let mut world = World::new(&[]);
    world.crash(0);
    world.pool = pool;
    while !world.pending.is_empty() {
        world.answer(0);
    }
    assert!(matches!(world.store.failure(), Some(Failure::Passing(why)) if why.contains("repair")));
}

fn open(pool: Pool) -> World {
    let mut world = World::new(&[]);
    world.crash(0);
    world.pool = pool;
    world.finish();
    assert!(world.rank.is_some(), "{:?}", world.store.failure());
    world
}

#[test]
fn a_sound_tree_has_no_findings_and_is_left_as_it_is() {
    damaged(|_, _| {}, &[], &[], &[]);
    let report = check(&mut stored().pool).checked.report;
    let totals = report.totals;
    assert_eq!((totals.directories, totals.files, totals.names), (3, 2, 5));
    assert_eq!((totals.snapshots, totals.bytes), (1, LONG));
}

#[test]
fn a_row_that_does_not_decode_is_put_aside() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        rows.put(&entry(paths["/d"], "one"), Bytes::from_static(b"nonsense"));
    };
    damaged(damage, &[Problem::Undecodable], &["/d/one"], &[]);
}

#[test]
fn a_directory_whose_row_does_not_decode_is_found_with_its_entries() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        rows.put(&entry(paths["/d"], "e"), Bytes::from_static(b""));
    };
    let ino = stored().paths()["/d/e"];
    let found = format!("/lost+found/{ino:x}");
    let problems = [Problem::Undecodable, Problem::NoInode];
    let lost = ["/d/e", "/d/e/two"];
    damaged(damage, &problems, &lost, &["/lost+found", &found, &format!("{found}/two")]);
}

#[test]
fn a_lost_root_is_made_anew() {
    let damage =
        |rows: &mut Rows<'_>, _: &BTreeMap<String, u64>| rows.remove(&RowKey::Root(Ino::ROOT));
    damaged(damage, &[Problem::NoRoot], &[], &[]);
}

#[test]
fn a_root_whose_row_does_not_decode_is_made_anew() {
    let damage = |rows: &mut Rows<'_>, _: &BTreeMap<String, u64>| {
        rows.put(&RowKey::Root(Ino::ROOT), Bytes::from_static(b"?"));
    };
    damaged(damage, &[Problem::Undecodable, Problem::NoRoot], &[], &[]);
}

#[test]
fn a_file_that_is_stored_twice_keeps_both_names() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let inode = rows.inode(&entry(paths["/d"], "one"));
        rows.set(&entry(1, "again"), &primary(Inode { version: 1, size: 1, ..inode }));
    };
    damaged(damage, &[Problem::Duplicate], &[], &["/again"]);
}

#[test]
fn a_directory_that_is_stored_twice_keeps_its_newest_name() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let inode = rows.inode(&entry(paths["/d"], "e"));
        let version = inode.version + 1;
        rows.set(&entry(1, "moved"), &primary(Inode { version, ..inode }));
    };
    let problems = [Problem::Duplicate];
    damaged(damage, &problems, &["/d/e", "/d/e/two"], &["/moved", "/moved/two"]);
}

#[test]
fn names_without_an_inode_go() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        rows.remove(&RowKey::Link(Ino(paths["/both"])));
    };
    damaged(damage, &[Problem::NoInode], &["/both", "/d/e/two"], &[]);
}

#[test]
fn links_are_counted() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        rows.remove(&entry(1, "both"));
        let key = entry(paths["/d"], "one");
        let inode = rows.inode(&key);
        rows.set(&key, &primary(Inode { nlink: 2, ..inode }));
    };
    damaged(damage, &[Problem::WrongLinks], &["/both"], &[]);
}

#[test]
fn an_inode_that_lost_its_names_is_found() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        rows.remove(&entry(1, "both"));
        rows.remove(&entry(paths["/d/e"], "two"));
    };
    let found = format!("/lost+found/{:x}", stored().paths()["/both"]);
    damaged(damage, &[Problem::NoName], &["/both", "/d/e/two"], &["/lost+found", &found]);
}

#[test]
fn what_is_listed_without_a_name_and_has_links_is_found() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let key = entry(paths["/d"], "one");
        let inode = rows.inode(&key);
        rows.remove(&key);
        rows.set(&RowKey::Orphan(inode.ino), &Row::Inode(Box::new(inode)));
    };
    let found = format!("/lost+found/{:x}", stored().paths()["/d/one"]);
    damaged(damage, &[Problem::WrongOrphan], &["/d/one"], &["/lost+found", &found]);
}

#[test]
fn entries_of_a_file_are_found() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let key = entry(paths["/d"], "e");
        let inode = rows.inode(&key);
        rows.remove(&key);
        rows.set(&entry(paths["/d/one"], "e"), &primary(inode));
    };
    let found = format!("/lost+found/{:x}", stored().paths()["/d/e"]);
    let lost = ["/d/e", "/d/e/two"];
    damaged(
        damage,
        &[Problem::NotDirectory],
        &lost,
        &["/lost+found", &found, &format!("{found}/two")],
    );
}

#[test]
fn directories_that_contain_each_other_are_found() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let key = entry(1, "d");
        let inode = rows.inode(&key);
        rows.remove(&key);
        rows.set(&entry(paths["/d/e"], "d"), &primary(inode));
    };
    let found = format!("/lost+found/{:x}", stored().paths()["/d"]);
    let lost = ["/d", "/d/e", "/d/e/two", "/d/one"];
    let now = ["/e", "/e/two", "/one"].map(|path| format!("{found}{path}"));
    let now: Vec<&str> = now.iter().map(String::as_str).chain(["/lost+found", &found]).collect();
    damaged(damage, &[Problem::Unreachable], &lost, &now);
}

#[test]
fn numbers_of_snapshots_are_set() {
    let damage = |rows: &mut Rows<'_>, _: &BTreeMap<String, u64>| {
        rows.remove(&RowKey::Snapshots);
    };
    damaged(damage, &[Problem::SnapshotNumbers], &[], &[]);
    let damage = |rows: &mut Rows<'_>, _: &BTreeMap<String, u64>| {
        let Row::Snapshots(mut numbers) = rows.get(&RowKey::Snapshots) else { panic!() };
        numbers.removed.insert(numbers.last);
        rows.set(&RowKey::Snapshots, &Row::Snapshots(numbers));
    };
    damaged(damage, &[Problem::SnapshotNumbers], &[], &[]);
}

#[test]
fn versions_that_one_snapshot_shows_twice_are_told_apart() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let key = entry(paths["/d"], "one");
        let mut inode = rows.inode(&key);
        inode.policy.after = SnapId(0);
        rows.set(&key, &primary(inode));
    };
    damaged(damage, &[Problem::SnapshotRange], &[], &[]);
}

#[test]
fn numbers_that_are_used_are_not_given_out_again() {
    let damage = |rows: &mut Rows<'_>, _: &BTreeMap<String, u64>| {
        let ino = Ino((1 << 40) + 1_000_000);
        let inode = Inode { ino, nlink: 1, mode: 0o40_755, ..Inode::default() };
        rows.set(&entry(1, "high"), &primary(inode));
    };
    damaged(damage, &[Problem::Numbers], &[], &["/high"]);
}

#[test]
fn data_of_an_inode_that_exists_is_not_purged() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let file = rows.inode(&entry(paths["/d"], "one"));
        let purge = crate::purges::Purge::of(&file, SnapContext::default()).expect("it has data");
        let object = rows.0.objects.entry("tasks.0".into()).or_default();
        object.pairs.insert(namespace::ino_key(file.ino), codec::encode_to_bytes(&purge));
    };
    damaged(damage, &[Problem::Purge], &[], &[]);
}

#[test]
fn a_number_that_is_used_is_not_delegated() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let object = rows.0.objects.get_mut("sessions.0".as_bytes()).expect("there is a session");
        let (key, value) = object.pairs.first_key_value().expect("there is a session");
        let (key, mut session) = (
            key.clone(),
            codec::decode_all::<crate::sessions::SessionImage>("session", value).unwrap(),
        );
        session.delegated.add(paths["/d/one"], 1);
        object.pairs.insert(key, codec::encode_to_bytes(&session));
    };
    damaged(damage, &[Problem::Delegated], &[], &[]);
}

#[test]
fn objects_of_directories_that_are_gone_go() {
    let damage = |rows: &mut Rows<'_>, _: &BTreeMap<String, u64>| {
        rows.0.objects.insert("dir.10000005555.0.0".into(), Default::default());
    };
    damaged(damage, &[Problem::Leftover], &[], &[]);
}

#[test]
fn an_inode_that_is_stored_as_a_root_is_found() {
    let damage = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let key = entry(paths["/d"], "one");
        let inode = rows.inode(&key);
        rows.remove(&key);
        rows.set(&RowKey::Root(inode.ino), &Row::Inode(Box::new(inode)));
    };
    let found = format!("/lost+found/{:x}", stored().paths()["/d/one"]);
    damaged(damage, &[Problem::Misplaced], &["/d/one"], &["/lost+found", &found]);
}

/// Damages a stored tree in a way that people must decide about: a repair leaves it, and a server serves it.
fn undecided(damage: impl Fn(&mut Rows<'_>, &BTreeMap<String, u64>), problem: Problem) {
    let mut world = stored();
    let paths = world.paths();
    world.crash(0);
    damage(&mut Rows(&mut world.pool), &paths);
    let kinds = |report: &Report| -> BTreeSet<Problem> {
        report.findings.iter().map(|finding| finding.problem).collect()
    };
    let report = check(&mut world.pool).checked.report;
    assert!(kinds(&report).contains(&problem) && !report.is_sound(), "{report:#?}");
    let report = repair(&mut world.pool, usize::MAX).expect("it is not interrupted");
    assert_eq!(kinds(&report), [problem].into(), "{report:#?}");
    open(world.pool);
}

#[test]
fn names_and_files_that_clients_cannot_use_are_left() {
    let named = |rows: &mut Rows<'_>, _: &BTreeMap<String, u64>| {
        let inode =
            Inode { ino: Ino((1 << 40) + 5000), nlink: 1, mode: 0o40_755, ..Inode::default() };
        rows.set(&entry(1, "a/b"), &primary(inode));
    };
    undecided(named, Problem::BadName);
    let without_layout = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let key = entry(paths["/d"], "one");
        let inode = rows.inode(&key);
        rows.set(&key, &primary(Inode { layout: None, ..inode }));
    };
    undecided(without_layout, Problem::BadLayout);
}

#[test]
fn snapshots_that_contradict_each_other_are_left() {
    let twice = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let realm = rows.inode(&entry(1, "d")).policy.realm;
        let key = entry(paths["/d"], "e");
        let mut inode = rows.inode(&key);
        inode.policy.realm = realm;
        rows.set(&key, &primary(inode));
    };
    undecided(twice, Problem::DuplicateSnapshot);
    let without_inode = |rows: &mut Rows<'_>, paths: &BTreeMap<String, u64>| {
        let directory = Ino(paths["/d"]);
        let object = &rows.0.objects[namespace::directory_object(directory).as_bytes()];
        let old = object.pairs.iter().find_map(|(key, value)| {
            let (_, last) = namespace::decode_entry_key(key).unwrap();
            let old = || Row::decode_old_entry(value).unwrap();
            (last != SnapId::HEAD).then(|| RowKey::OldInode(old().ino, last))
        });
        rows.remove(&old.expect("the snapshot shows a name that is gone"));
    };
    undecided(without_inode, Problem::SnapshotInode);
}

#[test]
fn rows_of_a_newer_program_are_not_touched() {
    let mut world = stored();
    let key = entry(1, "d");
    let mut value = Rows(&mut world.pool).get(&key).encode().to_vec();
    (value[0], value[1]) = (3, 3);
    Rows(&mut world.pool).put(&key, value.into());
    let report = check(&mut world.pool).checked.report;
    assert!(report.is_newer() && !report.is_sound(), "{report:?}");
}

#[test]
fn a_repair_refuses_a_rank_that_another_one_has() {
    let mut world = stored();
    let pool = &mut world.pool;
    run(pool, Procedure::new(|steps| fsck::begin(steps, TARGET, false)), usize::MAX);
    let again = Procedure::new(|steps| fsck::begin(steps, TARGET, false));
    assert_eq!(outcome(pool, again, usize::MAX), Some(Err(FsckError::InRepair)));
    // A server that had read the head before has written it since.
    let head = pool.objects.get_mut("rank.0".as_bytes()).expect("it is there");
    let mut found = fsjournal::Head::decode(&head.data).unwrap();
    found.is_in_repair = false;
    head.data = found.encode().to_vec();
    let confirm = Procedure::new(|steps| fsck::confirm(steps, TARGET));
    assert_eq!(outcome(pool, confirm, usize::MAX), Some(Err(FsckError::Taken)));
}

#[test]
fn a_journal_that_is_damaged_ends_there_if_that_is_accepted() {
    let mut world = stored();
    world.ask(1, mkdir("later"));
    world.finish();
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    world.crash(0);
    // The first generation has a known end, which is lost now.
    let first = world.pool.names("journal.0.1.").pop().expect("the journal has a part");
    world.pool.objects.get_mut(first.as_bytes()).expect("it exists").data.clear();
    let pool = &mut world.pool;
    let names: Vec<Bytes> = pool.objects.keys().cloned().collect();
    let own = names.clone();
    let refused = Procedure::new(move |steps| fsck::read(steps, TARGET, own, false));
    let refusal = outcome(pool, refused, usize::MAX).expect("it is not interrupted").map(drop);
    assert!(matches!(refusal, Err(FsckError::Journal(_))), "{refusal:?}");
    run(pool, Procedure::new(|steps| fsck::begin(steps, TARGET, false)), usize::MAX);
    let accept = Procedure::new(move |steps| fsck::read(steps, TARGET, names, true));
    let found = run(pool, accept, usize::MAX).expect("it is not interrupted");
    run(pool, Procedure::new(move |steps| fsck::flush(steps, TARGET, found)), usize::MAX);
    run(pool, Procedure::new(|steps| fsck::end(steps, TARGET)), usize::MAX);
    let mut successor = open(world.pool.clone());
    assert!(successor.paths().contains_key("/d/one") && !successor.paths().contains_key("/later"));
}

/// Scrubs everything, and returns what was found.
pub(super) fn scrub(world: &mut World, repairs: bool) -> Vec<String> {
    let (now, root) = (world.now, ("/".to_owned(), Ino::ROOT));
    world.store.scrub.start(now, root, None, true, repairs).expect("no other one runs");
    while world.store.scrub.status()["scrubs"] != serde_json::json!({}) {
        world.now = world.now + Duration::from_millis(10);
        world.finish();
    }
    world.finish();
    assert_eq!(world.store.scrub.status()["last"]["outcome"], "done");
    let damage = world.store.scrub.damage();
    let shown = damage.as_array().expect("a list").iter();
    shown.map(|one| format!("{}: {}", one["path"], one["problem"]).replace('"', "")).collect()
}

#[test]
fn a_scrub_finds_rows_that_are_not_stored_as_they_are_served_and_writes_them_again() {
    let mut world = stored();
    assert_eq!(scrub(&mut world, false), [] as [String; 0]);
    let paths = world.paths();
    let sound = world.pool.clone();
    let rows = &mut Rows(&mut world.pool);
    rows.remove(&entry(paths["/d"], "one"));
    rows.put(&entry(1, "both"), Bytes::from_static(b"\x01\x01nonsense"));
    rows.remove(&RowKey::Link(Ino(paths["/both"])));
    rows.set(&entry(paths["/d/e"], "none"), &primary(Inode { ino: Ino(9), ..Inode::default() }));
    let root = rows.inode(&RowKey::Root(Ino::ROOT));
    rows.set(&RowKey::Root(Ino::ROOT), &Row::Inode(Box::new(Inode { mode: 0, ..root.clone() })));
    let found: BTreeSet<String> = scrub(&mut world, false).into_iter().collect();
    let expected = [
        "/: the row has other content than what is served",
        "/both: the row does not decode",
        "/d/e/none: the row is of a name that does not exist",
        "/d/e/two: the row is missing",
        "/d/one: the row is missing",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
    Rows(&mut world.pool).set(&RowKey::Root(Ino::ROOT), &Row::Inode(Box::new(root)));
    assert_eq!(scrub(&mut world, false).len(), 4, "a row that is right again is no damage");
    assert_eq!(scrub(&mut world, true), [] as [String; 0], "what was mended is no damage");
    assert_eq!(scrub(&mut world, false), [] as [String; 0]);
    let tables = |pool: &Pool| {
        let objects = pool.objects.iter();
        let rows = objects.map(|(name, object)| (name.clone(), object.pairs.clone()));
        // Purges go on meanwhile.
        rows.filter(|(name, pairs)| !pairs.is_empty() && name != "tasks.0")
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(tables(&world.pool), tables(&sound));
}

#[test]
fn a_scrub_pauses_and_is_aborted() {
    let mut world = stored();
    let (now, root) = (world.now, ("/".to_owned(), Ino::ROOT));
    let scrub = &mut world.store.scrub;
    assert_eq!(
        scrub.start(now, root.clone(), Some("mine".to_owned()), true, false),
        Some("mine".to_owned())
    );
    assert_eq!(scrub.start(now, root, None, true, false), None);
    scrub.pause(now, true);
    world.now = world.now + Duration::from_secs(1);
    world.finish();
    let status = world.store.scrub.status();
    assert!(status["status"].as_str().is_some_and(|text| text.starts_with("PAUSED")), "{status}");
    world.store.scrub.abort();
    assert_eq!(world.store.scrub.status()["status"], "no active scrubs running");
    assert_eq!(world.store.scrub.status()["last"]["outcome"], "aborted");
    assert!(!world.store.scrub.forget(1));
}

#[test]
fn the_answer_to_an_aborted_scrub_is_not_one_to_the_next() {
    let mut world = stored();
    let root = || ("/".to_owned(), Ino::ROOT);
    world.store.scrub.start(world.now, root(), None, true, false).expect("no other one runs");
    world.now = world.now + Duration::from_millis(10);
    let now = world.now;
    world.store.pump(now, world.rank.as_mut().expect("it is served"));
    world.store.scrub.abort();
    assert_eq!(scrub(&mut world, false), [] as [String; 0]);
}
