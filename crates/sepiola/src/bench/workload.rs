//! What is in flight, and what comes next.

use super::directions;
use super::histogram::Histogram;
use crate::cli::{BenchArgs, Workload};
use crate::connection::Connection;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use engine::Time;
use rados::{OpId, Operation, Place};
use std::collections::BTreeMap;
use stdx::Prng;
use types::PoolId;
use wire::OsdOp;

/// Holds the number of objects that a `--keep` run left.
const COUNT_OBJECT: &str = "sepiola_bench_count";
/// Removals in flight when a run's objects are cleaned up.
const CLEANUP_IN_FLIGHT: usize = 64;

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
    next_read: u64,
    in_flight: BTreeMap<OpId, Started>,
}

struct Started {
    at: Time,
    is_read: bool,
}

impl Load {
    pub fn new(
        connection: &mut Connection,
        pool: PoolId,
        args: &BenchArgs,
        object_size: u64,
    ) -> Result<Self> {
        let mut prng = Prng::new(args.threads as u64);
        let mut payload = vec![0; object_size as usize];
        prng.fill(&mut payload);
        let mut load = Load {
            pool,
            namespace: Bytes::from(args.pool.namespace.clone()),
            workload: args.workload,
            object_size,
            in_flight_max: args.threads,
            read_percent: args.read_percent,
            payload: payload.into(),
            prng,
            objects: 0,
            next_read: 0,
            in_flight: BTreeMap::new(),
        };
        if directions(args.workload).1 {
            load.objects = load.kept(connection)?;
        }
        Ok(load)
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
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
        while self.in_flight.len() < self.in_flight_max {
            let (operation, is_read) = self.next();
            let id = connection.client().submit(now, operation);
            self.in_flight.insert(id, Started { at: now, is_read });
        }
    }

    fn next(&mut self) -> (Operation, bool) {
        let is_read = match self.workload {
            Workload::Write => false,
            Workload::Seq | Workload::Rand => true,
            Workload::Mixed => self.prng.chance(self.read_percent, 100),
        };
        let (number, op) = if is_read {
            (self.next_to_read(), OsdOp::read(0, self.object_size))
        } else {
            (self.next_to_write(), OsdOp::write_full(self.payload.clone()))
        };
        (Operation::new(self.object(number), vec![op]), is_read)
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
            // Mixed work overwrites, so that the objects it reads stay as many.
            Workload::Mixed => self.prng.below(self.objects),
            _ => {
                self.objects += 1;
                self.objects - 1
            }
        }
    }

    /// Takes what has completed.
    pub fn collect(
        &mut self,
        connection: &mut Connection,
        latencies: &mut Histogram,
    ) -> Result<()> {
        let now = connection.now();
        while let Some((id, answer)) = connection.client().poll_completion() {
            let Some(started) = self.in_flight.remove(&id) else { continue };
            let reply = answer.map_err(|errno| anyhow::anyhow!("an operation failed: {errno}"))?;
            if let rados::Reply::Operation(reply) = reply
                && started.is_read
            {
                let length = reply.ops.first().map_or(0, |op| op.output.len() as u64);
                if length != self.object_size {
                    bail!("a read gave {length} bytes of {}", self.object_size);
                }
            }
            latencies.record(now.since(started.at));
        }
        Ok(())
    }

    /// Notes how many objects are left, or removes them.
    pub fn finish(&mut self, connection: &mut Connection, keep: bool) -> Result<()> {
        if self.workload != Workload::Write {
            return Ok(());
        }
        if keep {
            let place = self.place(format!("{COUNT_OBJECT}_{}", self.object_size));
            let op = OsdOp::write_full(codec::encode_to_bytes(&self.objects));
            connection.operate(Operation::new(place, vec![op]))?;
            return Ok(());
        }
        let mut next = 0;
        let mut ignored = Histogram::default();
        while next < self.objects || !self.in_flight.is_empty() {
            let now = connection.now();
            while next < self.objects && self.in_flight.len() < CLEANUP_IN_FLIGHT {
                let operation = Operation::new(self.object(next), vec![OsdOp::remove()]);
                let id = connection.client().submit(now, operation);
                self.in_flight.insert(id, Started { at: now, is_read: false });
                next += 1;
            }
            connection.turn()?;
            self.collect(connection, &mut ignored)?;
        }
        Ok(())
    }
}
