//! Commands on a file system in memory, also such that end in the middle.

use crate::fake::Fake;
use crate::procedure::Procedure;
use serde_json::{Value, json};
use types::Errno;

/// More requests than any command of these tests has.
const REQUESTS_MAX: usize = 200;
const SUBVOLUME: [(&str, &str); 2] = [("sub_name", "a"), ("group_name", "")];
const SNAPSHOT: [(&str, &str); 2] = [("sub_name", "a"), ("snap_name", "s")];
const CLONE: [(&str, &str); 3] = [("sub_name", "a"), ("snap_name", "s"), ("target_sub_name", "c")];

fn path(fake: &mut Fake, name: &str) -> String {
    let told = fake.ask("fs subvolume getpath", &[("sub_name", name)]).unwrap();
    told.strip_prefix('/').unwrap().to_owned()
}

/// A subvolume with some content.
fn filled() -> Fake {
    let mut fake = Fake::new();
    fake.ask("fs subvolume create", &SUBVOLUME).unwrap();
    let path = path(&mut fake, "a");
    for name in ["x", "y", "z", "w", "v"] {
        fake.put(&format!("{path}/{name}"), &format!("content of {name}"));
    }
    fake.make_directory(&format!("{path}/d"));
    fake.put(&format!("{path}/d/deep"), "deep");
    fake
}

/// Names and contents below a directory.
fn contents(fake: &Fake, directory: &str) -> Vec<(String, Vec<u8>, u32)> {
    let prefix = format!("{directory}/");
    let below = fake.nodes.iter().filter_map(|(path, node)| {
        Some((path.strip_prefix(&prefix)?.to_owned(), node.data.clone(), node.stat.mode))
    });
    below.filter(|(path, ..)| !path.starts_with('/')).collect()
}

#[test]
fn a_group_is_made_listed_and_removed_when_it_is_empty() {
    let mut fake = Fake::new();
    let group = [("group_name", "g"), ("size", "100"), ("mode", "700")];
    assert_eq!(fake.ask("fs subvolumegroup rm", &group), Err(Errno::NOENT));
    fake.ask("fs subvolumegroup create", &group).unwrap();
    fake.ask("fs subvolumegroup create", &group).unwrap();
    assert_eq!(fake.ask("fs subvolumegroup getpath", &group).unwrap(), "/volumes/g");
    let stat = &fake.nodes["volumes/g"].stat;
    assert_eq!((stat.mode & 0o7777, stat.quota.max_bytes), (0o700, 100));
    let member = [("group_name", "g"), ("sub_name", "a")];
    fake.ask("fs subvolume create", &member).unwrap();
    assert_eq!(fake.ask("fs subvolumegroup rm", &group), Err(Errno::NOTEMPTY));
    fake.ask("fs subvolume rm", &member).unwrap();
    fake.ask("fs subvolumegroup rm", &group).unwrap();
    assert_eq!(fake.ask("fs subvolumegroup ls", &[]).unwrap(), "[]");
    let internal = [("group_name", "_deleting")];
    assert_eq!(fake.ask("fs subvolumegroup create", &internal), Err(Errno::INVAL));
}

#[test]
fn a_creation_that_ends_anywhere_can_be_repeated() {
    let arguments = [("sub_name", "a"), ("size", "100"), ("mode", "700"), ("pool_layout", "fast")];
    for most in 0..REQUESTS_MAX {
        let mut fake = Fake::new();
        if fake.some_of(most, "fs subvolume create", &arguments).is_some() {
            assert!(most > 10, "a creation takes more than {most} requests");
            return;
        }
        let listed = fake.ask("fs subvolume getpath", &[("sub_name", "a")]);
        assert!(listed.is_ok() || listed == Err(Errno::NOENT), "after {most}: {listed:?}");
        fake.ask("fs subvolume create", &arguments).unwrap();
        let path = path(&mut fake, "a");
        let stat = &fake.nodes[&path].stat;
        let found = (stat.mode & 0o7777, stat.quota.max_bytes, stat.layout.pool.0);
        assert_eq!(found, (0o700, 100, 6), "after {most}");
        let contents = fake.nodes.keys().filter(|known| known.starts_with("volumes/_nogroup/a/"));
        let left: Vec<&String> = contents.collect();
        assert_eq!(left.len(), 2, "nothing is left of the first attempt: {left:?}");
    }
    panic!("a creation ends");
}

