//! Messages, commands, and completions of the store, each passed to the components that it concerns.

use crate::commands::answer::{self, Arguments, Asker, CommandOutput, Sentence, integer, text};
use crate::commands::dumps::View;
use crate::commands::groups::{self as group_commands, GroupCommand};
use crate::commands::{cluster_log, fullness, lost};
use crate::cx::cx;
use crate::env::Stage;
use crate::maps::stored;
use crate::maps::telling::Then;
use crate::operations::{admission, copying, listing, loads, own, queue};
use crate::osd::Osd;
use crate::osd::faults::{Handled, undecodable};
use crate::tokens::{ScrubTag, Token};
use engine::{ConnId, Message, Output, Time};
use pg::message::{Body, Header};
use pg::{Pg, scrub};
use serde_json::json;
use store::{Completion, Outcome, StoreError};
use types::{Epoch, Errno, HObject, OsdId, PgId};
use wire::internal::RotatingSecrets as RotatingSecretsMessage;
use wire::{AuthReply, Command, MessageBody, OsdReply, decode_from_peer};

impl Osd {
    /// Handles a completion of the store. Ones for groups, objects or attempts that are gone are ignored.
    pub(super) fn complete(&mut self, now: Time, completion: Completion) {
        let Some(token) = self.outbox.complete(completion.token) else { return };
        let outcome = completion.outcome;
        if let Err(error @ StoreError::Device(_)) = &outcome
            && token.is_vital()
        {
            self.disk_failed(now, error);
        }
        if self.env.stage == Stage::Failed && !matches!(token, Token::Usage) {
            return;
        }
        match token {
            Token::Collections => self.load_groups(now, outcome),
            Token::Group { pg, serial, tag, bytes } => {
                self.usage.end_commit(bytes);
                if matches!(outcome, Err(StoreError::NoSpace { .. })) {
                    self.usage.note_refusal();
                    self.report.schedule.request(now);
                }
                if let Some(group) = self.groups.get_same(pg, serial) {
                    if !group.pg.is_serving() {
                        group.tell_time(&self.leases, now);
                    }
                    group.pg.handle_completion(tag, outcome);
                    self.settle_group(pg);
                    self.finish_loading(now);
                }
                self.check_room(now);
            }
            Token::State { object } => {
                self.serve_at(object, |s| loads::state_loaded(s, object, outcome));
            }
            Token::Need { request, attempt, need } => {
                self.serve_of(request, |s| loads::need_loaded(s, request, attempt, need, outcome));
            }
            Token::Listing { request, attempt } => {
                self.serve_of(request, |s| listing::listed(s, request, attempt, outcome));
            }
            Token::Listed { request, attempt, object } => self.serve_of(request, |s| {
                listing::listed_object(s, request, attempt, &object, outcome);
            }),
            Token::Trim { pg, generation } => self.trim_listed(pg, generation, outcome),
            Token::Usage => self.usage_known(now, outcome),
            Token::MapLoaded => {
                self.maps.loaded(self.env.whoami(), outcome);
                self.finish_loading(now);
            }
            Token::MapStored if outcome.is_err() => self.maps.store_failed(),
            Token::MapStored => {}
            Token::Bench { bytes } => {
                let (usage, out) = (&mut self.usage, &mut self.outbox);
                let ended = self.commands.bench.stored(now, usage, out, bytes, outcome);
                if let Some((asker, answer)) = ended {
                    asker.tell(&self.clients, &mut self.outbox, answer);
                }
            }
            Token::Scrub { pg, serial, tag } => {
                if self.groups.get_same(pg, serial).is_some() {
                    self.scrub_completed(pg, tag, outcome);
                }
            }
        }
    }

    fn load_groups(&mut self, now: Time, outcome: Result<Outcome, StoreError>) {
        let collections = match outcome {
            Ok(Outcome::Collections(collections)) => collections,
            other => {
                tracing::error!(osd = %self.env.config.id, ?other, "the store cannot be read");
                return;
            }
        };
        self.leases.begin(now);
        for collection in collections {
            if collection == stored::collection() {
                self.maps.load(&mut self.outbox);
                continue;
            }
            if collection.is_shard() {
                tracing::error!(%collection, "erasure coding is not supported: the shard is ignored");
                continue;
            }
            let id = collection.0.pg;
            let copy = Pg::load(id, self.env.whoami());
            self.groups.add(copy.with_sizes(self.env.config.sizes.groups));
            self.settle_group(id);
        }
        self.finish_loading(now);
    }

    /// Ends the loading stage when all groups and the map have been read.
    pub(super) fn finish_loading(&mut self, now: Time) {
        if self.env.stage != Stage::Loading || self.maps.is_loading() {
            return;
        }
        if self.groups.are_loaded() {
            self.begin_booting(now);
        }
    }

