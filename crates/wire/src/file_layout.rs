//! `file_layout_t`: how the bytes of a file are spread over objects.

use codec::{Decode, Encode, Reader, Result, Writer};
use types::PoolId;

/// Least stripe unit that clients accept, in bytes.
pub const STRIPE_UNIT_MIN: u32 = 64 << 10;

/// `file_layout_t`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLayout {
    /// Bytes that follow each other in one object.
    pub stripe_unit: u32,
    /// Number of objects over which the units of a stripe are spread.
    pub stripe_count: u32,
    /// Bytes of a full object; a multiple of the stripe unit.
    pub object_size: u32,
    /// The data pool; -1 for none.
    pub pool: PoolId,
    /// The RADOS namespace in the pool.
    pub namespace: String,
}

impl FileLayout {
    /// Objects of 4 MiB, one after another, in a pool.
    pub fn simple(pool: PoolId) -> Self {
        let size = 4 << 20;
        let namespace = String::new();
        FileLayout { stripe_unit: size, stripe_count: 1, object_size: size, pool, namespace }
    }

    /// Whether clients accept it: all sizes are set and multiples of the least unit and of each other.
    pub fn is_valid(&self) -> bool {
        let is_unit = |size: u32| size != 0 && size.is_multiple_of(STRIPE_UNIT_MIN);
        let sizes = is_unit(self.stripe_unit) && is_unit(self.object_size);
        sizes && self.object_size.is_multiple_of(self.stripe_unit) && self.stripe_count != 0
    }

    /// Bytes in one object of each place of the stripe.
    pub fn period_bytes(&self) -> u64 {
        u64::from(self.object_size) * u64::from(self.stripe_count)
    }

    /// Number behind that of the last object that has bytes below `bytes`; 0 without a layout.
    pub fn objects_below(&self, bytes: u64) -> u64 {
        let [count, unit] = [self.stripe_count, self.stripe_unit].map(u64::from);
        if self.period_bytes() == 0 || unit == 0 {
            return 0;
        }
        let (sets, rest) = (bytes / self.period_bytes(), bytes % self.period_bytes());
        sets.saturating_mul(count).saturating_add(rest.div_ceil(unit).min(count))
    }

    /// Appends the form in messages to clients, `ceph_file_layout_legacy`. The namespace travels apart.
    pub fn encode_legacy(&self, w: &mut Writer) {
        w.u32(self.stripe_unit);
        w.u32(self.stripe_count);
        w.u32(self.object_size);
        w.zeros(12);
        // A layout without a pool has zeros here, as pool numbers begin with 1.
        w.u32(u32::try_from(self.pool.0).unwrap_or(0));
    }

    /// Reads what [`FileLayout::encode_legacy`] writes.
    pub fn decode_legacy(r: &mut Reader<'_>) -> Result<Self> {
        let stripe_unit = r.u32("stripe unit")?;
        let stripe_count = r.u32("stripe count")?;
        let object_size = r.u32("object size")?;
        r.skip("unused part of a layout", 12)?;
        let pool = i64::from(r.u32("pool")?);
        let is_unset = pool == 0 && stripe_unit == 0;
        let pool = PoolId(if is_unset { -1 } else { pool });
        Ok(FileLayout { stripe_unit, stripe_count, object_size, pool, namespace: String::new() })
    }
}

/// No layout.
impl Default for FileLayout {
    fn default() -> Self {
        FileLayout {
            stripe_unit: 0,
            stripe_count: 0,
            object_size: 0,
            pool: PoolId(-1),
            namespace: String::new(),
        }
    }
}

impl Encode for FileLayout {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.u32(self.stripe_unit);
            w.u32(self.stripe_count);
            w.u32(self.object_size);
            w.value(&self.pool);
            w.value(&self.namespace);
        });
    }
}

impl Decode for FileLayout {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("layout", 2, |r, _| {
            Ok(FileLayout {
                stripe_unit: r.u32("stripe unit")?,
                stripe_count: r.u32("stripe count")?,
                object_size: r.u32("object size")?,
                pool: r.value()?,
                namespace: r.value()?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_travels_without_its_namespace() {
        for layout in [FileLayout::simple(PoolId(3)), FileLayout::default()] {
            let mut w = Writer::new();
            layout.encode_legacy(&mut w);
            assert_eq!(w.len(), 28);
            assert_eq!(FileLayout::decode_legacy(&mut Reader::new(w.as_slice())).unwrap(), layout);
        }
    }

    #[test]
    fn sizes_are_multiples_of_each_other() {
        let layout = FileLayout::simple(PoolId(1));
        assert!(layout.is_valid());
        assert!(!FileLayout { stripe_unit: 3 << 20, ..layout.clone() }.is_valid());
        assert!(!FileLayout { stripe_unit: 4096, ..layout.clone() }.is_valid());
        assert!(!FileLayout { stripe_count: 0, ..layout }.is_valid());
        assert!(!FileLayout::default().is_valid());
    }
}