#[test]
fn a_removed_subvolume_is_gone_at_once_and_its_content_later() {
    let mut fake = filled();
    fake.ask("fs subvolume rm", &SUBVOLUME).unwrap();
    assert_eq!(fake.ask("fs subvolume getpath", &SUBVOLUME), Err(Errno::NOENT));
    assert_eq!(fake.ask("fs subvolume rm", &SUBVOLUME), Err(Errno::NOENT));
    fake.ask("fs subvolume rm", &[("sub_name", "a"), ("force", "true")]).unwrap();
    // A deletion that ends again and again comes to its end.
    for most in 1..REQUESTS_MAX {
        fake.work(most);
        if contents(&fake, "volumes/_deleting").is_empty() {
            assert!(most > 2);
            return;
        }
    }
    panic!("the trash is emptied");
}

#[test]
fn a_snapshot_keeps_its_subvolume_unless_it_is_retained() {
    let mut fake = filled();
    fake.ask("fs subvolume snapshot create", &SNAPSHOT).unwrap();
    fake.ask("fs subvolume snapshot create", &SNAPSHOT).unwrap();
    assert_eq!(fake.ask("fs subvolume rm", &SUBVOLUME), Err(Errno::NOTEMPTY));
    fake.ask("fs subvolume rm", &[("sub_name", "a"), ("retain_snapshots", "true")]).unwrap();
    assert_eq!(fake.ask("fs subvolume getpath", &SUBVOLUME), Err(Errno::NOENT));
    let info = fake.ask("fs subvolume info", &SUBVOLUME).unwrap();
    assert!(info.contains("\"state\": \"snapshot-retained\""), "{info}");
    fake.work(usize::MAX);
    assert!(contents(&fake, "volumes/_nogroup/a/.trash").is_empty());
    // It can be made anew, and the snapshot is still there.
    fake.ask("fs subvolume create", &SUBVOLUME).unwrap();
    let listed = fake.ask("fs subvolume snapshot ls", &SUBVOLUME).unwrap();
    assert!(listed.contains("\"name\": \"s\""), "{listed}");
    fake.ask("fs subvolume rm", &[("sub_name", "a"), ("retain_snapshots", "true")]).unwrap();
    fake.ask("fs subvolume snapshot rm", &SNAPSHOT).unwrap();
    assert_eq!(fake.ask("fs subvolume info", &SUBVOLUME), Err(Errno::NOENT));
}

#[test]
fn a_clone_that_ends_anywhere_is_completed_and_has_the_content_of_the_snapshot() {
    for most in 0..REQUESTS_MAX {
        let mut fake = filled();
        let source = path(&mut fake, "a");
        let expected = contents(&fake, &source);
        fake.ask("fs subvolume snapshot create", &SNAPSHOT).unwrap();
        fake.put(&format!("{source}/x"), "changed");
        fake.ask("fs subvolume snapshot clone", &CLONE).unwrap();
        assert_eq!(fake.ask("fs subvolume snapshot clone", &CLONE), Err(Errno::EXIST));
        assert_eq!(fake.ask("fs subvolume getpath", &[("sub_name", "c")]), Err(Errno::AGAIN));
        assert_eq!(fake.ask("fs subvolume snapshot rm", &SNAPSHOT), Err(Errno::AGAIN));
        fake.work(most);
        let was_completed = contents(&fake, "volumes/_index/clone").is_empty();
        fake.work(usize::MAX);
        let clone = path(&mut fake, "c");
        assert_eq!(contents(&fake, &clone), expected, "after {most}");
        let status = fake.ask("fs clone status", &[("clone_name", "c")]).unwrap();
        assert!(status.contains("\"state\": \"complete\""), "after {most}: {status}");
        fake.ask("fs subvolume snapshot rm", &SNAPSHOT).unwrap();
        if was_completed {
            assert!(most > 20, "a copy takes more than {most} requests");
            return;
        }
    }
    panic!("a copy ends");
}

