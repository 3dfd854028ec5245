//! Ceph's own test programs of file systems (Debian's `ceph-test`), unmodified, against Sepiola's metadata
//! server. They run as an ordinary user: root would be refused nothing.

use crate::cluster::Cluster;
use crate::run::Run;
use crate::upstream::{Program, result, run_tests};
use anyhow::Result;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const SNAPSHOT_TIMES: &str = "`.snap` has no times of its own yet";
const SNAPSHOT_NUMBERS: &str = "an inode of a snapshot is not found by its number yet";
const REALM: &str = "there is no inode of the global snap realm yet";
const CASES: &str = "names are not folded";
const OTHER_NAMES: &str = "names have no alternative form";
const GIGABYTES: &str = "several GiB are written";
const OF_CLIENT: &str = "a message without a meaning is ignored; its client is not evicted";

/// The programs, and tests that cannot pass yet.
const PROGRAMS: &[Program] = &[
    Program {
        name: "ceph_test_libcephfs",
        left_out: &[
            ("LibCephFS.SnapdirAttrsOnSnap*", SNAPSHOT_TIMES),
            ("LibCephFS.LookupVino", SNAPSHOT_NUMBERS),
            ("LibCephFS.LookupMdsPrivateInos", REALM),
            ("*CaseInsensitive*", CASES),
        ],
    },
    Program { name: "ceph_test_libcephfs_access", left_out: &[] },
    Program { name: "ceph_test_libcephfs_lazyio", left_out: &[] },
    Program { name: "ceph_test_libcephfs_newops", left_out: &[] },
    Program { name: "ceph_test_libcephfs_perfcounters", left_out: &[] },
    Program { name: "ceph_test_libcephfs_reclaim", left_out: &[] },
    Program { name: "ceph_test_libcephfs_suidsgid", left_out: &[] },
    Program { name: "ceph_test_libcephfs_vxattr", left_out: &[] },
    Program {
        name: "ceph_test_client",
        left_out: &[
            ("*AlternateName*", OTHER_NAMES),
            ("*LargeBuffers*", GIGABYTES),
            ("*Overflow*", GIGABYTES),
            ("TestClient.CheckUnknownSessionOp", OF_CLIENT),
        ],
    },
];

/// The user and group as which they run.
const USER: &str = "1000";
/// Seconds that one program may take: some tests write for a minute, or wait for a session's end.
const TIME_MAX: &str = "900";

/// Runs all programs; fails with the names of tests that failed.
pub fn run(run: &Run<'_>, cluster: &Cluster) -> Result<()> {
    let conf = readable_conf(run, cluster)?;
    let mut failed = Vec::new();
    for program in PROGRAMS {
        let mut environment = run.environment_without_cluster();
        environment.push(("CEPH_CONF", conf.display().to_string()));
        let mut command = run.clients.command("setpriv", &environment);
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        command.args(["timeout", TIME_MAX, program.name]);
        failed.extend(run_tests(run, program.name, program.left_out, &mut command)?);
    }
    result(&failed)
}

/// A copy of configuration and keyring of the administrator that every user can read.
fn readable_conf(run: &Run<'_>, cluster: &Cluster) -> Result<PathBuf> {
    let directory = run.directory.join("readable");
    fs::create_dir(&directory)?;
    let own = cluster.conf();
    let data = own.with_file_name("");
    let keyring = "ceph.client.admin.keyring";
    fs::copy(data.join(keyring), directory.join(keyring))?;
    let text = fs::read_to_string(&own)?;
    let text = text.replace(&data.display().to_string(), &format!("{}/", directory.display()));
    let conf = directory.join("ceph.conf");
    fs::write(&conf, text)?;
    for (path, mode) in [(&directory, 0o755), (&directory.join(keyring), 0o644), (&conf, 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(conf)
}
