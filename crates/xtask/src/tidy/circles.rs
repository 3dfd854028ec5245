//! Circles of files inside a crate: a file uses another, and that one, over however many others, uses it.
//!
//! Arrows come from `use` declarations and from paths that begin with `crate`, `super`, `self` or a module in
//! sight. A name that a module re-exports (`pub use`) is followed to the file that defines it. Tests are
//! left out.

use super::sources::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Re-exports that are followed from one name, before a path is taken to be defined where it stands.
const ALIASES_MAX: usize = 8;

/// The names of a module below its crate: `["objects", "queue"]`.
type Module = Vec<String>;

/// One file of a crate.
struct File<'a> {
    source: &'a Source,
    module: Module,
    /// The text without comments, tests and `use` declarations.
    code: String,
    uses: Vec<Use>,
}

/// A leaf of a `use` declaration.
struct Use {
    path: Vec<String>,
    /// The name in this module; `*` for a glob.
    name: String,
    is_reexport: bool,
}

struct Crate<'a> {
    files: Vec<File<'a>>,
    by_module: BTreeMap<Module, usize>,
}

pub(super) fn circles(sources: &[Source]) -> Vec<String> {
    let rooms: BTreeSet<&str> = sources.iter().map(|source| source.room.as_str()).collect();
    rooms.into_iter().filter_map(|room| finding_of(sources, room)).collect()
}

fn finding_of(sources: &[Source], room: &str) -> Option<String> {
    let whole = Crate::of(sources, room);
    let circles = whole.circles();
    let count: usize = circles.iter().map(Vec::len).sum();
    let shown = |circle: &Vec<usize>| {
        let names: Vec<String> = circle.iter().map(|file| whole.name(*file)).collect();
        names.join(" ")
    };
    let all: Vec<String> = circles.iter().map(shown).collect();
    (count > 0).then(|| {
        let all = all.join("; ");
        format!(
            "crates/{room}: {count} files lie in circles; move what they share below them: {all}"
        )
    })
}

impl<'a> Crate<'a> {
    fn of(sources: &'a [Source], room: &str) -> Self {
        let own = sources.iter().filter(|source| source.room == room && !source.is_test());
        let files: Vec<File<'a>> = own.filter_map(File::of).collect();
        let by_module =
            files.iter().enumerate().map(|(i, file)| (file.module.clone(), i)).collect();
        Self { files, by_module }
    }

    fn name(&self, file: usize) -> String {
        let module = &self.files[file].module;
        if module.is_empty() { String::from("lib") } else { module.join("/") }
    }

    /// The files that a file uses.
    fn arrows(&self, from: usize) -> BTreeSet<usize> {
        let file = &self.files[from];
        let mut arrows = BTreeSet::new();
        for used in &file.uses {
            if !used.is_reexport || words(&file.code).any(|word| word == used.name) {
                arrows.extend(self.resolve(&file.module, &used.path, ALIASES_MAX));
            }
        }
        for path in paths(&file.code) {
            arrows.extend(self.resolve(&file.module, &path, ALIASES_MAX));
        }
        arrows.remove(&from);
        arrows
    }

