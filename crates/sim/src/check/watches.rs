//! A watcher that stays hears of every notification before its notifier is told that all have, or the
//! notifier is told that this one did not answer.
//!
//! A watch may be gone without its client's knowledge, because its object was removed while the client was
//! not connected. The next ping tells, so only who has a watch for longer than that certainly had it.

use crate::watching::{Completed, Notification, Span, Watching};
use engine::{Duration, Time};

/// A client finds out within this that its watch is gone: it pings three times within a watch's timeout of
/// 30 seconds.
pub const LOSS_NOTICED: Duration = Duration::from_secs(60);

/// `now` is when everything is over.
pub fn check(watching: &Watching, now: Time) -> Result<(), String> {
    for (number, notification) in watching.notifications.iter().enumerate() {
        let Some(completed) = &notification.completed else { continue };
        let spans = watching.spans.iter().filter(|span| span.object == notification.object);
        for span in spans.clone() {
            check_pair(number, notification, completed, span, now)?;
        }
        for answer in &completed.answers {
            let mut spans = spans.clone();
            let is_known = spans.any(|span| (span.actor, span.watch) == *answer);
            let is_early = watching.early.iter().any(|early| (early.0, early.1) == *answer);
            if !is_known && !is_early {
                return Err(format!("notification {number}: nobody is {answer:?}"));
            }
        }
    }
    Ok(())
}

fn check_pair(
    number: usize,
    notification: &Notification,
    completed: &Completed,
    span: &Span,
    now: Time,
) -> Result<(), String> {
    let answered = completed.answers.contains(&(span.actor, span.watch));
    let heard = span.heard.contains(&number);
    if answered && !heard {
        return Err(format!("notification {number} was answered by who did not hear it: {span:?}"));
    }
    let stayed = span.end.unwrap_or(now) > completed.at + LOSS_NOTICED;
    let was_there = span.begun < notification.invoked && stayed;
    if was_there && !heard && !completed.missed.contains(&span.watch) {
        return Err(format!("notification {number} was not heard by {span:?}: {notification:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rados::WatchId;
    use std::collections::BTreeSet;

    const LATER: Time = Time(1_000_000_000_000);

    fn watching(heard: bool, missed: bool) -> Watching {
        let mut watching = Watching::default();
        watching.begin(Time(1), 1, 0, WatchId(7));
        let number = watching.notify(Time(5), 0);
        if heard {
            watching.heard(1, WatchId(7), number);
        }
        let answers = heard.then_some((1, WatchId(7))).into_iter().collect();
        let missed = missed.then_some(WatchId(7)).into_iter().collect();
        let completed = Completed { at: Time(9), answers, missed };
        watching.notifications[number].completed = Some(completed);
        watching
    }

    #[test]
    fn a_watcher_hears_or_is_named() {
        assert!(check(&watching(true, false), LATER).is_ok());
        assert!(check(&watching(false, true), LATER).is_ok());
        assert!(check(&watching(false, false), LATER).unwrap_err().contains("not heard"));
    }

    #[test]
    fn whose_watch_may_have_been_gone_need_not_hear() {
        let mut ended = watching(false, false);
        ended.ended(Time(20), 1, WatchId(7));
        assert!(check(&ended, LATER).is_ok());
        assert!(check(&watching(false, false), Time(20)).is_ok());
    }

    #[test]
    fn answers_come_from_those_who_heard() {
        let mut watching = watching(false, true);
        let answers = BTreeSet::from([(1, WatchId(7))]);
        watching.notifications[0].completed.as_mut().unwrap().answers = answers;
        assert!(check(&watching, LATER).is_err());
    }
}
