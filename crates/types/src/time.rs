//! `utime_t`: wall-clock time as the protocol carries it.

use codec::{Decode, Encode, Reader, Result, Writer};

/// Seconds and nanoseconds since 1970 (or a duration, where the protocol uses it so).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UTime {
    /// Whole seconds.
    pub seconds: u32,
    /// Nanoseconds within the second, below 10^9 unless a peer sent otherwise.
    pub nanoseconds: u32,
}

impl UTime {
    /// The epoch, which also stands for "not set".
    pub const ZERO: UTime = UTime { seconds: 0, nanoseconds: 0 };

    /// The time of this many nanoseconds since 1970.
    pub fn from_nanos(nanos: u64) -> Self {
        UTime {
            seconds: (nanos / 1_000_000_000) as u32,
            nanoseconds: (nanos % 1_000_000_000) as u32,
        }
    }

    /// Nanoseconds since 1970.
    pub fn as_nanos(self) -> u64 {
        u64::from(self.seconds) * 1_000_000_000 + u64::from(self.nanoseconds)
    }

    /// `2026-01-31T12:00:00.000123+0000`, as Ceph prints it.
    pub fn to_iso(self) -> String {
        let (year, month, day) = civil_from_days(i64::from(self.seconds / 86_400));
        let second = self.seconds % 86_400;
        format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}+0000",
            second / 3600,
            second / 60 % 60,
            second % 60,
            self.nanoseconds / 1000
        )
    }
}

/// Days since 1970 to a Gregorian date (Howard Hinnant, "chrono-compatible date algorithms").
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

impl Encode for UTime {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.seconds);
        w.u32(self.nanoseconds);
    }
}

impl Decode for UTime {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let seconds = r.u32("seconds")?;
        Ok(UTime { seconds, nanoseconds: r.u32("nanoseconds")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_gregorian() {
        let time = UTime { seconds: 951_782_400, nanoseconds: 5_000 };
        assert_eq!(time.to_iso(), "2000-02-29T00:00:00.000005+0000");
        assert_eq!(UTime::ZERO.to_iso(), "1970-01-01T00:00:00.000000+0000");
    }

    #[test]
    fn nanoseconds_round_trip() {
        let nanos = 1_790_000_000_123_456_789;
        assert_eq!(UTime::from_nanos(nanos).as_nanos(), nanos);
    }
}
