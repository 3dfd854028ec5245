//! A load on a pool: operations in flight and their generation.

use crate::{BenchArgs, Workload};
use access::Connection;
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use engine::Time;
use rados::{OpId, Operation, Place};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Prng;
use types::{Errno, PoolId};
use wire::OsdOp;
use wire::op::request_flags;

/// Object that holds the number of objects left by a `--keep` run.
const COUNT_OBJECT: &str = "sepiola_bench_count";
/// Removals in flight when a run's objects are cleaned up.
const CLEANUP_IN_FLIGHT: usize = 64;

/// Operations in flight on objects of one size, and the number of objects that exist.
pub struct Load {
    pool: PoolId,
    namespace: Bytes,
    workload: Workload,
    object_size: u64,
    in_flight_max: usize,
    read_percent: u64,
    payload: Bytes,
    prng: Prng,
    /// Objects 0 to `objects` exist or are being written.
    objects: u64,
    /// Number of objects at which writing ends, if the time does not end it before.
    objects_wanted: Option<u64>,
    /// The first object refused for lack of space.
    refused: Option<u64>,
    next_read: u64,
    in_flight: BTreeMap<OpId, Started>,
}

struct Started {
    at: Time,
    number: u64,
    is_read: bool,
}

impl Load {
    /// A load as the arguments describe it; if it reads, of the objects that an earlier run left.
    pub fn new(
        connection: &mut Connection,
        pool: PoolId,
        args: &BenchArgs,
        object_size: u64,
    ) -> Result<Self> {
        let mut prng = Prng::new(args.seed);
        let mut payload = vec![0; object_size as usize];
        prng.fill(&mut payload);
        let mut load = Load {
            pool,
            namespace: Bytes::from(args.pool.namespace.clone()),
            workload: args.workload,
            object_size,
            in_flight_max: args.threads,
            read_percent: args.load.read_percent,
            payload: payload.into(),
            prng,
            objects: 0,
            objects_wanted: None,
            refused: None,
            next_read: 0,
            in_flight: BTreeMap::new(),
        };
        match args.load.objects {
            Some(objects) if args.workload.reads() => load.objects = objects,
            None if args.workload.reads() => load.objects = load.kept(connection)?,
            wanted => load.objects_wanted = wanted,
        }
        Ok(load)
    }

    /// Number of operations in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Number of existing objects when nothing is in flight.
    pub fn objects(&self) -> u64 {
        self.refused.unwrap_or(self.objects)
    }

    /// True if a write was refused for lack of space; no further ones are tried.
    pub fn is_full(&self) -> bool {
        self.refused.is_some()
    }

    /// True if another operation is to be started; `is_in_time` while the run's time is not over.
    pub fn wants_more(&self, is_in_time: bool) -> bool {
        let is_wanted = self.objects_wanted.map_or(is_in_time, |wanted| self.objects < wanted);
        is_wanted && !self.is_full()
    }

    fn place(&self, object: impl Into<Bytes>) -> Place {
        let mut place = Place::new(self.pool, object);
        place.namespace = self.namespace.clone();
        place
    }

    fn object(&self, number: u64) -> Place {
        self.place(format!("sepiola_bench_{}_{number}", self.object_size))
    }

    fn kept(&self, connection: &mut Connection) -> Result<u64> {
        let place = self.place(format!("{COUNT_OBJECT}_{}", self.object_size));
        let reply = connection
            .operate(Operation::new(place, vec![OsdOp::read(0, 0)]))
            .context("no objects of this size to read: run `sepiola bench write --keep` first")?;
        let data = reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default();
        Ok(codec::decode_all("count", &data)?)
    }

    /// Starts operations until enough are in flight.
    pub fn fill(&mut self, connection: &mut Connection, now: Time) {
        while self.in_flight.len() < self.in_flight_max && self.wants_more(true) {
            let (operation, number, is_read) = self.next();
            let id = connection.client().submit(now, operation);
            self.in_flight.insert(id, Started { at: now, number, is_read });
        }
    }