#[test]
fn a_cancelled_clone_lets_its_snapshot_go_and_is_removed_by_force() {
    let mut fake = filled();
    fake.ask("fs subvolume snapshot create", &SNAPSHOT).unwrap();
    fake.ask("fs subvolume snapshot clone", &CLONE).unwrap();
    fake.work(20);
    let clone = [("clone_name", "c")];
    fake.ask("fs clone cancel", &clone).unwrap();
    assert_eq!(fake.ask("fs clone cancel", &clone), Err(Errno::INVAL));
    let status = fake.ask("fs clone status", &clone).unwrap();
    assert!(status.contains("\"state\": \"canceled\""), "{status}");
    fake.work(usize::MAX);
    assert_eq!(fake.ask("fs subvolume rm", &[("sub_name", "c")]), Err(Errno::AGAIN));
    fake.ask("fs subvolume rm", &[("sub_name", "c"), ("force", "true")]).unwrap();
    fake.ask("fs subvolume snapshot rm", &SNAPSHOT).unwrap();
    fake.ask("fs subvolume rm", &SUBVOLUME).unwrap();
}

#[test]
fn an_entity_is_noted_on_both_sides_before_it_gets_its_capabilities() {
    let mut fake = filled();
    let alice = [("sub_name", "a"), ("auth_id", "alice"), ("access_level", "r")];
    assert_eq!(fake.ask("fs subvolume authorize", &alice).unwrap(), "key");
    assert!(fake.commands[1].contains("allow r path=/volumes/_nogroup/a/"), "{:?}", fake.commands);
    assert!(fake.commands[1].contains("allow r pool=data"), "{:?}", fake.commands);
    assert!(fake.nodes.contains_key("volumes/$alice.meta"));
    assert!(fake.nodes.contains_key("volumes/_:a.meta"));
    let listed = fake.ask("fs subvolume authorized_list", &SUBVOLUME).unwrap();
    assert!(listed.contains("\"alice\": \"r\""), "{listed}");
    fake.ask("fs subvolume deauthorize", &alice).unwrap();
    fake.ask("fs subvolume deauthorize", &alice).unwrap();
    assert!(!fake.nodes.contains_key("volumes/$alice.meta"));
    let admin = [("sub_name", "a"), ("auth_id", "admin")];
    assert_eq!(fake.ask("fs subvolume authorize", &admin), Err(Errno::INVAL));
}

#[test]
fn keys_and_values_of_users_are_kept_and_a_damaged_file_is_told() {
    let mut fake = filled();
    let key = [("sub_name", "a"), ("key_name", "Owner"), ("value", "some one")];
    fake.ask("fs subvolume metadata set", &key).unwrap();
    assert_eq!(fake.ask("fs subvolume metadata get", &key).unwrap(), "some one");
    fake.ask("fs subvolume metadata rm", &key).unwrap();
    assert_eq!(fake.ask("fs subvolume metadata get", &key), Err(Errno::NOENT));
    let bad = [("sub_name", "a"), ("key_name", "a=b"), ("value", "")];
    assert_eq!(fake.ask("fs subvolume metadata set", &bad), Err(Errno::INVAL));
    fake.put("volumes/_nogroup/a/.meta", "damage");
    assert_eq!(fake.ask("fs subvolume info", &SUBVOLUME), Err(Errno::INVAL));
}

/// The capabilities that the last command to the monitors has set.
fn last_caps(fake: &Fake) -> Value {
    let command: Value = serde_json::from_str(fake.commands.last().unwrap()).unwrap();
    assert_eq!(command["prefix"], "auth caps");
    command["caps"].clone()
}

#[test]
fn an_entity_loses_its_rights_at_one_subvolume_and_keeps_all_others() {
    let mut fake = filled();
    let alice = [("sub_name", "a"), ("auth_id", "alice")];
    fake.ask("fs subvolume authorize", &alice).unwrap();
    let mds = format!("allow rw path=/{}", path(&mut fake, "a"));
    let old = "allow r path=/volumes/_nogroup/a/old";
    let (other, osd) =
        ("allow rw path=/volumes/_nogroup/ab", "allow rw pool=data, allow r pool=data");
    let all = format!("{mds}, {old}, {other}");
    fake.caps = Some(json!({ "mds": all, "mgr": "allow r", "mon": "allow r", "osd": osd }));
    let mut copy = fake.clone();
    fake.ask("fs subvolume deauthorize", &alice).unwrap();
    let left = ["mds", other, "mgr", "allow r", "mon", "allow r", "osd", "allow rw pool=data"];
    assert_eq!(last_caps(&fake), json!(left));
    copy.caps = Some(json!({ "mds": mds, "mon": "allow r", "osd": "allow rw pool=data" }));
    copy.ask("fs subvolume deauthorize", &alice).unwrap();
    assert!(copy.commands.last().unwrap().contains("auth rm"), "{:?}", copy.commands);
}

