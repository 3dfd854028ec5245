//! `sepiola cluster create`: what an empty etcd is filled with, and what the first monitor needs.

use super::directory::{MonSettings, check_name, write_conf};
use crate::cli::ClusterCreateArgs;
use crate::cluster::write_keyring;
use crate::control::moving::{check_vacant, initialise_etcd};
use crate::listen::parse_listen;
use access::{AuthMode, DataDir};
use anyhow::{Context, Result, bail};
use auth::{Entropy, KeyType};
use codec::decode_all;
use control::Transaction;
use machine::{hostname, random_bytes};
use maps::MonMap;
use mon::Parameters;
use rt::Clock;
use types::{EntityAddr, EntityAddrVec, EntityName};

/// Where monitors and clients find it when it is `none`.
pub const AUTH_OPTION: &str = "config/global/auth_client_required";

/// `sepiola cluster create`
pub fn create(args: &ClusterCreateArgs) -> Result<()> {
    check_name(&args.name)?;
    let listen = parse_listen(&args.listen)?;
    if listen.ip().is_unspecified() || listen.port() == 0 {
        bail!("--listen {listen}: clients need an address, such as 10.0.0.1 or 10.0.0.1:3300");
    }
    let options = args.etcd.options();
    let dir = DataDir::new(&args.data);
    if dir.exists() {
        bail!("there is a cluster in {} already", dir.path().display());
    }
    check_vacant(&options)?;
    dir.create()?;
    let addrs = EntityAddrVec::one(EntityAddr::msgr2(listen, 0));
    let parameters = Parameters {
        mon_name: args.name.clone(),
        mon_addrs: addrs.clone(),
        mgr_name: args.name.clone(),
        // Told anew at each start.
        mgr_addrs: addrs,
        osd_count: 0,
        host: hostname(),
        failure_domain: "host".to_owned(),
        device_class: None,
        pool_size: args.size,
        key_type: KeyType::Aes,
    };
    let seed = random_bytes()?;
    let now = Clock::start().now().wall();
    let mut made = mon::bootstrap(&parameters, now, &mut Entropy::from_seed(seed))
        .context("making the first maps")?;
    if args.auth == AuthMode::None {
        made.transaction.put(AUTH_OPTION, "none");
    }
    let admin = EntityName::client("admin");
    made.keyring.entities.retain(|name, _| *name == admin);
    write_keyring(&dir, &made.keyring.to_string())?;
    write_conf(&dir, &monmap_of(&made.transaction)?, args.auth)?;
    MonSettings { name: args.name.clone(), listen, metrics: None, console: None }.save(&dir)?;
    initialise_etcd(&dir, &options, &made.transaction)?;
    tell(&dir, args, &made.fsid.to_string());
    Ok(())
}

/// The monitor map that a first transaction writes.
pub fn monmap_of(transaction: &Transaction) -> Result<MonMap> {
    let mut written = transaction.writes.iter();
    let map =
        written.find_map(|(key, value)| value.as_ref().filter(|_| key.starts_with("monmap/")));
    let map = map.context("the first state has no monitor map")?;
    Ok(decode_all("monitor map", map)?)
}

fn tell(dir: &DataDir, args: &ClusterCreateArgs, fsid: &str) {
    println!(
        "cluster {fsid} created on {etcd}\n\n\
         {conf}     for clients, with the key in {keyring}\n\n\
         Next, on this machine and on the others:\n\n  \
           sepiola mon start --data {data}\n  \
           sepiola mon create --data DIR --name b --listen ADDRESS --etcd {urls}\n\n\
         and then, with copies of both files, on each machine with disks:\n\n  \
           sepiola osd create --conf {conf} --disk /dev/…",
        etcd = args.etcd.options().shown(),
        conf = dir.conf().display(),
        keyring = dir.admin_keyring().display(),
        data = dir.path().display(),
        urls = args.etcd.etcd.join(","),
    );
}
