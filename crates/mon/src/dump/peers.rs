//! Daemons and connected peers, counted by their properties.

use crate::live::Live;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::EntityType;

/// Features of the connected peers, by type.
pub fn feature_map(live: Live<'_>) -> Map<String, Value> {
    let group = |kind: EntityType| {
        let mut counts = BTreeMap::<u64, u64>::new();
        for peer in live.peers.values().filter(|peer| peer.kind == kind) {
            *counts.entry(peer.features).or_default() += 1;
        }
        let group = |(features, count): (u64, u64)| {
            let release = release_of(features);
            json!({ "features": format!("{features:#x}"), "release": release, "num": count })
        };
        counts.into_iter().map(group).collect::<Vec<_>>()
    };
    let own = json!([{
        "features": format!("{:#x}", types::features::SUPPORTED),
        "release": "reef",
        "num": 1,
    }]);
    let mut features = Map::new();
    features.insert("mon".to_owned(), own.clone());
    for kind in [EntityType::OSD, EntityType::CLIENT] {
        let group = group(kind);
        if !group.is_empty() {
            features.insert(kind.name().to_owned(), json!(group));
        }
    }
    features.insert("mgr".to_owned(), own);
    features
}

/// The newest release of which a peer has all features.
pub fn release_of(peer: u64) -> &'static str {
    use types::features as f;
    [
        (f::SERVER_TENTACLE, "tentacle"),
        (f::SERVER_SQUID, "squid"),
        (f::SERVER_REEF, "reef"),
        (f::SERVER_QUINCY, "quincy"),
        (f::SERVER_PACIFIC, "pacific"),
        (f::SERVER_OCTOPUS, "octopus"),
        (f::SERVER_NAUTILUS, "nautilus"),
        (f::SERVER_MIMIC, "mimic"),
        (f::SERVER_LUMINOUS, "luminous"),
    ]
    .into_iter()
    .find(|(needed, _)| f::has(peer, *needed))
    .map_or("jewel", |(_, name)| name)
}

/// Counts daemons by the value of a metadata property.
pub fn count_values<'a>(values: impl Iterator<Item = &'a str>) -> Value {
    let mut counts = Map::new();
    for value in values {
        let count = counts.get(value).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(value.to_owned(), json!(count + 1));
    }
    Value::Object(counts)
}
