//! The checks, with the clients and modes for which they run.

use crate::clients::Clients;
use crate::cluster::{self, Cluster};
use crate::erasure_codes;
use crate::run::{Check, Mode, Run};
use crate::{upstream, upstream_files};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The sensible combinations for these clients.
pub fn plan(clients: &Clients, short: bool) -> Vec<(Check, Mode)> {
    let mut plan: Vec<(Check, Mode)> = Vec::new();
    for check in Check::ALL {
        match check {
            Check::Rados | Check::Librados => {
                plan.extend([Mode::Crc, Mode::Secure].map(|mode| (check, mode)));
            }
            Check::Bench | Check::Fio if !short => {
                plan.extend([Mode::Crc, Mode::Secure].map(|mode| (check, mode)));
            }
            Check::Upstream
            | Check::UpstreamShards
            | Check::UpstreamFiles
            | Check::RadosModel
            | Check::Placements
                if clients.name() != "20.2" => {}
            // The recorded answers are of release 18.2.
            Check::CompareCommands if clients.name() != "18.2" => {}
            // The book boots machines for five minutes.
            Check::Guest | Check::ManyGroups | Check::Book if short => {}
            // Only the root of these clients has the servers' packages.
            Check::FileSystem if short || clients.name() != "18.2" => {}
            // The root of 20.2 has no ceph-fuse.
            Check::OwnFileSystem | Check::Subvolumes | Check::Fsck if clients.name() == "20.2" => {}
            Check::ErasureCodes
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
            | Check::Groups
            | Check::Metrics
            | Check::Console
            | Check::BadInput
                if *clients != Clients::Host => {}
            _ => plan.push((check, Mode::Crc)),
        }
    }
    if !short {
        plan.push((Check::Rados, Mode::NoAuth));
    }
    plan
}

/// Runs one check on a cluster of its own.
pub fn execute(run: &Run<'_>) -> Result<()> {
    match run.check {
        Check::ErasureCodes => return erasure_codes::run(run),
        Check::KillStore => return kill_store(run),
        Check::Control => return control(run),
        Check::OwnFileSystem => return own_file_system(run),
        Check::Subvolumes => {
            return with_own_cluster(run, "subvolumes.sh", include_str!("../checks/subvolumes.sh"));
        }
        Check::Fsck => {
            return with_own_cluster(run, "fsck.sh", include_str!("../checks/fsck.sh"));
        }
        Check::Book => return book(run),
        Check::Faults => return faults(run),
        Check::ManyGroups => return with_machine(run, "many_groups.py", MANY_GROUPS, &[]),
        Check::ImagesUnderKills => return images_under_kills(run),
        Check::RealImage => return with_machine(run, "real_image.py", REAL_IMAGE, &[]),
        Check::Guest => return with_machine(run, "guest.py", GUEST, &[]),
        Check::RadosModel => {
            return with_client_in_root(run, "rados_model.py", RADOS_MODEL);
        }
        Check::Placements => {
            return with_client_in_root(run, "placements.py", PLACEMENTS);
        }
        _ => {}
    }
    let auth = if run.mode == Mode::NoAuth { "none" } else { "cephx" };
    let disk_size = match run.check {
        Check::FullDisk => SMALL_DISK,
        Check::Bench | Check::SourceTree | Check::Upstream | Check::UpstreamShards
            if !run.short =>
        {
            LARGE_DISK
        }
        _ => DISK_SIZE,
    };
    let file_system = (run.check == Check::UpstreamFiles).then_some(FILE_SYSTEM);
    let mut cluster = Cluster::start(run.directory, auth, disk_size, file_system)?;
    let result = match run.check {
        Check::SourceTree => source_tree(run, &mut cluster),
        Check::FullDisk => full_disk(run, &mut cluster),
        Check::BadInput => bad_input(run, &cluster),
        Check::CompareCommands => compare_commands(run, &cluster),
        Check::Upstream => upstream::run(run, &cluster),
        Check::UpstreamShards => upstream::run_on_shards(run, &cluster),
        Check::UpstreamFiles => upstream_files::run(run, &cluster),
        check => {
            let (interpreter, text) = check.script().context("a script")?;
            let path = run.write_script(check.name(), text)?;
            let mut environment = run.environment(&cluster);
            environment.push(("SEPIOLA", run.binary()?.display().to_string()));
            let mut command = run.clients.command(interpreter, &environment);
            run.finish(command.arg(path))
        }
    };
    cluster.check_alive()?;
    result
}

