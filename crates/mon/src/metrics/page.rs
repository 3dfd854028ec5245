//! The exposition format of Prometheus: families of samples.

use std::fmt::{Display, Write};

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    /// Its name ends in `_total`.
    Counter,
    /// For names of Ceph whose type their form contradicts: counters without `_total`, and `pg_total`.
    Untyped,
}

/// A number of a report: name, type, help, value.
pub(super) type Column<R> = (&'static str, Kind, &'static str, fn(&R) -> f64);

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

/// One family, whose samples follow.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

/// Labels of a sample, as in the text; they may be used for many.
#[derive(Debug, Clone, Default)]
pub(super) struct Labels(String);

impl Page {
    /// Begins a family. A family without samples should not be begun.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let is_total = name.ends_with("_total");
        assert!(kind != Kind::Counter || is_total, "{name} is a counter and does not say so");
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Untyped => "untyped",
        };
        write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect("text takes all");
        Family { text: &mut self.text, name }
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &'static str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help).add(&Labels::default(), value);
    }

    /// Adds a family for each column, with a sample for each daemon that has reported: a zero would look like
    /// the reset of a counter.
    pub fn columns<'a, R: 'a>(
        &mut self,
        columns: &[Column<R>],
        rows: impl Iterator<Item = (&'a Labels, Option<&'a R>)> + Clone,
    ) {
        for (name, kind, help, value) in columns {
            let mut family = self.family(name, *kind, help);
            for (labels, report) in rows.clone() {
                report.into_iter().for_each(|report| family.add(labels, value(report)));
            }
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Adds a sample.
    pub fn add(&mut self, labels: &Labels, value: impl Display) {
        writeln!(self.text, "{}{} {value}", self.name, labels.0).expect("text takes all");
    }

    /// Adds a sample of value one, whose labels are facts.
    pub fn fact(&mut self, labels: &[(&str, &str)]) {
        self.add(&Labels::of(labels), 1);
    }
}

impl Labels {
    /// Labels with their values, which may contain anything.
    pub fn of(labels: &[(&str, &str)]) -> Labels {
        let mut text = String::from("{");
        for (index, (name, value)) in labels.iter().enumerate() {
            let gap = if index == 0 { "" } else { "," };
            write!(text, "{gap}{name}=\"").expect("text takes all");
            value.chars().for_each(|c| match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                c => text.push(c),
            });
            text.push('"');
        }
        text.push('}');
        Labels(text)
    }

    /// `{ceph_daemon="osd.3"}`
    pub fn daemon(kind: &str, id: impl Display) -> Labels {
        Labels::of(&[("ceph_daemon", &format!("{kind}.{id}"))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_family_and_values_of_labels_are_escaped() {
        let mut page = Page::default();
        page.single("ceph_health_status", Kind::Untyped, "health", 0);
        let mut family = page.family("sepiola_x_total", Kind::Counter, "x");
        family.add(&Labels::daemon("osd", 3), 1.5);
        family.fact(&[("a", "say \"no\"\\\n"), ("b", "")]);
        assert_eq!(
            page.into_text(),
            "# HELP ceph_health_status health\n# TYPE ceph_health_status untyped\nceph_health_status 0\n\
             # HELP sepiola_x_total x\n# TYPE sepiola_x_total counter\nsepiola_x_total{ceph_daemon=\"osd.3\"} 1.5\n\
             sepiola_x_total{a=\"say \\\"no\\\"\\\\\\n\",b=\"\"} 1\n"
        );
    }
}
