//! Sizes in bytes as users write them: `4K`, `128 KiB`, `4M`.

const UNITS: [(&str, u32); 6] = [("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50), ("E", 60)];

/// `1536` becomes `1.5 KiB`.
pub fn format_bytes(bytes: u64) -> String {
    for (unit, shift) in UNITS.iter().rev() {
        if bytes >> shift > 0 {
            let value = bytes as f64 / (1u64 << shift) as f64;
            let digits = if value >= 100.0 || value.fract() == 0.0 { 0 } else { 1 };
            return format!("{value:.digits$} {unit}iB");
        }
    }
    format!("{bytes} B")
}

/// Parses `4096`, `4K`, `4k`, `4KiB`, `4 KB`; all units are powers of 1024, as Ceph's are.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim().to_ascii_uppercase();
    let unit = unit.strip_suffix('B').unwrap_or(&unit);
    let unit = unit.strip_suffix('I').filter(|unit| !unit.is_empty()).unwrap_or(unit);
    let shift = match unit {
        "" => 0,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("4096", 4096), ("4K", 4096), ("4 KiB", 4096), ("4Ki", 4096), ("2mb", 2 << 20)]
        {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        assert_eq!(parse_bytes("4x"), None);
        assert_eq!(parse_bytes("4i"), None);
        assert_eq!(parse_bytes("99999999999E"), None);
        assert_eq!(format_bytes(1536), "1.5 KiB");
        assert_eq!(format_bytes(4 << 20), "4 MiB");
        assert_eq!(format_bytes(12), "12 B");
    }
}
