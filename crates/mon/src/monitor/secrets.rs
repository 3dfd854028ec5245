//! Rotating secrets, tickets and global ids.

use super::Monitor;
use crate::bootstrap::first_global_id;
use crate::change::Change;
use crate::job::{Effects, Job};
use crate::keys;
use auth::{RequestType, Rwx, ServerContext};
use engine::{ConnId, Time};
use std::ops::Range;
use types::{EntityName, Errno};
use wire::internal::{RotatingSecrets, RotatingSecretsRequest};
use wire::{Auth, AuthReply, MessageBody};

/// Global ids that are reserved at once.
const GLOBAL_IDS_PER_RESERVATION: u64 = 1000;

impl Monitor {
    /// Queues the reservation of global ids if few are left. Called in every tick.
    pub(super) fn reserve_if_few(&mut self) {
        let left = self.global_ids.end - self.global_ids.start;
        let is_reservation = |job: &Job| matches!(job, Job::ReserveGlobalIds | Job::Start);
        if left < GLOBAL_IDS_PER_RESERVATION / 2 && !self.pipeline.contains(is_reservation) {
            self.enqueue(Job::ReserveGlobalIds);
        }
    }

    /// Queues the rotation of secrets if it is due. Called in every tick of the owner of the timers.
    pub(super) fn rotate_if_due(&mut self, now: Time) {
        let rotation = self.state.secrets.next_rotation();
        let is_rotation = |job: &Job| matches!(job, Job::RotateSecrets | Job::Start);
        if rotation.is_none_or(|due| due <= now.wall()) && !self.pipeline.contains(is_rotation) {
            self.enqueue(Job::RotateSecrets);
        }
    }

    /// Sends the rotating secrets to the services that requested them, if they have changed.
    pub(super) fn publish_secrets(&mut self, now: Time) {
        let version = self.state.secrets.version();
        if self.secrets_pushed != version {
            self.secrets_pushed = version;
            self.push_secrets(now);
        }
    }

    pub(super) fn reserve_global_ids(&mut self, change: &mut Change) -> Effects {
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

    pub(super) fn rotate_secrets(&mut self, now: Time, change: &mut Change) {
        let mut secrets = self.state.secrets.clone();
        if secrets.rotate(now.wall(), &self.settings.cephx, &mut self.entropy) {
            change.put(keys::SECRETS, codec::encode_to_bytes(&secrets));
        }
    }

    pub(super) fn promote_pending_key(
        &mut self,
        name: &EntityName,
        change: &mut Change,
    ) -> Effects {
        if let Some(mut entity) = self.state.entities.get(name).cloned()
            && let Some(key) = entity.pending_key.take()
        {
            entity.key = key;
            change.put(keys::auth(name), codec::encode_to_bytes(&entity));
        }
        Effects::default()
    }

    /// Renews tickets.
    pub(super) fn renew(&mut self, now: Time, conn: ConnId, request: Auth) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let mut reply = AuthReply {
            protocol: request.protocol,
            global_id: session.peer().participant.number as u64,
            ..AuthReply::default()
        };
        if let Some(server) = &mut session.cephx {
            let context = ServerContext {
                now: now.wall(),
                keys: &self.state.entities,
                secrets: &self.state.secrets,
                policy: &self.settings.cephx,
                entropy: &mut self.entropy,
            };
            match server.handle_request(context, &request.payload, None) {
                Ok(answer) => reply.payload = answer.payload.into(),
                Err(error) => {
                    tracing::debug!(%error, name = %server.name(), "renewal refused");
                    reply.result = error.errno().negative();
                }
            }
        } else if request.protocol != 1 {
            reply.result = Errno::NOTSUPP.negative();
        }
        let features = self.sessions.features(conn);
        self.send(conn, reply.encode(features));
    }

    pub(super) fn take_secrets_request(
        &mut self,
        now: Time,
        conn: ConnId,
        request: RotatingSecretsRequest,
    ) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        // An entity with a service's secrets can impersonate any client towards it.
        let service = types::EntityType(u8::try_from(request.service).unwrap_or_default());
        let is_own =
            session.peer().participant.kind == service && session.peer().name.kind == service;
        if session.is_trusted() || is_own && session.may("osd", Rwx::EXECUTE) {
            session.secrets_for = Some(service);
            self.send_secrets(now, conn);
        }
    }

    /// Sends the rotating secrets to the services that requested them.
    fn push_secrets(&mut self, now: Time) {
        let conns: Vec<ConnId> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.secrets_for.is_some())
            .map(|(conn, _)| conn)
            .collect();
        for conn in conns {
            self.send_secrets(now, conn);
        }
    }

    /// Sends a service its rotating secrets, sealed if the session is by cephx.
    fn send_secrets(&mut self, now: Time, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(service) = session.secrets_for else { return };
        let message = match &mut session.cephx {
            // Sealed as Ceph does it: an eavesdropper could impersonate any client.
            Some(server) => {
                let context = ServerContext {
                    now: now.wall(),
                    keys: &self.state.entities,
                    secrets: &self.state.secrets,
                    policy: &self.settings.cephx,
                    entropy: &mut self.entropy,
                };
                let asked = RequestType::RotatingKey.number().to_le_bytes();
                match server.handle_request(context, &asked, None) {
                    Ok(sealed) => {
                        let payload = sealed.payload.into();
                        AuthReply { payload, ..AuthReply::default() }
                            .encode(session.peer().features)
                    }
                    Err(error) => return tracing::warn!(%error, "secrets cannot be sealed"),
                }
            }
            None => {
                let Some(secrets) = self.state.secrets.service(service) else { return };
                let secrets = codec::encode_to_bytes(secrets);
                let message = RotatingSecrets { service: service.0.into(), secrets };
                message.encode(session.peer().features)
            }
        };
        self.send(conn, message);
    }
}
