//! Commands by family: their answers, and their effects.

mod cluster;

use cluster::{ADMIN, Cluster};
use serde_json::{Value, json};
use wire::internal::ScrubOrder;

/// Runs commands in order and compares results and texts.
fn check(cluster: &mut Cluster, cases: &[(Value, i32, &str)]) {
    for (command, result, text) in cases {
        let reply = cluster.command(command.clone());
        assert_eq!((reply.result, reply.text.as_str()), (*result, *text), "{command}");
    }
}

fn with_data_pool() -> Cluster {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    (0..3).for_each(|osd| cluster.report(osd, 4));
    cluster
}

#[test]
fn malformed_commands_are_refused_with_a_reason() {
    let mut cluster = Cluster::healthy();
    let cases = [
        ("", "not valid JSON"),
        ("get_command_descriptions", "not valid JSON"),
        ("[]", "not a JSON object"),
        ("{}", "no 'prefix'"),
        ("{\"prefix\": 5}", "no 'prefix'"),
        ("{\"prefix\": \"asdfqwer\"}", "unknown command 'asdfqwer'"),
        ("{\"prefix\": \"osd pool get\", \"pool\": \"x\"}", "needs parameter 'var'"),
        ("{\"prefix\": \"osd map\", \"pool\": {}, \"object\": 1}", "parameter 'pool'"),
        ("{\"prefix\": \"injectargs\", \"key\": \"value\"}", "needs parameter 'injected_args'"),
    ];
    for (command, expected) in cases {
        let reply = cluster.raw_command(ADMIN, command, b"");
        assert_eq!(reply.result, -22, "{command}");
        assert!(reply.text.contains(expected), "{command}: {}", reply.text);
    }
}

#[test]
fn what_follows_a_command_is_ignored() {
    let mut cluster = Cluster::healthy();
    let reply = cluster.raw_command(ADMIN, "\n{\"prefix\": \"fsid\"}\"", b"");
    assert_eq!(reply.result, 0, "{}", reply.text);
}

#[test]
fn every_command_answers_without_arguments_and_with_nonsense() {
    let mut cluster = with_data_pool();
    let descriptions = cluster.json(json!({ "prefix": "get_command_descriptions" }));
    let descriptions = descriptions.as_object().unwrap();
    assert!(descriptions.len() > 200);
    for description in descriptions.values() {
        let parts = description["sig"].as_array().unwrap();
        let words: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
        let mut command = json!({ "prefix": words.join(" ") });
        for format in ["plain", "json", "json-pretty"] {
            command["format"] = json!(format);
            cluster.command(command.clone());
        }
        for nonsense in
            [json!("nonsense"), json!(-1), json!(["1", "2", "3"]), json!({}), json!(1e300)]
        {
            for param in parts.iter().filter_map(|part| part["name"].as_str()) {
                command[param] = nonsense.clone();
            }
            cluster.command(command.clone());
        }
    }
    cluster.json(json!({ "prefix": "status" }));
}

#[test]
fn json_output_is_json_in_both_formats() {
    let mut cluster = with_data_pool();
    let descriptions = cluster.json(json!({ "prefix": "get_command_descriptions" }));
    // These answer with bytes, or with text in every format as in Ceph.
    let exempt = [
        "osd getmap",
        "osd getcrushmap",
        "mon getmap",
        "config generate-minimal-conf",
        "config assimilate-conf",
        "osd get-require-min-compat-client",
        "balancer eval",
        "crash stat",
        "pg debug",
        "progress",
        "osd pool application get",
    ];
    for description in descriptions.as_object().unwrap().values() {
        let parts = description["sig"].as_array().unwrap();
        let words: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
        let prefix = words.join(" ");
        if exempt.contains(&prefix.as_str()) || description["perm"].as_str().unwrap().contains('w')
        {
            continue;
        }
        for format in ["json", "json-pretty"] {
            let reply = cluster.command(json!({ "prefix": prefix, "format": format }));
            if reply.result == 0 && !reply.output.is_empty() {
                let value: Result<Value, _> = serde_json::from_slice(&reply.output);
                assert!(value.is_ok(), "{prefix}: {:?}", reply.output);
            }
        }
    }
}

