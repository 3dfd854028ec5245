//! Resolves image names and purges trash for the monitor, since monitors have no RBD client. It polls the
//! monitor every second.

use super::polling::{PAUSE, now};
use access::{BlockingClient, ClusterArgs};
use anyhow::{Context, Result};
use rbd::Pool;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use types::PoolId;

/// The background work of one process.
pub struct ImageService {
    /// How it reaches the cluster.
    pub args: ClusterArgs,
    /// Set when the process ends.
    pub is_stopping: Arc<AtomicBool>,
}

impl ImageService {
    /// Works until it is to stop.
    pub fn work(&self) {
        while !self.is_stopping() {
            if let Err(error) = self.attend() {
                tracing::info!(error = format!("{error:#}"), "asking what is wanted of images");
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn attend(&self) -> Result<()> {
        let mut client = BlockingClient::open(&self.args)?;
        while !self.is_stopping() {
            resolve_image_names(&mut client)?;
            purge_trash(&mut client)?;
            client.rest(PAUSE, || !self.is_stopping())?;
        }
        Ok(())
    }
}

/// Resolves image ids, which OSDs report, to names.
fn resolve_image_names(client: &mut BlockingClient) -> Result<()> {
    let unnamed = ask(client, &json!({ "prefix": "rbd perf image unnamed", "format": "json" }))?;
    let mut names: Vec<Value> = Vec::new();
    for (pool, ids) in by_pool(&unnamed) {
        let found = client.run(rbd::names_of(pool.clone(), ids))?;
        names.extend(found.into_iter().map(|(id, name)| {
            json!({ "pool": pool.id.0, "namespace": pool.namespace, "id": id, "name": name })
        }));
    }
    if !names.is_empty() {
        let names = json!(names).to_string();
        client.command(&json!({ "prefix": "rbd perf image name", "names": names }))?;
    }
    Ok(())
}

/// Turns due purges of schedules into tasks.
fn purge_trash(client: &mut BlockingClient) -> Result<()> {
    let due = ask(client, &json!({ "prefix": "rbd trash purge due", "format": "json" }))?;
    if due["is_due"] != true {
        return Ok(());
    }
    let wanted = ask(client, &json!({ "prefix": "rbd trash purge take", "format": "json" }))?;
    for part in wanted.as_array().into_iter().flatten() {
        for pool in pools_of(client, part)? {
            // A pool that cannot be listed is tried again next time.
            if let Err(error) = purge(client, &pool) {
                tracing::warn!(%pool, error = format!("{error:#}"), "the trash is not purged");
            }
        }
    }
    Ok(())
}

/// A pool and its namespaces, without the excluded ones.
fn pools_of(client: &mut BlockingClient, part: &Value) -> Result<Vec<Pool>> {
    let text = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
    let id = PoolId(part["pool"].as_i64().unwrap_or(-1));
    let pool = Pool { id, name: text("pool_name"), namespace: text("namespace") };
    let mut pools = vec![pool.clone()];
    if let Some(but) = part["and_all_but"].as_array() {
        let all = client.run(rbd::namespaces(pool.clone()))?.into_iter();
        let others = all.filter(|namespace| !but.iter().any(|other| other == namespace));
        pools.extend(others.map(|namespace| Pool { namespace, ..pool.clone() }));
    }
    Ok(pools)
}

fn purge(client: &mut BlockingClient, pool: &Pool) -> Result<()> {
    for id in client.run(rbd::expired(pool.clone(), now()))? {
        let spec = format!("{pool}/{id}");
        client.command(&json!({ "prefix": "rbd task add trash remove", "image_id_spec": spec }))?;
    }
    Ok(())
}

fn by_pool(images: &Value) -> Vec<(Pool, Vec<String>)> {
    let text = |image: &Value, key: &str| image[key].as_str().unwrap_or_default().to_owned();
    let mut pools: BTreeMap<(PoolId, String), (Pool, Vec<String>)> = BTreeMap::new();
    for image in images.as_array().into_iter().flatten() {
        let (id, namespace) =
            (PoolId(image["pool"].as_i64().unwrap_or(-1)), text(image, "namespace"));
        let pool = Pool { id, name: text(image, "pool_name"), namespace: namespace.clone() };
        pools.entry((id, namespace)).or_insert((pool, Vec::new())).1.push(text(image, "id"));
    }
    pools.into_values().collect()
}

fn ask(client: &mut BlockingClient, command: &Value) -> Result<Value> {
    let output = client.command(command)?;
    serde_json::from_slice(&output).context("reading what was said of images")
}
