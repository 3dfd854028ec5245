//! The batches of the log from where replay starts, with their records.

use super::error::DumpError;
use super::output::Output;
use super::scanner::find_superblock;
use super::superblock::{counters, extents, point};
use crate::device::Extent;
use crate::fsck::{Image, Source, describe_key, replay};
use crate::log::{Batch, Record, Replayed};
use crate::table::Op;
use std::fmt::Write;

/// Writes all batches from the point where replay starts, with their records, and the reason why
/// the log ends there. Damage of the log is output, not an error.
pub fn log(image: &mut dyn Image, out: &mut dyn Write) -> Result<(), DumpError> {
    let source = Source::new(image);
    let superblock = find_superblock(&source)?;
    let output = Output::new(out);
    output.line(format_args!("replay starts with {}", point(&superblock.log)));
    let last = replay(&source, &superblock, &mut |batch| describe_batch(&batch, &output));
    match last {
        Replayed::End { point: end, generation, stop } => {
            let end = point(&end);
            output.line(format_args!("ends before {end} in generation {generation}: {stop}"));
        }
        Replayed::Unreadable { block } => {
            output.line(format_args!("damaged: block {block} cannot be read"));
        }
        Replayed::Damaged { block, damage } => {
            output.line(format_args!("damaged at block {block}: {damage}"));
        }
        Replayed::Batch(_) => unreachable!("a batch is not the end"),
    }
    Ok(output.finish()?)
}

fn describe_batch(batch: &Batch, output: &Output<'_>) {
    let Batch { seq, start, end, generation, durable, records } = batch;
    let durable = if *durable { "durable" } else { "perhaps not durable" };
    output.line(format_args!(
        "batch {seq}: positions {}..{}, generation {generation}, {} records, {durable}",
        start.position,
        end.position,
        records.len()
    ));
    for (number, (record, _)) in records.iter().enumerate() {
        describe_record(number, record, output);
    }
}

fn describe_record(number: usize, record: &Record, output: &Output<'_>) {
    output.line(format_args!("  record {number}: {}", counters(&record.counters)));
    for op in &record.ops {
        match op {
            Op::Put { key, value } => {
                let key = describe_key(key);
                output.line(format_args!("    put {key}: {} bytes", value.len()));
            }
            Op::Delete { key } => output.line(format_args!("    delete {}", describe_key(key))),
            Op::DeleteRange { first, last } => {
                let (first, last) = (describe_key(first), describe_key(last));
                output.line(format_args!("    delete from {first} up to {last}"));
            }
        }
    }
    for (what, list) in [("takes", &record.taken), ("frees", &record.freed)] {
        if !list.is_empty() {
            output.line(format_args!("    {what} {}", extents(list)));
        }
    }
    for write in &record.small {
        output.line(format_args!("    small data for block {}: {:#010x}", write.block, write.crc));
    }
    for write in &record.large {
        let extent = Extent::new(write.start, write.crcs.len() as u64);
        output.line(format_args!("    large data in {extent}"));
    }
}
