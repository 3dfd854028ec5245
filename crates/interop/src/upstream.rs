//! Ceph's own test programs (Debian's `ceph-test`), unmodified.

use crate::cluster::Cluster;
use crate::run::Run;
use anyhow::{Result, bail};
use std::process::Command;

/// A program, with patterns of tests that cannot pass yet and the reason for each.
pub(crate) struct Program {
    /// Its name.
    pub name: &'static str,
    /// Patterns and reasons.
    pub left_out: &'static [(&'static str, &'static str)],
}

const FILTER: &str = "objects are listed without filters";
const OVERFLOW: &str = "of too much output the request tells, but not the operation";
const TIER: &str = "cache tiering is not planned";

const PROGRAMS: &[Program] = &[
    Program { name: "ceph_test_rados_api_io", left_out: &[] },
    Program { name: "ceph_test_rados_api_io_pp", left_out: &[] },
    Program { name: "ceph_test_rados_api_aio", left_out: &[] },
    Program { name: "ceph_test_rados_api_aio_pp", left_out: &[] },
    Program { name: "ceph_test_rados_api_stat", left_out: &[] },
    Program { name: "ceph_test_rados_api_stat_pp", left_out: &[] },
    Program { name: "ceph_test_rados_api_list", left_out: &[] },
    Program { name: "ceph_test_rados_api_misc", left_out: &[] },
    Program { name: "ceph_test_rados_api_misc_pp", left_out: &[] },
    Program { name: "ceph_test_rados_api_lock", left_out: &[] },
    Program { name: "ceph_test_rados_api_lock_pp", left_out: &[] },
    Program { name: "ceph_test_rados_api_watch_notify", left_out: &[] },
    Program {
        name: "ceph_test_rados_api_watch_notify_pp",
        left_out: &[("*LibRadosWatchNotifyPP.*/1", TIER)],
    },
    Program { name: "ceph_test_rados_api_c_read_operations", left_out: &[] },
    Program { name: "ceph_test_rados_api_c_write_operations", left_out: &[] },
    Program { name: "ceph_test_rados_api_cmd", left_out: &[] },
    Program { name: "ceph_test_rados_api_cmd_pp", left_out: &[] },
    Program {
        name: "ceph_test_rados_api_pool",
        left_out: &[("LibRadosPools.PoolGetBaseTier", TIER)],
    },
    Program { name: "ceph_test_rados_api_snapshots", left_out: &[] },
    Program { name: "ceph_test_rados_api_snapshots_pp", left_out: &[] },
    Program { name: "ceph_test_cls_rbd", left_out: &[] },
    Program { name: "ceph_test_cls_journal", left_out: &[] },
    Program { name: "ceph_test_cls_lock", left_out: &[] },
    Program { name: "ceph_test_cls_refcount", left_out: &[] },
    Program {
        name: "ceph_test_cls_hello",
        left_out: &[("ClsHello.Filter", FILTER), ("ClsHello.WriteReturnData", OVERFLOW)],
    },
    Program { name: "ceph_test_neorados_cls", left_out: &[] },
    Program { name: "ceph_test_neorados_cmd", left_out: &[] },
    Program { name: "ceph_test_neorados_completions", left_out: &[] },
    Program { name: "ceph_test_neorados_ec_io", left_out: &[] },
    Program { name: "ceph_test_neorados_ec_list", left_out: &[] },
    Program { name: "ceph_test_neorados_handler_error", left_out: &[] },
    Program { name: "ceph_test_neorados_io", left_out: &[] },
    Program { name: "ceph_test_neorados_list", left_out: &[] },
    Program { name: "ceph_test_neorados_misc", left_out: &[] },
    Program { name: "ceph_test_neorados_pool", left_out: &[] },
    Program { name: "ceph_test_neorados_read_operations", left_out: &[] },
    Program { name: "ceph_test_neorados_snapshots", left_out: &[] },
    Program { name: "ceph_test_neorados_watch_notify", left_out: &[] },
    Program { name: "ceph_test_neorados_write_operations", left_out: &[] },
    Program { name: "ceph_test_neorados_leak_watch_notify", left_out: &[] },
    Program { name: "ceph_test_rados_striper_api_aio", left_out: &[] },
    Program { name: "ceph_test_rados_striper_api_io", left_out: &[] },
    Program { name: "ceph_test_rados_striper_api_striping", left_out: &[] },
    Program { name: "ceph_test_rados_api_asio", left_out: &[] },
    Program { name: "ceph_test_rados_api_service", left_out: &[] },
    Program { name: "ceph_test_rados_api_service_pp", left_out: &[] },
    Program { name: "ceph_test_rados_list_parallel", left_out: &[] },
    Program { name: "ceph_test_rados_open_pools_parallel", left_out: &[] },
    Program { name: "ceph_test_rados_delete_pools_parallel", left_out: &[] },
    Program { name: "ceph_test_neocls_version", left_out: &[] },
];

