//! The plan of a repair: which rows it needs, and which rows it writes.

use crate::check::Checked;
use crate::facts::{FOUND, Name};
use crate::fix::{Fix, RowChange};
use crate::object::{DAMAGED_OBJECT, Table, table_of};
use crate::overlay::inode_mut;
use crate::settlement::{Home, Settlement};
use bytes::Bytes;
use namespace::{EntryImage, EntryKey, Ino, Inode, Kind, Row, RowKey};
use std::collections::{BTreeMap, BTreeSet};
use types::{SnapId, UTime};

/// Permissions of directories that a repair makes.
const FOUND_MODE: u32 = Kind::DIRECTORY_MODE | 0o700;
const ROOT_MODE: u32 = Kind::DIRECTORY_MODE | 0o755;

/// Changes of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Changes of rows, to be made in this order: an inode is stored at its new place before it leaves its
    /// old one, so that a repair that is interrupted loses none. They may be made again.
    pub rows: Vec<RowChange>,
    /// Objects that go, after all changes of rows.
    pub removed: Vec<String>,
    /// Numbers of inodes below this one are used: the head must say so before rows are changed.
    pub used_below: u64,
    /// Numbers that sessions of clients lose.
    pub taken: BTreeMap<u64, BTreeSet<u64>>,
}

impl Checked {
    /// Whether a repair would change anything.
    pub fn has_repair(&self) -> bool {
        !self.state.fixes.is_empty() || !self.state.settled.is_empty()
    }

    /// Whether objects of a file's data may exist: it does, a snapshot shows it, or they are to be removed.
    pub fn has_data_of(&self, ino: u64) -> bool {
        let ino = Ino(ino);
        let facts = &self.state.facts;
        let exists = facts.inodes.get(&ino).is_some_and(|inode| !inode.images.is_empty());
        exists || facts.old_inodes.contains_key(&ino) || facts.purges.contains(&ino)
    }

    /// Rows whose values [`Checked::plan`] needs.
    pub fn wanted(&self) -> BTreeSet<RowKey> {
        let edited = self.state.fixes.iter().filter_map(|fix| match fix {
            Fix::After { key, .. } | Fix::InodeAfter { key, .. } => Some(key.clone()),
            _ => None,
        });
        let sources =
            self.state.settled.values().filter_map(|settlement| settlement.source.clone());
        let root = self.needs_found().then_some(RowKey::Root(Ino::ROOT));
        edited.chain(sources).chain(root).collect()
    }

    fn needs_found(&self) -> bool {
        self.state.settled.values().any(|settlement| settlement.is_found)
    }

    /// The changes that mend what was found. `rows` are the wanted ones that exist, `now` is the time of what
    /// is made anew, and `numbers` the first number of an inode that is not used.
    pub fn plan(&self, rows: &BTreeMap<RowKey, Row>, now: UTime, numbers: u64) -> Plan {
        let mut planned = Planned {
            checked: self,
            rows: rows.clone(),
            changed: BTreeMap::new(),
            plan: Plan { used_below: numbers, ..Plan::default() },
            now,
            last: self.state.facts.numbers.as_ref().map_or(SnapId(0), |numbers| numbers.last),
            taken: BTreeSet::new(),
        };
        self.state.fixes.iter().for_each(|fix| planned.fix(fix));
        let found = self.needs_found().then(|| planned.found_directory());
        for (ino, settlement) in &self.state.settled {
            planned.settle(*ino, settlement, found);
        }
        planned.finish()
    }
}

/// A plan that is being made.
struct Planned<'a> {
    checked: &'a Checked,
    /// Wanted rows, as they are after the changes so far.
    rows: BTreeMap<RowKey, Row>,
    changed: BTreeMap<RowKey, Option<Row>>,
    plan: Plan,
    now: UTime,
    last: SnapId,
    /// Names in the directory for what is found.
    taken: BTreeSet<Bytes>,
}

