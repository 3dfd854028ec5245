//! Snapshots of one object in memory: preservation, lookup, rollback and trimming.

use super::*;
use pg::snaps::{At, SnapSet};
use wire::snapshots::{CloneInfo, SnapListing};

impl Subject {
    /// Sets the snapshot context of writers, newest first.
    fn knows(&mut self, snaps: &[u64]) -> &mut Self {
        self.snaps = snaps.iter().copied().map(SnapId).collect();
        self
    }

    fn writes(&mut self, ops: &[OsdOp]) {
        assert_eq!(self.run(ops).result, 0);
    }

    fn set(&self) -> SnapSet {
        self.state.snaps.as_deref().cloned().unwrap_or_default()
    }

    /// The object's data at a snapshot, or `None` if it did not exist then.
    fn data_at(&mut self, snap: u64) -> Option<Bytes> {
        let snapshots = Snapshots { removed: Some(&self.removed), ..Snapshots::default() };
        let name = match snapshots.find(self.state.snaps.as_deref(), SnapId(snap)) {
            At::Head if !self.state.exists => return None,
            At::Head => self.object.clone(),
            At::Clone(id) => self.object.at(id),
            At::Nowhere => return None,
        };
        let stored = self.store.object(COLLECTION, &name).expect("it is there");
        Some(stored.data.read(0, stored.data.size()).data)
    }

    fn listing(&mut self) -> Vec<CloneInfo> {
        self.object.snap = SnapId::DIR;
        let output = self.output(OsdOp::new(OpCode::LIST_SNAPS));
        self.object.snap = SnapId::HEAD;
        codec::decode_all::<SnapListing>("listing", &output).unwrap().clones
    }

    fn roll_back(&mut self, snap: u64) -> i32 {
        let mut op = OsdOp::new(OpCode::ROLLBACK);
        op.arguments[..8].copy_from_slice(&snap.to_le_bytes());
        self.result(op)
    }

    fn trims(&mut self, clone: u64, snap: u64) -> Execution {
        self.removed.insert(SnapId(snap));
        let execution = trim(&Trim {
            head: &self.object,
            state: &self.state,
            clone: SnapId(clone),
            snap: SnapId(snap),
            removed: &self.removed,
            version: EVersion::new(2, self.version + 1),
        });
        self.apply(&execution);
        execution
    }

    fn names(&self) -> Vec<SnapId> {
        self.store.objects(COLLECTION).map(|(name, _)| name.snap).collect()
    }
}

fn write(offset: u64, data: &str) -> OsdOp {
    OsdOp::write(offset, bytes(data))
}

#[test]
fn the_first_write_after_a_snapshot_makes_a_clone_and_only_that() {
    let mut object = Subject::with_data("before");
    let execution = object.knows(&[3]).run(&[write(0, "AF")]);
    assert!(execution.makes_clone());
    assert_eq!((execution.delta.objects, execution.delta.clones), (1, 1));
    assert_eq!(execution.delta.bytes, 2, "what both have in common counts once");
    assert!(!object.run(&[write(2, "TER")]).makes_clone());
    assert_eq!(object.content(), "AFTERe");
    assert_eq!(object.data_at(3), Some(bytes("before")));
    assert_eq!(object.data_at(4), Some(bytes("AFTERe")), "nothing was written since");
    let listed = object.listing();
    assert_eq!((listed[0].clone, listed[0].size), (SnapId(3), 6));
    assert_eq!((&listed[0].snaps, &listed[0].overlap), (&vec![SnapId(3)], &vec![(5, 1)]));
    assert_eq!((listed[1].clone, listed[1].size), (SnapId::HEAD, 6));
}

#[test]
fn what_is_known_of_clones_changes_only_with_what_they_share() {
    let mut object = Subject::with_data("before");
    object.knows(&[3]).writes(&[write(0, "AF")]);
    for (op, changes) in [
        (write(0, "ag"), false),
        (write(1, "go"), true),
        (write(0, "ago"), false),
        (OsdOp::xattr(OpCode::SETXATTR, b"a", b"x"), false),
        (OsdOp::truncate(5), true),
    ] {
        let text = format!("{op:?}");
        assert_eq!(object.run(&[op]).snaps.is_some(), changes, "{text}");
    }
    assert_eq!(object.set().clones[0].overlap.to_vec(), [(3, 2)]);
    assert!(object.knows(&[4]).run(&[write(0, "x")]).makes_clone());
}

#[test]
fn without_snapshots_nothing_is_kept_about_them() {
    let mut object = Subject::with_data("data");
    let execution = object.run(&[write(0, "x")]);
    assert!(
        execution.snaps.is_none() && execution.clones.is_none() && object.state.snaps.is_none()
    );
}

#[test]
fn an_object_that_is_new_was_not_there_at_older_snapshots() {
    let mut object = Subject::absent();
    object.knows(&[5, 2]).writes(&[write(0, "new")]);
    assert_eq!((object.data_at(2), object.data_at(5)), (None, None));
    assert_eq!(object.data_at(6), Some(bytes("new")));
    object.knows(&[9, 7, 5, 2]).writes(&[write(0, "N")]);
    assert_eq!(object.set().clones[0].snaps, [SnapId(9), SnapId(7)], "not those before it");
    assert_eq!(object.data_at(7), Some(bytes("new")));
    assert_eq!(object.data_at(8), None, "nobody knows of this one");
}

