//! Measures a file or device through a reactor: `disk PATH [SECONDS]`. OVERWRITES the file or device.
//!
//! It measures appends of several sizes, alone and eight at a time, made durable by a separate flush or by
//! the write itself; and random reads. The machine's CPU time shows the work of kernel threads; it is
//! meaningful on an idle machine only.

use rt::{Config, DiskFile, DiskRequest, Event, FileId, Reactor};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use stdx::{AlignedBuffer, Prng};

/// Appends wrap around after this many bytes.
const RING_LEN: u64 = 256 << 20;
const BLOCK: u64 = 4096;

struct Bench {
    reactor: Reactor,
    file: FileId,
    bytes: u64,
    seconds: f64,
}

#[derive(Default)]
struct Tally {
    latencies: Vec<Duration>,
}

/// CPU time of this process with its io_uring workers, and of the whole machine.
#[derive(Clone, Copy)]
struct Cpu {
    process: Duration,
    machine: Duration,
}

impl Cpu {
    fn now() -> Cpu {
        let process = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let text = std::fs::read_to_string("/proc/stat").expect("procfs");
        let ticks: Vec<u64> =
            text.lines().next().unwrap_or_default().split(' ').flat_map(str::parse).collect();
        // user, nice, system, idle, iowait, irq, softirq
        let busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
        Cpu {
            process: Duration::new(process.tv_sec as u64, process.tv_nsec as u32),
            machine: Duration::from_millis(busy * 10),
        }
    }
}

/// Number of io_uring worker threads.
fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs").flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).filter(|name| name.starts_with("iou-wrk")).count()
}

impl Bench {
    fn wait(&mut self) -> u64 {
        loop {
            match self.reactor.poll_event() {
                Some(Event::DiskDone { token, result }) => {
                    result.expect("the device works");
                    return token;
                }
                Some(_) => {}
                None => self.reactor.turn(None).expect("the ring works"),
            }
        }
    }

    /// Keeps `flights` writes (and flushes, unless `durable`) in flight.
    fn append(&mut self, length: usize, flights: u64, durable: bool) {
        let piece: bytes::Bytes = AlignedBuffer::zeroed(length).into();
        let mut at = 0;
        let mut starts = vec![Instant::now(); flights as usize];
        let mut tally = Tally::default();
        let (begin, cpu, end) = (Instant::now(), Cpu::now(), Duration::from_secs_f64(self.seconds));
        let write = |bench: &mut Bench, flight: u64, at: &mut u64| {
            let pieces = vec![piece.clone()];
            let request = DiskRequest::Write { offset: *at, pieces, durable };
            *at = (*at + length as u64) % (RING_LEN - length as u64) / BLOCK * BLOCK;
            bench.reactor.submit_disk(bench.file, flight << 1, request);
        };
        for flight in 0..flights {
            write(self, flight, &mut at);
        }
        let mut workers_max = 0;
        while begin.elapsed() < end {
            let token = self.wait();
            let flight = token >> 1;
            if !durable && token & 1 == 0 {
                self.reactor.submit_disk(self.file, token | 1, DiskRequest::Flush);
                continue;
            }
            tally.latencies.push(starts[flight as usize].elapsed());
            starts[flight as usize] = Instant::now();
            write(self, flight, &mut at);
            if tally.latencies.len() % 256 == 0 {
                workers_max = workers_max.max(workers());
            }
        }
        let how = if durable { "durable" } else { "+flush " };
        self.drain(flights);
        tally.print(
            &format!("write {:>3}K x{flights} {how}", length >> 10),
            begin,
            cpu,
            workers_max,
        );
    }

    /// Simulates a group commit: `flights` writes at once, then one flush.
    fn group(&mut self, length: usize, flights: u64) {
        let piece: bytes::Bytes = AlignedBuffer::zeroed(length).into();
        let mut at = 0;
        let mut tally = Tally::default();
        let (begin, cpu, end) = (Instant::now(), Cpu::now(), Duration::from_secs_f64(self.seconds));
        while begin.elapsed() < end {
            let start = Instant::now();
            for flight in 0..flights {
                let pieces = vec![piece.clone()];
                let request = DiskRequest::Write { offset: at, pieces, durable: false };
                at = (at + length as u64) % (RING_LEN - length as u64) / BLOCK * BLOCK;
                self.reactor.submit_disk(self.file, flight, request);
            }
            self.drain(flights);
            self.reactor.submit_disk(self.file, 0, DiskRequest::Flush);
            self.drain(1);
            tally.latencies.push(start.elapsed());
        }
        tally.print(
            &format!("group {:>3}K x{flights} 1flush", length >> 10),
            begin,
            cpu,
            workers(),
        );
    }

    fn read(&mut self, flights: u64) {
        let mut prng = Prng::new(flights);
        let mut starts = vec![Instant::now(); flights as usize];
        let mut tally = Tally::default();
        let (begin, cpu, end) = (Instant::now(), Cpu::now(), Duration::from_secs_f64(self.seconds));
        let blocks = self.bytes.min(RING_LEN) / BLOCK;
        let mut read = |bench: &mut Bench, flight: u64| {
            let offset = prng.below(blocks) * BLOCK;
            let request = DiskRequest::Read { offset, length: BLOCK as usize };
            bench.reactor.submit_disk(bench.file, flight, request);
        };
        for flight in 0..flights {
            read(self, flight);
        }
        while begin.elapsed() < end {
            let flight = self.wait();
            tally.latencies.push(starts[flight as usize].elapsed());
            starts[flight as usize] = Instant::now();
            read(self, flight);
        }
        self.drain(flights);
        tally.print(&format!("read    4K x{flights}"), begin, cpu, workers());
    }

    fn drain(&mut self, operations: u64) {
        for _ in 0..operations {
            self.wait();
        }
    }
}

impl Tally {
    fn print(mut self, what: &str, begin: Instant, cpu: Cpu, workers: usize) {
        let (used, elapsed) = (Cpu::now(), begin.elapsed());
        self.latencies.sort_unstable();
        let count = self.latencies.len().max(1);
        let at = |share: f64| {
            self.latencies.get((count as f64 * share) as usize).copied().unwrap_or_default()
        };
        println!(
            "{what:24} {:>8.0}/s  p50 {:>6} us  p99 {:>6} us  cpu {:>5.1} us/op (machine {:>5.1})  \
             workers {workers}",
            count as f64 / elapsed.as_secs_f64(),
            at(0.5).as_micros(),
            at(0.99).as_micros(),
            (used.process - cpu.process).as_secs_f64() * 1e6 / count as f64,
            (used.machine - cpu.machine).as_secs_f64() * 1e6 / count as f64,
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("disk PATH [SECONDS]: what is at PATH is overwritten")?;
    let seconds = args.next().map_or(Ok(2.0), |text| text.parse())?;
    let file = DiskFile::open(Path::new(&path))?;
    let info = file.probe()?;
    println!("{path}: {info:?}");
    let mut reactor = Reactor::new(Config::default())?;
    let file = reactor.add_file(file)?;
    let mut bench = Bench { reactor, file, bytes: info.bytes, seconds };
    for length in [4 << 10, 8 << 10, 64 << 10] {
        for flights in [1, 8] {
            bench.append(length, flights, false);
            bench.append(length, flights, true);
        }
        bench.group(length, 8);
    }
    for flights in [1, 16, 64] {
        bench.read(flights);
    }
    Ok(())
}
