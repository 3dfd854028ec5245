//! Histograms of requests by latency and size: `perf histogram dump`.
//!
//! Each axis has buckets that double in width, as Ceph's have: one for values below the axis, which stays
//! empty, one for values below the first bound, and the last one for all beyond.

use engine::Duration;
use serde_json::{Map, Value, json};

const BUCKETS: usize = 32;
/// The first bound of latency in nanoseconds, and that of size in bytes.
const LATENCY: u64 = 100_000;
const SIZE: u64 = 512;

/// Numbers of requests by latency, then by size.
#[derive(Debug, Clone)]
pub(crate) struct Histogram(Box<[[u64; BUCKETS]; BUCKETS]>);

impl Default for Histogram {
    fn default() -> Self {
        Histogram(Box::new([[0; BUCKETS]; BUCKETS]))
    }
}

impl Histogram {
    /// Counts a request.
    pub fn count(&mut self, latency: Duration, bytes: u64) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0[bucket(nanoseconds / LATENCY)][bucket(bytes / SIZE)] += 1;
    }
}

/// The bucket of a value in units of the first bound.
fn bucket(units: u64) -> usize {
    let doublings = (u64::BITS - units.leading_zeros()) as usize;
    (1 + doublings).min(BUCKETS - 1)
}

/// The histograms of reads and writes, as `perf histogram dump` shows them, or `perf histogram schema`.
pub(crate) fn json(
    reads: &Histogram,
    writes: &Histogram,
    with_values: bool,
    wanted: Option<&str>,
) -> Value {
    let named = [
        (
            "op_r_latency_out_bytes_histogram",
            "Histogram of operation latency (including queue time) + data read",
            reads,
        ),
        (
            "op_w_latency_in_bytes_histogram",
            "Histogram of operation latency (including queue time) + data written",
            writes,
        ),
    ];
    let wanted = named.into_iter().filter(|(name, ..)| wanted.is_none_or(|wanted| wanted == *name));
    let shown = wanted.map(|(name, help, histogram)| {
        let shown = match with_values {
            true => json!({ "axes": axes(), "values": histogram.0.iter().map(|row| json!(row)).collect::<Vec<_>>() }),
            false => json!({
                "type": 26,
                "metric_type": "histogram",
                "value_type": "integer-2d-histogram",
                "description": help,
                "nick": "",
                "priority": 5,
                "units": "none",
            }),
        };
        (name.to_owned(), shown)
    });
    json!({ "osd": shown.collect::<Map<_, _>>() })
}

fn axes() -> Value {
    json!([axis("Latency (usec)", LATENCY), axis("Request size (bytes)", SIZE)])
}

fn axis(name: &str, first: u64) -> Value {
    let bound = |bucket: usize| first << (bucket - 1);
    let ranges = (0..BUCKETS).map(|bucket| match bucket {
        0 => json!({ "max": -1 }),
        1 => json!({ "min": 0, "max": first - 1 }),
        last if last == BUCKETS - 1 => json!({ "min": bound(last - 1) }),
        bucket => json!({ "min": bound(bucket - 1), "max": bound(bucket) - 1 }),
    });
    json!({
        "name": name,
        "min": 0,
        "quant_size": first,
        "buckets": BUCKETS,
        "scale_type": "log2",
        "ranges": ranges.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_the_bucket_whose_range_has_its_latency_and_size() {
        let ranges = json(&Histogram::default(), &Histogram::default(), true, None);
        let axes = &ranges["osd"]["op_r_latency_out_bytes_histogram"]["axes"];
        for (latency, bytes) in
            [(0, 0), (99_999, 511), (100_000, 512), (350_000, 4096), (u64::MAX, u64::MAX)]
        {
            let mut histogram = Histogram::default();
            histogram.count(Duration::from_nanos(latency), bytes);
            let shown = json(&Histogram::default(), &histogram, true, None);
            let values = &shown["osd"]["op_w_latency_in_bytes_histogram"]["values"];
            let place = |axis: usize, value: u64| {
                let is_in = |range: &Value| {
                    range["min"].as_u64().is_some_and(|min| min <= value)
                        && range["max"].as_u64().is_none_or(|max| value <= max)
                };
                axes[axis]["ranges"].as_array().unwrap().iter().position(is_in).unwrap()
            };
            assert_eq!(values[place(0, latency)][place(1, bytes)], 1, "{latency} ns, {bytes} B");
        }
    }
}