    fn next(&mut self) -> (Operation, u64, bool) {
        let is_read = match self.workload {
            Workload::Write | Workload::Age | Workload::Stability => false,
            Workload::Seq | Workload::Rand => true,
            Workload::Mixed => self.prng.chance(self.read_percent, 100),
        };
        let (number, op) = if is_read {
            (self.next_to_read(), OsdOp::read(0, self.object_size))
        } else {
            (self.next_to_write(), OsdOp::write_full(self.payload.clone()))
        };
        let mut operation = Operation::new(self.object(number), vec![op]);
        // A full pool must report ENOSPC instead of making the client wait.
        operation.flags |= request_flags::FULL_TRY;
        (operation, number, is_read)
    }

    fn next_to_read(&mut self) -> u64 {
        match self.workload {
            Workload::Seq => {
                let number = self.next_read % self.objects;
                self.next_read += 1;
                number
            }
            _ => self.prng.below(self.objects),
        }
    }

    fn next_to_write(&mut self) -> u64 {
        match self.workload {
            // Mixed load overwrites, so that the number of objects stays the same.
            Workload::Mixed => self.prng.below(self.objects),
            _ => {
                self.objects += 1;
                self.objects - 1
            }
        }
    }

    /// Processes completions; `record` gets each latency.
    pub fn collect(
        &mut self,
        connection: &mut Connection,
        record: &mut dyn FnMut(Duration),
    ) -> Result<()> {
        let now = connection.now();
        while let Some((id, answer)) = connection.client().poll_completion() {
            let Some(started) = self.in_flight.remove(&id) else { continue };
            match answer {
                Ok(reply) => {
                    self.check_read(&started, reply)?;
                    record(now.since(started.at));
                }
                Err(Errno::NOSPC | Errno::DQUOT) if self.workload == Workload::Write => {
                    let first = self.refused.map_or(started.number, |n| n.min(started.number));
                    self.refused = Some(first);
                }
                Err(errno) => bail!("an operation failed: {errno}"),
            }
        }
        Ok(())
    }

    fn check_read(&self, started: &Started, reply: rados::Reply) -> Result<()> {
        if let rados::Reply::Operation(reply) = reply
            && started.is_read
        {
            let length = reply.ops.first().map_or(0, |op| op.output.len() as u64);
            if length != self.object_size {
                bail!("a read gave {length} bytes of {}", self.object_size);
            }
        }
        Ok(())
    }

    /// Records the number of objects left, or removes them.
    pub fn finish(&mut self, connection: &mut Connection, keep: bool) -> Result<()> {
        if self.workload != Workload::Write {
            return Ok(());
        }
        if keep {
            let place = self.place(format!("{COUNT_OBJECT}_{}", self.object_size));
            let op = OsdOp::write_full(codec::encode_to_bytes(&self.objects()));
            connection.operate(Operation::new(place, vec![op]))?;
            return Ok(());
        }
        self.remove_all(connection)
    }

    fn remove_all(&mut self, connection: &mut Connection) -> Result<()> {
        let (mut next, mut in_flight) = (0, 0);
        while next < self.objects || in_flight > 0 {
            let now = connection.now();
            while next < self.objects && in_flight < CLEANUP_IN_FLIGHT {
                let mut operation = Operation::new(self.object(next), vec![OsdOp::remove()]);
                operation.flags |= request_flags::FULL_TRY;
                connection.client().submit(now, operation);
                next += 1;
                in_flight += 1;
            }
            connection.turn()?;
            while let Some((_, answer)) = connection.client().poll_completion() {
                in_flight -= 1;
                // A refused object does not exist.
                answer.map(drop).or_else(|errno| match errno {
                    Errno::NOENT => Ok(()),
                    errno => Err(anyhow!("removing an object: {errno}")),
                })?;
            }
        }
        Ok(())
    }
}
