//! Metadata of a subvolume: the file `.meta` in the form of Python's `configparser`, as Ceph writes it.
//!
//! Sections and keys that are not known here are kept.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The section of facts that each subvolume has.
pub(crate) const GLOBAL: &str = "GLOBAL";
/// The section of a clone's source.
pub(crate) const SOURCE: &str = "source";
/// The section of clones that read a snapshot: ids of clones, and names of snapshots.
pub(crate) const CLONES: &str = "clone snaps";
/// The section of why a clone has failed.
pub(crate) const FAILURE: &str = "CLONE_FAILURE";
/// The section of keys and values of users.
pub(crate) const USER: &str = "USER_METADATA";
/// Bytes of the file: a change that leads beyond is refused with EFBIG.
pub(crate) const BYTES_MAX: usize = crate::tree::SMALL_FILE_MAX as usize;

/// The section of keys and values of users about a snapshot.
pub(crate) fn snapshot_section(snapshot: &str) -> String {
    format!("SNAP_METADATA_{snapshot}")
}

/// Sections in order, each with keys and values in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Metadata {
    sections: Vec<(String, Vec<(String, String)>)>,
}

impl Metadata {
    /// Reads a file; `None` if it is none of this form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut metadata = Metadata::default();
        for line in text.lines() {
            let trimmed = line.trim_end();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                continue;
            }
            let keys = metadata.sections.last_mut().map(|(_, keys)| keys);
            if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                metadata.section(name);
            } else if line.starts_with([' ', '\t']) {
                // A value goes on in an indented line.
                let (_, value) = keys?.last_mut()?;
                value.push('\n');
                value.push_str(&trimmed.trim_start().replace("%%", "%"));
            } else {
                let at = trimmed.find(['=', ':'])?;
                let (key, value) = (trimmed[..at].trim(), trimmed[at + 1..].trim());
                keys?.push((key.to_lowercase(), value.replace("%%", "%")));
            }
        }
        Some(metadata)
    }

    /// The text of the file. Empty sections are left out.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, keys) in self.sections.iter().filter(|(_, keys)| !keys.is_empty()) {
            let _ = writeln!(text, "[{name}]");
            for (key, value) in keys {
                let value = value.replace('%', "%%").replace('\n', "\n\t");
                let _ = writeln!(text, "{key} = {value}");
            }
            text.push('\n');
        }
        text
    }

    /// Whether a text is read as these metadata, but for empty sections.
    pub(crate) fn is_read_from(&self, text: &str) -> bool {
        let mut expected = self.clone();
        expected.sections.retain(|(_, keys)| !keys.is_empty());
        Metadata::parse(text) == Some(expected)
    }

    fn section(&mut self, name: &str) -> &mut Vec<(String, String)> {
        let at = self.sections.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.sections.push((name.to_owned(), Vec::new()));
            self.sections.len() - 1
        });
        &mut self.sections[at].1
    }

    /// Keys and values of a section.
    pub(crate) fn keys(&self, section: &str) -> BTreeMap<&str, &str> {
        let found = self.sections.iter().filter(|(name, _)| name == section);
        let pairs = found.flat_map(|(_, keys)| keys);
        pairs.map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    /// A value.
    pub(crate) fn get(&self, section: &str, key: &str) -> Option<&str> {
        self.keys(section).get(key.to_lowercase().as_str()).copied()
    }

    /// Sets a value; keys are kept in lower case.
    pub(crate) fn set(&mut self, section: &str, key: &str, value: impl Into<String>) {
        let (key, value) = (key.to_lowercase(), value.into());
        let keys = self.section(section);
        match keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => keys.push((key, value)),
        }
    }

    /// Removes a value; false if there was none.
    pub(crate) fn remove(&mut self, section: &str, key: &str) -> bool {
        let key = key.to_lowercase();
        let keys = self.section(section);
        let before = keys.len();
        keys.retain(|(known, _)| *known != key);
        keys.len() < before
    }

    /// Removes a section.
    pub(crate) fn remove_section(&mut self, section: &str) {
        self.sections.retain(|(name, _)| name != section);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[GLOBAL]\nversion = 2\ntype = subvolume\npath = /volumes/_nogroup/a/b\nstate = complete\n\n";

    #[test]
    fn what_ceph_writes_is_read_and_written_alike() {
        let metadata = Metadata::parse(TEXT).unwrap();
        assert_eq!(metadata.get(GLOBAL, "path"), Some("/volumes/_nogroup/a/b"));
        assert_eq!(metadata.text(), TEXT);
    }

    #[test]
    fn unknown_sections_are_kept_and_empty_ones_are_not() {
        let mut metadata = Metadata::parse("[NEW]\nx = 1\n\n[clone snaps]\nid = s\n\n").unwrap();
        assert!(metadata.remove(CLONES, "ID"));
        assert!(!metadata.remove(CLONES, "id"));
        assert_eq!(metadata.text(), "[NEW]\nx = 1\n\n");
    }

    #[test]
    fn keys_are_in_lower_case_and_values_of_several_lines_come_back() {
        let mut metadata = Metadata::default();
        metadata.set(USER, "Key", "a\nb 100%");
        assert_eq!(metadata.text(), "[USER_METADATA]\nkey = a\n\tb 100%%\n\n");
        let read = Metadata::parse(&metadata.text()).unwrap();
        assert_eq!(read.get(USER, "KEY"), Some("a\nb 100%"));
        assert_eq!(read, metadata);
    }

    #[test]
    fn values_that_would_be_read_otherwise_are_known() {
        let mut metadata = Metadata::default();
        metadata.remove(CLONES, "id");
        metadata.set(USER, "key", "a\nb 100%");
        assert!(metadata.is_read_from(&metadata.text()));
        for (key, value) in [("a", " b"), ("#a", "b"), ("a=b", "c"), ("a", "b\n\nc")] {
            let mut changed = metadata.clone();
            changed.set(USER, key, value);
            assert!(!changed.is_read_from(&changed.text()), "{key:?} {value:?}");
        }
    }

    #[test]
    fn what_is_no_metadata_is_refused() {
        assert!(Metadata::parse("text").is_none());
        assert!(Metadata::parse("a = 1\n").is_none(), "a key without a section");
        assert_eq!(Metadata::parse(""), Some(Metadata::default()));
    }
}
