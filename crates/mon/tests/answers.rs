//! Answers that tools and scripts parse: they equal those of Ceph 18.2.

mod cluster;

use cluster::{ADMIN, Cluster};
use engine::{ConnId, Daemon};
use serde_json::{Value, json};
use std::time::Duration;
use types::{Errno, OsdId, PgId, PoolId};
use wire::internal::{PgStat, ScrubOrder, pg_state};
use wire::{MessageBody, OsdPgTemp};

const CLIENT: ConnId = ConnId(ConnId::ACCEPTED + 7);

fn with_pool() -> Cluster {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({
        "prefix": "osd pool create", "pool": "data", "pg_num": 8, "autoscale_mode": "off",
    }));
    (0..3).for_each(|osd| cluster.report(osd, 4));
    cluster
}

/// The result and text of a command's reply.
fn said(cluster: &mut Cluster, command: Value) -> (i32, String) {
    let reply = cluster.command(command);
    (reply.result, reply.text)
}

fn refused(cluster: &mut Cluster, command: Value, errno: Errno) {
    let (result, text) = said(cluster, command.clone());
    assert_eq!(result, errno.negative(), "{command}: {text}");
    assert!(!text.is_empty(), "{command}");
}

fn checks(cluster: &mut Cluster) -> Value {
    cluster.json(json!({ "prefix": "health", "detail": "detail" }))["checks"].clone()
}

/// Whether all elements are closed in the right order.
fn is_well_formed(text: &str) -> bool {
    let mut open = Vec::new();
    for tag in text.split('<').skip(1) {
        let Some((tag, _)) = tag.split_once('>') else { return false };
        match tag.strip_prefix('/') {
            Some(name) if open.pop() != Some(name) => return false,
            Some(_) => {}
            None => open.push(tag),
        }
    }
    open.is_empty()
}

#[test]
fn answers_come_as_xml_and_in_an_unknown_format_as_text() {
    let mut cluster = with_pool();
    for (prefix, start) in [
        ("status", "<status><fsid>"),
        ("osd dump", "<osdmap><epoch>"),
        ("osd tree", "<tree><nodes><item><id>"),
        ("df", "<stats><stats><total_bytes>"),
        ("osd pool ls", "<pool_list><pool_name>data</pool_name>"),
    ] {
        let text = cluster.plain(json!({ "prefix": prefix, "format": "xml" }));
        assert!(text.starts_with(start) && is_well_formed(&text), "{prefix}: {text}");
        let text = cluster.plain(json!({ "prefix": prefix, "format": "xml-pretty" }));
        assert!(text.lines().count() > 2 && is_well_formed(&text), "{prefix}: {text}");
        let plain = cluster.plain(json!({ "prefix": prefix }));
        assert_eq!(cluster.plain(json!({ "prefix": prefix, "format": "yaml" })), plain);
    }
}

fn post(cluster: &mut Cluster, id: &str, day: u32) -> i32 {
    let report = json!({
        "crash_id": id,
        "timestamp": format!("2027-01-{day:02}T07:00:00.000000Z"),
        "entity_name": "osd.0",
        "utsname_hostname": "alpha",
    });
    let command = json!({ "prefix": "crash post" });
    cluster.command_on(ADMIN, &command, report.to_string().as_bytes()).result
}

#[test]
fn crashes_are_kept_told_and_archived() {
    // The cluster's time is the 15th of January.
    let mut cluster = Cluster::healthy();
    assert_eq!((post(&mut cluster, "new", 15), post(&mut cluster, "old", 1)), (0, 0));
    assert_eq!(checks(&mut cluster)["RECENT_CRASH"]["summary"]["count"], 1, "the older is no news");
    let ids = |listed: Value| -> Vec<String> {
        let one = |crash: &Value| crash["crash_id"].as_str().unwrap().to_owned();
        listed.as_array().unwrap().iter().map(one).collect()
    };
    assert_eq!(ids(cluster.json(json!({ "prefix": "crash ls" }))), ["old", "new"]);
    let stat = cluster.plain(json!({ "prefix": "crash stat" }));
    assert!(stat.starts_with("2 crashes recorded\n1 older than 1 days old:\nold\n"), "{stat}");
    assert_eq!(said(&mut cluster, json!({ "prefix": "crash archive", "id": "new" })).0, 0);
    assert_eq!(checks(&mut cluster)["RECENT_CRASH"], Value::Null);
    assert_eq!(post(&mut cluster, "new", 15), 0, "a report that is posted again is not new again");
    assert_eq!(ids(cluster.json(json!({ "prefix": "crash ls-new" }))), ["old"]);
    cluster.command(json!({ "prefix": "crash prune", "keep": 7 }));
    assert_eq!(ids(cluster.json(json!({ "prefix": "crash ls" }))), ["new"]);
    let missing = said(&mut cluster, json!({ "prefix": "crash info", "id": "old" }));
    assert_eq!(missing, (0, "crash info: old not found".to_owned()));
    cluster.command(json!({ "prefix": "crash rm", "id": "new" }));
    assert_eq!(cluster.json(json!({ "prefix": "crash ls" })), json!([]));
}

