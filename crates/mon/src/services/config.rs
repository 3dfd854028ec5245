//! Configuration of daemons and clients, and the key-value store of users.

use crate::commands::{config, config_key};
use crate::keys::VersionGroup;
use crate::service::{Catalog, Family, Pattern, Reader, Service, Topic};
use crate::sessions::Subscription;
use crate::state::State;
use engine::Message;
use wire::{Config, MessageBody};

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[
        Topic {
            pattern: Pattern::Exact("config"),
            needs: None,
            first: |_, item| item.start,
            version: Some(|state| (state.version(VersionGroup::CONFIG).0, 1)),
            lingers: None,
            excludes_others: false,
        },
        Topic {
            pattern: Pattern::Prefix(KEYS),
            needs: Some("config-key"),
            first: |_, item| item.start,
            version: None,
            lingers: None,
            excludes_others: false,
        },
    ],
    messages: &[],
    commands: &[Family(7, config::COMMANDS), Family(8, config_key::COMMANDS)],
    checks: &[],
};

/// Begins the names of topics of keys with a prefix; the prefix follows.
const KEYS: &str = "kv:";

/// The service of options and keys. Both are durable; it has no state of its own.
#[derive(Debug, Default)]
pub(crate) struct ConfigService;

impl Service for ConfigService {
    fn publish(
        &mut self,
        state: &State,
        reader: Reader<'_>,
        topic: &str,
        subscription: &mut Subscription,
        messages: &mut Vec<Message>,
    ) {
        match topic.strip_prefix(KEYS) {
            Some(prefix) if subscription.reaches(state.version(VersionGroup::CONFIG_KEY).0) => {
                messages.push(key_values(state, prefix));
            }
            None if subscription.reaches(state.version(VersionGroup::CONFIG).0) => {
                let options = state.config_for(reader.name).into_iter();
                let options = options.map(|(name, (value, _))| (name, value)).collect();
                messages.push(Config { options }.encode(reader.features));
            }
            _ => {}
        }
    }
}

/// `MKVData`: all configuration keys with a prefix.
fn key_values(state: &State, prefix: &str) -> Message {
    const KIND: u16 = 54;
    let mut w = codec::Writer::new();
    w.u64(state.version(VersionGroup::CONFIG_KEY).0);
    w.string(prefix);
    w.bool(false);
    let matching: Vec<_> =
        state.config_keys.iter().filter(|(key, _)| key.starts_with(prefix)).collect();
    w.count(matching.len());
    for (key, value) in matching {
        w.string(key);
        w.bool(true);
        w.blob(value);
    }
    Message::new(KIND, 1, 1, w.into_bytes())
}
