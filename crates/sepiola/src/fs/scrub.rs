//! `sepiola fs scrub`: has the metadata server of a file system compare rows with what it serves, and waits.

use super::target::map_of;
use crate::cli::FsScrubArgs;
use crate::volume_worker::VolumeConnection;
use access::Connection;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Duration;

/// Pause before the server is asked again how far it is.
const PAUSE: Duration = Duration::from_millis(500);

/// `sepiola fs scrub`
pub fn scrub(args: &FsScrubArgs) -> Result<()> {
    let mut connection = Connection::open(&args.cluster)?;
    let (id, _) = map_of(&mut connection, &args.file_system)?;
    drop(connection);
    let mut server = VolumeConnection::open(&args.cluster, id)?;
    let done = run(args, &mut server);
    server.leave();
    done
}

fn run(args: &FsScrubArgs, server: &mut VolumeConnection) -> Result<()> {
    if !args.status {
        let operations = if args.repair { &["recursive", "repair"][..] } else { &["recursive"] };
        let start = json!({ "prefix": "scrub start", "path": args.path, "scrubops": operations });
        let started = ask(server, &start)?;
        println!("scrub {} of {} has begun", text(&started["scrub_tag"]), args.path);
    }
    let status = loop {
        let status = ask(server, &json!({ "prefix": "scrub status" }))?;
        let is_over = status["scrubs"].as_object().is_none_or(serde_json::Map::is_empty);
        if is_over || args.status {
            break status;
        }
        server.rest(PAUSE)?;
    };
    println!("{}", text(&status["status"]));
    let damage = ask(server, &json!({ "prefix": "damage ls" }))?;
    let found = damage.as_array().context("the server answers a list of damage")?;
    for damage in found {
        println!("{}: {}: {}", damage["id"], text(&damage["path"]), text(&damage["problem"]));
    }
    match found.len() {
        0 => Ok(()),
        count => bail!(
            "{count} rows are not stored as the server has them; --repair writes them again, and `ceph tell mds.NAME \
             damage rm ID` forgets one"
        ),
    }
}

fn ask(server: &mut VolumeConnection, command: &Value) -> Result<Value> {
    let output = server.command(command)?;
    serde_json::from_slice(&output).context("reading the server's answer")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