    /// All groups and the map are loaded: connects to a monitor, after the groups have handled the
    /// stored map.
    fn begin_booting(&mut self, now: Time) {
        self.env.stage = Stage::Booting;
        if self.epoch() > Epoch(0) {
            self.maps.note_placed();
            self.begin_placing(now, Then::Boot);
            return self.go_on_with_maps(now);
        }
        self.go_to_monitor(now);
    }

    /// Connects to a monitor for the first time.
    pub(super) fn go_to_monitor(&mut self, now: Time) {
        self.monitor.connect(cx!(self));
        self.report.schedule.request(now);
    }

    /// Takes the OSD out of service: ends its sessions, and asks the monitor to mark it down.
    ///
    /// A store that failed to write can guarantee no durability any more (`store::StoreError::Device`).
    /// So the OSD serves no requests from then on, asks the monitor to mark it down and dead, and
    /// reports the cause until an administrator restarts it or replaces the disk. A failed read of data
    /// is no such case: the object is recovered from another copy. A failed read of metadata is:
    /// without the version that the object should have, it cannot be recovered, and clients would get
    /// errors although there are other copies.
    pub(super) fn disk_failed(&mut self, now: Time, error: &StoreError) {
        if self.env.stage == Stage::Failed {
            return;
        }
        tracing::error!(osd = %self.env.config.id, %error, "out of service");
        let was_loading = self.env.stage == Stage::Loading;
        self.env.stage = Stage::Failed;
        self.env.failure = Some(error.to_string());
        self.leave_peers();
        self.heartbeat_if_due();
        for conn in self.clients.take_all() {
            self.outbox.push(Output::Close { conn });
        }
        if was_loading {
            self.monitor.connect(cx!(self));
        }
        self.monitor.leave(cx!(self));
        self.report.schedule.request(now);
    }

    /// Whether the OSD is out of service until it is restarted.
    pub fn has_failed(&self) -> bool {
        self.env.stage == Stage::Failed
    }

