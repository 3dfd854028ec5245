//! Acknowledged transactions survive, and every transaction is atomic:
//! * when the process is killed under load, again and again;
//! * when the machine dies, leaving any mixture of old and new blocks in the data files;
//! * when the last write to the log is torn anywhere.

mod common;

use bytes::Bytes;
use common::scratch::Scratch;
use common::{
    COLLECTIONS, Driver, Generator, assert_sound, collection, compare, object, one, options,
};
use files::Options;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stdx::Prng;
use store::mem::MemStore;
use store::{Change, Outcome, RequestKind, Transaction};

const CHILD_DIRECTORY: &str = "SEPIOLA_TEST_CHILD_DIRECTORY";
const CHILD_START: &str = "SEPIOLA_TEST_CHILD_START";
const IN_FLIGHT: u64 = 16;
const MARKER: u64 = 1000;
const SEED: u64 = 7;

/// The transaction with a number, which it also writes on a marker object.
fn numbered(generator: &mut Generator, number: u64) -> Transaction {
    let mut transaction = generator.transaction();
    let value = Bytes::copy_from_slice(&number.to_le_bytes());
    let attrs = BTreeMap::from([(Bytes::from("number"), value)]);
    transaction.push(collection(0), Change::CreateCollection);
    transaction.push(collection(0), Change::SetAttrs { object: object(MARKER), attrs });
    transaction
}

fn load_generator() -> Generator {
    Generator { keep_collections: true, ..Generator::new(SEED) }
}

fn prologue() -> Vec<Transaction> {
    (0..COLLECTIONS).map(|number| one(collection(number), Change::CreateCollection)).collect()
}

/// The process that is killed, not a test of its own. Prints the number of each acknowledged transaction.
#[test]
fn child_under_load() {
    let Ok(directory) = std::env::var(CHILD_DIRECTORY) else { return };
    let start: u64 = std::env::var(CHILD_START).unwrap().parse().unwrap();
    let mut generator = load_generator();
    (0..start).for_each(|number| drop(numbered(&mut generator, number)));
    let mut store = Driver::open(Path::new(&directory), &load_options());
    prologue().into_iter().for_each(|transaction| drop(store.commit(transaction).unwrap()));
    let mut acked = start;
    for number in start.. {
        store.submit(RequestKind::Commit(numbered(&mut generator, number)));
        if number >= acked + IN_FLIGHT {
            assert_eq!(store.next().outcome, Ok(Outcome::Committed));
            // Written to stderr, since the test harness captures stdout.
            writeln!(std::io::stderr(), "acked {acked}").unwrap();
            acked += 1;
        }
    }
}

fn load_options() -> Options {
    Options { log_size: 6 << 20, checkpoint_interval: Duration::from_millis(30), ..options() }
}

