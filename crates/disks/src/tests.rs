//! Stores in a directory, made and opened as commands do it.

use crate::{
    OfflineStore, Owner, Preparation, StoreDevices, StoreKind, format, kind_of, prepare,
    remember_kind,
};
use anyhow::Result;
use block::device::{Device, Io, IoId};
use bytes::Bytes;
use std::fs;
use std::path::{Path, PathBuf};
use store::{Change, Collection, Outcome, RequestKind, Transaction};
use types::{HObject, PgId, PoolId, Uuid};

const LEN: u64 = 128 << 20;
const MEMORY: u64 = 64 << 20;
const OWNER: Owner = Owner { cluster: Uuid([3; 16]), osd: 5 };

/// A directory, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("sepiola-store-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn own_file() -> Preparation {
    Preparation { main: None, fast: None, bytes: LEN, wipe: false }
}

fn make(directory: &Path, preparation: &Preparation) -> Result<()> {
    remember_kind(directory, StoreKind::Block)?;
    format(&prepare(directory, preparation)?, OWNER)
}

fn collection() -> Collection {
    Collection::replicated(PgId { pool: PoolId(1), seed: 2 })
}

fn object() -> HObject {
    HObject { pool: PoolId(1), name: Bytes::from("object"), ..HObject::default() }
}

fn write(store: &mut OfflineStore, data: &Bytes) {
    let mut transaction = Transaction::new();
    transaction.push(collection(), Change::CreateCollection);
    let (object, data) = (object(), data.clone());
    transaction.push(collection(), Change::Write { object, offset: 0, data });
    store.request(RequestKind::Commit(transaction)).unwrap();
}

fn read(store: &mut OfflineStore) -> Bytes {
    let (collection, object) = (collection(), object());
    let read = RequestKind::Read { collection, object, offset: 0, length: u64::MAX >> 1 };
    match store.request(read).unwrap() {
        Outcome::Read(read) => read.data,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_store_keeps_what_was_written_when_it_is_opened_again() {
    let scratch = Scratch::new("reopen");
    make(&scratch.0, &own_file()).unwrap();
    assert_eq!(kind_of(&scratch.0).unwrap(), StoreKind::Block);
    for round in 0..3u8 {
        let data = Bytes::from(vec![round; 10_000 << round]);
        let mut store = OfflineStore::open(&scratch.0, MEMORY).unwrap();
        write(&mut store, &data);
        assert!(read(&mut store) == data);
        if round > 0 {
            store.close().unwrap();
        } else {
            drop(store);
        }
        assert!(read(&mut OfflineStore::open(&scratch.0, MEMORY).unwrap()) == data);
    }
}

#[test]
fn a_directory_without_a_word_about_its_kind_keeps_files_or_no_store() {
    let scratch = Scratch::new("kind");
    // Its file system is not mounted, or it is gone.
    for directory in [scratch.0.clone(), scratch.0.join("absent")] {
        let error = kind_of(&directory).unwrap_err().to_string();
        assert!(error.contains("holds no store") && error.contains("osd replace"), "{error}");
    }
    fs::write(scratch.0.join(files::DATABASE), "").unwrap();
    assert_eq!(kind_of(&scratch.0).unwrap(), StoreKind::Files);
}

#[test]
fn a_store_of_files_is_made_when_it_is_opened_first_and_not_in_place_of_another_one() {
    let scratch = Scratch::new("lost");
    remember_kind(&scratch.0, StoreKind::Files).unwrap();
    assert_eq!(kind_of(&scratch.0).unwrap(), StoreKind::Files);
    fs::create_dir(scratch.0.join(files::OBJECTS)).unwrap();
    let error = kind_of(&scratch.0).unwrap_err().to_string();
    assert!(error.contains("holds no store"), "{error}");
    fs::write(scratch.0.join(files::DATABASE), "").unwrap();
    assert_eq!(kind_of(&scratch.0).unwrap(), StoreKind::Files);
}

#[test]
fn the_store_of_another_osd_is_neither_opened_nor_overwritten_unless_asked_for() {
    let scratch = Scratch::new("owner");
    let file = scratch.0.join("disk");
    let named = Preparation { main: Some(file), ..own_file() };
    make(&scratch.0, &named).unwrap();
    let devices = StoreDevices::open(&scratch.0).unwrap();
    devices.check_owner(OWNER).unwrap();
    let error = devices.check_owner(Owner { osd: 6, ..OWNER }).unwrap_err();
    assert!(error.to_string().contains("holds the store of osd.5"), "{error}");
    drop(devices);
    let error = make(&scratch.0, &named).unwrap_err();
    assert!(error.to_string().contains("--wipe"), "{error}");
    make(&scratch.0, &Preparation { wipe: true, ..named }).unwrap();
}

#[test]
fn a_disk_with_something_else_on_it_is_not_overwritten() {
    let scratch = Scratch::new("blank");
    let file = scratch.0.join("disk");
    let mut text = vec![0; LEN as usize];
    text[5000] = 1;
    fs::write(&file, text).unwrap();
    let named = Preparation { main: Some(file), ..own_file() };
    let error = prepare(&scratch.0, &named).unwrap_err();
    assert!(error.to_string().contains("holds something"), "{error}");
}

/// Logs and checks have these sentences.
#[test]
fn operations_that_fail_name_the_file() {
    let scratch = Scratch::new("sentences");
    make(&scratch.0, &own_file()).unwrap();
    let devices = StoreDevices::open(&scratch.0).unwrap();
    let path = devices.main.file.path().display().to_string();
    let end = devices.main.blocks();
    let read = devices.main.read(end, 1).unwrap_err();
    assert_eq!(
        read.to_string(),
        format!("reading {path} from block {end} on: unexpected end of file")
    );
    let discard =
        Io::Discard { id: IoId(1), device: Device::Main, block: (1 << 51) - 1, blocks: 1 };
    let sentence = devices.perform(&discard).unwrap_err().to_string();
    assert_eq!(
        sentence,
        format!(
            "discarding {path} from block {} on: File too large (os error 27)",
            (1u64 << 51) - 1
        )
    );
}
