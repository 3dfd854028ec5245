//! `sepiola control move`: from the file of one machine to an etcd, and back.
//!
//! The copy is compared key by key before anything says that it counts. Whatever interrupts it, one
//! of both stores is whole and the other one cannot be started.

use crate::cli::MoveArgs;
use access::{DataArgs, DataDir};
use anyhow::{Context, Result, bail};
use control::{CommitError, Entry, Revision, Transaction, UNFINISHED};
use embedded::ControlStore;
use etcd::{EtcdOptions, EtcdTool, FILE_MODE};
use machine::write_file;
use std::collections::BTreeMap;
use std::fs;

/// Bounds of one transaction, well below those of etcd (128 operations, 1.5 MiB).
const KEYS_PER_TRANSACTION: usize = 100;
const BYTES_PER_TRANSACTION: usize = 1 << 20;
/// Written by a monitor that leads.
const LEADER: &str = "leader";
/// Value of [`UNFINISHED`] while an etcd has a copy of what is in a file again.
const MOVED_BACK: &[u8] = b"moved back to a file";

/// `sepiola control move`
pub fn run(args: &MoveArgs) -> Result<()> {
    if args.back { move_back(&args.data) } else { move_to_etcd(args) }
}

/// Says who is there already.
pub fn check_vacant(options: &EtcdOptions) -> Result<()> {
    options.check()?;
    if EtcdTool::open(options)?.range("")?.0.is_empty() {
        return Ok(());
    }
    bail!(
        "{} has a cluster under the prefix {:?}; choose another one by --etcd-prefix",
        options.shown(),
        options.prefix
    );
}

/// Writes the first transaction of a new cluster, whose directory says afterwards where it is.
pub fn initialise_etcd(
    dir: &DataDir,
    options: &EtcdOptions,
    transaction: &Transaction,
) -> Result<()> {
    EtcdTool::open(options)?.commit(transaction).context("writing the first state")?;
    // It comes last: a directory with it is one of a cluster.
    write_file(&dir.etcd(), &options.to_text()?, FILE_MODE)
}

/// Back into the file. The etcd keeps a copy that no monitor begins with.
fn move_back(data: &DataArgs) -> Result<()> {
    let dir = DataDir::new(&data.data);
    let _lock = dir.lock()?;
    if !dir.etcd().exists() {
        bail!("the control store of {} is not on an etcd", dir.path().display());
    }
    if !dir.settings().exists() {
        bail!(
            "{} is a monitor's, not a cluster's of one machine: only `sepiola up` has a file",
            dir.path().display()
        );
    }
    let options = EtcdOptions::load(&dir.etcd())?;
    let mut etcd = EtcdTool::open(&options)?;
    let (mut found, revision) = etcd.range("").context("reading the etcd")?;
    let new = dir.control().with_extension("redb.new");
    if new.exists() || dir.control().exists() {
        // An earlier try was interrupted at its end; what it copied is still the state.
        found.retain(|entry| entry.key != UNFINISHED || entry.value != MOVED_BACK);
    }
    if let Some(alive) = found.iter().find_map(|entry| entry.key.strip_prefix("present/")) {
        bail!("mon.{alive} runs on {}, or has ended seconds ago; stop it first", options.shown());
    }
    if found.is_empty() || found.iter().any(|entry| entry.key == UNFINISHED) {
        bail!("{} has no whole control store", options.shown());
    }
    let mut all = Transaction::default();
    found.iter().for_each(|entry| all.put(entry.key.as_str(), entry.value.clone()));
    if new.exists() {
        fs::remove_file(&new).with_context(|| format!("removing {}", new.display()))?;
    }
    embedded::initialise(&new, &all)?;
    let (copied, _) = ControlStore::open(&new)?.range("").context("reading the copy")?;
    let is_same = |(one, other): (&Entry, &Entry)| one.key == other.key && one.value == other.value;
    if copied.len() != found.len() || !found.iter().zip(&copied).all(is_same) {
        bail!("the copy in {} differs from what was read; try again", new.display());
    }
    end_use(&mut etcd, &found, revision)?;
    // From here on, the file counts.
    fs::rename(&new, dir.control()).context("naming the control store")?;
    fs::remove_file(dir.etcd()).context("forgetting the etcd")?;
    println!(
        "{} keys moved and compared: the cluster's control store is {}\n\
         the old one is kept on {} and cannot be started",
        found.len(),
        dir.control().display(),
        options.shown()
    );
    Ok(())
}

