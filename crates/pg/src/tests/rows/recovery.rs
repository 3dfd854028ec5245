//! Recovery: each set of shards that members miss is rebuilt from the others.

use super::*;

#[test]
fn shards_that_members_miss_are_decoded_from_the_others() {
    for code in CODES {
        let mut group = Group::new(code);
        let sizes = sizes(group.geometry);
        for (number, set) in group.sets(usize::from(code.1)).into_iter().enumerate() {
            let content = Group::content(number as u64, sizes[number % sizes.len()]);
            let version = group.put("a", &content);
            let bad: Vec<Member> = set.iter().map(|position| shard(*position)).collect();
            let is_begun = group.world.nodes[0].pg.mark_corrupt(&object("a"), version, &bad);
            assert!(is_begun || set.is_empty());
            group.world.run();
            group.assert_whole("a", &content, version);
        }
    }
}

#[test]
fn shards_are_rebuilt_piece_by_piece() {
    for code in CODES {
        let mut group = Group::new(code);
        for node in &mut group.world.nodes {
            node.pg.core.own.sizes.piece_data_max = 2 * ROW;
        }
        for size in sizes(group.geometry) {
            let content = Group::content(9, size);
            let version = group.put("a", &content);
            let bad: Vec<Member> = (0..code.1.into()).map(shard).collect();
            assert!(group.world.nodes[0].pg.mark_corrupt(&object("a"), version, &bad));
            group.world.run();
            group.assert_whole("a", &content, version);
        }
    }
}

#[test]
fn shards_are_not_marked_missing_if_too_few_others_are_left() {
    let mut group = Group::new((2, 1));
    let version = group.put("a", &Group::content(1, 9000));
    let both = [shard(0), shard(2)];
    assert!(!group.world.nodes[0].pg.mark_corrupt(&object("a"), version, &both));
    assert!(group.world.nodes[0].pg.is_whole());
}

/// An OSD may keep two shards of a group, of which one is bad.
#[test]
fn a_good_shard_is_not_marked_for_another_one_of_its_osd() {
    let mut group = Group::new((2, 1));
    let version = group.put("a", &Group::content(1, 9000));
    let other = Member { shard: ShardId::at(2).unwrap(), ..shard(1) };
    assert!(!group.world.nodes[0].pg.mark_corrupt(&object("a"), version, &[other]));
    group.world.run_script("hold\n run\n missing 1 =>");
    assert!(group.world.nodes[0].pg.is_whole());
}

/// Overwrites bytes of an object at the primary, has it settled, and returns the version.
fn overwrite(group: &mut Group, content: &mut [u8], offset: usize, data: &[u8]) -> EVersion {
    overwrite_and(group, content, offset, data, |group| {
        group.world.pass_time(engine::Time(1_000_000_000));
        group.world.pass_time(engine::Time(10_000_000_000));
        group.world.run();
    })
}

/// Overwrites bytes of an object at the primary, does something, and returns the version.
fn overwrite_and(
    group: &mut Group,
    content: &mut [u8],
    offset: usize,
    data: &[u8],
    then: impl FnOnce(&mut Group),
) -> EVersion {
    content[offset..offset + data.len()].copy_from_slice(data);
    let (name, size, primary) = (object("a"), content.len() as u64, group.world.primary());
    let pg = &mut group.world.node(primary).pg;
    let (version, prior_version) = (pg.next_version(), pg.logged_version(&name));
    let info = ObjectInfo { version, prior_version, size, ..ObjectInfo::default() };
    let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
    let data = Bytes::copy_from_slice(data);
    let changes = vec![
        Change::Write { object: name.clone(), offset: offset as u64, data },
        Change::SetAttrs { object: name.clone(), attrs },
        Change::RemoveAttr { object: name.clone(), name: user_attr(b"colour") },
    ];
    let sizes = BTreeMap::from([(name.clone(), size)]);
    pg.submit(Write { object: name, prior_version, changes, sizes, ..Write::default() });
    group.world.run();
    then(group);
    version
}

