//! Settlements: where inodes and their names are after a repair.

use crate::facts::{InodeFacts, Name, Place};
use namespace::{Ino, Kind, RowKey};

/// Where an inode is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// In the row of the root.
    Root,
    /// With its only name.
    Entry,
    /// Apart from its names.
    Link,
    /// Among those without a name.
    Orphan,
    /// Nowhere: its names go.
    Nowhere,
}

/// An inode as a repair leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// The row with its newest image; `None` if there is none, so that it is made anew, as a directory.
    pub source: Option<RowKey>,
    /// The table that has it.
    pub home: Home,
    /// Its names.
    pub names: Vec<Name>,
    /// Whether it gets a name in the directory for what is found.
    pub is_found: bool,
}

impl Settlement {
    /// The state of an inode that follows from its names.
    pub fn of(ino: Ino, inode: &InodeFacts) -> Self {
        let best = inode.best();
        let source = best.map(|image| image.place.row_key(ino));
        let mut settlement =
            Settlement { source, home: Home::Nowhere, names: inode.names(), is_found: false };
        settlement.choose(ino, inode);
        settlement
    }

    /// Chooses the place by the names.
    fn choose(&mut self, ino: Ino, inode: &InodeFacts) {
        let Some(best) = inode.best() else {
            (self.home, self.names) = (Home::Nowhere, Vec::new());
            return;
        };
        if ino == Ino::ROOT {
            (self.home, self.names) = (Home::Root, Vec::new());
            return;
        }
        if best.kind == Kind::Directory {
            self.names.truncate(1);
        }
        self.is_found = self.names.is_empty() && best.nlink > 0;
        self.home = match self.names.len() + usize::from(self.is_found) {
            0 => Home::Orphan,
            1 if best.place == Place::Link && best.kind != Kind::Directory => Home::Link,
            1 => Home::Entry,
            _ => Home::Link,
        };
    }

    /// Takes names away; without any the inode is found.
    pub fn without(&mut self, ino: Ino, inode: &InodeFacts, is_lost: impl Fn(&Name) -> bool) {
        self.names.retain(|name| !is_lost(name));
        let had_names = !inode.names().is_empty();
        self.choose(ino, inode);
        if self.names.is_empty() && had_names && self.home == Home::Orphan {
            (self.is_found, self.home) = (true, Home::Entry);
        }
    }

    /// A directory without an inode, of which only entries are left.
    pub fn made_anew(ino: Ino) -> Self {
        let home = if ino == Ino::ROOT { Home::Root } else { Home::Entry };
        let is_found = ino != Ino::ROOT;
        Settlement { source: None, home, names: Vec::new(), is_found }
    }
}