fn start_child(directory: &Path, start: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child_under_load", "--exact", "--nocapture"])
        .env(CHILD_DIRECTORY, directory)
        .env(CHILD_START, start.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills the child after this many acknowledgements; returns the final number.
fn kill_after(mut child: Child, acks: u64) -> u64 {
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut acked = 0;
    for line in lines.map_while(Result::ok) {
        let Some(_) = line.strip_prefix("acked ") else { panic!("{line}") };
        acked += 1;
        if acked == acks {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    acked
}

fn transactions_found(store: &mut Driver) -> u64 {
    let meta = RequestKind::Meta { collection: collection(0), object: object(MARKER) };
    match store.execute(meta).unwrap() {
        Outcome::Meta(Some(meta)) => {
            let number: [u8; 8] = meta.attrs[&b"number"[..]].as_ref().try_into().unwrap();
            u64::from_le_bytes(number) + 1
        }
        _ => 0,
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let scratch = Scratch::new("killed");
    let mut prng = Prng::new(3);
    let mut model = MemStore::new();
    prologue().iter().for_each(|transaction| model.apply(transaction).unwrap());
    let mut generator = load_generator();
    let mut applied = 0;
    for _ in 0..6 {
        let child = start_child(scratch.path(), applied);
        let acked = kill_after(child, prng.range(1..150));
        let mut store = Driver::open(scratch.path(), &load_options());
        let found = transactions_found(&mut store);
        assert!(found >= applied + acked, "{acked} acknowledged after {applied}, {found} found");
        for number in applied..found {
            model.apply(&numbered(&mut generator, number)).unwrap();
        }
        applied = found;
        compare(&mut store, &mut model);
        assert_sound(&mut store);
        if prng.chance(1, 2) {
            store.store.abandon();
        }
    }
}

fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

fn copy_directory(from: &Path, to: &Path) {
    for path in files_in(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&path, &target).unwrap();
    }
}

/// Puts random blocks of the files in `old` into those in `new`.
fn mix(old: &Path, new: &Path, prng: &mut Prng) {
    for path in files_in(old) {
        let relative = path.strip_prefix(old).unwrap();
        let is_data =
            relative.starts_with("objects") || relative.to_str().unwrap().contains("slots");
        let target = std::fs::OpenOptions::new().write(true).open(new.join(relative));
        let (true, Ok(target)) = (is_data, target) else { continue };
        let content = std::fs::read(&path).unwrap();
        for (number, block) in content.chunks(4096).enumerate().filter(|_| prng.chance(1, 2)) {
            target.write_all_at(block, number as u64 * 4096).unwrap();
        }
    }
}

#[test]
fn any_mixture_of_old_and_new_blocks_recovers() {
    let options =
        Options { log_size: 64 << 20, checkpoint_interval: Duration::from_secs(1000), ..options() };
    for seed in 0..4 {
        let scratch = Scratch::new("mixture");
        let [live, old, image] = ["live", "old", "image"].map(|name| scratch.path().join(name));
        let mut generator = Generator::new(seed);
        let mut model = MemStore::new();
        let mut store = Driver::open(&live, &options);
        let mut commit = |store: &mut Driver| {
            let transaction = generator.transaction();
            model.apply(&transaction).unwrap();
            store.commit(transaction).unwrap();
        };
        (0..40).for_each(|_| commit(&mut store));
        store.store.checkpoint();
        copy_directory(&live, &old);
        (0..40).for_each(|_| commit(&mut store));
        store.store.abandon();
        let mut prng = Prng::new(seed);
        for _ in 0..2 {
            std::fs::create_dir_all(&image).unwrap();
            copy_directory(&live, &image);
            mix(&old, &image, &mut prng);
            // The machine dies again during recovery.
            Driver::open(&image, &options).store.abandon();
            mix(&old, &image, &mut prng);
            let mut store = Driver::open(&image, &options);
            compare(&mut store, &mut model);
            assert_sound(&mut store);
            drop(store);
            std::fs::remove_dir_all(&image).unwrap();
        }
    }
}

#[test]
fn a_torn_last_write_to_the_log_takes_back_one_transaction_as_a_whole() {
    let options = Options { checkpoint_interval: Duration::from_secs(1000), ..options() };
    let scratch = Scratch::new("torn");
    let [live, image] = ["live", "image"].map(|name| scratch.path().join(name));
    let mut generator = Generator::new(11);
    let mut model = MemStore::new();
    let mut store = Driver::open(&live, &options);
    for _ in 0..12 {
        let transaction = generator.transaction();
        model.apply(&transaction).unwrap();
        store.commit(transaction).unwrap();
    }
    let length = |path: &Path| last_byte(&std::fs::read(path.join("log")).unwrap());
    let before = length(&live);
    let data = Bytes::from(vec![1; 5000]);
    let write = Change::Write { object: object(1), offset: 3, data };
    let transaction = one(collection(1), write);
    store.commit(one(collection(1), Change::CreateCollection)).unwrap();
    model.apply(&one(collection(1), Change::CreateCollection)).unwrap();
    store.commit(transaction).unwrap();
    let after = length(&live);
    store.store.abandon();
    let create_end = before.next_multiple_of(4096) + 4096;
    for cut in (create_end..=after).step_by(197) {
        std::fs::create_dir_all(&image).unwrap();
        copy_directory(&live, &image);
        let log = std::fs::OpenOptions::new().write(true).open(image.join("log")).unwrap();
        log.write_all_at(&vec![0; after + 1 - cut], cut as u64).unwrap();
        let mut store = Driver::open(&image, &options);
        compare(&mut store, &mut model);
        assert_sound(&mut store);
        drop(store);
        std::fs::remove_dir_all(&image).unwrap();
    }
}

fn last_byte(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap()
}
