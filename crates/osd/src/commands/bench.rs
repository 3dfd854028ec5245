//! `ceph tell osd.N bench`: measures how fast this OSD's store writes.
//!
//! Blocks are written, each durably, into a few objects of the OSD's own collection, repeatedly,
//! with a bounded number of bytes in flight; then the objects are removed. Objects left by a crash
//! are removed by the next benchmark.

use crate::commands::answer::{Arguments, CommandOutput, Requester, Sentence, integer};
use crate::env::{BenchLimits, Env, Stage};
use crate::maps::stored::{self, OWN_POOL};
use crate::outbox::Outbox;
use crate::report::usage::DiskUsage;
use crate::tokens::Token;
use bytes::Bytes;
use engine::Time;
use serde_json::json;
use store::{Change, Outcome, RequestKind, StoreError, Transaction};
use types::{Errno, HObject};

const COUNT_DEFAULT: i64 = 1 << 30;
const BLOCK_DEFAULT: i64 = 4 << 20;
/// Number of objects that are written, and bytes they may take together.
const OBJECTS_MAX: u64 = 64;
const SPACE_MAX: u64 = 64 << 20;
/// Blocks in flight, and their bytes together unless a single one is larger.
const IN_FLIGHT_MAX: u64 = 16;
const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;
/// Below this size a block counts as small.
const LARGE: u64 = 1 << 20;

/// The benchmark, while one is running.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    running: Option<Box<Running>>,
}

#[derive(Debug)]
struct Running {
    requester: Requester,
    block: Bytes,
    count: u64,
    objects: u64,
    /// Bytes submitted to the store, and bytes that are durable.
    submitted: u64,
    written: u64,
    in_flight: u64,
    started: Time,
    /// The time of its end or its error, once all is written.
    outcome: Option<Result<Time, StoreError>>,
}

/// Count and block size in bytes, unless they exceed [`BenchLimits`].
fn check_size(count: i64, block: i64, limits: &BenchLimits) -> Result<(u64, u64), Sentence> {
    let refuse = |text: String| Err(Sentence::new(Errno::INVAL, text));
    let (Ok(count @ 1..), Ok(block @ 1..)) = (u64::try_from(count), u64::try_from(block)) else {
        return refuse("count and size must be greater than zero".to_owned());
    };
    if block > limits.block_max {
        let most = limits.block_max;
        return refuse(format!(
            "block 'size' values are capped at {most} bytes: \
             raise 'osd_bench_max_block_size' at your own risk"
        ));
    }
    let (most, option) = match block < LARGE {
        true => (block.saturating_mul(limits.small_iops), "osd_bench_small_size_max_iops"),
        false => (limits.large_throughput, "osd_bench_large_size_max_throughput"),
    };
    let most = most.saturating_mul(limits.seconds);
    if count > most {
        return refuse(format!(
            "'count' values greater than {most} for a block size of {block} bytes are not allowed, \
             as they may take more than {} s: see '{option}' and 'osd_bench_duration'",
            limits.seconds
        ));
    }
    Ok((count, block))
}

fn object(number: u64) -> HObject {
    HObject::head(OWN_POOL, Bytes::new(), Bytes::new(), format!("bench.{number}").into(), 0)
}

impl Bench {
    /// Begins a benchmark. The reply follows at its end, unless it is refused here.
    pub fn begin(
        &mut self,
        env: &Env,
        usage: &mut DiskUsage,
        out: &mut Outbox,
        requester: Requester,
        arguments: &Arguments,
    ) -> Result<(), Sentence> {
        let (count, block) = (integer(arguments, "count")?, integer(arguments, "size")?);
        let (count, block) = (count.unwrap_or(COUNT_DEFAULT), block.unwrap_or(BLOCK_DEFAULT));
        let (count, block) = check_size(count, block, &env.options.bench)?;
        if env.stage != Stage::Up {
            return Err(Sentence::new(Errno::AGAIN, "the OSD is not up"));
        }
        if self.running.is_some() {
            return Err(Sentence::new(Errno::BUSY, "another benchmark is running"));
        }
        let objects = (SPACE_MAX / block).clamp(1, OBJECTS_MAX).min(count.div_ceil(block));
        // Twice, as overwritten data stays until its successor is durable.
        let space = 2 * objects * block;
        if usage.is_backfill_full() || usage.usage().bytes_available < space {
            return Err(Sentence::new(Errno::NOSPC, "too little is free for a benchmark"));
        }
        let pattern = (0..block).map(|index| (index ^ index >> 8) as u8).collect::<Vec<u8>>();
        let mut running = Box::new(Running {
            requester,
            block: pattern.into(),
            count,
            objects,
            submitted: 0,
            written: 0,
            in_flight: 0,
            started: env.now,
            outcome: None,
        });
        running.submit(usage, out);
        self.running = Some(running);
        Ok(())
    }

