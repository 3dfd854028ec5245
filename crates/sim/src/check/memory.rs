//! Memory budgets of OSDs hold after every step.

use osd::Osd;

/// Checks the budgets of messages, unless the sessions are those of `msgr`: these deliver messages that they
/// have received even after the session was paused.
pub fn check(osd: &Osd, is_wired: bool) -> Result<(), String> {
    match osd.excess().filter(|_| !is_wired) {
        None => Ok(()),
        Some(what) => Err(format!("osd.{} holds more than it may: {what}", osd.id())),
    }
}
