//! `osd`: queries of the OSD map.

use super::status::{osd_versions, osdmap_summary};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::peers::count_values;
use crate::dump::tree::{self, Selection};
use crate::dump::{addrs, osdmap};
use crate::table::{Table, since};
use codec::EncodeFor;
use maps::{OsdMap, OsdMapFlags, OsdState};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use types::{Epoch, OsdId};

pub const COMMANDS: &[Command] = &[
    command("osd stat", "print summary of OSD map", "osd", "r", stat),
    command(
        "osd dump name=epoch,type=CephInt,range=0,req=false",
        "print summary of OSD map",
        "osd",
        "r",
        dump,
    ),
    command(
        "osd info name=id,type=CephOsdName,req=false",
        "print osd's {id} information (instead of all osds from map)",
        "osd",
        "r",
        info,
    ),
    command(
        "osd tree name=epoch,type=CephInt,range=0,req=false \
         name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        "print OSD tree",
        "osd",
        "r",
        show_tree,
    ),
    command(
        "osd tree-from name=epoch,type=CephInt,range=0,req=false name=bucket,type=CephString \
         name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        "print OSD tree in bucket",
        "osd",
        "r",
        show_tree,
    ),
    command(
        "osd ls name=epoch,type=CephInt,range=0,req=false",
        "show all OSD ids",
        "osd",
        "r",
        list,
    ),
    command(
        "osd ls-tree name=epoch,type=CephInt,range=0,req=false name=name,type=CephString,req=true",
        "show OSD ids under bucket <name> in the CRUSH map",
        "osd",
        "r",
        list_below,
    ),
    command(
        "osd getmap name=epoch,type=CephInt,range=0,req=false",
        "get OSD map",
        "osd",
        "r",
        getmap,
    ),
    command(
        "osd getcrushmap name=epoch,type=CephInt,range=0,req=false",
        "get CRUSH map",
        "osd",
        "r",
        getcrushmap,
    ),
    command("osd getmaxosd", "show largest OSD id", "osd", "r", getmaxosd),
    command(
        "osd find name=id,type=CephOsdName",
        "find osd <id> in the CRUSH map and show its location",
        "osd",
        "r",
        find,
    ),
    command(
        "osd metadata name=id,type=CephOsdName,req=false",
        "fetch metadata for osd {id} (default all)",
        "osd",
        "r",
        metadata,
    ),
    command(
        "osd count-metadata name=property,type=CephString",
        "count OSDs by metadata field property",
        "osd",
        "r",
        count_metadata,
    ),
    command("osd versions", "check running versions of OSDs", "osd", "r", versions),
    command("osd numa-status", "show NUMA status of OSDs", "osd", "r", numa),
    command(
        "osd get-require-min-compat-client",
        "get the minimum client version we will maintain compatibility with",
        "osd",
        "r",
        min_compat_client,
    ),
];

/// The map of the optional argument `epoch`; `ENOENT` if it is not kept.
fn map_asked<'a>(context: &Context<'a>) -> Result<Cow<'a, OsdMap>, Refusal> {
    match context.arguments.int("epoch") {
        None | Some(0) => Ok(Cow::Borrowed(&context.state.osdmap)),
        Some(epoch) => {
            let found = context.state.osdmap_at(Epoch(epoch as u32));
            found.map(Cow::Owned).ok_or_else(|| {
                let newest = context.state.osdmap.epoch;
                Refusal::missing(format!(
                    "there is no map for epoch {epoch}; the newest is {newest}"
                ))
            })
        }
    }
}

/// Resolves the argument that names an OSD; `ENOENT` if it does not exist.
pub(super) fn existing(context: &Context<'_>, argument: &str) -> Result<OsdId, Refusal> {
    let osd = context.arguments.osd(argument);
    match context.state.osdmap.exists(osd) {
        true => Ok(osd),
        false => Err(Refusal::missing(format!("osd.{osd} does not exist"))),
    }
}

fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let plain = || {
        let mut text = format!(
            "{} osds: {} up{}, {} in{}; epoch: e{}\n",
            map.osd_count(),
            map.up_count(),
            since(context.now, map.last_up_change),
            map.in_count(),
            since(context.now, map.last_in_change),
            map.epoch,
        );
        let flags = map.flags.without(OsdMapFlags::BASE);
        if !flags.is_empty() {
            text += &format!("flags {flags}\n");
        }
        text
    };
    Ok(context.show(|| osdmap_summary(context.state), plain))
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = map_asked(context)?;
    Ok(context.show(|| osdmap::json(&map), || osdmap::plain(&map)))
}

fn info(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    if context.arguments.optional("id").is_some() {
        let osd = context.arguments.osd("id");
        let missing = || Refusal::invalid(format!("osd.{osd} does not exist"));
        let one = map.osd(osd).filter(|_| map.exists(osd)).ok_or_else(missing)?;
        return Ok(context.show(|| osdmap::osd(osd, one), || osdmap::osd_line(osd, one)));
    }
    let json = || map.existing_osds().map(|(osd, one)| osdmap::osd(osd, one)).collect();
    let plain = || map.existing_osds().map(|(osd, one)| osdmap::osd_line(osd, one)).collect();
    Ok(context.show(json, plain))
}

fn show_tree(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = map_asked(context)?;
    let root = match context.arguments.optional("bucket") {
        None => None,
        Some(name) => {
            let found = map.crush.item_id(name).filter(|id| *id < 0);
            Some(found.ok_or_else(|| Refusal::missing(format!("bucket '{name}' does not exist")))?)
        }
    };
    let states = context.arguments.list("states");
    check_states(states)?;
    let shows = |osd: OsdId| states.is_empty() || matches_states(&map, osd, states);
    let selection = Selection { root, hide_empty: !states.is_empty(), shows: &shows };
    let json = || tree::osd_json(&map, &selection);
    Ok(context.show(json, || tree::osd_plain(&map, &selection)))
}

