//! The scrub of a served rank: compares rows as they are stored with those that the tree has.
//!
//! One page of rows is read at a time, with a pause behind it. A row that has changed since the last
//! checkpoint is not compared, and no page counts that was read beside a checkpoint. The tree is right: a
//! repair has the next checkpoint write the rows again.

use super::objects::{Pairs, read_keys, read_pairs};
use super::setup::Setup;
use crate::rank::Rank;
use bytes::Bytes;
use engine::{Duration, Time};
use namespace::{EntryKey, Ino, Row, RowKey, Tree, decode_entry_key};
use rados::{ClusterRequest, ClusterRequestId, ClusterResponse, Procedure, RequestSource};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{Errno, SnapId};

/// Pause behind a page of rows.
const PAUSE: Duration = Duration::from_millis(10);
/// Entries of the table of damage. Further ones are counted only.
const DAMAGE_MAX: usize = 10_000;
/// Rows of inodes with several names that are read at once.
const LINKS_AT_ONCE: usize = 256;

/// A part of a scrub.
#[derive(Debug, Clone)]
enum Part {
    /// Rows of a directory behind a key.
    Directory(Ino, Bytes),
    /// Rows of one object.
    Rows(Vec<RowKey>),
}

/// A scrub that runs.
#[derive(Debug)]
struct Running {
    tag: String,
    path: String,
    is_recursive: bool,
    repairs: bool,
    is_paused: bool,
    waiting: Vec<Part>,
    progress: Progress,
}

/// Numbers of a scrub.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    directories: u64,
    rows: u64,
    damaged: u64,
    mended: u64,
}

/// A row that is not stored as the tree has it.
#[derive(Debug)]
struct Damage {
    id: u64,
    ino: Ino,
    path: String,
    problem: &'static str,
}

/// Rows that are being read.
#[derive(Debug)]
struct Page {
    part: Part,
    /// The checkpoint before it was read.
    checkpoint: Option<u64>,
    /// The scrub that asked for it has ended.
    is_stale: bool,
    procedure: Procedure<Result<Pairs, Errno>>,
}

/// The scrub of a rank, and what scrubs have found.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    running: Option<Running>,
    page: Option<Page>,
    due: Option<Time>,
    /// By object and key.
    damage: BTreeMap<(String, Bytes), Damage>,
    last_id: u64,
    begun: u64,
    /// The scrub that ended last.
    last: Value,
}

impl Scrubs {
    /// Begins a scrub of a directory; returns its tag, or `None` if one runs.
    pub fn start(
        &mut self,
        now: Time,
        (path, ino): (String, Ino),
        tag: Option<String>,
        is_recursive: bool,
        repairs: bool,
    ) -> Option<String> {
        if self.running.is_some() {
            return None;
        }
        self.begun += 1;
        let tag = tag.unwrap_or_else(|| format!("scrub-{}", self.begun));
        let mut waiting = vec![Part::Directory(ino, Bytes::new())];
        if ino == Ino::ROOT {
            waiting.push(Part::Rows(vec![RowKey::Root(ino)]));
            waiting.push(Part::Rows(vec![RowKey::Snapshots]));
        }
        let progress = Progress::default();
        let is_paused = false;
        let running =
            Running { tag: tag.clone(), path, is_recursive, repairs, is_paused, waiting, progress };
        (self.running, self.due) = (Some(running), Some(now));
        Some(tag)
    }

    /// Ends the scrub that runs.
    pub fn abort(&mut self) {
        self.finish("aborted");
    }

    /// Lets the scrub that runs pause, or go on.
    pub fn pause(&mut self, now: Time, is_paused: bool) {
        self.due = Some(now);
        self.running.iter_mut().for_each(|running| running.is_paused = is_paused);
    }

    /// The answer to `scrub status`.
    pub fn status(&self) -> Value {
        let Some(running) = &self.running else {
            return json!({
                "status": "no active scrubs running", "scrubs": {}, "last": self.last,
            });
        };
        let state = if running.is_paused { "PAUSED" } else { "scrub active" };
        let left = running.waiting.len() + usize::from(self.page.is_some());
        let options = [(running.is_recursive, "recursive"), (running.repairs, "repair")];
        let options: Vec<&str> =
            options.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
        json!({
            "status": format!("{state} ({left} inodes in the stack)"),
            "scrubs": { &running.tag: {
                "path": running.path,
                "tag": running.tag,
                "options": options.join(","),
                "progress": numbers(&running.progress),
            } },
        })
    }

    /// The answer to `damage ls`.
    pub fn damage(&self) -> Value {
        let entries = self.damage.iter().map(|((object, key), damage)| {
            json!({
                "damage_type": "dentry",
                "id": damage.id,
                "ino": damage.ino.0,
                "path": damage.path,
                "object": object,
                "key": key.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
                "problem": damage.problem,
            })
        });
        entries.collect()
    }

