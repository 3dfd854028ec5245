//! A new cluster of `sepiola up`: keys, first maps, empty stores, and settings.

use super::admin::write_keyring;
use super::settings::{MGR_NAME, MON_NAME, Settings};
use crate::cli::UpArgs;
use crate::control::moving::{check_vacant, initialise_etcd};
use access::DataDir;
use anyhow::{Context, Result, bail};
use auth::{Entropy, KeyType};
use disks::{Owner, Preparation, StoreKind, free_space};
use machine::{create_private, hostname, random_bytes, random_u64};
use mon::Parameters;
use rt::Clock;
use std::net::{SocketAddr, TcpListener};
use stdx::Prng;
use types::{EntityAddr, EntityAddrVec, Uuid};

/// Copies of each object unless asked otherwise.
pub const SIZE_DEFAULT: u32 = 3;
/// OSDs unless disks are named.
const OSDS_DEFAULT: u32 = 3;
/// The file of an OSD that has no disk; all of them together take at most half of the free space.
const DISK_LEN_DEFAULT: u64 = 10 << 30;
/// Makes everything that the cluster's start expects. The control store comes last:
/// a data directory without one counts as new.
pub fn create(dir: &DataDir, args: &UpArgs, listen: SocketAddr) -> Result<()> {
    let osds = check_disks(args)?;
    if !args.etcd.etcd.is_empty() {
        check_vacant(&args.etcd.options())?;
    }
    let is_empty = osds == 0;
    let size = args.size.unwrap_or(if is_empty { SIZE_DEFAULT } else { SIZE_DEFAULT.min(osds) });
    if size > osds && !is_empty {
        bail!("--size {size} needs as many OSDs; there are {osds} (--osds)");
    }
    let mon_addr = choose_port(listen)?;
    let addrs = EntityAddrVec::one(EntityAddr::msgr2(mon_addr, 0));
    let parameters = Parameters {
        mon_name: MON_NAME.to_owned(),
        mon_addrs: addrs.clone(),
        mgr_name: MGR_NAME.to_owned(),
        // Told anew at each start.
        mgr_addrs: addrs,
        osd_count: osds,
        host: hostname(),
        // OSDs that come from elsewhere bring their machines.
        failure_domain: if is_empty { "host" } else { "osd" }.to_owned(),
        device_class: Some("ssd".to_owned()),
        pool_size: u8::try_from(size).context("--size")?,
        key_type: KeyType::Aes,
    };
    let seed = random_bytes()?;
    let now = Clock::start().now().wall();
    let made = mon::bootstrap(&parameters, now, &mut Entropy::from_seed(seed))
        .context("making the first maps")?;
    let log = args.log.as_deref().map(std::path::absolute).transpose()?;
    prepare_stores(dir, args, osds, made.fsid)?;
    if let Some(log) = &log {
        create_private(log).with_context(|| format!("making {}", log.display()))?;
    }
    let settings = Settings {
        fsid: made.fsid,
        osds,
        mon_addr,
        auth: args.auth,
        log,
        osd_capacity: free_space(dir.path())? / u64::from(osds.max(1)),
    };
    settings.save(dir)?;
    let admin = types::EntityName::client("admin");
    let mut keyring = made.keyring;
    keyring.entities.retain(|name, _| *name == admin);
    write_keyring(dir, &keyring.to_string())?;
    // From here on, stores without a control store are those of a cluster that has lost it.
    (0..osds as i32).try_for_each(|id| disks::end_creation(&dir.osd(id)))?;
    match args.etcd.etcd.is_empty() {
        true => embedded::initialise(&dir.control(), &made.transaction),
        false => initialise_etcd(dir, &args.etcd.options(), &made.transaction),
    }
}

/// How many OSDs there will be, if what was said of disks makes sense.
fn check_disks(args: &UpArgs) -> Result<u32> {
    let named = args.disks.len() as u32;
    let osds = args.osds.unwrap_or(if named > 0 { named } else { OSDS_DEFAULT });
    if named > 0 && named != osds {
        bail!("--osds {osds} needs as many disks; {named} are named (--disk)");
    }
    let logs = args.log_disks.len() as u32;
    if logs > 0 && logs != osds {
        bail!("{osds} OSDs need as many disks for their logs; {logs} are named (--log-disk)");
    }
    match args.store.unwrap_or_default() {
        StoreKind::Block if args.log.is_some() => {
            bail!("--log is for --store files; name a disk or file for each log by --log-disk")
        }
        StoreKind::Files if named + logs > 0 || args.disk_size.is_some() => {
            bail!("--disk, --log-disk and --disk-size are for --store block")
        }
        _ => Ok(osds),
    }
}

/// No disk is formatted before all were looked at.
fn prepare_stores(dir: &DataDir, args: &UpArgs, osds: u32, cluster: Uuid) -> Result<()> {
    let kind = args.store.unwrap_or_default();
    let share = free_space(dir.path())? / 2 / u64::from(osds.max(1));
    let bytes = args.disk_size.unwrap_or_else(|| DISK_LEN_DEFAULT.min(share));
    let mut prepared = Vec::new();
    for id in 0..osds as i32 {
        let path = dir.osd(id);
        disks::begin_creation(&path, args.wipe).with_context(|| {
            format!(
                "{} has no control store to go on with, and what may be the store of osd.{id}: restore the control \
                 store, or name another data directory",
                dir.path().display()
            )
        })?;
        if kind == StoreKind::Files {
            disks::clear_directory(&path)?;
        }
        disks::remember_kind(&path, kind)?;
        if kind == StoreKind::Block {
            let (main, fast) = (args.disks.get(id as usize), args.log_disks.get(id as usize));
            let (main, fast) = (main.cloned(), fast.cloned());
            let preparation = Preparation { main, fast, bytes, wipe: args.wipe };
            let devices = disks::prepare(&path, &preparation)
                .with_context(|| format!("choosing the disk of osd.{id}"))?;
            prepared.push((Owner { cluster, osd: id }, devices));
        }
    }
    for (owner, devices) in prepared {
        disks::format(&devices, owner)
            .with_context(|| format!("formatting the store of osd.{}", owner.osd))?;
    }
    Ok(())
}

/// Where `--listen ADDR:0` looks for a free port: below the ports that the kernel gives to clients,
/// one of which might otherwise hold the monitor's while the cluster is down.
const PORTS: std::ops::Range<u64> = 10_000..32_000;
const PORT_TRIES: usize = 100;

/// The monitor's address is in every client's configuration, so its port is decided once.
fn choose_port(listen: SocketAddr) -> Result<SocketAddr> {
    if listen.port() != 0 {
        TcpListener::bind(listen).with_context(|| {
            format!(
                "listening on {listen}: if another monitor runs there, choose a port by --listen"
            )
        })?;
        return Ok(listen);
    }
    let mut prng = Prng::new(random_u64()?);
    for _ in 0..PORT_TRIES {
        let candidate = SocketAddr::new(listen.ip(), prng.range(PORTS) as u16);
        if TcpListener::bind(candidate).is_ok() {
            return Ok(candidate);
        }
    }
    bail!("no free port found on {}; name one by --listen", listen.ip())
}
