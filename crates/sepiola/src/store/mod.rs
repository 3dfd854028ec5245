//! `sepiola store …`: what is done to a store while no cluster uses it.

mod check;

use crate::cli::{StoreArgs, StoreCommand, StorePath};
use anyhow::{Context, Result, bail};
use block::device::BLOCK;
use bytes::Bytes;
use disks::{
    Content, Existing, OfflineStore, StoreDevices, StoreKind, contents, export, import, kind_of,
    usage,
};
use machine::private_file;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use stdx::{AlignedBuffer, format_bytes};
use store::{Collection, Usage};

/// Bytes cleared at both ends of a wiped device: superblocks, partition tables, file system signatures.
const WIPED_LEN: u64 = 1 << 20;
const BUFFER_LEN: usize = 1 << 20;

/// `sepiola store …`
pub fn run(args: &StoreArgs) -> Result<()> {
    match &args.command {
        StoreCommand::Stats { store, json } => stats(store, *json),
        StoreCommand::Export { store, file, collection } => {
            let only = collection.as_deref().map(parse_collection).transpose()?;
            export_to(store, file, only)
        }
        StoreCommand::Fsck(args) => {
            refuse_files(&args.store)?;
            check::fsck(args)
        }
        StoreCommand::Dump { store, part, collection, object } => {
            refuse_files(store)?;
            let only = collection.as_deref().map(parse_collection).transpose()?;
            check::dump(store, *part, only, object.clone())
        }
        StoreCommand::Import { store, replace, file } => {
            let existing = if *replace { Existing::Replaced } else { Existing::Refused };
            import_from(store, file, existing)
        }
        StoreCommand::Wipe { path, yes } => wipe(path, *yes),
    }
}

fn export_to(args: &StorePath, file: &Path, only: Option<Collection>) -> Result<()> {
    let mut store = open(args)?;
    let output: Box<dyn Write> = match is_standard(file) {
        true => Box::new(io::stdout().lock()),
        false => {
            let made = private_file(OpenOptions::new().write(true).create_new(true), file);
            Box::new(made.with_context(|| format!("making {}", file.display()))?)
        }
    };
    let output = BufWriter::with_capacity(BUFFER_LEN, output);
    let objects = export(&mut store, only, output)?;
    eprintln!("{objects} objects exported");
    store.close()
}

fn import_from(args: &StorePath, file: &Path, existing: Existing) -> Result<()> {
    let input: Box<dyn Read> = match is_standard(file) {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(file).with_context(|| format!("opening {}", file.display()))?),
    };
    let mut store = open(args)?;
    let objects = import(&mut store, BufReader::with_capacity(BUFFER_LEN, input), existing)?;
    eprintln!("{objects} objects imported");
    store.close()
}

fn refuse_files(args: &StorePath) -> Result<()> {
    let path = &args.path;
    if path.is_dir() && kind_of(path)? == StoreKind::Files {
        bail!("{} keeps objects as files; these commands are for block stores", path.display());
    }
    Ok(())
}

fn open(args: &StorePath) -> Result<OfflineStore> {
    refuse_files(args)?;
    OfflineStore::open(&args.path, args.memory)
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

fn parse_collection(text: &str) -> Result<Collection> {
    match text.parse() {
        Ok(group) => Ok(Collection(group)),
        Err(()) => bail!("{text:?} is not a placement group such as 2.1f"),
    }
}

fn stats(args: &StorePath, as_json: bool) -> Result<()> {
    let mut store = open(args)?;
    let owner = store.devices().main.owner().map(|owner| owner.to_string());
    let stats = Stats { owner, usage: usage(&mut store)?, contents: contents(&mut store)? };
    store.close()?;
    let mut output = io::stdout().lock();
    match as_json {
        true => Ok(writeln!(output, "{:#}", stats.to_json())?),
        false => Ok(stats.print(&mut output)?),
    }
}

struct Stats {
    owner: Option<String>,
    usage: Usage,
    contents: BTreeMap<Collection, Content>,
}

impl Stats {
    fn to_json(&self) -> Value {
        let collections = self.contents.iter().map(|(collection, content)| {
            json!({
                "collection": collection.to_string(),
                "objects": content.objects,
                "bytes": content.bytes,
                "with_omap": content.with_omap,
            })
        });
        json!({
            "owner": self.owner,
            "bytes_total": self.usage.bytes_total,
            "bytes_available": self.usage.bytes_available,
            "bytes_used": self.usage.bytes_used,
            "bytes_omap": self.usage.bytes_omap,
            "bytes_meta": self.usage.bytes_meta,
            "objects": self.usage.objects,
            "collections": collections.collect::<Vec<_>>(),
        })
    }

    fn print(&self, output: &mut impl Write) -> io::Result<()> {
        if let Some(owner) = &self.owner {
            writeln!(output, "{:<14} {owner}", "store of")?;
        }
        for (name, bytes) in [
            ("size", self.usage.bytes_total),
            ("used", self.usage.bytes_used),
            ("available", self.usage.bytes_available),
            ("omap", self.usage.bytes_omap),
            ("metadata", self.usage.bytes_meta),
        ] {
            writeln!(output, "{name:<14} {}", format_bytes(bytes))?;
        }
        writeln!(output, "{:<14} {}\n", "objects", self.usage.objects)?;
        writeln!(output, "collection        objects         data  with omap")?;
        for (collection, content) in &self.contents {
            let (name, bytes) = (collection.to_string(), format_bytes(content.bytes));
            let Content { objects, with_omap, .. } = content;
            writeln!(output, "{name:<14} {objects:>10} {bytes:>12} {with_omap:>10}")?;
        }
        Ok(())
    }
}

/// Makes a device look empty, so that it may be used for a new store.
fn wipe(path: &Path, yes: bool) -> Result<()> {
    let device = StoreDevices::open(path)?.main;
    let what = match device.owner() {
        Some(owner) => format!("the store of {owner}"),
        None => "what is on it".to_owned(),
    };
    if !yes {
        bail!("{} would lose {what} for good; if that is meant, say --yes", path.display());
    }
    let blocks = device.blocks();
    let count = (WIPED_LEN / BLOCK as u64).min(blocks);
    let zeros = Bytes::from(AlignedBuffer::zeroed(WIPED_LEN as usize));
    let zeros = zeros.slice(..count as usize * BLOCK);
    let zeros = std::slice::from_ref(&zeros);
    device.write(0, zeros)?;
    device.write(blocks - count, zeros)?;
    device.flush()?;
    println!("{} is wiped", path.display());
    Ok(())
}
