//! Execution of commands on subvolumes, one at a time, in the order in which the monitor hands them over.

use super::connection::{CommandOutcome, VolumeConnection};
use super::inputs::{PAUSE, inputs};
use access::{ClusterArgs, Connection};
use anyhow::{Context, Result};
use bytes::Bytes;
use rados::{CommandTarget, Reply};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use types::Errno;
use volumes::{Failure, Order, Printed};

/// Bound of a command's execution. A server may evict clients meanwhile, which takes it a minute.
const ORDER_TIME_MAX: Duration = Duration::from_secs(90);
/// A client that was not used for so long ends its session.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// Longest waits for an order, without a session and with one, which needs attention.
const TURN: Duration = Duration::from_millis(500);
const TURN_WITH_SESSION: Duration = Duration::from_millis(10);

/// One worker towards the monitors.
pub struct OrderExecutor {
    /// How it reaches the cluster.
    pub args: ClusterArgs,
    /// Identity of the worker towards the monitors.
    pub name: String,
    /// Held by the procedure that changes metadata of subvolumes.
    pub metadata: Arc<Mutex<()>>,
    /// Set when the process ends.
    pub is_stopping: Arc<AtomicBool>,
}

type Volumes = BTreeMap<i32, VolumeConnection>;

impl OrderExecutor {
    /// Works until it is to stop.
    pub fn work(&self) {
        while !self.is_stopping() {
            let mut volumes = Volumes::new();
            if let Err(error) = self.serve(&mut volumes) {
                tracing::info!(error = format!("{error:#}"), "asking for commands on subvolumes");
                std::thread::sleep(PAUSE);
            }
            volumes.into_values().for_each(VolumeConnection::leave);
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn serve(&self, volumes: &mut Volumes) -> Result<()> {
        let mut control = Connection::open(&self.args)?;
        while !self.is_stopping() {
            let taken = self.take(&mut control, volumes)?;
            if let Some(id) = taken["id"].as_u64() {
                let outcome = self.carry_out(&mut control, volumes, &taken["order"]);
                self.report(&mut control, id, outcome);
            }
            let is_idle = |volume: &VolumeConnection| volume.used.elapsed() >= IDLE_MAX;
            let all = std::mem::take(volumes).into_iter();
            let (idle, used) = all.partition::<Volumes, _>(|(_, volume)| is_idle(volume));
            *volumes = used;
            idle.into_values().for_each(VolumeConnection::leave);
        }
        Ok(())
    }

    /// Asks for an order, and attends to open sessions until the answer comes.
    fn take(&self, control: &mut Connection, volumes: &mut Volumes) -> Result<Value> {
        let command =
            json!({ "prefix": "fs volume orders take", "worker": self.name, "format": "json" });
        let now = control.now();
        let text = command.to_string();
        let asked = control.client().command(now, CommandTarget::Monitor, text, Bytes::new());
        loop {
            while let Some((done, answer)) = control.client().poll_completion() {
                if done != asked {
                    continue;
                }
                let Ok(Reply::Command(output)) = answer else {
                    anyhow::bail!("no answer of the monitors");
                };
                anyhow::ensure!(output.result >= 0, "{}", output.text);
                return serde_json::from_slice(&output.output).context("reading an order");
            }
            if self.is_stopping() {
                return Ok(json!({}));
            }
            let turn = if volumes.is_empty() { TURN } else { TURN_WITH_SESSION };
            control.turn_within(turn)?;
            volumes.retain(|_, volume| volume.turn_briefly().is_ok());
        }
    }

    fn carry_out(
        &self,
        control: &mut Connection,
        volumes: &mut Volumes,
        order: &Value,
    ) -> Result<Printed, Failure> {
        let failed = |error: anyhow::Error| Failure::new(Errno::IO, format!("{error:#}"));
        let order: Order = serde_json::from_value(order.clone()).map_err(|error| {
            Failure::new(Errno::NOTSUPP, format!("an order of another release: {error}"))
        })?;
        let (id, name) = (order.volume.id, order.volume.name.clone());
        let mut volume = match volumes.remove(&id) {
            Some(volume) => volume,
            None => VolumeConnection::open(&self.args, id).map_err(failed)?,
        };
        let procedure = order.procedure(inputs().map_err(failed)?);
        let start = Instant::now();
        let ran = volume.run(
            &self.metadata,
            procedure,
            |asked| command(control, asked),
            |_| !self.is_stopping() && start.elapsed() < ORDER_TIME_MAX,
        );
        match ran.map_err(failed)? {
            Some(outcome) => {
                volumes.insert(id, volume);
                outcome
            }
            None => Err(Failure::new(
                Errno::TIMEDOUT,
                format!(
                    "the metadata server of '{name}' has not answered within {} s: look at 'ceph fs status', and \
                     repeat the command, which may still be carried out",
                    ORDER_TIME_MAX.as_secs()
                ),
            )),
        }
    }

    fn report(&self, control: &mut Connection, id: u64, outcome: Result<Printed, Failure>) {
        let (result, text, output) = match outcome {
            Ok(printed) => (0, String::new(), printed.output),
            Err(Failure { errno, text }) => (errno.negative(), text, String::new()),
        };
        let done = json!({
            "prefix": "fs volume orders done",
            "worker": self.name,
            "id": id,
            "result": result,
            "text": text,
            "output": output,
        });
        if let Err(error) = control.command(&done) {
            tracing::info!(id, error = format!("{error:#}"), "the end of a command on a subvolume");
        }
    }
}

/// Runs a command of a procedure.
fn command(control: &mut Connection, asked: &Value) -> CommandOutcome {
    let text = asked.to_string();
    let ask = |client: &mut rados::Client, now| {
        client.command(now, CommandTarget::Monitor, text, Bytes::new())
    };
    match control.ask(ask) {
        Ok(Reply::Command(output)) if output.result >= 0 => Ok(output.output),
        Ok(Reply::Command(output)) => Err((Errno(-output.result), output.text)),
        Ok(_) => Err((Errno::IO, "an unexpected answer".to_owned())),
        Err(error) => Err((Errno::IO, format!("{error:#}"))),
    }
}
