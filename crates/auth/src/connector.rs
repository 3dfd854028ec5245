//! Outgoing authentication: proves an entity to its peers, in all sessions that it opens.
//!
//! A daemon or client owns one [`Connector`] and passes it each [`ConnectingStep`] of its sessions:
//!
//! ```text
//! Begin              -> Start    AUTH_REQUEST with a method, modes and the first payload
//! More               -> More     any number of times
//! Done               -> Finish   keys of the connection
//! BadMethod          -> an error
//! ```
//!
//! After an error the daemon refuses the session. The proof of a session lasts from `Begin` to `Done`, an
//! error or [`Connector::forget`], so there are never more of them than sessions that are being opened.
//! Sessions and timers stay with the owner: it sends the requests of [`Connector::renewal`].

use crate::{
    CephxClient, ClientAuthorizer, ClientError, CryptoKey, Entropy, METHOD_CEPHX, METHOD_NONE,
    MonAuthRequest, NoneAuthorizer, RotatingSecrets,
};
use bytes::Bytes;
use codec::Encode;
use engine::{ConnId, ConnectingAnswer, ConnectingStep, Time};
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Errno, UTime};

/// The entity that opens sessions, and what it can show for its name.
#[derive(Debug)]
pub enum Identity {
    /// An entity that proves its key to monitors, and keeps and renews tickets for services.
    Key(Box<CephxClient>),
    /// A daemon: proves its key to monitors, and seals tickets for daemons of its own kind. It keeps none.
    Daemon {
        /// The daemon's name; its kind is the service that its peers belong to.
        name: EntityName,
        /// Absent where the daemon needs none: no session with a monitor can be opened then.
        key: Option<CryptoKey>,
    },
    /// A daemon without a key of its own, which only seals tickets for daemons of its own kind: a monitor.
    Peer {
        /// The daemon's name; its kind is the service that its peers belong to.
        name: EntityName,
    },
    /// Method none: names are believed.
    Asserted {
        /// The name that is asserted.
        name: EntityName,
        /// True for clients, which repeat the global id that a monitor assigned. Daemons show none.
        keeps_global_id: bool,
    },
}

/// The peer of a session that is being opened.
#[derive(Debug, Clone, Copy)]
pub enum Towards<'a> {
    /// A monitor, to which the entity proves its key.
    Monitor,
    /// A service of that kind, for which the entity must have a ticket.
    Service(EntityType),
    /// A daemon of the entity's own kind, with the rotating secrets of both, once they are known.
    Peer(Option<&'a RotatingSecrets>),
}

/// Reason why a session cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectFailure {
    /// A reply of the peer is not acceptable, or there is no valid ticket to show.
    #[error("authentication failed: {0}")]
    Cephx(#[from] ClientError),
    /// The entity needs a key towards a monitor and has none.
    #[error("authentication failed: there is no key; its keyring was not there at the start")]
    NoKey,
    /// The rotating secrets are not known yet.
    #[error("authentication failed: there are no rotating secrets to seal a ticket with yet")]
    NoSecrets,
    /// A step other than the first, without a first one.
    #[error("authentication failed: no session {0:?} is being opened")]
    NotBegun(ConnId),
    /// The peer challenges a proof that has no second step.
    #[error("authentication failed: the peer asks for more although the method has no more")]
    Unexpected,
    /// AUTH_BAD_METHOD
    #[error("the cluster refuses the key or the name: {0}")]
    Refused(Errno),
}

/// A proof in progress.
#[derive(Debug)]
enum Proof {
    /// The shared state of [`Identity::Key`] is being proven to a monitor.
    Client,
    Daemon(Box<CephxClient>),
    Ticket(Box<ClientAuthorizer>),
    Asserted,
}

/// The proofs of all sessions that one entity opens.
#[derive(Debug)]
pub struct Connector {
    identity: Identity,
    modes: Vec<u32>,
    global_id: u64,
    open: BTreeMap<ConnId, Proof>,
}

impl Connector {
    /// `modes` are connection modes (`MODE_*`), the preferred one first.
    pub fn new(identity: Identity, modes: Vec<u32>) -> Self {
        Connector { identity, modes, global_id: 0, open: BTreeMap::new() }
    }

