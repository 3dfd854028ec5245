//! Notifications reach all watchers: a watch that stays hears of every notification before the notifier
//! learns that all have acknowledged, or the notifier learns that this watch did not.
//!
//! A watch may end without its client's knowledge, because its object was removed, or because the client
//! was not heard for long. Requests on behalf of such a watch are refused; so a watch for which a request
//! made after a notification was confirmed existed all the time before.
//!
//! In a healthy cluster, each client either learns that its watch is gone, or gets it confirmed.

use crate::watching::{Completed, Notification, Span, Watching};
use engine::{Duration, Time};

/// Time in which a client that reaches all OSDs learns about its watch: it pings three times within a
/// watch's timeout of 30 seconds.
pub const LOSS_NOTICED: Duration = Duration::from_secs(60);

/// Checks every notification that completed.
pub fn check(watching: &Watching) -> Result<(), String> {
    for (number, notification) in watching.notifications.iter().enumerate() {
        let Some(completed) = &notification.completed else { continue };
        let spans = watching.spans.iter().filter(|span| span.object == notification.object);
        for span in spans.clone() {
            check_pair(number, notification, completed, span)?;
        }
        for answer in &completed.answers {
            let mut spans = spans.clone();
            let is_known = spans.any(|span| (span.actor, span.watch) == *answer);
            let is_early = watching.early.iter().any(|early| (early.0, early.1) == *answer);
            if !is_known && !is_early {
                return Err(format!("notification {number}: no watch is {answer:?}"));
            }
        }
    }
    Ok(())
}

/// `now` is when the cluster has been healthy for [`LOSS_NOTICED`].
pub fn check_open(watching: &Watching, now: Time) -> Result<(), String> {
    let mut open = watching.spans.iter().filter(|span| span.end.is_none());
    match open.find(|span| span.confirmed + LOSS_NOTICED < now) {
        Some(span) => Err(format!("no OSD confirms {span:?}")),
        None => Ok(()),
    }
}

fn check_pair(
    number: usize,
    notification: &Notification,
    completed: &Completed,
    span: &Span,
) -> Result<(), String> {
    let answered = completed.answers.contains(&(span.actor, span.watch));
    let heard = span.heard.contains(&number);
    if answered && !heard {
        return Err(format!(
            "notification {number} was acknowledged by a watch that did not receive it: {span:?}"
        ));
    }
    let was_there = span.begun < notification.invoked && span.confirmed >= completed.at;
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
        watching.confirm(Time(12), 1, |_| Some(Duration::from_nanos(3)));
        watching
    }

    #[test]
    fn a_watcher_hears_or_is_named() {
        assert!(check(&watching(true, false)).is_ok());
        assert!(check(&watching(false, true)).is_ok());
        assert!(check(&watching(false, false)).unwrap_err().contains("not heard"));
        let mut ended = watching(false, false);
        ended.ended(Time(20), 1, WatchId(7));
        assert!(check(&ended).unwrap_err().contains("not heard"));
    }

    #[test]
    fn a_watch_that_may_have_ended_need_not_hear() {
        let mut early = watching(false, false);
        early.spans[0].confirmed = Time(8);
        assert!(check(&early).is_ok());
    }

    #[test]
    fn a_watch_is_gone_or_confirmed_in_the_end() {
        let later = Time(9) + LOSS_NOTICED + Duration::from_nanos(1);
        let mut watching = watching(true, false);
        assert!(check_open(&watching, later).unwrap_err().contains("confirms"));
        watching.ended(Time(20), 1, WatchId(7));
        assert!(check_open(&watching, later).is_ok());
    }

    #[test]
    fn only_watches_that_heard_acknowledge() {
        let mut watching = watching(false, true);
        let answers = BTreeSet::from([(1, WatchId(7))]);
        watching.notifications[0].completed.as_mut().unwrap().answers = answers;
        assert!(check(&watching).is_err());
    }
}
