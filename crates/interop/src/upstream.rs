//! Ceph's own test programs (Debian's `ceph-test`), unmodified.

use crate::checks::Run;
use crate::cluster::Cluster;
use anyhow::{Result, bail};
use std::fmt::Write;

/// A program, and the tests in it that cannot pass yet, each pattern with the reason.
struct Program {
    name: &'static str,
    left_out: &'static [(&'static str, &'static str)],
}

const ERASURE: &str = "erasure-coded pools are not served yet";
const SPLIT: &str = "not run since placement groups divide";
const FILTER: &str = "objects are listed without filters";
const OVERFLOW: &str = "of too much output the request tells, but not the operation";
const TIER: &str = "cache tiering is not planned";

const PROGRAMS: &[Program] = &[
    Program { name: "ceph_test_rados_api_io", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_io_pp", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_aio", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_aio_pp", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_stat", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_stat_pp", left_out: &[("*EC*", ERASURE)] },
    Program {
        name: "ceph_test_rados_api_list",
        left_out: &[
            ("*EC*", ERASURE),
            ("LibRadosList.EnumerateObjects", SPLIT),
            ("LibRadosList.EnumerateObjectsSplit", SPLIT),
        ],
    },
    Program { name: "ceph_test_rados_api_misc", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_misc_pp", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_lock", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_lock_pp", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_watch_notify", left_out: &[("*EC*", ERASURE)] },
    Program {
        name: "ceph_test_rados_api_watch_notify_pp",
        left_out: &[("*EC*", ERASURE), ("*LibRadosWatchNotifyPP.WatchNotify/1", TIER)],
    },
    Program { name: "ceph_test_rados_api_c_read_operations", left_out: &[] },
    Program { name: "ceph_test_rados_api_c_write_operations", left_out: &[] },
    Program { name: "ceph_test_rados_api_cmd", left_out: &[] },
    Program { name: "ceph_test_rados_api_cmd_pp", left_out: &[] },
    Program {
        name: "ceph_test_rados_api_pool",
        left_out: &[("*EC*", ERASURE), ("LibRadosPools.PoolGetBaseTier", TIER)],
    },
    Program { name: "ceph_test_rados_api_snapshots", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_rados_api_snapshots_pp", left_out: &[("*EC*", ERASURE)] },
    Program { name: "ceph_test_cls_rbd", left_out: &[] },
    Program { name: "ceph_test_cls_journal", left_out: &[] },
    Program { name: "ceph_test_cls_lock", left_out: &[] },
    Program { name: "ceph_test_cls_refcount", left_out: &[("*_ec", ERASURE)] },
    Program {
        name: "ceph_test_cls_hello",
        left_out: &[("ClsHello.Filter", FILTER), ("ClsHello.WriteReturnData", OVERFLOW)],
    },
];

/// Seconds that one program may take.
const TIME_MAX: &str = "600";

pub fn run(run: &Run<'_>, cluster: &Cluster) -> Result<()> {
    let mut report = String::new();
    let mut failed = Vec::new();
    for program in PROGRAMS {
        let patterns: Vec<&str> = program.left_out.iter().map(|(pattern, _)| *pattern).collect();
        let filter = format!("--gtest_filter=*-{}", patterns.join(":"));
        let environment = run.environment(cluster);
        let mut command = run.clients.command("timeout", &environment);
        command.args([TIME_MAX, program.name, &filter]);
        let output = command.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let passed = count(&text, "[       OK ]");
        let failures = failures(&text);
        std::fs::write(run.directory.join(program.name), text.as_bytes())?;
        writeln!(report, "  {}: {passed} passed, {} failed", program.name, failures.len())?;
        for (pattern, reason) in program.left_out {
            writeln!(report, "    left out {pattern}: {reason}")?;
        }
        if !output.status.success() && !patterns.contains(&"*") {
            failed.push(format!("{} ({}) {}", program.name, output.status, failures.join(" ")));
        }
    }
    print!("{report}");
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

fn count(text: &str, mark: &str) -> usize {
    text.lines().filter(|line| line.starts_with(mark)).count()
}

/// The names of the tests that failed, once each.
fn failures(text: &str) -> Vec<String> {
    const MARK: &str = "[  FAILED  ] ";
    let named = text.lines().filter_map(|line| line.strip_prefix(MARK));
    let mut names: Vec<String> = named
        .filter_map(|rest| rest.split([' ', ',']).next())
        .filter(|name| name.contains('.'))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}
