//! The session with a monitor: tickets, and the map that tells where the metadata server is.

use crate::link::{Link, RETRY};
use crate::outputs::Outputs;
use auth::{CephxClient, Connector, Entropy, Identity, MODE_CRC, MODE_SECURE, Towards};
use engine::{ConnId, ConnectingAnswer, ConnectingStep, Duration, Message, Policy, Time};
use maps::{MdsInfo, MdsMap};
use rados::Credentials;
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityName, EntityType, ParticipantName};
use wire::{
    Auth, AuthReply, MdsMapMessage, MessageBody, MonSubscribe, PeerFault, SubscribeItem,
    decode_from_peer,
};

/// Pause before a request for a ticket is repeated.
const RENEWAL_RETRY: Duration = Duration::from_secs(10);

/// Monitors, tried in turn, and what they have told.
#[derive(Debug)]
pub(crate) struct Monitor {
    addrs: Vec<EntityAddrVec>,
    link: Link,
    attempts: usize,
    connector: Connector,
    entropy: Entropy,
    renewal_pause: Time,
    /// The topic of the map.
    topic: String,
    map: MdsMap,
}

impl Monitor {
    pub(crate) fn new(
        name: EntityName,
        credentials: Credentials,
        addrs: Vec<EntityAddrVec>,
        file_system: Option<i32>,
        entropy: Entropy,
    ) -> Self {
        let identity = match credentials {
            Credentials::Key(key) => {
                let wanted = [EntityType::MON, EntityType::MDS];
                Identity::Key(Box::new(CephxClient::new(name, key, &wanted)))
            }
            Credentials::None => Identity::Asserted { name, keeps_global_id: true },
        };
        Monitor {
            addrs,
            link: Link::Waiting(Time::ZERO),
            attempts: 0,
            connector: Connector::new(identity, vec![MODE_CRC, MODE_SECURE]),
            entropy,
            renewal_pause: Time::ZERO,
            topic: file_system.map_or("mdsmap".to_owned(), |id| format!("mdsmap.{id}")),
            map: MdsMap::default(),
        }
    }

    /// The newest map.
    pub(crate) fn map(&self) -> &MdsMap {
        &self.map
    }

    /// The server of a rank.
    pub(crate) fn server(&self) -> Option<&MdsInfo> {
        self.map.server(0)
    }

    pub(crate) fn global_id(&self) -> u64 {
        self.connector.global_id()
    }

    pub(crate) fn owns(&self, conn: ConnId) -> bool {
        self.link.owns(conn)
    }

    /// Goes to the next monitor and renews tickets, if it is time.
    pub(crate) fn tend(&mut self, now: Time, outputs: &mut Outputs) {
        if self.link.due().is_some_and(|due| due <= now) {
            self.connect(now, outputs);
        }
        self.renew_tickets(now, outputs);
    }

    fn connect(&mut self, now: Time, outputs: &mut Outputs) {
        if let Some(conn) = self.link.conn() {
            self.connector.forget(conn);
            outputs.close(conn);
        }
        let Some(rank) = self.attempts.checked_rem(self.addrs.len()) else {
            self.link = Link::Waiting(Time::FAR_FUTURE);
            return;
        };
        self.attempts += 1;
        let name = ParticipantName::new(EntityType::MON, rank as i64);
        self.link = outputs.connect(now, name, self.addrs[rank].clone(), Policy::Lossy);
    }

    fn renew_tickets(&mut self, now: Time, outputs: &mut Outputs) {
        let Some(conn) = self.link.open() else { return };
        if self.next_renewal().is_none_or(|due| due > now) {
            return;
        }
        self.renewal_pause = now + RENEWAL_RETRY;
        if let Some((protocol, payload)) = self.connector.renewal(now, &mut self.entropy) {
            let request = Auth { version: 0, protocol, payload, monmap_epoch: 0 };
            outputs.send(conn, request.encode(SUPPORTED));
        }
    }

    fn next_renewal(&self) -> Option<Time> {
        self.connector.next_renewal().map(|due| due.max(self.renewal_pause))
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let renewal = self.link.open().and(self.next_renewal());
        [self.link.due(), renewal].into_iter().flatten().min()
    }

    /// The connection is there: asks for maps.
    pub(crate) fn opened(&mut self, conn: ConnId, outputs: &mut Outputs) {
        self.link = Link::Open(conn);
        let start = match self.map.epoch.0 {
            0 => 0,
            epoch => u64::from(epoch) + 1,
        };
        let what = [(self.topic.clone(), SubscribeItem { start, flags: 0 })].into();
        outputs.send(conn, MonSubscribe { what, hostname: String::new() }.encode(SUPPORTED));
    }

    /// A connection is gone, perhaps that to the metadata server.
    pub(crate) fn closed(&mut self, now: Time, conn: ConnId) {
        self.connector.forget(conn);
        if self.link.owns(conn) {
            self.link = Link::Waiting(now + RETRY);
        }
    }

    /// A step of the authentication to a monitor or to the metadata server.
    pub(crate) fn authenticate(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let to = match self.link.owns(conn) {
            true => Towards::Monitor,
            false => Towards::Service(EntityType::MDS),
        };
        let answer = self.connector.step(now, conn, to, step, &mut self.entropy);
        answer.unwrap_or_else(|reason| {
            tracing::warn!(%reason, "cannot authenticate; check the client's key");
            ConnectingAnswer::Refuse
        })
    }

    /// # Errors
    ///
    /// The message does not decode.
    pub(crate) fn handle_message(&mut self, now: Time, message: &Message) -> Result<(), PeerFault> {
        match message.kind {
            MdsMapMessage::KIND => {
                let message: MdsMapMessage = decode_from_peer(message)?;
                match codec::decode_all::<MdsMap>("mdsmap", &message.map) {
                    Ok(map) if map.epoch > self.map.epoch => self.map = map,
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, "the map does not decode"),
                }
            }
            AuthReply::KIND => {
                let reply: AuthReply = decode_from_peer(message)?;
                if let Err(error) = self.connector.handle_renewal(now, &reply.payload) {
                    tracing::warn!(%error, "tickets were not renewed");
                }
                self.renewal_pause = Time::ZERO;
            }
            _ => {}
        }
        Ok(())
    }
}
