//! Authentication of clients that connect to this server, and of this server at a monitor.

use crate::Config;
use auth::{
    Acceptor, CephxClient, Connector, Entropy, Identity, METHOD_CEPHX, METHOD_NONE, MODE_CRC,
    MODE_SECURE, RotatingSecrets, Towards, Verifier,
};
use bytes::Bytes;
use engine::{AuthRequest, AuthVerdict, ConnId, ConnectingAnswer, ConnectingStep, Time};
use types::{EntityName, EntityType};

/// Proofs and secrets of one server.
#[derive(Debug)]
pub(crate) struct Authentication {
    verifier: Verifier,
    connector: Connector,
    secrets: RotatingSecrets,
    entropy: Entropy,
}

impl Authentication {
    /// Without secrets: no cephx client is accepted before the monitor has sent them.
    pub fn new(config: &Config, seed: [u8; 32]) -> Self {
        let name = EntityName::new(EntityType::MDS, config.name.clone());
        let (method, identity) = match (config.auth_none, config.key.clone()) {
            (true, _) => (METHOD_NONE, Identity::Asserted { name, keeps_global_id: true }),
            // Monitors know a run of the server by its global id, which it must keep in all sessions.
            (false, Some(key)) => {
                (METHOD_CEPHX, Identity::Key(Box::new(CephxClient::new(name, key, &[]))))
            }
            (false, None) => (METHOD_CEPHX, Identity::Daemon { name, key: None }),
        };
        let modes = vec![MODE_CRC, MODE_SECURE];
        let acceptor = Acceptor::new(method, modes.clone());
        Authentication {
            verifier: Verifier::new(EntityType::MDS, acceptor),
            connector: Connector::new(identity, modes),
            secrets: RotatingSecrets::default(),
            entropy: Entropy::from_seed(seed),
        }
    }

    /// Global id that a monitor has given; 0 before.
    pub fn global_id(&self) -> u64 {
        self.connector.global_id()
    }

    /// A session has ended, maybe before it was authenticated.
    pub fn closed(&mut self, conn: ConnId) {
        self.verifier.closed(conn);
        self.connector.forget(conn);
    }

    /// Takes what a monitor has sealed with this server's key: the rotating secrets of the service, or the
    /// ticket by which the server keeps its global id.
    pub fn take_sealed(&mut self, now: Time, sealed: &[u8]) {
        if let Ok(secrets) = self.connector.open_rotating(sealed) {
            self.secrets = secrets;
        } else if let Err(error) = self.connector.handle_renewal(now, sealed) {
            tracing::error!(%error, "an answer of the monitor about keys cannot be opened");
        }
    }

    /// Protocol and payload of a request for a new ticket, if it is due.
    pub fn renewal(&mut self, now: Time) -> Option<(u32, Bytes)> {
        self.connector.renewal(now, &mut self.entropy)
    }

    /// When [`Authentication::renewal`] has a request.
    pub fn next_renewal(&self) -> Option<Time> {
        self.connector.next_renewal()
    }

    /// Takes rotating secrets that the monitor sent without encryption of their own.
    pub fn take_secrets(&mut self, encoded: &[u8]) {
        match codec::decode_all::<RotatingSecrets>("secrets", encoded) {
            Ok(secrets) => self.secrets = secrets,
            Err(error) => tracing::error!(%error, "the monitor's secrets do not decode"),
        }
    }

    /// One step of authenticating to a monitor. A failure is logged and refuses the session.
    pub fn prove(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        let answer = self.connector.step(now, conn, Towards::Monitor, step, &mut self.entropy);
        answer.unwrap_or_else(|reason| {
            tracing::warn!(%reason, "cannot authenticate to a monitor; check the server's key");
            ConnectingAnswer::Refuse
        })
    }

    /// One step of the authentication of a connecting client.
    pub fn verify(&mut self, now: Time, conn: ConnId, request: AuthRequest) -> AuthVerdict {
        let verdict = self.verifier.verify(now, conn, request, &self.secrets, &mut self.entropy);
        verdict.unwrap_or_else(|failure| {
            tracing::debug!(%failure, "a client was refused");
            self.verifier.refuse(failure.errno())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::{
        CephxPolicy, CephxServer, CryptoKey, EntityAuth, KeyType, MonAuthRequest, ServerContext,
        ServiceSecrets,
    };
    use std::collections::BTreeMap;

    const NOW: Time = Time(1_700_000_000_000_000_000);
    const CONN: ConnId = ConnId(7);
    const GLOBAL_ID: u64 = 4123;

    /// A monitor that knows the server's key.
    struct Monitor {
        keys: BTreeMap<EntityName, EntityAuth>,
        secrets: ServiceSecrets,
        policy: CephxPolicy,
        entropy: Entropy,
    }

    impl Monitor {
        fn new(name: &EntityName) -> Self {
            let (mut entropy, policy) = (Entropy::from_seed([3; 32]), CephxPolicy::default());
            let mut secrets = ServiceSecrets::default();
            secrets.rotate(NOW.wall(), &policy, &mut entropy);
            let key = CryptoKey::generate(KeyType::Aes, NOW.wall(), &mut entropy);
            let entity = EntityAuth::new(key).with_caps("mon", "allow profile mds");
            Monitor { keys: [(name.clone(), entity)].into(), secrets, policy, entropy }
        }

        fn handle(&mut self, server: &mut CephxServer, payload: &[u8]) -> Bytes {
            let context = ServerContext {
                now: NOW.wall(),
                keys: &self.keys,
                secrets: &self.secrets,
                policy: &self.policy,
                entropy: &mut self.entropy,
            };
            server.handle_request(context, payload, None).unwrap().payload.into()
        }

        /// Authenticates a server in a session.
        fn admit(&mut self, server: &mut Authentication) -> CephxServer {
            let started = server.prove(NOW, CONN, ConnectingStep::Begin);
            let ConnectingAnswer::Start { payload, .. } = started else { panic!("{started:?}") };
            let request: MonAuthRequest = codec::decode_all("request", &payload).unwrap();
            let (mut session, challenge) =
                CephxServer::start(request.name, GLOBAL_ID, true, &mut self.entropy);
            let more = ConnectingStep::More { payload: challenge.into() };
            let proof = server.prove(NOW, CONN, more);
            let ConnectingAnswer::More { payload } = proof else { panic!("{proof:?}") };
            let payload = self.handle(&mut session, &payload);
            let done = ConnectingStep::Done { global_id: GLOBAL_ID, payload };
            let finish = server.prove(NOW, CONN, done);
            assert!(matches!(finish, ConnectingAnswer::Finish { .. }), "{finish:?}");
            session
        }
    }

    #[test]
    fn a_server_is_known_by_the_global_id_that_it_has_proved() {
        let name = EntityName::new(EntityType::MDS, "a".to_owned());
        let mut monitor = Monitor::new(&name);
        let key = Some(monitor.keys[&name].key.clone());
        let config = Config { key, auth_none: false, ..Config::for_tests() };
        let mut server = Authentication::new(&config, [7; 32]);
        let mut session = monitor.admit(&mut server);
        assert_eq!(server.global_id(), GLOBAL_ID);
        assert!(server.next_renewal().is_some_and(|due| due > NOW), "its ticket keeps the id");
        // Answers about secrets and about tickets look alike until they are opened.
        let request = auth::RequestType::RotatingKey.number().to_le_bytes();
        let sealed = monitor.handle(&mut session, &request);
        server.take_sealed(NOW, &sealed);
        assert_eq!(Some(&server.secrets), monitor.secrets.service(EntityType::MDS));
    }
}
