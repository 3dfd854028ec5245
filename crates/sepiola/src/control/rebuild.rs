//! `sepiola control rebuild`: a control store for a cluster that has lost its own.
//!
//! It comes from what OSDs remember (`remains`), and lies on an etcd, or, for a cluster of `sepiola up`,
//! in its directory. What was lost for good is told.

use super::moving::{check_vacant, initialise_etcd};
use super::remains::Found;
use crate::cli::RebuildArgs;
use crate::cluster::{MGR_NAME, MON_NAME, Settings, write_keyring};
use crate::listen::parse_listen;
use crate::monitors::{AUTH_OPTION, MonSettings, check_name, monmap_of, write_conf};
use access::{AuthMode, DataDir};
use anyhow::{Context, Result, bail};
use auth::{Entropy, KeyType};
use machine::{hostname, random_bytes};
use mon::{Bootstrap, LostFileSystem, Parameters, Remains};
use rt::Clock;
use std::net::SocketAddr;
use types::{EntityAddr, EntityAddrVec, EntityName, OsdId};

/// `sepiola control rebuild`
pub fn rebuild(args: &RebuildArgs) -> Result<()> {
    let found = find(args)?;
    let dir = DataDir::new(&args.data);
    dir.create()?;
    let _lock = dir.lock()?;
    if dir.exists() {
        bail!(
            "{} has a control store, or names one; if that is lost, move {} and {} away",
            dir.path().display(),
            dir.control().display(),
            dir.etcd().display()
        );
    }
    let lost = found.map.as_ref().map(mon::lost_file_systems).unwrap_or_default();
    let auth = if found.auth_none { AuthMode::None } else { AuthMode::Cephx };
    match args.etcd.etcd.is_empty() {
        true => on_this_machine(&dir, args, found)?,
        false => on_etcd(&dir, args, found, auth)?,
    }
    println!(
        "\nWhat cannot be rebuilt: keys of clients (make them anew with 'ceph auth'; the administrator's \
         is a new one, in {}),\nsettings made by 'ceph config set' and 'ceph config-key', and the \
         cluster log.",
        dir.admin_keyring().display()
    );
    print!("{}", steps_of_file_systems(&lost));
    Ok(())
}

/// The administrator's steps: the maps of file systems are lost, and their pools have everything else.
fn steps_of_file_systems(lost: &[LostFileSystem]) -> String {
    if lost.is_empty() {
        return String::new();
    }
    let mut text = "\nMaps of file systems, too. Their files are in their pools. While no metadata server runs \
                    (`sepiola up` without --fs), and when\n'ceph -s' shows all groups active, do for each:\n"
        .to_owned();
    for LostFileSystem { name, metadata, data } in lost {
        let (first, others) =
            data.split_first().map_or(("DATA", &[][..]), |(first, others)| (first, others));
        text += &format!("  ceph fs new {name} {metadata} {first} --recover --force\n");
        for pool in others {
            text += &format!("  ceph fs add_data_pool {name} {pool}\n");
        }
        text += &format!("  ceph fs set {name} joinable true\n");
    }
    text
}

/// Looks at all OSDs and files, and refuses to begin with less than everything.
fn find(args: &RebuildArgs) -> Result<Found> {
    let mut found = Found::default();
    args.osds.iter().try_for_each(|directory| found.look_into(directory))?;
    args.files.iter().try_for_each(|path| found.read(path))?;
    if found.map.is_none() {
        bail!("no OSD is named that has a map; see --osd, and `sepiola control collect`");
    }
    let absent = found.absent();
    if !absent.is_empty() && !args.incomplete {
        bail!(
            "nothing was found of {}: without them the newest map may be missing, and their keys are; \
             name them by --osd or by a file of `sepiola control collect`, or, if they are gone for \
             good, say --incomplete",
            listed(&absent)
        );
    }
    Ok(found)
}

fn listed(osds: &[OsdId]) -> String {
    osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", ")
}

fn make(found: Found, mon: &str, mgr: &str, listen: SocketAddr, size: u8) -> Result<Bootstrap> {
    let addrs = EntityAddrVec::one(EntityAddr::msgr2(listen, 0));
    let map = found.map.context("looked at before")?;
    let parameters = Parameters {
        mon_name: mon.to_owned(),
        mon_addrs: addrs.clone(),
        mgr_name: mgr.to_owned(),
        // Told anew at each start.
        mgr_addrs: addrs,
        osd_count: 0,
        host: hostname(),
        failure_domain: "host".to_owned(),
        device_class: None,
        pool_size: size,
        key_type: KeyType::Aes,
    };
    println!("cluster {}, rebuilt from map {} of {} OSDs", map.fsid, map.epoch, found.osds.len());
    let seed = random_bytes()?;
    let now = Clock::start().now().wall();
    let remains = Remains { map, keys: found.keys };
    mon::rebuild(&parameters, &remains, now, &mut Entropy::from_seed(seed))
        .context("making the maps")
}

fn write_admin(dir: &DataDir, made: &mut Bootstrap) -> Result<()> {
    let admin = EntityName::client("admin");
    made.keyring.entities.retain(|name, _| *name == admin);
    write_keyring(dir, &made.keyring.to_string())
}

/// For a cluster of `sepiola up`, whose settings are still in its directory.
fn on_this_machine(dir: &DataDir, args: &RebuildArgs, found: Found) -> Result<()> {
    let settings = Settings::load(dir).context(
        "this is no directory of `sepiola up`; the control store of a cluster of several machines \
         lies on an etcd (--etcd)",
    )?;
    if Some(settings.fsid) != found.fsid() {
        bail!("{} belongs to another cluster than these OSDs", dir.path().display());
    }
    let mut made = make(found, MON_NAME, MGR_NAME, settings.mon_addr, args.size)?;
    write_admin(dir, &mut made)?;
    embedded::initialise(&dir.control(), &made.transaction)?;
    println!("start it again: sepiola up --data {}", dir.path().display());
    Ok(())
}

fn on_etcd(dir: &DataDir, args: &RebuildArgs, found: Found, auth: AuthMode) -> Result<()> {
    check_name(&args.name)?;
    let listen = args.listen.as_deref().context("on an etcd, the monitor needs --listen")?;
    let listen = parse_listen(listen)?;
    let options = args.etcd.options();
    check_vacant(&options)?;
    let mut made = make(found, &args.name, &args.name, listen, args.size)?;
    if auth == AuthMode::None {
        made.transaction.put(AUTH_OPTION, "none");
    }
    write_admin(dir, &mut made)?;
    write_conf(dir, &monmap_of(&made.transaction)?, auth)?;
    MonSettings { name: args.name.clone(), listen, metrics: None, console: None }.save(dir)?;
    initialise_etcd(dir, &options, &made.transaction)?;
    println!(
        "start the monitor: sepiola mon start --data {}\n\
         OSDs find it if it has the address of one that they knew; else start them with --conf {}",
        dir.path().display(),
        dir.conf().display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_for_a_file_system_name_all_of_its_pools() {
        let [name, metadata, first, second] = ["home", "meta", "one", "two"].map(str::to_owned);
        let lost = LostFileSystem { name, metadata, data: vec![first, second] };
        let text = steps_of_file_systems(&[lost]);
        let steps = "  ceph fs new home meta one --recover --force\n  ceph fs add_data_pool home two\n  \
                     ceph fs set home joinable true\n";
        assert!(text.ends_with(steps), "{text}");
        assert_eq!(steps_of_file_systems(&[]), "");
    }
}
