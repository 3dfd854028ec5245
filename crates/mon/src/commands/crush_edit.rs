//! `osd crush` for single items: changes of their location, and of their weight with it.

use super::crush::{edited, item_named, rename_refused, set_map};
use super::crush_weights::{
    no_such_device, reweight, reweight_all, reweight_subtree, weight_given,
};
use crate::bootstrap::DEFAULT_ROOT;
use crate::change::Change;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::state::State;
use crush::weight;
use crush::{CrushMap, InsertError, Location, RemoveError, RenameError, SwapError, TYPE_DEVICE};
use maps::OsdState;
use types::{Errno, OsdId};

/// CRUSH weight of an OSD for which none was given.
const INITIAL_WEIGHT: u32 = weight::WEIGHT_ONE;

const ADD_BUCKET: &str = "osd crush add-bucket \
    name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString \
    name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=],req=false";
const RENAME_BUCKET: &str = "osd crush rename-bucket \
    name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]";
const SWAP_BUCKET: &str = "osd crush swap-bucket \
    name=source,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=dest,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=yes_i_really_mean_it,type=CephBool,req=false";
const SET: &str = "osd crush set name=id,type=CephOsdName \
    name=weight,type=CephFloat,range=0.0 \
    name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]";
const ADD: &str = "osd crush add name=id,type=CephOsdName \
    name=weight,type=CephFloat,range=0.0 \
    name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]";
const CREATE_OR_MOVE: &str = "osd crush create-or-move name=id,type=CephOsdName \
    name=weight,type=CephFloat,range=0.0 \
    name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]";
const MOVE: &str = "osd crush move name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]";
const LINK: &str = "osd crush link name=name,type=CephString \
    name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]";
const RM: &str = "osd crush rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]";
const REMOVE: &str = "osd crush remove name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]";
const UNLINK: &str = "osd crush unlink name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]";
const REWEIGHT: &str = "osd crush reweight name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=weight,type=CephFloat,range=0.0";
const REWEIGHT_SUBTREE: &str = "osd crush reweight-subtree \
    name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0";

const REMOVE_HELP: &str = "remove <name> from crush map (everywhere, or just at <ancestor>)";

pub const COMMANDS: &[Command] = &[
    command(
        ADD_BUCKET,
        "add no-parent (probably root) crush bucket <name> of type <type> to location <args>",
        "osd",
        "rw",
        add_bucket,
    ),
    command(RENAME_BUCKET, "rename bucket <srcname> to <dstname>", "osd", "rw", rename_bucket),
    command(
        SWAP_BUCKET,
        "swap existing bucket contents from (orphan) bucket <source> and <target>",
        "osd",
        "rw",
        swap_bucket,
    ),
    command(
        SET,
        "update crushmap position and weight for <name> to <weight> with location <args>",
        "osd",
        "rw",
        set,
    ),
    // After the other form of `set`: this one would accept any arguments.
    command(
        "osd crush set name=prior_version,type=CephInt,req=false",
        "set crush map from input file",
        "osd",
        "rw",
        set_map,
    ),
    command(
        ADD,
        "add or update crushmap position and weight for <name> with <weight> and location <args>",
        "osd",
        "rw",
        add,
    ),
    command(
        CREATE_OR_MOVE,
        "create entry or move existing entry for <name> <weight> at/to location <args>",
        "osd",
        "rw",
        create_or_move,
    ),
    command(MOVE, "move existing entry for <name> to location <args>", "osd", "rw", move_item),
    command(LINK, "link existing entry for <name> under location <args>", "osd", "rw", link),
    command(RM, REMOVE_HELP, "osd", "rw", remove),
    command(REMOVE, REMOVE_HELP, "osd", "rw", remove),
    command(
        UNLINK,
        "unlink <name> from crush map (everywhere, or just at <ancestor>)",
        "osd",
        "rw",
        unlink,
    ),
    command(
        "osd crush reweight-all",
        "recalculate the weights for the tree to ensure they sum correctly",
        "osd",
        "rw",
        reweight_all,
    ),
    command(REWEIGHT, "change <name>'s weight to <weight> in crush map", "osd", "rw", reweight),
    command(
        REWEIGHT_SUBTREE,
        "change all leaf items beneath <name> to <weight> in crush map",
        "osd",
        "rw",
        reweight_subtree,
    ),
];

