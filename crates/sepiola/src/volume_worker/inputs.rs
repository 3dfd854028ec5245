//! Clock, random ids and rhythm of the threads that serve volumes.

use anyhow::Result;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::{UTime, Uuid};
use volumes::Inputs;

/// Pause before a thread asks again.
pub const PAUSE: Duration = Duration::from_secs(1);

/// Facts that a procedure cannot know by itself.
pub fn inputs() -> Result<Inputs> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let id = || Ok::<_, anyhow::Error>(Uuid::from_entropy(machine::random_bytes()?));
    Ok(Inputs { now: UTime::from_nanos(since.as_nanos() as u64), ids: [id()?, id()?] })
}