    /// The global id that a monitor assigned; 0 before, and always for daemons.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// Performs one step of authenticating to a peer.
    ///
    /// # Errors
    ///
    /// The reason why the session must be refused. Its proof is forgotten.
    pub fn step(
        &mut self,
        now: Time,
        conn: ConnId,
        to: Towards<'_>,
        step: ConnectingStep,
        entropy: &mut Entropy,
    ) -> Result<ConnectingAnswer, ConnectFailure> {
        match step {
            ConnectingStep::Begin => self.begin(now, conn, to, entropy),
            ConnectingStep::More { payload } => self.proceed(conn, &payload, entropy),
            ConnectingStep::Done { global_id, payload } => {
                self.finish(now, conn, global_id, &payload)
            }
            ConnectingStep::BadMethod { result } => {
                self.forget(conn);
                Err(ConnectFailure::Refused(Errno(result.saturating_neg())))
            }
        }
    }

    /// Drops the proof of a session that ended while it was being opened.
    pub fn forget(&mut self, conn: ConnId) {
        self.open.remove(&conn);
    }

    /// Protocol and payload of an `MAuth` message, if tickets are due for renewal. The owner sends it to a
    /// monitor, again after a while without a reply.
    pub fn renewal(&mut self, now: Time, entropy: &mut Entropy) -> Option<(u32, Bytes)> {
        let Identity::Key(client) = &mut self.identity else { return None };
        let request = client.renewal_request(now.wall(), entropy).ok().flatten()?;
        Some((METHOD_CEPHX, request.into()))
    }

    /// Takes the tickets of a monitor's `MAuthReply`. The caller then calls [`Connector::renewal`] again: a
    /// new auth ticket may have to be followed by requests for service tickets.
    ///
    /// # Errors
    ///
    /// The monitor refused, or its reply cannot be opened; the tickets stay as they were.
    pub fn handle_renewal(&mut self, now: Time, payload: &[u8]) -> Result<(), ClientError> {
        match &mut self.identity {
            Identity::Key(client) => client.handle_renewal(now.wall(), payload),
            _ => Ok(()),
        }
    }

    /// Time at which [`Connector::renewal`] next returns a request.
    pub fn next_renewal(&self) -> Option<Time> {
        let Identity::Key(client) = &self.identity else { return None };
        client.next_renewal().map(|at| Time(UTime::as_nanos(at)))
    }

    /// Opens the rotating secrets of a daemon's service, which a monitor sealed with the daemon's key. A
    /// daemon that keeps its global id is an [`Identity::Key`].
    ///
    /// # Errors
    ///
    /// [`ConnectFailure::NoKey`] if the entity has none, else the secrets cannot be opened with it.
    pub fn open_rotating(&self, sealed: &[u8]) -> Result<RotatingSecrets, ConnectFailure> {
        match &self.identity {
            Identity::Key(client) => Ok(client.handle_rotating(sealed)?),
            Identity::Daemon { name, key: Some(key) } => {
                Ok(CephxClient::new(name.clone(), key.clone(), &[]).handle_rotating(sealed)?)
            }
            _ => Err(ConnectFailure::NoKey),
        }
    }

    /// # Panics
    ///
    /// If the state contradicts itself: proofs that the identity cannot have begun.
    pub fn check_invariants(&self) {
        let is_possible = |proof: &Proof| match proof {
            Proof::Client => matches!(self.identity, Identity::Key(_)),
            Proof::Daemon(_) => matches!(self.identity, Identity::Daemon { key: Some(_), .. }),
            Proof::Ticket(_) => !matches!(self.identity, Identity::Asserted { .. }),
            Proof::Asserted => matches!(self.identity, Identity::Asserted { .. }),
        };
        assert!(self.open.values().all(is_possible), "a proof is not one of its identity");
        assert!(self.global_id == 0 || self.keeps_global_id(), "a daemon keeps a global id");
    }

    fn begin(
        &mut self,
        now: Time,
        conn: ConnId,
        to: Towards<'_>,
        entropy: &mut Entropy,
    ) -> Result<ConnectingAnswer, ConnectFailure> {
        self.forget(conn);
        let (proof, payload) = self.first_payload(now, to, entropy)?;
        self.open.insert(conn, proof);
        let method = match self.identity {
            Identity::Asserted { .. } => METHOD_NONE,
            _ => METHOD_CEPHX,
        };
        Ok(ConnectingAnswer::Start { method, preferred_modes: self.modes.clone(), payload })
    }