/// The name of the file system, where a check has one.
const FILE_SYSTEM: &str = "cephfs";
const SOURCE_TREE: &str = include_str!("../checks/source_tree.py");
const KILLS: [u64; 4] = [2000, 2000, 2500, 3000];

/// Stores a kernel source tree file by file while the cluster is killed again and again; everything
/// acknowledged must read back.
fn source_tree(run: &Run<'_>, cluster: &mut Cluster) -> Result<()> {
    let script = run.write_script("source_tree.py", SOURCE_TREE)?;
    let journal = run.directory.join("journal");
    let tarball = linux_source()?;
    let (limit, kills) = if run.short { ("4000", &KILLS[..2]) } else { ("25000", &KILLS[..]) };
    let environment = run.environment(cluster);
    let mut create = run.clients.command("ceph", &environment);
    run.finish(create.args(["osd", "pool", "create", "source-tree", "32"]))?;
    let python = |args: &[&str]| {
        let mut command = run.clients.command("python3", &environment);
        command.arg(&script).args(args);
        command
    };
    let (tarball, journal) = (tarball.display().to_string(), journal.display().to_string());
    let store = ["store", &tarball, &journal, limit];
    for pause_ms in kills {
        let mut child = python(&store).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        // Not a wait for a condition: the moment of the kill is arbitrary on purpose.
        std::thread::sleep(Duration::from_millis(*pause_ms));
        cluster.kill()?;
        cluster.up()?;
        run.finish(&mut python(&["verify", &journal]))?;
        stop(&mut child)?;
    }
    run.finish(&mut python(&store))?;
    run.finish(&mut python(&["verify", &journal]))?;
    cluster.kill()?;
    cluster.up()?;
    run.finish(&mut python(&["verify", &journal]))
}

fn stop(child: &mut Child) -> Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn linux_source() -> Result<PathBuf> {
    let found =
        fs::read_dir("/usr/src")?.filter_map(|entry| Some(entry.ok()?.path())).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("linux-source-") && name.ends_with(".tar.xz")
        });
    found.context("there is no /usr/src/linux-source-*.tar.xz: install linux-source")
}

const KILL_STORE: &str = include_str!("../checks/kill_store.py");
const KILLED_CLUSTERS: [&[&str]; 3] = [
    &["--devices", "files"],
    &["--devices", "loop"],
    &["--devices", "files", "--osds", "1", "--rounds", "30"],
];

/// Clusters that are killed under load many times; the script starts them.
fn kill_store(run: &Run<'_>) -> Result<()> {
    let script = run.write_script("kill_store.py", KILL_STORE)?;
    let mut environment = run.environment_without_cluster();
    environment.push(("SEPIOLA", cluster::binary()?.display().to_string()));
    let clusters = if run.short { &KILLED_CLUSTERS[..1] } else { &KILLED_CLUSTERS[..] };
    for (number, arguments) in clusters.iter().enumerate() {
        let scratch = run.directory.join(number.to_string());
        fs::create_dir(&scratch)?;
        let mut environment = environment.clone();
        environment.push(("SCRATCH", scratch.display().to_string()));
        let mut python = run.clients.command("python3", &environment);
        run.finish(python.arg(&script).args(*arguments))?;
    }
    Ok(())
}

macro_rules! unit {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../packaging/systemd/", $name)))
    };
}

const UNITS: [(&str, &str); 5] = [
    unit!("sepiola-mon@.service"),
    unit!("sepiola-osd@.service"),
    unit!("sepiola-mds@.service"),
    unit!("sepiola-up.service"),
    unit!("sepiola.target"),
];

