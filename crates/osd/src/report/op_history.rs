//! Operations in flight and recent ones, with the time of each event: `dump_ops_in_flight`,
//! `dump_historic_ops` and related commands.
//!
//! Completed operations are kept without their data in rings of bounded length: the latest, the
//! slowest of the last minutes, and the latest of those that exceeded the threshold.

use crate::env::Options;
use crate::operations::answered::Answered;
use crate::operations::queues::Counters;
use crate::operations::request::{Request, Times};
use crate::report::histograms::Histogram;
use engine::{Duration, Time};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use types::{EntityAddr, PgId, RequestId};
use wire::op::OpCode;
use wire::{OsdOp, OsdRequest};

/// Interval at which the slowest operations are searched for old ones.
const SWEEP: Duration = Duration::from_secs(1);

/// A completed operation.
#[derive(Debug)]
struct Ended {
    answered: Answered,
    ended: Time,
}

/// Number and total duration of operations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Latency {
    pub count: u64,
    pub sum: Duration,
}

impl Latency {
    fn add(&mut self, duration: Duration) {
        self.count += 1;
        self.sum += duration;
    }

    /// The difference to an earlier count.
    pub fn since(self, earlier: Latency) -> Latency {
        let sum = self.sum.saturating_sub(earlier.sum);
        Latency { count: self.count.saturating_sub(earlier.count), sum }
    }

    /// The sum of both.
    pub fn and(self, other: Latency) -> Latency {
        Latency { count: self.count + other.count, sum: self.sum + other.sum }
    }

    /// As `perf dump` shows an average; times in seconds.
    pub fn json(self) -> Value {
        let average = self.sum.as_secs_f64() / self.count.max(1) as f64;
        json!({ "avgcount": self.count, "sum": self.sum.as_secs_f64(), "avgtime": average })
    }
}

/// Sums over answered requests since the OSD started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Writes that were executed, until then.
    pub queued: Latency,
    /// Writes that all members have stored, from their submission until then.
    pub committing: Latency,
}

/// Counters at the last `perf reset`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PerfBase {
    pub counters: Counters,
    pub reads: Latency,
    pub writes: Latency,
    /// See [`Sums`].
    pub queued: Latency,
    pub committing: Latency,
}

/// Completed operations, and latencies since the OSD started.
#[derive(Debug, Default)]
pub(crate) struct OpHistory {
    /// Oldest first.
    recent: VecDeque<Arc<Ended>>,
    /// Slowest first, with their durations.
    slowest: Vec<(Duration, Arc<Ended>)>,
    /// When old ones were last removed from `slowest`.
    swept: Time,
    /// Those that exceeded the threshold, oldest first.
    slow: VecDeque<Arc<Ended>>,
    pub reads: Latency,
    pub writes: Latency,
    pub sums: Sums,
    pub read_histogram: Histogram,
    pub write_histogram: Histogram,
    /// The counters at the last `perf reset`.
    pub base: PerfBase,
}

impl OpHistory {
    /// Notes a client's request that was answered.
    pub fn note(&mut self, now: Time, mut answered: Answered, options: &Options) {
        let took = now.since(answered.times.arrived);
        self.count(took, &answered);
        answered.message.ops.iter_mut().for_each(forget_data);
        answered.message.snap_context.snaps = Vec::new();
        let ended = self.keep(Ended { answered, ended: now }, options.history_size);
        if took >= options.history_slow_threshold {
            self.slow.push_back(ended.clone());
        }
        let place = self.slowest.partition_point(|(other, _)| *other >= took);
        if place < options.history_size {
            self.slowest.insert(place, (took, ended.clone()));
        }
        self.slowest.truncate(options.history_size);
        self.recent.push_back(ended);
        if now.since(self.swept) >= SWEEP {
            self.sweep(now, options);
        }
        self.forget(now, options);
    }

    fn count(&mut self, took: Duration, answered: &Answered) {
        let Answered { times, input_bytes, output_bytes, .. } = answered;
        if !answered.writes {
            self.reads.add(took);
            self.sums.read_bytes += output_bytes;
            return self.read_histogram.count(took, *output_bytes);
        }
        let bytes = *input_bytes as u64;
        self.writes.add(took);
        self.sums.write_bytes += bytes;
        self.write_histogram.count(took, bytes);
        if let Some(started) = times.started {
            self.sums.queued.add(started.since(times.arrived));
        }
        if let (Some(submitted), Some(committed)) = (times.submitted, times.committed) {
            self.sums.committing.add(committed.since(submitted));
        }
    }

    /// The operation as an entry of the rings, in the memory of the entry that leaves them, if there is one.
    fn keep(&mut self, ended: Ended, size: usize) -> Arc<Ended> {
        let oldest = if self.recent.len() >= size { self.recent.pop_front() } else { None };
        let Some(mut entry) = oldest else { return Arc::new(ended) };
        match Arc::get_mut(&mut entry) {
            Some(place) => *place = ended,
            // It is among the slowest, too.
            None => entry = Arc::new(ended),
        }
        entry
    }

    fn sweep(&mut self, now: Time, options: &Options) {
        self.swept = now;
        self.slowest.retain(|(_, ended)| now.since(ended.ended) <= options.history_duration);
        self.slowest.truncate(options.history_size);
    }

    fn forget(&mut self, now: Time, options: &Options) {
        let is_old = |ended: &Arc<Ended>| now.since(ended.ended) > options.history_duration;
        while self.recent.len() > options.history_size || self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        while self.slow.len() > options.history_slow_size {
            self.slow.pop_front();
        }
    }