    /// Dispatch of a failed OSD: commands, and the secrets that authentication needs.
    pub(super) fn dispatch_failed(&mut self, conn: ConnId, message: &Message) -> Handled {
        match message.kind {
            Command::KIND => {
                self.handle_command(conn, message.tid, &decode_from_peer::<Command>(message)?)
            }
            RotatingSecretsMessage::KIND if self.monitor.is(conn) => {
                self.handle_secrets(&decode_from_peer::<RotatingSecretsMessage>(message)?);
            }
            AuthReply::KIND if self.monitor.is(conn) => {
                self.handle_sealed_secrets(&decode_from_peer::<AuthReply>(message)?.payload);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn handle_sealed_secrets(&mut self, payload: &[u8]) {
        let are_first = self.authentication.take_sealed_secrets(payload);
        self.secrets_taken(are_first);
    }

    pub(super) fn handle_secrets(&mut self, message: &RotatingSecretsMessage) {
        let are_first = self.authentication.take_secrets(&message.secrets);
        self.secrets_taken(are_first);
    }

    /// Boots, if only the rotating secrets were missing.
    fn secrets_taken(&mut self, are_first: bool) {
        if are_first && self.env.stage == Stage::Booting {
            self.monitor.boot(cx!(self), &self.authentication);
        }
    }

    /// Handles a group message. Fails if it does not decode, which ends the session.
    pub(super) fn handle_group_message(
        &mut self,
        now: Time,
        conn: ConnId,
        message: Message,
    ) -> Handled {
        match self.peers.group_sender(&mut self.clients, conn, &message) {
            Some(from) => self.deliver_group_message(now, conn, from, message),
            // Messages of a session that has ended meanwhile are dropped.
            None => {
                if self.clients.contains(conn) {
                    tracing::warn!(?conn, "only OSDs may speak as members of a group");
                }
                Ok(())
            }
        }
    }

    /// Delivers a group message, or makes it wait for its map. Fails if it does not decode: its
    /// sender never resends it.
    pub(super) fn deliver_group_message(
        &mut self,
        now: Time,
        conn: ConnId,
        from: OsdId,
        message: Message,
    ) -> Handled {
        let kind = message.kind;
        let epoch = pg::message::sender_epoch(&message).map_err(undecodable(kind))?;
        let Some(message) = self.hold_message(conn, from, epoch, message) else { return Ok(()) };
        let (header, body) = Body::decode(&message).map_err(undecodable(kind))?;
        let Some(group) = self.groups.get_mut(header.pg) else {
            if body == Body::Query {
                let back = Header { to: header.from, from: header.to, ..header };
                let nothing = Body::Info(None).encode(&back);
                self.peers.send(cx!(self), from, nothing);
            }
            return Ok(());
        };
        if !group.pg.is_serving() {
            group.tell_time(&self.leases, now);
        }
        group.pg.handle_message(from, &header, body);
        self.settle_group(header.pg);
        Ok(())
    }

    /// Handles a client's request. Fails if it does not decode, which ends the session.
    pub(super) fn handle_request(&mut self, conn: ConnId, message: &Message) -> Handled {
        let received = admission::receive(&mut self.operations, cx!(self), conn, message)?;
        let Some((key, map_epoch)) = received else { return Ok(()) };
        self.peers.note_offered(&mut self.clients, conn, Some(map_epoch));
        self.maps.share(&mut self.clients, &mut self.outbox, conn, map_epoch);
        self.admit(key);
        Ok(())
    }

    /// Checks a request and passes it to its group.
    pub(super) fn admit(&mut self, key: u64) {
        let Some(request) = self.operations.get(key) else { return };
        let epoch = request.message.map_epoch;
        if !admission::may_anything(self.maps.map(), &self.clients, request) {
            return self.operations.reply_error(cx!(self), key, Errno::PERM);
        }
        if self.await_map(epoch, key) {
            return;
        }
        let (groups, facts) = (&self.groups, (self.maps.map(), self.env.whoami()));
        let found = admission::route(&mut self.operations, facts, key, |pg| {
            groups.get(pg).map(|group| (&group.pg, group.primary_since.unwrap_or_default()))
        });
        match found {
            Some(pg) => self.serve(pg, |s| admission::enter(s, key)),
            // The client learns from a newer map where to send it, or that there is no such pool.
            None => self.operations.forget(cx!(self), key),
        }
    }

    /// A reply from another OSD to a request of ours.
    pub(super) fn handle_reply(&mut self, conn: ConnId, message: &Message) -> Handled {
        if self.peers.at(&self.clients, conn).is_some() {
            let (reply, tid) = (decode_from_peer::<OsdReply>(message)?, message.tid);
            copying::replied(&mut self.operations, cx!(self), &mut self.peers, tid, &reply);
        }
        Ok(())
    }

    /// Handles a request for a lease, or a grant: then reads that waited for it go on. Fails if it does not
    /// decode.
    pub(crate) fn handle_lease_message(&mut self, from: OsdId, message: &Message) -> Handled {
        let from = (from, self.heartbeats.silence(self.env.now, from));
        let outcome = self.leases.handle_message(cx!(self), &mut self.peers, from, message);
        if outcome.map_err(undecodable(message.kind))? {
            self.resume_reads();
        }
        Ok(())
    }

    fn view(&mut self) -> View<'_> {
        View {
            env: &self.env,
            maps: &self.maps,
            clients: &self.clients,
            heartbeats: &self.heartbeats,
            groups: &self.groups,
            operations: &self.operations,
            scrub: &self.scrub,
            recovery: &self.recovery,
            usage: &self.usage,
            report: &mut self.report,
        }
    }

    /// Runs a command. Only peers with all capabilities may run any.
    pub(super) fn handle_command(&mut self, conn: ConnId, tid: u64, command: &Command) {
        let Some(session) = self.clients.get(conn) else { return };
        let asker = Asker { conn, tid };
        let answer = match session.caps.allows_all() {
            true => self.run_command(asker, command),
            false => Err(Sentence::new(Errno::ACCES, "access denied")),
        };
        if let Some(answer) = answer.transpose() {
            asker.tell(&self.clients, &mut self.outbox, answer);
        }
    }

    /// `None` if the reply follows later.
    fn run_command(
        &mut self,
        asker: Asker,
        command: &Command,
    ) -> Result<Option<CommandOutput>, Sentence> {
        let (prefix, arguments) = answer::parse(command)?;
        if let Some(answer) = self.env.running.command(&prefix, &arguments) {
            self.env.apply_options();
            let answer = answer.map_err(|(errno, text)| Sentence::new(errno, text));
            return answer.map(|(value, text)| Some(CommandOutput::Both(value, text)));
        }
        if group_commands::is_group_command(&prefix) {
            return self.run_group_command(asker, &prefix, &arguments);
        }
        if prefix == "bench" {
            let (env, bench) = (&self.env, &mut self.commands.bench);
            bench.begin(env, &mut self.usage, &mut self.outbox, asker, &arguments)?;
            return Ok(None);
        }
        let told = self.view().show(&prefix, &arguments).map(CommandOutput::Json);
        told.map_or_else(|| self.act(&prefix, &arguments), Ok).map(Some)
    }

    fn run_group_command(
        &mut self,
        asker: Asker,
        prefix: &str,
        arguments: &Arguments,
    ) -> Result<Option<CommandOutput>, Sentence> {
        let (pg, command) = group_commands::parse(prefix, arguments, self.env.config.fsid)?;
        let group = group_commands::primary(&self.groups, pg)?;
        match command {
            GroupCommand::Scrub(order, told) => {
                self.handle_scrub_order(self.env.now, &order);
                Ok(Some(json!(told).into()))
            }
            GroupCommand::GiveUp(mode) => {
                let objects = lost::lost_objects(&group.pg, &mode)?;
                self.give_up(asker, pg, &objects);
                Ok(None)
            }
            GroupCommand::Show(name) => {
                let shown = group_commands::show(&name, group, self.epoch())?;
                Ok(Some(shown.into()))
            }
        }
    }

    /// Gives up lost objects. The reply follows when that is durable.
    fn give_up(&mut self, asker: Asker, pg: PgId, objects: &[HObject]) {
        let (epoch, now) = (self.epoch(), self.env.now);
        let command = self.commands.lost.begin(asker, pg, objects.len());
        for object in objects {
            tracing::warn!(%pg, %object, "nobody has the object, and it is given up as asked");
            let removal = own::giving_up(pg, object, command, epoch, now.wall());
            let request = self.operations.insert(removal);
            self.serve(pg, |s| queue::start(s, request));
        }
    }

    /// One object of a command that gave it up is gone on all members, or could not be removed.
    pub(super) fn lost_ended(&mut self, command: u64, result: i32) {
        if let Some((asker, answer)) = self.commands.lost.ended(command, result) {
            asker.tell(&self.clients, &mut self.outbox, answer);
        }
    }

    /// Commands that change state.
    fn act(&mut self, prefix: &str, arguments: &Arguments) -> Result<CommandOutput, Sentence> {
        match prefix {
            "perf reset" => {
                if matches!(text(arguments, "var"), "all" | "osd") {
                    let counted = self.view().counted();
                    self.report.reset_perf(counted);
                }
            }
            "reset_pg_recovery_stats" => self.groups.reset_state_times(),
            "get_latest_osdmap" => self.monitor.ask_for_maps(cx!(self)),
            "flush_pg_stats" => {
                return Ok(json!(self.report.flush(&self.env, self.maps.map())).into());
            }
            "cache drop" => self.groups.drop_caches(&mut self.operations),
            // The store writes checkpoints continuously, and its tree in place.
            "compact" => {}
            "heap" => return self.view().heap(text(arguments, "heapcmd")),
            "injectfull" => self.inject_full(arguments)?,
            "cluster_log" => {
                let (severity, message) = cluster_log::entry(arguments)?;
                if !self.report.log(cx!(self), &self.monitor, severity, message) {
                    let text = "no monitor is reached at the moment";
                    return Err(Sentence::new(Errno::AGAIN, text));
                }
            }
            // Each scrub of a group compares its clones with the removed snapshots.
            "scrub_purged_snaps" => {}
            "debug kick_recovery_wq" => {
                let delay = integer(arguments, "delay")?.unwrap_or(0);
                self.recovery.scheduler.kick();
                self.schedule_recovery(self.env.now);
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
        let level = fullness::level(arguments, self.maps.map())?;
        self.usage.inject(level);
        self.report.schedule.request(self.env.now);
        self.check_room(self.env.now);
        Ok(())
    }

    /// Handles a message of a scrub from another member. Messages of other intervals are ignored.
    pub(super) fn handle_scrub_message(&mut self, from: OsdId, message: &Message) {
        let (header, body) = match scrub::message::Body::decode(message) {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::error!(%from, %error, "a scrub's message does not decode");
                return;
            }
        };
        if body == scrub::message::Body::Reserve {
            let groups = &self.groups;
            self.scrub.end_old_help(|pg| Some(groups.get(pg)?.pg.interval()));
        }
        let Some(group) = self.groups.get_mut(header.pg) else { return };
        let is_member = group.pg.members().acting.contains(&from);
        let is_for_us = header.to == group.pg.whoami().shard;
        if header.interval != group.pg.interval() || !is_member || !is_for_us {
            return;
        }
        let (cx, group) = (cx!(self), &mut group.scrubbed());
        if self.scrub.handle_message(cx, &mut self.peers, group, from, body) {
            self.pump_scrub(header.pg);
        }
    }

    /// Handles a completion of the store for a scrub.
    pub(super) fn scrub_completed(
        &mut self,
        pg: PgId,
        tag: ScrubTag,
        outcome: Result<Outcome, StoreError>,
    ) {
        let Some(group) = self.groups.get_mut(pg) else { return };
        let (cx, peers, group) = (cx!(self), &mut self.peers, &mut group.scrubbed());
        let reports = &mut self.report.schedule;
        if self.scrub.handle_completion(cx, peers, reports, group, tag, outcome) {
            self.pump_scrub(pg);
        }
    }
}
