//! `mon`: the mon map, and metadata of monitors.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::addrs;
use crate::dump::maps::{monmap, monmap_plain};
use crate::dump::peers::count_values;
use crate::keys;
use maps::{MonFeatures, MonInfo};
use serde_json::{Value, json};
use types::{EntityAddrVec, Errno};

pub const COMMANDS: &[Command] = &[
    command(
        "mon dump name=epoch,type=CephInt,range=0,req=false",
        "dump formatted monmap (optionally from epoch)",
        "mon",
        "r",
        dump,
    ),
    command("mon stat", "summarize monitor status", "mon", "r", stat),
    command(
        "mon getmap name=epoch,type=CephInt,range=0,req=false",
        "get monmap",
        "mon",
        "r",
        getmap,
    ),
    command(
        "mon metadata name=id,type=CephString,req=false",
        "fetch metadata for mon <id>",
        "mon",
        "r",
        metadata,
    ),
    command(
        "mon count-metadata name=property,type=CephString",
        "count mons by metadata field property",
        "mon",
        "r",
        count_metadata,
    ),
    command("mon versions", "check running versions of monitors", "mon", "r", versions),
    command(
        "mon feature ls name=with_value,type=CephBool,req=false",
        "list available mon map features to be set/unset",
        "mon",
        "r",
        features,
    ),
    command(
        "mon ok-to-stop name=ids,type=CephString,n=N",
        "check whether mon(s) can be safely stopped without reducing immediate availability",
        "mon",
        "r",
        ok_to_stop,
    ),
    command(
        "mon feature set name=feature_name,type=CephString \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "set provided feature on mon map",
        "mon",
        "rw",
        set_feature,
    ),
    command(
        "mon ok-to-add-offline",
        "check whether adding a mon and not starting it would break quorum",
        "mon",
        "r",
        // Monitors do not vote: a monitor that does not run blocks nothing.
        |_| Ok(Answer::said("adding another monitor that is not running will not break quorum")),
    ),
    command(
        "mon ok-to-rm name=id,type=CephString",
        "check whether removing the specified mon would break quorum",
        "mon",
        "r",
        ok_to_remove,
    ),
    command(
        "mon set-rank name=name,type=CephString name=rank,type=CephInt",
        "set the rank for the specified mon",
        "mon",
        "rw",
        set_rank,
    ),
    command("mon enable-msgr2", "enable the msgr2 protocol on port 3300", "mon", "rw", |_| {
        Ok(Answer::said("all monitors have already enabled msgr2"))
    }),
    command("mon scrub", "scrub the monitor stores", "mon", "rw", |_| Ok(Answer::default())),
    command(
        "mon add name=name,type=CephString name=addr,type=CephIPAddr",
        "add a monitor",
        "mon",
        "rw",
        add,
    ),
    command("mon rm name=name,type=CephString", "remove a monitor", "mon", "rw", remove),
];

/// Refuses epochs other than the current one, as older mon maps are not kept.
fn check_epoch(context: &Context<'_>) -> Result<(), Refusal> {
    let current = i64::from(context.state.monmap.epoch.0);
    match context.arguments.int("epoch") {
        Some(epoch) if epoch != 0 && epoch != current => {
            Err(Refusal::missing(format!("there is no monmap of epoch {epoch}, only {current}")))
        }
        _ => Ok(()),
    }
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    check_epoch(context)?;
    let map = &context.state.monmap;
    let ranks: Vec<usize> = context.state.quorum().into_iter().map(|(rank, _)| rank).collect();
    let json = || {
        let mut value = monmap(map);
        value["quorum"] = json!(ranks);
        value
    };
    let answer = context.show(json, || monmap_plain(map));
    Ok(answer.saying(format!("dumped monmap epoch {}", map.epoch)))
}

fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.monmap;
    let leader = context.state.leader_name();
    let quorum = context.state.quorum();
    let json = || {
        let quorum = quorum.iter().map(|(rank, name)| json!({ "rank": rank, "name": name }));
        json!({
            "epoch": map.epoch.0,
            "min_mon_release_name": map.min_mon_release.name(),
            "num_mons": map.ranks.len(),
            "leader": leader,
            "quorum": quorum.collect::<Vec<_>>(),
        })
    };
    let plain = || {
        let mons = map.mons().map(|mon| format!("{}={}", mon.name, mon.public_addrs));
        let ranks: Vec<String> = quorum.iter().map(|(rank, _)| rank.to_string()).collect();
        let names: Vec<&str> = quorum.iter().map(|(_, name)| *name).collect();
        format!(
            "e{}: {} mons at {{{}}} removed_ranks: {{}} disallowed_leaders: {{}}, election epoch \
             {}, leader {} {leader}, quorum {} {}\n",
            map.epoch,
            map.ranks.len(),
            mons.collect::<Vec<_>>().join(","),
            context.state.election_epoch(),
            map.rank(leader).unwrap_or(0),
            ranks.join(","),
            names.join(","),
        )
    };
    Ok(context.show(json, plain))
}

fn getmap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    check_epoch(context)?;
    let map = &context.state.monmap;
    let bytes = codec::encode_to_bytes(map);
    Ok(Answer::output(bytes).saying(format!("got monmap epoch {}", map.epoch)))
}

/// Metadata of a monitor or manager process.
pub fn own_metadata(context: &Context<'_>, name: &str, addrs: &EntityAddrVec) -> Value {
    let present = context.state.members.present.get(name);
    let facts = present.map_or(&context.live.identity.host_facts, |present| &present.host_facts);
    let mut metadata = json!({
        "name": name,
        "addr": addrs::legacy(addrs),
        "addrs": addrs.to_string(),
        "arch": std::env::consts::ARCH,
        "ceph_release": "reef",
        "ceph_version": context.state.members.release(name),
        "ceph_version_short": "18.2.0",
        "hostname": present.map_or(&context.live.identity.hostname, |present| &present.hostname),
        "os": "Linux",
    });
    for (fact, value) in facts {
        metadata[fact] = json!(value);
    }
    metadata
}

/// Metadata of a monitor.
fn metadata_of(context: &Context<'_>, mon: &MonInfo) -> Value {
    let mut metadata = own_metadata(context, &mon.name, &mon.public_addrs);
    metadata["compression_algorithms"] = json!("none");
    metadata["created_at"] = json!(context.state.monmap.created.to_iso());
    // Unknown, as for Ceph's monitors on disks that are not local.
    for field in ["ceph_version_when_created", "device_ids", "device_paths", "devices"] {
        metadata[field] = json!("");
    }
    metadata
}

fn metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let mons = context.state.monmap.mons();
    let all: Vec<Value> = mons.map(|mon| metadata_of(context, mon)).collect();
    match context.arguments.optional("id") {
        None => Ok(context.json(&json!(all))),
        Some(id) => {
            let found = all.iter().find(|one| one["name"] == id);
            let found =
                found.ok_or_else(|| Refusal::missing(format!("mon.{id} does not exist")))?;
            Ok(context.json(found))
        }
    }
}

fn count_metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let property = context.arguments.text("property");
    let mons = context.state.monmap.mons();
    let all = mons.map(|mon| metadata_of(context, mon));
    let values: Vec<String> =
        all.map(|one| one[property].as_str().unwrap_or("unknown").to_owned()).collect();
    Ok(context.json(&count_values(values.iter().map(String::as_str))))
}

/// The releases of all monitors.
pub fn releases<'a>(context: &'a Context<'_>) -> impl Iterator<Item = &'a str> {
    context.state.monmap.ranks.iter().map(|name| context.state.members.release(name))
}

fn versions(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let releases: Vec<&str> = releases(context).collect();
    Ok(context.json(&count_values(releases.into_iter())))
}

