//! Examples in documentation that a test run compiles.

use super::sources::{Source, sources};
use anyhow::Result;
use std::collections::BTreeSet;

/// The crates that have such examples. For each of the others, `cargo test` would start the compiler of
/// documentation only to find nothing.
pub fn crates_with_examples() -> Result<BTreeSet<String>> {
    let with_examples = sources()?.into_iter().filter(has_example);
    Ok(with_examples.map(|source| source.room).collect())
}

fn has_example(source: &Source) -> bool {
    let fences = source.text.lines().filter_map(info_string);
    fences.step_by(2).any(|info| !matches!(info.split(',').next(), Some("text" | "ignore")))
}

/// The text after the fence of a doc comment, if the line has one; opening and closing ones alternate.
fn info_string(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    comment.trim().strip_prefix("```")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_one(text: &str) -> bool {
        let (path, room) = ("crates/a/src/lib.rs".into(), "a".to_owned());
        has_example(&Source { path, room, text: text.to_owned() })
    }

    #[test]
    fn a_drawing_is_no_example() {
        assert!(!has_one("//! ```text\n//! a -> b\n//! ```\nfn f() {}\n"));
        assert!(has_one("/// ```\n/// assert!(true);\n/// ```\nfn f() {}\n"));
        assert!(has_one("//! ```text\n//! a\n//! ```\n/// ```rust\n/// f();\n/// ```\n"));
    }
}