#[test]
fn pools_are_created_changed_and_removed() {
    let mut cluster = Cluster::healthy();
    let create = |pool: &str, rest: Value| {
        let mut command = json!({ "prefix": "osd pool create", "pool": pool });
        command.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        command
    };
    let get =
        |var: &str| json!({ "prefix": "osd pool get", "pool": "p", "var": var, "format": "json" });
    let set = |var: &str, val: &str| json!({ "prefix": "osd pool set", "pool": "p", "var": var, "val": val });
    check(
        &mut cluster,
        &[
            (
                create("p", json!({ "pg_num": 8, "size": 2, "autoscale_mode": "off" })),
                0,
                "pool 'p' created",
            ),
            (create("p", json!({})), 0, "pool 'p' already exists"),
            (
                create("p", json!({ "pool_type": "erasure" })),
                -22,
                "pool 'p' cannot change to type erasure",
            ),
            (
                create("", json!({})),
                -22,
                "pool name '' is invalid: it must have 1 to 512 printable characters",
            ),
            (create("q", json!({ "rule": "no" })), -2, "specified rule no doesn't exist"),
            (
                create("e", json!({ "pool_type": "erasure", "erasure_code_profile": "no" })),
                -95,
                "pool 'e' was not created: osd.0 runs a version that keeps no shards of erasure-coded pools. Next: update all OSDs",
            ),
            (set("size", "3"), 0, "set pool 1 size to 3"),
            (set("min_size", "2"), 0, "set pool 1 min_size to 2"),
            (
                set("min_size", "9"),
                -22,
                "pool min_size must be between 1 and size, which is set to 3",
            ),
            (
                set("size", "abc"),
                -22,
                "error parsing integer value 'abc': Expected option value to be integer, got 'abc'",
            ),
            (set("nodelete", "1"), 0, "set pool 1 nodelete to 1"),
            (set("compression_mode", "force"), 0, "set pool 1 compression_mode to force"),
        ],
    );
    assert_eq!(cluster.json(get("size")), json!({ "pool": "p", "pool_id": 1, "size": 3 }));
    assert_eq!(cluster.json(get("compression_mode"))["compression_mode"], "force");
    let missing = cluster.command(get("csum_type"));
    assert_eq!(
        (missing.result, missing.text.as_str()),
        (-2, "option 'csum_type' is not set on pool 'p'")
    );
    let remove = json!({
        "prefix": "osd pool delete", "pool": "p", "pool2": "p", "yes_i_really_really_mean_it": true,
    });
    let protected = "pool deletion is disabled; you must unset nodelete flag for the pool first";
    check(
        &mut cluster,
        &[
            (
                json!({ "prefix": "osd pool rename", "srcpool": "p", "destpool": "r" }),
                0,
                "pool 'p' renamed to 'r'",
            ),
            (
                json!({ "prefix": "osd pool rename", "srcpool": "r", "destpool": "p" }),
                0,
                "pool 'r' renamed to 'p'",
            ),
            (remove.clone(), -1, protected),
            (set("nodelete", "false"), 0, "set pool 1 nodelete to false"),
            (remove.clone(), 0, "pool 'p' removed"),
            (remove, 0, "pool 'p' does not exist"),
        ],
    );
    let unsure = json!({ "prefix": "osd pool rm", "pool": "p" });
    cluster.command(create("p", json!({})));
    assert_eq!(cluster.command(unsure).result, -1);
    // Ids of pools are never used again.
    assert_eq!(cluster.json(json!({ "prefix": "osd lspools" }))[0]["poolnum"], 2);
}

#[test]
fn too_many_placement_groups_are_refused() {
    let mut cluster = Cluster::healthy();
    let create =
        |pg_num: u32| json!({ "prefix": "osd pool create", "pool": "p", "pg_num": pg_num });
    let reply = cluster.command(create(2048));
    assert_eq!(reply.result, -34);
    assert!(reply.text.contains("exceeds the mon_max_pg_per_osd value of 1000"), "{}", reply.text);
    assert_eq!(cluster.command(create(100_000)).result, -34);
    assert_eq!(cluster.command(create(128)).result, 0);
}

