//! Requests are executed once, and acknowledged data is present in the end.
//!
//! Every write carries a unique payload. So a payload that is twice in an object was written twice; and an
//! object that is only appended to must hold all acknowledged payloads, in an order that contradicts
//! neither real time nor the order of its clients.

use super::media::is_void;
use crate::history::{Entry, History, ObjectId};
use bytes::Bytes;
use engine::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Longer than the name of any payload, in bytes.
const NAME_MAX: usize = 32;

/// No payload occurs twice in any data that a client has read.
pub fn check_seen(history: &History) -> Result<(), String> {
    for entry in history.entries() {
        let Some(data) = seen_data(entry) else { continue };
        let mut seen = BTreeSet::new();
        if let Some((_, id)) = payloads(data).find(|(_, id)| !seen.insert(*id)) {
            let (object, id) = (entry.object, String::from_utf8_lossy(id));
            return Err(format!("object {object}: payload {id} is there twice: {data:?}"));
        }
    }
    Ok(())
}

fn seen_data(entry: &Entry) -> Option<&Bytes> {
    entry.completed.as_ref()?.outcome.as_ref().ok()?.data.as_ref()
}

/// The name of a payload: its bytes up to the colon.
fn id(payload: &[u8]) -> &[u8] {
    let end = payload.iter().position(|byte| *byte == b':');
    &payload[..end.unwrap_or(payload.len())]
}

/// Offsets and names of payloads whose beginning is in `data`.
fn payloads(data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let starts = data.iter().enumerate().filter(|(_, byte)| **byte == b'<');
    starts.filter_map(|(start, _)| {
        let rest = &data[start..];
        let length = rest.iter().take(NAME_MAX).position(|byte| *byte == b':')?;
        let is_name = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        rest[1..length].iter().all(is_name).then_some((start, &rest[..length]))
    })
}

/// Checks that the last read of an object that was only appended to has what was acknowledged before it. If
/// the object became unfound, no later read was answered.
pub fn check_journal(history: &History, object: ObjectId) -> Result<(), String> {
    let reads = |entry: &&Entry| !entry.action.is_write() && entry.action.snapshot().is_none();
    let last = history.of_object(object).filter(reads).filter(|entry| !is_void(entry)).last();
    let Some((last, completed)) = last.and_then(|last| Some((last, last.completed.as_ref()?)))
    else {
        return Ok(());
    };
    let seen = completed.outcome.as_ref().ok().and_then(|seen| seen.data.clone());
    check_content(history, object, &seen.unwrap_or_default(), last.invoked)
}

/// `data` is the content of an object that was only appended to, as a read found it that was invoked at
/// `read`.
fn check_content(
    history: &History,
    object: ObjectId,
    data: &[u8],
    read: Time,
) -> Result<(), String> {
    let found: BTreeMap<&[u8], usize> =
        payloads(data).map(|(position, id)| (id, position)).collect();
    let mut acknowledged: Vec<(usize, &Entry)> = Vec::new();
    let is_before = |entry: &&Entry| {
        entry.succeeded() && entry.completed.as_ref().is_some_and(|completed| completed.at <= read)
    };
    for entry in history.of_object(object).filter(is_before) {
        let Some(payload) = entry.action.payload() else { continue };
        match found.get(id(payload)) {
            Some(position) if data[*position..].starts_with(payload) => {
                acknowledged.push((*position, entry));
            }
            _ => {
                let data = String::from_utf8_lossy(data);
                return Err(format!("object {object}: acknowledged {payload:?} is lost: {data}"));
            }
        }
    }
    acknowledged.sort_by_key(|(position, _)| *position);
    let mut invoked_max = None;
    for (_, entry) in acknowledged {
        let returned = entry.completed.as_ref().map(|completed| completed.at);
        if returned < invoked_max {
            let payload = entry.action.payload();
            return Err(format!(
                "object {object}: {payload:?} was returned before what precedes it was asked for"
            ));
        }
        invoked_max = invoked_max.max(Some(entry.invoked));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, Observation};
    use types::{EVersion, Errno};
    use wire::SnapContext;

    fn history(requests: &[(u64, u64, &'static str)]) -> History {
        let mut history = History::default();
        for (invoked, returned, text) in requests {
            let data = Bytes::from_static(text.as_bytes());
            let index = history.invoke(
                Time(*invoked),
                1,
                0,
                Action::Append { data },
                SnapContext::default(),
            );
            if *returned > 0 {
                let outcome = Ok(Observation::default());
                history.complete(index, Time(*returned), outcome, EVersion::ZERO);
            }
        }
        history
    }

    #[test]
    fn acknowledged_payloads_must_be_there_in_order() {
        let history = history(&[(1, 2, "<1:a>"), (3, 0, "<2:b>"), (4, 5, "<3:c>")]);
        assert!(check_content(&history, 0, b"<1:a><3:c>", Time(9)).is_ok());
        assert!(check_content(&history, 0, b"<1:a><3:c><2:b>", Time(9)).is_ok());
        assert!(check_content(&history, 0, b"<1:a><2:b>", Time(9)).unwrap_err().contains("lost"));
        assert!(check_content(&history, 0, b"<3:c><1:a>", Time(9)).is_err());
    }

    #[test]
    fn the_last_read_that_was_answered_has_what_was_acknowledged_before_it() {
        let mut history = history(&[(1, 2, "<1:a>"), (6, 7, "<2:b>")]);
        let mut look = |at, seen: Result<&'static str, Errno>| {
            let index = history.invoke(Time(at), 1, 0, Action::Look, SnapContext::default());
            let seen = seen.map(|text| Observation {
                data: Some(Bytes::from_static(text.as_bytes())),
                ..Observation::default()
            });
            history.complete(index, Time(at + 1), seen, EVersion::ZERO);
            check_journal(&history, 0)
        };
        assert!(look(3, Err(Errno::IO)).is_ok(), "nothing was read");
        assert!(look(4, Ok("<1:a>")).is_ok());
        assert!(look(8, Err(Errno::IO)).is_ok(), "the second one was acknowledged later");
        assert!(look(9, Ok("<1:a>")).unwrap_err().contains("lost"));
    }

    #[test]
    fn an_object_that_is_not_found_is_not_checked_by_its_last_read() {
        let mut history = history(&[(1, 2, "<1:a>")]);
        let look = |history: &mut History, at| {
            history.invoke(Time(at), 1, 0, Action::Look, SnapContext::default())
        };
        let answered = look(&mut history, 3);
        history.complete(answered, Time(4), Err(Errno::NOENT), EVersion::ZERO);
        assert!(check_journal(&history, 0).unwrap_err().contains("lost"));
        look(&mut history, 5);
        assert!(check_journal(&history, 0).is_ok());
    }
}
