//! Capacity and usage of the cluster, and the number of bytes of a fill.

use access::Connection;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::str::FromStr;
use std::time::Duration;
use stdx::parse_bytes;
use types::PoolId;

/// Maximum wait for statistics, which arrive after the operations they count.
const SETTLING_TIME_MAX: Duration = Duration::from_secs(20);
const SETTLING_INTERVAL: Duration = Duration::from_secs(2);
/// Existing data is rounded to this fraction of the capacity, so that the few kilobytes of daemons' own data
/// do not change a sequence.
const PARTS: u64 = 1024;

/// Target of the fill.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fill {
    /// Percentage of the cluster's raw capacity, counting all copies and existing data.
    Percent(f64),
    /// Bytes of one copy of the objects.
    Bytes(u64),
}

impl FromStr for Fill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fill = match text.strip_suffix('%') {
            Some(percent) => percent
                .trim()
                .parse()
                .ok()
                .filter(|percent| *percent > 0.0 && *percent <= 100.0)
                .map(Fill::Percent),
            None => parse_bytes(text).filter(|bytes| *bytes > 0).map(Fill::Bytes),
        };
        fill.ok_or_else(|| "a fill is a share such as 70% or a size such as 10G".to_owned())
    }
}

/// Figures of `df`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of the cluster's disks.
    pub total: u64,
    /// Bytes of `total` in use.
    pub used: u64,
    /// Bytes in all pools, with all copies.
    pub pools: u64,
    /// Copies of each object in the pool.
    pub copies: u64,
}

impl Capacity {
    /// Queries `df` once.
    pub fn ask(connection: &mut Connection, pool: PoolId) -> Result<Self> {
        let copies = copies(connection, pool)?;
        let answer = connection.command(&json!({"prefix": "df", "format": "json"}))?;
        let df: Value = serde_json::from_slice(&answer.output).context("reading df")?;
        Capacity::read(&df, copies).context("df does not say how large the cluster is")
    }

    /// Queries until two answers in a row are equal.
    pub fn ask_settled(connection: &mut Connection, pool: PoolId) -> Result<Self> {
        let give_up = connection.now() + SETTLING_TIME_MAX;
        let mut last = Capacity::ask(connection, pool)?;
        while connection.now() < give_up {
            let until = connection.now() + SETTLING_INTERVAL;
            while connection.now() < until {
                connection.turn()?;
            }
            let now = Capacity::ask(connection, pool)?;
            if now.used == last.used && now.pools == last.pools {
                break;
            }
            last = now;
        }
        Ok(last)
    }

    fn read(df: &Value, copies: u64) -> Option<Self> {
        let stats = df.get("stats")?;
        let of_pool = |pool: &Value| pool.get("stats")?.get("bytes_used")?.as_u64();
        let pools: Option<u64> = df.get("pools")?.as_array()?.iter().map(of_pool).sum();
        Some(Capacity {
            total: stats.get("total_bytes")?.as_u64().filter(|total| *total > 0)?,
            used: stats.get("total_used_raw_bytes")?.as_u64()?,
            pools: pools?,
            copies,
        })
    }

    /// Space that one copy of all objects takes at a fill.
    pub fn target(&self, fill: Fill) -> u64 {
        match fill {
            Fill::Bytes(bytes) => bytes,
            Fill::Percent(percent) => {
                let part = (self.total / PARTS).max(1);
                let wanted = (self.total as f64 * percent / 100.0) as u64;
                wanted.saturating_sub(self.pools / part * part) / self.copies
            }
        }
    }

    /// `used` as a percentage of `total`.
    pub fn used_percent(&self) -> f64 {
        self.used as f64 * 100.0 / self.total as f64
    }
}

fn copies(connection: &mut Connection, id: PoolId) -> Result<u64> {
    let map = connection.client().osd_map().context("there is no map yet")?;
    let pool = map.pool(id).context("the pool is gone")?;
    if !pool.is_replicated() {
        bail!("stores are aged through a replicated pool; this one is erasure-coded");
    }
    Ok(u64::from(pool.size.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;

    #[test]
    fn a_fill_is_a_share_or_a_size() {
        assert_eq!("70%".parse(), Ok(Fill::Percent(70.0)));
        assert_eq!("12.5 %".parse(), Ok(Fill::Percent(12.5)));
        assert_eq!("3G".parse(), Ok(Fill::Bytes(3 << 30)));
        for bad in ["", "%", "0%", "101%", "-1%", "0", "x", "NaN%"] {
            assert!(bad.parse::<Fill>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_target_counts_copies_and_what_is_there() {
        let empty = Capacity { total: 4 * TIB, used: 0, pools: 0, copies: 2 };
        assert_eq!(empty.target(Fill::Percent(50.0)), TIB);
        assert_eq!(empty.target(Fill::Bytes(5)), 5);
        let half = Capacity { pools: 2 * TIB, ..empty };
        assert_eq!(half.target(Fill::Percent(75.0)), TIB / 2);
        assert_eq!(half.target(Fill::Percent(25.0)), 0);
    }

    #[test]
    fn little_that_is_there_changes_nothing() {
        let empty = Capacity { total: 4 * TIB, used: 0, pools: 0, copies: 3 };
        let almost = Capacity { used: 77 << 20, pools: 3 << 20, ..empty };
        assert_eq!(almost.target(Fill::Percent(70.0)), empty.target(Fill::Percent(70.0)));
    }

    #[test]
    fn df_is_read() {
        let df = json!({
            "stats": {"total_bytes": 100, "total_used_raw_bytes": 30},
            "pools": [{"stats": {"bytes_used": 5}}, {"stats": {"bytes_used": 7}}],
        });
        let expected = Capacity { total: 100, used: 30, pools: 12, copies: 2 };
        assert_eq!(Capacity::read(&df, 2), Some(expected));
        assert_eq!(expected.used_percent(), 30.0);
        assert_eq!(Capacity::read(&json!({"stats": {"total_bytes": 0}}), 2), None);
    }
}
