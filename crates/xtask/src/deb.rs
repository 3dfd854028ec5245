//! The Debian package: the program with its manual pages and completions, and its units.
//!
//! The same sources and compiler give the same bytes: files have the time of the last commit, or that of
//! `SOURCE_DATE_EPOCH`, and belong to root.

use crate::packages::ensure;
use crate::run::{cargo, root, run};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PACKAGES: [&str; 2] = ["dpkg-dev", "binutils"];
const FILE_MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;
/// Files of the repository, and where a package puts them.
const FILES: [(&str, &str, u32); 10] = [
    (
        "packaging/systemd/sepiola-mon@.service",
        "usr/lib/systemd/system/sepiola-mon@.service",
        FILE_MODE,
    ),
    (
        "packaging/systemd/sepiola-osd@.service",
        "usr/lib/systemd/system/sepiola-osd@.service",
        FILE_MODE,
    ),
    (
        "packaging/systemd/sepiola-mds@.service",
        "usr/lib/systemd/system/sepiola-mds@.service",
        FILE_MODE,
    ),
    (
        "packaging/systemd/sepiola-up.service",
        "usr/lib/systemd/system/sepiola-up.service",
        FILE_MODE,
    ),
    ("packaging/systemd/sepiola.target", "usr/lib/systemd/system/sepiola.target", FILE_MODE),
    ("packaging/debian/own-directory", "usr/lib/sepiola/own-directory", PROGRAM_MODE),
    ("packaging/debian/copyright", "usr/share/doc/sepiola/copyright", FILE_MODE),
    ("packaging/oci/seccomp.json", "usr/share/sepiola/seccomp.json", FILE_MODE),
    ("packaging/systemd/sepiola.sysusers", "usr/lib/sysusers.d/sepiola.conf", FILE_MODE),
    ("packaging/systemd/sepiola.tmpfiles", "usr/lib/tmpfiles.d/sepiola.conf", FILE_MODE),
];
/// Files that the administrator changes and an upgrade keeps.
const CONFIGURATION: [(&str, &str); 1] = [("packaging/debian/default", "etc/default/sepiola")];
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Files for dpkg that are written here.
const CONTROL_FILES: [&str; 3] = ["control", "conffiles", "md5sums"];
const COMPLETIONS: [(&str, &str); 3] = [
    ("sepiola.bash", "usr/share/bash-completion/completions/sepiola"),
    ("_sepiola", "usr/share/zsh/vendor-completions/_sepiola"),
    ("sepiola.fish", "usr/share/fish/vendor_completions.d/sepiola.fish"),
];

/// `cargo xtask deb [--binary FILE] [--out DIRECTORY]`
pub fn deb(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    ensure(&PACKAGES)?;
    let binary = match options.binary {
        Some(path) => path,
        None => {
            cargo(&["build", "--release", "--package", "sepiola"])?;
            root().join("target/release/sepiola")
        }
    };
    let tree = Tree::new(root().join("target/debian/work"))?;
    tree.fill(&binary)?;
    tree.describe()?;
    tree.set_modes()?;
    tree.date(&epoch()?)?;
    fs::create_dir_all(&options.out)?;
    tree.build(&options.out)
}

struct Options {
    /// A program that is built already.
    binary: Option<PathBuf>,
    out: PathBuf,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Options { binary: None, out: root().join("target/debian") };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let value = args.next().with_context(|| format!("{arg} needs a path"))?;
            let path = std::path::absolute(value)?;
            match arg.as_str() {
                "--binary" => options.binary = Some(path),
                "--out" => options.out = path,
                other => bail!("there is no option {other:?}; --binary and --out are known"),
            }
        }
        Ok(options)
    }
}

/// Seconds since 1970 that all files of the package get.
fn epoch() -> Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let epoch = output(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
    Ok(epoch.trim().to_owned())
}