#[test]
fn a_subvolume_without_content_is_not_taken_for_the_root() {
    let mut fake = filled();
    let alice = [("sub_name", "a"), ("auth_id", "alice")];
    fake.ask("fs subvolume authorize", &alice).unwrap();
    let mds = format!("allow rw path=/, allow rw path=/{}", path(&mut fake, "a"));
    let osd = "allow rw pool=data, allow rw pool=fast namespace=fsvolumens_a";
    fake.caps = Some(json!({ "mds": mds, "osd": osd }));
    fake.ask("fs subvolume snapshot create", &SNAPSHOT).unwrap();
    fake.ask("fs subvolume rm", &[("sub_name", "a"), ("retain_snapshots", "true")]).unwrap();
    let before = fake.commands.len();
    assert_eq!(fake.ask("fs subvolume authorize", &alice), Err(Errno::NOENT));
    assert_eq!(fake.ask("fs subvolume evict", &alice), Err(Errno::NOENT));
    assert_eq!(fake.commands.len(), before);
    fake.ask("fs subvolume deauthorize", &alice).unwrap();
    let left = ["mds", "allow rw path=/", "osd", "allow rw pool=data"];
    assert_eq!(last_caps(&fake), json!(left));
}

#[test]
fn names_that_are_too_long_are_refused_and_such_subvolumes_can_be_removed() {
    let mut fake = filled();
    for (length, expected) in [(244, Ok(String::new())), (245, Err(Errno::NAMETOOLONG))] {
        let name = "n".repeat(length);
        assert_eq!(fake.ask("fs subvolume create", &[("sub_name", &name)]), expected);
    }
    let name = "n".repeat(255);
    let directory = format!("volumes/_nogroup/{name}");
    fake.make_directory(&directory);
    let text = format!("[GLOBAL]\npath = /{directory}/c\nstate = complete\n");
    fake.put(&format!("{directory}/.meta"), &text);
    fake.ask("fs subvolume rm", &[("sub_name", &name)]).unwrap();
    assert!(!fake.nodes.contains_key(&directory));
}

/// Runs procedures of two workers: so many requests of the first one, then so many of the second one, and
/// then both to their ends; `None` for one that does not come to its end.
fn interleaved<T>(
    fake: &mut Fake,
    mut procedures: [Procedure<T>; 2],
    requests: [usize; 2],
) -> [Option<T>; 2] {
    const CLIENTS: [u64; 2] = [1001, 1002];
    let mut outcomes = [None, None];
    for most in [requests, [usize::MAX; 2]] {
        for (worker, client) in CLIENTS.into_iter().enumerate() {
            let procedure = &mut procedures[worker];
            for _ in 0..most[worker].min(10 * REQUESTS_MAX) {
                if outcomes[worker].is_some() {
                    break;
                }
                outcomes[worker] = fake.step(client, procedure);
            }
        }
    }
    outcomes
}

#[test]
fn of_two_workers_that_copy_one_clone_one_is_shut_out_and_the_copy_is_right() {
    let mut shut_out = 0;
    for most in (0..REQUESTS_MAX).step_by(3) {
        for others in (0..REQUESTS_MAX).step_by(7) {
            let mut fake = filled();
            let source = path(&mut fake, "a");
            let expected = contents(&fake, &source);
            fake.ask("fs subvolume snapshot create", &SNAPSHOT).unwrap();
            fake.ask("fs subvolume snapshot clone", &CLONE).unwrap();
            let jobs = [fake.begin_job(), fake.begin_job()];
            let outcomes = interleaved(&mut fake, jobs, [most, others]);
            let ends = outcomes.iter().flatten().collect::<Vec<_>>();
            assert!(!ends.is_empty(), "after {most} and {others}: one goes on");
            assert!(ends.iter().all(|end| end.is_ok()), "after {most} and {others}: {ends:?}");
            shut_out += 2 - ends.len();
            let clone = path(&mut fake, "c");
            assert_eq!(contents(&fake, &clone), expected, "after {most} and {others}");
            assert!(contents(&fake, "volumes/_index/clone").is_empty());
        }
    }
    assert!(shut_out > 100, "{shut_out}");
}

