//! Schedules of recurring work on images (`rbd trash purge schedule`), as in Ceph's manager module
//! `rbd_support`.
//!
//! A schedule belongs to a level: all pools, a pool, a namespace, an image. The most specific one applies.

use std::fmt;

const MINUTES_OF_DAY: u64 = 24 * 60;

/// An interval in minutes, written `30m`, `12h`, `1d`; a number alone is in minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Interval(u64);

impl Interval {
    /// `None` if it is malformed or zero.
    pub fn parse(text: &str) -> Option<Interval> {
        let digits = text.trim_end_matches(['d', 'h', 'm']);
        let unit = match &text[digits.len()..] {
            "" | "m" => 1,
            "h" => 60,
            "d" => MINUTES_OF_DAY,
            _ => return None,
        };
        let minutes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
        (minutes > 0 && minutes <= u64::from(u32::MAX)).then_some(Interval(minutes))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            minutes if minutes % MINUTES_OF_DAY == 0 => write!(f, "{}d", minutes / MINUTES_OF_DAY),
            minutes if minutes % 60 == 0 => write!(f, "{}h", minutes / 60),
            minutes => write!(f, "{minutes}m"),
        }
    }
}

/// Parses a time of day to minutes in UTC, from `HH:MM`, `HH:MM:SS`, `HH:MM+HH:MM` or one of these after a
/// date and `T`.
pub fn parse_time(text: &str) -> Option<u64> {
    let time = text.split_once(['T', ' ']).map_or(text, |(_, time)| time);
    let time = time.trim_end_matches('Z');
    let at = time.find(['+', '-']).unwrap_or(time.len());
    let (local, zone) = time.split_at(at);
    let minutes = |text: &str| {
        let mut parts = text.split(':').map(|part| part.parse::<u64>().ok());
        let (hours, minutes) = (parts.next()??, parts.next()??);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    };
    let offset = if zone.is_empty() { 0 } else { minutes(&zone[1..])? };
    let local = minutes(local)? + MINUTES_OF_DAY;
    let utc = if zone.starts_with('-') { local + offset } else { local - offset };
    Some(utc % MINUTES_OF_DAY)
}

/// An interval and the time of day at which it starts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Item {
    pub interval: Interval,
    /// In minutes of the day, UTC.
    pub start: Option<u64>,
}

impl Item {
    /// The start as `HH:MM:00`.
    pub fn start_text(&self) -> Option<String> {
        self.start.map(|minutes| format!("{:02}:{:02}:00", minutes / 60, minutes % 60))
    }

    /// The first time after `now`, in minutes since 1970.
    fn next(&self, now: u64) -> u64 {
        let start = self.start.unwrap_or(0);
        let next = match now.checked_sub(start) {
            Some(passed) => start + (passed / self.interval.0 + 1) * self.interval.0,
            None => start,
        };
        assert!(next > now, "minute {next} is later than {now}");
        next
    }
}

/// The schedule of one level.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Schedule {
    /// The level's name, as users write it.
    pub name: String,
    pub items: Vec<Item>,
    /// The time up to which all due work was done, in minutes since 1970.
    pub done: u64,
}

impl Schedule {
    /// The next time after `now`, both in minutes since 1970; `None` for an empty schedule.
    pub fn next(&self, now: u64) -> Option<u64> {
        self.items.iter().map(|item| item.next(now)).min()
    }

    /// Whether work is due at `now`, in minutes since 1970.
    pub fn is_due(&self, now: u64) -> bool {
        self.next(self.done).is_some_and(|next| next <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_times_are_read_as_ceph_reads_them() {
        for (text, shown) in [("90", "90m"), ("120m", "2h"), ("48h", "2d"), ("1d", "1d")] {
            assert_eq!(Interval::parse(text).unwrap().to_string(), shown);
        }
        for wrong in ["", "0", "d", "1w", "-1h", "1dd", "99999999999h"] {
            assert_eq!(Interval::parse(wrong), None, "{wrong}");
        }
        let times = [
            ("00:30", 30),
            ("14:00:00", 840),
            ("2020-02-05T14:00+02:00", 720),
            ("01:00-02:00", 180),
        ];
        for (text, minutes) in times {
            assert_eq!(parse_time(text), Some(minutes), "{text}");
        }
        assert_eq!((parse_time("25:00"), parse_time("noon")), (None, None));
    }

    #[test]
    fn what_is_due_is_due_once() {
        let item = Item { interval: Interval::parse("1d").unwrap(), start: Some(90) };
        let mut schedule = Schedule { items: vec![item], done: 100, ..Schedule::default() };
        let next = MINUTES_OF_DAY + 90;
        assert_eq!(schedule.next(100), Some(next));
        assert!(!schedule.is_due(next - 1) && schedule.is_due(next) && schedule.is_due(next + 500));
        schedule.done = next;
        assert!(!schedule.is_due(next));
    }
}
