//! Completions of the store, the start and the failure of the OSD, and commands.

use crate::commands::answer::{self, Arguments, CommandOutput, Requester, Sentence, integer, text};
use crate::commands::dumps::View;
use crate::commands::groups::{self as group_commands, GroupCommand};
use crate::commands::{cluster_log, fullness, lost};
use crate::cx::cx;
use crate::env::Stage;
use crate::faults::Handled;
use crate::hosted::{inputs, placement, recovering, scrubbing, sessions, usage};
use crate::maps::telling::Then;
use crate::osd::Osd;
use crate::tokens::Token;
use engine::{ConnId, Message, Output};
use serde_json::json;
use store::{Completion, StoreError};
use types::{Epoch, Errno, OsdId};
use wire::internal::RotatingSecrets as RotatingSecretsMessage;
use wire::{AuthReply, Command, MessageBody, decode_from_peer};

impl Osd {
    /// Handles a completion of the store.
    pub(super) fn complete(&mut self, completion: Completion) {
        let Some(token) = self.shared.outbox.complete(completion.token) else { return };
        let outcome = completion.outcome;
        if let Err(error @ StoreError::Device(_)) = &outcome
            && token.is_vital()
        {
            self.leave_service(failed_disk(self.id(), error));
        }
        if self.has_failed() && !matches!(token, Token::Usage) {
            return;
        }
        let (hosted, shared) = (&mut self.hosted, &mut self.shared);
        match token {
            Token::Collections => {
                if placement::load(hosted, shared, outcome) {
                    self.finish_loading();
                }
            }
            Token::Usage => usage::usage_known(hosted, shared, &self.heartbeats, outcome),
            Token::MapLoaded => match shared.maps.loaded(shared.env.whoami(), outcome) {
                Ok(()) => self.finish_loading(),
                Err(reason) => {
                    let refusal = format!("osd.{} does not start: {reason}", self.id());
                    self.leave_service(refusal);
                }
            },
            Token::MapStored if outcome.is_err() => shared.maps.store_failed(),
            Token::MapStored => {}
            Token::Bench { bytes } => {
                let (now, usage, out) = (shared.env.now, &mut shared.usage, &mut shared.outbox);
                if let Some((requester, answer)) =
                    self.bench.stored(now, usage, out, bytes, outcome)
                {
                    requester.tell(&shared.clients, &mut shared.outbox, answer);
                }
            }
            Token::Group { .. } => {
                inputs::handle_completion(hosted, shared, token, outcome);
                self.finish_loading();
                usage::check_space(&mut self.hosted, &mut self.shared);
            }
            _ => inputs::handle_completion(hosted, shared, token, outcome),
        }
    }

    /// Ends the loading stage when all groups and the map have been read: connects to a monitor, after the
    /// groups have handled the stored map.
    fn finish_loading(&mut self) {
        if self.shared.env.stage != Stage::Loading || self.shared.maps.is_loading() {
            return;
        }
        if !placement::are_loaded(&mut self.hosted) {
            return;
        }
        self.shared.env.stage = Stage::Booting;
        if self.shared.epoch() > Epoch(0) {
            self.shared.maps.note_placed();
            self.begin_placing(Then::Boot);
            return self.go_on_with_maps();
        }
        self.go_to_monitor();
    }

    /// Connects to a monitor for the first time.
    pub(super) fn go_to_monitor(&mut self) {
        self.shared.monitor.connect(cx!(self.shared));
        self.shared.request_report();
    }

