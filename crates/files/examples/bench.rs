//! Measures the store alone: `cargo run --release -p files --example bench -- DIRECTORY [LOAD]`,
//! where `LOAD` is a part of the name of the loads to run.
//!
//! Prints operations per second and CPU per operation (all threads of the process, kernel time
//! included) for a few loads. One thread submits and waits, as a host does.

use bytes::Bytes;
use engine::Time;
use files::{FileStore, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use stdx::Prng;
use store::{Change, Collection, ObjectStore, Outcome, Request, RequestKind, Transaction};
use types::{HObject, PgId, PoolId};

const PG: Collection = Collection::replicated(PgId { pool: PoolId(1), seed: 0 });
const DURATION: Duration = Duration::from_secs(3);

struct Bench {
    store: FileStore,
    woken: Receiver<()>,
    prng: Prng,
    next_token: u64,
    only: String,
}

fn main() {
    let Some(directory) = std::env::args().nth(1) else {
        eprintln!("usage: bench DIRECTORY (which is filled, and left)");
        std::process::exit(2);
    };
    let mut bench = Bench::open(Path::new(&directory));
    println!("{:34} {:>9} {:>9} {:>9} {:>8}", "load", "ops/s", "MiB/s", "CPU µs/op", "RSS MiB");
    println!("{:34} {:>9} {:>9} {:>9} {:>8}", "idle", "", "", "", resident_mib());
    let small = 4096;
    bench.commits("4 KiB new objects, depth 16", 16, small, |n, _| (n, 0));
    bench.commits("4 KiB overwrites, depth 16", 16, small, |_, prng| (prng.below(10_000), 0));
    bench.commits("4 KiB overwrites, depth 1", 1, small, |_, prng| (prng.below(10_000), 0));
    bench.commits("1 KiB in place, depth 16", 16, 1024, |_, prng| {
        (prng.below(10_000), prng.below(3072))
    });
    bench.commits("4 MiB new objects, depth 4", 4, 4 << 20, |n, _| (1_000_000 + n % 200, 0));
    bench.commits("4 KiB in 4 MiB objects, depth 16", 16, small, |_, prng| {
        (1_000_000 + prng.below(100), prng.below(1024) * 4096)
    });
    bench.reads("4 KiB of small objects, depth 16", 16, small as u64, |prng| {
        (prng.below(10_000), 0)
    });
    bench.reads("4 KiB of 4 MiB objects, depth 16", 16, small as u64, |prng| {
        (1_000_000 + prng.below(100), prng.below(1024) * 4096)
    });
    bench.reads("4 MiB, depth 4", 4, 4 << 20, |prng| (1_000_000 + prng.below(100), 0));
    let start = Instant::now();
    drop(bench);
    println!("closed in {:.2} s", start.elapsed().as_secs_f64());
}

impl Bench {
    fn open(directory: &Path) -> Bench {
        let (wake, woken) = channel();
        let waker = Arc::new(move || wake.send(()).unwrap_or(()));
        let store = FileStore::open(directory, &Options::default(), waker).expect("opens");
        let mut bench = Bench {
            store,
            woken,
            prng: Prng::new(1),
            next_token: 0,
            only: std::env::args().nth(2).unwrap_or_default(),
        };
        let changes = vec![(PG, Change::CreateCollection)];
        bench.submit(RequestKind::Commit(Transaction { changes }));
        bench.wait();
        bench
    }

    /// Commits like a client's write of an object: data, an attribute, and a log entry on another object.
    fn commits(
        &mut self,
        name: &str,
        depth: u64,
        length: usize,
        mut target: impl FnMut(u64, &mut Prng) -> (u64, u64),
    ) {
        let data = Bytes::from(vec![0x5a; length]);
        self.run(name, depth, length, |number, prng| {
            let (object_number, offset) = target(number, prng);
            let object = object(object_number);
            let attrs = [(Bytes::from_static(b"_"), Bytes::from(vec![1; 200]))].into();
            let entry = Bytes::from(format!("{number:020}"));
            let log = self::object(u64::MAX);
            let changes = vec![
                (PG, Change::Write { object: object.clone(), offset, data: data.clone() }),
                (PG, Change::SetAttrs { object, attrs }),
                (
                    PG,
                    Change::OmapSet {
                        object: log,
                        pairs: [(entry, Bytes::from(vec![2; 150]))].into(),
                    },
                ),
            ];
            RequestKind::Commit(Transaction { changes })
        });
    }

    fn reads(
        &mut self,
        name: &str,
        depth: u64,
        length: u64,
        mut target: impl FnMut(&mut Prng) -> (u64, u64),
    ) {
        self.run(name, depth, length as usize, |_, prng| {
            let (number, offset) = target(prng);
            RequestKind::Read { collection: PG, object: object(number), offset, length }
        });
    }

    fn run(
        &mut self,
        name: &str,
        depth: u64,
        length: usize,
        mut request: impl FnMut(u64, &mut Prng) -> RequestKind,
    ) {
        if !name.contains(&self.only) {
            return;
        }
        let (start, cpu) = (Instant::now(), cpu_time());
        let (mut submitted, mut completed) = (0, 0);
        while start.elapsed() < DURATION {
            while submitted < completed + depth {
                let kind = request(submitted, &mut self.prng);
                self.submit(kind);
                submitted += 1;
            }
            completed += self.wait();
        }
        while completed < submitted {
            completed += self.wait();
        }
        let (elapsed, cpu) = (start.elapsed().as_secs_f64(), cpu_time() - cpu);
        let rate = completed as f64 / elapsed;
        let mib = rate * length as f64 / (1 << 20) as f64;
        let cpu = cpu.as_secs_f64() * 1e6 / completed as f64;
        println!("{name:34} {rate:9.0} {mib:9.1} {cpu:9.1} {:>8}", resident_mib());
    }

    fn submit(&mut self, kind: RequestKind) {
        self.next_token += 1;
        self.store.submit(Time::ZERO, Request { token: self.next_token, kind });
    }

    /// Waits for completions and counts them.
    fn wait(&mut self) -> u64 {
        loop {
            let mut count = 0;
            while let Some(completion) = self.store.poll_completion() {
                match completion.outcome.expect("no errors here") {
                    Outcome::Read(read) => assert!(!read.data.is_empty()),
                    outcome => assert_eq!(outcome, Outcome::Committed),
                }
                count += 1;
            }
            if count > 0 {
                return count;
            }
            self.woken.recv().expect("the store lives");
        }
    }
}

fn object(number: u64) -> HObject {
    let name = Bytes::from(format!("benchmark_data_host_1234_object{number}"));
    let hash = (number as u32).wrapping_mul(0x9e37_79b9);
    HObject::head(PoolId(1), Bytes::new(), Bytes::new(), name, hash)
}

fn cpu_time() -> Duration {
    let stat = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(stat.tv_sec as u64, stat.tv_nsec as u32)
}

fn resident_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4 / 1024
}