    /// Forgets an entry of the table; whether there was one.
    pub fn forget(&mut self, id: u64) -> bool {
        let before = self.damage.len();
        self.damage.retain(|_, damage| damage.id != id);
        self.damage.len() < before
    }

    /// When [`Scrubs::pump`] reads the next page.
    pub fn poll_timeout(&self) -> Option<Time> {
        let is_idle = self.page.is_none() && !self.running.as_ref()?.is_paused;
        self.due.filter(|_| is_idle)
    }

    /// Reads the next page if it is time; never beside a checkpoint.
    pub fn pump(&mut self, now: Time, rank: &mut Rank, setup: &Setup, is_writing: bool) {
        if is_writing || self.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        let Some(part) = self.running.as_mut().and_then(|running| running.waiting.pop()) else {
            return self.finish("done");
        };
        let checkpoint = rank.log_mut().checkpoint();
        let procedure = match part.clone() {
            Part::Directory(ino, after) => {
                let place = setup.place(namespace::directory_object(ino));
                Procedure::new(async move |steps| read_pairs(&steps, &place, &after).await)
            }
            Part::Rows(keys) => {
                let place = setup.place(keys[0].object(setup.rank));
                let keys: Vec<Bytes> = keys.iter().map(RowKey::key).collect();
                Procedure::new(async move |steps| {
                    let pairs = read_keys(&steps, &place, &keys).await?;
                    Ok(Pairs { pairs, more: false })
                })
            }
        };
        self.page = Some(Page { part, checkpoint, is_stale: false, procedure });
        self.due = Some(now + PAUSE);
    }

    /// The next request.
    pub fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        self.page.as_mut()?.procedure.poll_request()
    }

    /// A page was read, or could not be; whether rows are to be written again.
    pub fn handle_response(
        &mut self,
        rank: &mut Rank,
        id: ClusterRequestId,
        answer: ClusterResponse,
        is_writing: bool,
    ) -> bool {
        let Some(page) = &mut self.page else { return false };
        page.procedure.handle_response(id, answer);
        let Some(outcome) = page.procedure.poll_outcome() else { return false };
        let Page { part, checkpoint, is_stale, .. } = self.page.take().expect("it was seen");
        if is_stale {
            return false;
        }
        let Some(running) = &mut self.running else { return false };
        match outcome {
            Ok(_) if is_writing || rank.log_mut().checkpoint() != checkpoint => {
                running.waiting.push(part);
                false
            }
            Ok(pairs) => self.compare(rank, part, pairs),
            Err(error) => {
                tracing::warn!(%error, ?part, "a scrub cannot read rows");
                self.finish(&format!(
                    "ended: rows cannot be read ({error}); see the server's log, and start it again"
                ));
                false
            }
        }
    }

    fn finish(&mut self, how: &str) {
        let Some(running) = self.running.take() else { return };
        // The answer to it comes yet, and is not one to the next scrub.
        self.page.iter_mut().for_each(|page| page.is_stale = true);
        self.last = json!({
            "path": running.path,
            "tag": running.tag,
            "outcome": how,
            "progress": numbers(&running.progress),
        });
    }

    fn compare(&mut self, rank: &mut Rank, part: Part, page: Pairs) -> bool {
        let stored: BTreeMap<Bytes, Bytes> = page.pairs.into_iter().collect();
        let tree = rank.tree();
        let (expected, surplus) = match &part {
            Part::Directory(ino, _) if tree.get(*ino).is_none() => return false,
            Part::Directory(ino, after) => {
                let last = stored.keys().next_back().filter(|_| page.more);
                directory(tree, *ino, after, last, &stored)
            }
            Part::Rows(keys) => (keys.clone(), Vec::new()),
        };
        let mut wrong: Vec<(RowKey, &'static str)> = Vec::new();
        for key in &expected {
            if rank.log_mut().rows.has(key) {
                continue;
            }
            let place = key.key();
            match difference(key, rank.tree().row(key), stored.get(&place)) {
                Some(why) => wrong.push((key.clone(), why)),
                // It was written again since a scrub found it.
                None => drop(self.damage.remove(&(key.object(0), place))),
            }
        }
        let log = rank.log_mut();
        let surplus = surplus.into_iter().filter(|key| !log.rows.has(key));
        wrong.extend(surplus.map(|key| (key, "the row is of a name that does not exist")));
        let Some(running) = &mut self.running else { return false };
        running.progress.rows += expected.len() as u64;
        running.progress.damaged += wrong.len() as u64;
        if let Part::Directory(ino, _) = part {
            match stored.keys().next_back().filter(|_| page.more) {
                Some(last) => running.waiting.push(Part::Directory(ino, last.clone())),
                None => running.progress.directories += 1,
            }
            running.waiting.extend(below(rank.tree(), &expected, running.is_recursive));
        }
        let repairs = running.repairs && !wrong.is_empty();
        for (key, problem) in wrong {
            self.note(rank, key, problem, repairs);
        }
        repairs
    }

    /// Notes a damaged row, or has it written again.
    fn note(&mut self, rank: &mut Rank, key: RowKey, problem: &'static str, repairs: bool) {
        let place = (key.object(0), key.key());
        if repairs {
            self.running.iter_mut().for_each(|running| running.progress.mended += 1);
            self.damage.remove(&place);
            rank.log_mut().rows.mark_unknown(key);
            return;
        }
        if self.damage.len() >= DAMAGE_MAX || self.damage.contains_key(&place) {
            return;
        }
        self.last_id += 1;
        let (ino, path) = named(rank.tree(), &key);
        self.damage.insert(place, Damage { id: self.last_id, ino, path, problem });
    }
}

