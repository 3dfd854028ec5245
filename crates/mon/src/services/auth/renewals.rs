//! Renewal of tickets, and publication of rotating secrets to services, in open sessions.

use crate::service::Cx;
use auth::{CephxServer, RequestType, Rwx};
use engine::{ConnId, Message};
use std::collections::BTreeMap;
use types::{EntityType, Errno};
use wire::internal::{RotatingSecrets, RotatingSecretsRequest};
use wire::{Auth, AuthReply, MessageBody};

/// The sessions that renew tickets, and those that follow the secrets of a service.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// None for sessions by authorizer, or without cephx.
    cephx: BTreeMap<ConnId, CephxServer>,
    /// The services whose rotating secrets sessions are sent when they change.
    followed: BTreeMap<ConnId, EntityType>,
    /// The key rotation that was last sent.
    sent_version: u64,
}

impl Renewals {
    /// Adds a session, with the state of its authentication.
    pub fn opened(&mut self, conn: ConnId, cephx: Option<CephxServer>) {
        self.closed(conn);
        self.cephx.extend(cephx.map(|cephx| (conn, cephx)));
    }

    /// Removes a session.
    pub fn closed(&mut self, conn: ConnId) {
        self.cephx.remove(&conn);
        self.followed.remove(&conn);
    }

    /// The sessions that it knows.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> {
        self.cephx.keys().chain(self.followed.keys()).copied()
    }

    /// Renews tickets.
    pub fn renew(&mut self, cx: &mut Cx<'_>, conn: ConnId, request: &Auth) {
        let Some(session) = cx.sessions.get(conn) else { return };
        let mut reply = AuthReply {
            protocol: request.protocol,
            global_id: session.peer().participant.number as u64,
            ..AuthReply::default()
        };
        if let Some(server) = self.cephx.get_mut(&conn) {
            match server.handle_request(cx.cephx(), &request.payload, None) {
                Ok(answer) => reply.payload = answer.payload.into(),
                Err(error) => {
                    tracing::debug!(%error, name = %server.name(), "renewal refused");
                    reply.result = error.errno().negative();
                }
            }
        } else if request.protocol != 1 {
            reply.result = Errno::NOTSUPP.negative();
        }
        cx.reply(conn, |features| reply.encode(features));
    }

    /// Sends a service its secrets from now on, if it may have them.
    pub fn follow(&mut self, cx: &mut Cx<'_>, conn: ConnId, request: &RotatingSecretsRequest) {
        let Some(session) = cx.sessions.get(conn) else { return };
        // An entity with a service's secrets can impersonate any client towards it.
        let service = EntityType(u8::try_from(request.service).unwrap_or_default());
        let is_own =
            session.peer().participant.kind == service && session.peer().name.kind == service;
        if session.is_trusted() || is_own && session.may(service.name(), Rwx::EXECUTE) {
            self.followed.insert(conn, service);
            self.send(cx, conn, service);
        }
    }

    /// Sends the rotating secrets to the services that follow them, if they have changed.
    pub fn publish(&mut self, cx: &mut Cx<'_>) {
        let version = cx.state.secrets.version();
        if self.sent_version != version {
            self.sent_version = version;
            let followed: Vec<_> =
                self.followed.iter().map(|(conn, service)| (*conn, *service)).collect();
            followed.into_iter().for_each(|(conn, service)| self.send(cx, conn, service));
        }
    }

    /// Sends a service its rotating secrets.
    fn send(&mut self, cx: &mut Cx<'_>, conn: ConnId, service: EntityType) {
        let message = match self.cephx.get_mut(&conn) {
            Some(server) => sealed(cx, server, conn),
            None => open(cx, service, conn),
        };
        message.into_iter().for_each(|message| cx.send(conn, message));
    }
}

/// Sealed as Ceph does it: an eavesdropper could impersonate any client.
fn sealed(cx: &mut Cx<'_>, server: &mut CephxServer, conn: ConnId) -> Option<Message> {
    let asked = RequestType::RotatingKey.number().to_le_bytes();
    match server.handle_request(cx.cephx(), &asked, None) {
        Ok(sealed) => {
            let reply = AuthReply { payload: sealed.payload.into(), ..AuthReply::default() };
            Some(reply.encode(cx.sessions.features(conn)))
        }
        Err(error) => {
            tracing::warn!(%error, "secrets cannot be sealed");
            None
        }
    }
}

/// For sessions without cephx.
fn open(cx: &Cx<'_>, service: EntityType, conn: ConnId) -> Option<Message> {
    let secrets = codec::encode_to_bytes(cx.state.secrets.service(service)?);
    let message = RotatingSecrets { service: service.0.into(), secrets };
    Some(message.encode(cx.sessions.features(conn)))
}
