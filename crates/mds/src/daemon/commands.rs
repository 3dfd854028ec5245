//! Commands of administrators (`ceph tell mds.X …`).
//!
//! Most are answered at once. A flush of the journal and an eviction are answered when they are done.

use super::{End, Mds, scrubs};
use crate::commands::filter::Filter;
use crate::commands::pending::{Awaited, Pending};
use crate::commands::{VERSION, table};
use crate::rank::{Rank, evictions, shown, snapshots};
use engine::{ConnId, Message};
use maps::MdsState;
use serde_json::{Value, json};
use types::Errno;
use types::features::SUPPORTED;
use wire::tell::{self, Arguments, CommandOutput, Sentence, text, words};
use wire::{Command, MessageBody, decode_from_peer};

impl Mds {
    /// Why this run of the server is over: it must be started again. `None` while it is not.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref().filter(|_| self.is_over)
    }

    /// Rows that are kept for snapshots, and removed snapshots of which OSDs may not know; for the simulator.
    pub fn kept_for_snapshots(&self) -> usize {
        self.rank.as_ref().map_or(0, snapshots::kept)
    }

    /// For tests and the simulator.
    ///
    /// # Panics
    /// If the state of the server contradicts itself.
    pub fn check_invariants(&self) {
        self.rank.iter().for_each(Rank::check_invariants);
    }

    /// Runs a command. As in Ceph, only clients with all capabilities may run any: what a server shows may be
    /// anybody's.
    /// They are run also while clients are not answered.
    pub(super) fn handle_command(&mut self, conn: ConnId, message: &Message) {
        let tid = message.tid;
        let command = match decode_from_peer::<Command>(message) {
            Ok(command) => command,
            Err(fault) => return tracing::warn!(%fault, "a command is dropped"),
        };
        let Some(peer) = self.clients.get(&conn) else { return };
        let caps = peer.caps.within(&self.map.fs_name, peer.address);
        let answer = match caps.administers() {
            true => self.run_command(conn, tid, &command),
            false => Err(Sentence::new(
                Errno::ACCES,
                format!(
                    "access denied: commands to mds.{} need the capability mds 'allow *'",
                    self.config.name
                ),
            )),
        };
        if let Some(answer) = answer.transpose() {
            self.tell(conn, tid, answer);
        }
    }

    fn tell(&mut self, conn: ConnId, tid: u64, answer: Result<CommandOutput, Sentence>) {
        self.send(conn, tell::reply(answer).encode(SUPPORTED).with_tid(tid));
    }

    /// `None` if the reply follows later.
    fn run_command(
        &mut self,
        conn: ConnId,
        tid: u64,
        command: &Command,
    ) -> Result<Option<CommandOutput>, Sentence> {
        let (prefix, arguments) = tell::parse(command)?;
        if let Some(answer) = self.commands.options.command(&prefix, &arguments) {
            self.apply_options();
            let answer = answer.map_err(|(errno, text)| Sentence::new(errno, text));
            return answer.map(|(value, text)| Some(CommandOutput::Both(value, text)));
        }
        let told = match prefix.as_str() {
            "get_command_descriptions" => Some(table::descriptions()),
            "help" => Some(table::help()),
            "version" => {
                Some(json!({ "version": VERSION, "release": "reef", "release_type": "stable" }))
            }
            "git_version" => Some(json!({ "git_version": "" })),
            "status" => Some(self.status()),
            _ => None,
        };
        if let Some(value) = told {
            return Ok(Some(value.into()));
        }
        if !table::has(&prefix) {
            return Err(table::refusal(&self.config.name, &prefix));
        }
        let Some(rank) = &self.rank else { return Err(self.without_rank(&prefix)) };
        if let Some(value) = show(rank, self.now, &prefix, &arguments)? {
            return Ok(Some(value.into()));
        }
        if scrubs::has(&prefix) {
            let now = self.now;
            let scrub = self.cluster.as_mut().and_then(|cluster| cluster.scrub());
            return scrubs::run(now, rank.tree(), scrub, &prefix, &arguments)
                .map(|value| Some(value.into()));
        }
        self.act(conn, tid, &prefix, &arguments)
    }

    /// The refusal of a command that needs a rank.
    fn without_rank(&self, prefix: &str) -> Sentence {
        let (name, state) = (&self.config.name, self.beacons.state());
        let text = match state {
            MdsState::BOOT | MdsState::STANDBY => format!(
                "mds.{name} is a standby and has no rank, which '{prefix}' is about; ask the active \
                 server, see `ceph mds stat`"
            ),
            _ => format!(
                "mds.{name} does not have its rank in memory yet ({}); repeat '{prefix}' when it is active",
                state.name()
            ),
        };
        Sentence::new(Errno::AGAIN, text)
    }

    fn status(&self) -> Value {
        let state = self.beacons.state();
        let has_rank = ![MdsState::BOOT, MdsState::STANDBY].contains(&state);
        let uptime = self.commands.started.map_or(0, |started| self.now.since(started).as_millis());
        let mut status = json!({
            "cluster_fsid": self.config.fsid.to_string(),
            "whoami": if has_rank { 0 } else { -1 },
            "id": self.gid(),
            "want_state": self.beacons.wanted().name(),
            "state": state.name(),
            "fs_name": if has_rank { self.map.fs_name.as_str() } else { "" },
            "mdsmap_epoch": self.beacons.epoch(),
            "osdmap_epoch_barrier": self.rank.as_ref().map_or(0, shown::barrier),
            "uptime": uptime as f64 / 1000.0,
        });
        if let Some(end) = &self.end {
            status["end"] = json!(end.to_string());
        }
        status
    }

    /// Commands that change something.
    fn act(
        &mut self,
        conn: ConnId,
        tid: u64,
        prefix: &str,
        arguments: &Arguments,
    ) -> Result<Option<CommandOutput>, Sentence> {
        if self.commands.is_full() {
            let text = "too many commands wait already; repeat it when they are done";
            return Err(Sentence::new(Errno::BUSY, text));
        }
        let what = match prefix {
            "flush journal" => self.begin_flush()?,
            "session kill" => self.begin_evictions(&[text(arguments, "client_id").to_owned()])?,
            "session evict" | "client evict" => {
                self.begin_evictions(&words(arguments.get("filters")))?
            }
            other => return Err(table::refusal(&self.config.name, other)),
        };
        self.commands.wait(Pending { conn, tid, what });
        Ok(None)
    }

    fn begin_flush(&mut self) -> Result<Awaited, Sentence> {
        let (Some(rank), Some(cluster)) = (&mut self.rank, &mut self.cluster) else {
            return Err(Sentence::new(Errno::NOTSUPP, "this server stores nothing (--volatile)"));
        };
        let lsn = rank.log_mut().close();
        cluster.ask_checkpoint();
        Ok(Awaited::Checkpoint(lsn))
    }

    fn begin_evictions(&mut self, filters: &[String]) -> Result<Awaited, Sentence> {
        let filter = Filter::parse(filters)?;
        if filter.is_empty() {
            let text = "no client is named: give a filter such as id=4123, or '*' for all";
            return Err(Sentence::new(Errno::INVAL, text));
        }
        let rank = self.rank.as_mut().expect("it was seen");
        let found = shown::sessions(rank, self.now, &filter)?;
        let clients: Vec<u64> = found.iter().filter_map(|session| session["id"].as_u64()).collect();
        if clients.is_empty() {
            let text = "no session fits the filter; see 'session ls'";
            return Err(Sentence::new(Errno::NOENT, text));
        }
        if !evictions::order(rank, &clients) {
            let text = "this server stores nothing (--volatile) and cannot shut clients out";
            return Err(Sentence::new(Errno::NOTSUPP, text));
        }
        Ok(Awaited::Evictions(clients))
    }

    /// Answers commands that are done, and all if the server serves no longer.
    pub(super) fn answer_commands(&mut self) {
        for Pending { conn, tid, what } in self.commands.take() {
            let outcome = match &mut self.rank {
                Some(rank) => outcome(rank, &what).map(Ok),
                None => Some(Err(Sentence::new(
                    Errno::AGAIN,
                    "the server has lost its rank before that was done; ask its successor",
                ))),
            };
            match outcome {
                Some(answer) => self.tell(conn, tid, answer),
                None => self.commands.wait(Pending { conn, tid, what }),
            }
        }
    }
}

