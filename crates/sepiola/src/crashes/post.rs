//! Posts the reports that earlier runs left.

use super::place::{kept, place};
use access::{ClusterArgs, Connection, DataDir, client_config};
use anyhow::{Result, bail};
use bytes::Bytes;
use rados::{Client, CommandTarget, Reply};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;
use types::Errno;

/// Pause before the monitors are asked again, which may start later than this daemon.
const PAUSE: Duration = Duration::from_secs(30);
/// Extension of reports that monitors did not take.
const REFUSED: &str = "refused";

/// Posts what is kept in that directory, in a thread that ends with the last report. `connect` opens a
/// connection to the monitors in the name of an entity that may post.
pub fn post(directory: &Path, connect: impl Fn() -> Result<Connection> + Send + 'static) {
    let place = place(directory);
    let is_started = match kept(&place) {
        Ok(paths) if paths.is_empty() => return,
        Ok(_) => thread::Builder::new().name("crashes".to_owned()).spawn(move || {
            while let Err(error) = post_all(&place, &connect) {
                tracing::warn!(%error, "reports of crashes are not posted yet");
                thread::sleep(PAUSE);
            }
        }),
        Err(error) => Err(error),
    };
    if let Err(error) = is_started {
        tracing::warn!(%error, "reports of crashes are not posted to the monitors");
    }
}

/// The same in the name of the administrator whose key lies in that directory.
pub fn post_as_admin(dir: &DataDir, admin: ClusterArgs) {
    match client_config(&admin) {
        Ok(_) => post(dir.path(), move || Connection::open(&admin)),
        Err(reason) => tracing::info!(%reason, "no reports of crashes are posted from here"),
    }
}

fn post_all(place: &Path, connect: &impl Fn() -> Result<Connection>) -> Result<()> {
    let mut monitors = connect()?;
    for path in kept(place)? {
        match fs::read(&path) {
            Ok(report) => post_one(&mut monitors, &path, Bytes::from(report))?,
            Err(error) => tracing::warn!(%error, report = %path.display(),
                "the report of a crash cannot be read, and is not posted; remove it"),
        }
    }
    Ok(())
}

/// Removes the report when the monitors have it; one that they will never take is set aside.
fn post_one(monitors: &mut Connection, path: &Path, report: Bytes) -> Result<()> {
    let command = json!({"prefix": "crash post"}).to_string();
    let ask =
        |client: &mut Client, now| client.command(now, CommandTarget::Monitor, command, report);
    let Reply::Command(output) = monitors.ask(ask)? else { bail!("an answer to no command") };
    let reason = output.text;
    match Errno(-output.result) {
        Errno(0) => fs::remove_file(path)?,
        Errno::INVAL | Errno::FBIG => {
            let aside = path.with_extension(REFUSED);
            fs::rename(path, &aside)?;
            tracing::warn!(%reason, aside = %aside.display(),
                "the monitors refuse the report of a crash; read it there, and remove it");
        }
        errno => bail!("{errno}: {reason}"),
    }
    Ok(())
}