    /// Takes the OSD out of service: ends its sessions, and asks the monitor to mark it down.
    ///
    /// A store with features that this version does not know must not be touched.
    ///
    /// A store that failed to write can guarantee no durability any more (`store::StoreError::Device`).
    /// So the OSD serves no requests from then on, asks the monitor to mark it down and dead, and
    /// reports the cause until an administrator restarts it or replaces the disk. A failed read of data
    /// is no such case: the object is recovered from another copy. A failed read of metadata is:
    /// without the version that the object should have, it cannot be recovered, and clients would get
    /// errors although there are other copies.
    fn leave_service(&mut self, reason: String) {
        if self.has_failed() {
            return;
        }
        let env = &mut self.shared.env;
        tracing::error!(osd = %env.config.id, reason, "out of service");
        let was_loading = env.stage == Stage::Loading;
        env.stage = Stage::Failed;
        env.failure = Some(reason);
        sessions::leave_peers(&mut self.hosted, &mut self.shared);
        self.heartbeat_if_due();
        let shared = &mut self.shared;
        for conn in shared.clients.take_all() {
            shared.outbox.push(Output::Close { conn });
        }
        if was_loading {
            shared.monitor.connect(cx!(shared));
        }
        shared.monitor.leave(cx!(shared));
        shared.request_report();
    }

