//! Words: comments, names that were given up, paths in documents.

use super::sources::{Source, documents, shown};
use crate::run::root;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Beginnings of comments without a subject: the subject of a sentence is the thing that acts.
const PRONOUNS: [&str; 6] = ["Who", "Whoever", "What", "Whom", "Nobody", "Somebody"];
/// Comment lines that begin with one of them. Lower it when possible.
const PRONOUNS_MAX: usize = 0;

/// Columns of a comment line.
const COMMENT_COLUMNS: usize = 110;
/// Comment lines that are longer. Lower it when possible.
const LONG_COMMENTS_MAX: usize = 0;

/// Names that were given up: the crate (empty for all), the name, and its replacement.
const FORMER_NAMES: &[(&str, &str, &str)] = &[
    ("", "Errands", "RequestRouter"),
    ("", "ShardPgId", "PgShard"),
    ("", "ReportAgain", "ReportRequest"),
    ("", "ClockAsked", "ClockRequest"),
    ("", "ClockTold", "ClockReply"),
    ("mon", "Judgement", "LoadVerdict"),
    ("mon", "lies_in_dark", "is_subtree_down"),
    ("rbd", "Asker", "RequestSource"),
    ("rbd", "Workflow", "Procedure"),
    ("rbd", "Ask", "ClusterRequest"),
    ("rbd", "Answer", "ClusterResponse"),
    ("rbd", "AskId", "ClusterRequestId"),
    ("rbd", "Crowd", "TestCluster"),
    ("rbd", "Wish", "ProxiedRequest"),
    ("rbd", "WishId", "ProxiedRequestId"),
    ("rbd", "Guards", "ExistenceCache"),
    ("rbd", "Badge", "LockIdentity"),
    ("rbd", "MapKeeper", "ObjectMapState"),
    ("rbd", "Found", "AccessResult"),
    ("rbd", "Move", "MigrationPair"),
    ("rbd", "hand_down", "merge_into_next"),
    ("rbd", "become_independent", "detach_from_parent"),
    ("rbd", "ask_for_it", "request_release"),
    ("crush", "Nowhere", "NoBucket"),
    ("rt", "Lent", "PooledBytes"),
    ("rt", "Shelves", "FreeLists"),
    ("rados", "Asker", "EpochRequester"),
    ("sepiola", "Asker", "CommandKey"),
    ("sepiola", "Desk", "BlockingClient"),
    ("sepiola", "Clerk", "ImageService"),
    ("sepiola", "Parcel", "LocalMessage"),
    ("sepiola", "Post", "Outbox"),
    ("sim", "Weather", "NetworkFaults"),
    ("sim", "Mischief", "InjectFault"),
    ("sim", "Parcel", "LinkMessage"),
    ("sim", "Told", "ClientEvent"),
    ("sim", "Who", "RequestOrigin"),
    ("sim", "Hosted", "Crashable"),
    ("osd", "Nature", "OpFlags"),
    ("osd", "Early", "WaitingInput"),
    ("osd", "unleased", "waiting_for_readable"),
    ("pg", "Reshaping", "SplitMerge"),
    ("pg", "Reshaped", "SplitMerged"),
    ("pg", "ReshapeFailed", "SplitMergeFailed"),
    ("pg", "is_reshaping", "is_splitting_or_merging"),
    ("pg", "take_shape", "finish_split_merge"),
    ("pg", "lose_shape", "fail_split_merge"),
    ("pg", "distrust", "mark_corrupt"),
    ("pg", "Quiet", "Quiesced"),
    ("pg", "find_chance", "find_unfound_candidate"),
    ("pg", "Room", "Space"),
    ("pg", "Promise", "ReadLease"),
    ("pg", "Promises", "ReadLeases"),
    ("pg", "Readers", "PriorLeases"),
    ("pg", "Verdict", "PieceAction"),
    ("pg", "StoreLine", "StoreQueue"),
    ("pg", "ask_again", "retry_unreadable"),
    ("pg", "begin_anew", "restart"),
    ("pg", "look_anew", "restart_search"),
    ("pg", "LOOKED_AT_MAX", "EXAMINED_MAX"),
    ("pg", "judge", "compare_object, check_family or plan_piece"),
    ("pg", "Nobody", "Unknown"),
    ("pg", "remove_remains", "remove_superfluous"),
    ("pg", "go_on_filling", "continue_backfill"),
    ("pg", "go_on_recovering", "continue_recovery"),
    ("pg", "unstick", "clear_stuck"),
    ("osd", "PROMISE", "GRANT"),
    ("osd", "promised_to", "granted_until"),
    ("osd", "lent_until", "replica_reads_until"),
    ("osd", "told_all", "all_handled_map"),
    ("osd", "report_for_duty", "finish_loading"),
    ("osd", "Fate", "Availability"),
    ("osd", "fate_of", "availability_of"),
    ("osd", "Told", "CommandOutput"),
    ("osd", "must_rest", "check_premerge"),
    ("osd", "is_at_rest", "is_ready_to_merge"),
    ("osd", "Asker", "Requester"),
    ("osd", "asker", "requester"),
    ("osd", "Judgement", "Liveness"),
    ("osd", "judge", "verify, check, check_size or report_if_silent"),
    ("osd", "Verdict", "ExecuteOutcome"),
    ("osd", "STALL_RETRY", "RETRY_PAUSE"),
    ("osd", "has_room", "has_space"),
    ("osd", "family", "clone set"),
    ("osd", "pump_scrub", "advance"),
    ("pg", "condemn", "report_damage"),
    ("block", "Homes", "DeferredWrites"),
    ("block", "Landing", "InflightWrites"),
    ("block", "Recent", "BlockCache"),
    ("block", "Promise", "PendingAck"),
    ("block", "Trial", "DryRun"),
    ("block", "Room", "Admission"),
    ("block", "Shard", "ExtentSegment"),
    ("block", "SecondLook", "CrossReference"),
    ("block", "Voids", "EmptyRanges"),
    ("block", "told_durable", "recorded_durable"),
    ("disks", "Asked", "BlockingStore"),
    ("gateway", "Served", "ServedImage"),
    ("gateway", "Shown", "ExportList"),
];