#[test]
fn erasure_profiles_are_kept_where_osds_keep_no_shards() {
    let mut cluster = Cluster::healthy();
    let profile = json!({
        "prefix": "osd erasure-code-profile set", "name": "p21",
        "profile": ["k=2", "m=1", "crush-failure-domain=osd"],
    });
    let rule = json!({ "prefix": "osd crush rule create-erasure", "name": "e", "profile": "p21" });
    let create = json!({
        "prefix": "osd pool create", "pool": "e", "pg_num": 8, "pool_type": "erasure",
        "erasure_code_profile": "p21",
    });
    let text = "pool 'e' was not created: osd.0 runs a version that keeps no shards of erasure-coded pools. Next: update all OSDs";
    check(&mut cluster, &[(profile, 0, ""), (rule, 0, "created rule e at 1"), (create, -95, text)]);
    assert_eq!(cluster.json(json!({ "prefix": "osd pool ls" })), json!([]));
    let remove = json!({ "prefix": "osd erasure-code-profile rm", "name": "p21" });
    check(&mut cluster, &[(remove, 0, "")]);
}

#[test]
fn applications_are_enabled_once_and_with_care() {
    let mut cluster = with_data_pool();
    let enable =
        |app: &str| json!({ "prefix": "osd pool application enable", "pool": "data", "app": app });
    let health = cluster.json(json!({ "prefix": "health" }));
    assert_eq!(health["checks"]["POOL_APP_NOT_ENABLED"]["summary"]["count"], 1);
    check(
        &mut cluster,
        &[
            (enable("rbd"), 0, "enabled application 'rbd' on pool 'data'"),
            (enable("rbd"), 0, "enabled application 'rbd' on pool 'data'"),
            (
                enable("x"),
                -1,
                "Are you SURE? Pool 'data' already has an enabled application; pass --yes-i-really-mean-it to proceed anyway",
            ),
            (
                json!({ "prefix": "osd pool application set", "pool": "data", "app": "rbd", "key": "k", "value": "v" }),
                0,
                "set application 'rbd' key 'k' to 'v' on pool 'data'",
            ),
        ],
    );
    let get = json!({ "prefix": "osd pool application get", "pool": "data" });
    assert_eq!(cluster.json(get), json!({ "rbd": { "k": "v" } }));
    assert_eq!(cluster.json(json!({ "prefix": "health" }))["status"], "HEALTH_OK");
}

#[test]
fn osds_are_marked_and_said_so() {
    let mut cluster = Cluster::healthy();
    let ids = |prefix: &str, ids: &[&str]| json!({ "prefix": prefix, "ids": ids });
    check(
        &mut cluster,
        &[
            (ids("osd out", &["2"]), 0, "marked out osd.2. "),
            (ids("osd out", &["osd.2", "9"]), 0, "osd.2 is already out. osd.9 does not exist. "),
            (ids("osd in", &["2"]), 0, "marked in osd.2. "),
            (ids("osd down", &["1"]), 0, "marked down osd.1. "),
            (ids("osd rm", &["0"]), -16, "osd.0 is still up; must be down before removal. "),
            (
                json!({ "prefix": "osd reweight", "id": "osd.2", "weight": 0.8 }),
                0,
                "reweighted osd.2 to 0.8 (cccc)",
            ),
            (json!({ "prefix": "osd set", "key": "noout" }), 0, "noout is set"),
            (json!({ "prefix": "osd unset", "key": "noout" }), 0, "noout is unset"),
            (json!({ "prefix": "osd pause" }), 0, "pauserd,pausewr is set"),
            (json!({ "prefix": "osd unpause" }), 0, "pauserd,pausewr is unset"),
            (
                json!({ "prefix": "osd set-group", "flags": "noup,bad", "who": ["0"] }),
                -22,
                "unrecognized flag 'bad', must be one of {noup,nodown,noin,noout}",
            ),
            (json!({ "prefix": "osd find", "id": 77 }), -2, "osd.77 does not exist"),
            (
                json!({ "prefix": "osd setmaxosd", "newmax": 2 }),
                -16,
                "cannot shrink max_osd to 2 because osd.2 (and possibly others) still in use",
            ),
        ],
    );
    let down = cluster.json(json!({ "prefix": "osd tree", "states": ["down"] }));
    let names: Vec<&Value> =
        down["nodes"].as_array().unwrap().iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["default", "alpha", "osd.1"]);
    check(
        &mut cluster,
        &[(
            json!({ "prefix": "osd purge", "id": 1, "yes_i_really_mean_it": true }),
            0,
            "purged osd.1",
        )],
    );
    assert_eq!(cluster.json(json!({ "prefix": "osd ls" })), json!([0, 2]));
    let new = json!({ "prefix": "osd new", "uuid": "11112222-3333-4444-5555-666677778888" });
    assert_eq!(cluster.json(new.clone()), json!({ "osdid": 1 }));
    assert_eq!(cluster.json(new), json!({ "osdid": 1 }));
}