#[test]
fn crashes_are_bounded_in_number_and_size_and_nonsense_is_none() {
    let mut cluster = Cluster::healthy();
    for number in 0..210 {
        assert_eq!(post(&mut cluster, &format!("c{number:03}"), 2 + number / 20), 0);
    }
    let kept = cluster.json(json!({ "prefix": "crash ls" }));
    assert_eq!((kept.as_array().unwrap().len(), &kept[0]["crash_id"]), (200, &json!("c010")));
    let whole =
        json!({ "crash_id": "x", "timestamp": "2027-01-01T00:00:00Z", "entity_name": "osd.0" });
    for wrong in [
        String::new(),
        "[]".to_owned(),
        whole.to_string().replace("osd.0", ""),
        whole.to_string().replace("2027-01", "yesterday"),
        whole.to_string().replace("osd.0", &"x".repeat(70_000)),
    ] {
        let command = json!({ "prefix": "crash post" });
        let reply = cluster.command_on(ADMIN, &command, wrong.as_bytes());
        assert!(reply.result < 0 && !reply.text.is_empty(), "{reply:?}");
    }
}

#[test]
fn a_pool_is_scrubbed_by_one_order_for_each_primary() {
    let mut cluster = with_pool();
    let command = json!({ "prefix": "osd pool deep-scrub", "who": ["data"] });
    assert_eq!(said(&mut cluster, command), (0, String::new()));
    let mut groups = 0;
    for osd in 0..3 {
        let orders: Vec<ScrubOrder> = cluster.take(Cluster::osd_conn(osd));
        assert!(orders.len() <= 1 && orders.iter().all(|order| order.deep && !order.repair));
        groups += orders.iter().map(|order| order.pgs.len()).sum::<usize>();
    }
    assert_eq!(groups, 8);
    refused(&mut cluster, json!({ "prefix": "osd pool scrub", "who": ["none"] }), Errno::NOENT);
}

#[test]
fn recovery_that_needs_no_force_says_so_for_each_group() {
    let mut cluster = with_pool();
    let (result, text) =
        said(&mut cluster, json!({ "prefix": "osd pool force-recovery", "who": "data" }));
    assert_eq!((result, text.matches("doesn't require recovery; ").count()), (0, 8), "{text}");
    let (_, text) =
        said(&mut cluster, json!({ "prefix": "pg cancel-force-backfill", "pgid": "1.0" }));
    assert_eq!(text, "pg 1.0 backfill not forced; ");
    for prefix in ["pg force-recovery", "pg cancel-force-backfill", "pg repeer"] {
        refused(&mut cluster, json!({ "prefix": prefix, "pgid": "99.1" }), Errno::NOENT);
    }
}

#[test]
fn a_uuid_belongs_to_one_osd_and_a_secret_to_one_uuid() {
    let mut cluster = Cluster::healthy();
    let new = |id: i32| json!({ "prefix": "osd new", "uuid": "11111111-2222-3333-4444-555555555555", "id": id });
    let secret = |text: &str| json!({ "cephx_secret": text }).to_string();
    let (one, other) = (
        secret("AQCe3m1pAAAAABAAMDEyMzQ1Njc4OWFiY2RlZg=="),
        secret("AQCe3m1pAAAAABAAMDEyMzQ1Njc4OWFiY2RlZw=="),
    );
    let mut ask = |id, input: &str| cluster.command_on(ADMIN, &new(id), input.as_bytes());
    assert_eq!(&ask(7, &one).output[..], b"7\n");
    assert_eq!((ask(7, "").result, ask(7, &one).result), (0, 0));
    assert_eq!(ask(8, "").result, Errno::EXIST.negative());
    assert_eq!(ask(7, &other).result, Errno::EXIST.negative());
}

