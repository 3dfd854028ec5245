//! Commands to the monitors when OSDs are created.

use crate::cli::OsdClusterArgs;
use access::{AuthMode, ClusterArgs, Connection, DataArgs};
use anyhow::{Context, Result, bail};
use auth::CryptoKey;
use bytes::Bytes;
use rados::CommandOutput;
use serde_json::{Value, json};
use types::{EntityAddrVec, Uuid};

/// A session with the cluster, with the right to create OSDs.
pub struct Registry {
    connection: Connection,
    /// The monitors that the configuration names.
    pub monitors: Vec<EntityAddrVec>,
    /// How daemons of the cluster prove who they are.
    pub auth: AuthMode,
    /// The cluster's id.
    pub fsid: Uuid,
}

impl Registry {
    /// Connects as the command line says.
    pub fn open(args: &OsdClusterArgs) -> Result<Self> {
        let conf = access::read_conf(&args.conf)?;
        let auth = if conf.auth_none { AuthMode::None } else { AuthMode::Cephx };
        let args = ClusterArgs {
            data: DataArgs { data: args.conf.parent().unwrap_or(&args.conf).to_owned() },
            conf: Some(args.conf.clone()),
            keyring: args.keyring.clone(),
            name: args.name.clone(),
            secure: auth == AuthMode::Cephx,
        };
        let mut connection = Connection::open(&args)?;
        let map = connection.client().osd_map().context("the cluster sent no map")?;
        let fsid = map.fsid;
        Ok(Registry { connection, monitors: access::monitors(&conf.mon_host)?, auth, fsid })
    }

    /// Gives the new OSD an id, unless it is to have that one, and makes its key known.
    pub fn register(&mut self, uuid: Uuid, key: &CryptoKey, id: Option<i32>) -> Result<i32> {
        let mut command = json!({"prefix": "osd new", "uuid": uuid.to_string(), "format": "json"});
        if let Some(id) = id {
            command["id"] = json!(id.to_string());
        }
        let secrets = json!({"cephx_secret": key.to_string()}).to_string();
        let output = self
            .connection
            .command_with_input(&command, Bytes::from(secrets))
            .context("registering the OSD")?;
        let answer: Value = serde_json::from_slice(&output.output).context("reading the answer")?;
        let id = answer["osdid"].as_i64().and_then(|id| i32::try_from(id).ok());
        id.context("the monitor did not tell the OSD's id")
    }

    /// Takes back a registration that came to nothing.
    pub fn withdraw(&mut self, id: i32) -> Result<()> {
        let command = json!({
            "prefix": "osd purge-new", "id": id.to_string(), "yes_i_really_mean_it": true,
        });
        self.connection.command(&command).map(|_| ())
    }

    /// Sends a command to the monitors.
    pub fn ask(&mut self, command: &Value) -> Result<CommandOutput> {
        self.connection.command(command)
    }

    /// Sends a command and parses its output.
    pub fn ask_json(&mut self, command: &Value) -> Result<Value> {
        self.connection.ask_json(command)
    }

    /// The OSD may have been put in another place of the tree, or out of it.
    pub fn is_up(&mut self, id: i32) -> Result<bool> {
        let map = self.connection.client().osd_map().context("the cluster sent no map")?;
        match map.exists(types::OsdId(id)) {
            true => Ok(map.is_up(types::OsdId(id))),
            false => bail!("there is no osd.{id}; `sepiola osd create` makes a new one"),
        }
    }

    /// The OSDs below a CRUSH bucket.
    pub fn osds_of_host(&mut self, host: &str) -> Result<Vec<i32>> {
        let tree = self.ask_json(&json!({"prefix": "osd tree", "format": "json"}))?;
        let nodes = tree["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let bucket = nodes.iter().find(|node| node["name"] == host && node["type"] == "host");
        let Some(bucket) = bucket else {
            bail!("there is no host {host}; `ceph osd tree` shows those that there are")
        };
        let children = bucket["children"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut osds: Vec<i32> =
            children.iter().filter_map(Value::as_i64).map(|id| id as i32).collect();
        osds.sort_unstable();
        Ok(osds)
    }
}
