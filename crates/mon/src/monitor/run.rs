//! Execution of operations on the committed state.

use super::Monitor;
use super::asking::Admitted;
use super::pipeline::Rejection;
use crate::bootstrap::first_global_id;
use crate::change::Change;
use crate::command::{Answer, Context, Refusal};
use crate::job::{Channel, CommandJob, Effects, Job};
use crate::keys;
use crate::state::{LOG_ENTRIES_KEPT, Leader};
use engine::{Message, Time};
use std::ops::Range;
use types::{EntityName, EntityType, ParticipantName};
use wire::{CommandReply, LogEntry, MessageBody, MgrCommandReply, MonCommandAck, PoolOpReply};

/// Log entries that one transaction adds. It deletes at most twice as many.
const LOG_ENTRIES_AT_ONCE: usize = 400;
/// Global ids that are reserved at once.
pub(super) const GLOBAL_IDS_PER_RESERVATION: u64 = 1000;

impl Monitor {
    /// Runs an operation on the current state: returns its change, and what follows once that is durable.
    pub(super) fn run(&mut self, now: Time, job: &Job) -> (Change, Effects) {
        let mut change = Change::new(now.wall());
        let effects = match job {
            Job::Start => self.start_run(now, &mut change),
            Job::ReserveGlobalIds => self.reserve_global_ids(&mut change),
            Job::Probe => {
                change.put(keys::GLOBAL_ID, self.state.global_id_next.to_string());
                Effects::default()
            }
            Job::RotateSecrets => {
                self.rotate_secrets(now, &mut change);
                Effects::default()
            }
            Job::PromotePendingKey(name) => self.promote_pending_key(name, &mut change),
            Job::Command(command) => return self.run_command(now, command),
            Job::PoolOp { conn, tid, op, .. } => {
                let reply = self.run_pool_op(*conn, op, now, &mut change);
                Effects::message(*conn, reply.with_tid(*tid))
            }
            Job::Log { conn, entries } => {
                self.append_log(entries.clone(), &mut change);
                self.acknowledge_log(*conn, entries)
            }
            Job::Osd(job) => self.run_osd_job(now, job, &mut change),
            // This monitor may have lost the leadership since it queued the operation.
            Job::Housekeeping if !self.owns_timers(now) => Effects::default(),
            Job::Housekeeping => {
                self.plan_housekeeping(now, &mut change);
                Effects::default()
            }
            Job::Notes(notes) => {
                for (severity, text) in notes {
                    change.note(*severity, text.clone());
                }
                Effects::default()
            }
            Job::Balance => {
                self.balance(now, &mut change);
                Effects::default()
            }
        };
        self.log_notes(&mut change);
        (change, effects)
    }

    /// Answers an operation that is not executed.
    pub(super) fn reject(&mut self, job: Job, reason: Rejection) {
        match job {
            Job::Command(command) => {
                let answer = Answer::from(Refusal::new(reason.errno(), reason.to_string()));
                let message = self.answer(&command, answer);
                self.send(command.conn, message);
            }
            Job::PoolOp { conn, tid, .. } => {
                let reply = PoolOpReply {
                    fsid: self.state.monmap.fsid,
                    result: reason.errno().negative(),
                    epoch: self.state.osdmap.epoch.0,
                    ..PoolOpReply::default()
                };
                let message = reply.encode(0).with_tid(tid);
                self.send(conn, message);
            }
            job => tracing::warn!(?job, %reason, "an operation was dropped"),
        }
    }

    fn start_run(&mut self, now: Time, change: &mut Change) -> Effects {
        self.announce_address(change);
        // Secrets are rotated by the leader; this monitor's clock may be ahead, and would expire all tickets.
        let leads_other = |leader: &Leader| leader.name != self.settings.mon_name;
        if !self.state.members.leader.as_ref().is_some_and(leads_other) {
            self.rotate_secrets(now, change);
        }
        self.reserve_global_ids(change)
    }

    fn reserve_global_ids(&mut self, change: &mut Change) -> Effects {
        let seen = self.pipeline.high_water().global_id(self.state.monmap.fsid);
        let first = self.state.global_id_next.max(first_global_id(change.now())).max(seen);
        let end = first + GLOBAL_IDS_PER_RESERVATION;
        change.put(keys::GLOBAL_ID, end.to_string());
        Effects { global_ids: Some(first..end), ..Effects::default() }
    }

    /// Takes over a durable reservation. Unassigned ids of the one before are kept if the new one continues
    /// it; some may have been assigned while the transaction was in flight.
    pub(super) fn take_global_ids(&mut self, reserved: Range<u64>) {
        let left = &self.global_ids;
        let start = if left.end == reserved.start { left.start } else { reserved.start };
        self.global_ids = start..reserved.end;
    }