#[test]
fn an_osd_that_runs_is_busy_before_anybody_is_asked_to_be_sure() {
    let mut cluster = Cluster::healthy();
    for verb in ["destroy", "purge"] {
        let command = |id: i32| json!({ "prefix": format!("osd {verb}"), "id": id });
        refused(&mut cluster, command(0), Errno::BUSY);
        let absent = (0, "osd.77 does not exist".to_owned());
        assert_eq!(said(&mut cluster, command(77)), absent);
        cluster.command(json!({ "prefix": "osd down", "ids": "0" }));
        refused(&mut cluster, command(0), Errno::PERM);
        cluster.boot_as(0, 5);
    }
    cluster.command(json!({ "prefix": "osd down", "ids": "0" }));
    refused(
        &mut cluster,
        json!({ "prefix": "osd purge-new", "id": 0, "force": true }),
        Errno::PERM,
    );
}

#[test]
fn ratios_out_of_order_are_told_by_health() {
    let mut cluster = Cluster::healthy();
    let set = json!({ "prefix": "osd set-full-ratio", "ratio": 0.8 });
    assert_eq!(said(&mut cluster, set), (0, "osd set-full-ratio 0.8".to_owned()));
    assert_eq!(checks(&mut cluster)["OSD_OUT_OF_ORDER_FULL"]["severity"], "HEALTH_ERR");
    cluster.command(json!({ "prefix": "osd set-full-ratio", "ratio": 0.95 }));
    assert_eq!(checks(&mut cluster)["OSD_OUT_OF_ORDER_FULL"], Value::Null);
}

#[test]
fn exceptions_in_the_map_and_the_clients_that_understand_them_go_together() {
    let mut cluster = with_pool();
    let acting = cluster.json(json!({ "prefix": "pg map", "pgid": "1.0" }))["acting"].clone();
    let turned: Vec<String> =
        acting.as_array().unwrap().iter().rev().map(|osd| osd.to_string()).collect();
    let upmap = json!({ "prefix": "osd pg-upmap", "pgid": "1.0", "id": turned });
    let allow = |release: &str| json!({ "prefix": "osd set-require-min-compat-client", "version": release });
    assert_eq!(said(&mut cluster, allow("jewel")).0, 0);
    refused(&mut cluster, upmap.clone(), Errno::PERM);
    cluster.command(json!({ "prefix": "balancer on" }));
    cluster.advance(Duration::from_secs(70));
    let status = cluster.json(json!({ "prefix": "balancer status" }));
    assert!(status["optimize_result"].as_str().unwrap().contains("luminous"), "{status}");
    assert_eq!(said(&mut cluster, allow("luminous")).0, 0);
    assert_eq!(said(&mut cluster, upmap).0, 0);
    refused(&mut cluster, allow("jewel"), Errno::PERM);
}

/// An acting set may name an OSD only once, and no more OSDs than any pool has copies.
#[test]
fn sets_of_members_name_each_once_and_no_more_than_the_pool_has_copies() {
    let mut cluster = with_pool();
    (3..12).for_each(|osd| cluster.boot(osd));
    let pg = PgId { pool: PoolId(1), seed: 0 };
    let known = |cluster: &Cluster| cluster.monitor.state().osdmap.pg_temp.get(&pg).cloned();
    for prefix in ["osd pg-temp", "osd pg-upmap"] {
        let set = |ids: &[&str]| json!({ "prefix": prefix, "pgid": "1.0", "id": ids });
        refused(&mut cluster, set(&["0", "1", "2", "3"]), Errno::INVAL);
        refused(&mut cluster, set(&["1", "2", "1"]), Errno::INVAL);
        assert_eq!(said(&mut cluster, set(&["1", "2"])).0, 0);
    }
    let chosen = Some(vec![OsdId(1), OsdId(2)]);
    assert_eq!(known(&cluster), chosen);
    for osds in [vec![0, 0], (0..12).collect()] {
        let pg_temp = [(pg, osds.into_iter().map(OsdId).collect())].into();
        let wish = OsdPgTemp { map_epoch: cluster.epoch(), pg_temp, ..OsdPgTemp::default() };
        cluster.send(Cluster::osd_conn(1), 0, &wish);
        cluster.advance(Duration::from_secs(2));
        assert_eq!(known(&cluster), chosen);
    }
    // The OSD has booted since.
    let (pg_temp, map_epoch) = ([(pg, vec![OsdId(2)])].into(), cluster.epoch());
    cluster.boot_as(1, 77);
    cluster.send(
        Cluster::osd_conn(1),
        0,
        &OsdPgTemp { map_epoch, pg_temp, ..OsdPgTemp::default() },
    );
    cluster.advance(Duration::from_secs(2));
    assert_eq!(known(&cluster), chosen);
}

