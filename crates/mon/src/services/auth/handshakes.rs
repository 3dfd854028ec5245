//! Authentication of connecting peers.
//!
//! A first payload of mode "monitor" starts the exchange in which a client proves its key; one of mode
//! "authorizer" presents a ticket for the manager, which this process stands in for.
//!
//! All monitors have the rotating secrets of their own service, so a monitor seals a ticket for itself. No
//! other entity can have a ticket in the name of a monitor.

use super::global_ids::GlobalIds;
use crate::job::{AuthJob, Job, ServiceJob};
use crate::service::{Act, Cx};
use crate::sessions::Caps;
use crate::settings::{AuthMode, Settings};
use auth::{
    AcceptFailure, Acceptance, Accepted, Acceptor, Authorizer, CephxServer, METHOD_CEPHX,
    METHOD_NONE, MODE_CRC, MonAuthRequest, Presentation, RotatingSecrets, connection_secret_length,
};
use bytes::Bytes;
use codec::Reader;
use engine::{AuthRequest, AuthVerdict, ConnId, Time};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, EntityType, Errno};

/// First bytes of payloads for services; those for monitors are greater.
const AUTHORIZER_MODE_MAX: u8 = 9;
/// Time in which a peer must authenticate.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// The peers that are about to authenticate.
#[derive(Debug)]
pub(super) struct Handshakes {
    acceptor: Acceptor,
    open: BTreeMap<ConnId, Handshake>,
}

/// The state of a peer's authentication.
#[derive(Debug)]
struct Handshake {
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

/// Why a peer is not admitted.
#[derive(Debug)]
struct Refused(Errno);

impl Handshakes {
    pub fn new(settings: &Settings) -> Self {
        let method = match settings.auth {
            AuthMode::Cephx => METHOD_CEPHX,
            AuthMode::None => METHOD_NONE,
        };
        let acceptor = Acceptor::new(method, settings.connection_modes.clone());
        Handshakes { acceptor, open: BTreeMap::new() }
    }

    /// Drops the handshake of a connection that ended.
    pub fn forget(&mut self, conn: ConnId) {
        self.open.remove(&conn);
    }

    /// Ends the handshake of a session that opens: returns its cephx state, for the renewal of tickets.
    pub fn complete(&mut self, conn: ConnId) -> Option<CephxServer> {
        match self.open.remove(&conn)?.step {
            Step::Done(cephx) => cephx,
            _ => None,
        }
    }

    /// The connections that are about to authenticate.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> {
        self.open.keys().copied()
    }

    /// Handles one step of a peer's authentication.
    pub fn step(
        &mut self,
        ids: &mut GlobalIds,
        cx: &mut Cx<'_>,
        conn: ConnId,
        request: AuthRequest,
    ) {
        let outcome = match request {
            AuthRequest::Start { method, ref preferred_modes, ref payload, .. } => {
                match self.acceptor.choose_mode(method, preferred_modes) {
                    Err(failure) => Err(Refused(failure.errno())),
                    Ok(mode) => {
                        let payload = payload.clone();
                        self.start(ids, cx, conn, mode, &payload, request)
                    }
                }
            }
            AuthRequest::More { payload } => self.proceed(ids, cx, conn, &payload),
        };
        match outcome {
            Ok(Some(verdict)) => cx.out.push_back(Act::Auth(conn, verdict)),
            Ok(None) => {}
            Err(Refused(errno)) => {
                self.open.remove(&conn);
                cx.out.push_back(Act::Auth(conn, self.acceptor.refuse(errno)));
            }
        }
    }

    fn insert(&mut self, now: Time, conn: ConnId, mode: u32, step: Step) {
        self.open.insert(conn, Handshake { started: now, mode, step });
    }

    fn start(
        &mut self,
        ids: &mut GlobalIds,
        cx: &mut Cx<'_>,
        conn: ConnId,
        mode: u32,
        payload: &Bytes,
        request: AuthRequest,
    ) -> Result<Option<AuthVerdict>, Refused> {
        let is_authorizer = payload.first().is_some_and(|first| *first <= AUTHORIZER_MODE_MAX);
        if is_authorizer {
            let (verdict, step) = self.begin_authorizer(cx, mode, payload)?;
            self.insert(cx.now, conn, mode, step);
            return Ok(Some(verdict));
        }
        let asked: MonAuthRequest =
            Reader::new(payload).value().map_err(|_| Refused(Errno::INVAL))?;
        if cx.settings.auth == AuthMode::None {
            // The id that a client asks to keep, or a new one if one is left.
            let kept = Some(asked.global_id).filter(|id| *id != 0);
            let Some(global_id) = kept.or_else(|| ids.next()) else {
                self.insert(cx.now, conn, mode, Step::AwaitsGlobalId(None, request));
                return Ok(None);
            };
            self.insert(cx.now, conn, MODE_CRC, Step::Done(None));
            return Ok(Some(believed(asked.name, global_id)));
        }
        // An id is assigned only after the proof: reservations are writes.
        let is_new = asked.global_id == 0;
        let (server, challenge) =
            CephxServer::start(asked.name, asked.global_id, is_new, cx.entropy);
        self.insert(cx.now, conn, mode, Step::Cephx(server));
        Ok(Some(AuthVerdict::More { payload: challenge.into() }))
    }

