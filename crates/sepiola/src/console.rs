//! `sepiola console`: a link by which a browser signs in to the web console.

use crate::cli::ConsoleArgs;
use access::{ClusterArgs, Connection};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::process::{Command, Stdio};

/// A link that serves once.
pub struct Link {
    /// Address of the console, with the secret in its fragment.
    pub url: String,
    /// SHA-256 of the console's certificate, as browsers show it.
    pub fingerprint: String,
    entity: String,
    seconds: u64,
}

impl Link {
    /// Asks the leading monitor for a link of the arguments' user.
    pub fn ask(args: &ClusterArgs) -> Result<Self> {
        // The answer is a secret.
        let mut connection = Connection::open(&ClusterArgs { secure: true, ..args.clone() })?;
        let answer = connection.ask_json(&json!({ "prefix": "console link", "format": "json" }))?;
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        let url = text("url");
        if url.is_empty() {
            bail!("the monitor made no link: is it of an earlier version?");
        }
        let (fingerprint, entity) = (text("fingerprint"), text("entity"));
        let seconds = answer["seconds"].as_u64().unwrap_or(0);
        Ok(Link { url, fingerprint, entity, seconds })
    }
}

/// `sepiola console`
pub fn console(args: &ConsoleArgs) -> Result<()> {
    let link = Link::ask(&args.cluster)?;
    println!("{}", link.url);
    println!("signs {} in, once, within {} s", link.entity, link.seconds);
    println!("SHA-256 of the certificate, if the browser asks: {}", link.fingerprint);
    if args.open { open(&link.url) } else { Ok(()) }
}

fn open(url: &str) -> Result<()> {
    let mut command = Command::new("xdg-open");
    command.arg(url).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().context("--open: starting xdg-open (Debian: xdg-utils)")?;
    if !status.success() {
        bail!("--open: xdg-open found no browser; open the link yourself");
    }
    Ok(())
}
