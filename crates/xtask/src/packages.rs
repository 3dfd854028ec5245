//! Debian packages that the tests need, installed by name.

use crate::run::run;
use anyhow::{Result, bail};
use std::process::{Command, Stdio};

/// Stock clients of Debian 12, the tools that drive them, the erasure codes of Ceph (`ceph-osd`), the
/// store of a control plane, Prometheus with Ceph's rules and dashboards, and a browser for the console.
pub const TEST_PACKAGES: [&str; 20] = [
    "ceph-common",
    "ceph-fuse",
    "python3-cephfs",
    "python3-rados",
    "python3-rbd",
    "qemu-utils",
    "libnbd-bin",
    "qemu-block-extra",
    "fio",
    "ceph-base",
    "ceph-osd",
    "linux-source",
    "etcd-server",
    "etcd-client",
    "openssl",
    "iproute2",
    "prometheus",
    "ceph-prometheus-alerts",
    "ceph-grafana-dashboards",
    "chromium",
];

/// Installs those of `packages` that are missing.
pub fn ensure(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !has("apt-get") {
        bail!("these are missing and apt-get is not here to install them: {}", missing.join(" "));
    }
    println!("installing {}", missing.join(" "));
    run(privileged("apt-get").args(["update", "-qq"]))?;
    run(privileged("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&missing)
        .stdout(Stdio::null()))
}

fn is_installed(package: &str) -> bool {
    let output = Command::new("dpkg-query").args(["-W", "-f=${Status}", package]).output();
    output.is_ok_and(|output| output.stdout.ends_with(b" installed"))
}

/// True if a program of this name is in the path.
pub fn has(program: &str) -> bool {
    let status = Command::new("which").arg(program).stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A command that runs `program` as root: directly if this process is root, else through sudo.
pub fn privileged(program: &str) -> Command {
    let id = Command::new("id").arg("-u").output();
    let mut command = if id.is_ok_and(|output| output.stdout.trim_ascii() == b"0") {
        Command::new(program)
    } else {
        let mut command = Command::new("sudo");
        command.arg("--preserve-env=DEBIAN_FRONTEND").arg(program);
        command
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
