//! `sepiola osd create`: a new OSD, registered, with an empty store.

use super::directory::{self, OsdSettings};
use super::registry::Registry;
use crate::cli::{OsdCreateArgs, OsdStoreArgs};
use crate::daemon_files;
use anyhow::{Context, Result, bail};
use auth::{CryptoKey, Entropy, KeyType};
use disks::{Owner, Preparation, StoreKind, free_space};
use machine::{create_private, hostname, random_bytes};
use rt::Clock;
use std::fs;
use std::path::{Path, PathBuf};
use types::{EntityName, Uuid};

/// The file of an OSD that has no disk, at most half of the free space.
const DISK_LEN_DEFAULT: u64 = 10 << 30;

/// A new incarnation of an OSD: what tells it from earlier ones, and the key that is its own.
pub struct Identity {
    /// The id of its store's incarnation.
    pub uuid: Uuid,
    /// The key by which monitors know it.
    pub key: CryptoKey,
}

impl Identity {
    /// A new identity, from the kernel's entropy.
    pub fn new() -> Result<Self> {
        let mut entropy = Entropy::from_seed(random_bytes()?);
        let uuid = Uuid::from_entropy(entropy.array());
        let key = CryptoKey::generate(KeyType::Aes, Clock::start().now().wall(), &mut entropy);
        Ok(Identity { uuid, key })
    }
}

/// `sepiola osd create`
pub fn create(args: &OsdCreateArgs) -> Result<()> {
    check(&args.store)?;
    let mut registry = Registry::open(&args.cluster)?;
    let identity = Identity::new()?;
    let id = registry.register(identity.uuid, &identity.key, args.id)?;
    let directory =
        args.data.clone().unwrap_or_else(|| daemon_files::default_directory(&EntityName::osd(id)));
    let made = make_store(&registry, id, &directory, &args.store)
        .and_then(|()| finish(&registry, id, &identity, &directory, &args.store));
    match made {
        Ok(()) => {
            println!("osd.{id} is made in {}; start it with", directory.display());
            println!("\n  sepiola osd start --data {}", directory.display());
            Ok(())
        }
        Err(error) => {
            if let Err(failed) = registry.withdraw(id) {
                eprintln!("sepiola: osd.{id} stays registered ({failed:#}); `ceph osd purge {id}`");
            }
            Err(error)
        }
    }
}

/// Refuses options that contradict each other.
pub fn check(args: &OsdStoreArgs) -> Result<()> {
    let names_disks = args.disk.is_some() || args.log_disk.is_some() || args.disk_size.is_some();
    if args.kind == StoreKind::Files && names_disks {
        bail!("--disk, --log-disk and --disk-size are for --store block");
    }
    Ok(())
}

/// An empty store in a directory without an OSD.
pub fn make_store(
    registry: &Registry,
    id: i32,
    directory: &Path,
    args: &OsdStoreArgs,
) -> Result<()> {
    create_private(directory).with_context(|| format!("making {}", directory.display()))?;
    if OsdSettings::load(directory).is_ok() && !args.wipe {
        bail!("{} is an OSD's already; if it is not needed, say --wipe", directory.display());
    }
    match args.kind {
        StoreKind::Block => {
            format_block(directory, Owner { cluster: registry.fsid, osd: id }, args)?;
        }
        StoreKind::Files => clear_files(directory)?,
    }
    disks::remember_kind(directory, args.kind)
}

/// Makes it the directory of the OSD that was registered.
pub fn finish(
    registry: &Registry,
    id: i32,
    identity: &Identity,
    directory: &Path,
    args: &OsdStoreArgs,
) -> Result<()> {
    let settings = OsdSettings {
        id,
        uuid: identity.uuid,
        fsid: registry.fsid,
        host: args.host.clone().unwrap_or_else(hostname),
        auth: registry.auth,
        monitors: registry.monitors.clone(),
    };
    directory::write(directory, &settings, &identity.key)
}

fn format_block(directory: &Path, owner: Owner, args: &OsdStoreArgs) -> Result<()> {
    let share = free_space(directory)? / 2;
    let preparation = Preparation {
        main: args.disk.clone(),
        fast: args.log_disk.clone(),
        bytes: args.disk_size.unwrap_or_else(|| DISK_LEN_DEFAULT.min(share)),
        wipe: args.wipe,
    };
    let devices = disks::prepare(directory, &preparation)
        .with_context(|| format!("choosing the disk of osd.{}", owner.osd))?;
    disks::format(&devices, owner)
        .with_context(|| format!("formatting the store of osd.{}", owner.osd))
}

/// A store of files is made when it is first opened; one that is there would go on.
fn clear_files(directory: &Path) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    for entry in entries {
        let path: PathBuf = entry?.path();
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}
