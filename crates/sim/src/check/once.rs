//! Requests are executed once, and what was acknowledged is there in the end.
//!
//! Every write carries a payload that no other has. So a payload that is twice in an object was
//! written twice; and an object that is only appended to must hold all acknowledged payloads, in an
//! order that contradicts neither real time nor its clients.

use crate::history::{Entry, History, ObjectId};
use bytes::Bytes;

/// No payload is twice in any data that a client has seen.
pub fn check_seen(history: &History) -> Result<(), String> {
    for object in objects(history) {
        let payloads: Vec<&Bytes> =
            history.of_object(object).filter_map(|entry| entry.action.payload()).collect();
        for entry in history.of_object(object) {
            if let Some(data) = seen_data(entry) {
                check_unique(object, &payloads, data)?;
            }
        }
    }
    Ok(())
}

fn objects(history: &History) -> std::collections::BTreeSet<ObjectId> {
    history.entries().iter().map(|entry| entry.object).collect()
}

fn seen_data(entry: &Entry) -> Option<&Bytes> {
    entry.completed.as_ref()?.outcome.as_ref().ok()?.data.as_ref()
}

fn check_unique(object: ObjectId, payloads: &[&Bytes], data: &[u8]) -> Result<(), String> {
    match payloads.iter().find(|payload| positions(data, payload).nth(1).is_some()) {
        Some(payload) => {
            Err(format!("object {object}: payload {payload:?} is there twice: {data:?}"))
        }
        None => Ok(()),
    }
}

/// `data` is the last content of an object that was only appended to.
pub fn check_journal(history: &History, object: ObjectId, data: &[u8]) -> Result<(), String> {
    let mut acknowledged: Vec<(usize, &Entry)> = Vec::new();
    for entry in history.of_object(object) {
        let Some(payload) = entry.action.payload() else { continue };
        match positions(data, payload).next() {
            Some(position) if entry.succeeded() => acknowledged.push((position, entry)),
            None if entry.succeeded() => {
                return Err(format!("object {object}: acknowledged {payload:?} is lost"));
            }
            _ => {}
        }
    }
    acknowledged.sort_by_key(|(position, _)| *position);
    let mut invoked_max = None;
    for (_, entry) in acknowledged {
        let returned = entry.completed.as_ref().map(|completed| completed.at);
        if returned < invoked_max {
            let payload = entry.action.payload();
            return Err(format!("object {object}: {payload:?} was returned before what precedes it was asked for"));
        }
        invoked_max = invoked_max.max(Some(entry.invoked));
    }
    Ok(())
}

fn positions<'a>(data: &'a [u8], payload: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let windows = data.windows(payload.len().max(1)).enumerate();
    windows.filter(move |(_, window)| *window == payload).map(|(position, _)| position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, Observation};
    use engine::Time;
    use types::EVersion;

    fn history(requests: &[(u64, u64, &'static str)]) -> History {
        let mut history = History::default();
        for (invoked, returned, text) in requests {
            let data = Bytes::from_static(text.as_bytes());
            let index = history.invoke(Time(*invoked), 1, 0, Action::Append { data });
            if *returned > 0 {
                let outcome = Ok(Observation::default());
                history.complete(index, Time(*returned), outcome, EVersion::ZERO);
            }
        }
        history
    }

    #[test]
    fn acknowledged_payloads_must_be_there_in_order() {
        let history = history(&[(1, 2, "<a>"), (3, 0, "<b>"), (4, 5, "<c>")]);
        assert!(check_journal(&history, 0, b"<a><c>").is_ok());
        assert!(check_journal(&history, 0, b"<a><c><b>").is_ok());
        assert!(check_journal(&history, 0, b"<a><b>").unwrap_err().contains("lost"));
        assert!(check_journal(&history, 0, b"<c><a>").is_err());
    }
}