/// Feature sets of images, as librbd numbers them: none; `layering`; the default with object maps; the
/// default with journaling.
const LIBRBD_FEATURES: [&str; 4] = ["0", "1", "61", "127"];
const LIBRBD_LEFT_OUT: &[(&str, &str)] = &[
    ("*Encrypt*", "the client derives keys for minutes, and the cluster sees nothing of it"),
    ("*LUKS*", "likewise"),
];
/// Number of operations on one image and its clones.
const FSX_OPERATIONS: &str = "1500";
const FSX_SEEDS: [&str; 2] = ["11", "12"];

/// Seconds that one program may take.
const TIME_MAX: &str = "600";
const LIBRBD_TIME_MAX: &str = "1800";

/// Name of the erasure-coded pool with the data of images, and of its profile.
const DATA_POOL: &str = "data-on-shards";
/// Feature sets with which all of librbd's tests run on images with their data in that pool.
const LIBRBD_FEATURES_ON_SHARDS: [&str; 2] = ["61", "127"];

/// Sequences of requests on one object, over every boundary of blocks: the options of each run.
///
/// Left out: `--testrecovery`, which has OSDs inject errors; `--checkconsistency`, which reads shards from
/// OSDs; and `--pool`, with which the program of 20.2.4 sends a command that lacks a parameter.
const SEQUENCES: &[&[&str]] = &[
    &["--plugin", "isa", "--seed", "1"],
    &["--plugin", "isa", "--seed", "2", "--blocksize", "512", "--threads", "4"],
    &["--plugin", "jerasure", "--seed", "3", "--blocksize", "4096", "--parallel", "8"],
];
/// The code of their pools.
const SEQUENCE_CODE: [&str; 4] = ["--km", "2,1", "--chunksize", "4096"];

/// The images that librbd's tests create.
#[derive(Clone, Copy)]
struct Images {
    /// Their features, as librbd numbers them.
    features: &'static str,
    /// Whether their data lies in the erasure-coded pool.
    on_shards: bool,
}

impl Images {
    fn environment(self, run: &Run<'_>) -> Vec<(&'static str, String)> {
        // Without it, librbd refuses to create images of format 1.
        let mut environment = vec![("RBD_FORCE_ALLOW_V1", "1".to_owned())];
        environment.push(("RBD_FEATURES", self.features.to_owned()));
        if self.on_shards {
            let pool = format!("--rbd_default_data_pool={DATA_POOL}");
            environment.push(("CEPH_ARGS", format!("{} {pool}", run.mode.client_args())));
        }
        environment
    }

    fn name(self) -> String {
        let place = if self.on_shards { ", data on shards" } else { "" };
        format!("features {}{place}", self.features)
    }
}

/// Runs all programs against the cluster; fails with the names of tests that failed.
pub fn run(run: &Run<'_>, cluster: &Cluster) -> Result<()> {
    // The tests of erasure-coded pools expect what Ceph has as its default.
    ceph(run, cluster, &["config", "set", "mon", "osd_pool_default_flag_ec_overwrites", "false"])?;
    let mut failed = Vec::new();
    for program in PROGRAMS {
        failed.extend(tests(run, cluster, program.name, program.left_out, None)?);
    }
    if !run.short {
        for features in LIBRBD_FEATURES {
            let images = Images { features, on_shards: false };
            failed.extend(tests_of_images(run, cluster, images)?);
            failed.extend(exercise(run, cluster, images)?);
        }
    }
    result(&failed)
}

/// Runs what writes at random into an erasure-coded pool; fails with the names of what failed.
pub fn run_on_shards(run: &Run<'_>, cluster: &Cluster) -> Result<()> {
    let profile = ["k=2", "m=1", "crush-failure-domain=osd"];
    ceph(
        run,
        cluster,
        &[&["osd", "erasure-code-profile", "set", DATA_POOL][..], &profile].concat(),
    )?;
    ceph(run, cluster, &["osd", "pool", "create", DATA_POOL, "16", "16", "erasure", DATA_POOL])?;
    let mut failed = Vec::new();
    for options in SEQUENCES {
        failed.extend(sequence(run, cluster, options)?);
    }
    if !run.short {
        for features in LIBRBD_FEATURES {
            failed.extend(exercise(run, cluster, Images { features, on_shards: true })?);
        }
        for features in LIBRBD_FEATURES_ON_SHARDS {
            let images = Images { features, on_shards: true };
            failed.extend(tests_of_images(run, cluster, images)?);
        }
    }
    result(&failed)
}

