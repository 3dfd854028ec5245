//! The names of the file system, and of its snapshots: there is an order of all calls in which a map of names
//! gives every answer. A snapshot has the names of the moment at which it was taken.

use super::order_search::{Step, Verdict, search};
use crate::file_history::Entry;
use crate::file_snapshots;
use crate::files::parent;
use crate::model::ActorId;
use engine::Time;
use fsclient::{Answer, Call, Outcome};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::Errno;

/// The object of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Object {
    Directory,
    /// A file with a number; 0 if no answer told the number.
    File(u64),
}

type Names = BTreeMap<String, Object>;

/// All names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Tree {
    names: Names,
    /// Names that snapshots show, by directory and name of the snapshot. Paths begin at the directory.
    snapshots: BTreeMap<(String, String), Rc<Names>>,
}

impl Tree {
    fn has(&self, path: &str) -> bool {
        path.is_empty() || self.names.contains_key(path)
    }

    /// ENOENT if there is no such path.
    fn found(&self, path: &str) -> Result<(), Errno> {
        if self.has(path) { Ok(()) } else { Err(Errno::NOENT) }
    }

    /// EEXIST if there is such a path.
    fn is_free(&self, path: &str) -> Result<(), Errno> {
        if self.has(path) { Err(Errno::EXIST) } else { Ok(()) }
    }

    fn snapshot(&self, directory: &str, name: &str) -> Result<&Rc<Names>, Errno> {
        self.found(directory)?;
        self.snapshots.get(&(directory.to_owned(), name.to_owned())).ok_or(Errno::NOENT)
    }

    /// The object of a path, also of one in a snapshot.
    fn object(&self, path: &str) -> Result<Object, Errno> {
        let found = match file_snapshots::split(path) {
            Some((directory, None)) => return self.found(directory).map(|()| Object::Directory),
            Some((directory, Some((name, inside)))) => {
                let names = self.snapshot(directory, name)?;
                if inside.is_empty() { Some(&Object::Directory) } else { names.get(inside) }
            }
            None if path.is_empty() => Some(&Object::Directory),
            None => self.names.get(path),
        };
        found.copied().ok_or(Errno::NOENT)
    }

    /// Names in a directory, also in one of a snapshot, in order.
    fn list(&self, path: &str) -> Vec<&str> {
        match file_snapshots::split(path) {
            Some((directory, None)) => {
                let own = self.snapshots.keys().filter(|(of, _)| of == directory);
                own.map(|(_, name)| &name[..]).collect()
            }
            Some((directory, Some((name, inside)))) => {
                self.snapshot(directory, name).map_or(Vec::new(), |names| list(names, inside))
            }
            None => list(&self.names, path),
        }
    }
}

fn list<'a>(names: &'a Names, directory: &str) -> Vec<&'a str> {
    let below = names.keys().filter(|name| parent(name) == directory);
    below.map(|name| name.rsplit('/').next().unwrap_or(name)).collect()
}

/// Checks all calls on names; returns false if the search could not decide. What a life had not made durable
/// when it or its session ended may be lost.
///
/// # Errors
///
/// The history, if there is no order.
pub fn check(entries: &[Entry], losses: &[(ActorId, Time)]) -> Result<bool, String> {
    let lost: Vec<Lost> = entries.iter().filter_map(|entry| lost(entry, entries, losses)).collect();
    let steps: Vec<Step<&Entry>> = entries.iter().filter_map(|entry| step(entry, &lost)).collect();
    match search(&steps, Tree::default(), |tree, entry| apply(tree, entry)) {
        Verdict::Ordered => Ok(true),
        Verdict::Undecided => Ok(false),
        Verdict::Violated(order, stuck) => Err(explain(&steps, &order, &stuck)),
    }
}

/// A change that was answered and may be lost.
struct Lost {
    actor: ActorId,
    invoked: Time,
    /// When its life or session ended.
    at: Time,
}

/// Whether a call changes names.
fn is_change(call: &Call) -> bool {
    matches!(
        call,
        Call::Mkdir(_)
            | Call::Rmdir(_)
            | Call::Unlink(_)
            | Call::Rename(..)
            | Call::Create(_)
            | Call::TakeSnapshot { .. }
            | Call::RemoveSnapshot { .. }
            | Call::RenameSnapshot { .. }
    )
}