/// Places a booting OSD below its host. An OSD with a location stays there: it may be an administrator's
/// choice, and OSDs report only their host.
pub(crate) fn crush_create_or_move(state: &State, change: &mut Change, osd: OsdId, host: &str) {
    if change.crush_after(state).is_held(osd.0) {
        return;
    }
    let levels = [format!("root={DEFAULT_ROOT}"), format!("host={host}")];
    let location = match Location::parse(levels.iter().map(String::as_str)) {
        Ok(location) => location,
        Err(error) => {
            tracing::warn!(%osd, host, %error, "the host's name cannot name a crush bucket");
            return;
        }
    };
    let placed = edited(state, change, |crush| {
        let placed = crush.create_or_move_item(osd.0, INITIAL_WEIGHT, &osd_name(osd), &location);
        placed.map_err(|error| misplaced(&error))
    });
    if let Err(error) = placed {
        tracing::warn!(%osd, host, %error, "the OSD gets no place in the crush map");
    }
}

/// Removes an OSD from the tree; does nothing if it has no location.
pub(super) fn crush_remove(state: &State, change: &mut Change, osd: OsdId) {
    let removed = edited(state, change, |crush| Ok(crush.remove_item(osd.0)));
    if let Ok(Err(error)) = removed {
        tracing::debug!(%osd, %error, "nothing was taken out of the crush map");
    }
}

fn osd_name(osd: OsdId) -> String {
    format!("osd.{osd}")
}

fn misplaced(error: &InsertError) -> Refusal {
    let errno = match error {
        InsertError::NameTaken { .. } => Errno::EXIST,
        InsertError::NoSuchItem { .. } => Errno::NOENT,
        _ => Errno::INVAL,
    };
    Refusal::new(errno, error.to_string())
}

fn location(context: &Context<'_>) -> Result<Location, Refusal> {
    let levels = context.arguments.list("args").iter().map(String::as_str);
    Location::parse(levels).map_err(|error| Refusal::invalid(error.to_string()))
}

fn add_bucket(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let location = location(context)?;
    let (name, kind) = (context.arguments.text("name"), context.arguments.text("type"));
    let crush = &context.state.osdmap.crush;
    if crush.item_id(name).is_some() {
        return Ok(Answer::said(format!("bucket '{name}' already exists")));
    }
    let type_id = crush.type_id(kind).filter(|type_id| *type_id != TYPE_DEVICE);
    let type_id = type_id.ok_or_else(|| {
        let buckets = crush.types().filter(|(id, _)| *id != i32::from(TYPE_DEVICE));
        let known = buckets.map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        Refusal::invalid(format!("type '{kind}' does not exist, types of buckets are {known}"))
    })?;
    edited(context.state, &mut context.change, |crush| {
        let bucket = crush.add_bucket(name, type_id).map_err(|error| misplaced(&error))?;
        match location.is_empty() {
            true => Ok(()),
            false => crush.move_bucket(bucket, &location).map_err(|error| misplaced(&error)),
        }
    })?;
    let place = match location.is_empty() {
        true => "to crush map".to_owned(),
        false => format!("to location {{{location}}}"),
    };
    Ok(Answer::said(format!("added bucket {name} type {kind} {place}")))
}

fn rename_bucket(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (from, to) = (context.arguments.text("srcname"), context.arguments.text("dstname"));
    let renamed =
        edited(context.state, &mut context.change, |crush| Ok(crush.rename_bucket(from, to)))?;
    match renamed {
        Ok(()) => Ok(Answer::said(format!("renamed bucket {from} into {to}"))),
        Err(RenameError::AlreadyDone { .. }) => Ok(Answer::said(format!(
            "srcname = '{from}' does not exist and dstname = '{to}' already exists"
        ))),
        Err(error) => Err(rename_refused(&error)),
    }
}

fn swap_bucket(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (source, dest) = (context.arguments.text("source"), context.arguments.text("dest"));
    let crush = &context.state.osdmap.crush;
    let find = |role: &str, name: &str| {
        let missing = || Refusal::missing(format!("{role} item {name} does not exist"));
        crush.item_id(name).ok_or_else(missing)
    };
    let (source_id, dest_id) = (find("source", source)?, find("dest", dest)?);
    if crush.is_held(source_id) && !context.arguments.flag("yes_i_really_mean_it") {
        let text = format!(
            "source item {source} is not an orphan bucket; pass --yes-i-really-mean-it to proceed anyway"
        );
        return Err(Refusal::new(Errno::PERM, text));
    }
    edited(context.state, &mut context.change, |crush| {
        crush.swap_buckets(source_id, dest_id).map_err(|error| {
            let errno = match error {
                SwapError::Algorithms => Errno::PERM,
                _ => Errno::INVAL,
            };
            Refusal::new(errno, format!("failed to swap bucket contents: {error}"))
        })
    })?;
    Ok(Answer::said(format!("swapped bucket of {source} to {dest}")))
}

