//! A connection to a cluster, for commands that ask one thing after another.

use crate::args::DATA_DEFAULT;
use crate::{ClusterArgs, DataDir};
use anyhow::{Context, Result, anyhow, bail};
use auth::{Entropy, Keyring};
use bytes::Bytes;
use engine::Time;
use host::{Core, CoreConfig, DaemonNode, NoStorage};
use rados::{
    Client, CommandOutput, CommandTarget, Config, Credentials, ListPage, ListRequest, OpId,
    Operation, OperationReply, Reply,
};
use rt::Clock;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::{EntityAddrVec, EntityName, EntityType, Errno, ParticipantName, PoolId};

/// After this without an answer a request of a person is given up.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest wait of one turn, so that callers can look around.
const TURN_TIME_MAX: Duration = Duration::from_millis(500);

/// The client as a core runs it.
pub type ClientNode = DaemonNode<Client, NoStorage>;

/// A client that begins to look for a monitor.
pub fn client_node(config: Config, seed: [u8; 32], now: Time) -> ClientNode {
    let mut client = Client::new(config, Entropy::from_seed(seed));
    client.start(now);
    DaemonNode::new(ParticipantName::new(EntityType::CLIENT, -1), client, NoStorage)
}

/// A client on a core of its own.
pub struct Connection {
    core: Core<ClientNode>,
    clock: Clock,
    answers: BTreeMap<OpId, Result<Reply, Errno>>,
}

impl Connection {
    /// Connects as the command line says, and waits for the map.
    pub fn open(args: &ClusterArgs) -> Result<Self> {
        let mut connection = Connection::start(client_config(args)?)?;
        let epoch =
            connection.ask(|client, _| client.fetch_map()).context("connecting to the cluster")?;
        let Reply::Map(_) = epoch else { bail!("the client answered something else than a map") };
        Ok(connection)
    }

    /// Connects with a ready configuration, and does not wait for the map.
    pub fn start(config: Config) -> Result<Self> {
        let clock = Clock::start();
        let seed = machine::random_bytes()?;
        let core_seed = machine::random_u64()?;
        let mut core = Core::new(CoreConfig { index: 0, seed: core_seed }, clock.clone())?;
        core.add(client_node(config, seed, clock.now()));
        Ok(Connection { core, clock, answers: BTreeMap::new() })
    }

    /// The time now, by the connection's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The client itself, to ask several things at once.
    pub fn client(&mut self) -> &mut Client {
        self.core.node_mut(0).daemon_mut()
    }

    /// Sends what was asked, and waits for something to arrive.
    pub fn turn(&mut self) -> Result<()> {
        self.turn_within(TURN_TIME_MAX)
    }

    /// The same with a bound of the wait.
    pub fn turn_within(&mut self, time_max: Duration) -> Result<()> {
        self.core.settle();
        self.core.transmit();
        self.core.turn(self.clock.now() + time_max)
    }

    /// Asks one thing and waits for its answer.
    pub fn ask(&mut self, request: impl FnOnce(&mut Client, Time) -> OpId) -> Result<Reply> {
        let now = self.now();
        let id = request(self.client(), now);
        loop {
            while let Some((done, answer)) = self.client().poll_completion() {
                self.answers.insert(done, answer);
            }
            if let Some(answer) = self.answers.remove(&id) {
                return answer.map_err(|errno| anyhow!("{errno}"));
            }
            self.turn()?;
            if let Some(reason) = self.client().take_auth_failure() {
                bail!(reason);
            }
        }
    }

    /// Performs operations on one object.
    pub fn operate(&mut self, operation: Operation) -> Result<OperationReply> {
        match self.ask(|client, now| client.submit(now, operation))? {
            Reply::Operation(reply) => Ok(reply),
            other => bail!("unexpected answer {other:?}"),
        }
    }

    /// Lists one page of objects.
    pub fn list(&mut self, request: ListRequest) -> Result<ListPage> {
        match self.ask(|client, now| client.list(now, request))? {
            Reply::Page(page) => Ok(page),
            other => bail!("unexpected answer {other:?}"),
        }
    }

    /// A monitor command: its output, or its error with what the monitor said.
    pub fn command(&mut self, command: &serde_json::Value) -> Result<CommandOutput> {
        self.command_with_input(command, Bytes::new())
    }

    /// Sends a command to the monitors and parses its output, which is JSON.
    pub fn ask_json(&mut self, command: &serde_json::Value) -> Result<serde_json::Value> {
        let output = self.command(command)?;
        serde_json::from_slice(&output.output).context("reading the monitor's answer")
    }

    /// Sends a command with input to the monitors.
    pub fn command_with_input(
        &mut self,
        command: &serde_json::Value,
        input: Bytes,
    ) -> Result<CommandOutput> {
        let text = command.to_string();
        let ask =
            |client: &mut Client, now| client.command(now, CommandTarget::Monitor, text, input);
        match self.ask(ask)? {
            Reply::Command(output) if output.result < 0 => {
                bail!("{}: {}", Errno(-output.result), output.text)
            }
            Reply::Command(output) => Ok(output),
            other => bail!("unexpected answer {other:?}"),
        }
    }

    /// The number of a pool.
    pub fn pool(&mut self, name: &str) -> Result<PoolId> {
        self.client().pool_id(name).with_context(|| {
            format!("there is no pool {name:?}; `ceph osd pool create {name}` makes one")
        })
    }
}