fn numbers(progress: &Progress) -> Value {
    let Progress { directories, rows, damaged, mended } = progress;
    json!({ "directories": directories, "rows": rows, "damaged": damaged, "mended": mended })
}

/// Rows that a page of a directory must have, and those that it has besides.
fn directory(
    tree: &Tree,
    ino: Ino,
    after: &Bytes,
    last: Option<&Bytes>,
    stored: &BTreeMap<Bytes, Bytes>,
) -> (Vec<RowKey>, Vec<RowKey>) {
    let entry = |key: &Bytes| decode_entry_key(key).ok().map(|(entry, _)| entry);
    let first = EntryKey { hash: 0, name: Bytes::new() };
    let from = entry(after).unwrap_or(first);
    let to = last.and_then(entry);
    let mut expected = tree.row_keys_of(ino, &from, to.as_ref());
    expected.retain(|key| {
        let key = key.key();
        key > *after && last.is_none_or(|last| key <= *last)
    });
    let known: std::collections::BTreeSet<Bytes> = expected.iter().map(RowKey::key).collect();
    // Keys that do not decode have no place that a checkpoint could write; `fsck` puts them aside.
    let surplus = stored.keys().filter(|key| !known.contains(*key)).filter_map(|key| {
        let (entry, last) = decode_entry_key(key).ok()?;
        Some(match last {
            SnapId::HEAD => RowKey::Entry(ino, entry),
            last => RowKey::OldEntry(ino, entry, last),
        })
    });
    (expected, surplus.collect())
}

/// How a stored row differs from the tree's.
fn difference(key: &RowKey, row: Option<Row>, stored: Option<&Bytes>) -> Option<&'static str> {
    match (row, stored) {
        (None, None) => None,
        (None, Some(_)) => Some("the row is of something that does not exist"),
        (Some(_), None) => Some("the row is missing"),
        (Some(row), Some(value)) => match fscheck::decode_row(key, value) {
            Ok(found) if found == row => None,
            Ok(_) => Some("the row has other content than what is served"),
            Err(_) => Some("the row does not decode"),
        },
    }
}

/// Parts that follow from the entries of a directory.
fn below(tree: &Tree, entries: &[RowKey], is_recursive: bool) -> Vec<Part> {
    let named = entries.iter().filter_map(|key| match key {
        RowKey::Entry(directory, entry) => Some((key, tree.entry(*directory, &entry.name)?)),
        _ => None,
    });
    let (mut parts, mut links) = (Vec::new(), BTreeMap::<String, Vec<RowKey>>::new());
    for (_, entry) in named {
        if !entry.is_primary {
            let key = RowKey::Link(entry.ino);
            links.entry(key.object(0)).or_default().push(key);
        } else if is_recursive && tree.get(entry.ino).is_some_and(|inode| inode.is_directory()) {
            parts.push(Part::Directory(entry.ino, Bytes::new()));
        }
    }
    let links = links.into_values();
    parts.extend(links.flat_map(|mut keys| {
        keys.dedup();
        let parts = keys.chunks(LINKS_AT_ONCE).map(|keys| Part::Rows(keys.to_vec()));
        parts.collect::<Vec<_>>()
    }));
    parts
}

/// The inode and the path that a row is about.
fn named(tree: &Tree, key: &RowKey) -> (Ino, String) {
    match key {
        RowKey::Entry(directory, entry) | RowKey::OldEntry(directory, entry, _) => {
            let name = String::from_utf8_lossy(&entry.name);
            (*directory, format!("{}/{name}", tree.path(*directory)))
        }
        RowKey::Root(ino)
        | RowKey::Link(ino)
        | RowKey::Orphan(ino)
        | RowKey::Directory(ino)
        | RowKey::OldInode(ino, _)
            if *ino != Ino::ROOT =>
        {
            (*ino, tree.path(*ino))
        }
        _ => (Ino::ROOT, "/".to_owned()),
    }
}