#[test]
fn placement_is_what_the_map_says() {
    let mut cluster = with_data_pool();
    let map = json!({ "prefix": "osd map", "pool": "data", "object": "obj1" });
    let found = cluster.json(map.clone());
    assert_eq!(found["raw_pgid"], "1.6cf8deff");
    assert_eq!(found["acting"].as_array().unwrap().len(), 3);
    let plain = cluster.plain(map);
    assert!(
        plain.contains("pool 'data' (1) object 'obj1' -> pg 1.6cf8deff (1.7) -> up ("),
        "{plain}"
    );
    let group = cluster.json(json!({ "prefix": "pg map", "pgid": found["pgid"] }));
    assert_eq!(group["acting"], found["acting"]);
    let absent = cluster.command(json!({ "prefix": "pg map", "pgid": "77.0" }));
    assert_eq!((absent.result, absent.text.as_str()), (-2, "pgid '77.0' does not exist"));
}

#[test]
fn crush_trees_are_built_and_taken_down() {
    let mut cluster = Cluster::healthy();
    let edit = |rest: Value| {
        let mut command = rest;
        let prefix = format!("osd crush {}", command["prefix"].as_str().unwrap());
        command["prefix"] = json!(prefix);
        command
    };
    check(
        &mut cluster,
        &[
            (
                edit(json!({ "prefix": "add-bucket", "name": "r1", "type": "rack" })),
                0,
                "added bucket r1 type rack to crush map",
            ),
            (
                edit(json!({ "prefix": "add-bucket", "name": "r1", "type": "rack" })),
                0,
                "bucket 'r1' already exists",
            ),
            (
                edit(json!({ "prefix": "move", "name": "r1", "args": ["root=default"] })),
                0,
                "moved item id -5 name 'r1' to location {root=default} in crush map",
            ),
            (
                edit(json!({ "prefix": "move", "name": "alpha", "args": ["rack=r1"] })),
                0,
                "moved item id -2 name 'alpha' to location {rack=r1} in crush map",
            ),
            (edit(json!({ "prefix": "rm", "name": "r1" })), -39, "bucket -5 still holds 1 items"),
            (
                edit(json!({ "prefix": "reweight", "name": "osd.0", "weight": 2.0 })),
                0,
                "reweighted item id 0 name 'osd.0' to 2 in crush map",
            ),
            (
                edit(json!({ "prefix": "set-device-class", "class": "nvme", "ids": ["0"] })),
                -16,
                "osd.0 has already bound to class 'hdd', can not reset class to 'nvme'; use 'ceph osd crush rm-device-class <id>' to remove old class first",
            ),
            (
                edit(json!({ "prefix": "rm-device-class", "ids": ["0"] })),
                0,
                "done removing class of osd(s): 0",
            ),
            (
                edit(json!({ "prefix": "set-device-class", "class": "nvme", "ids": ["0"] })),
                0,
                "set osd(s) 0 to class 'nvme'",
            ),
            (
                edit(
                    json!({ "prefix": "rule create-replicated", "name": "fast", "root": "default", "type": "osd", "class": "nvme" }),
                ),
                0,
                "",
            ),
            (
                edit(json!({ "prefix": "rule rename", "srcname": "fast", "dstname": "faster" })),
                0,
                "",
            ),
            (edit(json!({ "prefix": "rule rm", "name": "faster" })), 0, ""),
        ],
    );
    let tree = cluster.plain(json!({ "prefix": "osd tree" }));
    let expected = "\
ID  CLASS  WEIGHT   TYPE NAME           STATUS  REWEIGHT  PRI-AFF
-1         4.00000  root default                                 
-5         4.00000      rack r1                                  
-2         4.00000          host alpha                           
 1    hdd  1.00000              osd.1       up   1.00000  1.00000
 2    hdd  1.00000              osd.2       up   1.00000  1.00000
 0   nvme  2.00000              osd.0       up   1.00000  1.00000
";
    assert_eq!(tree, expected);
    let raw = cluster.command(json!({ "prefix": "osd getcrushmap" })).output;
    let reply = cluster.command_on(ADMIN, &json!({ "prefix": "osd setcrushmap" }), &raw);
    assert_eq!(reply.result, 0, "{}", reply.text);
    // The same again, from a client that missed the answer; and from one that knew an older map.
    let (version, epoch) = (reply.text.parse::<i64>().unwrap(), cluster.epoch());
    let set = |prior: i64| json!({ "prefix": "osd setcrushmap", "prior_version": prior });
    let reply = cluster.command_on(ADMIN, &set(version - 1), &raw);
    assert_eq!((reply.result, reply.text.as_str()), (0, version.to_string().as_str()));
    assert_eq!(cluster.command_on(ADMIN, &set(version - 2), &raw).result, -1);
    assert_eq!(cluster.epoch(), epoch);
    let reply = cluster.command_on(ADMIN, &json!({ "prefix": "osd setcrushmap" }), b"rubbish");
    assert_eq!(reply.result, -22);
}