#[test]
fn a_bucket_takes_the_place_of_another_one() {
    let mut cluster = Cluster::healthy();
    let add = |name: &str, args: &[&str]| json!({ "prefix": "osd crush add-bucket", "name": name, "type": "host", "args": args });
    assert_eq!(said(&mut cluster, add("inside", &["root=default"])).0, 0);
    assert_eq!(said(&mut cluster, add("outside", &[])).0, 0);
    let swap = |source: &str, dest: &str| json!({ "prefix": "osd crush swap-bucket", "source": source, "dest": dest });
    for (source, dest, errno) in [
        ("none", "inside", Errno::NOENT),
        ("outside", "none", Errno::NOENT),
        ("inside", "outside", Errno::PERM),
    ] {
        refused(&mut cluster, swap(source, dest), errno);
    }
    let below = |cluster: &mut Cluster| {
        let list = cluster.json(json!({ "prefix": "osd crush ls", "node": "default" }));
        list.as_array().unwrap().contains(&json!("outside"))
    };
    assert!(!below(&mut cluster));
    let done = (0, "swapped bucket of outside to inside".to_owned());
    assert_eq!(said(&mut cluster, swap("outside", "inside")), done);
    assert!(below(&mut cluster));
}

#[test]
fn a_pool_that_has_had_snapshots_becomes_no_tier() {
    let mut cluster = with_pool();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "tier", "pg_num": 8 }));
    let add = json!({ "prefix": "osd tier add", "pool": "data", "tierpool": "tier" });
    refused(&mut cluster, add.clone(), Errno::NOTSUPP);
    cluster.command(json!({ "prefix": "osd pool mksnap", "pool": "tier", "snap": "s" }));
    refused(&mut cluster, add, Errno::NOTEMPTY);
}

#[test]
fn contradictions_are_refused() {
    let mut cluster = with_pool();
    for command in [
        json!({ "prefix": "osd set", "key": "full" }),
        json!({ "prefix": "osd tree", "states": ["up", "down"] }),
        json!({ "prefix": "osd tree", "states": ["in", "out"] }),
        json!({ "prefix": "osd df", "filter": "nonsense" }),
        json!({ "prefix": "osd info", "id": 77 }),
        json!({ "prefix": "osd reweight-by-pg", "oload": 100 }),
        json!({ "prefix": "osd pool set threshold", "num": 0.5 }),
        json!({ "prefix": "mon feature set", "feature_name": "nonsense" }),
    ] {
        refused(&mut cluster, command, Errno::INVAL);
    }
    refused(&mut cluster, json!({ "prefix": "pg ls-by-osd", "osd": 77 }), Errno::AGAIN);
    refused(&mut cluster, json!({ "prefix": "osd set-allow-crimson" }), Errno::PERM);
}

#[test]
fn texts_are_those_that_scripts_know() {
    let mut cluster = with_pool();
    let dump = cluster.plain(json!({ "prefix": "osd dump" }));
    let line = cluster.plain(json!({ "prefix": "osd info", "id": 1 }));
    assert!(line.starts_with("osd.1 up ") && dump.contains(&line), "{line}");
    for (command, text) in [
        (json!({ "prefix": "osd add-noup", "ids": "0" }), ""),
        (json!({ "prefix": "osd rm-noup", "ids": "all" }), ""),
        (json!({ "prefix": "osd add-noin", "ids": "77" }), "osd.77 does not exist. "),
        (
            json!({ "prefix": "osd set-group", "flags": "noout", "who": "osd.77" }),
            "osd.77 does not exist. ",
        ),
        (json!({ "prefix": "osd pool get noautoscale" }), "noautoscale is off"),
        (
            json!({ "prefix": "mgr fail", "who": "nobody" }),
            "Daemon not found 'nobody', already failed?",
        ),
        (
            json!({ "prefix": "mgr module disable", "module": "x" }),
            "module 'x' is already disabled",
        ),
        (
            json!({ "prefix": "mgr module enable", "module": "crash" }),
            "module 'crash' is already enabled (always-on)",
        ),
        (
            json!({ "prefix": "osd tier rm", "pool": "data", "tierpool": "data" }),
            "pool 'data' is now (or already was) not a tier of 'data'",
        ),
    ] {
        assert_eq!(said(&mut cluster, command.clone()), (0, text.to_owned()), "{command}");
    }
    let name = "n".repeat(512);
    assert_eq!(said(&mut cluster, json!({ "prefix": "osd pool create", "pool": name })).0, 0);
    refused(&mut cluster, json!({ "prefix": "osd pool create", "pool": name + "n" }), Errno::INVAL);
}

