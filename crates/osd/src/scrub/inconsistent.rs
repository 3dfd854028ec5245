//! The findings of the last scrub for clients (`rados list-inconsistent-obj` and
//! `list-inconsistent-snapset`, the operation `SCRUBLS`).

use super::state::GroupScrub;
use bytes::Bytes;
use codec::{Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{Epoch, Errno, HObject};

/// Findings in one reply.
const ENTRIES_MAX: u64 = 1024;

/// `scrub_ls_arg_t`
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    /// The interval of the pages that the client has; zero if it has none.
    interval: Epoch,
    wants_snapsets: bool,
    after: (Bytes, Bytes, u64),
    entries_max: u64,
}

impl GroupScrub {
    /// A page of findings, and the result of the operation. `ENOENT` if no scrub has ended in this
    /// interval, `EAGAIN` as the result if the client's pages are of an earlier one.
    pub fn list_inconsistent(
        &self,
        interval: Epoch,
        arguments: &Bytes,
    ) -> std::result::Result<(i32, Bytes), Errno> {
        let arguments = decode_arguments(&mut Reader::new(arguments)).map_err(|_| Errno::INVAL)?;
        if self.findings_of != Some(interval) || self.running.is_some() {
            return Err(Errno::NOENT);
        }
        let is_outdated = arguments.interval.0 != 0 && arguments.interval != interval;
        let is_after = |name: &&HObject| {
            let place = (name.name.clone(), name.namespace.clone(), name.snap.0);
            arguments.after.0.is_empty() || place > arguments.after
        };
        let mut found = match arguments.wants_snapsets {
            true => encoded(&self.snap_findings, is_after),
            false => encoded(&self.findings, is_after),
        };
        // In the order of the client's cursor: by name, namespace and snapshot.
        found.sort_by_key(|(name, _)| (name.name.clone(), name.namespace.clone(), name.snap.0));
        found.truncate(match is_outdated {
            true => 0,
            false => arguments.entries_max.min(ENTRIES_MAX) as usize,
        });
        let mut w = Writer::new();
        w.versioned(1, 1, |w| {
            w.value(&interval);
            w.list(&found, |w, (_, finding)| w.blob(finding));
        });
        let result = if is_outdated { Errno::AGAIN.negative() } else { 0 };
        Ok((result, w.into_bytes()))
    }
}

fn encoded<T: Encode>(
    findings: &BTreeMap<HObject, T>,
    is_wanted: impl Fn(&&HObject) -> bool,
) -> Vec<(&HObject, Bytes)> {
    let wanted = findings.iter().filter(|(name, _)| is_wanted(name));
    wanted.map(|(name, finding)| (name, codec::encode_to_bytes(finding))).collect()
}

fn decode_arguments(r: &mut Reader<'_>) -> Result<Arguments> {
    r.versioned("arguments of a list of inconsistencies", 1, |r, _| {
        Ok(Arguments {
            interval: r.value()?,
            wants_snapsets: r.u32("snapsets")? != 0,
            after: (r.value()?, r.value()?, r.u64("snapshot")?),
            entries_max: r.u64("entries")?,
        })
    })
}
