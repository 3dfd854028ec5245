//! One option: its type, unit, permitted values, default, and advice.

use std::time::Duration;

/// One option, under Ceph's name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    /// Ceph's name of the option.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Default value as text.
    pub default: &'static str,
    /// Unit of the value; empty if it has none.
    pub unit: &'static str,
    /// Values that are accepted, beyond those that are of the type.
    pub permitted: Permitted,
    /// Description for users, a sentence.
    pub meaning: &'static str,
    /// When to set it to something else, and to what.
    pub advice: &'static str,
    /// False if the value is compiled in and shown to tools that ask for it.
    pub can_change: bool,
    readers: &'static [&'static str],
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A boolean.
    Switch,
    /// A whole number, not negative.
    Number,
    /// A number that may have a fraction.
    Real,
    /// Seconds, which may have a fraction.
    Seconds,
    /// Bytes, with an optional unit.
    Size,
}

/// Permitted values of a type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Permitted {
    /// All of them.
    All,
    /// Numbers from the first to the second, both included.
    Within(f64, f64),
    /// These texts.
    OneOf(&'static [&'static str]),
}

impl Kind {
    /// Ceph's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "str",
            Kind::Switch => "bool",
            Kind::Number => "uint",
            Kind::Real => "float",
            Kind::Seconds => "secs",
            Kind::Size => "size",
        }
    }

    /// True if the text is a value of this type.
    pub fn accepts(self, value: &str) -> bool {
        match self {
            Kind::Text => true,
            Kind::Switch => parse_switch(value).is_some(),
            Kind::Number => value.parse::<u64>().is_ok(),
            Kind::Real => parse_real(value).is_some(),
            Kind::Seconds => parse_seconds(value).is_some(),
            Kind::Size => stdx::parse_bytes(value).is_some(),
        }
    }

    /// The value as a number, if it is one.
    fn amount(self, value: &str) -> Option<f64> {
        match self {
            Kind::Text | Kind::Switch => None,
            Kind::Number | Kind::Real | Kind::Seconds => parse_real(value),
            Kind::Size => stdx::parse_bytes(value).map(|bytes| bytes as f64),
        }
    }
}

impl Known {
    /// Checks that the option can have the value.
    ///
    /// # Errors
    ///
    /// A phrase that says which values are expected.
    pub fn check(&self, value: &str) -> Result<(), String> {
        if !self.kind.accepts(value) {
            return Err(format!("expected a value of type {}", self.kind.name()));
        }
        let is_permitted = match self.permitted {
            Permitted::All => true,
            Permitted::Within(least, most) => {
                self.kind.amount(value).is_some_and(|amount| least <= amount && amount <= most)
            }
            Permitted::OneOf(texts) => texts.contains(&value),
        };
        if is_permitted { Ok(()) } else { Err(format!("expected {}", self.expected())) }
    }

    /// The permitted values in words; empty if all of the type are.
    pub fn expected(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        match self.permitted {
            Permitted::All => String::new(),
            Permitted::Within(least, f64::INFINITY) => format!("at least {least}{unit}"),
            Permitted::Within(least, most) => format!("{least} to {most}{unit}"),
            Permitted::OneOf(texts) => format!("one of {}", texts.join(", ")),
        }
    }

    /// Least and greatest value, as texts; empty where there is none.
    pub fn bounds(&self) -> (String, String) {
        match self.permitted {
            Permitted::Within(least, f64::INFINITY) => (least.to_string(), String::new()),
            Permitted::Within(least, most) => (least.to_string(), most.to_string()),
            _ => Default::default(),
        }
    }

    /// Kinds of daemons and clients that read the option.
    pub fn readers(&self) -> Vec<&'static str> {
        if !self.readers.is_empty() {
            return self.readers.to_vec();
        }
        vec![self.name.split('_').next().unwrap_or_default()]
    }
}

/// Builders for the rows of the table.
impl Known {
    const fn new(name: &'static str, kind: Kind, default: &'static str) -> Self {
        let permitted = Permitted::All;
        let (unit, meaning, advice) = ("", "", "");
        let readers = &[];
        Known { name, kind, default, unit, permitted, meaning, advice, can_change: true, readers }
    }

    pub(super) const fn unit(self, unit: &'static str) -> Self {
        Known { unit, ..self }
    }

    pub(super) const fn within(self, least: f64, most: f64) -> Self {
        Known { permitted: Permitted::Within(least, most), ..self }
    }

    pub(super) const fn at_least(self, least: f64) -> Self {
        self.within(least, f64::INFINITY)
    }

    pub(super) const fn one_of(self, texts: &'static [&'static str]) -> Self {
        Known { permitted: Permitted::OneOf(texts), ..self }
    }

    /// Without it, the reader is the first word of the name.
    pub(super) const fn read_by(self, readers: &'static [&'static str]) -> Self {
        Known { readers, ..self }
    }

    pub(super) const fn fixed(self) -> Self {
        Known { can_change: false, ..self }
    }

    pub(super) const fn means(self, meaning: &'static str) -> Self {
        Known { meaning, ..self }
    }

    pub(super) const fn change(self, advice: &'static str) -> Self {
        Known { advice, ..self }
    }
}

pub(super) const fn text(name: &'static str, default: &'static str) -> Known {
    Known::new(name, Kind::Text, default)
}

pub(super) const fn switch(name: &'static str, default: &'static str) -> Known {
    Known::new(name, Kind::Switch, default)
}

pub(super) const fn number(name: &'static str, default: &'static str) -> Known {
    Known::new(name, Kind::Number, default)
}

pub(super) const fn real(name: &'static str, default: &'static str) -> Known {
    Known::new(name, Kind::Real, default)
}

pub(super) const fn seconds(name: &'static str, default: &'static str) -> Known {
    Known::new(name, Kind::Seconds, default).unit("s")
}

pub(super) const fn size(name: &'static str, default: &'static str) -> Known {
    Known::new(name, Kind::Size, default).unit("bytes")
}

/// The spellings of a switch.
pub fn parse_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

pub(super) fn parse_real(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

pub(super) fn parse_seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(parse_real(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_daemon_could_read_are_not_accepted() {
        assert!(Kind::Seconds.accepts("2.5") && Kind::Size.accepts("4K"));
        assert!(!Kind::Seconds.accepts("-1") && !Kind::Real.accepts("inf"));
        assert!(!Kind::Switch.accepts("maybe") && !Kind::Number.accepts("1.5"));
    }

    #[test]
    fn values_outside_of_the_range_are_refused_with_the_range() {
        let option = seconds("osd_heartbeat_grace", "2").within(0.2, 3600.0);
        assert_eq!(option.check("3600"), Ok(()));
        assert_eq!(option.check("0"), Err("expected 0.2 to 3600 s".to_owned()));
        assert_eq!(option.check("soon"), Err("expected a value of type secs".to_owned()));
        let option = size("cache", "1K").at_least(1024.0);
        assert_eq!(option.check("1K"), Ok(()));
        assert_eq!(option.check("1"), Err("expected at least 1024 bytes".to_owned()));
        let option = text("mode", "on").one_of(&["on", "off"]);
        assert_eq!(option.check("on"), Ok(()));
        assert_eq!(option.check("auto"), Err("expected one of on, off".to_owned()));
    }
}