/// The loss of a change, if it may be lost: it was neither told nor synced to be durable before.
fn lost(entry: &Entry, all: &[Entry], losses: &[(ActorId, Time)]) -> Option<Lost> {
    let Entry { actor, invoked, .. } = *entry;
    let answered = entry.succeeded().filter(|_| is_change(&entry.call))?;
    let of_actor = losses.iter().filter(|(other, at)| *other == actor && *at >= invoked);
    let at = of_actor.map(|(_, at)| *at).min()?;
    let is_durable = entry.durable.is_some_and(|durable| durable <= at);
    let syncs = |other: &Entry| match other.call {
        Call::Sync => true,
        Call::Fsync(ino) => matches!(entry.call, Call::Create(_)) && entry.opened() == Some(ino),
        _ => false,
    };
    let is_synced = all.iter().any(|other| {
        let is_between =
            other.invoked >= answered && other.succeeded().is_some_and(|end| end <= at);
        other.actor == actor && is_between && syncs(other)
    });
    (!is_durable && !is_synced).then_some(Lost { actor, invoked, at })
}

fn explain(steps: &[Step<&Entry>], order: &[usize], stuck: &[usize]) -> String {
    let line = |index: &usize| {
        let Entry { actor, call, invoked, completed, .. } = steps[*index].what;
        format!("actor {actor} {call:?} at {invoked:?}: {}\n", brief(completed.as_ref()))
    };
    let before: String = order.iter().rev().take(12).rev().map(line).collect();
    let stuck: String = stuck.iter().map(line).collect();
    format!(
        "no order of calls explains the names; after\n{before}none of these can follow:\n{stuck}"
    )
}

fn brief(completed: Option<&(Time, Outcome)>) -> String {
    match completed {
        None => "no answer".to_owned(),
        Some((at, Ok(Answer::Inode(stat)))) => format!("{at:?} inode {:x}", stat.ino),
        Some((at, outcome)) => format!("{at:?} {outcome:?}"),
    }
}

fn step<'a>(entry: &'a Entry, lost: &[Lost]) -> Option<Step<&'a Entry>> {
    let is_change = is_change(&entry.call);
    if matches!(entry.completed, Some((_, Err(Errno::DQUOT | Errno::NOSPC)))) {
        // It was refused for a reason that names do not show.
        return None;
    }
    let is_look =
        matches!(entry.call, Call::Stat(_) | Call::List(_) | Call::Open(_) | Call::ReadSnapshot(_));
    if !is_change && !is_look {
        return None;
    }
    let answered = known(entry).map(|_| entry.completed.as_ref().expect("it is known").0);
    let of_actor = lost.iter().filter(|lost| lost.actor == entry.actor);
    let is_lost = entry.succeeded().is_some()
        && of_actor.clone().any(|lost| lost.invoked == entry.invoked)
        && is_change;
    let returned = answered.filter(|_| !is_lost);
    // A refusal changes nothing either.
    let is_read = !is_change || known(entry).is_some_and(Result::is_err);
    if is_read {
        // One of unknown result constrains nothing; nor does one that may show what is lost.
        let may_show = |lost: &Lost| {
            let is_before = returned.is_some_and(|at| lost.invoked <= at);
            is_before && entry.invoked <= lost.at
        };
        if returned.is_none() || of_actor.clone().any(may_show) {
            return None;
        }
    }
    Some(Step { what: entry, invoked: entry.invoked, returned, until: None, is_read })
}

/// The answer; `None` if the call may have been executed or not.
fn known(entry: &Entry) -> Option<&Outcome> {
    let (_, outcome) = entry.completed.as_ref()?;
    (*outcome != Err(Errno::IO)).then_some(outcome)
}

fn apply(tree: &Tree, entry: &Entry) -> Option<Tree> {
    let outcome = known(entry);
    let expected = result(tree, &entry.call);
    let fits = match (outcome, &expected) {
        (None, _) => expected.is_ok(),
        (Some(Err(told)), Err(errno)) => told == errno,
        (Some(Ok(answer)), Ok(())) => shows(tree, &entry.call, answer),
        _ => false,
    };
    if !fits {
        return None;
    }
    let mut after = tree.clone();
    if expected.is_ok() {
        change(&mut after, &entry.call, outcome);
    }
    Some(after)
}

