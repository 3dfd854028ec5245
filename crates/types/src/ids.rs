//! Typed numbers: epochs, ids, placement groups.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::fmt;
use std::str::FromStr;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ident)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.$inner(self.0);
            }
        }
        impl Decode for $name {
            fn decode(r: &mut Reader<'_>) -> Result<Self> {
                r.$inner(stringify!($name)).map($name)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// `epoch_t`: the version of a cluster map.
    Epoch(u32)
);
number!(
    /// The number of an OSD, `3` in `osd.3`; also its CRUSH device id.
    OsdId(i32)
);
number!(
    /// The number of a pool; never reused.
    PoolId(i64)
);
number!(
    /// `snapid_t`; see the constants for its two special values.
    SnapId(u64)
);

impl Epoch {
    /// The epoch that follows.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl OsdId {
    /// The absent member of an erasure-coded acting set (`CRUSH_ITEM_NONE`).
    pub const NONE: OsdId = OsdId(0x7fff_ffff);
}

impl SnapId {
    /// The writable object (`CEPH_NOSNAP`).
    pub const HEAD: SnapId = SnapId(u64::MAX - 1);
    /// The directory of an object's snapshots (`CEPH_SNAPDIR`).
    pub const DIR: SnapId = SnapId(u64::MAX);
}

/// `pg_t`: one placement group of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PgId {
    /// The pool of the group.
    pub pool: PoolId,
    /// The number of the group in its pool, below `pg_num`; of a raw id, a full placement hash.
    pub seed: u32,
}

impl Encode for PgId {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.i64(self.pool.0);
        w.u32(self.seed);
        w.i32(-1); // once the preferred OSD
    }
}

impl Decode for PgId {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("pg version")?;
        let pool = PoolId(r.i64("pg pool")?);
        let seed = r.u32("pg seed")?;
        r.i32("pg preferred")?;
        Ok(PgId { pool, seed })
    }
}

impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}

impl FromStr for PgId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pool, seed) = text.split_once('.').ok_or(())?;
        let pool = PoolId(pool.parse().map_err(|_| ())?);
        Ok(PgId { pool, seed: u32::from_str_radix(seed, 16).map_err(|_| ())? })
    }
}

/// `uuid_d`: 16 bytes, shown in the usual form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A random (version 4) UUID from the given entropy.
    pub fn from_entropy(mut bytes: [u8; 16]) -> Uuid {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}

impl Encode for Uuid {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.0);
    }
}

impl Decode for Uuid {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.array("uuid").map(Uuid)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Uuid {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
        if digits.len() != 32 {
            return Err(());
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| ())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| ())?;
        }
        Ok(Uuid(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_and_parse_as_ceph_does() {
        let pg = PgId { pool: PoolId(3), seed: 0x1f };
        assert_eq!(pg.to_string(), "3.1f");
        assert_eq!("3.1f".parse(), Ok(pg));
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        assert!("3".parse::<PgId>().is_err());
        assert!("00112233".parse::<Uuid>().is_err());
    }
}