impl Planned<'_> {
    fn fix(&mut self, fix: &Fix) {
        let change = |object: &str, key: &Bytes, value| RowChange {
            object: object.to_owned(),
            key: key.clone(),
            value,
        };
        match fix {
            Fix::RemoveObject(name) => self.plan.removed.push(name.clone()),
            Fix::RemoveRow { object, key } => self.plan.rows.push(change(object, key, None)),
            Fix::PutAside { object, key, value } => {
                let place = [object.as_bytes(), b"\0", key].concat().into();
                self.plan.rows.push(change(DAMAGED_OBJECT, &place, Some(value.clone())));
                self.plan.rows.push(change(object, key, None));
            }
            Fix::Numbers(numbers) => {
                self.changed.insert(RowKey::Snapshots, Some(Row::Snapshots(numbers.clone())));
            }
            Fix::Remove(key) => drop(self.changed.insert(key.clone(), None)),
            Fix::UsedBelow(numbers) => {
                self.plan.used_below = self.plan.used_below.max(*numbers);
            }
            Fix::TakeNumbers { client, numbers } => {
                self.plan.taken.entry(*client).or_default().extend(numbers);
            }
            Fix::After { key, after } => self.edit(key, |row| match row {
                Row::Entry(_, old) => *old = *after,
                Row::OldEntry(old) => old.after = *after,
                _ => {}
            }),
            Fix::InodeAfter { key, after } => self.edit(key, |row| {
                inode_mut(row).into_iter().for_each(|inode| inode.policy.after = *after);
            }),
        }
    }

    fn edit(&mut self, key: &RowKey, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows.get_mut(key) {
            change(row);
            self.changed.insert(key.clone(), Some(row.clone()));
        }
    }

    /// The directory for what has no place; made in the root if it is not there.
    fn found_directory(&mut self) -> Ino {
        let facts = &self.checked.state.facts;
        let numbered = |number: u32| match number {
            0 => Bytes::from_static(FOUND),
            _ => Bytes::from(format!("lost+found.{number}")),
        };
        let is_good = |ino: &Ino| {
            let is_directory = facts.inodes.get(ino).is_some_and(|inode| inode.is_directory());
            is_directory && !self.checked.state.settled.contains_key(ino)
        };
        let mut names = (0..).map(numbered);
        let usable = |name: &Bytes| facts.found_places.get(name).is_none_or(is_good);
        let name = names.find(usable).expect("some number is free");
        if let Some(ino) = facts.found_places.get(&name) {
            let all = facts.inodes.values().flat_map(|inode| inode.names());
            self.taken =
                all.filter(|name| name.directory == *ino).map(|name| name.key.name).collect();
            return *ino;
        }
        let ino = Ino(self.plan.used_below.max(Ino::FIRST.0));
        self.plan.used_below = ino.0 + 1;
        let image = EntryImage::Primary(Box::new(self.made(ino, FOUND_MODE)));
        let key = RowKey::Entry(Ino::ROOT, EntryKey::of(&name));
        self.changed.insert(key, Some(Row::Entry(image, self.last)));
        let now = self.now;
        self.edit(&RowKey::Root(Ino::ROOT), |row| {
            inode_mut(row).into_iter().for_each(|root| touch(root, now));
        });
        ino
    }

    /// A directory that is made anew.
    fn made(&self, ino: Ino, mode: u32) -> Inode {
        let now = self.now;
        let mut inode = Inode { ino, mode, nlink: 1, version: 1, ..Inode::default() };
        (inode.btime, inode.mtime, inode.atime) = (now, now, now);
        inode.policy.after = self.last;
        touch(&mut inode, now);
        inode
    }

    fn settle(&mut self, ino: Ino, settlement: &Settlement, found: Option<Ino>) {
        let known = self.checked.state.facts.inodes.get(&ino);
        for key in known.map(|inode| inode.row_keys(ino)).unwrap_or_default() {
            self.changed.insert(key, None);
        }
        let inode = match &settlement.source {
            Some(key) => self.rows.get_mut(key).and_then(inode_mut).cloned(),
            None if ino == Ino::ROOT => Some(self.made(ino, ROOT_MODE)),
            None => Some(self.made(ino, FOUND_MODE)),
        };
        let (Some(mut inode), false) = (inode, settlement.home == Home::Nowhere) else { return };
        let mut names = settlement.names.clone();
        if let Some(directory) = found.filter(|_| settlement.is_found) {
            names.push(self.found_name(ino, directory));
        }
        inode.nlink = match settlement.home {
            Home::Root => 1,
            _ => names.len() as u32,
        };
        touch(&mut inode, self.now);
        let apart = match settlement.home {
            Home::Root => Some(RowKey::Root(ino)),
            Home::Link => Some(RowKey::Link(ino)),
            Home::Orphan => Some(RowKey::Orphan(ino)),
            Home::Entry | Home::Nowhere => None,
        };
        let image = match &apart {
            Some(_) => EntryImage::Remote(ino),
            None => EntryImage::Primary(Box::new(inode.clone())),
        };
        for name in names {
            self.changed.insert(name.row_key(), Some(Row::Entry(image.clone(), name.after)));
        }
        if let Some(key) = apart {
            self.changed.insert(key, Some(Row::Inode(Box::new(inode))));
        }
    }

    fn found_name(&mut self, ino: Ino, directory: Ino) -> Name {
        let numbered = |number: u32| match number {
            0 => Bytes::from(format!("{:x}", ino.0)),
            _ => Bytes::from(format!("{:x}.{number}", ino.0)),
        };
        let mut names = (0..).map(numbered);
        let name = names.find(|name| !self.taken.contains(name)).expect("some number is free");
        self.taken.insert(name.clone());
        Name { directory, key: EntryKey::of(&name), after: self.last }
    }

    fn finish(mut self) -> Plan {
        let rank = self.checked.state.rank;
        let rows = self.changed.iter();
        self.plan.rows.extend(rows.map(|(key, row)| RowChange::of(key, rank, row.as_ref())));
        // A row that does not decode goes, unless its key gets another one.
        let place = |change: &RowChange| (change.object.clone(), change.key.clone());
        let is_set = |change: &&RowChange| change.value.is_some();
        let set: BTreeSet<_> = self.plan.rows.iter().filter(is_set).map(place).collect();
        self.plan.rows.retain(|change| change.value.is_some() || !set.contains(&place(change)));
        // Inodes that are stored apart, then names, then all that goes.
        let is_entry = |change: &RowChange| {
            matches!(table_of(change.object.as_bytes(), rank), Table::Directory(_))
        };
        self.plan.rows.sort_by_key(|change| (change.value.is_none(), is_entry(change)));
        self.plan
    }
}

/// A repair has changed an inode: clients take only newer versions.
fn touch(inode: &mut Inode, now: UTime) {
    inode.version += 1;
    inode.change_attr = inode.change_attr.saturating_add(1);
    inode.ctime = inode.ctime.max(now);
}
