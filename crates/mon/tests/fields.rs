//! Fields of JSON answers, compared with those of Ceph.
//!
//! `golden/fields.json` lists commands with the paths of all fields in the answers of a Ceph 18.2.7 cluster
//! of three OSDs, except those that depend on its contents. Answers may have more fields, but not fewer.

mod cluster;

use cluster::Cluster;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn paths(value: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                paths(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                paths(first, &format!("{prefix}[]"), found);
            }
        }
        _ => {}
    }
}

/// A cluster with some of every kind of object.
fn busy_cluster() -> Cluster {
    let mut cluster = Cluster::healthy();
    for command in [
        json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 16 }),
        json!({ "prefix": "osd pool mksnap", "pool": "data", "snap": "s" }),
        json!({ "prefix": "config set", "who": "osd.0", "name": "debug_osd", "value": "5/5" }),
        json!({ "prefix": "log", "logtext": ["hello"] }),
        json!({ "prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.1:0/5" }),
    ] {
        let reply = cluster.command(command.clone());
        assert_eq!(reply.result, 0, "{command}: {}", reply.text);
    }
    // One OSD does not report, so that some groups are stuck.
    (0..2).for_each(|osd| cluster.report(osd, 3));
    cluster.advance(std::time::Duration::from_secs(120));
    cluster
}

#[test]
fn answers_have_the_fields_of_ceph_18() {
    let golden: Value = serde_json::from_str(include_str!("golden/fields.json")).unwrap();
    let mut cluster = busy_cluster();
    let mut missing = Vec::new();
    for case in golden.as_array().unwrap() {
        let mut command = case["command"].clone();
        command["format"] = json!("json");
        let reply = cluster.command(command.clone());
        let value: Value = serde_json::from_slice(&reply.output).unwrap_or_default();
        let mut found = BTreeSet::new();
        paths(&value, "", &mut found);
        let wanted = case["fields"].as_array().unwrap().iter().filter_map(Value::as_str);
        let lacking: Vec<&str> = wanted.filter(|path| !found.contains(*path)).collect();
        if !lacking.is_empty() {
            missing.push(format!("{command} ({}) lacks {lacking:?}", reply.text));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
