//! Object sizes with their frequencies: `4k:30,64k:30,4m:40`.

use std::fmt;
use std::str::FromStr;
use stdx::{Prng, format_bytes, parse_bytes};

/// Largest object; it is written in one operation, and extents count in 32 bits.
pub const OBJECT_SIZE_MAX: u64 = 64 << 20;
const WEIGHT_MAX: u64 = 1_000_000;

/// Sizes with their shares of the number of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    shares: Vec<(u32, u64)>,
}

impl Mix {
    /// A size, with the probability of its share.
    pub fn draw(&self, prng: &mut Prng) -> u32 {
        let mut rest = prng.below(self.shares.iter().map(|(_, weight)| weight).sum());
        for (size, weight) in &self.shares {
            if rest < *weight {
                return *size;
            }
            rest -= weight;
        }
        unreachable!("a number below the sum of the weights falls into one of them")
    }

    /// The largest size in bytes.
    pub fn largest(&self) -> u32 {
        self.shares.iter().map(|(size, _)| *size).max().expect("a mix has a size")
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shares: Option<Vec<_>> = text.split(',').map(share).collect();
        let shares = shares.ok_or_else(|| {
            let most = format_bytes(OBJECT_SIZE_MAX);
            format!("sizes are given as SIZE:SHARE,… with sizes from 1 to {most}")
        })?;
        Ok(Mix { shares })
    }
}

fn share(text: &str) -> Option<(u32, u64)> {
    let (size, weight) = text.split_once(':').unwrap_or((text, "1"));
    let size = parse_bytes(size).filter(|size| (1..=OBJECT_SIZE_MAX).contains(size))?;
    let weight = weight.trim().parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight))?;
    Some((size as u32, weight))
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (size, weight)) in self.shares.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{size}:{weight}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_read_and_shown() {
        let mix: Mix = "4k:30, 64K:30,4m:40".parse().unwrap();
        assert_eq!(mix.to_string(), "4096:30,65536:30,4194304:40");
        assert_eq!(mix.to_string().parse(), Ok(mix.clone()));
        assert_eq!(mix.largest(), 4 << 20);
        assert_eq!("4k".parse::<Mix>().unwrap().to_string(), "4096:1");
        for bad in ["", "4k:0", "4k:", "0:1", "65m:1", "4k:1,,"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_come_as_often_as_their_shares_say() {
        let mix: Mix = "1:1,2:3".parse().unwrap();
        let mut prng = Prng::new(1);
        let twos = (0..10_000).filter(|_| mix.draw(&mut prng) == 2).count();
        assert!((7300..7700).contains(&twos), "{twos}");
    }
}