#[test]
fn modules_that_are_always_on_are_listed_and_stay() {
    let mut cluster = Cluster::healthy();
    let list = cluster.json(json!({ "prefix": "mgr module ls" }));
    let modules = list["always_on_modules"].as_array().unwrap().clone();
    assert!(modules.contains(&json!("balancer")), "{list}");
    let dump = cluster.json(json!({ "prefix": "mgr dump" }));
    assert_eq!(dump["always_on_modules"]["reef"], json!(modules));
    refused(
        &mut cluster,
        json!({ "prefix": "mgr module disable", "module": "crash" }),
        Errno::INVAL,
    );
    refused(
        &mut cluster,
        json!({ "prefix": "mgr module enable", "module": "dashboard" }),
        Errno::NOENT,
    );
}

#[test]
fn pools_that_are_not_scrubbed_are_told() {
    let mut cluster = with_pool();
    cluster
        .command(json!({ "prefix": "osd pool set", "pool": "data", "var": "noscrub", "val": "1" }));
    let checks = checks(&mut cluster);
    assert_eq!(checks["POOL_SCRUB_FLAGS"]["detail"][0]["message"], "Pool data has noscrub flag");
}

#[test]
fn reports_and_metadata_have_the_fields_of_ceph() {
    let mut cluster = with_pool();
    let facts = [("distro".to_owned(), "debian".to_owned())];
    cluster.monitor.describe_host(facts.into());
    let report = cluster.json(json!({ "prefix": "report" }));
    for field in
        ["osd_metadata", "osd_sum_by_class", "num_pg_by_osd", "paxos", "pool_stats", "quorum"]
    {
        assert!(!report[field].is_null(), "{field}");
    }
    assert_eq!((&report["num_pg"], &report["num_pg_active"]), (&json!(8), &json!(8)));
    let metadata = cluster.json(json!({ "prefix": "mgr metadata", "who": "x" }));
    assert_eq!((&metadata["distro"], &metadata["name"]), (&json!("debian"), &json!("x")));
    let metadata = cluster.json(json!({ "prefix": "mon metadata", "id": "a" }));
    assert!(metadata["created_at"].as_str().unwrap().starts_with("2027-01-15"), "{metadata}");
}

#[test]
fn a_ping_is_answered_with_health_and_quorum() {
    let mut cluster = Cluster::healthy();
    let message = engine::Message::new(wire::Ping::KIND, 1, 1, bytes::Bytes::new());
    cluster.monitor.handle_message(cluster.now, ADMIN, message);
    cluster.drain();
    let is_answer = |(to, message): &&(ConnId, engine::Message)| {
        *to == ADMIN && message.kind == wire::Ping::KIND
    };
    let (_, answer) = cluster.sent.iter().find(is_answer).unwrap();
    let text = &answer.front[4..];
    let value: Value = serde_json::from_slice(text).unwrap();
    assert_eq!(value["mon_status"]["state"], "leader");
    assert!(value["health"]["status"].is_string());
}

fn task(cluster: &mut Cluster, image: &str) -> Value {
    cluster.json(json!({ "prefix": "rbd task add flatten", "image_spec": image }))
}

#[test]
fn a_request_that_was_sent_again_finds_the_task_that_is_done() {
    let mut cluster = with_pool();
    let first = task(&mut cluster, "data/image");
    cluster.json(json!({ "prefix": "rbd task take", "worker": "w" }));
    let events = cluster.json(json!({ "prefix": "progress json" }));
    assert_eq!(events["events"][0]["message"], "Flattening image data/image");
    let status = cluster.json(json!({ "prefix": "status" }));
    assert_eq!(status["progress_events"][first["id"].as_str().unwrap()]["progress"], 0);
    let done = json!({ "prefix": "rbd task report", "worker": "w", "task_id": first["id"], "state": "done" });
    cluster.json(done);
    assert_eq!(task(&mut cluster, "data/image")["id"], first["id"]);
    assert_eq!(cluster.json(json!({ "prefix": "rbd task list" })), json!([]));
    cluster.advance(Duration::from_secs(61));
    assert_ne!(task(&mut cluster, "data/image")["id"], first["id"], "it is meant anew");
}

