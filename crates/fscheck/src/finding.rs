//! Findings: what is wrong, where, and what a repair does about it.

use bytes::Bytes;
use namespace::{Ino, RowKey};

/// Findings that are kept. Further ones are counted, and found by another run when these are mended.
pub const FINDINGS_MAX: usize = 100_000;

/// Kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// A row does not decode.
    Undecodable,
    /// A newer program wrote a row.
    Newer,
    /// A row lies where no lookup would find it.
    Misplaced,
    /// The root directory has no row, or is no directory.
    NoRoot,
    /// An inode is stored more than once.
    Duplicate,
    /// A name stands for an inode that is nowhere.
    NoInode,
    /// The number of links of an inode is not that of its names.
    WrongLinks,
    /// An inode has links and no name.
    NoName,
    /// An inode without a name is listed as such and is none.
    WrongOrphan,
    /// Something that is no directory has entries.
    NotDirectory,
    /// A directory is not below the root.
    Unreachable,
    /// No client can use a name.
    BadName,
    /// A file does not say where its data is.
    BadLayout,
    /// A snapshot has a number that was not given out, or is to be removed while it exists.
    SnapshotNumbers,
    /// Two directories have the same snapshot.
    DuplicateSnapshot,
    /// Two versions of a name or an inode are shown by the same snapshot.
    SnapshotRange,
    /// A snapshot shows a name without an inode.
    SnapshotInode,
    /// A number that is used may be given out again.
    Numbers,
    /// A number that is used, or another client's, is delegated to a client.
    Delegated,
    /// Data of an inode that exists is to be removed.
    Purge,
    /// An object, or a row, that nothing needs any more.
    Leftover,
    /// An object that does not belong to the file system.
    UnknownObject,
}

impl Problem {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Problem::Undecodable => "undecodable",
            Problem::Newer => "newer",
            Problem::Misplaced => "misplaced",
            Problem::NoRoot => "no-root",
            Problem::Duplicate => "duplicate",
            Problem::NoInode => "no-inode",
            Problem::WrongLinks => "wrong-links",
            Problem::NoName => "no-name",
            Problem::WrongOrphan => "wrong-orphan",
            Problem::NotDirectory => "not-a-directory",
            Problem::Unreachable => "unreachable",
            Problem::BadName => "bad-name",
            Problem::BadLayout => "bad-layout",
            Problem::SnapshotNumbers => "snapshot-numbers",
            Problem::DuplicateSnapshot => "duplicate-snapshot",
            Problem::SnapshotRange => "snapshot-range",
            Problem::SnapshotInode => "snapshot-inode",
            Problem::Numbers => "numbers",
            Problem::Delegated => "delegated",
            Problem::Purge => "purge",
            Problem::Leftover => "leftover",
            Problem::UnknownObject => "unknown-object",
        }
    }

    /// Whether the file system is sound all the same: only space is lost.
    pub fn is_leftover(self) -> bool {
        matches!(self, Problem::Leftover | Problem::UnknownObject)
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub problem: Problem,
    /// The object of the metadata pool.
    pub object: String,
    /// The key of the row there; empty for the whole object.
    pub key: Bytes,
    /// The inode that it is about, if it is known.
    pub ino: Option<Ino>,
    /// Its path, if it has one.
    pub path: Option<String>,
    /// The contradiction, in words.
    pub text: String,
    /// The change that a repair makes; `None` if it makes none.
    pub repair: Option<&'static str>,
}

impl Finding {
    /// A finding without a path.
    pub(crate) fn new(
        problem: Problem,
        object: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Finding {
            problem,
            object: object.into(),
            key: Bytes::new(),
            ino: None,
            path: None,
            text: text.into(),
            repair: None,
        }
    }

    pub(crate) fn at(self, key: Bytes) -> Self {
        Finding { key, ..self }
    }

    pub(crate) fn of(self, ino: Ino) -> Self {
        Finding { ino: Some(ino), ..self }
    }

    pub(crate) fn mended_by(self, repair: &'static str) -> Self {
        Finding { repair: Some(repair), ..self }
    }
}

/// A finding about a row.
pub(crate) fn located(
    problem: Problem,
    key: &RowKey,
    rank: u32,
    text: impl Into<String>,
) -> Finding {
    Finding::new(problem, key.object(rank), text).at(key.key())
}

/// Numbers of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Directories, with the root.
    pub directories: u64,
    /// Other inodes with a name.
    pub files: u64,
    /// Sum of their sizes, in bytes.
    pub bytes: u64,
    /// Names.
    pub names: u64,
    /// Inodes without a name that clients may still use.
    pub orphans: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Names and inodes that are kept for snapshots.
    pub old_versions: u64,
    /// Files that are gone whose data is still to be removed.
    pub purges: u64,
    /// Sessions of clients.
    pub sessions: u64,
    /// Records of the journal that are not in rows.
    pub records: u64,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Numbers of all that was read.
    pub totals: Totals,
    /// Contradictions, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Further findings that are not kept.
    pub more: u64,
    /// A newer program wrote a part, by a finding that may not be kept.
    newer: bool,
}

impl Report {
    /// Whether nothing but leftovers was found.
    pub fn is_sound(&self) -> bool {
        self.more == 0 && self.findings.iter().all(|finding| finding.problem.is_leftover())
    }

    /// Whether a newer program wrote a part, so that this one must not change anything.
    pub fn is_newer(&self) -> bool {
        self.newer
    }

    /// Whether no further finding is kept.
    pub(crate) fn is_full(&self) -> bool {
        self.findings.len() >= FINDINGS_MAX
    }

    /// Adds a finding, or counts it.
    pub(crate) fn add(&mut self, finding: Finding) {
        self.newer |= finding.problem == Problem::Newer;
        match self.is_full() {
            true => self.more += 1,
            false => self.findings.push(finding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_program_is_known_beyond_the_bound() {
        let finding = |problem| Finding {
            problem,
            object: String::new(),
            key: Bytes::new(),
            ino: None,
            path: None,
            text: String::new(),
            repair: None,
        };
        let mut report = Report::default();
        (0..FINDINGS_MAX).for_each(|_| report.add(finding(Problem::Leftover)));
        assert!(!report.is_newer());
        report.add(finding(Problem::Newer));
        assert!(report.is_newer() && report.more == 1);
    }
}