/// Refuses states that exclude each other.
fn check_states(states: &[String]) -> Result<(), Refusal> {
    for (group, text) in [
        (&["up", "down", "destroyed"][..], "can specify only one of up, down and destroyed"),
        (&["in", "out"], "cannot specify both in and out"),
    ] {
        if group.iter().filter(|state| states.iter().any(|given| given == *state)).count() > 1 {
            return Err(Refusal::invalid(text));
        }
    }
    Ok(())
}

/// Whether an OSD is in one of the given states: if `up` or `down` is given, one of them must match; the same
/// for `in` and `out`.
fn matches_states(map: &OsdMap, osd: OsdId, states: &[String]) -> bool {
    let Some(known) = map.osd(osd) else { return false };
    let holds = |state: &str| match state {
        "up" => known.is_up(),
        "down" => !known.is_up(),
        "in" => known.is_in(),
        "out" => !known.is_in(),
        _ => known.state.contains(OsdState::DESTROYED),
    };
    let group_holds = |group: &[&str]| {
        let mut given = states.iter().filter(|state| group.contains(&state.as_str())).peekable();
        given.peek().is_none() || given.any(|state| holds(state))
    };
    group_holds(&["up", "down", "destroyed"]) && group_holds(&["in", "out"])
}

fn id_list(context: &Context<'_>, osds: &[i32]) -> Answer {
    let plain = || osds.iter().map(|osd| format!("{osd}\n")).collect();
    context.show(|| json!(osds), plain)
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osds: Vec<i32> = map_asked(context)?.existing_osds().map(|(osd, _)| osd.0).collect();
    Ok(id_list(context, &osds))
}

fn list_below(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = map_asked(context)?;
    let name = context.arguments.text("name");
    let missing = || Refusal::missing(format!("\"{name}\" does not exist"));
    let item = map.crush.item_id(name).ok_or_else(missing)?;
    let osds: Vec<i32> = map.crush.devices_below(item).into_iter().collect();
    Ok(id_list(context, &osds))
}

fn getmap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = map_asked(context)?;
    let bytes = map.to_bytes(types::features::SUPPORTED);
    Ok(Answer::output(bytes).saying(format!("got osdmap epoch {}", map.epoch)))
}

fn getcrushmap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = map_asked(context)?;
    let mut w = codec::Writer::new();
    map.crush.encode_for(&mut w, types::features::SUPPORTED);
    Ok(Answer::output(w.into_bytes()).saying(map.crush_version.to_string()))
}

fn getmaxosd(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let json = || json!({ "epoch": map.epoch.0, "max_osd": map.max_osd() });
    Ok(context.show(json, || format!("max_osd = {} in epoch {}\n", map.max_osd(), map.epoch)))
}

fn find(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = existing(context, "id")?;
    let map = &context.state.osdmap;
    let known = map.osd(osd).cloned().unwrap_or_default();
    let location: Map<String, Value> = map
        .crush
        .full_location(osd.0)
        .into_iter()
        .map(|(kind, name)| (kind, Value::from(name)))
        .collect();
    let metadata = context.state.osd_metadata.get(&osd);
    let host = metadata.and_then(|metadata| metadata.get("hostname"));
    let mut value = json!({
        "osd": osd.0,
        "addrs": addrs::vector(&known.client_addrs),
        "osd_fsid": known.uuid.to_string(),
    });
    if let Some(host) = host {
        value["host"] = json!(host);
    }
    value["crush_location"] = Value::Object(location);
    Ok(context.json(&value))
}

/// Metadata that the OSD reported when it booted.
pub(super) fn metadata_of(context: &Context<'_>, osd: OsdId) -> Value {
    let mut object = Map::new();
    object.insert("id".to_owned(), json!(osd.0));
    let known = context.state.osd_metadata.get(&osd).into_iter().flatten();
    object.extend(known.map(|(name, value)| (name.clone(), json!(value))));
    Value::Object(object)
}

fn metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    if context.arguments.optional("id").is_some() {
        let osd = existing(context, "id")?;
        return Ok(context.json(&metadata_of(context, osd)));
    }
    let osds = context.state.osdmap.existing_osds();
    let all: Vec<Value> = osds.map(|(osd, _)| metadata_of(context, osd)).collect();
    Ok(context.json(&json!(all)))
}

fn count_metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let property = context.arguments.text("property");
    let osds = context.state.osdmap.existing_osds();
    let values = osds.map(|(osd, _)| {
        let metadata = context.state.osd_metadata.get(&osd);
        metadata.and_then(|metadata| metadata.get(property)).map_or("unknown", String::as_str)
    });
    Ok(context.json(&count_values(values)))
}

fn versions(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let versions = osd_versions(context.state);
    Ok(context.json(&count_values(versions.iter().map(String::as_str))))
}

fn numa(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osds = context.state.osdmap.existing_osds();
    let host = &context.live.identity.hostname;
    let osds: Vec<OsdId> = osds.map(|(osd, _)| osd).collect();
    let json = || osds.iter().map(|osd| json!({ "osd": osd.0, "host": host })).collect();
    let plain = || {
        let mut table = Table::new(&[">OSD", "HOST", ">NETWORK", ">STORAGE", ">AFFINITY", "CPUS"]);
        for osd in &osds {
            let unknown = || "-".to_owned();
            let row = [osd.to_string(), host.clone(), unknown(), unknown(), unknown(), unknown()];
            table.row(row);
        }
        table.to_string()
    };
    Ok(context.show(json, plain))
}

fn min_compat_client(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(Answer::output(format!("{}\n", context.state.osdmap.require_min_compat_client)))
}
