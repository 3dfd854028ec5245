//! Plain-text formatting: aligned tables, sizes, counts, durations.

use engine::Time;
use types::UTime;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A text table. Columns are as wide as their widest cell, with two blanks between.
#[derive(Debug, Default)]
pub struct Table {
    header: Vec<(String, Align, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns as `NAME` (left) or `>NAME` (right); `^NAME` has a left header over right cells.
    pub fn new(columns: &[&str]) -> Self {
        assert!(!columns.is_empty(), "a table has columns");
        let column = |text: &&str| match text.split_at_checked(1) {
            Some((">", name)) => (name.to_owned(), Align::Right, Align::Right),
            Some(("^", name)) => (name.to_owned(), Align::Left, Align::Right),
            _ => ((*text).to_owned(), Align::Left, Align::Left),
        };
        Table { header: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Appends a row; it has one cell for each column.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert!(cells.len() <= self.header.len(), "each cell is in a column");
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain([&self.header[column].0]).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..self.header.len()).filter_map(width).collect();
        let pad = |cell: &str, width: usize, align: Align| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        };
        let header = self.header.iter().zip(&widths);
        let header: Vec<String> =
            header.map(|((name, align, _), w)| pad(name, *w, *align)).collect();
        writeln!(f, "{}", header.join("  "))?;
        for row in &self.rows {
            let cells = row.iter().zip(&self.header).zip(&widths);
            let cells: Vec<String> =
                cells.map(|((cell, (.., align)), w)| pad(cell, *w, *align)).collect();
            writeln!(f, "{}", cells.join("  "))?;
        }
        Ok(())
    }
}

/// `5.7 GiB`, `12 GiB`, `79 B` (`byte_u_t`).
pub fn bytes(value: u64) -> String {
    scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// `1.3k` (`si_u_t`).
pub fn count(value: u64) -> String {
    scaled(value, 1000, ["", "k", "M", "G", "T", "P", "E"])
}

fn scaled(value: u64, base: u64, units: [&str; 7]) -> String {
    assert!(base > 1, "units grow");
    let (mut index, mut divisor) = (0, 1);
    while value / divisor >= base && index + 1 < units.len() {
        divisor *= base;
        index += 1;
    }
    let whole = value / divisor;
    let digits = usize::from(!value.is_multiple_of(divisor) && whole < 10);
    format!("{:.digits$}{}", value as f64 / divisor as f64, units[index])
}

/// `90s`, `3m`, `2h`, `5d`, `7w` (`timespan_str`).
pub fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        172_800..1_209_600 => format!("{}d", seconds / 86_400),
        1_209_600..31_536_000 => format!("{}w", seconds / 604_800),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// ` (since 90s)`, or an empty string for the zero time.
pub fn since(now: Time, time: UTime) -> String {
    if time == UTime::default() {
        return String::new();
    }
    format!(" (since {})", age(u64::from(now.wall().seconds.saturating_sub(time.seconds))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_or_three_digits() {
        let cases = [(0, "0 B"), (4700, "4.6 KiB"), (83_193_856, "79 MiB"), (4 << 30, "4 GiB")];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(bytes(6_078_721_024), "5.7 GiB");
        assert_eq!(count(1290), "1.3k");
    }

    #[test]
    fn columns_align() {
        let mut table = Table::new(&["ID", ">SIZE"]);
        table.row(["a", "10"]);
        assert_eq!(table.to_string(), "ID  SIZE\na     10\n");
    }

    #[test]
    fn ages_round_down() {
        assert_eq!(age(96), "96s");
        assert_eq!(age(200), "3m");
    }

    #[test]
    fn what_never_happened_has_no_age() {
        let now = Time(100 * 1_000_000_000);
        assert_eq!(since(now, UTime { seconds: 10, nanoseconds: 0 }), " (since 90s)");
        assert_eq!(since(now, UTime::default()), "");
    }
}
