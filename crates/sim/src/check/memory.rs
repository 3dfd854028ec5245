//! OSDs hold no more than their budgets allow, after every step.

use osd::Osd;

/// Where a session that is to be paused is not read from any more. Sessions of `msgr` give what they have received
/// already.
pub fn check(osd: &Osd, is_wired: bool) -> Result<(), String> {
    match osd.excess().filter(|_| !is_wired) {
        None => Ok(()),
        Some(what) => Err(format!("osd.{} holds more than it may: {what}", osd.id())),
    }
}