/// The OSD of the argument `id`, which must exist.
fn known_osd(context: &Context<'_>) -> Result<OsdId, Refusal> {
    let osd = context.arguments.osd("id");
    let missing = format!("osd.{osd} does not exist. Create it before updating the crush map");
    if context.state.osdmap.exists(osd) { Ok(osd) } else { Err(Refusal::missing(missing)) }
}

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (osd, (weight, given), location) =
        (known_osd(context)?, weight_given(context)?, location(context)?);
    let described =
        format!("set item id {} name 'osd.{osd}' weight {given} at location {{{location}}}", osd.0);
    if context.state.osdmap.crush.item_name(osd.0).is_none() {
        return Err(Refusal::missing(format!("unable to {described}: does not exist")));
    }
    let changed =
        edited(context.state, &mut context.change, |crush| update(crush, osd, weight, &location))?;
    Ok(placed(&described, changed))
}

fn update(
    crush: &mut CrushMap,
    osd: OsdId,
    weight: u32,
    location: &Location,
) -> Result<bool, Refusal> {
    let updated = crush.update_item(osd.0, weight, &osd_name(osd), location);
    updated.map_err(|error| misplaced(&error))
}

fn placed(described: &str, changed: bool) -> Answer {
    Answer::said(match changed {
        true => format!("{described} to crush map"),
        false => format!("{described}: no change"),
    })
}

fn add(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (osd, (weight, given), location) =
        (known_osd(context)?, weight_given(context)?, location(context)?);
    let is_there = context.state.osdmap.crush.weight_at(osd.0, &location).is_some();
    let changed = edited(context.state, &mut context.change, |crush| {
        if is_there {
            return update(crush, osd, weight, &location);
        }
        let inserted = crush.insert_item(osd.0, weight, &osd_name(osd), &location);
        inserted.map(|()| true).map_err(|error| misplaced(&error))
    })?;
    let action = if is_there { "set" } else { "add" };
    let described = format!(
        "{action} item id {} name 'osd.{osd}' weight {given} at location {{{location}}}",
        osd.0
    );
    Ok(placed(&described, changed))
}

fn create_or_move(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (osd, (weight, given), location) =
        (known_osd(context)?, weight_given(context)?, location(context)?);
    let changed = edited(context.state, &mut context.change, |crush| {
        let moved = crush.create_or_move_item(osd.0, weight, &osd_name(osd), &location);
        moved.map_err(|error| misplaced(&error))
    })?;
    let verb = if changed { "updating" } else { "updated" };
    Ok(Answer::said(format!(
        "create-or-move {verb} item name 'osd.{osd}' weight {given} at location {{{location}}} to crush \
         map"
    )))
}

fn move_item(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let location = location(context)?;
    let name = context.arguments.text("name");
    let crush = &context.state.osdmap.crush;
    let item = item_named(crush, name)?;
    let described = format!("item id {item} name '{name}' to location {{{location}}} in crush map");
    if crush.weight_at(item, &location).is_some() {
        return Ok(Answer::said(format!("no need to move {described}")));
    }
    edited(context.state, &mut context.change, |crush| {
        let moved = match item {
            0.. => crush.create_or_move_item(item, 0, name, &location).map(|_| ()),
            _ => crush.move_bucket(item, &location),
        };
        moved.map_err(|error| misplaced(&error))
    })?;
    Ok(Answer::said(format!("moved {described}")))
}

fn link(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let location = location(context)?;
    let name = context.arguments.text("name");
    let crush = &context.state.osdmap.crush;
    let item = item_named(crush, name)?;
    let described = format!("item id {item} name '{name}' to location {{{location}}}");
    if crush.weight_at(item, &location).is_some() {
        return Ok(Answer::said(format!("no need to move {described} in crush map")));
    }
    edited(context.state, &mut context.change, |crush| {
        crush.link_bucket(item, &location).map_err(|error| {
            let refusal = misplaced(&error);
            Refusal::new(refusal.errno, format!("cannot link {described}: {refusal}"))
        })
    })?;
    Ok(Answer::said(format!("linked {described} in crush map")))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    take_out(context, false)
}

fn unlink(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    take_out(context, true)
}

