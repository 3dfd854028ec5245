//! `sepiola osd start`: runs OSDs in the foreground.

use super::directory::OsdSettings;
use crate::cli::OsdStartArgs;
use crate::crashes;
use crate::daemon_files;
use crate::daemons::{OsdMember, plan};
use crate::listen::osd_listen;
use crate::process;
use access::{AuthMode, Connection, DataDir, DataLock};
use anyhow::Result;
use disks::default_memory;
use host::{Member, RunningDaemons};
use rados::Config;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use types::EntityName;

/// `sepiola osd start`
pub fn start(args: &OsdStartArgs) -> Result<()> {
    let notices = process::begin()?;
    if args.with_parent {
        notices.watch_parent()?;
    }
    let _locks: Vec<DataLock> =
        args.data.iter().map(|path| DataDir::new(path).lock()).collect::<Result<_>>()?;
    let mut members = Vec::new();
    for path in &args.data {
        members.push(member(path, args)?);
    }
    let names: Vec<String> = members.iter().map(|member| format!("osd.{}", member.id)).collect();
    let identities: Vec<Config> = members.iter().map(identity).collect();
    crashes::keep(&args.data[0], &names.join(","));
    // Before the start, in which a daemon may panic each time.
    let poster = identities[0].clone();
    crashes::post(&args.data[0], move || Connection::start(poster.clone()));
    let members = members.into_iter().map(|osd| -> Box<dyn Member> { Box::new(osd) });
    let running = RunningDaemons::start(plan(members.collect(), args.cores)?, &notices);
    let running = running.inspect_err(|error| tell_monitors(identities, error))?;
    println!("{} started", names.join(", "));
    std::io::stdout().flush()?;
    notices.wait()?;
    println!("stopping");
    running.stop()
}

/// How an OSD presents itself to the monitors when it is not one yet.
fn identity(member: &OsdMember) -> Config {
    let (name, monitors) = (EntityName::osd(member.id), member.monitors.clone());
    daemon_files::client_config(name, member.key.clone(), monitors)
}

/// To the monitors an OSD that does not start is just down: they are told why, for `ceph health detail`.
fn tell_monitors(identities: Vec<Config>, error: &anyhow::Error) {
    for identity in identities {
        let key = format!("daemon-private/{}/refusal", identity.name);
        let reason = format!("{error:#}");
        let command = json!({"prefix": "config-key set", "key": key, "val": reason});
        let told = Connection::start(identity).and_then(|mut monitor| monitor.command(&command));
        if let Err(error) = told {
            tracing::warn!(%error, "the monitors could not be told why the OSD does not start");
        }
    }
}

fn member(path: &Path, args: &OsdStartArgs) -> Result<OsdMember> {
    let directory = std::path::absolute(path)?;
    let settings = OsdSettings::load(&directory)?;
    disks::check_created(&directory)?;
    let monitors = match &args.conf {
        Some(conf) => access::monitors(&access::read_conf(conf)?.mon_host)?,
        None => settings.monitors,
    };
    let key = match settings.auth {
        AuthMode::Cephx => Some(daemon_files::key(&directory, &EntityName::osd(settings.id))?),
        AuthMode::None => None,
    };
    let osds = args.data.len() as u32;
    Ok(OsdMember {
        id: settings.id,
        uuid: settings.uuid,
        fsid: settings.fsid,
        listen: osd_listen(args.listen.as_deref(), args.data.len(), &monitors)?,
        monitors,
        auth: settings.auth,
        key,
        hostname: args.host.clone().unwrap_or(settings.host),
        memory: args.memory.unwrap_or_else(|| default_memory(&directory, osds)),
        log: None,
        capacity: None,
        directory,
    })
}
