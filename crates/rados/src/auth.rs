//! The connecting side of authentication, to monitors and to OSDs.

use crate::{Config, Credentials};
use ::auth::{
    CephxClient, ClientAuthorizer, ClientError, Entropy, METHOD_CEPHX, METHOD_NONE, MODE_CRC,
    MODE_SECURE, MonAuthRequest, NoneAuthorizer,
};
use bytes::Bytes;
use engine::{ConnId, ConnectingAnswer, Time};
use std::collections::BTreeMap;
use thiserror::Error;
use types::{EntityType, Errno, UTime};

/// Reason why a session cannot be authenticated; the host closes it.
#[derive(Debug, Error)]
pub enum AuthFailure {
    #[error("authentication failed: no session {0:?} is being opened")]
    UnknownSession(ConnId),
    #[error("authentication failed: {0}")]
    Cephx(#[from] ClientError),
    #[error("authentication failed: the peer asks for more although the method has no more")]
    Unexpected,
    /// AUTH_BAD_METHOD
    #[error("the cluster refuses the key or the name: {0}")]
    Refused(Errno),
}

/// A handshake in progress.
#[derive(Debug)]
enum Handshake {
    Monitor,
    Service(Box<ClientAuthorizer>),
    None,
}

#[derive(Debug)]
pub(crate) struct Authenticator {
    config: Config,
    entropy: Entropy,
    cephx: Option<CephxClient>,
    global_id: u64,
    handshakes: BTreeMap<ConnId, Handshake>,
}

impl Authenticator {
    pub fn new(config: Config, entropy: Entropy) -> Self {
        let wanted = [EntityType::MON, EntityType::OSD, EntityType::MGR];
        let cephx = match &config.credentials {
            Credentials::Key(key) => {
                Some(CephxClient::new(config.name.clone(), key.clone(), &wanted))
            }
            Credentials::None => None,
        };
        Authenticator { config, entropy, cephx, global_id: 0, handshakes: BTreeMap::new() }
    }

    /// The global id that the monitor assigned; 0 before.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    pub fn begin(
        &mut self,
        conn: ConnId,
        service: EntityType,
    ) -> Result<ConnectingAnswer, AuthFailure> {
        let (handshake, payload) = match (&mut self.cephx, service) {
            (Some(cephx), EntityType::MON) => (Handshake::Monitor, cephx.initial_request()),
            (Some(cephx), _) => {
                let authorizer = cephx.authorizer(service, &mut self.entropy)?;
                let payload = authorizer.payload().to_vec();
                (Handshake::Service(Box::new(authorizer)), payload)
            }
            (None, _) => (Handshake::None, self.asserted_name(service)),
        };
        self.handshakes.insert(conn, handshake);
        let method = if self.cephx.is_some() { METHOD_CEPHX } else { METHOD_NONE };
        let preferred_modes = match self.config.prefers_secure {
            true => vec![MODE_SECURE, MODE_CRC],
            false => vec![MODE_CRC, MODE_SECURE],
        };
        Ok(ConnectingAnswer::Start { method, preferred_modes, payload: payload.into() })
    }

    fn asserted_name(&self, service: EntityType) -> Vec<u8> {
        let (name, global_id) = (self.config.name.clone(), self.global_id);
        let payload = match service {
            EntityType::MON => codec::encode_to_bytes(&MonAuthRequest { name, global_id }),
            _ => codec::encode_to_bytes(&NoneAuthorizer { name, global_id }),
        };
        payload.to_vec()
    }

    pub fn proceed(
        &mut self,
        conn: ConnId,
        payload: &[u8],
    ) -> Result<ConnectingAnswer, AuthFailure> {
        let handshake = self.handshakes.get_mut(&conn).ok_or(AuthFailure::UnknownSession(conn))?;
        let answer = match (handshake, &mut self.cephx) {
            (Handshake::Monitor, Some(cephx)) => {
                cephx.handle_challenge(payload, &mut self.entropy)?
            }
            (Handshake::Service(authorizer), _) => {
                authorizer.handle_challenge(payload, &mut self.entropy)?
            }
            _ => return Err(AuthFailure::Unexpected),
        };
        Ok(ConnectingAnswer::More { payload: answer.into() })
    }

    pub fn finish(
        &mut self,
        now: Time,
        conn: ConnId,
        global_id: u64,
        payload: &[u8],
    ) -> Result<ConnectingAnswer, AuthFailure> {
        let handshake = self.handshakes.remove(&conn).ok_or(AuthFailure::UnknownSession(conn))?;
        let (session_key, connection_secret) = match (handshake, &mut self.cephx) {
            (Handshake::Monitor, Some(cephx)) => {
                let session = cephx.handle_done(now.wall(), global_id, payload)?;
                self.global_id = global_id;
                let session_key = Bytes::copy_from_slice(session.session_key.secret());
                (session_key, session.connection_secret.into())
            }
            (Handshake::Service(authorizer), Some(_)) => {
                let connection_secret = authorizer.handle_done(payload)?.into();
                let session_key = Bytes::copy_from_slice(authorizer.session_key().secret());
                (session_key, connection_secret)
            }
            (_, None) => {
                // Monitors assign the id; services may repeat it or not.
                if global_id != 0 {
                    self.global_id = global_id;
                }
                (Bytes::new(), Bytes::new())
            }
            (Handshake::None, Some(_)) => return Err(AuthFailure::Unexpected),
        };
        Ok(ConnectingAnswer::Finish { session_key, connection_secret })
    }

    /// Drops the state of a session that has ended or failed to open.
    pub fn forget(&mut self, conn: ConnId) {
        self.handshakes.remove(&conn);
    }

    /// The payload of an `MAuth`, if tickets are to be renewed.
    pub fn renewal(&mut self, now: Time) -> Option<(u32, Bytes)> {
        let request = self.cephx.as_mut()?.renewal_request(now.wall(), &mut self.entropy);
        request.ok().flatten().map(|payload| (METHOD_CEPHX, payload.into()))
    }

    pub fn handle_renewal(&mut self, now: Time, payload: &[u8]) -> Result<(), ClientError> {
        let cephx = self.cephx.as_mut();
        cephx.map_or(Ok(()), |cephx| cephx.handle_renewal(now.wall(), payload))
    }

    pub fn next_renewal(&self) -> Option<Time> {
        let time = self.cephx.as_ref()?.next_renewal()?;
        Some(Time(UTime::as_nanos(time)))
    }
}
