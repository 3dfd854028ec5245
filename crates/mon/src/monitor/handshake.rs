//! Authentication of connecting peers, and of this monitor to the one that leads.
//!
//! A first payload of mode "monitor" starts the exchange in which a client proves its key; one of mode
//! "authorizer" presents a ticket for the manager, which this process stands in for.
//!
//! All monitors have the rotating secrets of their own service, so a monitor seals a ticket for itself. No
//! other entity can have a ticket in the name of a monitor.

use super::{AuthMode, Monitor, Settings};
use crate::job::Job;
use crate::sessions::Caps;
use auth::{
    AcceptFailure, Acceptance, Accepted, Acceptor, Authorizer, CephxServer, Connector, Identity,
    METHOD_CEPHX, METHOD_NONE, MODE_CRC, MODE_SECURE, MonAuthRequest, Presentation,
    RotatingSecrets, ServerContext, Towards, connection_secret_length,
};
use bytes::Bytes;
use codec::Reader;
use engine::{AuthRequest, AuthVerdict, ConnId, ConnectingAnswer, ConnectingStep, Time};
use std::time::Duration;
use types::{EntityName, EntityType, Errno};

/// First bytes of payloads for services; those for monitors are greater.
const AUTHORIZER_MODE_MAX: u8 = 9;
/// Time in which a peer must authenticate.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Both sides of authentication by tickets.
#[derive(Debug)]
pub(super) struct Authentication {
    acceptor: Acceptor,
    connector: Connector,
}

impl Authentication {
    pub fn new(settings: &Settings) -> Self {
        let name = EntityName::new(EntityType::MON, &settings.mon_name);
        let (method, connector) = match settings.auth {
            // Secure mode first: the keys of clients pass through the session with the leader.
            AuthMode::Cephx => {
                let modes = vec![MODE_SECURE, MODE_CRC];
                (METHOD_CEPHX, Connector::new(Identity::Peer { name }, modes))
            }
            AuthMode::None => {
                let identity = Identity::Asserted { name, keeps_global_id: false };
                (METHOD_NONE, Connector::new(identity, vec![MODE_CRC]))
            }
        };
        let acceptor = Acceptor::new(method, settings.connection_modes.clone());
        Authentication { acceptor, connector }
    }

    /// Drops the proof of a session with the leader that has ended.
    pub fn forget(&mut self, conn: ConnId) {
        self.connector.forget(conn);
    }
}

/// The state of a peer's authentication.
#[derive(Debug)]
pub(super) struct Handshake {
    started: Time,
    mode: u32,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Cephx(CephxServer),
    /// The peer presents a ticket.
    Authorizer(Presentation),
    /// Authenticated; the session is about to open.
    Done(Option<CephxServer>),
    /// Waits for the reservation of global ids. A client that is about to prove its key keeps its state.
    AwaitsGlobalId(Option<CephxServer>, AuthRequest),
}

impl Handshake {
    /// The cephx state of a completed handshake, for the renewal of tickets.
    pub fn into_cephx(self) -> Option<CephxServer> {
        match self.step {
            Step::Done(cephx) => cephx,
            _ => None,
        }
    }
}

/// Why a peer is not admitted.
#[derive(Debug)]
struct Refused(Errno);

impl Monitor {
    /// Handles one step of a peer's authentication.
    pub(super) fn authenticate(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        let outcome = match request {
            AuthRequest::Start { method, ref preferred_modes, ref payload, .. } => {
                match self.authentication.acceptor.choose_mode(method, preferred_modes) {
                    Err(failure) => Err(Refused(failure.errno())),
                    Ok(mode) => {
                        let payload = payload.clone();
                        self.start(now, conn, mode, &payload, request)
                    }
                }
            }
            AuthRequest::More { payload } => self.proceed(now, conn, &payload),
        };
        match outcome {
            Ok(Some(verdict)) => self.verdict(conn, verdict),
            Ok(None) => {}
            Err(Refused(errno)) => {
                self.handshakes.remove(&conn);
                self.verdict(conn, self.authentication.acceptor.refuse(errno));
            }
        }
    }

