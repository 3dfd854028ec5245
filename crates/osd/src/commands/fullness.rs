//! `injectfull`: makes the disk appear fuller than it is.

use super::answer::{Arguments, Sentence, integer, text};
use crate::report::usage::Injected;
use maps::OsdMap;
use types::Errno;

/// Above the share at which `osd_failsafe_full_ratio` refuses writes.
const FAILSAFE_USED: f64 = 0.98;
/// So that rounding does not leave a disk just below its ratio.
const SLIGHTLY_MORE: f64 = 0.001;

/// The fill level to simulate; `None` ends the simulation.
pub(crate) fn level(arguments: &Arguments, map: &OsdMap) -> Result<Option<Injected>, Sentence> {
    let (kind, count) = (text(arguments, "type"), integer(arguments, "count")?);
    let used = match if kind.is_empty() { "full" } else { kind } {
        "none" => None,
        "nearfull" => Some(f64::from(map.nearfull_ratio)),
        "backfillfull" => Some(f64::from(map.backfillfull_ratio)),
        "full" => Some(f64::from(map.full_ratio)),
        "failsafe" => Some(FAILSAFE_USED),
        other => {
            let text = format!(
                "unrecognized full type '{other}': \
                 expected none, nearfull, backfillfull, full or failsafe"
            );
            return Err(Sentence::new(Errno::INVAL, text));
        }
    };
    let reports = count.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
    let used = used.map(|used| (used + SLIGHTLY_MORE).min(1.0));
    Ok(used.map(|used| Injected { used, reports }))
}