    /// The file that defines what a path in a module names; `None` if it leads out of the crate.
    fn resolve(&self, module: &Module, path: &[String], aliases: usize) -> Option<usize> {
        let (mut at, mut rest) = (module.clone(), path);
        match rest.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                at.push(first.to_owned());
                if !self.by_module.contains_key(&at) {
                    return None;
                }
                rest = &rest[1..];
            }
        }
        self.descend(at, rest, aliases)
    }

    fn descend(&self, mut at: Module, path: &[String], aliases: usize) -> Option<usize> {
        for (i, segment) in path.iter().enumerate() {
            at.push(segment.clone());
            if self.by_module.contains_key(&at) {
                continue;
            }
            at.pop();
            let file = &self.files[*self.by_module.get(&at)?];
            let handed = || self.reexported(file, segment, &path[i + 1..], aliases.checked_sub(1)?);
            return handed().or_else(|| self.by_module.get(&at).copied());
        }
        self.by_module.get(&at).copied()
    }

    /// The definition of a name that a file has from elsewhere.
    fn reexported(
        &self,
        file: &File<'_>,
        name: &str,
        rest: &[String],
        aliases: usize,
    ) -> Option<usize> {
        if file.defines(name) {
            return None;
        }
        if let Some(used) = file.uses.iter().find(|used| used.name == name) {
            let path: Vec<String> = used.path.iter().chain(rest).cloned().collect();
            return self.resolve(&file.module, &path, aliases);
        }
        let globs = file.uses.iter().filter(|used| used.name == "*");
        let targets = globs.filter_map(|used| self.resolve(&file.module, &used.path, aliases));
        targets.into_iter().find(|target| self.files[*target].defines(name))
    }

    /// The strongly connected components of more than one file.
    fn circles(&self) -> Vec<Vec<usize>> {
        let arrows: Vec<BTreeSet<usize>> =
            (0..self.files.len()).map(|file| self.arrows(file)).collect();
        let reached: Vec<BTreeSet<usize>> =
            (0..arrows.len()).map(|file| reach(&arrows, file)).collect();
        let mut circles = BTreeSet::new();
        for file in 0..arrows.len() {
            let circle = reached[file].iter().filter(|other| reached[**other].contains(&file));
            let circle: Vec<usize> = circle.copied().collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

/// Files that are reached from one over one arrow or more.
fn reach(arrows: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<usize> = arrows[from].iter().copied().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&arrows[file]);
        }
    }
    reached
}

impl<'a> File<'a> {
    /// `None` for what is not a module of the library or of the one binary: `src/bin`, benchmarks, scripts.
    fn of(source: &'a Source) -> Option<Self> {
        let below = source.path.strip_prefix("crates").ok()?.components().skip(1);
        let mut names: Vec<String> =
            below.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        if names.remove(0) != "src" || names.first().is_some_and(|name| name == "bin") {
            return None;
        }
        let last = names.pop()?;
        match last.strip_suffix(".rs")? {
            "lib" | "main" if names.is_empty() => {}
            "mod" => {}
            name => names.push(name.to_owned()),
        }
        let (code, uses) = split(source.product());
        Some(Self { source, module: names, code, uses })
    }

    fn defines(&self, name: &str) -> bool {
        const KINDS: [&str; 9] =
            ["fn", "struct", "enum", "trait", "const", "type", "static", "union", "macro_rules"];
        let text = self.source.product();
        KINDS.iter().any(|kind| {
            let definition = format!("{kind} {name}");
            let mut ends = text.match_indices(&definition).map(|(at, found)| at + found.len());
            ends.any(|end| !text[end..].starts_with(is_word))
        })
    }
}

/// Splits a text into its code and the leaves of its `use` declarations.
fn split(text: &str) -> (String, Vec<Use>) {
    let (mut code, mut uses) = (String::new(), Vec::new());
    let mut declaration: Option<(bool, String)> = None;
    let mut is_for_tests = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some((_, open)) = &mut declaration {
            open.push_str(line);
        } else if let Some((is_reexport, rest)) = use_declaration(line) {
            declaration = Some((is_reexport, rest.to_owned()));
        } else {
            is_for_tests = line == "#[cfg(test)]";
            code.push_str(line.split(" // ").next().unwrap_or_default());
            code.push('\n');
            continue;
        }
        let Some((is_reexport, tree)) = declaration.take_if(|(_, open)| open.ends_with(';')) else {
            continue;
        };
        if !std::mem::take(&mut is_for_tests) {
            leaves(tree.trim_end_matches(';'), &[], is_reexport, &mut uses);
        }
    }
    (code, uses)
}