/// The control plane: where it lies, how it is moved, rebuilt and reached; the script starts everything.
fn control(run: &Run<'_>) -> Result<()> {
    let units = run.directory.join("systemd");
    fs::create_dir(&units)?;
    for (name, text) in UNITS {
        fs::write(units.join(name), text)?;
    }
    let units = ("UNITS", units.display().to_string());
    let text = include_str!("../checks/control.py");
    script_that_starts_all(run, "control.py", text, &[], [units])
}

/// The operator's book, on machines that boot systemd and install the package.
fn book(run: &Run<'_>) -> Result<()> {
    run.write_script("lab.py", include_str!("../checks/lab.py"))?;
    run.write_script("containers.py", include_str!("../checks/containers.py"))?;
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations");
    let more = [("BOOK", pages.to_owned()), ("SEPIOLA_DEB", package()?.display().to_string())];
    script_that_starts_all(run, "book.py", include_str!("../checks/book.py"), &[], more)
}

/// The package beside the program: the newest, if those of other versions lie there, too.
fn package() -> Result<PathBuf> {
    let binary = cluster::binary()?;
    let directory = binary.ancestors().nth(2).context("a target directory")?.join("debian");
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    let packages = entries.filter(|entry| entry.path().extension() == Some("deb".as_ref()));
    let made = |entry: &fs::DirEntry| entry.metadata().and_then(|file| file.modified()).ok();
    let newest = packages.max_by_key(made).map(|entry| entry.path());
    newest
        .with_context(|| format!("there is no package in {}: cargo xtask deb", directory.display()))
}

/// Machines in network namespaces, which fail and come back; the script starts their daemons.
fn faults(run: &Run<'_>) -> Result<()> {
    run.write_script("lab.py", include_str!("../checks/lab.py"))?;
    let text = include_str!("../checks/faults.py");
    script_that_starts_all(run, "faults.py", text, &[], [])?;
    if run.short {
        return Ok(());
    }
    script_that_starts_all(run, "faults.py", text, &["--code", "2+1"], [])
}

/// A cluster with a metadata server of its own and stock clients; the script starts everything.
fn own_file_system(run: &Run<'_>) -> Result<()> {
    let text = include_str!("../checks/own_file_system.sh");
    let script = run.write_script("own_file_system.sh", text)?;
    let mut environment = run.environment_without_cluster();
    environment.push(("SEPIOLA", run.binary()?.display().to_string()));
    let model = run.write_script("two_mounts.py", include_str!("../checks/two_mounts.py"))?;
    environment.push(("TWO_MOUNTS", model.display().to_string()));
    let locks = run.write_script("two_locks.py", include_str!("../checks/two_locks.py"))?;
    environment.push(("TWO_LOCKS", locks.display().to_string()));
    run.finish(run.clients.command("bash", &environment).arg(script))
}

/// A script that starts everything itself.
fn with_own_cluster(run: &Run<'_>, name: &str, text: &str) -> Result<()> {
    let script = run.write_script(name, text)?;
    let mut environment = run.environment_without_cluster();
    environment.push(("SEPIOLA", run.binary()?.display().to_string()));
    run.finish(run.clients.command("bash", &environment).arg(script))
}

const IMAGES_UNDER_KILLS: &str = include_str!("../checks/images_under_kills.py");
const MANY_GROUPS: &str = include_str!("../checks/many_groups.py");
const REAL_IMAGE: &str = include_str!("../checks/real_image.py");
const GUEST: &str = include_str!("../checks/guest.py");

/// Images in pools of both kinds; only replicated ones in a short run.
fn images_under_kills(run: &Run<'_>) -> Result<()> {
    const CODES: [&[&str]; 3] = [&[], &["--code", "2+1"], &["--code", "4+2", "--rounds", "4"]];
    for code in if run.short { &CODES[..1] } else { &CODES[..] } {
        with_machine(run, "images_under_kills.py", IMAGES_UNDER_KILLS, code)?;
    }
    Ok(())
}

/// OSDs as processes of one machine, which are killed one by one; the script starts them.
fn with_machine(run: &Run<'_>, name: &str, text: &str, arguments: &[&str]) -> Result<()> {
    run.write_script("machine.py", include_str!("../checks/machine.py"))?;
    script_that_starts_all(run, name, text, arguments, [])
}

