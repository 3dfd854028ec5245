//! Entities, their keys and capabilities: authentication of peers, renewal of tickets, rotation of secrets,
//! and global ids.

mod global_ids;
mod handshakes;
mod renewals;

use crate::bootstrap::first_global_id;
use crate::change::Change;
use crate::commands::auth;
use crate::job::{AuthJob, Effects, Job, ServiceJob};
use crate::keys;
use crate::service::{Act, Catalog, Cx, DecideCx, Family, Intake, Role, Service, Via};
use crate::sessions::{Session, Sessions};
use crate::settings::Settings;
use crate::state::State;
use ::auth::CryptoKey;
use engine::{AuthRequest, ConnId, Message};
use global_ids::{GlobalIds, reservation};
use handshakes::Handshakes;
use renewals::Renewals;
use std::ops::Range;
use types::EntityName;
use wire::internal::RotatingSecretsRequest;
use wire::{Auth, MessageBody, PeerFault, decode_from_peer};

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[],
    messages: &[
        Intake { kind: Auth::KIND, via: Via::Here },
        Intake { kind: RotatingSecretsRequest::KIND, via: Via::Here },
    ],
    commands: &[Family(6, auth::COMMANDS)],
    checks: &[],
};

/// The service of entities.
#[derive(Debug)]
pub(crate) struct AuthService {
    handshakes: Handshakes,
    global_ids: GlobalIds,
    renewals: Renewals,
}

impl Service for AuthService {
    fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        match message.kind {
            Auth::KIND => self.renewals.renew(cx, conn, &decode_from_peer::<Auth>(message)?),
            _ => {
                self.renewals.follow(
                    cx,
                    conn,
                    &decode_from_peer::<RotatingSecretsRequest>(message)?,
                );
            }
        }
        Ok(())
    }

    fn session_opened(&mut self, _cx: &mut Cx<'_>, conn: ConnId) {
        self.renewals.opened(conn, self.handshakes.complete(conn));
    }

    fn session_closed(&mut self, _cx: &mut Cx<'_>, conn: ConnId, _was: &Session) {
        self.renewals.closed(conn);
    }

    fn tick(&mut self, cx: &mut Cx<'_>, role: Role) {
        match role {
            Role::Any => {
                self.handshakes.expire(cx);
                if self.global_ids.are_few() {
                    cx.out.push_back(enqueue_once(AuthJob::ReserveGlobalIds));
                }
            }
            Role::Owner => {
                let rotation = cx.state.secrets.next_rotation();
                if rotation.is_none_or(|due| due <= cx.now.wall()) {
                    cx.out.push_back(enqueue_once(AuthJob::RotateSecrets));
                }
            }
        }
    }

    fn state_changed(&mut self, cx: &mut Cx<'_>) {
        self.renewals.publish(cx);
    }

    fn check_invariants(&self, _state: &State, sessions: &Sessions) {
        for conn in self.handshakes.conns() {
            assert!(!sessions.contains(conn), "{conn:?} has a session and a handshake");
        }
        for conn in self.renewals.conns() {
            assert!(sessions.contains(conn), "{conn:?} renews tickets without a session");
        }
    }
}

fn enqueue_once(job: AuthJob) -> Act {
    Act::EnqueueOnce(Job::Of(ServiceJob::Auth(job)))
}

impl AuthService {
    pub fn new(settings: &Settings) -> Self {
        AuthService {
            handshakes: Handshakes::new(settings),
            global_ids: GlobalIds::default(),
            renewals: Renewals::default(),
        }
    }

    /// Handles one step of a peer's authentication.
    pub fn authenticate(&mut self, cx: &mut Cx<'_>, conn: ConnId, request: AuthRequest) {
        self.handshakes.step(&mut self.global_ids, cx, conn, request);
    }

    /// Drops the handshake of a connection that ended.
    pub fn connection_closed(&mut self, conn: ConnId) {
        self.handshakes.forget(conn);
    }

    /// Whether new clients can be admitted at once.
    pub fn has_global_ids(&self) -> bool {
        !self.global_ids.is_empty()
    }

    /// Panics unless all ids that it may assign are reserved: they are below the first one that never was.
    pub fn check_reserved(&self, never_reserved: u64) {
        self.global_ids.check_invariants(never_reserved);
    }

    /// Drops all reserved ids.
    pub fn clear_global_ids(&mut self) {
        self.global_ids.clear();
    }

    /// Takes over a durable reservation, and continues the handshakes that waited for it.
    pub fn take_global_ids(&mut self, cx: &mut Cx<'_>, reserved: Range<u64>) {
        self.global_ids.take(reserved);
        self.handshakes.resume(&mut self.global_ids, cx);
    }
}

/// Runs an operation.
pub(super) fn run(cx: &mut DecideCx<'_>, job: &AuthJob, change: &mut Change) -> Effects {
    match job {
        AuthJob::ReserveGlobalIds => return reserve_global_ids(cx, change),
        AuthJob::RotateSecrets => rotate_secrets(cx, change),
        AuthJob::PromotePendingKey(name, proved) => {
            promote_pending_key(cx.state, name, proved, change);
        }
    }
    Effects::default()
}

/// Reserves global ids: above those of the store, and above those that this monitor has seen.
pub(super) fn reserve_global_ids(cx: &DecideCx<'_>, change: &mut Change) -> Effects {
    let seen = cx.high_water.global_id(cx.state.monmap.fsid);
    let first = cx.state.global_id_next.max(first_global_id(change.now())).max(seen);
    let reserved = reservation(first);
    change.put(keys::GLOBAL_ID, reserved.end.to_string());
    Effects { global_ids: Some(reserved), ..Effects::default() }
}

/// Adds the next rotation of the secrets, if it is due.
pub(super) fn rotate_secrets(cx: &mut DecideCx<'_>, change: &mut Change) {
    let mut secrets = cx.state.secrets.clone();
    if secrets.rotate(cx.now.wall(), &cx.settings.cephx, cx.entropy) {
        change.put(keys::SECRETS, codec::encode_to_bytes(&secrets));
    }
}

/// Replaces an entity's key by the pending one, unless that is another one by now than the entity has proved.
fn promote_pending_key(state: &State, name: &EntityName, proved: &CryptoKey, change: &mut Change) {
    if let Some(mut entity) = state.entities.get(name).cloned()
        && let Some(key) = entity.pending_key.take_if(|pending| pending == proved)
    {
        entity.key = key;
        change.put(keys::auth(name), codec::encode_to_bytes(&entity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::auth::{EntityAuth, Entropy, KeyType};
    use types::UTime;

    #[test]
    fn only_the_pending_key_that_was_proved_replaces_the_key() {
        let mut entropy = Entropy::from_seed([1; 32]);
        let mut key = || CryptoKey::generate(KeyType::Aes, UTime::default(), &mut entropy);
        let (old, proved, newer) = (key(), key(), key());
        let mut state = State::default();
        let name = EntityName::client("a");
        let entity = EntityAuth { pending_key: Some(newer.clone()), ..EntityAuth::new(old) };
        state.entities.insert(name.clone(), entity);
        let mut change = Change::new(UTime::default());
        promote_pending_key(&state, &name, &proved, &mut change);
        assert!(change.is_empty(), "the administrator has made another one since");
        promote_pending_key(&state, &name, &newer, &mut change);
        assert!(!change.is_empty());
    }
}