/// Kinds of messages until the group is quiet, with the bytes of their data.
fn sent(group: &mut Group) -> Vec<(u16, usize)> {
    let mut sent = Vec::new();
    loop {
        if let Some((_, _, message)) = group.world.messages.front() {
            sent.push((message.kind, message.data.len()));
        }
        if !group.world.step(true) && !group.world.grant() {
            return sent;
        }
    }
}

const PUSH: u16 = 0x700b;
const PUSH_ROWS: u16 = 0x701d;

/// A member is away while two rows of its shard change. `meanwhile` happens before it is back.
fn away(code: (u8, u8), at: usize, meanwhile: impl FnOnce(&mut Group)) -> Vec<(u16, usize)> {
    let mut group = Group::new(code);
    let mut content = Group::content(1, 300_000);
    group.put("a", &content);
    let all: Vec<String> = (0..group.code.shards()).map(|at| at.to_string()).collect();
    let mut less = all.clone();
    less[at] = "-".to_owned();
    group.world.run_script(&format!("down {at}\n map 30 {}\n run", less.join(" ")));
    let stripe = group.geometry.stripe() as usize;
    overwrite(&mut group, &mut content, 2 * stripe, &[7; 100]);
    let version = overwrite(&mut group, &mut content, 5 * stripe, &vec![8; stripe]);
    meanwhile(&mut group);
    group.world.run_script(&format!("up {at}\n map 50 {}", all.join(" ")));
    let sent = sent(&mut group);
    group.assert_whole("a", &content, version);
    let stored = |position: usize| {
        let node = &group.world.nodes[position];
        node.store.object(node.pg.collection(), &object("a")).unwrap().attrs.clone()
    };
    assert!((0..all.len()).all(|position| stored(position) == stored(0)), "attributes are equal");
    sent.into_iter().filter(|(kind, _)| [PUSH, PUSH_ROWS].contains(kind)).collect()
}

#[test]
fn a_member_that_was_away_gets_only_the_rows_that_changed() {
    for code in CODES {
        for at in 0..usize::from(code.0 + code.1) {
            let pushed = away(code, at, |_| {});
            // The first write did not change all shards of data.
            let is_written_twice = at == 0 || at >= usize::from(code.0);
            let bytes = if is_written_twice { 8192 } else { 4096 };
            let expected = if at == 0 { vec![] } else { vec![(PUSH_ROWS, bytes)] };
            assert_eq!(pushed, expected, "{at} of {code:?}");
        }
    }
}

#[test]
fn a_member_that_has_another_version_than_was_thought_gets_the_whole_shard() {
    for at in 1..3 {
        let pushed = away((2, 1), at, |group| {
            // Its store has lost the object's info.
            let node = &mut group.world.nodes[at];
            let (collection, object) = (node.pg.collection(), object("a"));
            let change = Change::RemoveAttr { object, name: INFO_ATTR };
            let changes = vec![(collection, change)];
            node.ask_store(RequestKind::Commit(Transaction { changes })).unwrap();
        });
        assert_eq!(pushed.len(), 2, "{pushed:?}");
        assert_eq!([pushed[0].0, pushed[1].0], [PUSH_ROWS, PUSH]);
    }
}

/// All members but the primary leave before they hear that a write is committed, and hold it.
#[test]
fn members_that_left_settle_what_is_committed_before_their_shards_are_read() {
    let mut group = Group::of((2, 1), &[0, 1, 2, 1, 2]);
    let mut content = Group::content(1, 100_000);
    group.put("a", &content);
    let version = overwrite_and(&mut group, &mut content, 5000, &[7; 9000], |_| {});
    for at in [1, 2] {
        assert!(group.world.nodes[at].pg.info().settled() < version, "it holds the write");
    }
    group.world.run_script("map 30 0 3 4\n run");
    let stored = [0, 3, 4].map(|osd: usize| {
        let node = &group.world.nodes[osd];
        let stored = node.store.object(node.pg.collection(), &object("a")).expect("it is rebuilt");
        stored.data.read(0, stored.data.size()).data
    });
    assert_eq!(stored.to_vec(), group.shards(&content));
    assert!(group.world.nodes[0].pg.is_whole());
}