    /// Handles a durable block of so many bytes, or the end of the final removal, after which it returns the
    /// answer.
    pub fn stored(
        &mut self,
        now: Time,
        usage: &mut DiskUsage,
        out: &mut Outbox,
        bytes: u64,
        outcome: Result<Outcome, StoreError>,
    ) -> Option<(Requester, Result<CommandOutput, Sentence>)> {
        usage.end_commit(bytes);
        let running = self.running.as_mut()?;
        running.in_flight -= 1;
        if bytes == 0 {
            let (requester, answer) = (running.requester, running.answer());
            self.running = None;
            return Some((requester, answer));
        }
        match outcome {
            Ok(_) => running.written += bytes,
            Err(error) => running.outcome = Some(Err(error)),
        }
        if running.written == running.count {
            running.outcome = Some(Ok(now));
        }
        match running.outcome.is_some() && running.in_flight == 0 {
            true => running.remove_objects(out),
            false => running.submit(usage, out),
        }
        None
    }
}

impl Running {
    /// Writes as many blocks as may be in flight.
    fn submit(&mut self, usage: &mut DiskUsage, out: &mut Outbox) {
        let block = self.block.len() as u64;
        let most = (IN_FLIGHT_BYTES_MAX / block).clamp(1, IN_FLIGHT_MAX);
        while self.outcome.is_none() && self.submitted < self.count && self.in_flight < most {
            let length = block.min(self.count - self.submitted);
            let object = object(self.submitted / block % self.objects);
            let data = self.block.slice(..length as usize);
            self.submitted += length;
            self.in_flight += 1;
            let mut transaction = Transaction::new();
            transaction.push(stored::collection(), Change::Write { object, offset: 0, data });
            usage.begin_commit(length);
            out.ask(Token::Bench { bytes: length }, RequestKind::Commit(transaction));
        }
    }

    fn remove_objects(&mut self, out: &mut Outbox) {
        self.in_flight += 1;
        let mut transaction = Transaction::new();
        for number in 0..OBJECTS_MAX {
            let object = object(number);
            transaction.push(stored::collection(), Change::Remove { object });
        }
        out.ask(Token::Bench { bytes: 0 }, RequestKind::Commit(transaction));
    }

    fn answer(&self) -> Result<CommandOutput, Sentence> {
        match self.outcome.as_ref().expect("it ends when all is written") {
            Err(StoreError::NoSpace { .. }) => {
                Err(Sentence::new(Errno::NOSPC, "the store became full"))
            }
            Err(error) => Err(Sentence::new(Errno::IO, format!("the store failed: {error}"))),
            Ok(end) => {
                // Simulated stores may take no time.
                let seconds = end.since(self.started).as_secs_f64().max(1e-6);
                let rate = self.written as f64 / seconds;
                Ok(json!({
                    "bytes_written": self.written,
                    "blocksize": self.block.len(),
                    "elapsed_sec": seconds,
                    "bytes_per_sec": rate,
                    "iops": rate / self.block.len() as f64,
                })
                .into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn what_would_take_too_long_is_refused() {
        let limits = Options::default().bench;
        let is_fine = |count, block| check_size(count, block, &limits).is_ok();
        assert!(is_fine(COUNT_DEFAULT, BLOCK_DEFAULT) && is_fine(1 << 20, 64 << 10));
        assert!(is_fine(12_288_000, 4096) && !is_fine(12_288_001, 4096));
        assert!(!is_fine(1 << 20, 1) && !is_fine(1 << 30, (64 << 20) + 1));
        assert!(is_fine(3_145_728_000, 1 << 20) && !is_fine(3_145_728_001, 1 << 20));
        for (count, block) in [(0, 4096), (-1, 4096), (4096, 0), (4096, -1), (i64::MAX, i64::MAX)] {
            assert!(!is_fine(count, block), "{count} {block}");
        }
    }
}
