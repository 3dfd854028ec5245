//! Random operations against a model: paths and what they stand for, in a flat map.

mod steps;

use namespace::{Context, Ino, Operation, Record, Tree, execute};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use steps::{Step, operation, paths, step};
use types::{Errno, UTime};

/// A file system as a map from paths to numbers.
#[derive(Debug, Default)]
struct Model {
    names: BTreeMap<String, u64>,
    directories: BTreeSet<u64>,
}

impl Model {
    fn new() -> Self {
        let mut model = Model::default();
        model.names.insert(String::new(), 1);
        model.directories.insert(1);
        model
    }

    fn is_directory(&self, path: &str) -> bool {
        self.names.get(path).is_some_and(|ino| self.directories.contains(ino))
    }

    /// Errors of the directories of a path.
    fn check_above(&self, path: &str) -> Result<(), Errno> {
        for (at, _) in path.match_indices('/') {
            let above = &path[..at];
            if !self.names.contains_key(above) {
                return Err(Errno::NOENT);
            }
            if !self.is_directory(above) {
                return Err(Errno::NOTDIR);
            }
        }
        Ok(())
    }

    fn has_entries(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        self.names.keys().any(|name| name.starts_with(&prefix))
    }

    fn create(&mut self, path: &str, ino: u64, is_directory: bool) -> Result<(), Errno> {
        self.check_above(path)?;
        if self.names.contains_key(path) {
            return Err(Errno::EXIST);
        }
        self.names.insert(path.to_owned(), ino);
        if is_directory {
            self.directories.insert(ino);
        }
        Ok(())
    }

    fn remove(&mut self, path: &str, is_directory: bool) -> Result<(), Errno> {
        self.check_above(path)?;
        if !self.names.contains_key(path) {
            return Err(Errno::NOENT);
        }
        match (self.is_directory(path), is_directory) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            (true, true) if self.has_entries(path) => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        self.names.remove(path);
        Ok(())
    }

    fn link(&mut self, old: &str, new: &str) -> Result<(), Errno> {
        self.check_above(old)?;
        self.check_above(new)?;
        let ino = *self.names.get(old).ok_or(Errno::NOENT)?;
        if self.is_directory(old) {
            return Err(Errno::INVAL);
        }
        if self.names.contains_key(new) {
            return Err(Errno::EXIST);
        }
        self.names.insert(new.to_owned(), ino);
        Ok(())
    }

    fn rename(&mut self, old: &str, new: &str) -> Result<(), Errno> {
        self.check_above(old)?;
        self.check_above(new)?;
        let ino = *self.names.get(old).ok_or(Errno::NOENT)?;
        if self.names.get(new) == Some(&ino) {
            return Ok(());
        }
        if self.is_directory(old) && new.starts_with(&format!("{old}/")) {
            return Err(Errno::INVAL);
        }
        if self.names.contains_key(new) {
            match (self.is_directory(old), self.is_directory(new)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if self.has_entries(new) => return Err(Errno::NOTEMPTY),
                _ => {}
            }
        }
        let below = format!("{old}/");
        let moved = self.names.keys().filter(|name| *name == old || name.starts_with(&below));
        for name in moved.cloned().collect::<Vec<_>>() {
            let ino = self.names.remove(&name).expect("it was listed");
            self.names.insert(format!("{new}{}", &name[old.len()..]), ino);
        }
        Ok(())
    }
}

fn run_model(model: &mut Model, step: &Step, ino: u64) -> Result<(), Errno> {
    match step {
        Step::Create(path, is_directory) => model.create(path, ino, *is_directory),
        Step::Remove(path, is_directory) => model.remove(path, *is_directory),
        Step::Link(old, new) => model.link(old, new),
        Step::Rename(old, new) => model.rename(old, new),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn operations_have_the_results_of_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let mut tree = Tree::new(UTime::ZERO);
        let mut model = Model::new();
        let mut journal = Vec::new();
        for (number, step) in (1u32..).zip(&steps) {
            let ino = Ino(Ino::FIRST.0 + u64::from(number));
            let now = UTime { seconds: number, nanoseconds: 0 };
            let context = Context { now, uid: 1, gid: 1 };
            let done = operation(&tree, step, ino).and_then(|op| execute(&tree, &op, &context));
            let result = done.as_ref().map(|_| ()).map_err(|error| *error);
            prop_assert_eq!(result, run_model(&mut model, step, ino.0), "{:?}", step);
            if let Ok(done) = done {
                tree.apply(&done.records);
                journal.push(codec::encode_to_bytes(&done.records));
            }
            tree.check_invariants();
            prop_assert_eq!(paths(&tree), model.names.clone(), "{:?}", step);
        }
        // The journal gives the same tree.
        let mut replayed = Tree::new(UTime::ZERO);
        for frame in &journal {
            let records: Vec<Record> = codec::decode_all("frame", frame).expect("it was encoded");
            replayed.apply(&records);
        }
        prop_assert_eq!(&replayed, &tree);
        // Orphans go, and what is left has names.
        for orphan in tree.orphans() {
            let forget = Operation::Forget { ino: orphan };
            tree.apply(&execute(&tree, &forget, &Context::default()).expect("it is an orphan").records);
        }
        tree.check_invariants();
        prop_assert_eq!(tree.inodes(), model.names.values().collect::<BTreeSet<_>>().len());
    }
}
