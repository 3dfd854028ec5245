//! One run of a check: the check, the clients and their mode, and its directory.

use crate::clients::Clients;
use crate::cluster::{self, Cluster};
use anyhow::{Context, Result, bail};
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One check; most are one script in `checks/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    ErasureCodes,
    Commands,
    Rados,
    Librados,
    Caps,
    ImageUsers,
    Bench,
    Fio,
    Rbd,
    Image,
    Clones,
    Nbd,
    Groups,
    Metrics,
    Console,
    ErasurePools,
    FileSystem,
    OwnFileSystem,
    Subvolumes,
    Fsck,
    CompareCommands,
    BadInput,
    SourceTree,
    KillStore,
    FullDisk,
    Control,
    Book,
    Faults,
    ManyGroups,
    ImagesUnderKills,
    RealImage,
    Guest,
    Placements,
    RadosModel,
    Upstream,
    UpstreamShards,
    UpstreamFiles,
}

impl Check {
    /// All checks, in the order in which they run.
    pub const ALL: [Check; 37] = [
        Check::ErasureCodes,
        Check::Commands,
        Check::Rados,
        Check::Librados,
        Check::Caps,
        Check::ImageUsers,
        Check::Bench,
        Check::Fio,
        Check::Rbd,
        Check::Image,
        Check::Clones,
        Check::Nbd,
        Check::Groups,
        Check::Metrics,
        Check::Console,
        Check::ErasurePools,
        Check::FileSystem,
        Check::OwnFileSystem,
        Check::Subvolumes,
        Check::Fsck,
        Check::CompareCommands,
        Check::BadInput,
        Check::SourceTree,
        Check::KillStore,
        Check::FullDisk,
        Check::Control,
        Check::Book,
        Check::Faults,
        Check::ManyGroups,
        Check::ImagesUnderKills,
        Check::RealImage,
        Check::Guest,
        Check::Placements,
        Check::RadosModel,
        Check::Upstream,
        Check::UpstreamShards,
        Check::UpstreamFiles,
    ];

    /// True for those that take longest in a short run.
    pub fn is_long(self) -> bool {
        use Check::{Console, Control, Faults, Metrics, Nbd, Rbd};
        [Rbd, Nbd, Faults, Control, Metrics, Console].contains(&self)
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Check::ErasureCodes => "erasure-codes",
            Check::Commands => "commands",
            Check::Rados => "rados",
            Check::Librados => "librados",
            Check::Caps => "caps",
            Check::ImageUsers => "image-users",
            Check::Bench => "bench",
            Check::Fio => "fio",
            Check::Rbd => "rbd",
            Check::Image => "image",
            Check::Clones => "clones",
            Check::Nbd => "nbd",
            Check::Groups => "groups",
            Check::Metrics => "metrics",
            Check::Console => "console",
            Check::ErasurePools => "erasure-pools",
            Check::FileSystem => "file-system",
            Check::OwnFileSystem => "own-file-system",
            Check::Subvolumes => "subvolumes",
            Check::Fsck => "fsck",
            Check::CompareCommands => "compare-commands",
            Check::BadInput => "bad-input",
            Check::SourceTree => "source-tree",
            Check::KillStore => "kill-store",
            Check::FullDisk => "full-disk",
            Check::Control => "control",
            Check::Book => "book",
            Check::Faults => "faults",
            Check::ManyGroups => "many-groups",
            Check::ImagesUnderKills => "images-under-kills",
            Check::RealImage => "real-image",
            Check::Guest => "guest",
            Check::Placements => "placements",
            Check::RadosModel => "rados-model",
            Check::Upstream => "upstream",
            Check::UpstreamShards => "upstream-shards",
            Check::UpstreamFiles => "upstream-files",
        }
    }

    /// Interpreter and script of the checks that are one script.
    pub fn script(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Check::Commands => ("bash", include_str!("../checks/commands.sh")),
            Check::Rados => ("bash", include_str!("../checks/rados.sh")),
            Check::Librados => ("python3", include_str!("../checks/librados.py")),
            Check::Caps => ("bash", include_str!("../checks/caps.sh")),
            Check::ImageUsers => ("bash", include_str!("../checks/image-users.sh")),
            Check::Bench => ("bash", include_str!("../checks/bench.sh")),
            Check::Fio => ("bash", include_str!("../checks/fio.sh")),
            Check::Rbd => ("bash", include_str!("../checks/rbd.sh")),
            Check::Image => ("bash", include_str!("../checks/image.sh")),
            Check::Clones => ("bash", include_str!("../checks/clones.sh")),
            Check::Nbd => ("bash", include_str!("../checks/nbd.sh")),
            Check::Groups => ("python3", include_str!("../checks/groups.py")),
            Check::Metrics => ("python3", include_str!("../checks/metrics.py")),
            Check::Console => ("python3", include_str!("../checks/console.py")),
            Check::ErasurePools => ("bash", include_str!("../checks/erasure_pools.sh")),
            Check::FileSystem => ("bash", include_str!("../checks/file_system.sh")),
            Check::ErasureCodes
            | Check::OwnFileSystem
            | Check::Subvolumes
            | Check::Fsck
            | Check::CompareCommands
            | Check::BadInput
            | Check::SourceTree
            | Check::KillStore
            | Check::FullDisk
            | Check::Control
            | Check::Book
            | Check::Faults
            | Check::ManyGroups
            | Check::ImagesUnderKills
            | Check::RealImage
            | Check::Guest
            | Check::Placements
            | Check::RadosModel
            | Check::Upstream
            | Check::UpstreamShards
            | Check::UpstreamFiles => return None,
        })
    }
}

/// Connection mode of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Crc,
    Secure,
    NoAuth,
}

impl Mode {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Crc => "crc",
            Mode::Secure => "secure",
            Mode::NoAuth => "no-auth",
        }
    }

    /// Arguments that clients take from `CEPH_ARGS`.
    pub fn client_args(self) -> &'static str {
        match self {
            Mode::Secure => {
                "--ms_client_mode=secure --ms_service_mode=secure --ms_mon_client_mode=secure"
            }
            Mode::Crc | Mode::NoAuth => {
                "--ms_client_mode=crc --ms_service_mode=crc --ms_mon_client_mode=crc"
            }
        }
    }
}

/// A check with what it runs on.
pub struct Run<'a> {
    /// Clients that are checked.
    pub clients: &'a Clients,
    /// Check that runs.
    pub check: Check,
    /// Connection mode of the clients.
    pub mode: Mode,
    /// True for a run of few seconds.
    pub short: bool,
    /// Directory of this run, empty at its beginning.
    pub directory: &'a Path,
    /// Lines for the end of the run.
    pub report: &'a Report,
}

/// Lines that a run prints when it ends: runs beside it print, too.
#[derive(Default)]
pub struct Report(RefCell<String>);

impl Report {
    /// Adds a line.
    pub fn say(&self, line: &str) {
        let mut text = self.0.borrow_mut();
        text.push_str(line);
        text.push('\n');
    }

    /// All lines.
    pub fn into_text(self) -> String {
        self.0.into_inner()
    }
}

impl Run<'_> {
    /// Environment of a script that uses a cluster.
    pub fn environment(&self, cluster: &Cluster) -> Vec<(&'static str, String)> {
        let mut environment = self.environment_without_cluster();
        environment.push(("CEPH_CONF", cluster.conf().display().to_string()));
        environment
    }

    /// Environment of a script that starts its clusters itself.
    pub fn environment_without_cluster(&self) -> Vec<(&'static str, String)> {
        vec![
            ("CEPH_ARGS", self.mode.client_args().to_owned()),
            ("SCRATCH", self.directory.display().to_string()),
            ("SHORT", if self.short { "1" } else { "0" }.to_owned()),
        ]
    }

    /// Adds a line to the report.
    pub fn say(&self, line: &str) {
        self.report.say(&format!("  {line}"));
    }

    /// Runs a command to its end; reports its output, or returns it as the error on failure.
    pub fn finish(&self, command: &mut Command) -> Result<()> {
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let text = said + String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}", output.status, tail(&text));
        }
        said.lines().for_each(|line| self.say(line));
        Ok(())
    }

    /// The program under test, as a path at the clients.
    pub fn binary(&self) -> Result<PathBuf> {
        let binary = cluster::binary()?;
        if *self.clients == Clients::Host {
            return Ok(binary);
        }
        let copy = self.directory.join("sepiola");
        fs::copy(&binary, &copy).with_context(|| format!("copying {}", binary.display()))?;
        Ok(copy)
    }

    /// Writes a script to where the clients find it; returns its path at the clients.
    pub fn write_script(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }
}

/// The last lines, which hold the reason.
fn tail(text: &str) -> String {
    const LINES: usize = 15;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n    ")
}
