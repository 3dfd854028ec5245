//! Conditions on the arguments of a command: `pool=rbd`, `key prefix a/`, `name regex ^osd_.*$`.

use super::scanner::Scanner;
use regex_lite::Regex;
use std::collections::BTreeMap;

/// `StringConstraint`
#[derive(Debug, Clone)]
pub(super) enum Constraint {
    Equal(String),
    Prefix(String),
    /// Must match the whole argument. An invalid expression matches nothing.
    Regex(Option<Regex>),
    /// As [`Constraint::Regex`], but the argument may be missing.
    Optional(Option<Regex>),
    /// The argument must be missing.
    Absent,
}

/// Conditions by argument name; all must hold.
pub(super) type Constraints = BTreeMap<String, Constraint>;

impl Constraint {
    /// The argument must match `expression` as a whole.
    pub fn regex(expression: &str) -> Self {
        Constraint::Regex(whole(expression))
    }

    /// As [`Constraint::regex`], or the argument is missing.
    pub fn optional(expression: &str) -> Self {
        Constraint::Optional(whole(expression))
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let Some(value) = value else {
            return matches!(self, Constraint::Optional(_) | Constraint::Absent);
        };
        match self {
            Constraint::Equal(expected) => value == expected,
            Constraint::Prefix(prefix) => value.starts_with(prefix.as_str()),
            Constraint::Regex(regex) | Constraint::Optional(regex) => {
                regex.as_ref().is_some_and(|regex| regex.is_match(value))
            }
            Constraint::Absent => false,
        }
    }
}

fn whole(expression: &str) -> Option<Regex> {
    Regex::new(&format!("^(?:{expression})$")).ok()
}

/// Returns true if all constraints hold. A constrained argument must be present.
pub(super) fn all_hold(constraints: &Constraints, arguments: &BTreeMap<String, String>) -> bool {
    constraints
        .iter()
        .all(|(name, constraint)| constraint.holds(arguments.get(name).map(String::as_str)))
}

/// Syntax of the equal sign in `name=value`, which differs between capability languages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EqualSign {
    Tight,
    MayBeSpaced,
}

/// One or more conditions, separated by blanks.
pub(super) fn read(s: &mut Scanner<'_>, equal: EqualSign) -> Option<Constraints> {
    let mut constraints = Constraints::new();
    let (name, constraint) = s.attempt(|s| read_one(s, equal))?;
    constraints.insert(name, constraint);
    let next = |s: &mut Scanner<'_>| {
        s.spaces()?;
        read_one(s, equal)
    };
    while let Some((name, constraint)) = s.attempt(next) {
        constraints.entry(name).or_insert(constraint);
    }
    Some(constraints)
}

fn read_one(s: &mut Scanner<'_>, equal: EqualSign) -> Option<(String, Constraint)> {
    let name = s.word()?;
    let constraint = s
        .attempt(|s| read_equal(s, equal))
        .or_else(|| s.attempt(|s| Some(Constraint::Prefix(read_worded(s, "prefix")?))))
        .or_else(|| s.attempt(|s| Some(Constraint::regex(&read_worded(s, "regex")?))))?;
    Some((name, constraint))
}

fn read_equal(s: &mut Scanner<'_>, equal: EqualSign) -> Option<Constraint> {
    let may_be_spaced = equal == EqualSign::MayBeSpaced;
    if may_be_spaced {
        s.blanks();
    }
    s.expect("=")?;
    if may_be_spaced {
        s.blanks();
    }
    s.word().map(Constraint::Equal)
}

fn read_worded(s: &mut Scanner<'_>, word: &'static str) -> Option<String> {
    s.spaced(word)?;
    s.spaces()?;
    s.word()
}