    /// `dump_historic_ops`, in order of completion, or `dump_historic_ops_by_duration`, slowest first.
    pub fn history(&mut self, now: Time, options: &Options, by_duration: bool) -> Value {
        self.forget(now, options);
        self.sweep(now, options);
        let ops: Vec<Value> = match by_duration {
            true => self.slowest.iter().map(|(_, ended)| ended_json(now, ended)).collect(),
            false => self.recent.iter().map(|ended| ended_json(now, ended)).collect(),
        };
        json!({
            "size": options.history_size,
            "duration": options.history_duration.as_secs(),
            "ops": ops,
        })
    }

    /// `dump_historic_slow_ops`
    pub fn slow(&mut self, now: Time, options: &Options) -> Value {
        self.forget(now, options);
        let ops: Vec<Value> = self.slow.iter().map(|ended| ended_json(now, ended)).collect();
        json!({
            "num to keep": options.history_slow_size,
            "threshold to keep": options.history_slow_threshold.as_secs(),
            "Ops": ops,
        })
    }

    /// Entries of all rings: recent, slowest, slow.
    #[cfg(test)]
    pub fn kept(&self) -> (usize, usize, usize) {
        (self.recent.len(), self.slowest.len(), self.slow.len())
    }
}

/// Drops the input of an operation, except for the names of class and method of a call.
fn forget_data(op: &mut OsdOp) {
    let length = match op.code.is_call() {
        true => names_len(op).min(op.input.len()),
        false => 0,
    };
    op.input = bytes::Bytes::copy_from_slice(&op.input[..length]);
}

fn names_len(op: &OsdOp) -> usize {
    let arguments = op.call_arguments();
    usize::from(arguments.class_len) + usize::from(arguments.method_len)
}

/// Clients' requests in flight that are at least so old.
pub(crate) fn in_flight<'a>(
    now: Time,
    requests: impl Iterator<Item = &'a Request>,
    least: Duration,
) -> Vec<Value> {
    let clients = requests.filter(|request| request.is_of_client());
    let old = clients.filter(|request| now.since(request.times.arrived) >= least);
    old.map(|request| {
        let point = match request.times {
            Times { committed: Some(_), .. } => "commit sent; apply or cleanup",
            Times { submitted: Some(_), .. } => "waiting for sub ops",
            Times { started: Some(_), .. } => "started",
            Times { queued: Some(_), .. } => "queued for pg",
            _ => "delayed",
        };
        operation(&Shown {
            now,
            message: &request.message,
            id: request.id,
            pg: request.pg.pg,
            addr: request.caller.addr,
            times: request.times,
            ended: None,
            point,
        })
    })
    .collect()
}

fn ended_json(now: Time, ended: &Ended) -> Value {
    let answered = &ended.answered;
    operation(&Shown {
        now,
        message: &answered.message,
        id: answered.id,
        pg: answered.pg,
        addr: answered.addr,
        times: answered.times,
        ended: Some(ended.ended),
        point: if answered.writes { "commit sent; apply or cleanup" } else { "started" },
    })
}

struct Shown<'a> {
    now: Time,
    message: &'a OsdRequest,
    id: RequestId,
    pg: PgId,
    addr: EntityAddr,
    times: Times,
    ended: Option<Time>,
    point: &'static str,
}

fn operation(shown: &Shown<'_>) -> Value {
    let Times { arrived, queued, started, submitted, committed } = shown.times;
    let points = [
        ("queued_for_pg", queued),
        ("started", started),
        ("waiting for subops", submitted),
        ("op_commit", committed),
        ("done", shown.ended),
    ];
    let mut last = arrived;
    let mut events = vec![event("initiated", last, last)];
    for (name, time) in points {
        let Some(time) = time else { continue };
        events.push(event(name, last, time));
        last = time;
    }
    let until = shown.ended.unwrap_or(shown.now);
    json!({
        "description": description(shown.message, shown.id, shown.pg),
        "initiated_at": arrived.wall().to_iso(),
        "age": shown.now.since(arrived).as_secs_f64(),
        "duration": until.since(arrived).as_secs_f64(),
        "type_data": {
            "flag_point": shown.point,
            "client_info": {
                "client": shown.id.name.to_string(),
                "client_addr": shown.addr.to_string(),
                "tid": shown.id.tid,
            },
            "events": events,
        },
    })
}

fn event(name: &str, before: Time, time: Time) -> Value {
    let duration = time.since(before).as_secs_f64();
    json!({ "event": name, "time": time.wall().to_iso(), "duration": duration })
}

/// The request in the format of Ceph's logs.
fn description(message: &OsdRequest, id: RequestId, pg: PgId) -> String {
    let mut ops = String::new();
    for (index, op) in message.ops.iter().enumerate() {
        let gap = if index == 0 { "" } else { "," };
        let written = match op.code {
            OpCode::READ
            | OpCode::SPARSE_READ
            | OpCode::WRITE
            | OpCode::WRITEFULL
            | OpCode::APPEND
            | OpCode::ZERO => {
                let extent = op.extent();
                write!(ops, "{gap}{} {}~{}", op.code, extent.offset, extent.length)
            }
            code if code.is_call() => {
                let class = usize::from(op.call_arguments().class_len).min(op.input.len());
                let method = names_len(op).min(op.input.len());
                let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
                let (class, method) = (text(&op.input[..class]), text(&op.input[class..method]));
                write!(ops, "{gap}call {class}.{method}")
            }
            code => write!(ops, "{gap}{code}"),
        };
        written.expect("text takes everything");
    }
    let (object, epoch) = (&message.object, message.map_epoch.0);
    let seq = message.snap_context.seq.0;
    format!("osd_op({id} {pg} {object} [{ops}] snapc {seq:x} e{epoch})")
}