#[test]
fn a_crush_map_that_clients_do_not_know_is_refused_until_they_must() {
    let mut cluster = Cluster::healthy();
    let rule = crush::ErasureRule {
        name: "dense",
        root: "default",
        failure_domain: "host",
        class: None,
        domains: 1,
        devices_per_domain: 3,
    };
    let mut map = crush::CrushMap::clone(&cluster.monitor.state().osdmap.crush);
    map.add_erasure_rule(&rule).unwrap();
    let mut writer = codec::Writer::new();
    codec::EncodeFor::encode_for(&map, &mut writer, types::features::SUPPORTED);
    let raw = writer.into_vec();
    let set = json!({ "prefix": "osd setcrushmap" });
    let reply = cluster.command_on(ADMIN, &set, &raw);
    assert_eq!(reply.result, -22);
    assert!(
        reply.text.starts_with("new crush map requires client version squid"),
        "{}",
        reply.text
    );
    let raise = json!({ "prefix": "osd set-require-min-compat-client", "version": "squid" });
    assert_eq!(cluster.command(raise).result, 0);
    let reply = cluster.command_on(ADMIN, &set, &raw);
    assert_eq!(reply.result, 0, "{}", reply.text);
}

#[test]
fn keys_and_capabilities_are_managed() {
    let mut cluster = Cluster::healthy();
    let entity = |prefix: &str, entity: &str, caps: &[&str]| json!({ "prefix": prefix, "entity": entity, "caps": caps });
    check(
        &mut cluster,
        &[
            (entity("auth get", "client.x", &[]), -2, "failed to find client.x in keyring"),
            (entity("auth add", "client.x", &["mon", "allow r"]), 0, "added key for client.x"),
            (
                entity("auth add", "client.x", &["mon", "allow rw"]),
                -22,
                "entity client.x exists but caps do not match",
            ),
            (
                entity("auth caps", "client.x", &["mon", "allow *", "osd", "allow rw pool=data"]),
                0,
                "updated caps for client.x",
            ),
            (
                entity("auth caps", "client.y", &["mon", "allow *"]),
                -2,
                "couldn't find entry client.y",
            ),
            (
                entity("auth caps", "client.x", &["mon"]),
                -22,
                "bad capabilities request; odd number of arguments, expected pairs of service and capability",
            ),
            (
                entity("auth get-or-create", "client.x", &["mon", "allow r"]),
                -22,
                "key for client.x exists but cap mon does not match",
            ),
            (
                entity("auth get", "nonsense", &[]),
                -22,
                "bad entity name 'nonsense', expected one such as client.admin",
            ),
        ],
    );
    assert_eq!(cluster.command(entity("auth caps", "client.x", &["mon", "bogus"])).result, -22);
    let keyring = cluster.plain(entity("auth get", "client.x", &[]));
    assert!(keyring.starts_with("[client.x]\n\tkey = AQ"), "{keyring}");
    assert!(
        keyring.ends_with("\tcaps mon = \"allow *\"\n\tcaps osd = \"allow rw pool=data\"\n"),
        "{keyring}"
    );
    cluster.command(entity("auth rm", "client.x", &[]));
    assert_eq!(cluster.command(entity("auth get", "client.x", &[])).result, -2);
    let reply = cluster.command_on(ADMIN, &json!({ "prefix": "auth import" }), keyring.as_bytes());
    assert_eq!((reply.result, reply.text.as_str()), (0, "imported keyring"));
    assert_eq!(cluster.plain(entity("auth get", "client.x", &[])), keyring);
    let reply =
        cluster.command_on(ADMIN, &json!({ "prefix": "auth import" }), b"[client.z]\nkey = ?");
    assert_eq!(reply.result, -22);
    let key = cluster.plain(entity("auth get-key", "client.x", &[]));
    assert!(keyring.contains(&key) && !key.ends_with('\n'));
}

