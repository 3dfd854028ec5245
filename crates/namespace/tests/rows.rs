//! Trees that are stored as rows and records, and loaded again after a crash at any point.

mod steps;

use bytes::Bytes;
use namespace::{
    ChangedRows, Context, Ino, Inode, LoadError, Loader, Operation, PageStart, Record, Row, RowKey,
    Tree, execute, snapshots,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use steps::{Step, operation, paths, step};
use types::{SnapId, UTime};

/// Rows by object and key.
type Rows = BTreeMap<String, BTreeMap<Bytes, Bytes>>;

/// A tree with what is stored of it.
struct World {
    tree: Tree,
    changed: ChangedRows,
    rows: Rows,
    /// Records behind the last checkpoint that has ended.
    journal: Vec<Record>,
    last: u32,
    /// Snapshots that exist: their directories, their names, and what was below them.
    taken: BTreeMap<SnapId, (Ino, Bytes, Content)>,
}

/// Paths below a directory with the states of inodes.
type Content = BTreeMap<String, Inode>;

/// A directory as a snapshot shows it, or as it is now.
fn content_of(tree: &Tree, top: Ino, snap: Option<SnapId>) -> Content {
    let state = |ino| match snap {
        Some(snap) => snapshots::inode_at(tree, ino, snap).cloned(),
        None => tree.get(ino).cloned(),
    };
    let plain = |inode: Inode| Inode { policy: Default::default(), ..inode };
    let mut open = vec![(String::new(), top)];
    let mut found = Content::new();
    while let Some((path, ino)) = open.pop() {
        let Some(inode) = state(ino) else { panic!("{path} of {snap:?} has no inode {ino}") };
        if inode.is_directory() {
            let page = match snap {
                Some(snap) => tree.page_at(ino, snap, &PageStart::Begin, 1000),
                None => tree.page(ino, &PageStart::Begin, 1000).expect("it exists"),
            };
            for (name, entry) in page.entries {
                let path = format!("{path}/{}", String::from_utf8_lossy(&name));
                if let Some(snap) = snap {
                    let found = snapshots::entry_at(tree, ino, &name, snap);
                    assert_eq!(found, Some(entry.ino), "{path}");
                }
                open.push((path, entry.ino));
            }
        }
        found.insert(path, plain(inode));
    }
    found
}

impl World {
    fn new() -> Self {
        let tree = Tree::new(UTime::ZERO);
        let mut rows = Rows::new();
        store(&tree, &RowKey::Root(Ino::ROOT), &mut rows);
        let (changed, journal, taken) = Default::default();
        World { tree, changed, rows, journal, last: 0, taken }
    }

    /// A snapshot of a directory is taken.
    fn snapshot(&mut self, path: &str) {
        let Some(ino) = paths(&self.tree).get(path).copied() else { return };
        let (directory, name) = (Ino(ino), Bytes::from(format!("s{}", self.last)));
        let metadata = BTreeMap::new();
        let before = self.tree.existing_snaps().len();
        self.apply(&Operation::TakeSnapshot { directory, name: name.clone(), metadata });
        if self.tree.existing_snaps().len() > before {
            let snap = *self.tree.existing_snaps().keys().next_back().expect("it was taken");
            let content = content_of(&self.tree, directory, None);
            self.taken.insert(snap, (directory, name, content));
        }
    }

    /// A snapshot is removed, and the old versions that none shows.
    fn remove_snapshot(&mut self, which: usize) {
        let snap = self.taken.keys().nth(which % self.taken.len().max(1)).copied();
        let Some((directory, name, _)) = snap.and_then(|snap| self.taken.remove(&snap)) else {
            return;
        };
        self.apply(&Operation::RemoveSnapshot { directory, name });
        let mut place = Some((SnapId(0), None));
        while let Some(from) = place {
            let (keys, next) = snapshots::stale(&self.tree, &from, 2);
            self.apply(&Operation::TrimOldVersions { keys });
            place = next;
        }
    }

    fn check_snapshots(&self, tree: &Tree) {
        assert!(tree.existing_snaps().keys().eq(self.taken.keys()));
        for (snap, (directory, name, content)) in &self.taken {
            assert_eq!(snapshots::listed(tree, *directory).get(name), Some(snap));
            assert_eq!(&content_of(tree, *directory, Some(*snap)), content, "{snap:?}");
        }
    }

    fn apply(&mut self, operation: &Operation) {
        self.last += 1;
        let now = UTime { seconds: self.last, nanoseconds: 0 };
        let Ok(done) = execute(&self.tree, operation, &Context { now, uid: 1, gid: 1 }) else {
            return;
        };
        self.changed.note(&self.tree, &done.records);
        self.tree.apply(&done.records);
        self.journal.extend(done.records);
    }

    fn run(&mut self, step: &Step) {
        let ino = Ino(Ino::FIRST.0 + u64::from(self.last));
        if let Ok(operation) = operation(&self.tree, step, ino) {
            self.apply(&operation);
        }
    }

    fn write(&mut self, key: &RowKey) {
        if self.tree.row(key).is_some() || self.changed.may_be_stored(key) {
            store(&self.tree, key, &mut self.rows);
        }
    }

    fn load(&self) -> Result<(Tree, ChangedRows), LoadError> {
        load(&self.rows, &self.journal)
    }
}

/// Stores or removes a row as the tree has it.
fn store(tree: &Tree, key: &RowKey, rows: &mut Rows) {
    if let RowKey::Directory(directory) = key {
        if !snapshots::keep_rows_of(tree, *directory) {
            rows.remove(&key.object(0));
        }
        return;
    }
    let object = rows.entry(key.object(0)).or_default();
    match tree.row(key) {
        Some(row) => object.insert(key.key(), row.encode()),
        None => object.remove(&key.key()),
    };
}

fn load(rows: &Rows, journal: &[Record]) -> Result<(Tree, ChangedRows), LoadError> {
    let mut loader = Loader::new(0);
    journal.iter().for_each(|record| loader.record(record.clone()));
    let inodes = |loader: &mut Loader, key: fn(Ino) -> RowKey, object: &str| {
        let pairs = rows.get(object).into_iter().flatten();
        for (raw, value) in pairs {
            loader.inode_row(key, raw, value)?;
        }
        Ok(())
    };
    inodes(&mut loader, RowKey::Root, "roots.0")?;
    inodes(&mut loader, RowKey::Orphan, "orphans.0")?;
    for value in rows.get(namespace::SNAPSHOTS_OBJECT).into_iter().flat_map(BTreeMap::values) {
        loader.snapshots_row(value)?;
    }
    if loader.has_snapshots() {
        for object in namespace::old_version_objects(Ino(Ino::FIRST.0 + 1000)) {
            for (raw, value) in rows.get(&object).into_iter().flatten() {
                loader.old_row(&object, raw, value)?;
            }
        }
    }
    while let Some(directory) = loader.next_directory() {
        for (key, value) in rows.get(&namespace::directory_object(directory)).into_iter().flatten()
        {
            loader.directory_row(directory, key, value)?;
        }
    }
    for ino in loader.missing_links() {
        let raw = namespace::ino_key(ino);
        if let Some(value) = rows.get(&namespace::links_object(ino)).and_then(|at| at.get(&raw)) {
            loader.inode_row(RowKey::Link, &raw, value)?;
        }
    }
    loader.finish()
}

/// All that clients see of a tree but the latest change below a directory, which may go back, and the order
/// of names, which statistics of several links depend on.
fn content(tree: &Tree) -> (BTreeMap<String, u64>, Vec<Inode>, Vec<Ino>) {
    let paths = paths(tree);
    let inodes = paths.values().map(|ino| tree.get(Ino(*ino)).expect("it has a name").clone());
    (paths.clone(), inodes.collect(), tree.orphans())
}

#[derive(Debug, Clone)]
enum Act {
    Step(Step),
    /// An orphan is forgotten.
    Forget,
    Snapshot(String),
    RemoveSnapshot(usize),
    /// A checkpoint begins, or continues by some rows.
    Checkpoint(usize),
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => step().prop_map(Act::Step),
        1 => Just(Act::Forget),
        2 => prop_oneof![Just(""), Just("/a"), Just("/b"), Just("/a/b")]
            .prop_map(|path| Act::Snapshot(path.to_owned())),
        1 => any::<usize>().prop_map(Act::RemoveSnapshot),
        4 => (0usize..6).prop_map(Act::Checkpoint),
        1 => Just(Act::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_crash_at_any_row_of_a_checkpoint_loses_nothing(acts in prop::collection::vec(act(), 1..90)) {
        let mut world = World::new();
        // Rows of the running checkpoint that are not written yet, and records before it began.
        let mut running: Option<(Vec<RowKey>, usize)> = None;
        for act in &acts {
            match act {
                Act::Step(step) => world.run(step),
                Act::Forget => {
                    if let Some(ino) = world.tree.orphans().first() {
                        world.apply(&Operation::Forget { ino: *ino });
                    }
                }
                Act::Snapshot(path) => world.snapshot(path),
                Act::RemoveSnapshot(which) => world.remove_snapshot(*which),
                Act::Checkpoint(count) => {
                    let begin = || (world.changed.freeze(), world.journal.len());
                    let (mut keys, records) = running.take().unwrap_or_else(begin);
                    for key in keys.drain(..(*count).min(keys.len())) {
                        world.write(&key);
                    }
                    if keys.is_empty() {
                        world.changed.thaw();
                        world.journal.drain(..records);
                    } else {
                        running = Some((keys, records));
                    }
                }
                Act::Crash => {
                    let (tree, changed) = world.load().expect("rows and records agree");
                    (world.tree, world.changed, running) = (tree, changed, None);
                }
            }
            let (tree, _) = world.load().expect("rows and records agree");
            tree.check_invariants();
            prop_assert_eq!(content(&tree), content(&world.tree), "after {:?}", act);
            world.check_snapshots(&world.tree);
            world.check_snapshots(&tree);
        }
        while !world.taken.is_empty() {
            world.remove_snapshot(0);
        }
        prop_assert_eq!(snapshots::kept(&world.tree), 0, "no old version is left");
        // With a whole checkpoint the rows alone are the tree, and nothing else is left in them.
        if let Some((keys, _)) = running {
            keys.iter().for_each(|key| world.write(key));
            world.changed.thaw();
        }
        for key in world.changed.freeze() {
            world.write(&key);
        }
        let (tree, changed) = load(&world.rows, &[]).expect("rows agree");
        prop_assert_eq!(content(&tree), content(&world.tree));
        prop_assert!(changed.is_empty());
        world.rows.remove(namespace::SNAPSHOTS_OBJECT);
        let stored: usize = world.rows.values().map(BTreeMap::len).sum();
        let names = paths(&tree).len() - 1;
        let apart = |ino: &&u64| tree.get(Ino(**ino)).is_some_and(|inode| inode.nlink > 1);
        let inodes: std::collections::BTreeSet<u64> = paths(&tree).values().copied().collect();
        let apart = inodes.iter().filter(apart).count();
        // An inode that has lost all but one of its links stays apart.
        let single = inodes.len() - apart;
        prop_assert!((names + apart..=names + apart + single).contains(&(stored - 1 - tree.orphans().len())));
    }
}

#[test]
fn rows_that_contradict_each_other_are_refused() {
    let mut world = World::new();
    world.run(&Step::Create("/a".into(), true));
    world.run(&Step::Create("/a/b".into(), true));
    world.run(&Step::Create("/c".into(), false));
    world.run(&Step::Link("/c".into(), "/a/c".into()));
    for key in world.changed.freeze() {
        world.write(&key);
    }
    let directory = |path: &str| namespace::directory_object(Ino(paths(&world.tree)[path]));
    let refused = |change: &dyn Fn(&mut Rows)| {
        let mut rows = world.rows.clone();
        change(&mut rows);
        load(&rows, &[]).unwrap_err().to_string()
    };
    let (root, a, b) = (directory(""), directory("/a"), directory("/a/b"));
    let row_of = |path: &str, at: &str| {
        let ino = Ino(paths(&world.tree)[path]);
        let (key, value) = world.rows[at]
            .iter()
            .find(|(_, value)| {
                let (image, _) = Row::decode_entry(value).expect("it was stored");
                matches!(image, namespace::EntryImage::Primary(inode) if inode.ino == ino)
            })
            .expect("it has a row");
        (key.clone(), value.clone())
    };
    assert!(refused(&|rows| rows.clear()).contains("no row"));
    let links = namespace::links_object(Ino(paths(&world.tree)["/c"]));
    assert!(refused(&|rows| drop(rows.remove(&links))).contains("no row"));
    let (key, value) = row_of("/a", &root);
    let twice = refused(&|rows| {
        rows.entry(b.clone()).or_default().insert(key.clone(), value.clone());
    });
    assert!(twice.contains("two places"), "{twice}");
    let torn = refused(&|rows| {
        rows.get_mut(&a).expect("it has rows").insert(key.clone(), value.slice(..9));
    });
    assert!(torn.contains("does not decode"), "{torn}");
}

#[test]
fn a_name_that_returns_while_its_removal_is_written_goes_again() {
    let mut world = World::new();
    let whole = |world: &mut World| {
        for key in world.changed.freeze() {
            world.write(&key);
        }
        world.changed.thaw();
    };
    world.run(&Step::Create("/a".into(), true));
    whole(&mut world);
    world.run(&Step::Remove("/a".into(), true));
    let keys = world.changed.freeze();
    world.run(&Step::Create("/a".into(), true));
    keys.iter().for_each(|key| world.write(key));
    world.changed.thaw();
    world.run(&Step::Remove("/a".into(), true));
    whole(&mut world);
    let (tree, _) = load(&world.rows, &[]).expect("rows agree");
    assert_eq!(content(&tree), content(&world.tree));
}
