//! `sepiola osd create`: a new OSD, registered, with an empty store.

use super::directory::{self, OsdSettings};
use super::registry::Registry;
use crate::cli::{OsdCreateArgs, OsdStoreArgs};
use crate::daemon_files;
use anyhow::{Context, Result, bail};
use auth::{CryptoKey, Entropy, KeyType};
use disks::{Owner, Preparation, StoreKind, free_space};
use machine::{hostname, random_bytes};
use rt::Clock;
use std::path::Path;
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

/// An empty store in a directory that is empty, or whose content is not needed.
pub fn make_store(
    registry: &Registry,
    id: i32,
    directory: &Path,
    args: &OsdStoreArgs,
) -> Result<()> {
    if !args.wipe {
        check_no_osd(directory)?;
    }
    disks::begin_creation(directory, args.wipe)?;
    match args.kind {
        StoreKind::Block => {
            format_block(directory, Owner { cluster: registry.fsid, osd: id }, args)?;
        }
        // It is made when it is first opened; one that is there would go on.
        StoreKind::Files => disks::clear_directory(directory)?,
    }
    disks::remember_kind(directory, args.kind)
}

/// Refuses a directory that is an OSD's, or may be one's: settings that cannot be read are not absent.
fn check_no_osd(directory: &Path) -> Result<()> {
    match OsdSettings::load(directory) {
        Ok(settings) => bail!(
            "{} is that of osd.{} already; if it is not needed, say --wipe",
            directory.display(),
            settings.id
        ),
        Err(error) if daemon_files::is_absent(&error) => Ok(()),
        Err(error) => Err(error).with_context(|| {
            let shown = directory.display();
            format!("{shown} seems to be an OSD's; if it is not needed, say --wipe")
        }),
    }
}

/// Makes it the directory of the OSD that was registered. The store counts as created before the OSD can
/// be started: one that can be started is never taken for one whose creation did not end.
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
    disks::end_creation(directory)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_with_settings_that_do_not_parse_is_an_osds() {
        let name = format!("sepiola-settings-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        check_no_osd(&directory).unwrap();
        fs::create_dir_all(&directory).unwrap();
        check_no_osd(&directory).unwrap();
        fs::write(directory.join("osd.json"), "").unwrap();
        let error = check_no_osd(&directory).unwrap_err().to_string();
        assert!(error.contains("seems to be an OSD's"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }
}
