//! `sepiola image object-map`

use super::target::begin;
use crate::cli::{ObjectMapCommand, SourceArgs};
use anyhow::{Result, bail};
use rbd::Mismatch;
use std::io::{self, Write};

/// `sepiola image object-map …`
pub fn run(command: &ObjectMapCommand) -> Result<()> {
    match command {
        ObjectMapCommand::Rebuild(args) => rebuild(args),
        ObjectMapCommand::Check(args) => check(args),
    }
}

fn rebuild(args: &SourceArgs) -> Result<()> {
    let (mut client, image) = begin(&args.cluster, &args.source.image)?;
    client.run(rbd::rebuild_object_map(image, args.source.snap.clone()))
}

fn check(args: &SourceArgs) -> Result<()> {
    let (mut client, image) = begin(&args.cluster, &args.source.image)?;
    let found = client.run(rbd::check_object_map(image, args.source.snap.clone()))?;
    let mut output = io::stdout().lock();
    for Mismatch { object, said, is } in &found.first {
        writeln!(output, "object {object:#x}: the map says {said}, it is {is}")?;
    }
    if found.missing > 0 {
        writeln!(
            output,
            "{} objects that the map knows do not exist, which is no harm",
            found.missing
        )?;
    }
    match found.wrong {
        0 => Ok(()),
        wrong => bail!(
            "the object map of {} is wrong about {wrong} objects and is marked as invalid now; `image \
             object-map rebuild` makes it anew",
            args.source
        ),
    }
}
