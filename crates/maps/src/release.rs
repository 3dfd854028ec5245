//! Ceph's releases; maps use them to require features of daemons and clients.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::fmt;
use std::str::FromStr;

/// `ceph_release_t`: ordered by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Release(pub u8);

impl Release {
    /// No release is required.
    pub const UNKNOWN: Release = Release(0);
    /// 10.2
    pub const JEWEL: Release = Release(10);
    /// 11.2
    pub const KRAKEN: Release = Release(11);
    /// 12.2
    pub const LUMINOUS: Release = Release(12);
    /// 13.2
    pub const MIMIC: Release = Release(13);
    /// 14.2
    pub const NAUTILUS: Release = Release(14);
    /// 15.2
    pub const OCTOPUS: Release = Release(15);
    /// 16.2
    pub const PACIFIC: Release = Release(16);
    /// 17.2
    pub const QUINCY: Release = Release(17);
    /// 18.2
    pub const REEF: Release = Release(18);
    /// 19.2
    pub const SQUID: Release = Release(19);
    /// 20.2
    pub const TENTACLE: Release = Release(20);

    const NAMES: [&'static str; 21] = [
        "unknown",
        "argonaut",
        "bobtail",
        "cuttlefish",
        "dumpling",
        "emperor",
        "firefly",
        "giant",
        "hammer",
        "infernalis",
        "jewel",
        "kraken",
        "luminous",
        "mimic",
        "nautilus",
        "octopus",
        "pacific",
        "quincy",
        "reef",
        "squid",
        "tentacle",
    ];

    /// The name in maps and commands; `unknown` beyond the newest.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Release {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = Self::NAMES.iter().skip(1).position(|name| *name == text).ok_or(())?;
        Ok(Release(number as u8 + 1))
    }
}

impl Encode for Release {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.0);
    }
}

impl Decode for Release {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("release").map(Release)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_parse_by_name_and_sort_by_age() {
        assert_eq!("reef".parse(), Ok(Release::REEF));
        assert_eq!(Release::TENTACLE.to_string(), "tentacle");
        assert!(Release::REEF < Release::SQUID);
        assert!("unknown".parse::<Release>().is_err());
    }
}