/// A stray is told to remove its shard as soon as the group is clean, and does not answer what it still
/// reads.
#[test]
fn a_read_from_strays_ends_whenever_the_group_becomes_clean() {
    let mut was_asked = false;
    for steps in 0.. {
        let mut group = Group::of((2, 1), &[0, 1, 2, 1]);
        let mut content = Group::content(1, 100_000);
        group.put("a", &content);
        group.world.run_script("down 1\n map 30 0 3 2\n run");
        overwrite(&mut group, &mut content, 0, &[7; 50_000]);
        group.world.run_script("up 1\n map 50 0 1 2");
        let is_over = (0..steps).any(|_| !group.world.step(true) && !group.world.grant());
        let interval = group.world.nodes[0].pg.interval();
        if group.world.nodes[0].pg.is_active() {
            let ticket = group.begin_read("a", (0, 100_000));
            let is_asked = group.run_without(&[3]);
            group.world.run();
            let pg = &group.world.nodes[0].pg;
            assert!(pg.is_clean());
            // The end of an interval drops reads.
            if pg.interval() == interval {
                was_asked |= is_asked;
                let data = group.end_read(ticket).expect("it is whole");
                assert_eq!(data[..], content[..]);
            }
        }
        if is_over {
            break;
        }
    }
    assert!(was_asked, "a stray was reading when the group became clean");
}

/// A delta of stale rows, or one that is added to them, would spoil the parity in the right version.
#[test]
fn old_rows_of_a_stale_shard_are_not_used_by_a_write() {
    for code in CODES {
        for position in 0..usize::from(code.0 + code.1) {
            let (mut group, mut content, _) = Group::with_stale(code, position);
            // Half a row of the stale shard, or of another one if that is a parity.
            let offset = position % usize::from(code.0) * 4096;
            let before = content.clone();
            let mut version = overwrite(&mut group, &mut content, offset, &[7; 2048]);
            if group.world.acknowledged.is_empty() {
                // A parity refused it.
                content = before;
                let all: Vec<String> = (0..group.code.shards()).map(|at| at.to_string()).collect();
                group.world.run_script(&format!("map 40 {}\n run", all.join(" ")));
                version = overwrite(&mut group, &mut content, offset, &[7; 2048]);
                group.world.pass_time(engine::Time(20_000_000_000));
                group.world.run();
            }
            group.assert_whole("a", &content, version);
        }
    }
}

/// The member's store has lost the object, and a later write in the queue creates it again.
#[test]
fn a_lost_shard_is_not_taken_for_one_that_a_later_write_creates() {
    let mut group = Group::new((2, 1));
    group.world.run_script("hold");
    let content = Group::content(1, 50_000);
    let before = group.put("a", &content);
    group.world.lose(OsdId(1), "a");
    let name = object("a");
    let mut submit = |kind, prior_version, size: Option<u64>, changes| {
        let sizes = size.map(|size| (name.clone(), size)).into_iter().collect();
        let object = name.clone();
        let write = Write { object, kind, prior_version, changes, sizes, ..Write::default() };
        group.world.nodes[0].pg.submit(write)
    };
    let data = |byte: u8| Bytes::from(vec![byte; 100]);
    let write = |offset, data| Change::Write { object: object("a"), offset, data };
    let version = submit(EntryKind::Modify, before, Some(50_000), vec![write(4096, data(7))]);
    let removal = vec![Change::Remove { object: object("a") }];
    submit(EntryKind::Delete, version, Some(50_000), removal);
    submit(EntryKind::Modify, EVersion::ZERO, None, vec![write(0, data(8))]);
    group.world.run();
    let node = &group.world.nodes[1];
    let mut held = node.store.held().of(node.pg.collection());
    let (_, held) = held.find(|(name, _)| name.version == version).expect("it is held");
    let row = held.iter().find_map(|change| match change {
        Change::Write { data, .. } => Some(data),
        _ => None,
    });
    let row = row.expect("it writes a row");
    assert_eq!((&row[..100], &row[100..]), (&data(7)[..], &content[4196..8192]));
}