/// The etcd counts no more, if it is as it was when it was read. A monitor that has stood still since then,
/// and says nothing by `present`, may have gone on meanwhile; from here on it writes nothing.
fn end_use(etcd: &mut EtcdTool, found: &[Entry], revision: Revision) -> Result<()> {
    let mut end = Transaction::default();
    // With each change of the state, a monitor writes a version.
    let versions = found.iter().filter(|entry| entry.key.starts_with("version/"));
    end.compare.extend(versions.map(|entry| (entry.key.clone(), Some(entry.revision))));
    let leader = found.iter().find(|entry| entry.key == LEADER).map(|entry| entry.revision);
    end.compare.push((LEADER.to_owned(), leader));
    end.put(UNFINISHED, MOVED_BACK);
    match etcd.try_commit(&end) {
        Ok(_) => Ok(()),
        Err(CommitError::Conflict) => bail!(
            "a monitor has changed something since revision {revision} was read: one that stood still runs again. \
             Stop all monitors, and give the command again"
        ),
        Err(error) => Err(error).context("ending the use of the etcd"),
    }
}

fn move_to_etcd(args: &MoveArgs) -> Result<()> {
    let dir = DataDir::new(&args.data.data);
    let options = args.etcd.options();
    options.check()?;
    let _lock = dir.lock()?;
    if dir.etcd().exists() {
        let known = EtcdOptions::load(&dir.etcd())?;
        bail!("the control store of {} is on {} already", dir.path().display(), known.shown());
    }
    if !dir.control().exists() {
        bail!("there is no cluster in {}", dir.path().display());
    }
    let store = ControlStore::open(&dir.control())?;
    let (entries, _) = store.range("").context("reading the control store")?;
    let mut etcd = EtcdTool::open(&options)?;
    copy(&entries, &mut etcd, &options)?;
    // From here on, the etcd counts.
    write_file(&dir.etcd(), &options.to_text()?, FILE_MODE)?;
    store.mark_moved()?;
    drop(store);
    let moved = dir.control().with_extension("redb.moved");
    fs::rename(dir.control(), &moved).with_context(|| format!("naming {}", moved.display()))?;
    println!(
        "{} keys moved and compared: the cluster's control store is on {}\n\
         the old one is kept as {} and cannot be started",
        entries.len(),
        options.shown(),
        moved.display()
    );
    Ok(())
}

/// Copies all, compares all, and then says that it is complete.
fn copy(entries: &[Entry], etcd: &mut EtcdTool, options: &EtcdOptions) -> Result<()> {
    clear_unfinished(etcd, options)?;
    let mut begin = Transaction::default();
    begin.compare.push((UNFINISHED.to_owned(), None));
    begin.put(UNFINISHED, "a copy is under way, or was interrupted");
    etcd.commit(&begin).context("beginning the copy")?;
    for transaction in batches(entries) {
        etcd.commit(&transaction).context("copying")?;
    }
    compare(entries, etcd)?;
    let mut end = Transaction::default();
    end.delete(UNFINISHED);
    etcd.commit(&end).context("ending the copy")?;
    Ok(())
}

/// Makes sure that nothing is overwritten but what an interrupted copy left.
fn clear_unfinished(etcd: &mut EtcdTool, options: &EtcdOptions) -> Result<()> {
    let (found, _) = etcd.range("")?;
    if found.is_empty() {
        return Ok(());
    }
    if !found.iter().any(|entry| entry.key == UNFINISHED) {
        bail!(
            "{} has a cluster under the prefix {:?}; choose another one by --etcd-prefix",
            options.shown(),
            options.prefix
        );
    }
    for keys in found.chunks(KEYS_PER_TRANSACTION) {
        let mut transaction = Transaction::default();
        keys.iter().for_each(|entry| transaction.delete(entry.key.as_str()));
        etcd.commit(&transaction).context("clearing an interrupted copy")?;
    }
    Ok(())
}

