//! `sepiola mon start`: runs a monitor in the foreground.

use super::create::AUTH_OPTION;
use super::directory::{MonSettings, check_name, write_conf};
use crate::cli::MonStartArgs;
use crate::cluster::admin_args;
use crate::daemons::{MonMember, plan};
use crate::image_worker::Worker;
use crate::listen::{parse_listen, parse_metrics};
use crate::process;
use access::{AuthMode, DataDir};
use anyhow::{Context, Result, bail};
use codec::decode_all;
use control::{Entry, UNFINISHED};
use etcd::{EtcdOptions, EtcdTool, FILE_MODE};
use host::RunningDaemons;
use machine::write_file;
use maps::MonMap;
use std::io::Write;
use types::{EntityAddr, EntityAddrVec};

/// `sepiola mon start`
pub fn start(args: &MonStartArgs) -> Result<()> {
    let notices = process::begin()?;
    let dir = DataDir::new(&args.data);
    dir.create()?;
    let _lock = dir.lock()?;
    let options = options(&dir, args)?;
    let settings = settings(&dir, args)?;
    let found = Found::read(&options)?;
    settings.save(&dir)?;
    write_file(&dir.etcd(), &options.to_text()?, FILE_MODE)?;
    let member = MonMember {
        rank: found.map.rank(&settings.name).unwrap_or(found.map.ranks.len()),
        manager: settings.name.clone(),
        name: settings.name.clone(),
        listen: settings.listen,
        metrics: parse_metrics(settings.metrics.as_deref(), settings.listen)?,
        auth: found.auth,
        dir: dir.clone(),
    };
    let running = RunningDaemons::start(plan(vec![Box::new(member)], None)?, &notices)?;
    write_conf(&dir, &found.map_with(&settings), found.auth)?;
    let worker = Worker::start(admin_args(&dir))?;
    println!("mon.{} of cluster {} listens on {}", settings.name, found.map.fsid, settings.listen);
    std::io::stdout().flush()?;
    notices.wait()?;
    println!("stopping");
    drop(worker);
    running.stop()
}

/// Options from the command line; otherwise those recorded in the directory.
fn options(dir: &DataDir, args: &MonStartArgs) -> Result<EtcdOptions> {
    if args.etcd.etcd.is_empty() && dir.etcd().exists() {
        return EtcdOptions::load(&dir.etcd());
    }
    let options = args.etcd.options();
    options.check()?;
    Ok(options)
}

fn settings(dir: &DataDir, args: &MonStartArgs) -> Result<MonSettings> {
    let known = MonSettings::load(dir)?;
    let known_as = known.as_ref().map(|known| known.name.as_str());
    if let (Some(asked), Some(known)) = (&args.name, known_as)
        && asked != known
    {
        bail!("{} belongs to mon.{known}; mon.{asked} needs its own", dir.path().display());
    }
    let name = args.name.as_deref().or(known_as);
    let name = name.context("a new monitor needs --name, such as --name b")?.to_owned();
    check_name(&name)?;
    let listen = match (&args.listen, &known) {
        (Some(listen), _) => parse_listen(listen)?,
        (None, Some(known)) => known.listen,
        (None, None) => bail!("a new monitor needs --listen, such as --listen 10.0.0.2"),
    };
    let known = known.and_then(|known| known.metrics);
    let metrics = args.metrics.clone().or(known);
    Ok(MonSettings { name, listen, metrics })
}

/// Maps in the control store, read before the monitor starts.
struct Found {
    map: MonMap,
    auth: AuthMode,
}

impl Found {
    /// The map as it will be when this monitor has told where it listens.
    fn map_with(&self, settings: &MonSettings) -> MonMap {
        let mut map = self.map.clone();
        let name = &settings.name;
        if !map.ranks.contains(name) {
            map.ranks.push(name.clone());
        }
        let addrs = EntityAddrVec::one(EntityAddr::msgr2(settings.listen, 0));
        let mon = map.mon_info.entry(name.clone()).or_default();
        (mon.name, mon.public_addrs) = (name.clone(), addrs);
        map
    }

    fn read(options: &EtcdOptions) -> Result<Self> {
        let etcd = EtcdTool::open(options)?;
        let (maps, _) = etcd.range("monmap/")?;
        if !etcd.range(UNFINISHED)?.0.is_empty() {
            bail!("{}: `sepiola control move` has not finished yet", options.shown());
        }
        let Some(newest) = maps.last() else {
            bail!(
                "{} has no cluster under the prefix {:?}; `sepiola cluster create` makes one",
                options.shown(),
                options.prefix
            );
        };
        let map = decode_all("monitor map", &newest.value).context("reading the monitor map")?;
        let (auth, _) = etcd.range(AUTH_OPTION)?;
        let is_none = |entry: &Entry| entry.key == AUTH_OPTION && entry.value == "none";
        let auth = if auth.iter().any(is_none) { AuthMode::None } else { AuthMode::Cephx };
        Ok(Found { map, auth })
    }
}
