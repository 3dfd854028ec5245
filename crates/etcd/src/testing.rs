//! Real members of etcd, started for tests and ended with them.

use crate::options::EtcdOptions;
use crate::tool::EtcdTool;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const START_TIME_MAX: Duration = Duration::from_secs(30);

/// The members of one etcd. Dropping it ends them and removes their data.
pub struct Members {
    directory: PathBuf,
    members: Vec<Member>,
}

struct Member {
    name: String,
    client: u16,
    peer: u16,
    process: Option<Child>,
}

impl Members {
    /// Starts so many members and waits until they serve.
    pub fn start(count: usize) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("sepiola-etcd-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut ports = free_ports(count * 2).into_iter();
        let mut port = || ports.next().expect("as many as asked for");
        let member = |index: usize| Member {
            name: format!("m{index}"),
            client: port(),
            peer: port(),
            process: None,
        };
        let members = (0..count).map(member).collect();
        let mut members = Members { directory, members };
        (0..count).for_each(|index| members.revive(index));
        members.wait_until_all_serve();
        members
    }

    /// How they are reached.
    pub fn options(&self) -> EtcdOptions {
        let url = |member: &Member| format!("http://127.0.0.1:{}", member.client);
        EtcdOptions::new(self.members.iter().map(url))
    }

    /// Starts a member, again if it was killed.
    pub fn revive(&mut self, index: usize) {
        let peers = self.members.iter();
        let peers = peers.map(|member| format!("{}=http://127.0.0.1:{}", member.name, member.peer));
        let peers = peers.collect::<Vec<_>>().join(",");
        let directory = self.directory.join(&self.members[index].name);
        let member = &mut self.members[index];
        let (client, peer) = (
            format!("http://127.0.0.1:{}", member.client),
            format!("http://127.0.0.1:{}", member.peer),
        );
        let process = Command::new("etcd")
            .args(["--name", &member.name, "--logger", "zap", "--log-level", "error"])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(["--initial-cluster", &peers, "--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client, "--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .arg("--data-dir")
            .arg(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("these tests need etcd (Debian: apt-get install etcd-server)");
        member.process = Some(process);
    }

    /// How many pieces of large values there are.
    pub fn pieces(&self) -> usize {
        let endpoint = format!("http://127.0.0.1:{}", self.members[0].client);
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoint, "get", "--prefix", "--keys-only"])
            .arg(format!("{}/pieces/", self.options().prefix))
            .output()
            .expect("these tests need etcdctl (Debian: apt-get install etcd-client)");
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.is_empty()).count()
    }

    /// Ends a member at once, as a crash would.
    pub fn kill(&mut self, index: usize) {
        if let Some(mut process) = self.members[index].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Waits until each member, by itself, answers as one of a quorum.
    pub fn wait_until_all_serve(&self) {
        let start = Instant::now();
        for member in &self.members {
            let url = format!("http://127.0.0.1:{}", member.client);
            let tool = EtcdTool::open(&EtcdOptions::new([url])).unwrap();
            while let Err(error) = tool.range("") {
                assert!(start.elapsed() < START_TIME_MAX, "etcd does not serve: {error}");
            }
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|index| self.kill(index));
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// All are held until the last is known, so that none is named twice.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