#[test]
fn options_are_set_shown_and_logged() {
    let mut cluster = Cluster::healthy();
    let set = |who: &str, name: &str, value: &str| json!({ "prefix": "config set", "who": who, "name": name, "value": value });
    let get = |who: &str, key: &str| json!({ "prefix": "config get", "who": who, "key": key });
    check(
        &mut cluster,
        &[
            (set("osd", "osd_max_backfills", "3"), 0, ""),
            (set("osd.0", "osd_max_backfills", "5"), 0, ""),
            (
                set("osd", "osd_max_backfills", "many"),
                -22,
                "error parsing value 'many' of osd_max_backfills: expected a value of type uint",
            ),
            (
                set("nobody", "x", "1"),
                -22,
                "unrecognized config target 'nobody', expected global, a type such as osd, or a name such as osd.0",
            ),
            (set("mgr", "mgr/dashboard/port", "1"), 0, ""),
            (get("mon", "no_such"), -2, "unrecognized key 'no_such'"),
        ],
    );
    assert_eq!(cluster.plain(get("osd.0", "osd_max_backfills")), "5\n");
    assert_eq!(cluster.plain(get("osd.1", "osd_max_backfills")), "3\n");
    assert_eq!(cluster.plain(get("mon", "mon_allow_pool_delete")), "true\n");
    let dump = cluster.json(json!({ "prefix": "config dump" }));
    let names: Vec<&Value> =
        dump.as_array().unwrap().iter().map(|option| &option["name"]).collect();
    assert_eq!(
        names,
        ["osd_pool_default_size", "mgr/dashboard/port", "osd_max_backfills", "osd_max_backfills"]
    );
    cluster.command(json!({ "prefix": "config rm", "who": "osd.0", "name": "osd_max_backfills" }));
    assert_eq!(cluster.plain(get("osd.0", "osd_max_backfills")), "3\n");
    let log = cluster.plain(json!({ "prefix": "config log", "num": 1 }));
    assert!(log.contains("- osd.0/osd_max_backfills = 5\n"), "{log}");
    let minimal = cluster.plain(json!({ "prefix": "config generate-minimal-conf" }));
    assert!(minimal.contains("mon_host = [v2:127.0.0.1:3300/0]"), "{minimal}");
}