/// Terms that were given up in comments and documents, with the standard ones. Quoted code may still have
/// them.
const FORMER_TERMS: &[(&str, &str)] = &[
    ("asker", "requester"),
    ("begins anew", "restarts, or is executed again"),
    ("clerk", "image service"),
    ("come to nothing", "are aborted"),
    ("comes to nothing", "is aborted"),
    ("condemn", "mark as corrupt"),
    ("crowd", "test cluster"),
    ("desk", "blocking client"),
    ("distrust", "mark as corrupt"),
    ("distrusted", "marked as corrupt"),
    ("errand", "request"),
    ("errands", "requests"),
    ("filled in", "backfilled"),
    ("filling in", "backfill"),
    ("how many-th", "index"),
    ("judgement", "failure detection, or the decision that is meant"),
    ("lame", "slow"),
    ("mischief", "fault injection"),
    ("nature", "operation flags, or kind"),
    ("nobody", "name the subject"),
    ("parcel", "message"),
    ("promise", "read lease, guarantee or acknowledgement"),
    ("promised", "granted or guaranteed"),
    ("promises", "read leases, guarantees or acknowledgements"),
    ("reshape", "split or merge"),
    ("reshaped", "split or merged"),
    ("reshaping", "splitting or merging"),
    ("rests", "is premerge"),
    ("somebody", "name the subject"),
    ("unleased", "waiting for read leases"),
    ("weather", "network faults"),
    ("whoever", "name the subject"),
    ("wish", "proxied request"),
];
/// Comment lines of a crate with such terms; a crate that is not named has none. Lower the numbers when
/// possible.
const FORMER_TERMS_MAX: &[(&str, usize)] = &[];
/// Documents that quote former terms: the one that gives examples, and plans of what replaces them.
const QUOTING: [&str; 2] = ["docs/STYLE.md", "docs/design/"];

pub(super) fn headers(sources: &[Source]) -> Vec<String> {
    let bare = sources.iter().filter(|source| !source.text.starts_with("//!"));
    bare.map(|source| format!("{}: begin with what the module is (//!)", source.path.display()))
        .collect()
}

