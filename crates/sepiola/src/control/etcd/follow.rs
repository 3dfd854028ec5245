//! Loading the state and following what is changed in it.

use super::Outbox;
use super::client::{Client, ENDLESS, Watch};
use super::proto::{WatchAsked, WatchProgressRequest, WatchRequest, WatchResponse};
use engine::RequestToken;
use mon::control::{Completion, Revision};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::Code;

/// How often a quiet watch is asked whether it is still one, and how long it may then be silent.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Pause before a watch that failed is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);
/// Pause before a load that is refused is tried again: somebody has to do something about it.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// How a watch ended.
enum End {
    /// It can go on elsewhere.
    Broken(String),
    /// Revisions that it was to tell are no longer kept.
    Compacted,
}

/// Answers a request for everything below `prefix`, and then tells all changes until it is dropped.
pub async fn load_and_follow(client: &Client, out: &Outbox, token: RequestToken, prefix: &str) {
    let revision = loop {
        match client.range(prefix, ENDLESS).await {
            Ok((entries, revision)) => {
                out.tell(Completion::Loaded { token, entries, revision });
                break revision;
            }
            Err(status) => {
                tracing::error!(reason = client.reason(&status), "the state cannot be loaded");
                sleep(REFUSED_PAUSE).await;
            }
        }
    };
    follow(client, out, revision).await;
}

async fn follow(client: &Client, out: &Outbox, mut known: Revision) {
    loop {
        let end = match client.watch(known + 1).await {
            Ok(watch) => relay(client, out, watch, &mut known).await,
            Err(status) => End::Broken(status.to_string()),
        };
        match end {
            End::Compacted => return out.tell(Completion::Missed),
            End::Broken(reason) => {
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
        return Err(End::Broken(response.cancel_reason));
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
        out.tell(Completion::Changed { events });
    }
    *known = newest.unwrap_or(0).max(*known);
    Ok(())
}