#[test]
fn keys_blocklists_and_logs_keep_what_they_are_given() {
    let mut cluster = Cluster::healthy();
    let addr = "10.0.0.1:0/123";
    let block = |op: &str| json!({ "prefix": "osd blocklist", "blocklistop": op, "addr": addr, "expire": 100.0 });
    check(
        &mut cluster,
        &[
            (json!({ "prefix": "config-key set", "key": "a/b", "val": "v" }), 0, "set a/b"),
            (json!({ "prefix": "config-key exists", "key": "a/b" }), 0, "key 'a/b' exists"),
            (json!({ "prefix": "config-key exists", "key": "no" }), -2, "key 'no' doesn't exist"),
            (block("rm"), 0, "10.0.0.1:0/123 isn't blocklisted"),
            (
                block("add"),
                0,
                "blocklisting 10.0.0.1:0/123 until 2027-01-15T08:01:40.000000+0000 (100 sec)",
            ),
            (json!({ "prefix": "osd blocklist ls" }), 0, "listed 1 entries"),
            (
                json!({ "prefix": "osd blocklist", "blocklistop": "add", "addr": "nowhere" }),
                -22,
                "'nowhere' is no address, expected one such as 10.0.0.1:0/1234 or a range 10.0.0.0/24",
            ),
            (
                json!({ "prefix": "osd blocklist", "range": "range", "blocklistop": "add", "addr": "10.1.0.0/16", "expire": 10 }),
                0,
                "blocklisting cidr:10.1.0.0:0/16 until 2027-01-15T08:00:10.000000+0000 (10 sec)",
            ),
        ],
    );
    assert_eq!(cluster.plain(json!({ "prefix": "config-key get", "key": "a/b" })), "v");
    cluster.advance(std::time::Duration::from_secs(102));
    assert_eq!(cluster.json(json!({ "prefix": "osd blocklist ls" })), json!([]));
    cluster.command(json!({ "prefix": "log", "logtext": ["hello", "world"] }));
    let log = cluster.plain(json!({ "prefix": "log last", "num": 1 }));
    assert!(log.ends_with("client.admin (client.?) 0 : cluster [INF] hello world\n"), "{log}");
}

#[test]
fn health_is_muted_by_name() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd set", "key": "noout" }));
    assert_eq!(cluster.plain(json!({ "prefix": "health" })), "HEALTH_WARN noout flag(s) set\n");
    let mute = |code: &str| json!({ "prefix": "health mute", "code": code, "ttl": "10s" });
    assert_eq!(cluster.command(mute("NOT_RAISED")).result, -2);
    cluster.command(mute("OSDMAP_FLAGS"));
    assert_eq!(cluster.plain(json!({ "prefix": "health" })), "HEALTH_OK (muted: OSDMAP_FLAGS)\n");
    cluster.advance(std::time::Duration::from_secs(12));
    assert_eq!(cluster.plain(json!({ "prefix": "health" })), "HEALTH_WARN noout flag(s) set\n");
}

#[test]
fn a_mute_ends_with_its_check_unless_it_is_sticky() {
    for sticky in [false, true] {
        let mut cluster = Cluster::healthy();
        let flag = |verb: &str| json!({ "prefix": format!("osd {verb}"), "key": "noout" });
        cluster.command(flag("set"));
        let mute = json!({ "prefix": "health mute", "code": "OSDMAP_FLAGS", "sticky": sticky });
        cluster.command(mute);
        cluster.advance(std::time::Duration::from_secs(60));
        let is_muted = |cluster: &mut Cluster| {
            cluster.plain(json!({ "prefix": "health" })).contains("(muted: OSDMAP_FLAGS)")
        };
        assert!(is_muted(&mut cluster));
        cluster.command(flag("unset"));
        cluster.advance(std::time::Duration::from_secs(30));
        cluster.command(flag("set"));
        assert_eq!(is_muted(&mut cluster), sticky);
    }
}

#[test]
fn groups_are_listed_by_what_is_asked() {
    let mut cluster = with_data_pool();
    let all = cluster.json(json!({ "prefix": "pg ls" }));
    assert_eq!(all["pg_stats"].as_array().unwrap().len(), 8);
    let none = cluster.json(json!({ "prefix": "pg ls", "states": ["degraded"] }));
    assert_eq!(none["pg_stats"], json!([]));
    let wrong = cluster.command(json!({ "prefix": "pg ls", "states": ["perfect"] }));
    assert_eq!(wrong.result, -22);
    assert!(wrong.text.starts_with("'perfect' is not a valid pg state"), "{}", wrong.text);
    let count = |cluster: &mut Cluster, osd: i32| {
        let led = cluster.json(json!({ "prefix": "pg ls-by-primary", "osd": osd }));
        led["pg_stats"].as_array().unwrap().len()
    };
    assert_eq!((0..3).map(|osd| count(&mut cluster, osd)).sum::<usize>(), 8);
    let plain = cluster.plain(json!({ "prefix": "pg stat" }));
    assert!(
        plain.starts_with("8 pgs: 8 active+clean; 3.1 KiB data, 3 GiB used, 9 GiB / 12 GiB avail"),
        "{plain}"
    );
    let stop = json!({ "prefix": "osd ok-to-stop", "ids": ["0"] });
    assert_eq!(cluster.command(stop).result, 0);
    let stop = json!({ "prefix": "osd ok-to-stop", "ids": ["0", "1"] });
    assert_eq!(cluster.command(stop).result, -16);
}