#[test]
fn tasks_of_other_pools_are_hidden() {
    let mut cluster = with_pool();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "other", "pg_num": 8 }));
    let (own, foreign) = (task(&mut cluster, "data/a"), task(&mut cluster, "other/b"));
    cluster.open_with(CLIENT, "client.x", 9, "Gprofile rbd pool=data");
    let mut ask = |command: Value| {
        let (fsid, command) = (cluster.monitor.fsid(), vec![command.to_string()]);
        cluster.send(CLIENT, 3, &wire::MgrCommand { fsid, command, input: bytes::Bytes::new() });
        cluster.take::<wire::MgrCommandReply>(CLIENT).remove(0)
    };
    let listed = ask(json!({ "prefix": "rbd task list", "format": "json" }));
    assert_eq!(listed.result, 0, "{}", listed.text);
    let listed: Value = serde_json::from_slice(&listed.output).unwrap();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &own["id"]));
    let id = &foreign["id"];
    for prefix in ["rbd task list", "rbd task cancel"] {
        assert_eq!(ask(json!({ "prefix": prefix, "task_id": id })).result, Errno::NOENT.negative());
    }
    assert_eq!(ask(json!({ "prefix": "rbd task cancel", "task_id": own["id"] })).result, 0);
}

#[test]
fn worker_commands_are_not_announced_and_schedules_are_judged_on_removal() {
    let mut cluster = with_pool();
    let announced = cluster.json(json!({ "prefix": "get_command_descriptions" })).to_string();
    assert!(announced.contains("\"cancel\"") && !announced.contains("for workers"));
    let remove = |interval: &str| json!({ "prefix": "rbd trash purge schedule remove", "level_spec": "data/", "interval": interval });
    refused(&mut cluster, remove("often"), Errno::INVAL);
    assert_eq!(said(&mut cluster, remove("1h")).0, 0);
}

#[test]
fn health_and_tables_say_what_deep_scrubs_found_of_omaps() {
    let mut cluster = with_pool();
    let clean = PgStat {
        state: pg_state::ACTIVE | pg_state::CLEAN,
        objects: 4,
        bytes: 400,
        omap_keys: 10,
        omap_bytes: 100,
        ..PgStat::default()
    };
    let with_large = |seed: u32, large_omaps: u64| {
        let clean = clean.clone();
        move |pg: PgId| match pg.seed == seed {
            true => PgStat { large_omaps, ..clean.clone() },
            false => clean.clone(),
        }
    };
    let first = PgId { pool: PoolId(1), seed: 0 };
    (0..3).for_each(|osd| cluster.report_groups(osd, 3 << 30, with_large(first.seed, 2)));
    let check = &checks(&mut cluster)["LARGE_OMAP_OBJECTS"];
    let summary = json!({ "message": "2 large omap objects", "count": 2 });
    assert_eq!((&check["severity"], &check["summary"]), (&json!("HEALTH_WARN"), &summary));
    let detail = [
        "2 large objects found in pool 'data'",
        "Search the cluster log for 'Large omap object found' for more details.",
    ];
    let detail = detail.map(|message| json!({ "message": message }));
    assert_eq!(check["detail"], json!(detail));
    let pool = cluster.json(json!({ "prefix": "df", "detail": "detail" }))["pools"][0].clone();
    let groups = cluster.monitor.state().osdmap.pool(PoolId(1)).unwrap().pg_num as u64;
    let stats = &pool["stats"];
    assert_eq!(
        (&stats["stored_omap"], &stats["stored"]),
        (&json!(100 * groups), &json!(500 * groups))
    );
    assert_eq!(stats["omap_bytes_used"], json!(300 * groups));
    (0..3).for_each(|osd| cluster.report_groups(osd, 3 << 30, with_large(first.seed, 0)));
    assert!(checks(&mut cluster)["LARGE_OMAP_OBJECTS"].is_null());
}