#[test]
fn a_removed_object_stays_where_snapshots_want_it() {
    let mut object = Subject::with_data("kept");
    object.knows(&[1]).writes(&[OsdOp::remove()]);
    assert!(!object.state.exists && object.state.info.is_whiteout);
    assert_eq!(object.result(OsdOp::stat()), errno(Errno::NOENT));
    assert_eq!(object.result(OsdOp::remove()), errno(Errno::NOENT));
    assert_eq!(object.data_at(1), Some(bytes("kept")));
    assert_eq!(object.listing().len(), 1, "there is no head");
    object.writes(&[OsdOp::create(true), write(0, "again")]);
    assert_eq!(object.content(), "again");
    assert_eq!(object.data_at(1), Some(bytes("kept")));
    assert_eq!(object.listing()[0].overlap, []);
}

#[test]
fn clones_have_attributes_and_omap_of_their_own() {
    let mut object = Subject::with_data("x");
    let pairs = BTreeMap::from([(bytes("k"), bytes("old"))]);
    object.writes(&[
        OsdOp::xattr(OpCode::SETXATTR, b"a", b"old"),
        OsdOp::new(OpCode::OMAPSETVALS).with_input(codec::encode_to_bytes(&pairs)),
    ]);
    object
        .knows(&[1])
        .writes(&[OsdOp::xattr(OpCode::SETXATTR, b"a", b"new"), OsdOp::new(OpCode::OMAPCLEAR)]);
    let clone = object.state_of(&object.object.at(SnapId(1))).unwrap();
    assert_eq!(clone.xattrs[&bytes("a")], "old");
    assert!(clone.info.has_omap && clone.snaps.is_none() && !object.state.info.has_omap);
    assert_eq!(object.roll_back(1), 0);
    assert_eq!(object.state.xattrs[&bytes("a")], "old");
    let stored = object.store.object(COLLECTION, &object.object).unwrap();
    assert_eq!(stored.omap, pairs);
}

#[test]
fn a_rollback_restores_data_and_keeps_newer_snapshots() {
    let mut object = Subject::with_data("aaaaaaaa");
    object.knows(&[1]).writes(&[write(0, "b")]);
    object.knows(&[2, 1]).writes(&[write(1, "c")]);
    assert_eq!(object.knows(&[3, 2, 1]).roll_back(1), 0);
    assert_eq!(object.content(), "aaaaaaaa");
    for (snap, data) in [(1, "aaaaaaaa"), (2, "baaaaaaa"), (3, "bcaaaaaa")] {
        assert_eq!(object.data_at(snap), Some(bytes(data)));
    }
    let listed = object.listing();
    assert_eq!(listed[2].overlap, [(2, 6)], "what the rollback changed is not shared");
    assert_eq!(object.roll_back(9), 0, "nothing happened since");
    assert_eq!(object.content(), "aaaaaaaa");
}

#[test]
fn a_rollback_to_before_the_object_was_removes_it() {
    let mut object = Subject::absent();
    object.knows(&[4]).writes(&[write(0, "x")]);
    assert_eq!(object.roll_back(4), 0);
    assert!(!object.state.exists && object.names().is_empty());
    assert_eq!(object.roll_back(4), 0);
}

#[test]
fn a_writer_that_asks_for_order_must_know_the_newest_snapshot() {
    let object = Subject::with_data("x");
    let mut state = object.state.clone();
    state.snaps = Some(Box::new(SnapSet { seq: SnapId(7), clones: Vec::new() }));
    let result = |seq| {
        let snapshots = Snapshots { seq: SnapId(seq), is_ordered: true, ..Snapshots::default() };
        let executed = execute(&Input {
            pool: PoolRules::default(),
            object: &object.object,
            ops: &[write(0, "y")],
            may_write: true,
            state: &state,
            loaded: &Loaded::default(),
            caller: &object.caller,
            now: UTime::ZERO,
            mtime: UTime::ZERO,
            version: EVersion::new(2, 9),
            last_user_version: 0,
            snapshots,
            notify_id: 1,
            allowance: u64::MAX,
            is_connected: &|_| false,
        });
        let ExecuteOutcome::Done(execution) = executed else { panic!("nothing is to be loaded") };
        execution.result
    };
    assert_eq!((result(6), result(7)), (-85, 0));
}

#[test]
fn trimming_takes_away_what_no_snapshot_wants_any_more() {
    let mut object = Subject::with_data("aaaa");
    object.knows(&[2, 1]).writes(&[write(0, "b")]);
    object.knows(&[3, 2, 1]).writes(&[write(1, "c")]);
    let execution = object.trims(2, 1);
    assert_eq!(execution.clones.unwrap().written, [], "another snapshot shows the clone");
    assert_eq!((object.data_at(1), object.data_at(2)), (None, Some(bytes("aaaa"))));
    let execution = object.trims(3, 3);
    let clones = execution.clones.unwrap();
    assert_eq!((clones.written[0].kind, clones.unindexed.len()), (pg::EntryKind::Delete, 1));
    assert_eq!(execution.delta.clones, -1);
    assert_eq!(object.listing()[0].overlap, [(2, 2)], "as much as both clones shared");
    assert_eq!(object.content(), "bcaa");
    assert!(!object.trims(3, 3).modifies(), "there is nothing more to do");
    object.trims(2, 2);
    assert_eq!(object.names(), [SnapId::HEAD]);
}

#[test]
fn a_whiteout_goes_with_its_last_clone() {
    let mut object = Subject::with_data("x");
    object.knows(&[1]).writes(&[OsdOp::remove()]);
    let execution = object.trims(1, 1);
    assert_eq!((execution.delta.objects, execution.delta.bytes), (-1, -1));
    assert!(!execution.exists && !execution.is_whiteout() && object.names().is_empty());
}
