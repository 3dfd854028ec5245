//! `sepiola mds create`: a new metadata server, with a key that monitors know.

use super::directory::{self, MdsSettings, entity};
use crate::cli::{MdsCreateArgs, OsdClusterArgs};
use crate::daemon_files;
use crate::monitors::check_name;
use crate::osd::Registry;
use anyhow::{Context, Result, bail};
use auth::Keyring;
use machine::create_private;
use serde_json::json;
use std::path::Path;
use types::Uuid;

/// Capabilities of a metadata server, as Ceph's deployment tools give them.
const CAPS: [&str; 6] = ["mon", "allow profile mds", "osd", "allow rwx", "mds", "allow"];

/// `sepiola mds create`
pub fn create(args: &MdsCreateArgs) -> Result<()> {
    check_name(&args.name)?;
    let directory =
        args.data.clone().unwrap_or_else(|| daemon_files::default_directory(&entity(&args.name)));
    make(&args.cluster(), &args.name, &directory)?;
    println!("mds.{} is made in {}; start it with", args.name, directory.display());
    println!("\n  sepiola mds start --data {}", directory.display());
    Ok(())
}

/// A directory of another server, or of a server of another cluster, stays as it is: its key exists once.
fn check_owner(
    directory: &Path,
    known: Option<&MdsSettings>,
    name: &str,
    fsid: Uuid,
) -> Result<()> {
    let Some(known) = known else { return Ok(()) };
    let path = directory.display();
    if known.name != name {
        bail!("{path} belongs to mds.{}; mds.{name} needs its own (--data)", known.name);
    }
    if known.fsid != fsid {
        bail!(
            "{path} belongs to mds.{name} of the cluster {}, and this is the cluster {fsid}; name another \
             directory (--data), or remove that one if its cluster is gone",
            known.fsid
        );
    }
    Ok(())
}

/// Makes the server's key known, and its directory.
pub fn make(cluster: &OsdClusterArgs, name: &str, directory: &Path) -> Result<()> {
    let known = MdsSettings::find(directory)?;
    let mut registry = Registry::open(cluster)?;
    check_owner(directory, known.as_ref(), name, registry.fsid)?;
    let name = name.to_owned();
    let command = json!({
        "prefix": "auth get-or-create", "entity": entity(&name).to_string(), "caps": CAPS,
    });
    let answer = registry.ask(&command).context("making the server's key")?;
    let text = String::from_utf8_lossy(&answer.output);
    let keyring: Keyring = text.parse().context("reading the server's key")?;
    create_private(directory).with_context(|| format!("making {}", directory.display()))?;
    let (fsid, auth, monitors) = (registry.fsid, registry.auth, registry.monitors.clone());
    directory::write(directory, &MdsSettings { name, fsid, auth, monitors }, &keyring)
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::AuthMode;

    #[test]
    fn a_directory_of_another_server_or_cluster_is_left_alone() {
        let (here, elsewhere) = (Uuid([4; 16]), Uuid([5; 16]));
        let known = MdsSettings {
            name: "a".to_owned(),
            fsid: here,
            auth: AuthMode::Cephx,
            monitors: Vec::new(),
        };
        let path = Path::new("/srv/mds.a");
        let check =
            |known, name, fsid| check_owner(path, known, name, fsid).map_err(|e| e.to_string());
        assert_eq!(check(None, "a", here), Ok(()));
        assert_eq!(check(Some(&known), "a", here), Ok(()));
        let of_another_server = check(Some(&known), "b", here).unwrap_err();
        assert!(of_another_server.contains("belongs to mds.a; mds.b"), "{of_another_server}");
        let of_another_cluster = check(Some(&known), "a", elsewhere).unwrap_err();
        assert!(of_another_cluster.contains(&here.to_string()), "{of_another_cluster}");
        assert!(of_another_cluster.contains("--data"), "{of_another_cluster}");
    }

    #[test]
    fn settings_that_cannot_be_read_are_no_vacant_directory() {
        let path = std::env::temp_dir().join(format!("sepiola-mds-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        assert_eq!(MdsSettings::find(&path).unwrap(), None);
        std::fs::write(path.join("mds.json"), "{").unwrap();
        assert!(MdsSettings::find(&path).is_err());
        std::fs::remove_dir_all(path).unwrap();
    }
}
