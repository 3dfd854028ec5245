//! A throw-away Sepiola cluster: started, killed, restarted.

use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Bound for the time of a start, which takes well under two seconds.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// Beginnings of the line that `sepiola up` prints when clients can connect.
const READY: [&str; 2] = ["healthy:", "ready:"];

/// A cluster of one process, with all its data in one directory; killed when dropped.
pub struct Cluster {
    binary: PathBuf,
    data: PathBuf,
    auth: &'static str,
    disk_size: &'static str,
    /// The name of its file system, if it has one.
    file_system: Option<&'static str>,
    process: Option<Child>,
}

/// The program under test, in the directory of this one.
pub fn binary() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("sepiola"))
}

impl Cluster {
    /// Starts a fresh cluster below `scratch`, at a port that the kernel chooses.
    pub fn start(
        scratch: &Path,
        auth: &'static str,
        disk_size: &'static str,
        file_system: Option<&'static str>,
    ) -> Result<Cluster> {
        let data = scratch.join("cluster");
        let mut cluster =
            Cluster { binary: binary()?, data, auth, disk_size, file_system, process: None };
        cluster.up()?;
        Ok(cluster)
    }

    /// The `ceph.conf` that the cluster writes for clients.
    pub fn conf(&self) -> PathBuf {
        self.data.join("ceph.conf")
    }

    /// Process id; `None` while the cluster is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Starts the process and waits until it reports a healthy cluster.
    pub fn up(&mut self) -> Result<()> {
        let log =
            fs::File::options().create(true).append(true).open(self.data.with_extension("log"))?;
        let mut child = Command::new(&self.binary)
            .args(["up", "--listen", "127.0.0.1:0", "--auth", self.auth])
            .args(["--disk-size", self.disk_size, "--data"])
            .arg(&self.data)
            .args(self.file_system.into_iter().flat_map(|name| ["--fs", name]))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        let stdout = child.stdout.take().context("its standard output")?;
        self.process = Some(child);
        let (lines, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        loop {
            match said.recv_timeout(START_TIME_MAX) {
                Ok(line) if READY.iter().any(|word| line.starts_with(word)) => return Ok(()),
                Ok(_) => {}
                Err(_) => bail!("sepiola up did not become ready: {}", self.last_log_line()),
            }
        }
    }

    /// Log of all daemons.
    pub fn log(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    fn last_log_line(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let last = text.lines().next_back().unwrap_or("the log is empty");
        format!("{last}; see {}", self.log().display())
    }

    /// SIGKILL: the process loses everything not flushed.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.process.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Fails if a store of the stopped cluster is not sound.
    pub fn fsck(&self) -> Result<()> {
        for entry in fs::read_dir(&self.data)? {
            let directory = entry?.path();
            if !directory.join("store").exists() {
                continue;
            }
            let command = ["store", "fsck", "--deep"];
            let output = Command::new(&self.binary).args(command).arg(&directory).output()?;
            if !output.status.success() {
                let findings = String::from_utf8_lossy(&output.stdout);
                bail!("fsck of {}: {}\n{findings}", directory.display(), output.status);
            }
        }
        Ok(())
    }

    /// Fails if the process has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        if let Some(child) = &mut self.process
            && let Some(status) = child.try_wait()?
        {
            bail!("sepiola ended by itself ({status}); see {}", self.log().display());
        }
        Ok(())
    }

    /// Resident memory in KiB.
    pub fn memory_kib(&self) -> Result<u64> {
        let pid = self.pid().context("the cluster is not running")?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
        line.split_whitespace().nth(1).context("VmRSS")?.parse().context("VmRSS")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