fn batches(entries: &[Entry]) -> Vec<Transaction> {
    let mut batches = Vec::new();
    let (mut batch, mut bytes) = (Transaction::default(), 0);
    for entry in entries {
        let length = entry.key.len() + entry.value.len();
        let is_full =
            batch.writes.len() >= KEYS_PER_TRANSACTION || bytes + length > BYTES_PER_TRANSACTION;
        if is_full && !batch.is_empty() {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        batch.put(entry.key.as_str(), entry.value.clone());
        bytes += length;
    }
    batches.push(batch);
    batches
}

fn compare(entries: &[Entry], etcd: &EtcdTool) -> Result<()> {
    let (copied, _) = etcd.range("").context("reading the copy")?;
    let mut copied: BTreeMap<&str, &[u8]> =
        copied.iter().map(|entry| (entry.key.as_str(), &entry.value[..])).collect();
    copied.remove(UNFINISHED);
    for entry in entries {
        if copied.remove(entry.key.as_str()) != Some(&entry.value[..]) {
            bail!("the copy of key {} differs from what was written; try again", entry.key);
        }
    }
    match copied.keys().next() {
        Some(key) => bail!("somebody else writes to the same etcd and prefix: key {key}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd::testing::Members;

    fn entry(key: String, length: usize) -> Entry {
        let value = vec![key.len() as u8; length].into();
        Entry { key, value, revision: 1 }
    }

    #[test]
    fn a_copy_is_whole_and_an_interrupted_one_is_begun_anew() {
        let members = Members::start(1);
        let options = members.options();
        let mut etcd = EtcdTool::open(&options).unwrap();
        let mut entries: Vec<Entry> = (0..450).map(|n| entry(format!("k/{n:04}"), 500)).collect();
        entries.push(entry("large".to_owned(), BYTES_PER_TRANSACTION));
        let mut interrupted = Transaction::default();
        interrupted.put(UNFINISHED, "");
        interrupted.put("k/9999", "left over");
        etcd.commit(&interrupted).unwrap();
        copy(&entries, &mut etcd, &options).unwrap();
        let (found, _) = etcd.range("").unwrap();
        let pairs = |entries: &[Entry]| -> Vec<(String, bytes::Bytes)> {
            entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
        };
        assert_eq!(pairs(&found), pairs(&entries));
        let error = copy(&entries, &mut etcd, &options).unwrap_err();
        assert!(error.to_string().contains("--etcd-prefix"), "{error}");
    }

    #[test]
    fn a_monitor_that_stood_still_during_the_move_back_changes_neither_what_is_copied_nor_what_is_left()
     {
        let members = Members::start(1);
        let options = members.options();
        let mut etcd = EtcdTool::open(&options).unwrap();
        let mut state = Transaction::default();
        state.put("version/log", "1");
        etcd.commit(&state).unwrap();
        let change = |version: &str| {
            let mut change = Transaction::default();
            change.put("version/log", version.to_owned());
            change.put("log/1", "something");
            change
        };
        let mut monitor = EtcdTool::open_fenced(&options).unwrap();
        let (found, revision) = etcd.range("").unwrap();
        monitor.commit(&change("2")).unwrap();
        let error = end_use(&mut etcd, &found, revision).unwrap_err();
        assert!(error.to_string().contains("Stop all monitors"), "{error}");
        let (found, revision) = etcd.range("").unwrap();
        end_use(&mut etcd, &found, revision).unwrap();
        let error = monitor.commit(&change("3")).unwrap_err();
        assert!(error.to_string().contains("stop this monitor"), "{error}");
        let (left, _) = etcd.range("version/").unwrap();
        assert_eq!(left[0].value, "2");
    }

    #[test]
    fn a_move_back_that_was_interrupted_at_its_end_is_done_again() {
        let (members, name) = (Members::start(1), format!("sepiola-move-{}", std::process::id()));
        let data = DataArgs { data: std::env::temp_dir().join(name) };
        let (dir, options) = (DataDir::new(&data.data), members.options());
        dir.create().unwrap();
        fs::write(dir.settings(), "").unwrap();
        write_file(&dir.etcd(), &options.to_text().unwrap(), FILE_MODE).unwrap();
        let mut state = Transaction::default();
        state.put("k", "value");
        state.put(UNFINISHED, MOVED_BACK);
        EtcdTool::open(&options).unwrap().commit(&state).unwrap();
        assert!(move_back(&data).is_err(), "it may be in another directory's file");
        fs::write(dir.control().with_extension("redb.new"), "").unwrap();
        move_back(&data).unwrap();
        let (found, _) = ControlStore::open(&dir.control()).unwrap().range("").unwrap();
        assert_eq!(found.iter().map(|entry| &entry.key[..]).collect::<Vec<_>>(), ["k"]);
        assert!(!dir.etcd().exists());
        fs::remove_dir_all(data.data).unwrap();
    }
}
