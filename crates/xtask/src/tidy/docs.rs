//! Documentation: the share of public items of each crate that have some.
//!
//! Counted in sources: lines that begin with `pub`, fields included, other than `pub use` and `pub mod`.
//! Crates with `#![warn(missing_docs)]` are held by the compiler, which sees variants but no private modules.

use super::sources::Source;
use std::collections::BTreeMap;

/// Documented public items of a crate, in percent. A crate that is not named has all. Raise the numbers when
/// possible.
const DOCUMENTED_MIN: &[(&str, usize)] =
    &[("access", 90), ("bench", 95), ("mon", 72), ("osd", 72), ("sepiola", 77), ("types", 99)];

#[derive(Default)]
struct Count {
    documented: usize,
    all: usize,
}

impl Count {
    fn percent(&self) -> usize {
        (self.documented * 100).checked_div(self.all).unwrap_or(100)
    }
}

pub(super) fn documented(sources: &[Source]) -> Vec<String> {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        count(source.product(), counts.entry(source.room.as_str()).or_default());
    }
    let findings = counts.into_iter().filter_map(|(room, count)| {
        let min =
            DOCUMENTED_MIN.iter().find(|(name, _)| *name == room).map_or(100, |(_, min)| *min);
        let (documented, all) = (count.documented, count.all);
        (count.percent() < min).then(|| {
            format!(
                "crates/{room}: {documented} of {all} public items are documented, {min}% must be"
            )
        })
    });
    findings.collect()
}

/// Adds the public items of a text.
fn count(text: &str, count: &mut Count) {
    let mut has_doc = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("///") || line.starts_with("#[doc") {
            has_doc = true;
        } else if !line.starts_with("#[") {
            if is_public_item(line) {
                count.all += 1;
                count.documented += usize::from(has_doc);
            }
            has_doc = false;
        }
    }
}

fn is_public_item(line: &str) -> bool {
    let Some(item) = line.strip_prefix("pub ") else { return false };
    // An item or a field that a macro names has the documentation of the macro's caller.
    let is_named_by_macro =
        item.split([':', '(', '{']).next().is_some_and(|head| head.contains('$'));
    !is_named_by_macro && !["use ", "mod ", "extern "].iter().any(|word| item.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_items_and_fields_count_with_their_documentation() {
        let text = "/// A.\n#[derive(Debug)]\npub struct A {\n    pub b: u8,\n    /// C.\n    pub c: u8,\n    d: u8,\n}\npub struct $e {\n    pub $f: u8,\n}\npub use x::y;\npub(crate) fn e() {}\n";
        let mut found = Count::default();
        count(text, &mut found);
        assert_eq!((found.documented, found.all, found.percent()), (2, 3, 66));
    }
}