/// Whether a call succeeds, and why it does not.
fn result(tree: &Tree, call: &Call) -> Result<(), Errno> {
    match call {
        Call::Mkdir(path) | Call::Create(path) => {
            tree.found(&parent(path)).and_then(|()| tree.is_free(path))
        }
        Call::Rmdir(path) => {
            tree.found(path)?;
            let below = format!("{path}/");
            let is_empty = !tree.names.keys().any(|name| name.starts_with(&below));
            let has_snapshots = tree.snapshots.keys().any(|(directory, _)| directory == path);
            if is_empty && !has_snapshots { Ok(()) } else { Err(Errno::NOTEMPTY) }
        }
        Call::Rename(from, to) => tree.found(from).and_then(|()| tree.found(&parent(to))),
        Call::Unlink(path) => tree.found(path),
        Call::Stat(path) | Call::List(path) | Call::Open(path) | Call::ReadSnapshot(path) => {
            tree.object(path).map(drop)
        }
        Call::TakeSnapshot { directory, name } => {
            tree.found(directory)?;
            if tree.snapshot(directory, name).is_ok() { Err(Errno::EXIST) } else { Ok(()) }
        }
        Call::RemoveSnapshot { directory, name } => tree.snapshot(directory, name).map(drop),
        Call::RenameSnapshot { directory, from, to } => {
            tree.snapshot(directory, from)?;
            if tree.snapshot(directory, to).is_ok() { Err(Errno::EXIST) } else { Ok(()) }
        }
        _ => Err(Errno::INVAL),
    }
}

fn shows(tree: &Tree, call: &Call, answer: &Answer) -> bool {
    match (call, answer) {
        (Call::Stat(path) | Call::Open(path), Answer::Inode(stat))
        | (Call::ReadSnapshot(path), Answer::File(stat, _)) => match tree.object(path) {
            Ok(Object::File(ino)) => [0, stat.ino].contains(&ino),
            Ok(Object::Directory) => matches!(call, Call::Stat(_)),
            Err(_) => false,
        },
        (Call::List(path), Answer::Names(told)) => {
            let mut told: Vec<String> =
                told.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            if path.ends_with(file_snapshots::PART) {
                // Names of directories above begin so.
                told.retain(|name| !name.starts_with('_'));
            }
            told.sort();
            tree.list(path).iter().eq(told.iter())
        }
        _ => true,
    }
}

/// Names that a snapshot of a directory shows.
fn within(names: &Names, directory: &str) -> Names {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let inside = names
        .iter()
        .filter_map(|(name, object)| Some((name.strip_prefix(&prefix)?.to_owned(), *object)));
    inside.collect()
}

