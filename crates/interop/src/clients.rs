//! Stock clients: those of this machine, and those of other Debian releases in chroots.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Source of a set of client programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clients {
    /// Installed on this machine (16.2 on Debian 12).
    Host,
    /// A Debian release in a chroot, made on first use: trixie has 18.2, sid 20.2.
    Chroot { suite: &'static str, root: PathBuf },
}

const SHARED_PACKAGES: &str =
    "ceph-common python3-rados python3-rbd fio qemu-utils qemu-block-extra libnbd-bin openssl";

/// Signatures are checked, but a mirror of a moving suite may be older than the suite's releases are valid.
const MIRROR_OPTIONS: &str = "-o Acquire::Check-Valid-Until=false";

impl Clients {
    /// Parses the argument of `--clients`.
    pub fn parse(name: &str) -> Result<Vec<Clients>> {
        Ok(match name {
            "host" | "16.2" => vec![Clients::Host],
            "18.2" => vec![Clients::chroot("trixie")?],
            "20.2" => vec![Clients::chroot("sid")?],
            "all" => vec![Clients::Host, Clients::chroot("trixie")?, Clients::chroot("sid")?],
            other => bail!("there are no clients {other:?}: host, 16.2, 18.2, 20.2 or all"),
        })
    }

    fn chroot(suite: &'static str) -> Result<Clients> {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = cache.or(home).context("neither XDG_CACHE_HOME nor HOME is set")?;
        Ok(Clients::Chroot { suite, root: cache.join("ceph-clients").join(suite) })
    }

    /// Release of the clients, as `--clients` takes it.
    pub fn name(&self) -> &'static str {
        match self {
            Clients::Host => "host",
            Clients::Chroot { suite: "trixie", .. } => "18.2",
            Clients::Chroot { .. } => "20.2",
        }
    }

    /// Makes the chroot if there is none, and lets it see `shared` under the same path.
    pub fn prepare(&self, shared: &Path) -> Result<()> {
        let Clients::Chroot { suite, root } = self else { return Ok(()) };
        let root_path = root.display();
        let packages = match *suite {
            "sid" => format!("{SHARED_PACKAGES} ceph-test ceph-base"),
            "trixie" => format!("{SHARED_PACKAGES} ceph-mds ceph-fuse"),
            _ => SHARED_PACKAGES.to_owned(),
        };
        if !has_packages(root, &packages) {
            println!("making a chroot with Debian {suite}'s clients in {root_path}");
            fs::create_dir_all(root)?;
            shell(&format!(
                "set -e
                mirror=$(awk '/^URIs:/{{print $2; exit}}' /etc/apt/sources.list.d/debian.sources)
                [ -x {root_path}/usr/bin/apt-get ] || debootstrap --variant=minbase {suite} {root_path} $mirror
                for d in proc sys dev; do mountpoint -q {root_path}/$d || mount --rbind /$d {root_path}/$d; done
                printf '#!/bin/sh\\nexit 101\\n' >{root_path}/usr/sbin/policy-rc.d
                chmod +x {root_path}/usr/sbin/policy-rc.d
                chroot {root_path} env DEBIAN_FRONTEND=noninteractive sh -c \
                  'apt-get update -qq {MIRROR_OPTIONS} && apt-get install -y -qq --no-install-recommends {packages}'
                touch {root_path}/.complete"
            ))?;
        }
        let inside = format!("{root_path}{}", shared.display());
        shell(&format!(
            "set -e
            for d in proc sys dev; do
              mountpoint -q {root_path}/$d || {{ mount --rbind /$d {root_path}/$d; mount --make-rslave {root_path}/$d; }}
            done
            mkdir -p {inside}
            mountpoint -q {inside} || mount --bind {} {inside}",
            shared.display()
        ))
    }

    /// Undoes what `prepare` mounted for `shared`.
    pub fn release(&self, shared: &Path) {
        if let Clients::Chroot { root, .. } = self {
            let inside = format!("{}{}", root.display(), shared.display());
            let _ = shell(&format!("umount -l {inside}"));
        }
    }

    /// A command that runs `program` in the clients' root, with nothing but the given environment.
    pub fn command(&self, program: &str, environment: &[(&str, String)]) -> Command {
        let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
        let mut command = match self {
            Clients::Host => Command::new("env"),
            Clients::Chroot { root, .. } => {
                let mut command = Command::new("chroot");
                command.arg(root).arg("/usr/bin/env");
                command
            }
        };
        command.args(["-i", path, "LC_ALL=C", "HOME=/tmp"]);
        command.args(environment.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program).stdin(Stdio::null());
        command
    }
}

/// True if the chroot exists with all packages needed.
fn has_packages(root: &Path, packages: &str) -> bool {
    root.join(".complete").exists()
        && shell(&format!("chroot {} dpkg -s {packages}", root.display())).is_ok()
}

fn shell(script: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{}\n{}", String::from_utf8_lossy(&output.stderr).trim(), output.status);
    }
    Ok(())
}