/// The configuration of this machine's cluster, where stock clients look for it, too.
const CONF: &str = "/etc/ceph/ceph.conf";

/// The parts of a ceph.conf that a client needs.
#[derive(Debug, Default)]
pub struct Conf {
    /// Addresses of the monitors.
    pub mon_host: String,
    /// File with the keys of clients.
    pub keyring: Option<PathBuf>,
    /// Authentication is off.
    pub auth_none: bool,
}

/// Reads a ceph.conf.
pub fn read_conf(path: &Path) -> Result<Conf> {
    let text = fs::read_to_string(path).with_context(|| {
        format!(
            "reading {}; start a cluster with `sepiola up`, or name one with --conf",
            path.display()
        )
    })?;
    Ok(parse_conf(&text))
}

/// The configuration in the data directory, or that of this machine if none is there and none was named.
fn conf_path(data: &Path, of_machine: &str) -> PathBuf {
    let of_data = DataDir::new(data).conf();
    let of_machine = PathBuf::from(of_machine);
    let is_default = data == Path::new(DATA_DEFAULT);
    let is_of_machine = is_default && !of_data.exists() && of_machine.exists();
    if is_of_machine { of_machine } else { of_data }
}

/// Client configuration from the command line and ceph.conf.
pub fn client_config(args: &ClusterArgs) -> Result<Config> {
    let path = args.conf.clone().unwrap_or_else(|| conf_path(&args.data.data, CONF));
    let conf = read_conf(&path)?;
    let name: EntityName = args
        .name
        .parse()
        .map_err(|()| anyhow!("{:?} is not a name like client.admin", args.name))?;
    let credentials = match conf.auth_none {
        true => Credentials::None,
        false => {
            let named = args.keyring.clone().or(conf.keyring);
            key(&named.unwrap_or_else(|| usual_keyring(&name)), &name)?
        }
    };
    let mut config = Config::new(name, credentials, monitors(&conf.mon_host)?);
    config.timeout = Some(REQUEST_TIME_MAX);
    config.prefers_secure = args.secure;
    Ok(config)
}

fn parse_conf(text: &str) -> Conf {
    let mut conf = Conf::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        let value = value.trim();
        match name.trim().replace(' ', "_").as_str() {
            "mon_host" => conf.mon_host = value.to_owned(),
            "keyring" => conf.keyring = Some(PathBuf::from(value)),
            "auth_client_required" => conf.auth_none = value == "none",
            _ => {}
        }
    }
    conf
}

/// The first of the places where stock clients look for a key.
fn usual_keyring(name: &EntityName) -> PathBuf {
    PathBuf::from(format!("/etc/ceph/ceph.{name}.keyring"))
}

fn key(path: &Path, name: &EntityName) -> Result<Credentials> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("reading {}; --keyring names another", path.display()))?;
    let keyring: Keyring =
        text.parse().with_context(|| format!("reading the keyring {}", path.display()))?;
    let key =
        keyring.key(name).with_context(|| format!("no key of {name} in {}", path.display()))?;
    Ok(Credentials::Key(key.clone()))
}

/// `[v2:10.0.0.1:3300/0,v1:…],[…]` or plain `host:port` lists.
pub fn monitors(mon_host: &str) -> Result<Vec<EntityAddrVec>> {
    let words = mon_host.split([',', ' ', ';', '[', ']']).filter(|word| !word.is_empty());
    let mut monitors = Vec::new();
    for word in words.filter(|word| !word.starts_with("v1:")) {
        let addr = word.parse().with_context(|| format!("reading mon_host = {mon_host}"))?;
        monitors.push(EntityAddrVec::one(addr));
    }
    if monitors.is_empty() {
        bail!("the configuration names no monitor (mon_host)");
    }
    Ok(monitors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitors_are_read_in_the_forms_that_ceph_writes() {
        let found = monitors("[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0],10.0.0.2:3300").unwrap();
        let shown: Vec<String> = found.iter().map(EntityAddrVec::to_string).collect();
        assert_eq!(shown, ["v2:127.0.0.1:3300/0", "v2:10.0.0.2:3300/0"]);
        assert!(monitors("").is_err());
    }

    #[test]
    fn without_a_keyring_the_usual_one_is_read() {
        let name = "client.none-of-that-name".parse().unwrap();
        let reason = key(&usual_keyring(&name), &name).unwrap_err();
        let expected =
            "reading /etc/ceph/ceph.client.none-of-that-name.keyring; --keyring names another";
        assert_eq!(reason.to_string(), expected);
    }

    #[test]
    fn the_configuration_of_the_machine_is_read_only_if_no_directory_was_named() {
        let dir = std::env::temp_dir().join(format!("sepiola-conf-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let machine = dir.join("ceph.conf");
        let of_machine = machine.to_str().unwrap();
        let default = Path::new(DATA_DEFAULT);
        assert!(conf_path(default, of_machine).ends_with("sepiola-data/ceph.conf"));
        fs::write(&machine, "").unwrap();
        assert_eq!(conf_path(default, of_machine), machine);
        assert_eq!(conf_path(&dir.join("data"), of_machine), dir.join("data/ceph.conf"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_configuration_is_read_with_spaces_or_underscores() {
        let conf =
            parse_conf("[global]\nmon host = a:1\nkeyring=/k\n auth_client_required = none\n");
        assert_eq!((conf.mon_host.as_str(), conf.auth_none), ("a:1", true));
    }
}