    /// Dispatch of a failed OSD: commands, and the secrets that authentication needs.
    pub(super) fn dispatch_failed(&mut self, conn: ConnId, message: &Message) -> Handled {
        match message.kind {
            Command::KIND => {
                self.handle_command(conn, message.tid, &decode_from_peer::<Command>(message)?)
            }
            RotatingSecretsMessage::KIND if self.shared.monitor.is(conn) => {
                self.handle_secrets(&decode_from_peer::<RotatingSecretsMessage>(message)?);
            }
            AuthReply::KIND if self.shared.monitor.is(conn) => {
                self.handle_sealed_secrets(&decode_from_peer::<AuthReply>(message)?.payload);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn handle_sealed_secrets(&mut self, payload: &[u8]) {
        // It boots, if only the rotating secrets were missing.
        if self.authentication.take_sealed_secrets(payload) {
            self.boot_if_booting();
        }
    }

    pub(super) fn handle_secrets(&mut self, message: &RotatingSecretsMessage) {
        if self.authentication.take_secrets(&message.secrets) {
            self.boot_if_booting();
        }
    }
}

/// The reason of a failed disk, for administrators.
fn failed_disk(id: OsdId, error: &StoreError) -> String {
    format!(
        "the store of osd.{id} failed, and the OSD is out of service ({error}); look at its disk, \
         then restart it, or give it another disk with 'sepiola osd replace --id {id}'"
    )
}

/// Commands.
impl Osd {
    fn view(&mut self) -> View<'_> {
        View {
            env: &self.shared.env,
            maps: &self.shared.maps,
            clients: &self.shared.clients,
            heartbeats: &self.heartbeats,
            groups: self.hosted.groups(),
            operations: self.hosted.operations(),
            scrub: self.hosted.scrub(),
            recovery: self.hosted.recovery(),
            usage: &self.shared.usage,
            report: &mut self.shared.report,
        }
    }

    /// Runs a command. Only peers with all capabilities may run any.
    pub(super) fn handle_command(&mut self, conn: ConnId, tid: u64, command: &Command) {
        let Some(session) = self.shared.clients.get(conn) else { return };
        let requester = Requester { conn, tid };
        let answer = match session.caps.allows_all() {
            true => self.run_command(requester, command),
            false => Err(Sentence::new(Errno::ACCES, "access denied")),
        };
        if let Some(answer) = answer.transpose() {
            requester.tell(&self.shared.clients, &mut self.shared.outbox, answer);
        }
    }

    /// `None` if the reply follows later.
    fn run_command(
        &mut self,
        requester: Requester,
        command: &Command,
    ) -> Result<Option<CommandOutput>, Sentence> {
        let (prefix, arguments) = answer::parse(command)?;
        let shared = &mut self.shared;
        if let Some(answer) = shared.env.running.command(&prefix, &arguments) {
            shared.env.apply_options();
            let answer = answer.map_err(|(errno, text)| Sentence::new(errno, text));
            return answer.map(|(value, text)| Some(CommandOutput::Both(value, text)));
        }
        if group_commands::is_group_command(&prefix) {
            return self.run_group_command(requester, &prefix, &arguments);
        }
        if prefix == "bench" {
            let (env, usage) = (&shared.env, &mut shared.usage);
            self.bench.begin(env, usage, &mut shared.outbox, requester, &arguments)?;
            return Ok(None);
        }
        let told = self.view().show(&prefix, &arguments).map(CommandOutput::Json);
        told.map_or_else(|| self.act(&prefix, &arguments), Ok).map(Some)
    }

    fn run_group_command(
        &mut self,
        requester: Requester,
        prefix: &str,
        arguments: &Arguments,
    ) -> Result<Option<CommandOutput>, Sentence> {
        let (hosted, shared) = (&mut self.hosted, &mut self.shared);
        let (pg, command) = group_commands::parse(prefix, arguments, shared.env.config.fsid)?;
        let group = group_commands::primary(hosted.groups(), pg)?;
        match command {
            GroupCommand::Scrub(order, told) => {
                scrubbing::handle_order(hosted, shared, &order);
                Ok(Some(json!(told).into()))
            }
            GroupCommand::GiveUp(mode) => {
                let (pg, objects) = (group.pg.pg_shard(), lost::lost_objects(&group.pg, &mode)?);
                recovering::give_up(hosted, shared, requester, pg, &objects);
                Ok(None)
            }
            GroupCommand::Show(name) => {
                let shown = group_commands::show(&name, group, shared.epoch())?;
                Ok(Some(shown.into()))
            }
        }
    }

    /// Commands that change state.
    fn act(&mut self, prefix: &str, arguments: &Arguments) -> Result<CommandOutput, Sentence> {
        match prefix {
            "perf reset" => {
                if matches!(text(arguments, "var"), "all" | "osd") {
                    let counted = self.view().counted();
                    self.shared.report.reset_perf(counted);
                }
            }
            "reset_pg_recovery_stats" => self.hosted.reset_state_times(),
            "get_latest_osdmap" => self.shared.monitor.ask_for_maps(cx!(self.shared)),
            "flush_pg_stats" => {
                let shared = &mut self.shared;
                return Ok(json!(shared.report.flush(&shared.env, shared.maps.map())).into());
            }
            "cache drop" => self.hosted.drop_caches(),
            // The store writes checkpoints continuously, and its tree in place.
            "compact" => {}
            "heap" => return self.view().heap(text(arguments, "heapcmd")),
            "injectfull" => self.inject_full(arguments)?,
            "cluster_log" => {
                let (severity, message) = cluster_log::entry(arguments)?;
                let shared = &mut self.shared;
                if !shared.report.log(cx!(shared), &shared.monitor, severity, message) {
                    let text = "no monitor is reached at the moment";
                    return Err(Sentence::new(Errno::AGAIN, text));
                }
            }
            // Each scrub of a group compares its clones with the removed snapshots.
            "scrub_purged_snaps" => {}
            "debug kick_recovery_wq" => {
                let delay = integer(arguments, "delay")?.unwrap_or(0);
                recovering::kick(&mut self.hosted, &mut self.shared);
                let said =
                    format!("kicking recovery queue. set osd_recovery_delay_start to {delay}");
                return Ok(CommandOutput::Status(said));
            }
            other => return Err(answer::unknown(self.id(), other)),
        }
        Ok(match prefix {
            "perf reset" => {
                json!({ "success": format!("perf reset {}", text(arguments, "var")) }).into()
            }
            _ => CommandOutput::nothing(),
        })
    }

    /// Makes the disk appear fuller than it is.
    fn inject_full(&mut self, arguments: &Arguments) -> Result<(), Sentence> {
        let shared = &mut self.shared;
        let level = fullness::level(arguments, shared.maps.map())?;
        shared.usage.inject(level);
        shared.request_report();
        usage::check_space(&mut self.hosted, shared);
        Ok(())
    }
}
