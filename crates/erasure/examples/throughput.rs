//! Throughput of each kernel on one core: data bytes per second at rows of 4 KiB.
//!
//! `cargo run --release -p erasure --example throughput`. Chunks are in the first-level cache, as a row is
//! that has just been received. Each figure is the best of many short rounds: the machine may have other
//! work.

use erasure::{Code, DigestBuilder, Kernel, ROW_BYTES, Shards, Technique};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: usize = 300;
const ROUND: Duration = Duration::from_millis(1);

const CODES: [(Technique, usize, usize); 6] = [
    (Technique::IsaVandermonde, 2, 1),
    (Technique::IsaVandermonde, 2, 2),
    (Technique::IsaVandermonde, 4, 2),
    (Technique::JerasureVandermonde, 4, 2),
    (Technique::IsaVandermonde, 8, 3),
    (Technique::IsaCauchy, 8, 3),
];

fn main() {
    println!("GB of data per second and core, rows of {ROW_BYTES} bytes");
    for kernel in Kernel::available() {
        println!("\n{}", kernel.name());
        for (technique, k, m) in CODES {
            let code = Code::new(technique, k, m).expect("within the limits").with_kernel(*kernel);
            measure(&code);
        }
    }
    let mut builder = DigestBuilder::new();
    let row = chunk(1);
    let rate = best(ROW_BYTES, |turn| builder.add(turn as u32, black_box(&row)));
    println!("\ndigest, {}: {rate:.1}", Kernel::best().name());
    assert_ne!(builder.digest(), DigestBuilder::new().digest());
}

fn chunk(seed: usize) -> Vec<u8> {
    (0..ROW_BYTES).map(|i| (i * i * 31 + i * seed + (i >> 3)) as u8).collect()
}

fn slices(chunks: &[Vec<u8>]) -> Vec<&[u8]> {
    chunks.iter().map(Vec::as_slice).collect()
}

fn measure(code: &Code) {
    let data: Vec<Vec<u8>> = (0..code.k()).map(chunk).collect();
    let mut parities = vec![vec![0; ROW_BYTES]; code.m()];
    let mut outputs: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
    let inputs = slices(&data);
    let encode = best(code.k() * ROW_BYTES, |_| code.encode(black_box(&inputs), &mut outputs));
    let delta =
        best(ROW_BYTES, |_| code.apply_delta(1, black_box(inputs[0]), inputs[1], &mut outputs));

    let erased: Shards = [0].into_iter().collect();
    let available = Shards::first(code.shards()).without(erased);
    let decoder = code.decoder(available, erased).expect("one shard is missing");
    let chunks: Vec<Vec<u8>> = decoder.sources().iter().map(chunk).collect();
    let (sources, mut decoded) = (slices(&chunks), vec![0; ROW_BYTES]);
    let mut decoded = [decoded.as_mut_slice()];
    let decode = best(code.k() * ROW_BYTES, |_| decoder.decode(black_box(&sources), &mut decoded));
    let (technique, k, m) = (code.technique(), code.k(), code.m());
    let name = format!("{k}+{m} {technique}");
    println!("  {name:24} encode {encode:6.1}  delta {delta:6.1}  decode one {decode:6.1}");
}

/// The best rate of several rounds, in GB/s.
fn best(bytes: usize, mut call: impl FnMut(usize)) -> f64 {
    const CALLS: usize = 50;
    let mut rate = 0f64;
    for _ in 0..ROUNDS {
        let (start, mut calls) = (Instant::now(), 0);
        while start.elapsed() < ROUND {
            (0..CALLS).for_each(|call_of_batch| call(black_box(calls + call_of_batch)));
            calls += CALLS;
        }
        rate = rate.max((calls * bytes) as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    rate
}