    fn proceed(
        &mut self,
        ids: &mut GlobalIds,
        cx: &mut Cx<'_>,
        conn: ConnId,
        payload: &[u8],
    ) -> Result<Option<AuthVerdict>, Refused> {
        let handshake = self.open.remove(&conn).ok_or(Refused(Errno::INVAL))?;
        let Handshake { started, mode, step } = handshake;
        let (verdict, step) = match step {
            Step::Cephx(server) if server.needs_global_id() => {
                prove_new(ids, cx, server, mode, payload)?
            }
            Step::Cephx(server) => prove(cx, server, mode, payload)?,
            Step::Authorizer(presentation) => {
                let (verdict, step) = continue_authorizer(cx, presentation, payload)?;
                (Some(verdict), step)
            }
            Step::Done(_) | Step::AwaitsGlobalId(..) => return Err(Refused(Errno::INVAL)),
        };
        self.open.insert(conn, Handshake { started, mode, step });
        Ok(verdict)
    }

    fn begin_authorizer(
        &self,
        cx: &mut Cx<'_>,
        mode: u32,
        payload: &[u8],
    ) -> Result<(AuthVerdict, Step), Refused> {
        let service = match cx.settings.auth {
            AuthMode::None => EntityType::MGR,
            AuthMode::Cephx => service_shown(payload)?,
        };
        let none = RotatingSecrets::default();
        let secrets = cx.state.secrets.service(service).unwrap_or(&none);
        let acceptance = self.acceptor.begin(cx.now, service, mode, payload, secrets, cx.entropy);
        authorized(service, acceptance)
    }

    /// Continues the handshakes that waited for global ids.
    pub fn resume(&mut self, ids: &mut GlobalIds, cx: &mut Cx<'_>) {
        let waiting = |handshake: &Handshake| matches!(handshake.step, Step::AwaitsGlobalId(..));
        let waiting = self.open.iter().filter(|(_, handshake)| waiting(handshake));
        let conns: Vec<ConnId> = waiting.map(|(conn, _)| *conn).collect();
        for conn in conns {
            if let Some(Handshake { started, mode, step: Step::AwaitsGlobalId(server, request) }) =
                self.open.remove(&conn)
            {
                if let Some(server) = server {
                    let step = Step::Cephx(server);
                    self.open.insert(conn, Handshake { started, mode, step });
                }
                self.step(ids, cx, conn, request);
            }
        }
    }

    /// Drops handshakes that took too long.
    pub fn expire(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_late = |handshake: &Handshake| now.since(handshake.started) > HANDSHAKE_TIMEOUT;
        let expired = self.open.iter().filter(|(_, handshake)| is_late(handshake));
        let expired: Vec<ConnId> = expired.map(|(conn, _)| *conn).collect();
        for conn in expired {
            self.open.remove(&conn);
            cx.close(conn);
        }
    }
}

/// Admits a client by its name alone.
fn believed(name: EntityName, global_id: u64) -> AuthVerdict {
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

/// [`prove`] for a client that is assigned an id if it succeeds.
fn prove_new(
    ids: &mut GlobalIds,
    cx: &mut Cx<'_>,
    mut server: CephxServer,
    mode: u32,
    payload: &[u8],
) -> Result<(Option<AuthVerdict>, Step), Refused> {
    let Some(global_id) = ids.next() else {
        let request = AuthRequest::More { payload: Bytes::copy_from_slice(payload) };
        return Ok((None, Step::AwaitsGlobalId(Some(server), request)));
    };
    server.assign_global_id(global_id);
    let outcome = prove(cx, server, mode, payload);
    let is_proved = matches!(&outcome, Ok((_, Step::Done(_))));
    if !is_proved {
        // No client has seen the id.
        ids.give_back(global_id);
    }
    outcome
}

fn prove(
    cx: &mut Cx<'_>,
    mut server: CephxServer,
    mode: u32,
    payload: &[u8],
) -> Result<(Option<AuthVerdict>, Step), Refused> {
    let secret_length = Some(connection_secret_length(mode));
    let reply = server.handle_request(cx.cephx(), payload, secret_length);
    let reply = reply.map_err(|error| {
        tracing::debug!(%error, name = %server.name(), "authentication refused");
        Refused(error.errno())
    })?;
    let Some(authenticated) = reply.authenticated else {
        let verdict = AuthVerdict::More { payload: reply.payload.into() };
        return Ok((Some(verdict), Step::Cephx(server)));
    };
    let known = cx.state.entities.get(server.name());
    if authenticated.used_pending_key
        && let Some(proved) = known.and_then(|entity| entity.pending_key.clone())
    {
        let job = AuthJob::PromotePendingKey(server.name().clone(), proved);
        cx.enqueue(Job::Of(ServiceJob::Auth(job)));
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

fn continue_authorizer(
    cx: &mut Cx<'_>,
    presentation: Presentation,
    payload: &[u8],
) -> Result<(AuthVerdict, Step), Refused> {
    let service = presentation.service();
    let none = RotatingSecrets::default();
    let secrets = cx.state.secrets.service(service).unwrap_or(&none);
    authorized(service, presentation.answer(cx.now, payload, secrets, cx.entropy))
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