#[test]
fn groups_are_stuck_once_they_were_not_clean_for_long() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    cluster.advance(std::time::Duration::from_secs(30));
    let stuck = |cluster: &mut Cluster, threshold: Option<u64>| {
        let command = json!({ "prefix": "pg dump_stuck", "threshold": threshold });
        cluster.json(command)["stuck_pg_stats"].as_array().unwrap().len()
    };
    assert_eq!(stuck(&mut cluster, None), 0);
    assert_eq!(stuck(&mut cluster, Some(20)), 8);
    cluster.advance(std::time::Duration::from_secs(31));
    assert_eq!(stuck(&mut cluster, None), 8);
}

#[test]
fn plain_dumps_of_groups_end_in_sums() {
    let mut cluster = with_data_pool();
    let sums = cluster.plain(json!({ "prefix": "pg dump", "dumpcontents": ["sum"] }));
    let rows: Vec<&str> = sums.lines().filter(|line| line.starts_with("sum ")).collect();
    assert_eq!(rows.len(), 2, "{sums}");
    assert!(rows[0].split_whitespace().nth(1) == Some("32"), "{sums}");
    let all = cluster.plain(json!({ "prefix": "pg dump" }));
    assert_eq!(all.lines().filter(|line| line.starts_with("sum ")).count(), 2, "{all}");
}

#[test]
fn who_holds_a_group_is_told_to_scrub_it() {
    let mut cluster = with_data_pool();
    for (verb, deep, repair) in
        [("scrub", false, false), ("deep-scrub", true, false), ("repair", true, true)]
    {
        let reply = cluster.command(json!({ "prefix": format!("pg {verb}"), "pgid": "1.0" }));
        assert_eq!(reply.result, 0, "{}", reply.text);
        let orders: Vec<ScrubOrder> =
            (0..3).flat_map(|osd| cluster.take(Cluster::osd_conn(osd))).collect();
        let [order] = &orders[..] else { panic!("only its primary is told: {orders:?}") };
        assert_eq!((order.deep, order.repair, order.pgs.len()), (deep, repair, 1));
    }
    let reply = cluster.command(json!({ "prefix": "osd deep-scrub", "who": "all" }));
    assert_eq!((reply.result, &reply.text[..]), (0, "instructed osd(s) 0,1,2 to deep-scrub"));
    for osd in 0..3 {
        let orders: Vec<ScrubOrder> = cluster.take(Cluster::osd_conn(osd));
        assert!(orders.iter().all(|order| order.deep && order.pgs.is_empty()));
        assert_eq!(orders.len(), 1);
    }
}

#[test]
fn a_fresh_cluster_is_healthy_and_objects_without_an_application_are_not() {
    let mut cluster = Cluster::healthy();
    let health = json!({ "prefix": "health" });
    assert_eq!(cluster.plain(health.clone()), "HEALTH_OK\n");
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    (0..3).for_each(|osd| cluster.report(osd, 0));
    assert_eq!(cluster.plain(health.clone()), "HEALTH_OK\n");
    (0..3).for_each(|osd| cluster.report(osd, 1));
    let expected = "HEALTH_WARN 1 pool(s) do not have an application enabled\n";
    assert_eq!(cluster.plain(health), expected);
}

#[test]
fn a_keyring_without_a_key_takes_none_away() {
    let mut cluster = Cluster::healthy();
    let keyring =
        b"[client.admin]\n\tcaps mon = \"allow *\"\n[client.y]\n\tcaps mon = \"allow r\"\n";
    let before = cluster.monitor.state().entities.clone();
    for command in [
        json!({ "prefix": "auth import" }),
        json!({ "prefix": "auth add", "entity": "client.y" }),
        json!({ "prefix": "auth get-or-create", "entity": "client.y" }),
    ] {
        let reply = cluster.command_on(ADMIN, &command, keyring);
        assert_eq!(reply.result, types::Errno::INVAL.negative(), "{command}");
    }
    assert_eq!(cluster.monitor.state().entities, before);
}
