//! House rules that a compiler does not check.
//!
//! One rule per function; each returns what it found, as `file: what is wrong and what to do`.

mod arrows;
mod circles;
mod docs;
mod examples;
mod health;
mod shape;
mod sources;
mod traces;
mod words;

use anyhow::{Result, bail};
pub use examples::crates_with_examples;

/// Checks all rules; fails with the list of findings.
pub fn tidy() -> Result<()> {
    let sources = sources::sources()?;
    let mut findings = Vec::new();
    findings.extend(arrows::arrows()?);
    findings.extend(words::headers(&sources));
    findings.extend(arrows::outside_world(&sources));
    findings.extend(arrows::reserved_names(&sources));
    findings.extend(circles::circles(&sources));
    findings.extend(shape::sizes(&sources));
    findings.extend(shape::long_functions(&sources));
    findings.extend(shape::ownership(&sources));
    findings.extend(docs::documented(&sources));
    findings.extend(words::comments(&sources));
    findings.extend(words::former_names(&sources));
    findings.extend(words::former_terms(&sources)?);
    findings.extend(words::paths_in_docs()?);
    findings.extend(traces::traces(&sources)?);
    findings.extend(traces::crates_in_overview(&sources)?);
    findings.extend(words::machine_paths(&sources)?);
    findings.extend(arrows::dependencies_are_explained()?);
    findings.extend(health::health_codes(&sources)?);
    if findings.is_empty() {
        println!("tidy: {} source files are in order", sources.len());
        return Ok(());
    }
    bail!("tidy found:\n  {}", findings.join("\n  "))
}