/// The answer to a command that has waited; `None` if it is not done.
fn outcome(rank: &mut Rank, what: &Awaited) -> Option<CommandOutput> {
    match what {
        Awaited::Checkpoint(lsn) => {
            let stored = rank.log_mut().checkpoint()?;
            let told = json!({ "message": "", "return_code": 0 });
            (stored >= *lsn).then(|| told.into())
        }
        Awaited::Evictions(clients) => {
            let is_over = clients.iter().all(|client| !evictions::is_pending(rank, *client));
            is_over.then(CommandOutput::nothing)
        }
    }
}

/// Commands that only show a rank.
fn show(
    rank: &Rank,
    now: engine::Time,
    prefix: &str,
    arguments: &Arguments,
) -> Result<Option<Value>, Sentence> {
    Ok(Some(match prefix {
        "session ls" | "client ls" => {
            let filter = Filter::parse(&words(arguments.get("filters")))?;
            Value::from(shown::sessions(rank, now, &filter)?)
        }
        "ops" | "dump_ops_in_flight" => shown::operations(rank, now, false),
        "dump_blocked_ops" => shown::operations(rank, now, true),
        "cache status" => shown::cache(rank),
        "dump inode" => {
            let number = tell::integer(arguments, "number")?;
            let number = number.and_then(|number| u64::try_from(number).ok());
            let missing =
                || Sentence::new(Errno::INVAL, "'dump inode' needs the number of an inode");
            shown::inode(rank, number.ok_or_else(missing)?)?
        }
        "perf dump" => {
            let name = |name| Some(text(arguments, name)).filter(|name| !name.is_empty());
            selected(shown::counters(rank), name("logger"), name("counter"))
        }
        _ => return Ok(None),
    }))
}

/// The counters of one part, or one of them.
fn selected(mut counters: Value, part: Option<&str>, counter: Option<&str>) -> Value {
    if let Some(parts) = counters.as_object_mut() {
        parts.retain(|name, _| part.is_none_or(|part| part == name));
        for counters in parts.values_mut().filter_map(Value::as_object_mut) {
            counters.retain(|name, _| counter.is_none_or(|counter| counter == name));
        }
    }
    counters
}