    fn first_payload(
        &mut self,
        now: Time,
        to: Towards<'_>,
        entropy: &mut Entropy,
    ) -> Result<(Proof, Bytes), ConnectFailure> {
        match (&mut self.identity, to) {
            (Identity::Asserted { name, .. }, _) => {
                Ok((Proof::Asserted, asserted(name.clone(), self.global_id, to)))
            }
            (Identity::Key(client), Towards::Monitor) => {
                Ok((Proof::Client, client.initial_request().into()))
            }
            (Identity::Daemon { name, key }, Towards::Monitor) => {
                let key = key.clone().ok_or(ConnectFailure::NoKey)?;
                let mut client = CephxClient::new(name.clone(), key, &[]);
                let payload = client.initial_request().into();
                Ok((Proof::Daemon(Box::new(client)), payload))
            }
            (Identity::Peer { .. }, Towards::Monitor) => Err(ConnectFailure::NoKey),
            (Identity::Key(client), Towards::Service(service)) => {
                Ok(presented(client.authorizer(service, entropy)?))
            }
            (_, Towards::Service(service)) => Err(ClientError::NoTicket(service).into()),
            (identity, Towards::Peer(secrets)) => {
                let secrets = secrets.ok_or(ConnectFailure::NoSecrets)?;
                let (name, wall) = (identity.name().clone(), now.wall());
                Ok(presented(ClientAuthorizer::among_peers(name, wall, secrets, entropy)?))
            }
        }
    }

    fn proceed(
        &mut self,
        conn: ConnId,
        payload: &[u8],
        entropy: &mut Entropy,
    ) -> Result<ConnectingAnswer, ConnectFailure> {
        let mut proof = self.open.remove(&conn).ok_or(ConnectFailure::NotBegun(conn))?;
        let answer = match (&mut proof, &mut self.identity) {
            (Proof::Client, Identity::Key(client)) => client.handle_challenge(payload, entropy)?,
            (Proof::Daemon(client), _) => client.handle_challenge(payload, entropy)?,
            (Proof::Ticket(authorizer), _) => authorizer.handle_challenge(payload, entropy)?,
            (Proof::Client | Proof::Asserted, _) => return Err(ConnectFailure::Unexpected),
        };
        self.open.insert(conn, proof);
        Ok(ConnectingAnswer::More { payload: answer.into() })
    }

    fn finish(
        &mut self,
        now: Time,
        conn: ConnId,
        global_id: u64,
        payload: &[u8],
    ) -> Result<ConnectingAnswer, ConnectFailure> {
        let proof = self.open.remove(&conn).ok_or(ConnectFailure::NotBegun(conn))?;
        let (key, connection_secret) = match (proof, &mut self.identity) {
            (Proof::Client, Identity::Key(client)) => {
                let session = client.handle_done(now.wall(), global_id, payload)?;
                self.global_id = global_id;
                (session.session_key, session.connection_secret)
            }
            (Proof::Daemon(mut client), _) => {
                let session = client.handle_done(now.wall(), global_id, payload)?;
                (session.session_key, session.connection_secret)
            }
            (Proof::Ticket(authorizer), _) => {
                let connection_secret = authorizer.handle_done(payload)?;
                (authorizer.session_key().clone(), connection_secret)
            }
            (Proof::Client | Proof::Asserted, _) => {
                // Monitors assign the id; services may repeat it or not.
                if global_id != 0 && self.keeps_global_id() {
                    self.global_id = global_id;
                }
                (CryptoKey::default(), Vec::new())
            }
        };
        Ok(ConnectingAnswer::Finish {
            session_key: Bytes::copy_from_slice(key.secret()),
            connection_secret: connection_secret.into(),
        })
    }

    fn keeps_global_id(&self) -> bool {
        matches!(self.identity, Identity::Key(_) | Identity::Asserted { keeps_global_id: true, .. })
    }
}

impl Identity {
    fn name(&self) -> &EntityName {
        match self {
            Identity::Key(client) => client.name(),
            Identity::Daemon { name, .. }
            | Identity::Peer { name }
            | Identity::Asserted { name, .. } => name,
        }
    }
}

fn asserted(name: EntityName, global_id: u64, to: Towards<'_>) -> Bytes {
    let encoded = |value: &dyn Encode| codec::encode_to_bytes(value);
    match to {
        Towards::Monitor => encoded(&MonAuthRequest { name, global_id }),
        Towards::Service(_) | Towards::Peer(_) => encoded(&NoneAuthorizer { name, global_id }),
    }
}

fn presented(authorizer: ClientAuthorizer) -> (Proof, Bytes) {
    let payload = Bytes::copy_from_slice(authorizer.payload());
    (Proof::Ticket(Box::new(authorizer)), payload)
}

#[cfg(test)]
mod tests;
