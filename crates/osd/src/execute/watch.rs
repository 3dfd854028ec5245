//! Watches and notifications in execution: the stored watchers, and the effects to perform.

use super::context::{Context, Effect, Stop};
use crate::limits;
use codec::Reader;
use pg::{WatcherInfo, WatcherKey};
use types::Errno;
use wire::OsdOp;
use wire::op::watch_op;
use wire::osd_op::WatchArguments;
use wire::watch::{NotifyAck, NotifyRequest, Watcher, WatcherListing};

/// ENOTCONN: there is no such watch.
const NOT_CONNECTED: Errno = Errno(107);

pub(super) fn watch(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    if !context.exists {
        return Err(Errno::NOENT.into());
    }
    let arguments = op.watch_arguments();
    let caller = context.input.caller;
    let key = WatcherKey { cookie: arguments.cookie, name: caller.request.name };
    let timeout_seconds = match arguments.timeout_seconds {
        0 => limits::WATCH_TIMEOUT_SECONDS_DEFAULT,
        seconds => seconds,
    };
    let info = WatcherInfo { timeout_seconds, addr: caller.addr };
    apply_watch(context, &arguments, key, info)
}

fn apply_watch(
    context: &mut Context<'_>,
    arguments: &WatchArguments,
    key: WatcherKey,
    info: WatcherInfo,
) -> Result<i32, Stop> {
    let known = context.info.watchers.contains_key(&key);
    match arguments.op {
        watch_op::WATCH | watch_op::LEGACY_WATCH => {
            if !known {
                context.info.watchers.insert(key, info);
                context.touched = true;
            }
            let will_ping = arguments.op == watch_op::WATCH;
            context.effects.push(Effect::Connect { key, info, will_ping });
        }
        watch_op::RECONNECT | watch_op::PING if !known => return Err(NOT_CONNECTED.into()),
        watch_op::RECONNECT => {
            context.effects.push(Effect::Connect { key, info, will_ping: true });
        }
        watch_op::PING => {
            if !(context.input.is_connected)(&key) {
                return Err(Errno::TIMEDOUT.into());
            }
            context.effects.push(Effect::Ping { key });
        }
        watch_op::UNWATCH if known => {
            context.info.watchers.remove(&key);
            context.touched = true;
            context.effects.push(Effect::Disconnect { key, tell_client: false });
        }
        _ => {}
    }
    Ok(0)
}

pub(super) fn list_watchers(context: &mut Context<'_>) -> Result<i32, Stop> {
    let entry = |(key, info): (&WatcherKey, &WatcherInfo)| Watcher {
        name: key.name,
        cookie: key.cookie,
        timeout_seconds: info.timeout_seconds,
        addr: info.addr,
    };
    let entries = context.info.watchers.iter().map(entry).collect();
    context.output = codec::encode_to_bytes(&WatcherListing { entries });
    Ok(0)
}

pub(super) fn notify(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let request: NotifyRequest = Reader::new(&op.input).value().unwrap_or_default();
    let timeout_seconds = match request.timeout_seconds {
        0 => limits::NOTIFY_TIMEOUT_SECONDS_DEFAULT,
        seconds => seconds,
    };
    let sent = context.effects.iter().filter(|effect| matches!(effect, Effect::Notify { .. }));
    let notify_id = context.input.notify_id + sent.count() as u64;
    let (cookie, payload) = (op.notify_cookie(), request.payload);
    context.effects.push(Effect::Notify { notify_id, cookie, timeout_seconds, payload });
    context.output = codec::encode_to_bytes(&notify_id);
    Ok(context.result)
}

pub(super) fn notify_ack(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let effect = match Reader::new(&op.input).value::<NotifyAck>() {
        Ok(NotifyAck { notify_id, cookie, reply }) => {
            Effect::Acknowledge { notify_id, cookie: Some(cookie), reply }
        }
        // Old clients send the notification's id in place of the watch's cookie.
        Err(_) => Effect::Acknowledge {
            notify_id: op.watch_arguments().cookie,
            cookie: None,
            reply: Default::default(),
        },
    };
    context.effects.push(effect);
    Ok(context.result)
}
