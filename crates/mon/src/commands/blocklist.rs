//! `osd blocklist`: fencing of client addresses.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::{addrs, osdmap::stamp};
use crate::state::BLOCKLIST_LIMITED_MAX;
use serde_json::{Value, json};
use std::time::Duration;
use types::{AddrType, EntityAddr, EntityType, Errno};

/// `mon_osd_blocklist_default_expire`
const EXPIRE_DEFAULT_SECONDS: f64 = 3600.0;

pub const COMMANDS: &[Command] = &[
    command(
        "osd blocklist name=range,type=CephString,goodchars=[range],req=false \
         name=blocklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr \
         name=expire,type=CephFloat,range=0.0,req=false",
        "add (optionally until <expire> seconds from now) or remove <addr> from blocklist",
        "osd",
        "rw",
        |context| edit(context, "blocklistop"),
    ),
    command("osd blocklist ls", "show blocklisted clients", "osd", "r", list),
    command("osd blocklist clear", "clear all blocklisted clients", "osd", "rw", clear),
    command(
        "osd blacklist name=blacklistop,type=CephChoices,strings=add|rm \
         name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false",
        "add (optionally until <expire> seconds from now) or remove <addr> from blacklist",
        "osd",
        "rw",
        |context| edit(context, "blacklistop"),
    ),
    command("osd blacklist ls", "show blacklisted clients", "osd", "r", list),
    command("osd blacklist clear", "clear all blacklisted clients", "osd", "rw", clear),
];

fn invalid(text: &str) -> Refusal {
    Refusal::invalid(format!(
        "'{text}' is no address, expected one such as 10.0.0.1:0/1234 or a range 10.0.0.0/24"
    ))
}

/// Parses an address. Entries have no protocol; the nonce of a range is the length of its prefix.
fn parse(text: &str, is_range: bool) -> Result<EntityAddr, Refusal> {
    let mut addr: EntityAddr = text.parse().map_err(|_| invalid(text))?;
    addr.kind = AddrType::Any;
    if is_range {
        let bits = if addr.socket.is_some_and(|socket| socket.is_ipv4()) { 32 } else { 128 };
        if !text.contains('/') || addr.nonce > bits {
            return Err(invalid(text));
        }
        addr.kind = AddrType::Cidr;
    }
    Ok(addr)
}

fn edit(context: &mut Context<'_>, operation: &str) -> Result<Answer, Refusal> {
    let is_range = context.arguments.optional("range") == Some("range");
    let addr = parse(context.arguments.text("addr"), is_range)?;
    let map = &context.state.osdmap;
    let known = if is_range { &map.range_blocklist } else { &map.blocklist };
    let name = match is_range {
        true => format!("cidr:{}", addrs::plain(&addr)),
        false => addrs::plain(&addr),
    };
    if context.arguments.text(operation) == "rm" {
        if !known.contains_key(&addr) {
            return Ok(Answer::said(format!("{name} isn't blocklisted")));
        }
        let incremental = context.change.osdmap(context.state);
        let list = if is_range {
            &mut incremental.old_range_blocklist
        } else {
            &mut incremental.old_blocklist
        };
        list.push(addr);
        return Ok(Answer::said(format!("un-blocklisting {name}")));
    }
    let seconds = context.arguments.float("expire").unwrap_or(EXPIRE_DEFAULT_SECONDS);
    let expires = context.now + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    // Times in maps have 32 bits of seconds.
    let until = types::UTime::from_nanos(expires.0.min(u64::from(u32::MAX) * 1_000_000_000));
    match known.get(&addr) {
        Some(listed) if until > *listed => {
            context.change.extend_blocklist(context.state, &addr, until);
        }
        Some(_) => {}
        None if !context.caller.administers_osds
            // Others wait for a client that its metadata server evicts.
            && context.caller.name.kind != EntityType::MDS
            && map.blocklist.len() + map.range_blocklist.len() >= BLOCKLIST_LIMITED_MAX =>
        {
            return Err(full());
        }
        None => {
            let incremental = context.change.osdmap(context.state);
            let list = match is_range {
                true => &mut incremental.new_range_blocklist,
                false => &mut incremental.new_blocklist,
            };
            list.insert(addr, until);
        }
    }
    Ok(Answer::said(format!("blocklisting {name} until {} ({seconds} sec)", until.to_iso())))
}

fn full() -> Refusal {
    let text = format!(
        "{BLOCKLIST_LIMITED_MAX} addresses are blocklisted already, and only clients that may change the OSD map ('osd rw') add \
         more: entries end by themselves, and an administrator removes others with 'ceph osd blocklist rm ADDR'"
    );
    Refusal::new(Errno::DQUOT, text)
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let entries = || map.blocklist.iter().chain(&map.range_blocklist);
    let json = || {
        let entry = |(addr, until): (&EntityAddr, &types::UTime)| json!({ "addr": addrs::plain(addr), "until": stamp(*until) });
        Value::from(entries().map(entry).collect::<Vec<_>>())
    };
    let plain = || {
        entries()
            .map(|(addr, until)| format!("{} {}\n", addrs::plain(addr), stamp(*until)))
            .collect()
    };
    Ok(context.show(json, plain).saying(format!("listed {} entries", entries().count())))
}

