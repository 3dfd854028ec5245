//! Quotas as texts: `ceph.quota`, `ceph.quota.max_bytes` and `ceph.quota.max_files`.

use std::str::FromStr;
use types::Errno;
use wire::QuotaInfo;

/// A part of a quota that has a name of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaField {
    /// Both bounds.
    All,
    /// Bytes.
    Bytes,
    /// Files and directories.
    Files,
}

impl QuotaField {
    /// The part of a name that begins with `ceph.quota`, by what follows.
    pub fn named(rest: &str) -> Option<Self> {
        Some(match rest {
            "" => QuotaField::All,
            ".max_bytes" => QuotaField::Bytes,
            ".max_files" => QuotaField::Files,
            _ => return None,
        })
    }

    /// The quota with this part changed; without a text it is removed.
    ///
    /// # Errors
    ///
    /// EINVAL if the text has no meaning.
    pub fn set(self, quota: &QuotaInfo, text: Option<&str>) -> Result<QuotaInfo, Errno> {
        let mut quota = quota.clone();
        match (self, text) {
            (QuotaField::All, None) => quota = QuotaInfo::default(),
            (QuotaField::All, Some(text)) => set_parts(&mut quota, text)?,
            (QuotaField::Bytes, text) => quota.max_bytes = text.map_or(Ok(0), bytes)?,
            (QuotaField::Files, text) => quota.max_files = text.map_or(Ok(0), files)?,
        }
        Ok(quota)
    }

    /// Its text; `None` if there is no such bound.
    pub fn show(self, quota: &QuotaInfo) -> Option<String> {
        let QuotaInfo { max_bytes, max_files } = *quota;
        let is_set = match self {
            QuotaField::All => *quota != QuotaInfo::default(),
            QuotaField::Bytes => max_bytes != 0,
            QuotaField::Files => max_files != 0,
        };
        is_set.then(|| match self {
            QuotaField::All => format!("max_bytes={max_bytes} max_files={max_files}"),
            QuotaField::Bytes => max_bytes.to_string(),
            QuotaField::Files => max_files.to_string(),
        })
    }
}

/// Both bounds, or one of them: `max_bytes=N max_files=N`.
fn set_parts(quota: &mut QuotaInfo, text: &str) -> Result<(), Errno> {
    for part in text.split(' ').filter(|part| !part.is_empty()) {
        match part.split_once('=').ok_or(Errno::INVAL)? {
            ("max_bytes", value) => quota.max_bytes = bytes(value)?,
            ("max_files", value) => quota.max_files = files(value)?,
            _ => return Err(Errno::INVAL),
        }
    }
    Ok(())
}

/// A count. Clients take bounds as signed numbers.
fn files(text: &str) -> Result<u64, Errno> {
    let count = i64::from_str(text).map_err(|_| Errno::INVAL)?;
    u64::try_from(count).map_err(|_| Errno::INVAL)
}

/// A number of bytes, with a binary unit or none: `10M`, `10Mi`.
fn bytes(text: &str) -> Result<u64, Errno> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "Ki" => 10,
        "M" | "Mi" => 20,
        "G" | "Gi" => 30,
        "T" | "Ti" => 40,
        "P" | "Pi" => 50,
        "E" | "Ei" => 60,
        _ => return Err(Errno::INVAL),
    };
    let bytes = files(number)?.checked_mul(1 << shift).ok_or(Errno::INVAL)?;
    i64::try_from(bytes).map(|_| bytes).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_binary_units() {
        let cases = [
            ("0", Ok(0)),
            ("4096", Ok(4096)),
            ("10M", Ok(10 << 20)),
            ("3Gi", Ok(3 << 30)),
            ("7E", Ok(7 << 60)),
            ("8E", Err(Errno::INVAL)),
            ("", Err(Errno::INVAL)),
            ("-1", Err(Errno::INVAL)),
            ("1.5M", Err(Errno::INVAL)),
            ("M", Err(Errno::INVAL)),
            ("1 M", Err(Errno::INVAL)),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
        assert_eq!(
            (files("12"), files("-1"), files("1K")),
            (Ok(12), Err(Errno::INVAL), Err(Errno::INVAL))
        );
    }
}