    fn start(
        &mut self,
        now: Time,
        conn: ConnId,
        mode: u32,
        payload: &Bytes,
        request: AuthRequest,
    ) -> Result<Option<AuthVerdict>, Refused> {
        let is_authorizer = payload.first().is_some_and(|first| *first <= AUTHORIZER_MODE_MAX);
        if is_authorizer {
            let (verdict, step) = self.begin_authorizer(now, mode, payload)?;
            self.handshakes.insert(conn, Handshake { started: now, mode, step });
            return Ok(Some(verdict));
        }
        let asked: MonAuthRequest =
            Reader::new(payload).value().map_err(|_| Refused(Errno::INVAL))?;
        if self.settings.auth == AuthMode::None {
            let Some(global_id) = self.global_id_for(asked.global_id) else {
                let step = Step::AwaitsGlobalId(None, request);
                self.handshakes.insert(conn, Handshake { started: now, mode, step });
                return Ok(None);
            };
            return Ok(Some(self.believe(now, conn, asked.name, global_id)));
        }
        // An id is assigned only after the proof: reservations are writes.
        let is_new = asked.global_id == 0;
        let (server, challenge) =
            CephxServer::start(asked.name, asked.global_id, is_new, &mut self.entropy);
        let step = Step::Cephx(server);
        self.handshakes.insert(conn, Handshake { started: now, mode, step });
        Ok(Some(AuthVerdict::More { payload: challenge.into() }))
    }

    /// The id that a client asks to keep, or a new one if one is left.
    fn global_id_for(&mut self, asked: u64) -> Option<u64> {
        if asked != 0 { Some(asked) } else { self.global_ids.next() }
    }

    fn proceed(
        &mut self,
        now: Time,
        conn: ConnId,
        payload: &[u8],
    ) -> Result<Option<AuthVerdict>, Refused> {
        let handshake = self.handshakes.remove(&conn).ok_or(Refused(Errno::INVAL))?;
        let Handshake { started, mode, step } = handshake;
        let (verdict, step) = match step {
            Step::Cephx(server) if server.needs_global_id() => {
                self.prove_new(now, server, mode, payload)?
            }
            Step::Cephx(server) => self.prove(now, server, mode, payload)?,
            Step::Authorizer(presentation) => {
                let (verdict, step) = self.continue_authorizer(now, presentation, payload)?;
                (Some(verdict), step)
            }
            Step::Done(_) | Step::AwaitsGlobalId(..) => return Err(Refused(Errno::INVAL)),
        };
        self.handshakes.insert(conn, Handshake { started, mode, step });
        Ok(verdict)
    }

    /// [`Monitor::prove`] for a client that is assigned an id if it succeeds.
    fn prove_new(
        &mut self,
        now: Time,
        mut server: CephxServer,
        mode: u32,
        payload: &[u8],
    ) -> Result<(Option<AuthVerdict>, Step), Refused> {
        let Some(global_id) = self.global_ids.next() else {
            let request = AuthRequest::More { payload: Bytes::copy_from_slice(payload) };
            return Ok((None, Step::AwaitsGlobalId(Some(server), request)));
        };
        server.assign_global_id(global_id);
        let outcome = self.prove(now, server, mode, payload);
        let is_proved = matches!(&outcome, Ok((_, Step::Done(_))));
        if !is_proved {
            // No client has seen the id.
            self.global_ids.start = global_id;
        }
        outcome
    }

    fn prove(
        &mut self,
        now: Time,
        mut server: CephxServer,
        mode: u32,
        payload: &[u8],
    ) -> Result<(Option<AuthVerdict>, Step), Refused> {
        let context = ServerContext {
            now: now.wall(),
            keys: &self.state.entities,
            secrets: &self.state.secrets,
            policy: &self.settings.cephx,
            entropy: &mut self.entropy,
        };
        let reply = server.handle_request(context, payload, Some(connection_secret_length(mode)));
        let reply = reply.map_err(|error| {
            tracing::debug!(%error, name = %server.name(), "authentication refused");
            Refused(error.errno())
        })?;
        let Some(authenticated) = reply.authenticated else {
            let verdict = AuthVerdict::More { payload: reply.payload.into() };
            return Ok((Some(verdict), Step::Cephx(server)));
        };
        if authenticated.used_pending_key {
            self.enqueue(Job::PromotePendingKey(server.name().clone()));
        }
        let verdict = AuthVerdict::Done {
            name: server.name().clone(),
            global_id: server.global_id(),
            mode,
            payload: reply.payload.into(),
            session_key: Bytes::copy_from_slice(authenticated.session_key.secret()),
            connection_secret: authenticated.connection_secret.into(),
            caps: Caps::encode_mon(&authenticated.mon_caps),
        };
        Ok((Some(verdict), Step::Done(Some(server))))
    }

