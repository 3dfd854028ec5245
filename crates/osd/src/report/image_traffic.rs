//! Traffic of clients on images, counted by the names of data objects, and only while the monitor
//! requests it in its acknowledgements of reports. Otherwise the cost of a reply is the sum of its output
//! lengths, and one comparison.

use crate::operations::answered::Answered;
use bytes::Bytes;
use engine::{Duration, Time};
use std::collections::BTreeMap;
use types::{HObject, PoolId};
use wire::internal::ImageTraffic;

/// Images that are counted between two reports; others are left out.
const IMAGES_MAX: usize = 4096;

/// Pool of the header, namespace and id.
type ImageKey = (PoolId, Bytes, Bytes);

/// Traffic per image, while it is counted.
#[derive(Debug, Default)]
pub(crate) struct ImageCounts {
    counting: Option<Counting>,
}

#[derive(Debug)]
struct Counting {
    since: Time,
    until: Time,
    images: BTreeMap<ImageKey, ImageTraffic>,
}

impl ImageCounts {
    /// Whether replies must be passed to [`ImageCounts::count`].
    pub fn is_counting(&self) -> bool {
        self.counting.is_some()
    }

    /// Counts for so many seconds from now; true if counting begins.
    pub fn ask(&mut self, now: Time, seconds: u32) -> bool {
        let until = now + Duration::from_secs(seconds.into());
        match &mut self.counting {
            Some(counting) => counting.until = counting.until.max(until),
            None => {
                self.counting = Some(Counting { since: now, until, images: BTreeMap::new() });
                return true;
            }
        }
        false
    }

    /// Counts a request of a client that was answered.
    pub fn count(&mut self, now: Time, answered: &Answered) {
        let Some(counting) = &mut self.counting else { return };
        let Some(key) = image_of(&answered.message.object) else { return };
        if counting.images.len() >= IMAGES_MAX && !counting.images.contains_key(&key) {
            return;
        }
        let (pool, namespace, image) = key.clone();
        let new = || ImageTraffic { pool, namespace, image, ..ImageTraffic::default() };
        let traffic = counting.images.entry(key).or_insert_with(new);
        let took = now.since(answered.times.arrived).as_nanos() as u64;
        if answered.writes {
            let bytes = answered.message.ops.iter().map(|op| op.input.len() as u64);
            traffic.writes += 1;
            traffic.write_bytes += bytes.sum::<u64>();
            traffic.write_ns += took;
        } else {
            traffic.reads += 1;
            traffic.read_bytes += answered.output_bytes;
            traffic.read_ns += took;
        }
    }

    /// The traffic since the last call, and the time it covers in milliseconds.
    pub fn take(&mut self, now: Time) -> (Vec<ImageTraffic>, u64) {
        let Some(counting) = &mut self.counting else { return Default::default() };
        let images = std::mem::take(&mut counting.images).into_values().collect();
        let passed = now.since(counting.since).as_millis() as u64;
        counting.since = now;
        self.counting.take_if(|counting| counting.until <= now);
        (images, passed)
    }
}

/// The image of a data object. These are named `rbd_data.ID.NUMBER`, or `rbd_data.POOL.ID.NUMBER`
/// in another pool than their headers; journals alike.
fn image_of(object: &HObject) -> Option<ImageKey> {
    let name = &object.name;
    let rest = name.strip_prefix(b"rbd_data.").or_else(|| name.strip_prefix(b"journal_data."))?;
    let mut parts = rest.split(|byte| *byte == b'.');
    let (first, second) = (parts.next()?, parts.next()?);
    let pool = || std::str::from_utf8(first).ok()?.parse().ok().map(PoolId);
    let (pool, image) = match (parts.next(), pool()) {
        (Some(_), Some(pool)) => (pool, second),
        _ => (object.pool, first),
    };
    Some((pool, object.namespace.clone(), name.slice_ref(image)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_the_names_of_their_objects() {
        for (name, expected) in [
            ("rbd_data.10ab.0000000000000001", Some((3, "10ab"))),
            ("rbd_data.7.10ab.0000000000000001", Some((7, "10ab"))),
            ("journal_data.7.10ab.5", Some((7, "10ab"))),
            ("rbd_data.10ab", None),
            ("rbd_header.10ab", None),
            ("rbd_data.", None),
        ] {
            let object = HObject::head(PoolId(3), "n".into(), "".into(), name.into(), 1);
            let expected =
                expected.map(|(pool, image)| (PoolId(pool), Bytes::from("n"), Bytes::from(image)));
            assert_eq!(image_of(&object), expected, "{name}");
        }
    }
}
