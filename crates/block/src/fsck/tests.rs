//! Checks of sound stores, and of each kind of damage.

pub(crate) mod builder;
mod devices;
pub(crate) mod held;
mod metadata;
mod objects;
mod repairs;
mod sentences;

use super::{CheckOptions, FindingKind, Report, check};
use crate::tree::{PageSource, PageSpace};
use builder::{Builder, Memory};

fn deep() -> CheckOptions {
    CheckOptions { deep: true, ..CheckOptions::default() }
}

fn run(memory: &Memory) -> Report {
    check(&mut memory.clone(), &deep())
}

/// Kinds of findings without duplicates.
fn kinds(report: &Report) -> Vec<FindingKind> {
    report.counts.keys().copied().collect()
}

/// Asserts that a check finds this kind and no other, and that one finding contains `text`.
#[track_caller]
fn assert_finds(memory: &Memory, expected: &[FindingKind], text: &str) -> Report {
    let report = run(memory);
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(kinds(&report), expected, "\n{report}");
    assert!(report.findings.iter().any(|finding| finding.to_string().contains(text)), "\n{report}");
    for finding in &report.findings {
        let line = finding.to_string();
        assert!(!line.contains('\n') && line.starts_with(finding.kind.name()), "{line}");
    }
    report
}

/// Marks unused pages as used.
fn leak_pages(pages: &mut PageSpace) {
    pages.allocate_run(3).expect("there are free pages");
}

#[test]
fn a_sound_store_has_no_findings() {
    for has_fast in [false, true] {
        let mut builder = Builder::sound_on(has_fast);
        let report = run(&builder.build());
        assert!(report.is_clean(), "\n{report}");
        let contents = report.contents;
        assert_eq!((contents.objects, contents.segments, contents.omap_pairs), (5, 2, 2));
        assert_eq!(contents.checked_blocks, contents.mapped_blocks);
        builder.records.push((builder.record(), Vec::new()));
        let report = run(&builder.build());
        assert!(report.is_clean() && report.log.unwrap().records == 1);
    }
}

#[test]
fn without_findings_the_store_is_walked_once_and_data_is_left_alone() {
    let memory = Builder::sound().build();
    let report = check(&mut memory.clone(), &CheckOptions::default());
    assert!(report.is_clean() && report.contents.checked_blocks == 0);
}

#[test]
fn findings_beyond_the_limit_are_counted() {
    let mut builder = Builder::sound();
    for block in 0..20 {
        let start = builder.geometry.space.end() - 2 * (block + 1);
        builder.space.take(crate::device::Extent::new(start, 1)).unwrap();
    }
    let options = CheckOptions { findings_max: 5, ..CheckOptions::default() };
    let report = check(&mut builder.build(), &options);
    assert_eq!((report.findings.len(), report.omitted()), (5, 15));
    assert_eq!(report.counts[&FindingKind::BlockLeaked], 20);
}
