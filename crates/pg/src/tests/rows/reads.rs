//! Reads of clients, with each set of shards that cannot be asked.

use super::*;

/// Compares many ranges with the content.
fn check(group: &mut Group, name: &str, content: &[u8]) {
    let (size, stripe) = (content.len() as u64, group.geometry.stripe());
    let ends = [0, 1, 4095, 4096, 5000, stripe, stripe + 1, size.saturating_sub(1), size, size + 9];
    for offset in ends {
        for end in ends.into_iter().filter(|end| *end >= offset) {
            let read = group.read(name, (offset, end - offset)).unwrap();
            let [from, to] = [offset, end].map(|at| at.min(size) as usize);
            assert!(read == content[from..to], "{offset} to {end} of {size}");
        }
    }
}

#[test]
fn any_range_of_an_object_is_read() {
    for code in CODES {
        let mut group = Group::new(code);
        for (seed, size) in sizes(group.geometry).into_iter().enumerate() {
            let content = Group::content(seed as u64, size);
            group.put("a", &content);
            check(&mut group, "a", &content);
        }
    }
}

#[test]
fn a_range_within_one_chunk_is_read_from_its_shard_alone() {
    let mut group = Group::new((4, 2));
    let content = Group::content(1, 100_000);
    let version = group.put("a", &content);
    let read = Read {
        ticket: 7,
        object: object("a"),
        version,
        size: 100_000,
        offset: 2 * 4096 + 10,
        length: 4000,
    };
    group.world.nodes[0].pg.read_shards(read);
    let mut asked = Vec::new();
    while let Some(output) = group.world.nodes[0].pg.poll_output() {
        match output {
            Output::Send { to, message } => asked.push((to, message.kind)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(asked, [(OsdId(2), 0x701a)]);
}

#[test]
fn shards_that_cannot_be_read_are_decoded_and_then_rebuilt() {
    for code in CODES {
        let mut group = Group::new(code);
        for set in group.sets(usize::from(code.1)) {
            let content =
                Group::content(set.len() as u64, 5 * group.geometry.stripe() as usize - 7);
            let version = group.put("a", &content);
            let script = |position: &usize| format!("damage {position} a");
            set.iter().for_each(|position| group.world.run_script(&script(position)));
            let read = group.read("a", (0, content.len() as u64)).unwrap();
            assert!(read == content, "without {set:?}");
            check(&mut group, "a", &content);
            let is_data = |position: &usize| *position < group.code.k();
            if set.iter().all(is_data) {
                group.assert_whole("a", &content, version);
            }
        }
    }
}

#[test]
fn a_read_fails_if_too_few_shards_are_left() {
    for code in CODES {
        let mut group = Group::new(code);
        let content = Group::content(3, 50_000);
        group.put("a", &content);
        for position in 0..=usize::from(code.1) {
            group.world.run_script(&format!("damage {position} a"));
        }
        assert_eq!(group.read("a", (0, 50_000)), Err(ReadError::TooFewShards));
    }
}

#[test]
fn a_shard_of_another_version_is_never_combined() {
    for code in CODES {
        for position in 0..usize::from(code.0) {
            let (mut group, content, version) = Group::with_stale(code, position);
            let read = Read {
                ticket: 1,
                object: object("a"),
                version,
                size: 50_000,
                offset: 0,
                length: 50_000,
            };
            group.world.nodes[0].pg.read_shards(read);
            group.world.run();
            assert!(group.world.reads.remove(&1).unwrap().unwrap() == content);
            group.assert_whole("a", &content, version);
        }
    }
}

#[test]
fn an_object_is_read_with_each_set_of_holes() {
    for code in CODES {
        let sets = Group::new(code).sets(usize::from(code.1));
        for set in sets.into_iter().filter(|set| !set.is_empty()) {
            let mut group = Group::new(code);
            let word = |at| if set.contains(&at) { "-".to_owned() } else { at.to_string() };
            let up: Vec<String> = (0..group.code.shards()).map(word).collect();
            set.iter().for_each(|at| group.world.run_script(&format!("down {at}")));
            group.world.run_script(&format!("map 30 {}\n run", up.join(" ")));
            let content = Group::content(6, 5 * group.geometry.stripe() as usize - 7);
            group.put("a", &content);
            check(&mut group, "a", &content);
        }
    }
}

#[test]
fn an_object_is_read_while_each_set_of_other_members_misses_it() {
    for code in CODES {
        let mut group = Group::new(code);
        group.world.run_script("hold");
        let sets = group.sets(usize::from(code.1));
        for set in sets.into_iter().filter(|set| !set.contains(&0)) {
            let content = Group::content(7, 5 * group.geometry.stripe() as usize - 7);
            let version = group.put("a", &content);
            let bad: Vec<Member> = set.iter().map(|at| shard(*at)).collect();
            let pg = &mut group.world.nodes[0].pg;
            assert!(pg.mark_corrupt(&object("a"), version, &bad) || set.is_empty());
            check(&mut group, "a", &content);
            group.world.run_script("recover\n run\n hold");
            group.assert_whole("a", &content, version);
        }
    }
}

#[test]
fn reads_that_fail_once_do_not_hang_and_succeed_later() {
    let mut group = Group::new((2, 1));
    let content = Group::content(8, 50_000);
    let version = group.put("a", &content);
    group.world.run_script("damage 1 a\n damage 2 a");
    assert_eq!(group.read("a", (0, 50_000)), Err(ReadError::TooFewShards));
    let pg = &mut group.world.nodes[0].pg;
    assert!(!pg.cannot_read(&object("a"), version), "no other copy may turn up");
    assert!(!pg.is_blocked(&object("a"), true, false));
    group.world.run_script("run\n mend 1 a\n mend 2 a");
    assert_eq!(group.read("a", (0, 50_000)), Ok(content.into()));
}

/// A shard of osd.1 goes bad while that of osd.2 is on its way: the object can be read when that has arrived.
#[test]
fn an_object_that_could_not_be_read_during_its_recovery_is_read_after_it() {
    let mut group = Group::new((2, 1));
    let content = Group::content(8, 50_000);
    let version = group.put("a", &content);
    assert!(group.world.nodes[0].pg.mark_corrupt(&object("a"), version, &[shard(2)]));
    let is_push = |message: &engine::Message| {
        matches!(crate::message::Body::decode(message), Ok((_, crate::message::Body::Push(_))))
    };
    while !group.world.messages.iter().any(|(_, _, message)| is_push(message)) {
        assert!(group.world.step(true), "osd.2 gets its shard");
    }
    let on_way = std::mem::take(&mut group.world.messages);
    group.world.run_script("damage 1 a");
    assert_eq!(group.read("a", (0, 50_000)), Err(ReadError::TooFewShards));
    let pg = &mut group.world.nodes[0].pg;
    assert!(pg.cannot_read(&object("a"), version), "there will be another shard");
    group.world.messages.extend(on_way);
    group.world.run();
    assert!(!group.world.nodes[0].pg.is_blocked(&object("a"), true, false));
    group.assert_whole("a", &content, version);
    assert_eq!(group.read("a", (0, 50_000)), Ok(content.into()));
}

/// A pushed shard of several pieces has holes under its final version until the last one is stored. A read
/// of a bad block that is tried again meanwhile must not see them.
#[test]
fn a_read_that_is_tried_again_does_not_see_the_holes_of_a_shard_that_is_being_replaced() {
    for seed in 0..60 {
        let mut group = Group::new((2, 1));
        for node in &mut group.world.nodes {
            node.pg.core.own.sizes.piece_data_max = ROW;
        }
        let content = Group::content(seed, 5 * group.geometry.stripe() as usize);
        let (size, version) = (content.len() as u64, group.put("a", &content));
        group.world.run_script("damage 1 a");
        group.world.is_lazy = true;
        let mut rng = Prng::new(seed);
        for ticket in 0..12 {
            let (object, offset) = (object("a"), rng.below(9) * 4096);
            let read = Read { ticket, object, version, size, offset, length: 4096 };
            group.world.nodes[0].pg.read_shards(read);
            (0..rng.below(30)).all(|_| group.world.step_any(&mut rng));
            for (_, read) in std::mem::take(&mut group.world.reads) {
                assert!(
                    read.unwrap().iter().any(|byte| *byte != 0),
                    "zeros were read, seed {seed}"
                );
            }
        }
        while group.world.step_any(&mut rng) {}
        for (_, read) in std::mem::take(&mut group.world.reads) {
            assert!(read.unwrap().iter().any(|byte| *byte != 0), "zeros were read, seed {seed}");
        }
        group.assert_whole("a", &content, version);
    }
}
