//! Writes of one client to one object are acknowledged in the order of invocation, including those that it
//! resent.

use super::linearizable::describe;
use crate::history::Entry;
use crate::model::ActorId;
use engine::Time;
use std::collections::BTreeMap;

/// Checks the order of acknowledgements. `may_overtake(earlier, later)` exempts pairs of writes.
pub fn check<'a>(
    entries: impl Iterator<Item = &'a Entry>,
    may_overtake: impl Fn(&Entry, &Entry) -> bool,
) -> Result<(), String> {
    // The write of each client that was acknowledged last so far.
    let mut last: BTreeMap<ActorId, (Time, &Entry)> = BTreeMap::new();
    for entry in entries.filter(|entry| entry.succeeded() && entry.action.is_write()) {
        let Some(done) = &entry.completed else { continue };
        match last.get(&entry.actor) {
            Some((at, before)) if *at > done.at => {
                if !may_overtake(before, entry) {
                    let (first, second) = (describe(entry), describe(before));
                    return Err(format!("acknowledged too early:\n  {first}\n  {second}"));
                }
            }
            _ => drop(last.insert(entry.actor, (done.at, entry))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::model::{Action, Observation};
    use types::EVersion;
    use wire::SnapContext;

    /// Writes of one client with these times of acknowledgement, in the order of invocation.
    fn answered(times: &[u64]) -> History {
        let mut history = History::default();
        for _ in times {
            let action = Action::Append { data: "data".into() };
            history.invoke(Time(1), 1, 0, action, SnapContext::default());
        }
        for (index, at) in times.iter().enumerate() {
            history.complete(index, Time(*at), Ok(Observation::default()), EVersion::ZERO);
        }
        history
    }

    #[test]
    fn answers_follow_each_other_as_the_requests_did() {
        let verdict = |times: &[u64]| check(answered(times).entries().iter(), |_, _| false);
        assert!(verdict(&[2, 3, 3, 4]).is_ok());
        assert!(verdict(&[5, 2, 3, 4]).unwrap_err().contains("too early"));
        assert!(verdict(&[2, 4, 3]).is_err());
        assert!(check(answered(&[3, 2]).entries().iter(), |_, _| true).is_ok());
    }
}
