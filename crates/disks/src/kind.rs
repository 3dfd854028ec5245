//! The kind of the store in an OSD's directory, and the names of what lies there.
//!
//! An OSD's directory has a file `store` that names the kind of its store (`block` or `files`; directories
//! from before there was a choice have no such file, but a database of files). A directory with neither
//! contains no store: it is never taken for a new, empty one. The device of a block store is `block` in that
//! directory, a file or a link to a file or a block device; log and metadata may be on a faster device,
//! `block.log`.

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use machine::write_file;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const KIND_MODE: u32 = 0o600;

/// How an OSD keeps its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum StoreKind {
    /// On a block device or in one large file
    #[default]
    Block,
    /// As files in a directory
    Files,
}

fn kind_file(directory: &Path) -> PathBuf {
    directory.join("store")
}

pub(crate) fn main_path(directory: &Path) -> PathBuf {
    directory.join("block")
}

pub(crate) fn fast_path(directory: &Path) -> PathBuf {
    directory.join("block.log")
}

/// Kind of the store in an OSD's directory.
pub fn kind_of(directory: &Path) -> Result<StoreKind> {
    let path = kind_file(directory);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match directory.join(files::DATABASE).exists() {
                true => Ok(StoreKind::Files),
                false => Err(no_store(directory)),
            };
        }
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    match text.trim() {
        "block" => Ok(StoreKind::Block),
        "files" if has_lost_database(directory) => Err(no_store(directory)),
        "files" => Ok(StoreKind::Files),
        other => bail!("{}: there is no kind of store {other:?}", path.display()),
    }
}

/// A store of files is made when it is opened first; one that has objects and no database was made before.
fn has_lost_database(directory: &Path) -> bool {
    !directory.join(files::DATABASE).exists() && directory.join(files::OBJECTS).exists()
}

fn no_store(directory: &Path) -> anyhow::Error {
    anyhow!(
        "{} holds no store. If it lies on a file system of its own, mount that. If the store is lost, its data are on \
         other OSDs of the cluster, which fill a new store (`sepiola osd replace`)",
        directory.display()
    )
}

/// Writes the kind into an OSD's directory.
pub fn remember_kind(directory: &Path, kind: StoreKind) -> Result<()> {
    let text = match kind {
        StoreKind::Block => "block\n",
        StoreKind::Files => "files\n",
    };
    write_file(&kind_file(directory), text, KIND_MODE)
}