fn change(tree: &mut Tree, call: &Call, outcome: Option<&Outcome>) {
    let names = &mut tree.names;
    match call {
        Call::Mkdir(path) => {
            names.insert(path.clone(), Object::Directory);
        }
        Call::Create(path) => {
            let ino = match outcome {
                Some(Ok(Answer::Inode(stat))) => stat.ino,
                _ => 0,
            };
            names.insert(path.clone(), Object::File(ino));
        }
        Call::Rmdir(path) | Call::Unlink(path) => {
            names.remove(path);
        }
        Call::Rename(from, to) => {
            if let Some(object) = names.remove(from) {
                names.insert(to.clone(), object);
            }
        }
        Call::TakeSnapshot { directory, name } => {
            let shown = Rc::new(within(names, directory));
            tree.snapshots.insert((directory.clone(), name.clone()), shown);
        }
        Call::RemoveSnapshot { directory, name } => {
            tree.snapshots.remove(&(directory.clone(), name.clone()));
        }
        Call::RenameSnapshot { directory, from, to } => {
            if let Some(shown) = tree.snapshots.remove(&(directory.clone(), from.clone())) {
                tree.snapshots.insert((directory.clone(), to.clone()), shown);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::InodeStat;

    fn entry(actor: ActorId, call: Call, times: (u64, u64), outcome: Outcome) -> Entry {
        let completed = Some((Time(times.1), outcome));
        Entry { actor, call, invoked: Time(times.0), completed, durable: None }
    }

    fn inode(ino: u64) -> Outcome {
        Ok(Answer::Inode(Box::new(InodeStat { ino, ..InodeStat::default() })))
    }

    fn made(times: (u64, u64)) -> Entry {
        entry(1, Call::Create("x".into()), times, inode(7))
    }

    fn gone(actor: ActorId, times: (u64, u64)) -> Entry {
        entry(actor, Call::Stat("x".into()), times, Err(Errno::NOENT))
    }

    #[test]
    fn a_name_that_was_made_is_there_until_it_is_removed() {
        let unlink = entry(1, Call::Unlink("x".into()), (3, 5), Ok(Answer::Done));
        assert!(check(&[made((1, 2)), gone(1, (3, 4))], &[]).is_err());
        assert_eq!(check(&[made((1, 2)), unlink.clone(), gone(1, (4, 6))], &[]), Ok(true));
        let unknown = Entry { completed: None, ..unlink };
        assert_eq!(check(&[made((1, 2)), unknown, gone(1, (8, 9))], &[]), Ok(true));
    }

    #[test]
    fn a_directory_has_attributes() {
        let made = entry(1, Call::Mkdir("d".into()), (1, 2), Ok(Answer::Done));
        let stat = entry(2, Call::Stat("d".into()), (3, 4), inode(9));
        assert_eq!(check(&[made, stat], &[]), Ok(true));
    }

    #[test]
    fn a_name_leads_to_the_file_that_it_was_made_for() {
        let stat = |ino| entry(1, Call::Stat("x".into()), (3, 4), inode(ino));
        assert_eq!(check(&[made((1, 2)), stat(7)], &[]), Ok(true));
        assert!(check(&[made((1, 2)), stat(8)], &[]).is_err());
    }

    #[test]
    fn a_snapshot_keeps_the_names_that_it_was_taken_of() {
        let [directory, name] = ["", "s0"].map(str::to_owned);
        let taken = entry(1, Call::TakeSnapshot { directory, name }, (3, 4), inode(1));
        let unlink = entry(1, Call::Unlink("x".into()), (5, 6), Ok(Answer::Done));
        let list = |names: &[&str]| {
            let names = names.iter().map(|name| name.to_string().into()).collect();
            entry(2, Call::List(".snap/s0".into()), (7, 8), Ok(Answer::Names(names)))
        };
        let history = [made((1, 2)), taken, unlink];
        let with = |last: Entry| check(&[&history[..], &[last]].concat(), &[]);
        assert_eq!(with(list(&["x"])), Ok(true));
        assert!(with(list(&[])).is_err());
        let stat = |path: &str, outcome| entry(2, Call::Stat(path.into()), (7, 8), outcome);
        assert_eq!(with(stat(".snap/s0/x", inode(7))), Ok(true));
        assert!(with(stat(".snap/s0/x", Err(Errno::NOENT))).is_err());
        assert_eq!(with(stat(".snap/s1/x", Err(Errno::NOENT))), Ok(true));
    }

    #[test]
    fn a_change_is_lost_only_with_its_client_and_only_before_it_is_durable() {
        let died = [(1, Time(10))];
        let lost = [made((1, 2)), gone(2, (20, 21))];
        assert!(check(&lost, &[]).is_err(), "nobody died");
        assert_eq!(check(&lost, &died), Ok(true));
        let durable = Entry { durable: Some(Time(5)), ..made((1, 2)) };
        assert!(check(&[durable, gone(2, (20, 21))], &died).is_err(), "it was durable");
        for sync in [Call::Sync, Call::Fsync(7)] {
            let synced = entry(1, sync, (3, 4), Ok(Answer::Done));
            assert!(check(&[made((1, 2)), synced, gone(2, (20, 21))], &died).is_err());
        }
        let other = entry(1, Call::Fsync(8), (3, 4), Ok(Answer::Done));
        assert_eq!(check(&[made((1, 2)), other, gone(2, (20, 21))], &died), Ok(true));
    }

    #[test]
    fn what_another_client_has_seen_is_not_lost() {
        let died = [(1, Time(10))];
        let saw = entry(2, Call::Stat("x".into()), (3, 4), inode(7));
        let history = [made((1, 2)), saw, gone(2, (20, 21))];
        assert!(check(&history, &died).is_err());
        // A client sees its own changes before they are durable.
        let own = entry(1, Call::Stat("x".into()), (3, 4), inode(7));
        assert_eq!(check(&[made((1, 2)), own, gone(2, (20, 21))], &died), Ok(true));
    }
}