fn features(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.monmap;
    let names = |features: MonFeatures| features.names().collect::<Vec<_>>();
    let supported = names(map.persistent_features);
    let required = MonFeatures(map.persistent_features.0 | map.optional_features.0);
    let json = || {
        json!({
            "all": { "supported": supported, "persistent": supported },
            "monmap": {
                "persistent": supported,
                "optional": names(map.optional_features),
                "required": names(required),
            },
        })
    };
    let plain = || {
        let list = supported.join(",");
        format!(
            "all features\n\tsupported: [{list}]\n\tpersistent: [{list}]\non current monmap (epoch \
             {})\n\tpersistent: [{list}]\n\trequired: [{}]\n",
            map.epoch,
            names(required).join(",")
        )
    };
    Ok(context.show(json, plain))
}

fn ok_to_stop(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let ids = context.arguments.list("ids");
    let stays = |(_, name): &(usize, &str)| !ids.iter().any(|id| id == name);
    if context.state.quorum().iter().any(stays) {
        return Ok(Answer::said("quorum should be preserved"));
    }
    let text = format!(
        "not enough monitors would be available after stopping {} of {}",
        ids.len(),
        context.state.monmap.ranks.len()
    );
    Err(Refusal::new(Errno::BUSY, text))
}

fn ok_to_remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = context.arguments.text("id");
    if !context.state.monmap.mon_info.contains_key(id) {
        return Ok(Answer::said(format!("mon.{id} does not exist or has already been removed")));
    }
    if context.state.quorum().iter().any(|(_, name)| *name != id) {
        return Ok(Answer::said("safe to remove mon.".to_owned() + id));
    }
    let text = format!("removing mon.{id} would break quorum: no other monitor is alive");
    Err(Refusal::new(Errno::BUSY, text))
}

fn set_rank(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name");
    let current = context.state.monmap.rank(name);
    let current = current.ok_or_else(|| Refusal::missing(format!("mon.{name} does not exist")))?;
    if context.arguments.int("rank").and_then(|rank| usize::try_from(rank).ok()) == Some(current) {
        return Ok(Answer::said(format!("mon.{name} already has rank {current}")));
    }
    let text = format!(
        "mon.{name} keeps rank {current}: ranks mean nothing where monitors do not vote, and running \
         monitors are known by theirs"
    );
    Err(Refusal::new(Errno::NOTSUPP, text))
}

/// All existing features were set when the map was created.
fn set_feature(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("feature_name");
    if !context.state.monmap.persistent_features.names().any(|known| known == name) {
        return Err(Refusal::invalid(format!(
            "feature '{name}' is not known, 'ceph mon feature ls' tells which are"
        )));
    }
    Ok(Answer::default())
}

fn add(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name");
    let text = format!(
        "mon.{name}: a monitor is added by starting it on the same control store: \
         sepiola mon start --name {name}"
    );
    Err(Refusal::new(Errno::NOTSUPP, text))
}

/// Removes a monitor from the map. If it runs, it keeps serving, and joins again at its next start.
fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name").to_owned();
    let current = &context.state.monmap;
    if !current.mon_info.contains_key(&name) {
        return Ok(Answer::said(format!("mon.{name} does not exist or has already been removed")));
    }
    if current.ranks.len() == 1 {
        let text = format!("error: refusing removal of last monitor {name}");
        return Err(Refusal::invalid(text));
    }
    let mut map = current.clone();
    let addrs = map.mon_info.remove(&name).map(|mon| mon.public_addrs).unwrap_or_default();
    map.ranks.retain(|other| *other != name);
    map.epoch = map.epoch.next();
    map.last_changed = context.change.now();
    context.change.put(keys::monmap(map.epoch), codec::encode_to_bytes(&map));
    context.change.delete(keys::monmap(current.epoch));
    let left = map.ranks.len();
    Ok(Answer::said(format!("removing mon.{name} at {addrs}, there will be {left} monitors")))
}
