//! How a client is evicted: the monitor puts its addresses on the blocklist.

use crate::peer::is_of_one_client;
use engine::Duration;
use rados::Steps;
use types::{EntityAddrVec, Epoch, Errno};

/// Pause before the monitor is asked again that could not answer.
pub(super) const RETRY: Duration = Duration::from_secs(2);
/// Errors of a monitor that does not let this server evict clients. Any other one may pass, and no other
/// server would fare better.
const REFUSALS: [Errno; 2] = [Errno::PERM, Errno::ACCES];

/// The monitor does not evict clients for this server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the monitor refuses to put client {client} on the blocklist: {error}{}; give the server's key \
     the capabilities mon 'allow profile mds'",
    if text.is_empty() { String::new() } else { format!(" ({text})") }
)]
pub(super) struct Refusal {
    client: u64,
    error: Errno,
    /// Text of the monitor.
    text: String,
}

/// Puts addresses on the blocklist; returns an OSD map that has them. A monitor that cannot answer is asked
/// until it can: others wait for the client meanwhile, as they would for a successor of this server.
pub(super) async fn evict(
    steps: Steps,
    client: u64,
    addrs: EntityAddrVec,
) -> Result<Epoch, Refusal> {
    if !addrs.0.iter().any(is_of_one_client) {
        tracing::warn!(
            client,
            ?addrs,
            "no address of the client can be blocklisted: its session ends without a fence, and OSDs do not refuse \
             its writes"
        );
    }
    loop {
        match attempt(&steps, &addrs).await {
            Ok(epoch) => return Ok(epoch),
            Err((error, text)) if REFUSALS.contains(&error) => {
                return Err(Refusal { client, error, text });
            }
            Err((error, text)) => {
                tracing::warn!(client, %error, text,
                    "the monitor cannot put a client on the blocklist now; it is asked again");
                steps.wait(RETRY).await;
            }
        }
    }
}

async fn attempt(steps: &Steps, addrs: &EntityAddrVec) -> Result<Epoch, (Errno, String)> {
    let unanswered = |error| (error, String::new());
    // A former server may have taken a session with addresses that no blocklist can have.
    for addr in addrs.0.iter().filter(|addr| is_of_one_client(addr)) {
        let command =
            format!(r#"{{"prefix": "osd blocklist", "blocklistop": "add", "addr": "{addr}"}}"#);
        let output = steps.command(command).await.map_err(unanswered)?;
        if output.result < 0 {
            return Err((Errno(output.result.saturating_neg()), output.text));
        }
    }
    steps.newest_map().await.map_err(unanswered)
}
