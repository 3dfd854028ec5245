//! `cluster_log`: an administrator's entry in the cluster log.

use super::answer::{Arguments, Sentence, text, words};
use crate::report::cluster_log::severity;
use types::Errno;

/// The severity (`CLOG_*`) and the text of the entry.
pub(crate) fn entry(arguments: &Arguments) -> Result<(u16, String), Sentence> {
    let level = text(arguments, "level");
    let unknown = || Sentence::new(Errno::INVAL, format!("unknown level '{level}'"));
    let severity = severity(level).ok_or_else(unknown)?;
    Ok((severity, words(arguments.get("message")).join(" ")))
}