/// Comments have subjects and fit the line, but for those that were there before.
pub(super) fn comments(sources: &[Source]) -> Vec<String> {
    let lines = || {
        let lines_of =
            |source: &'_ Source| source.text.lines().map(str::to_owned).collect::<Vec<_>>();
        sources.iter().flat_map(lines_of)
    };
    let pronouns = lines().filter(|line| has_pronoun(line)).count();
    let long = lines().filter(|line| is_long_comment(line)).count();
    let mut findings = Vec::new();
    if pronouns > PRONOUNS_MAX {
        let words = PRONOUNS.join(", ");
        findings.push(format!(
            "{pronouns} comments begin with one of {words}; {PRONOUNS_MAX} may: name the thing that acts"
        ));
    }
    if long > LONG_COMMENTS_MAX {
        findings.push(format!(
            "{long} comment lines have over {COMMENT_COLUMNS} columns; {LONG_COMMENTS_MAX} may"
        ));
    }
    findings
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim_start())
}

fn has_pronoun(line: &str) -> bool {
    let first = comment(line).and_then(|text| text.split(|c: char| !c.is_alphanumeric()).next());
    first.is_some_and(|word| PRONOUNS.contains(&word))
}

fn is_long_comment(line: &str) -> bool {
    comment(line).is_some() && line.chars().count() > COMMENT_COLUMNS
}

/// Names that were given up do not come back.
pub(super) fn former_names(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    let checked = sources.iter().filter(|source| source.path != Path::new(file!()));
    for source in checked {
        let code = source.text.lines().filter(|line| comment(line).is_none());
        let words: BTreeSet<&str> =
            code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
        for (room, old, new) in FORMER_NAMES {
            if (room.is_empty() || *room == source.room) && words.contains(old) {
                findings.push(format!("{}: {old} was given up: {new}", source.path.display()));
            }
        }
    }
    findings
}

/// Terms that were given up come back neither in comments nor in documents.
pub(super) fn former_terms(sources: &[Source]) -> Result<Vec<String>> {
    let mut findings = former_terms_of_comments(sources, FORMER_TERMS_MAX);
    for document in documents()? {
        let name = shown(&document);
        if !QUOTING.iter().any(|start| name.starts_with(start)) {
            let text = fs::read_to_string(&document)?;
            let found = former_terms_of_lines(text.lines().map(Some));
            findings.extend(found.map(|(line, term)| format!("{name}:{line}: {term}")));
        }
    }
    Ok(findings)
}

fn former_terms_of_comments(sources: &[Source], max: &[(&str, usize)]) -> Vec<String> {
    let mut by_room: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let checked = sources.iter().filter(|source| source.path != Path::new(file!()));
    for source in checked {
        for (line, term) in former_terms_of_lines(source.text.lines().map(comment)) {
            let place = format!("{}:{line}: {term}", source.path.display());
            by_room.entry(&source.room).or_default().push(place);
        }
    }
    let mut findings = Vec::new();
    for (room, places) in by_room {
        let max = max.iter().find(|(name, _)| *name == room).map_or(0, |(_, max)| *max);
        if places.len() > max {
            let head = format!(
                "crates/{room}: {} comments have terms that were given up, {max} may",
                places.len()
            );
            findings.push(format!("{head}:\n    {}", places.join("\n    ")));
        }
    }
    findings
}

/// Lines of prose with a former term, counted from 1, and the terms. A term that is broken across two lines
/// counts for the first of them. `None` stands for a line without prose.
fn former_terms_of_lines<'a>(
    lines: impl Iterator<Item = Option<&'a str>> + Clone,
) -> impl Iterator<Item = (usize, String)> {
    let next = lines.clone().skip(1).chain([None]);
    lines.zip(next).enumerate().filter_map(|(at, (line, next))| {
        let line = line?;
        let term = former_term(line).or_else(|| broken_term(line, next?))?;
        Some((at + 1, term))
    })
}

/// The term that begins in one line and ends in the next.
fn broken_term(line: &str, next: &str) -> Option<String> {
    match former_term(next) {
        None => former_term(&format!("{} {}", line.trim_end(), next.trim_start())),
        Some(_) => None,
    }
}

