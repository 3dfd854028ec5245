//! Cases as text: steps of clients, and behind `>` what the machine does.
//!
//! A case is a paragraph that begins with a title. `1 gets Frw` is a reply to client 1 that wants `Frw`;
//! `1 reads F`, `1 changes AF`, `1 looks up` begin a request, `1 ends` ends it; `1 acks` answers the newest
//! message, `1 acks first` the oldest one. All cases are about one inode.

use super::clients::World;
use crate::*;
use engine::Duration;

/// Runs one step, and returns what follows from it.
fn run(world: &mut World, step: &str) -> Vec<String> {
    let words: Vec<&str> = step.split_whitespace().collect();
    let mut told = match words[..] {
        ["directory"] => {
            world.kind = Kind::Directory;
            Vec::new()
        }
        ["after", seconds, "s"] => {
            world.now = world.now + Duration::from_secs(seconds.parse().expect("a number"));
            world.machine.handle_timeout(world.now);
            Vec::new()
        }
        ["all", "have", "claimed"] => {
            world.machine.handle_claims_complete(world.now);
            Vec::new()
        }
        ["unclaimed", "ranges", "go"] => {
            world.machine.remove_unclaimed_ranges();
            Vec::new()
        }
        ["full"] => {
            world.machine.handle_pressure(Pressure { excess: 0, is_full: true });
            Vec::new()
        }
        [client, ref what @ ..] => run_client(world, client.parse().expect("a client"), what),
        [] => Vec::new(),
    };
    told.extend(world.outputs());
    world.machine.check_invariants();
    told
}

fn run_client(world: &mut World, client: u64, what: &[&str]) -> Vec<String> {
    let admission = |admission| match admission {
        Admission::Ready => vec!["goes on".to_owned()],
        Admission::Waits => vec!["waits".to_owned()],
        Admission::Refused => vec!["is refused".to_owned()],
    };
    match what {
        ["may", "only", "have", bits] => {
            world.allowed.insert(client, World::bits(bits));
            Vec::new()
        }
        ["gets", bits] => vec![world.gets(client, World::bits(bits), false)],
        ["gets", bits, "async"] => vec![world.gets(client, World::bits(bits), true)],
        ["reads", groups] => {
            admission(world.demands(client, Access::read(World::groups(groups)), None))
        }
        ["changes", "entry", name] => {
            let access = Access::change(Groups::FILE);
            admission(world.demands(client, access, Some(name)))
        }
        ["changes", groups] => {
            admission(world.demands(client, Access::change(World::groups(groups)), None))
        }
        ["looks", "up"] => admission(world.demands(client, Access::look_up(), None)),
        ["ends"] => world.ends(client, None),
        ["ends", "and", "gets", bits] => world.ends(client, Some(World::bits(bits))),
        ["acks"] => world.acks(client, usize::MAX),
        ["acks", "first"] => world.acks(client, 0),
        ["keeps", bits, "wants", wanted] => {
            world.keeps(client, World::bits(bits), World::bits(wanted));
            Vec::new()
        }
        ["keeps", bits, "of", "all", "but", "the", "last"] => {
            world.keeps_before_last(client, World::bits(bits));
            Vec::new()
        }
        ["releases"] => world.releases(client, 0),
        ["releases", "before", "the", "last", "reply"] => world.releases(client, 1),
        ["closes"] => {
            world.machine.close_session(world.now, client);
            Vec::new()
        }
        ["claims", bits, "wants", wanted] => {
            vec![world.claims(client, World::bits(bits), World::bits(wanted))]
        }
        ["flushes", bits, "again"] => {
            world.flushes_again(client, World::bits(bits));
            Vec::new()
        }
        ["had", "a", "range", "of", end] => {
            world.machine.adopt_range(World::INO, client, end.parse().expect("bytes"));
            Vec::new()
        }
        ["renews"] => {
            world.machine.handle_renewal(world.now, client);
            Vec::new()
        }
        ["leases", name] => vec![world.leases(client, name)],
        ["forgets", name] => {
            world.machine.handle_lease_released(client, &World::entry(name), None);
            Vec::new()
        }
        ["writes", "to", bytes] => {
            let unit = Unit { object: 4 << 20, stripe: 4 << 20 };
            world.machine.handle_size(World::INO, client, 0, bytes.parse().expect("bytes"), unit);
            Vec::new()
        }
        ["range", end, "is", "durable"] => {
            let end = end.parse().expect("bytes");
            world.machine.handle_range_durable(World::INO, client, end);
            Vec::new()
        }
        _ => panic!("a step that is not known: {what:?}"),
    }
}

/// The text of a file of cases as the machine makes it.
fn played(text: &str) -> String {
    let mut lines = Vec::new();
    let mut world = World::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('>')) {
        lines.push(line.to_owned());
        if line.is_empty() {
            world = World::new();
        } else if !line.starts_with('#') {
            lines.extend(run(&mut world, line).iter().map(|told| format!("  > {told}")));
        }
    }
    lines.join("\n") + "\n"
}

fn check(name: &str, text: &str) {
    let played = played(text);
    let differs = text.lines().zip(played.lines()).find(|(expected, got)| expected != got);
    assert!(text == played, "{name}: {differs:?}; the machine plays\n{played}");
}

#[test]
fn clients_that_may_not_have_all_bits() {
    check("limits", include_str!("cases/limits.txt"));
}

#[test]
fn a_file_of_one_client() {
    check("loner", include_str!("cases/loner.txt"));
}

#[test]
fn a_file_of_several_clients() {
    check("shared", include_str!("cases/shared.txt"));
}

#[test]
fn requests_take_what_contradicts_them_and_give_it_back() {
    check("requests", include_str!("cases/requests.txt"));
}

#[test]
fn messages_cross() {
    check("crossings", include_str!("cases/crossings.txt"));
}

#[test]
fn directories_and_leases() {
    check("directories", include_str!("cases/directories.txt"));
}

#[test]
fn ranges_silence_and_memory() {
    check("sessions", include_str!("cases/sessions.txt"));
}

#[test]
fn claims_after_a_take_over() {
    check("claims", include_str!("cases/claims.txt"));
}
