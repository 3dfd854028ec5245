//! Loading the state and following what is changed in it.

use crate::client::{Client, LOAD_PATIENCE, Watch, is_passing};
use crate::outbox::Outbox;
use crate::proto::{WatchAsked, WatchProgressRequest, WatchRequest, WatchResponse};
use control::{Completion, Revision};
use engine::RequestToken;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

/// How often a quiet watch is asked whether it is still one, and how long it may then be silent.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Pause before a watch that failed is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);
/// Pause before a load that is refused is tried again: the operator has to change something first.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// Loads in a row that may be overtaken by others' writes before that is told.
const OVERTAKEN_MAX: u32 = 5;
/// While nothing can be watched, all is loaded so often.
const UNWATCHED_MAX: Duration = Duration::from_secs(5);

/// How a watch ended.
enum End {
    /// It can go on elsewhere.
    Broken(String),
    /// The members answer, and allow none.
    Refused(String),
    /// Revisions that it was to tell are no longer kept.
    Compacted,
}

/// Answers a request for everything below `prefix`, and then tells all changes until it is dropped.
pub(crate) async fn load_and_follow(
    client: &Client,
    out: &Outbox,
    token: RequestToken,
    prefix: &str,
) {
    let mut overtaken = 0;
    let revision = loop {
        let status = match client.range(prefix, LOAD_PATIENCE).await {
            Ok((entries, revision)) => {
                out.send(Completion::Loaded { token, entries, revision });
                break revision;
            }
            Err(status) => status,
        };
        // It took so long that what it began with is no longer kept.
        if matches!(status.code(), Code::DataLoss | Code::OutOfRange) && overtaken < OVERTAKEN_MAX {
            overtaken += 1;
            continue;
        }
        out.send(Completion::Unread { token, reason: client.reason(&status) });
        sleep(if is_passing(&status) { REOPEN_PAUSE } else { REFUSED_PAUSE }).await;
    };
    follow(client, out, token, revision).await;
}

async fn follow(client: &Client, out: &Outbox, token: RequestToken, mut known: Revision) {
    let mut watched = Instant::now();
    loop {
        let end = match client.watch(known + 1).await {
            Ok(watch) => {
                let opened = Instant::now();
                let end = relay(client, out, watch, &mut known).await;
                // One that is refused was open for a moment, too.
                if opened.elapsed() >= UNWATCHED_MAX {
                    watched = Instant::now();
                }
                end
            }
            Err(status) if is_passing(&status) => End::Broken(status.to_string()),
            Err(status) => End::Refused(client.reason(&status)),
        };
        match end {
            End::Compacted => return out.send(Completion::Missed),
            End::Refused(reason) if watched.elapsed() >= UNWATCHED_MAX => {
                let reason = format!("changes cannot be watched: {reason}");
                out.send(Completion::Unread { token, reason });
                return out.send(Completion::Missed);
            }
            End::Broken(reason) | End::Refused(reason) => {
                tracing::debug!(reason, "the watch of etcd is opened again");
                client.give_up_member();
                sleep(REOPEN_PAUSE).await;
            }
        }
    }
}

/// Passes on what a watch tells, as long as it tells anything.
async fn relay(client: &Client, out: &Outbox, mut watch: Watch, known: &mut Revision) -> End {
    let mut is_asked = false;
    loop {
        let patience = if is_asked { SILENCE_MAX } else { PROGRESS_INTERVAL };
        match timeout(patience, watch.responses.message()).await {
            Ok(Ok(Some(response))) => {
                is_asked = false;
                if let Err(end) = take(client, out, response, known).await {
                    return end;
                }
            }
            Ok(Ok(None)) => return End::Broken("it was ended".to_owned()),
            Ok(Err(status)) => return End::Broken(status.to_string()),
            Err(_) if is_asked => return End::Broken("it says nothing".to_owned()),
            Err(_) => {
                is_asked = true;
                let progress = WatchAsked::Progress(WatchProgressRequest {});
                if watch.requests.try_send(WatchRequest { request: Some(progress) }).is_err() {
                    return End::Broken("it takes no requests".to_owned());
                }
            }
        }
    }
}

async fn take(
    client: &Client,
    out: &Outbox,
    response: WatchResponse,
    known: &mut Revision,
) -> Result<(), End> {
    if response.compact_revision != 0 {
        return Err(End::Compacted);
    }
    if response.canceled {
        return Err(End::Refused(response.cancel_reason));
    }
    let newest = response.events.iter().filter_map(|event| event.kv.as_ref());
    let newest = newest.map(|kv| kv.mod_revision as Revision).max();
    let mut events = Vec::new();
    for event in response.events {
        // Pieces that are gone were of a value that is no longer the key's: all is loaded again.
        let event = client.event(event).await.map_err(|status| match status.code() {
            Code::DataLoss | Code::OutOfRange => End::Compacted,
            _ => End::Broken(client.reason(&status)),
        })?;
        events.extend(event);
    }
    if !events.is_empty() {
        out.send(Completion::Changed { events });
    }
    *known = newest.unwrap_or(0).max(*known);
    Ok(())
}
