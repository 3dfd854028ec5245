//! Preparation of a monitor before it runs: its directory, the etcd, and the maps there.

use super::create::AUTH_OPTION;
use super::directory::{MonSettings, check_name};
use crate::cli::MonOptions;
use crate::listen::parse_listen;
use access::{AuthMode, DataDir};
use anyhow::{Context, Result, bail};
use codec::decode_all;
use control::{Entry, UNFINISHED};
use etcd::{EtcdOptions, EtcdTool, FILE_MODE};
use machine::write_file;
use maps::MonMap;
use types::{EntityAddr, EntityAddrVec};

/// Settings and maps of a monitor that is about to run.
pub struct Preparation {
    /// Name and addresses.
    pub settings: MonSettings,
    /// Maps of its cluster.
    pub found: Found,
}

/// Finds the cluster of a monitor, and records in its directory what the next start needs.
pub fn prepare(dir: &DataDir, args: &MonOptions) -> Result<Preparation> {
    let options = options(dir, args)?;
    let settings = settings(dir, args)?;
    let found = Found::read(&options)?;
    settings.save(dir)?;
    write_file(&dir.etcd(), &options.to_text()?, FILE_MODE)?;
    Ok(Preparation { settings, found })
}

/// Options from the command line; otherwise those recorded in the directory.
fn options(dir: &DataDir, args: &MonOptions) -> Result<EtcdOptions> {
    if args.etcd.etcd.is_empty() && dir.etcd().exists() {
        return EtcdOptions::load(&dir.etcd());
    }
    let options = args.etcd.options();
    options.check()?;
    Ok(options)
}

fn settings(dir: &DataDir, args: &MonOptions) -> Result<MonSettings> {
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
    let (known_metrics, known_console) =
        known.map_or((None, None), |known| (known.metrics, known.console));
    let metrics = args.metrics.clone().or(known_metrics);
    let console = args.console.clone().or(known_console);
    Ok(MonSettings { name, listen, metrics, console })
}

/// Maps in the control store, read before the monitor starts.
pub struct Found {
    /// The newest monitor map.
    pub map: MonMap,
    /// How clients prove who they are.
    pub auth: AuthMode,
}

impl Found {
    /// The map as it will be when this monitor has told where it listens.
    pub fn map_with(&self, settings: &MonSettings) -> MonMap {
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