/// Standard output of a command.
fn output(command: &mut Command) -> Result<String> {
    let done = command.stderr(Stdio::inherit()).output();
    let done = done.with_context(|| format!("starting {command:?}"))?;
    if !done.status.success() {
        bail!("{command:?} failed: {}", done.status);
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// The files of the package as they will be installed.
struct Tree {
    /// Beside the files, what tools need to work.
    work: PathBuf,
    files: PathBuf,
}

impl Tree {
    /// An empty one in a directory that is emptied before.
    fn new(work: PathBuf) -> Result<Self> {
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        let files = work.join("files");
        fs::create_dir_all(files.join("DEBIAN"))?;
        Ok(Tree { work, files })
    }

    fn fill(&self, binary: &Path) -> Result<()> {
        let program = self.files.join("usr/bin/sepiola");
        copy(binary, &program, PROGRAM_MODE)?;
        self.generate(&program)?;
        // Names of functions stay for the traces of a crash.
        run(Command::new("strip").arg("--strip-debug").arg(&program))?;
        self.fill_from_repository()
    }

    /// Everything that is not made by the program.
    fn fill_from_repository(&self) -> Result<()> {
        for (from, to, mode) in FILES {
            copy(&root().join(from), &self.files.join(to), mode)?;
        }
        for (from, to) in CONFIGURATION {
            copy(&root().join(from), &self.files.join(to), FILE_MODE)?;
        }
        let changelog = self.files.join("usr/share/doc/sepiola/changelog");
        copy(&root().join("CHANGELOG.md"), &changelog, FILE_MODE)?;
        compress(&changelog)
    }

    /// Manual pages and completions, which the program writes itself.
    fn generate(&self, program: &Path) -> Result<()> {
        let man = self.files.join("usr/share/man/man1");
        run(Command::new(program).args(["generate", "man"]).arg(&man))?;
        for page in fs::read_dir(&man)? {
            compress(&page?.path())?;
        }
        let completions = self.work.join("completions");
        run(Command::new(program).args(["generate", "completions"]).arg(&completions))?;
        for (from, to) in COMPLETIONS {
            copy(&completions.join(from), &self.files.join(to), FILE_MODE)?;
        }
        Ok(())
    }

    /// The control files of dpkg.
    fn describe(&self) -> Result<()> {
        let size = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(&self.files))?;
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
        let control = fs::read_to_string(root().join("packaging/debian/control"))?
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
            .replace("@ARCHITECTURE@", architecture.trim())
            .replace("@INSTALLED_SIZE@", size.split_whitespace().next().unwrap_or_default())
            .replace("@SHLIBS@", &self.libraries()?);
        self.write_control_files(&control)
    }

    fn write_control_files(&self, control: &str) -> Result<()> {
        let directory = self.files.join("DEBIAN");
        for name in SCRIPTS {
            let from = root().join("packaging/debian").join(name);
            copy(&from, &directory.join(name), PROGRAM_MODE)?;
        }
        let configuration = CONFIGURATION.map(|(_, to)| format!("/{to}\n")).concat();
        fs::write(directory.join("conffiles"), configuration)?;
        fs::write(directory.join("control"), control)?;
        let sums =
            "find usr etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums";
        let status = Command::new("sh").args(["-ec", sums]).current_dir(&self.files).status()?;
        if !status.success() {
            bail!("md5sum failed: {status}");
        }
        Ok(())
    }

    /// The packages of the libraries that the program is linked with, in the versions that it needs.
    fn libraries(&self) -> Result<String> {
        fs::create_dir_all(self.work.join("debian"))?;
        fs::write(
            self.work.join("debian/control"),
            "Source: sepiola\n\nPackage: sepiola\nArchitecture: any\n",
        )?;
        let mut command = Command::new("dpkg-shlibdeps");
        command.args(["-O", "-e"]).arg(self.files.join("usr/bin/sepiola")).current_dir(&self.work);
        let text = output(&mut command)?;
        let libraries = text.trim().strip_prefix("shlibs:Depends=");
        Ok(libraries.context("dpkg-shlibdeps names no libraries")?.to_owned())
    }

    /// Gives all files one time.
    fn date(&self, epoch: &str) -> Result<()> {
        let touch = ["-exec", "touch", "--no-dereference", "--date"];
        let date = format!("@{epoch}");
        run(Command::new("find").arg(&self.files).args(touch).args([&date, "{}", "+"]))
    }

    /// Gives directories and control files modes that do not depend on the umask of the caller; all other
    /// files have theirs since they were copied.
    fn set_modes(&self) -> Result<()> {
        let directories = ["-type", "d", "-exec", "chmod", "755", "{}", "+"];
        run(Command::new("find").arg(&self.files).args(directories))?;
        for name in CONTROL_FILES {
            set_mode(&self.files.join("DEBIAN").join(name), FILE_MODE)?;
        }
        Ok(())
    }

    fn build(&self, out: &Path) -> Result<()> {
        let mut command = Command::new("dpkg-deb");
        command.args(["--root-owner-group", "-Zxz", "--build"]).arg(&self.files).arg(out);
        run(command.env("SOURCE_DATE_EPOCH", epoch()?))
    }
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let parent = to.parent().context("a place in a directory")?;
    fs::create_dir_all(parent)?;
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    set_mode(to, mode)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, mode)
        .with_context(|| format!("setting the mode of {}", path.display()))
}

/// Without name and time, which would differ from build to build.
fn compress(path: &Path) -> Result<()> {
    set_mode(path, FILE_MODE)?;
    let status = Command::new("gzip").arg("-9n").arg(path).status()?;
    if !status.success() {
        bail!("gzip failed: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use rustix::process::umask;
    use std::collections::BTreeMap;

    /// Modes of all files and directories of a package without the program, made under a umask.
    fn modes_under(mask: u32) -> BTreeMap<PathBuf, u32> {
        let work =
            std::env::temp_dir().join(format!("sepiola-deb-{}-{mask:o}", std::process::id()));
        let before = umask(Mode::from_raw_mode(mask));
        let tree = Tree::new(work.clone()).unwrap();
        tree.fill_from_repository().unwrap();
        tree.write_control_files("Package: sepiola\n").unwrap();
        tree.set_modes().unwrap();
        umask(before);
        let mut found = BTreeMap::new();
        let mut open = vec![tree.files.clone()];
        while let Some(path) = open.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let name = path.strip_prefix(&tree.files).unwrap().to_owned();
            found.insert(name, metadata.permissions().mode() & 0o7777);
        }
        fs::remove_dir_all(work).unwrap();
        found
    }

    #[test]
    fn modes_in_the_package_do_not_depend_on_the_umask() {
        let (open, closed) = (modes_under(0o022), modes_under(0o077));
        assert_eq!(open[Path::new("DEBIAN/control")], FILE_MODE);
        assert!(open.len() > FILES.len());
        assert_eq!(open, closed);
    }
}