/// The first term in a line that was given up, with its replacement. Text in backquotes is code.
fn former_term(line: &str) -> Option<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
    let found = FORMER_TERMS.iter().find(|(term, _)| has_term(&prose, term))?;
    Some(format!("{:?} was given up: {}", found.0, found.1))
}

/// True if the words of a term stand in a text.
fn has_term(text: &str, term: &str) -> bool {
    let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(term).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + term.len()..]);
        !is_inside(before.chars().next_back()) && !is_inside(after.chars().next())
    })
}

pub(super) fn is_path_from_root(quoted: &str) -> bool {
    ["crates/", "docs/", "fuzz/", ".ci/"].iter().any(|start| quoted.starts_with(start))
}

/// True for a path without placeholders.
pub(super) fn is_plain(quoted: &str) -> bool {
    quoted.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
}

/// Paths that the documents name in backquotes exist.
pub(super) fn paths_in_docs() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for document in documents()? {
        let text = fs::read_to_string(&document)?;
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = is_path_from_root(quoted) && is_plain(quoted);
            if is_path && !root().join(quoted).exists() {
                findings
                    .push(format!("{}: names {quoted}, which does not exist", shown(&document)));
            }
        }
    }
    Ok(findings)
}

/// No file names a path of a developer's machine.
pub(super) fn machine_paths(sources: &[Source]) -> Result<Vec<String>> {
    let words = [concat!("/wo", "rk/"), concat!("/ro", "ot/."), concat!("/ho", "me/")];
    let mut texts: Vec<(String, String)> = Vec::new();
    for source in sources {
        texts.push((source.path.display().to_string(), source.text.clone()));
    }
    for document in documents()? {
        texts.push((shown(&document), fs::read_to_string(&document)?));
    }
    let found = texts.iter().filter(|(_, text)| words.iter().any(|word| text.contains(word)));
    Ok(found.map(|(path, _)| format!("{path}: names a path of one machine")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(room: &str, text: &str) -> Source {
        Source { path: "crates/a.rs".into(), room: room.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn comments_without_a_subject_are_found() {
        assert!(has_pronoun("    /// Who has the lock."));
        assert!(has_pronoun("//! What is sent"));
        assert!(has_pronoun("// Nobody: dropped"));
        assert!(!has_pronoun("/// Whole objects."));
        assert!(!has_pronoun("let what = 1; // What"));
        assert!(is_long_comment(&format!("// {}", "x".repeat(COMMENT_COLUMNS))));
        assert!(!is_long_comment(&"x".repeat(2 * COMMENT_COLUMNS)));
    }

    #[test]
    fn former_names_are_refused_as_words_of_code_in_their_room() {
        let found = |room, text| former_names(&[source(room, text)]).len();
        assert_eq!(found("rbd", "use crate::Crowd;"), 1);
        assert_eq!(found("rbd", "// Crowd\nstruct CrowdLeft;"), 0);
        assert_eq!(found("pg", "struct Crowd;"), 0);
        assert_eq!(found("pg", "struct Errands;"), 1);
    }

    #[test]
    fn former_terms_are_refused_as_words_of_comments_and_of_prose() {
        let found =
            |text: &str| former_terms_of_comments(&[source("pg", text)], &[("osd", 1)]).len();
        assert_eq!(found("/// The monitor's Judgement."), 1);
        assert_eq!(found("//! A round that comes to nothing, and one more\n// of a promise"), 1);
        assert_eq!(found("let judgement = promise(); // the rest: crowded, promised_until"), 0);
        assert_eq!(found("/// `Promise` is a name of code; the rest is not."), 0);
        assert_eq!(found("/// A round that comes to\n    /// nothing."), 1);
        assert_eq!(found("/// A round that comes to\nlet nothing = 0;\n// nothing"), 0);
        assert_eq!(found("/// A round that comes to\n/// nothing, as a promise."), 1);
        let of_osd = |text| former_terms_of_comments(&[source("osd", text)], &[("osd", 1)]).len();
        assert_eq!(of_osd("// Nobody waits."), 0);
        assert_eq!(of_osd("// Nobody waits.\n// Nobody reads."), 1);
        assert!(former_term("a copy that is filled in (`backfill`)").is_some());
        assert!(former_term("a file, filled in-place").is_some());
        assert!(former_term("the rest of `rests`").is_none());
    }
}
