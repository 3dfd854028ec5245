//! The file system of a command, as the monitors show it.

use access::Connection;
use anyhow::{Context, Result, bail};
use mds::fsck::Target;
use serde_json::{Value, json};
use types::{Epoch, PoolId};

/// A file system that no server may have.
#[derive(Debug, Clone)]
pub struct FailedFileSystem {
    /// Its rank.
    pub target: Target,
    /// Its data pools.
    pub data_pools: Vec<PoolId>,
}

/// Id and map of a file system.
pub fn map_of(connection: &mut Connection, name: &str) -> Result<(i32, Value)> {
    let found = connection.ask_json(&json!({
        "prefix": "fs get", "fs_name": name, "format": "json",
    }))?;
    let id = found["id"].as_i64().and_then(|id| i32::try_from(id).ok());
    Ok((id.context("the monitor's answer has no id")?, found["mdsmap"].clone()))
}

impl FailedFileSystem {
    /// Asks the monitors.
    ///
    /// # Errors
    ///
    /// A server has the file system, or may get it.
    pub fn find(connection: &mut Connection, name: &str) -> Result<Self> {
        let (_, map) = map_of(connection, name)?;
        let is_joinable = map["flags_state"]["joinable"].as_bool().unwrap_or(true);
        let has_servers = map["up"].as_object().is_none_or(|up| !up.is_empty());
        if is_joinable || has_servers {
            bail!(
                "servers have the file system {name}, or may take it: stop them with `ceph fs fail {name}`, check, \
                 and let them go on with `ceph fs set {name} joinable true`"
            );
        }
        let ranks = map["in"].as_array().map_or(0, Vec::len);
        if ranks > 1 {
            bail!("{name} has {ranks} ranks; only a file system of one rank can be checked");
        }
        let pool = |value: &Value| {
            value.as_i64().map(PoolId).context("the monitor's answer has a pool without a number")
        };
        // It shuts out servers that had the file system.
        let epoch = map["last_failure_osd_epoch"].as_u64();
        let epoch = epoch.context("the monitor's answer has no last_failure_osd_epoch")?;
        let osd_epoch = Epoch(u32::try_from(epoch)?);
        let data_pools = map["data_pools"].as_array().into_iter().flatten().map(pool);
        Ok(FailedFileSystem {
            target: Target { pool: pool(&map["metadata_pool"])?, rank: 0, osd_epoch },
            data_pools: data_pools.collect::<Result<_>>()?,
        })
    }
}
