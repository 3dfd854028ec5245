//! Who tells the monitors what they must know of images and have no client to find out: a thread beside a
//! monitor, which asks every second what is wanted.

use super::Desk;
use super::worker::{PAUSE, now};
use crate::cli::ClusterArgs;
use anyhow::{Context, Result};
use rbd::Pool;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use types::PoolId;

pub struct Clerk {
    pub args: ClusterArgs,
    pub is_stopping: Arc<AtomicBool>,
}

impl Clerk {
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
        let mut desk = Desk::open(&self.args)?;
        while !self.is_stopping() {
            name_images(&mut desk)?;
            purge_trash(&mut desk)?;
            desk.rest(PAUSE, || !self.is_stopping())?;
        }
        Ok(())
    }
}

/// Monitors know images by the ids that OSDs see.
fn name_images(desk: &mut Desk) -> Result<()> {
    let unnamed = ask(desk, &json!({ "prefix": "rbd perf image unnamed", "format": "json" }))?;
    let mut names: Vec<Value> = Vec::new();
    for (pool, ids) in by_pool(&unnamed) {
        let found = desk.run(rbd::names_of(pool.clone(), ids))?;
        names.extend(found.into_iter().map(|(id, name)| {
            json!({ "pool": pool.id.0, "namespace": pool.namespace, "id": id, "name": name })
        }));
    }
    if !names.is_empty() {
        let names = json!(names).to_string();
        desk.command(&json!({ "prefix": "rbd perf image name", "names": names }))?;
    }
    Ok(())
}

/// What schedules want purged becomes tasks.
fn purge_trash(desk: &mut Desk) -> Result<()> {
    let due = ask(desk, &json!({ "prefix": "rbd trash purge due", "format": "json" }))?;
    if due["is_due"] != true {
        return Ok(());
    }
    let wanted = ask(desk, &json!({ "prefix": "rbd trash purge take", "format": "json" }))?;
    for part in wanted.as_array().into_iter().flatten() {
        for pool in pools_of(desk, part)? {
            // What cannot be looked through is for the next time.
            if let Err(error) = purge(desk, &pool) {
                tracing::warn!(%pool, error = format!("{error:#}"), "the trash is not purged");
            }
        }
    }
    Ok(())
}

/// A pool and its namespaces, but for those that are named.
fn pools_of(desk: &mut Desk, part: &Value) -> Result<Vec<Pool>> {
    let text = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
    let id = PoolId(part["pool"].as_i64().unwrap_or(-1));
    let pool = Pool { id, name: text("pool_name"), namespace: text("namespace") };
    let mut pools = vec![pool.clone()];
    if let Some(but) = part["and_all_but"].as_array() {
        let all = desk.run(rbd::namespaces(pool.clone()))?.into_iter();
        let others = all.filter(|namespace| !but.iter().any(|other| other == namespace));
        pools.extend(others.map(|namespace| Pool { namespace, ..pool.clone() }));
    }
    Ok(pools)
}

fn purge(desk: &mut Desk, pool: &Pool) -> Result<()> {
    for id in desk.run(rbd::expired(pool.clone(), now()))? {
        let spec = format!("{pool}/{id}");
        desk.command(&json!({ "prefix": "rbd task add trash remove", "image_id_spec": spec }))?;
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

pub fn ask(desk: &mut Desk, command: &Value) -> Result<Value> {
    let output = desk.command(command)?;
    serde_json::from_slice(&output).context("reading what was said of images")
}