/// Fails with the names of tests that failed.
pub(crate) fn result(failed: &[String]) -> Result<()> {
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

/// A command that must succeed.
fn ceph(run: &Run<'_>, cluster: &Cluster, arguments: &[&str]) -> Result<()> {
    let output = run.clients.command("ceph", &run.environment(cluster)).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "ceph {}: {text}", arguments.join(" "));
    Ok(())
}

/// Runs `ceph_test_rados_io_sequence`; returns what failed.
fn sequence(run: &Run<'_>, cluster: &Cluster, options: &[&str]) -> Result<Option<String>> {
    const NAME: &str = "ceph_test_rados_io_sequence";
    let mut command = run.clients.command("timeout", &run.environment(cluster));
    let output = command.args([TIME_MAX, NAME]).args(SEQUENCE_CODE).args(options).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().next_back().unwrap_or_default();
    let (options, status) = (options.join(" "), output.status);
    run.say(&format!("{NAME} {options}: {status}, {last}"));
    Ok((!status.success()).then(|| format!("{NAME} {options}: {last}")))
}

fn tests_of_images(run: &Run<'_>, cluster: &Cluster, images: Images) -> Result<Option<String>> {
    tests(run, cluster, "ceph_test_librbd", LIBRBD_LEFT_OUT, Some(images))
}

/// Runs one program's tests; returns those that failed.
fn tests(
    run: &Run<'_>,
    cluster: &Cluster,
    name: &str,
    left_out: &[(&str, &str)],
    images: Option<Images>,
) -> Result<Option<String>> {
    let mut environment = run.environment(cluster);
    environment.extend(images.map(|images| images.environment(run)).unwrap_or_default());
    let time_max = if images.is_some() { LIBRBD_TIME_MAX } else { TIME_MAX };
    let mut command = run.clients.command("timeout", &environment);
    command.args([time_max, name]);
    let name = images.map_or(name.to_owned(), |images| format!("{name}, {}", images.name()));
    run_tests(run, &name, left_out, &mut command)
}

/// Runs the tests of a program, whose command lacks the filter; returns those that failed.
pub(crate) fn run_tests(
    run: &Run<'_>,
    name: &str,
    left_out: &[(&str, &str)],
    command: &mut Command,
) -> Result<Option<String>> {
    let patterns: Vec<&str> = left_out.iter().map(|(pattern, _)| *pattern).collect();
    let output = command.arg(format!("--gtest_filter=*-{}", patterns.join(":"))).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    std::fs::write(run.directory.join(name), text.as_bytes())?;
    let (passed, failures) = (count(&text, "[       OK ]"), failures(&text));
    run.say(&format!("{name}: {passed} passed, {} failed", failures.len()));
    for (pattern, reason) in left_out {
        run.say(&format!("  left out {pattern}: {reason}"));
    }
    let failed = || format!("{name} ({}) {}", output.status, failures.join(" "));
    Ok((!output.status.success()).then(failed))
}

/// Runs random operations on images, their clones and deep copies, compared with files; returns failures.
fn exercise(run: &Run<'_>, cluster: &Cluster, images: Images) -> Result<Vec<String>> {
    let pool = format!("fsx-{}", images.features);
    ceph(run, cluster, &["osd", "pool", "create", &pool, "16"])?;
    let mut environment = run.environment(cluster);
    environment.extend(images.environment(run));
    let mut failed = Vec::new();
    for seed in FSX_SEEDS {
        for copies in [None, Some("-g")] {
            let way = copies.map_or("clones", |_| "deep copies");
            let image = format!("image-{seed}-{}", way.replace(' ', "-"));
            let mut command = run.clients.command("timeout", &environment);
            command.args([TIME_MAX, "ceph_test_librbd_fsx", "-q", "-W", "-R"]);
            command.args(["-N", FSX_OPERATIONS, "-S", seed, "-P"]);
            command.arg(format!("{}/", run.directory.display()));
            let output = command.args(copies).args([&pool, &image]).output()?;
            let name = format!("fsx, {}, {way}, seed {seed}", images.name());
            run.say(&format!("{name}: {}", output.status));
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stdout);
                let last = said.lines().next_back().unwrap_or_default();
                failed.push(format!("{name}: {last}"));
            }
        }
    }
    Ok(failed)
}

fn count(text: &str, mark: &str) -> usize {
    text.lines().filter(|line| line.starts_with(mark)).count()
}

/// Names of the failed tests, once each.
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
