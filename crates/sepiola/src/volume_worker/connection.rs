//! A client of one file system on a core of its own, which runs one procedure at a time.

use access::{ClusterArgs, client_config};
use anyhow::{Result, bail};
use auth::Entropy;
use bytes::Bytes;
use engine::Time;
use fsclient::{Answer, Call, CallId, FsClient};
use host::{Core, CoreConfig, DaemonNode, NoStorage};
use rt::Clock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};
use types::{EntityType, Errno, ParticipantName};
use volumes::{Procedure, Request, RequestId, Response, Target};

/// Longest wait of one turn.
const TURN_TIME_MAX: Duration = Duration::from_millis(500);
/// Pause before metadata that another procedure has is tried again.
const LOCK_RETRY: Duration = Duration::from_millis(10);
/// Longest wait for the answer to a command.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest wait for the end of a session.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(2);

/// The output of a command to the monitors, or its errno and text.
pub type CommandOutcome = Result<Bytes, (Errno, String)>;

/// The lock if it is free. It protects no data, so a panic of its owner left nothing behind in it.
fn try_lock(lock: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// See the module's description.
pub struct VolumeConnection {
    core: Core<DaemonNode<FsClient, NoStorage>>,
    clock: Clock,
    /// When a procedure last ran.
    pub used: Instant,
}

impl VolumeConnection {
    /// A client that begins to look for its server.
    pub fn open(args: &ClusterArgs, file_system: i32) -> Result<Self> {
        let config = client_config(args)?;
        let config = fsclient::Config {
            name: config.name,
            credentials: config.credentials,
            monitors: config.monitors,
            file_system: Some(file_system),
            ends_with_session: true,
        };
        let client = FsClient::new(config, Entropy::from_seed(machine::random_bytes()?));
        let clock = Clock::start();
        let core_config = CoreConfig { index: 0, seed: machine::random_u64()? };
        let mut core = Core::new(core_config, clock.clone())?;
        let participant = ParticipantName::new(EntityType::CLIENT, -1);
        core.add(DaemonNode::new(participant, client, NoStorage));
        Ok(VolumeConnection { core, clock, used: Instant::now() })
    }

    fn client(&mut self) -> &mut FsClient {
        self.core.node_mut(0).daemon_mut()
    }

    /// Keeps the session alive, and gives back what the server wants back.
    pub fn turn_briefly(&mut self) -> Result<()> {
        self.turn(self.clock.now())
    }

    fn turn(&mut self, until: Time) -> Result<()> {
        self.core.settle();
        self.core.transmit();
        self.core.turn(until)?;
        if self.client().is_shut_out() {
            bail!("the session with the metadata server is lost; repeat the command");
        }
        Ok(())
    }

    /// Sends a command to the server, and waits for its output.
    pub fn command(&mut self, command: &Value) -> Result<Bytes> {
        let until = Instant::now() + COMMAND_TIME_MAX;
        let call = self.call(Call::Command(command.to_string()));
        while Instant::now() < until {
            while let Some((ended, outcome)) = self.client().poll_completion() {
                match outcome {
                    _ if ended != call => {}
                    Ok(Answer::Command { result, output, .. }) if result >= 0 => return Ok(output),
                    Ok(Answer::Command { result, text, .. }) => bail!("{}: {text}", Errno(-result)),
                    Err(errno) => bail!(
                        "the metadata server has not answered ({errno}); see `ceph fs status`, and repeat the command"
                    ),
                    Ok(_) => bail!("the metadata server answers a command as something else"),
                }
            }
            self.turn(self.clock.now() + LOCK_RETRY)?;
        }
        bail!("no metadata server has answered; see `ceph mds stat`")
    }

    /// Keeps the session alive for a time.
    pub fn rest(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.turn(self.clock.now() + LOCK_RETRY)?;
        }
        Ok(())
    }

    /// Runs a procedure to its end. `None` if `goes_on` returned false before; then the connection is of no
    /// further use, since calls of the procedure may still be carried out.
    pub fn run<T>(
        &mut self,
        lock: &Mutex<()>,
        mut procedure: Procedure<T>,
        mut command: impl FnMut(&Value) -> CommandOutcome,
        mut goes_on: impl FnMut(&mut Procedure<T>) -> bool,
    ) -> Result<Option<T>> {
        let mut calls = BTreeMap::new();
        // Given back when the procedure is over, whatever its outcome.
        let (mut guard, mut waiting) = (None, None);
        loop {
            if let Some(outcome) = procedure.poll_outcome() {
                self.used = Instant::now();
                return Ok(Some(outcome));
            }
            if !goes_on(&mut procedure) {
                return Ok(None);
            }
            while let Some((id, request)) = procedure.poll_request() {
                match request {
                    Request::Call(call) => drop(calls.insert(self.call(call), (id, false))),
                    Request::Lock => waiting = Some(id),
                    Request::Unlock => {
                        guard = None;
                        procedure.handle_response(id, Response::Done);
                    }
                    Request::Command(Target::Server, asked) => {
                        let call = self.call(Call::Command(asked.to_string()));
                        calls.insert(call, (id, true));
                    }
                    Request::Command(Target::Monitors, asked) => {
                        let outcome = command(&asked);
                        procedure.handle_response(id, Response::Command(outcome));
                    }
                }
            }
            if waiting.is_some() && guard.is_none() {
                guard = try_lock(lock);
            }
            if let (true, Some(id)) = (guard.is_some(), waiting) {
                waiting = None;
                procedure.handle_response(id, Response::Done);
                continue;
            }
            self.collect(&mut calls, &mut procedure);
            // The session is attended to while another procedure has the metadata, which may wait for it.
            let turn = if waiting.is_some() { LOCK_RETRY } else { TURN_TIME_MAX };
            if !calls.is_empty() || waiting.is_some() {
                self.turn(self.clock.now() + turn)?;
                self.collect(&mut calls, &mut procedure);
            }
        }
    }

    fn call(&mut self, call: Call) -> CallId {
        let now = self.clock.now();
        self.client().call(now, call)
    }

    /// Passes on what has ended.
    fn collect<T>(
        &mut self,
        calls: &mut BTreeMap<CallId, (RequestId, bool)>,
        procedure: &mut Procedure<T>,
    ) {
        while let Some((call, outcome)) = self.client().poll_completion() {
            let Some((id, is_command)) = calls.remove(&call) else { continue };
            let response = match (is_command, outcome) {
                (false, outcome) => Response::Call(outcome),
                (true, Ok(Answer::Command { result, output, .. })) if result >= 0 => {
                    Response::Command(Ok(output))
                }
                (true, Ok(Answer::Command { result, text, .. })) => {
                    Response::Command(Err((Errno(-result), text)))
                }
                (true, outcome) => {
                    let errno = outcome.err().unwrap_or(Errno::IO);
                    Response::Command(Err((errno, "the metadata server has gone".to_owned())))
                }
            };
            procedure.handle_response(id, response);
        }
        while self.client().poll_durable().is_some() {}
    }

    /// Ends the session, so that no server has to wait for this client.
    pub fn leave(mut self) {
        let (now, until) = (self.clock.now(), Instant::now() + LEAVE_TIME_MAX);
        self.client().leave(now);
        while !self.client().has_left() && Instant::now() < until {
            let next = self.clock.now() + Duration::from_millis(50);
            if let Err(error) = self.turn(next) {
                tracing::debug!(error = format!("{error:#}"), "leaving a file system");
                return;
            }
        }
    }
}