    fn begin_authorizer(
        &mut self,
        now: Time,
        mode: u32,
        payload: &[u8],
    ) -> Result<(AuthVerdict, Step), Refused> {
        let service = match self.settings.auth {
            AuthMode::None => EntityType::MGR,
            AuthMode::Cephx => service_shown(payload)?,
        };
        let none = RotatingSecrets::default();
        let secrets = self.state.secrets.service(service).unwrap_or(&none);
        let entropy = &mut self.entropy;
        let acceptance =
            self.authentication.acceptor.begin(now, service, mode, payload, secrets, entropy);
        authorized(service, acceptance)
    }

    fn continue_authorizer(
        &mut self,
        now: Time,
        presentation: Presentation,
        payload: &[u8],
    ) -> Result<(AuthVerdict, Step), Refused> {
        let service = presentation.service();
        let none = RotatingSecrets::default();
        let secrets = self.state.secrets.service(service).unwrap_or(&none);
        authorized(service, presentation.answer(now, payload, secrets, &mut self.entropy))
    }

    fn believe(
        &mut self,
        now: Time,
        conn: ConnId,
        name: EntityName,
        global_id: u64,
    ) -> AuthVerdict {
        self.handshakes
            .insert(conn, Handshake { started: now, mode: MODE_CRC, step: Step::Done(None) });
        AuthVerdict::Done {
            name,
            global_id,
            mode: MODE_CRC,
            payload: Bytes::new(),
            session_key: Bytes::new(),
            connection_secret: Bytes::new(),
            caps: Caps::encode_mon("allow *"),
        }
    }

    /// Continues the handshakes that waited for global ids.
    pub(super) fn serve_waiting_handshakes(&mut self, now: Time) {
        let waiting = |handshake: &Handshake| matches!(handshake.step, Step::AwaitsGlobalId(..));
        let conns: Vec<ConnId> = self
            .handshakes
            .iter()
            .filter(|(_, handshake)| waiting(handshake))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in conns {
            if let Some(Handshake { started, mode, step: Step::AwaitsGlobalId(server, request) }) =
                self.handshakes.remove(&conn)
            {
                if let Some(server) = server {
                    let step = Step::Cephx(server);
                    self.handshakes.insert(conn, Handshake { started, mode, step });
                }
                self.authenticate(now, conn, request);
            }
        }
    }

    /// One step of the authentication to the leader.
    pub(super) fn prove_to_leader(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let to = Towards::Peer(self.state.secrets.service(EntityType::MON));
        let answer = self.authentication.connector.step(now, conn, to, step, &mut self.entropy);
        answer.unwrap_or_else(|reason| {
            tracing::warn!(%reason, "cannot authenticate to the monitor that leads");
            ConnectingAnswer::Refuse
        })
    }

    /// Drops handshakes that took too long.
    pub(super) fn expire_handshakes(&mut self, now: Time) {
        let expired: Vec<ConnId> = self
            .handshakes
            .iter()
            .filter(|(_, handshake)| now.since(handshake.started) > HANDSHAKE_TIMEOUT)
            .map(|(conn, _)| *conn)
            .collect();
        for conn in expired {
            self.handshakes.remove(&conn);
            self.outputs.push_back(engine::Output::Close { conn });
        }
    }
}

/// Verdict on a payload of a peer that shows a ticket for the service, and the next step.
fn authorized(
    service: EntityType,
    acceptance: Result<Acceptance, AcceptFailure>,
) -> Result<(AuthVerdict, Step), Refused> {
    match acceptance {
        Err(failure) => {
            tracing::debug!(%failure, "authorizer refused");
            Err(Refused(failure.errno()))
        }
        Ok(Acceptance::Challenged { payload, presentation }) => {
            Ok((AuthVerdict::More { payload }, Step::Authorizer(presentation)))
        }
        Ok(Acceptance::Accepted(peer)) if !may_enter(service, &peer) => Err(Refused(Errno::ACCES)),
        Ok(Acceptance::Accepted(peer)) => {
            let caps = Caps::encode_mgr(peer.caps.allow_all, &peer.caps.text);
            Ok((peer.verdict(caps), Step::Done(None)))
        }
    }
}

/// Clients have tickets for monitors, too, but must open a session with one by their key.
fn may_enter(service: EntityType, peer: &Accepted) -> bool {
    service != EntityType::MON || (peer.name.kind == EntityType::MON && peer.caps.allow_all)
}

/// The service of an authorizer: the manager, or the monitors.
fn service_shown(payload: &[u8]) -> Result<EntityType, Refused> {
    let shown: Authorizer = Reader::new(payload).value().map_err(|_| Refused(Errno::INVAL))?;
    match shown.service {
        service @ (EntityType::MGR | EntityType::MON) => Ok(service),
        _ => Err(Refused(Errno::ACCES)),
    }
}