/// Whether a `use` re-exports its names, and the rest of the line.
fn use_declaration(line: &str) -> Option<(bool, &str)> {
    if let Some(rest) = line.strip_prefix("use ") {
        return Some((false, rest));
    }
    let rest = line.strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    Some((true, rest.strip_prefix(" use ")?))
}

/// Adds the leaves of a tree of paths, `a::{b, c::d as e}`.
fn leaves(tree: &str, above: &[String], is_reexport: bool, uses: &mut Vec<Use>) {
    let tree = tree.trim();
    if let Some((head, inner)) = tree.split_once('{') {
        let mut path = above.to_vec();
        path.extend(
            head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned),
        );
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        for part in parts(inner) {
            leaves(part, &path, is_reexport, uses);
        }
        return;
    }
    let (path, alias) =
        tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
    let mut full = above.to_vec();
    full.extend(path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(last) = full.last().cloned() else { return };
    if last == "self" || last == "*" {
        full.pop();
    }
    let own = if last == "self" { full.last().cloned().unwrap_or_default() } else { last };
    uses.push(Use { path: full, name: alias.map_or(own, str::to_owned), is_reexport });
}

/// Splits at the commas that are in no braces.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// Paths of two segments and more in code, such as `super::queue::next`.
fn paths(code: &str) -> BTreeSet<Vec<String>> {
    let candidates = code.split(|c: char| !is_word(c) && c != ':');
    let paths = candidates.filter(|text| text.contains("::"));
    let segments = |text: &str| -> Vec<String> {
        text.split("::")
            .map(|part| part.trim_matches(':').to_owned())
            .filter(|part| !part.is_empty())
            .collect()
    };
    paths.map(segments).filter(|path| path.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), room: String::from("a"), text: text.to_owned() }
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| source(path, text)).collect();
        let whole = Crate::of(&sources, "a");
        let circles = whole.circles();
        circles.iter().map(|circle| circle.iter().map(|file| whole.name(*file)).collect()).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let up = "use crate::low::Low;\npub struct Up;";
        assert!(
            circles_of(&[("crates/a/src/up.rs", up), ("crates/a/src/low.rs", "pub struct Low;")])
                .is_empty()
        );
        let low = "pub struct Low;\nfn f(_: super::up::Up) {}";
        let found = circles_of(&[("crates/a/src/up.rs", up), ("crates/a/src/low.rs", low)]);
        assert_eq!(found, [["up", "low"]]);
    }

    #[test]
    fn a_re_exported_name_leads_to_its_definition() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod low;\nmod up;\npub use low::{Low, Other as Else};\npub use up::*;",
            ),
            ("crates/a/src/low.rs", "pub struct Low;\npub struct Other;"),
            ("crates/a/src/up.rs", "use crate::{Else, Low};\npub struct Up;"),
        ];
        assert!(circles_of(&files).is_empty());
        let user = "pub struct Low;\npub struct Other;\nuse crate::Up;";
        let found = circles_of(&[files[0], ("crates/a/src/low.rs", user), files[2]]);
        assert_eq!(found, [["low", "up"]]);
    }

    #[test]
    fn tests_make_no_arrows() {
        let up = "use crate::low::Low;\npub struct Up;";
        let low = "pub struct Low;\n#[cfg(test)]\nuse crate::up::Up;\n#[cfg(test)]\nmod tests {\nuse crate::up::Up;\n}";
        assert!(circles_of(&[("crates/a/src/up.rs", up), ("crates/a/src/low.rs", low)]).is_empty());
    }

    #[test]
    fn trees_of_paths_have_all_their_leaves() {
        let (_, uses) =
            split("use super::{\n    a::{self, B},\n    c::*,\n};\npub(crate) use d::e as f;\n");
        let found: Vec<String> =
            uses.iter().map(|used| format!("{} = {}", used.name, used.path.join("::"))).collect();
        assert_eq!(found, ["a = super::a", "B = super::a::B", "* = super::c", "f = d::e"]);
    }
}