/// Removes an item from the tree; `unlink_only` keeps a bucket itself.
fn take_out(context: &mut Context<'_>, unlink_only: bool) -> Result<Answer, Refusal> {
    let (name, ancestor) = (context.arguments.text("name"), context.arguments.optional("ancestor"));
    let map = &context.state.osdmap;
    let Some(item) = map.crush.item_id(name) else {
        return Ok(Answer::said(no_such_device(name)));
    };
    let ancestor = ancestor.map(|ancestor| {
        let text = format!("ancestor item '{ancestor}' does not appear in the crush map");
        map.crush.item_id(ancestor).ok_or_else(|| Refusal::missing(text))
    });
    let ancestor = ancestor.transpose()?.filter(|ancestor| *ancestor < 0);
    let outcome = edited(context.state, &mut context.change, |crush| {
        Ok(match (unlink_only, ancestor) {
            (true, Some(ancestor)) => crush.unlink_item_under(item, ancestor),
            (true, None) => crush.unlink_item(item),
            (false, Some(ancestor)) => crush.remove_item_under(item, ancestor),
            (false, None) => crush.remove_item(item),
        })
    })?;
    match outcome {
        Ok(()) => {}
        Err(RemoveError::NoSuchItem { .. } | RemoveError::NotBelow { .. }) => {
            let text = format!("item {item} does not appear in that position");
            return Ok(Answer::said(text));
        }
        Err(error @ RemoveError::NotEmpty { .. }) => {
            return Err(Refusal::new(Errno::NOTEMPTY, error.to_string()));
        }
        Err(error @ RemoveError::InUse { .. }) => {
            return Err(Refusal::new(Errno::BUSY, error.to_string()));
        }
    }
    if !unlink_only && map.crush_node_flags.contains_key(&item) {
        let incremental = context.change.osdmap(context.state);
        incremental.new_crush_node_flags.insert(item, OsdState::default());
    }
    Ok(Answer::said(format!("removed item id {item} name '{name}' from crush map")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, state};
    use super::*;
    use serde_json::{Value, json};
    use types::UTime;

    #[test]
    fn a_bucket_is_added_moved_renamed_and_removed() {
        let mut state = state();
        let mut said = |prefix: &str, given: Value| run(&mut state, prefix, given).unwrap().text;
        let rack = json!({ "name": "rack1", "type": "rack" });
        let added = said("osd crush add-bucket", rack.clone());
        assert_eq!(added, "added bucket rack1 type rack to crush map");
        assert_eq!(said("osd crush add-bucket", rack), "bucket 'rack1' already exists");
        let to_root = json!({ "name": "rack1", "args": ["root=default"] });
        let place = "item id -3 name 'rack1' to location {root=default} in crush map";
        assert_eq!(said("osd crush move", to_root.clone()), format!("moved {place}"));
        assert_eq!(said("osd crush move", to_root), format!("no need to move {place}"));
        let names = json!({ "srcname": "rack1", "dstname": "rack2" });
        let renamed = said("osd crush rename-bucket", names.clone());
        assert_eq!(renamed, "renamed bucket rack1 into rack2");
        let again = "srcname = 'rack1' does not exist and dstname = 'rack2' already exists";
        assert_eq!(said("osd crush rename-bucket", names), again);
        let rack = json!({ "name": "rack2" });
        let removed = said("osd crush rm", rack.clone());
        assert_eq!(removed, "removed item id -3 name 'rack2' from crush map");
        let again = "device 'rack2' does not appear in the crush map";
        assert_eq!(said("osd crush rm", rack), again);
    }

    #[test]
    fn an_osd_is_placed_where_it_is_said_to_be() {
        let mut state = state();
        let place =
            |id: i32| json!({ "id": id, "weight": 0.5, "args": ["host=aaa", "root=default"] });
        let described = "set item id 0 name 'osd.0' weight 0.5 at location {host=aaa,root=default}";
        let answer = run(&mut state, "osd crush set", place(0)).unwrap();
        assert_eq!(answer.text, format!("{described} to crush map"));
        let answer = run(&mut state, "osd crush set", place(0)).unwrap();
        assert_eq!(answer.text, format!("{described}: no change"));
        let host = state.osdmap.crush.item_id("aaa").unwrap();
        assert_eq!(state.osdmap.crush.children(host), [0]);
        let refusal = run(&mut state, "osd crush set", place(7)).unwrap_err();
        assert_eq!(refusal.errno, Errno::NOENT);
    }

    #[test]
    fn a_starting_osd_without_a_place_gets_one_and_others_stay() {
        let mut state = state();
        run(&mut state, "osd crush rm", json!({ "name": "osd.1" })).unwrap();
        let mut change = Change::new(UTime::ZERO);
        crush_create_or_move(&state, &mut change, OsdId(1), "no host's name");
        crush_create_or_move(&state, &mut change, OsdId(2), "other");
        assert!(change.is_empty());
        crush_create_or_move(&state, &mut change, OsdId(1), "other");
        let crush = change.crush_after(&state);
        assert_eq!(crush.children(crush.item_id("other").unwrap()), [1]);
        assert_eq!(crush.item_weight(1), Some(INITIAL_WEIGHT));
    }

    #[test]
    fn buckets_with_content_or_a_rule_stay() {
        let mut state = state();
        let mut remove = |name: &str| run(&mut state, "osd crush rm", json!({ "name": name }));
        assert_eq!(remove("default").unwrap_err().errno, Errno::NOTEMPTY);
        for item in ["osd.0", "osd.1", "osd.2", "h"] {
            remove(item).unwrap();
        }
        assert_eq!(remove("default").unwrap_err().errno, Errno::BUSY);
    }
}