fn clear(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    if !map.blocklist.is_empty() || !map.range_blocklist.is_empty() {
        let incremental = context.change.osdmap(context.state);
        incremental.old_blocklist = map.blocklist.keys().copied().collect();
        incremental.old_range_blocklist = map.range_blocklist.keys().copied().collect();
    }
    Ok(Answer::said(" removed all blocklist entries"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::command::Caller;
    use crate::commands::testing::{run, run_as, state};
    use crate::keys;
    use crate::state::{LeaderClock, State};
    use types::{EntityName, UTime};

    const HOUR: u64 = 3600;

    fn at(seconds: u64) -> UTime {
        UTime::from_nanos(seconds * 1_000_000_000)
    }

    fn addr(number: u32) -> EntityAddr {
        format!("any:10.0.0.1:0/{number}").parse().unwrap()
    }

    /// A leader's clock showed one hour, and the first client is fenced until the end of the second.
    fn fenced() -> State {
        let mut state = state();
        state.osdmap.blocklist.insert(addr(1), at(2 * HOUR));
        state.members.clock =
            Some(LeaderClock { shows: at(HOUR).as_nanos(), ..Default::default() });
        state
    }

    /// When the fence of the first client ends by the clock that the change stores.
    fn end(change: Change, state: &State) -> UTime {
        let transaction = change.finish(state).unwrap();
        let clock = transaction.writes[keys::CLOCK].clone().expect("the clock is stored");
        let clock: LeaderClock = serde_json::from_slice(&clock).unwrap();
        UTime::from_nanos(clock.end_of(&addr(1), state.osdmap.blocklist[&addr(1)]))
    }

    #[test]
    fn a_new_fence_of_a_leader_whose_clock_is_ahead_ends_no_other() {
        let state = fenced();
        let mut change = Change::new(at(3 * HOUR));
        change.osdmap(&state).new_blocklist.insert(addr(2), at(4 * HOUR));
        change.stamp_new_entries(&state);
        assert_eq!(change.take_notes().len(), 1, "the cluster log says so");
        assert_eq!(end(change, &state), at(4 * HOUR));
    }

    #[test]
    fn a_fence_that_is_extended_by_a_clock_that_is_ahead_ends_no_other() {
        let mut state = fenced();
        state.osdmap.blocklist.insert(addr(2), at(2 * HOUR));
        let mut change = Change::new(at(3 * HOUR));
        change.extend_blocklist(&state, &addr(2), at(9 * HOUR));
        assert_eq!(end(change, &state), at(4 * HOUR));
    }

    #[test]
    fn a_fence_that_is_extended_with_a_new_one_ends_later() {
        let state = fenced();
        let mut change = Change::new(at(HOUR));
        change.extend_blocklist(&state, &addr(1), at(9 * HOUR));
        change.osdmap(&state).new_blocklist.insert(addr(2), at(4 * HOUR));
        assert_eq!(end(change, &state), at(9 * HOUR));
    }

    #[test]
    fn clients_of_little_power_add_no_more_than_so_many_entries_and_a_metadata_server_any() {
        let mut state = state();
        for number in 0..BLOCKLIST_LIMITED_MAX as u32 {
            let addr = format!("any:10.0.0.1:0/{}", number + 1).parse().unwrap();
            state.osdmap.blocklist.insert(addr, UTime::from_nanos(9_000_000_000));
        }
        let add = |addr: &str| json!({ "blocklistop": "add", "addr": addr });
        let refusal = run(&mut state, "osd blocklist", add("10.0.0.2:0/1")).unwrap_err();
        assert_eq!(refusal.errno, Errno::DQUOT);
        assert!(refusal.text.contains("blocklist rm"), "{}", refusal.text);
        // An existing entry may still be extended.
        run(&mut state, "osd blocklist", add("10.0.0.1:0/7")).unwrap();
        let administrator = Caller { administers_osds: true, ..Caller::default() };
        run_as(&administrator, &mut state, "osd blocklist", add("10.0.0.2:0/1")).unwrap();
        let name = EntityName::new(EntityType::MDS, "a".to_owned());
        let server = Caller { name, ..Caller::default() };
        run_as(&server, &mut state, "osd blocklist", add("10.0.0.2:0/2")).unwrap();
        assert_eq!(state.osdmap.blocklist.len(), BLOCKLIST_LIMITED_MAX + 2);
    }
}