    fn rotate_secrets(&mut self, now: Time, change: &mut Change) {
        let mut secrets = self.state.secrets.clone();
        if secrets.rotate(now.wall(), &self.settings.cephx, &mut self.entropy) {
            change.put(keys::SECRETS, codec::encode_to_bytes(&secrets));
        }
    }

    fn promote_pending_key(&mut self, name: &EntityName, change: &mut Change) -> Effects {
        if let Some(mut entity) = self.state.entities.get(name).cloned()
            && let Some(key) = entity.pending_key.take()
        {
            entity.key = key;
            change.put(keys::auth(name), codec::encode_to_bytes(&entity));
        }
        Effects::default()
    }

    /// Appends entries to the log with the next numbers, and deletes the oldest ones. Of more than
    /// [`LOG_ENTRIES_AT_ONCE`], the latest are kept.
    pub(super) fn append_log(&self, mut entries: Vec<LogEntry>, change: &mut Change) {
        entries.drain(..entries.len().saturating_sub(LOG_ENTRIES_AT_ONCE));
        change.append_log(&self.state, entries);
        let kept_from = self
            .state
            .log
            .last_key_value()
            .map_or(0, |(newest, _)| newest.saturating_sub(LOG_ENTRIES_KEPT as u64));
        let old = self.state.log.range(..kept_from).map(|(sequence, _)| *sequence);
        for old in old.take(2 * LOG_ENTRIES_AT_ONCE) {
            change.delete(keys::log(old));
        }
    }

    /// Writes an operation's notes into the cluster log.
    fn log_notes(&self, change: &mut Change) {
        let notes = change.take_notes();
        if notes.is_empty() {
            return;
        }
        let entry = |(severity, text)| LogEntry {
            name: EntityName::new(EntityType::MON, &self.settings.mon_name),
            rank: ParticipantName::new(EntityType::MON, 0),
            addrs: self.settings.mon_addrs.clone(),
            stamp: change.now(),
            sequence: change.now().as_nanos(),
            severity,
            text,
            channel: "cluster".to_owned(),
        };
        let entries = notes.into_iter().map(entry).collect();
        self.append_log(entries, change);
    }

    /// Runs a command: returns its change, and its answer as an effect.
    pub(super) fn run_command(&mut self, now: Time, job: &CommandJob) -> (Change, Effects) {
        let (answer, mut change) = match self.execute(now, job) {
            Ok(done) => done,
            Err(refusal) => (Answer::from(refusal), Change::new(now.wall())),
        };
        let message = self.answer(job, answer);
        let mut effects = Effects::message(job.conn, message);
        effects.image_notes = change.take_image_notes();
        for (osd, order) in change.take_orders() {
            // All sessions: a dead one that has not been noticed yet may be the newer one.
            let sessions = self.sessions.of_osd(osd);
            let messages = sessions.map(|(conn, it)| (conn, order.encode(it.peer().features)));
            effects.messages.extend(messages);
        }
        (change, effects)
    }

    fn execute(&mut self, now: Time, job: &CommandJob) -> Result<(Answer, Change), Refusal> {
        let Admitted { command, prefix, arguments, format } = self.admit(job)?;
        let caller = self.caller(job.conn);
        let mut context = Context {
            state: &self.state,
            live: self.overview.live(
                &self.stats,
                self.sessions.peers(),
                self.pipeline.troubles(),
                self.pipeline.operations(),
            ),
            registry: self.registries.of(job.channel),
            now,
            caller: &caller,
            prefix,
            arguments,
            input: job.input.clone(),
            format,
            entropy: &mut self.entropy,
            placement: &mut self.placement,
            running: &mut self.running,
            change: Change::new(now.wall()),
        };
        let answer = (command.handler)(&mut context)?;
        Ok((answer, context.change))
    }

    /// The reply to a command, in the message kind of its channel.
    pub(super) fn answer(&self, job: &CommandJob, answer: Answer) -> Message {
        let Answer { result, text, output } = answer;
        let message = match job.channel {
            Channel::Monitor => MonCommandAck {
                version: self.state.osdmap.epoch.0.into(),
                result,
                text,
                command: job.command.clone(),
                output,
            }
            .encode(0),
            Channel::Manager => MgrCommandReply { result, text, output }.encode(0),
            Channel::Tell => CommandReply { result, text, output }.encode(0),
        };
        message.with_tid(job.tid)
    }
}
