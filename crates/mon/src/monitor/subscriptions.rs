//! Subscriptions of sessions to the topics of services.

use crate::service::{Reader, Topic};
use crate::services::{Services, topic_of};
use crate::sessions::{Session, Sessions, Subscription};
use crate::state::State;
use auth::Rwx;
use engine::{ConnId, Message, Time};
use types::Epoch;
use wire::{MonSubscribe, SubscribeItem};

/// Adds or replaces subscriptions of a session.
pub(super) fn add(state: &State, session: &mut Session, asked: &MonSubscribe) {
    for (what, item) in &asked.what {
        let Some((_, topic)) = topic_of(what) else { continue };
        if !topic.needs.is_none_or(|service| session.may(service, Rwx::READ)) {
            continue;
        }
        if topic.excludes_others {
            session.subscriptions.retain(|other, _| !topic.pattern.matches(other));
        }
        session.subscriptions.insert(what.clone(), begun(state, topic, *item));
    }
}

fn begun(state: &State, topic: &Topic, item: SubscribeItem) -> Subscription {
    let next = (topic.first)(state, item);
    Subscription { next, onetime: item.is_onetime(), lingers_until: None }
}

/// Subscribes a session to OSD maps from an epoch on, unless it is subscribed already.
pub(super) fn add_osdmap(session: &mut Session, from: Epoch) {
    let next = u64::from(from.0).max(1);
    let subscription = Subscription { next, onetime: false, lingers_until: None };
    session.subscriptions.entry("osdmap".to_owned()).or_insert(subscription);
}

/// The messages that the subscriptions of a session have not been sent yet. Ends subscriptions that are over.
pub(super) fn due(
    now: Time,
    state: &State,
    services: &mut Services,
    sessions: &mut Sessions,
    conn: ConnId,
) -> Vec<Message> {
    let Some(session) = sessions.get_mut(conn) else { return Vec::new() };
    let mut messages = Vec::new();
    let mut subscriptions = std::mem::take(&mut session.subscriptions);
    let of_session = &*session;
    let peer = of_session.peer();
    let reader = Reader { name: &peer.name, features: peer.features, session: of_session };
    subscriptions.retain(|what, subscription| {
        if subscription.lingers_until.is_some_and(|until| until <= now) {
            return false;
        }
        let Some((id, topic)) = topic_of(what) else { return false };
        let before = messages.len();
        services.at(id).publish(state, reader, what, subscription, &mut messages);
        stays(now, topic, subscription, messages.len() > before)
    });
    session.subscriptions = subscriptions;
    messages
}

/// Whether a subscription continues after it was served.
fn stays(now: Time, topic: &Topic, subscription: &mut Subscription, was_served: bool) -> bool {
    let is_done = subscription.onetime && was_served && subscription.lingers_until.is_none();
    if is_done {
        subscription.lingers_until = topic.lingers.map(|lingers| now + lingers);
    }
    !is_done || topic.lingers.is_some()
}
