//! `sepiola store fsck` and `sepiola store dump`: what is on the devices, whatever the engine thinks.

use crate::cli::{DumpPart, FsckArgs, StorePath};
use anyhow::{Result, bail};
use block::device::{Device, IoError};
use block::dump::{self, ObjectFilter};
use block::fsck::{self, CheckOptions, Image, ImageMut, Report};
use bytes::Bytes;
use disks::{OfflineStore, StoreDevices};
use std::fmt;
use std::io::{self, BufWriter, Write};
use store::Collection;

/// Devices as the check sees them.
struct Devices<'a>(&'a StoreDevices);

impl Image for Devices<'_> {
    fn read(&mut self, device: Device, block: u64, blocks: u32) -> Result<Bytes, IoError> {
        self.0.device(device).read(block, blocks)
    }

    fn blocks(&self, device: Device) -> u64 {
        match device {
            Device::Main => self.0.main.blocks(),
            Device::Fast => self.0.fast.as_ref().map_or(0, |fast| fast.blocks()),
        }
    }
}

impl ImageMut for Devices<'_> {
    fn write(&mut self, device: Device, block: u64, data: Bytes) -> Result<(), IoError> {
        self.0.device(device).write(block, &[data])
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.0.device(device).flush()
    }
}

/// Text for a program's output; the first error ends it.
struct Output<W> {
    to: W,
    error: Option<io::Error>,
}

impl<W: Write> fmt::Write for Output<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.to.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

/// `sepiola store fsck`
pub fn fsck(args: &FsckArgs) -> Result<()> {
    let devices = StoreDevices::open(&args.store.path)?;
    let options = CheckOptions {
        deep: args.deep,
        accept_outdated: args.accept_outdated,
        ..Default::default()
    };
    let report = fsck::check(&mut Devices(&devices), &options);
    print!("{report}");
    if report.is_clean() {
        return Ok(());
    }
    if !args.repair {
        bail!("{} is not sound; --repair mends what can be mended", args.store.path.display());
    }
    repair(&args.store, devices, &report)?;
    let devices = StoreDevices::open(&args.store.path)?;
    let after = fsck::check(&mut Devices(&devices), &options);
    println!("\nafter the repair:\n{after}");
    match after.is_clean() {
        true => Ok(()),
        false => {
            bail!("what is left cannot be mended here: copies of these objects on other OSDs can")
        }
    }
}

fn repair(store: &StorePath, devices: StoreDevices, report: &Report) -> Result<()> {
    for done in fsck::repair(report, &mut Devices(&devices))? {
        println!("{done}");
    }
    let repairs = fsck::repair_ops(report);
    if repairs.is_empty() {
        return Ok(());
    }
    let count = repairs.ops.len() + repairs.taken.len() + repairs.freed.len();
    OfflineStore::open_with(devices, store.memory, Some(repairs))?.close()?;
    println!("mended {count} entries of the metadata");
    Ok(())
}

/// `sepiola store dump`
pub fn dump(
    store: &StorePath,
    part: DumpPart,
    collection: Option<Collection>,
    object: Option<String>,
) -> Result<()> {
    let devices = StoreDevices::open(&store.path)?;
    let image = &mut Devices(&devices);
    let mut output = Output { to: BufWriter::new(io::stdout().lock()), error: None };
    let filter = ObjectFilter { collection, object };
    let result = match part {
        DumpPart::Superblock => dump::superblock(image, &mut output),
        DumpPart::Log => dump::log(image, &mut output),
        DumpPart::Tree => dump::tree(image, &mut output),
        DumpPart::Space => dump::space(image, &mut output),
        DumpPart::Objects => dump::objects(image, &filter, &mut output),
    };
    // The reader may have closed its end, as `head` does.
    if let Some(error) = output.error.take().filter(|e| e.kind() != io::ErrorKind::BrokenPipe) {
        return Err(error.into());
    }
    output.to.flush()?;
    Ok(result?)
}