const RADOS_MODEL: &str = include_str!("../checks/rados_model.py");
const PLACEMENTS: &str = include_str!("../checks/placements.py");

/// Only the client's programs run in its root; daemons and script run on the host.
fn with_client_in_root(run: &Run<'_>, name: &str, text: &str) -> Result<()> {
    let Clients::Chroot { root, .. } = run.clients else { bail!("needs the clients of 20.2") };
    let client = ("CLIENT", format!("chroot {}", root.display()));
    let host = Run { clients: &Clients::Host, ..*run };
    host.write_script("machine.py", include_str!("../checks/machine.py"))?;
    script_that_starts_all(&host, name, text, &[], [client])
}

fn script_that_starts_all(
    run: &Run<'_>,
    name: &str,
    text: &str,
    arguments: &[&str],
    more: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<()> {
    run.write_script("tools.py", include_str!("../checks/tools.py"))?;
    let script = run.write_script(name, text)?;
    let mut environment = run.environment_without_cluster();
    environment.extend(more);
    environment.push(("SEPIOLA", cluster::binary()?.display().to_string()));
    run.finish(run.clients.command("python3", &environment).arg(script).args(arguments))
}

const FULL_DISK: &str = include_str!("../checks/full_disk.py");
/// Disk size of each OSD. Several clusters must fit one machine.
const DISK_SIZE: &str = "2G";
const SMALL_DISK: &str = "512M";
/// Disk size for checks that write at full speed.
const LARGE_DISK: &str = "4G";

/// Disks that fill up, with a kill while they are full, and are emptied again.
fn full_disk(run: &Run<'_>, cluster: &mut Cluster) -> Result<()> {
    let script = run.write_script("full_disk.py", FULL_DISK)?;
    let environment = run.environment(cluster);
    let journal = run.directory.join("journal");
    let python = |part: &str| {
        let mut command = run.clients.command("python3", &environment);
        command.arg(&script).arg(part).arg(&journal);
        command
    };
    run.finish(&mut python("fill"))?;
    cluster.check_alive()?;
    cluster.kill()?;
    cluster.fsck()?;
    cluster.up()?;
    run.finish(&mut python("empty"))?;
    cluster.check_alive()?;
    cluster.kill()?;
    cluster.fsck()
}

/// Compares the results of some 750 commands with those recorded from Ceph 18.2.7.
fn compare_commands(run: &Run<'_>, cluster: &Cluster) -> Result<()> {
    let text = include_str!("../checks/compare_commands.py");
    let script = run.write_script("compare_commands.py", text)?;
    let commands = run.write_script("commands.list", include_str!("../checks/commands.list"))?;
    let answers = run.write_script("answers.json", include_str!("../checks/answers-18.2.json"))?;
    let differences =
        run.write_script("differences", include_str!("../checks/commands.differences"))?;
    let mut command = run.clients.command("python3", &run.environment(cluster));
    command.arg(script).arg("--conf").arg(cluster.conf()).arg("--commands").arg(commands);
    run.finish(command.arg("--answers").arg(answers).arg("--differences").arg(differences))
}

/// KiB of memory that a daemon may keep after the attacks, for buffers it had not needed before.
const GROWTH_KIB_MAX: u64 = 48 << 10;

fn bad_input(run: &Run<'_>, cluster: &Cluster) -> Result<()> {
    let script = run.write_script("bad_input.py", include_str!("../checks/bad_input.py"))?;
    let before = cluster.memory_kib()?;
    for seed in 1..=3 {
        let mut environment = run.environment(cluster);
        environment.push(("SEED", seed.to_string()));
        run.finish(run.clients.command("python3", &environment).arg(&script))?;
    }
    let after = cluster.memory_kib()?;
    run.say(&format!("memory {before} KiB before, {after} KiB after"));
    if after > before + GROWTH_KIB_MAX {
        bail!("memory grew from {before} to {after} KiB");
    }
    Ok(())
}