#[test]
fn of_two_workers_that_change_metadata_none_loses_what_the_other_one_has_changed() {
    for most in 0..REQUESTS_MAX {
        let mut fake = filled();
        let key = |name| [("sub_name", "a"), ("key_name", name), ("value", "1")];
        let orders = ["x", "y"].map(|name| fake.begin("fs subvolume metadata set", &key(name)));
        let outcomes = interleaved(&mut fake, orders, [most, 12]);
        assert!(outcomes.iter().any(Option::is_some), "after {most}: one goes on");
        for (name, outcome) in ["x", "y"].into_iter().zip(outcomes) {
            if let Some(outcome) = outcome {
                outcome.unwrap();
                fake.ask("fs subvolume metadata get", &key(name)).unwrap();
            }
        }
    }
}

#[test]
fn a_clone_is_of_the_content_that_the_snapshot_names() {
    let mut fake = filled();
    let source = path(&mut fake, "a");
    let expected = contents(&fake, &source);
    // Its name comes before that of any content.
    fake.make_directory("volumes/_nogroup/a/00");
    fake.put("volumes/_nogroup/a/00/x", "of another attempt");
    fake.ask("fs subvolume snapshot create", &SNAPSHOT).unwrap();
    let told = fake.ask("fs subvolume snapshot getpath", &SNAPSHOT).unwrap();
    let name = source.rsplit('/').next().unwrap();
    assert_eq!(told, format!("/volumes/_nogroup/a/.snap/s/{name}"));
    fake.ask("fs subvolume snapshot clone", &CLONE).unwrap();
    fake.work(usize::MAX);
    let clone = path(&mut fake, "c");
    assert_eq!(contents(&fake, &clone), expected);
    let missing = [("sub_name", "a"), ("snap_name", "none")];
    assert_eq!(fake.ask("fs subvolume snapshot getpath", &missing), Err(Errno::NOENT));
}

#[test]
fn a_subvolume_has_the_pool_of_its_group_and_rights_at_no_other_one() {
    let mut fake = filled();
    fake.ask("fs subvolumegroup create", &[("group_name", "g"), ("pool_layout", "fast")]).unwrap();
    let member = [("group_name", "g"), ("sub_name", "b"), ("auth_id", "alice")];
    fake.ask("fs subvolume create", &member).unwrap();
    // Its content has no layout of its own.
    let content = fake.ask("fs subvolume getpath", &member).unwrap();
    let content = content.strip_prefix('/').unwrap();
    for path in [content, "volumes/g/b"] {
        fake.nodes.get_mut(path).unwrap().stat.layout = Default::default();
    }
    let info = fake.ask("fs subvolume info", &member).unwrap();
    assert!(info.contains("\"data_pool\": \"fast\""), "{info}");
    fake.ask("fs subvolume authorize", &member).unwrap();
    let caps = |commands: &[String]| commands.iter().any(|it| it.contains("allow rw pool=fast"));
    assert!(caps(&fake.commands), "{:?}", fake.commands);
    // Rights at a subvolume in another pool need not this one.
    let other = format!("allow rw path=/{}", path(&mut fake, "a"));
    let mds = format!("allow rw path=/{content}, {other}");
    let osd = "allow rw pool=fast, allow rw pool=data";
    fake.caps = Some(json!({ "mds": mds, "osd": osd }));
    fake.ask("fs subvolume deauthorize", &member).unwrap();
    assert_eq!(last_caps(&fake), json!(["mds", other, "osd", "allow rw pool=data"]));
}

#[test]
fn an_earmark_is_set_told_and_removed() {
    let mut fake = filled();
    let marked = [("sub_name", "a"), ("earmark", "nfs.share")];
    assert_eq!(fake.ask("fs subvolume earmark get", &SUBVOLUME).unwrap(), "");
    fake.ask("fs subvolume earmark set", &marked).unwrap();
    assert_eq!(fake.ask("fs subvolume earmark get", &SUBVOLUME).unwrap(), "nfs.share");
    let info = fake.ask("fs subvolume info", &SUBVOLUME).unwrap();
    assert!(info.contains("\"earmark\": \"nfs.share\""), "{info}");
    fake.ask("fs subvolume earmark rm", &SUBVOLUME).unwrap();
    assert_eq!(fake.ask("fs subvolume earmark get", &SUBVOLUME).unwrap(), "");
    let bad = [("sub_name", "a"), ("earmark", "ftp")];
    assert_eq!(fake.ask("fs subvolume earmark set", &bad), Err(Errno::INVAL));
    assert_eq!(fake.ask("fs subvolume create", &bad), Err(Errno::INVAL));
}
