//! Changes to the CRUSH tree: places, weights, names, tunables.

use super::osd::existing;
use crate::bootstrap::DEFAULT_ROOT;
use crate::change::Change;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::state::State;
use codec::{Decode, Reader};
use crush::{
    CrushMap, InsertError, Location, Profile, RemoveError, RenameError, WeightError, weight,
};
use types::{Errno, OsdId};

pub const COMMANDS: &[Command] = &[
    command(
        "osd setcrushmap name=prior_version,type=CephInt,req=false",
        "set crush map from input file",
        "osd",
        "rw",
        replace,
    ),
    command(
        "osd crush set name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 \
         name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "update crushmap position and weight for <name> to <weight> with location <args>",
        "osd",
        "rw",
        |context| place(context, false),
    ),
    command(
        "osd crush set name=prior_version,type=CephInt,req=false",
        "set crush map from input file",
        "osd",
        "rw",
        replace,
    ),
    command(
        "osd crush add name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 \
         name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "add or update crushmap position and weight for <name> with <weight> and location <args>",
        "osd",
        "rw",
        |context| place(context, true),
    ),
    command(
        "osd crush create-or-move name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 \
         name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "create entry or move existing entry for <name> <weight> at/to location <args>",
        "osd",
        "rw",
        create_or_move,
    ),
    command(
        "osd crush add-bucket name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=type,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=],req=false",
        "add no-parent (probably root) crush bucket <name> of type <type> to location <args>",
        "osd",
        "rw",
        add_bucket,
    ),
    command(
        "osd crush rename-bucket name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "rename bucket <srcname> to <dstname>",
        "osd",
        "rw",
        rename_bucket,
    ),
    command(
        "osd crush move name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "move existing entry for <name> to location <args>",
        "osd",
        "rw",
        move_item,
    ),
    command(
        "osd crush link name=name,type=CephString \
         name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "link existing entry for <name> under location <args>",
        "osd",
        "rw",
        link,
    ),
    command(
        "osd crush rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "remove <name> from crush map (everywhere, or just at <ancestor>)",
        "osd",
        "rw",
        |context| remove(context, false),
    ),
    command(
        "osd crush remove name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "remove <name> from crush map (everywhere, or just at <ancestor>)",
        "osd",
        "rw",
        |context| remove(context, false),
    ),
    command(
        "osd crush unlink name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "unlink <name> from crush map (everywhere, or just at <ancestor>)",
        "osd",
        "rw",
        |context| remove(context, true),
    ),
    command(
        "osd crush reweight-all",
        "recalculate the weights for the tree to ensure they sum correctly",
        "osd",
        "rw",
        reweight_all,
    ),
    command(
        "osd crush reweight name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=weight,type=CephFloat,range=0.0",
        "change <name>'s weight to <weight> in crush map",
        "osd",
        "rw",
        reweight,
    ),
    command(
        "osd crush reweight-subtree name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=weight,type=CephFloat,range=0.0",
        "change all leaf items beneath <name> to <weight> in crush map",
        "osd",
        "rw",
        reweight_subtree,
    ),
    command(
        "osd crush tunables \
         name=profile,type=CephChoices,strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default",
        "set crush tunables values to <profile>",
        "osd",
        "rw",
        set_profile,
    ),
    command(
        "osd crush set-tunable name=tunable,type=CephChoices,strings=straw_calc_version \
         name=value,type=CephInt",
        "set crush tunable <tunable> to <value>",
        "osd",
        "rw",
        set_tunable,
    ),
];

/// A refusal with the errno that Ceph gives for the kind of error.
trait Refused {
    fn refused(self) -> Refusal;
}

impl Refused for InsertError {
    fn refused(self) -> Refusal {
        let errno = match &self {
            InsertError::NameTaken { .. } | InsertError::AlreadyBelow { .. } => Errno::EXIST,
            InsertError::NoSuchItem { .. } => Errno::NOENT,
            _ => Errno::INVAL,
        };
        Refusal::new(errno, self.to_string())
    }
}

impl Refused for RemoveError {
    fn refused(self) -> Refusal {
        let errno = match &self {
            RemoveError::NoSuchItem { .. } | RemoveError::NotBelow { .. } => Errno::NOENT,
            RemoveError::NotEmpty { .. } => Errno::NOTEMPTY,
            RemoveError::InUse { .. } => Errno::BUSY,
            #[allow(unreachable_patterns)]
            _ => Errno::INVAL,
        };
        Refusal::new(errno, self.to_string())
    }
}

impl Refused for WeightError {
    fn refused(self) -> Refusal {
        Refusal::invalid(self.to_string())
    }
}

/// Runs an edit on a copy; a failed or idle one leaves no trace in the change.
fn edit<T>(
    context: &mut Context<'_>,
    edit: impl FnOnce(&mut CrushMap) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut map = context.change.crush_after(context.state).clone();
    let value = edit(&mut map)?;
    if map != *context.change.crush_after(context.state) {
        *context.change.crush(context.state) = map;
    }
    Ok(value)
}

/// Puts an OSD that has no place yet under a host of the default root.
pub(crate) fn crush_create_or_move(state: &State, change: &mut Change, osd: OsdId, host: &str) {
    if state.osdmap.crush.is_held(osd.0) {
        return;
    }
    let levels = [format!("root={DEFAULT_ROOT}"), format!("host={host}")];
    let Ok(location) = Location::parse(levels.iter().map(String::as_str)) else { return };
    let name = format!("osd.{osd}");
    let mut map = change.crush_after(state).clone();
    match map.create_or_move_item(osd.0, weight::WEIGHT_ONE, &name, &location) {
        Ok(true) => *change.crush(state) = map,
        Ok(false) => {}
        Err(error) => tracing::warn!(%osd, %error, "an OSD gets no place in the CRUSH map"),
    }
}

/// Takes an OSD out of the tree, if it is there.
pub(crate) fn crush_remove(state: &State, change: &mut Change, osd: OsdId) {
    let mut map = change.crush_after(state).clone();
    if map.remove_item(osd.0).is_ok() {
        *change.crush(state) = map;
    }
}

fn location(context: &Context<'_>) -> Result<Location, Refusal> {
    let arguments = context.arguments.list("args").iter().map(String::as_str);
    Location::parse(arguments).map_err(|error| Refusal::invalid(error.to_string()))
}

fn weight_argument(context: &Context<'_>) -> Result<u32, Refusal> {
    let value = context.arguments.float("weight").unwrap_or_default();
    weight::from_float(value as f32)
        .ok_or_else(|| Refusal::invalid(format!("weight {value} is out of range")))
}

/// An item's id by its name.
fn item(context: &Context<'_>, argument: &str) -> Result<i32, Refusal> {
    let name = context.arguments.text(argument);
    let missing = || Refusal::missing(format!("item {name} does not exist"));
    context.state.osdmap.crush.item_id(name).ok_or_else(missing)
}

fn replace(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let version = context.state.osdmap.crush_version;
    if let Some(prior) = context.arguments.int("prior_version")
        && prior != i64::from(version)
    {
        let text = format!("prior_version {prior} != crush version {version}");
        return Err(Refusal::new(Errno::PERM, text));
    }
    if context.input.is_empty() {
        return Err(Refusal::invalid("a crush map is expected as input (-i <file>)"));
    }
    let mut reader = Reader::new(&context.input);
    let map = CrushMap::decode(&mut reader)
        .map_err(|error| Refusal::invalid(format!("Failed to parse crushmap: {error}")))?;
    let pools = &context.state.osdmap.pools;
    if let Some((id, pool)) =
        pools.iter().find(|(_, pool)| map.rule(pool.crush_rule.into()).is_none())
    {
        let text = format!(
            "pool {id} references crush rule {}, which the new map does not have",
            pool.crush_rule
        );
        return Err(Refusal::invalid(text));
    }
    *context.change.crush(context.state) = map;
    Ok(Answer::said((version + 1).to_string()))
}

fn place(context: &mut Context<'_>, adds: bool) -> Result<Answer, Refusal> {
    let osd = existing(context, "id")?;
    let (location, weight) = (location(context)?, weight_argument(context)?);
    let name = format!("osd.{osd}");
    if !adds && !context.state.osdmap.crush.is_held(osd.0) {
        let text =
            format!("unable to set item id {osd} name '{name}': does not exist in crush map");
        return Err(Refusal::missing(text));
    }
    edit(context, |map| {
        map.update_item(osd.0, weight, &name, &location).map_err(Refused::refused)
    })?;
    let (verb, shown) = (if adds { "add" } else { "set" }, weight::to_float(weight));
    Ok(Answer::said(format!(
        "{verb} item id {osd} name '{name}' weight {shown} at location {{{location}}}: ok"
    )))
}

fn create_or_move(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = existing(context, "id")?;
    let (location, weight) = (location(context)?, weight_argument(context)?);
    let name = format!("osd.{osd}");
    edit(context, |map| {
        map.create_or_move_item(osd.0, weight, &name, &location).map_err(Refused::refused)
    })?;
    let shown = weight::to_float(weight);
    Ok(Answer::said(format!(
        "create-or-move updating item name '{name}' weight {shown} at location {{{location}}} to crush map"
    )))
}

fn add_bucket(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (name, kind) =
        (context.arguments.text("name").to_owned(), context.arguments.text("type").to_owned());
    let location = location(context)?;
    let map = &context.state.osdmap.crush;
    if map.item_id(&name).is_some() {
        return Ok(Answer::said(format!("bucket '{name}' already exists")));
    }
    let types = || map.types().map(|(_, name)| name).collect::<Vec<_>>().join(", ");
    let type_id = map.type_id(&kind).filter(|id| *id != ::crush::TYPE_DEVICE).ok_or_else(|| {
        Refusal::invalid(format!("type '{kind}' does not exist, types are {}", types()))
    })?;
    edit(context, |map| {
        let bucket = map.add_bucket(&name, type_id).map_err(Refused::refused)?;
        if !location.is_empty() {
            map.move_bucket(bucket, &location).map_err(Refused::refused)?;
        }
        Ok(())
    })?;
    let place =
        if location.is_empty() { String::new() } else { format!(" to location {{{location}}}") };
    Ok(Answer::said(format!("added bucket {name} type {kind}{place} to crush map")))
}

fn rename_bucket(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (from, to) = (
        context.arguments.text("srcname").to_owned(),
        context.arguments.text("dstname").to_owned(),
    );
    let renamed = edit(context, |map| match map.rename_bucket(&from, &to) {
        Err(RenameError::AlreadyDone { .. }) => Ok(false),
        Err(error @ RenameError::NoSuchName { .. }) => Err(Refusal::missing(error.to_string())),
        Err(error @ RenameError::NameTaken { .. }) => {
            Err(Refusal::new(Errno::EXIST, error.to_string()))
        }
        Err(error) => Err(Refusal::invalid(error.to_string())),
        Ok(()) => Ok(true),
    })?;
    Ok(Answer::said(match renamed {
        true => format!("renamed bucket {from} into {to}"),
        false => format!("srcname = '{from}' does not exist and dstname = '{to}' already exists"),
    }))
}

fn move_item(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (item, location) = (item(context, "name")?, location(context)?);
    let name = context.arguments.text("name").to_owned();
    let moved = edit(context, |map| {
        if item >= 0 {
            let weight = map.item_weight(item).unwrap_or(weight::WEIGHT_ONE);
            return map
                .create_or_move_item(item, weight, &name, &location)
                .map_err(Refused::refused);
        }
        if map.weight_at(item, &location).is_some() {
            return Ok(false);
        }
        map.move_bucket(item, &location).map_err(Refused::refused)?;
        Ok(true)
    })?;
    Ok(Answer::said(match moved {
        true => {
            format!("moved item id {item} name '{name}' to location {{{location}}} in crush map")
        }
        false => format!(
            "no need to move item id {item} name '{name}' to location {{{location}}} in crush map"
        ),
    }))
}

fn link(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (item, location) = (item(context, "name")?, location(context)?);
    let name = context.arguments.text("name").to_owned();
    if context.state.osdmap.crush.weight_at(item, &location).is_some() {
        return Ok(Answer::said(format!(
            "no need to move item id {item} name '{name}' to location {{{location}}} in crush map"
        )));
    }
    edit(context, |map| map.link_bucket(item, &location).map_err(Refused::refused))?;
    Ok(Answer::said(format!(
        "linked item id {item} name '{name}' to location {{{location}}} in crush map"
    )))
}

fn remove(context: &mut Context<'_>, unlinks: bool) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name").to_owned();
    let Some(item) = context.state.osdmap.crush.item_id(&name) else {
        return Ok(Answer::said(format!("device '{name}' does not appear in the crush map")));
    };
    let ancestor = match context.arguments.optional("ancestor") {
        None => None,
        Some(_) => Some(self::item(context, "ancestor")?),
    };
    edit(context, |map| {
        let done = match (unlinks, ancestor) {
            (false, None) => map.remove_item(item),
            (false, Some(ancestor)) => map.remove_item_under(item, ancestor),
            (true, None) => map.unlink_item(item),
            (true, Some(ancestor)) => map.unlink_item_under(item, ancestor),
        };
        done.map_err(Refused::refused)
    })?;
    Ok(Answer::said(format!("removed item id {item} name '{name}' from crush map")))
}

fn reweight_all(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    edit(context, |map| map.reweight().map_err(Refused::refused))?;
    Ok(Answer::said("reweighted crush hierarchy"))
}

fn reweight(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (item, weight) = (item(context, "name")?, weight_argument(context)?);
    let name = context.arguments.text("name").to_owned();
    if item < 0 {
        return Err(Refusal::invalid(format!("device '{name}' is not a leaf in the crush map")));
    }
    edit(context, |map| map.set_item_weight(item, weight).map_err(Refused::refused))?;
    let shown = context.arguments.text("weight");
    Ok(Answer::said(format!("reweighted item id {item} name '{name}' to {shown} in crush map")))
}

fn reweight_subtree(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (item, weight) = (item(context, "name")?, weight_argument(context)?);
    let name = context.arguments.text("name").to_owned();
    if item >= 0 {
        return Err(Refusal::invalid(format!("device '{name}' is a leaf in the crush map")));
    }
    edit(context, |map| map.set_subtree_weight(item, weight).map_err(Refused::refused))?;
    let shown = context.arguments.text("weight");
    Ok(Answer::said(format!("reweighted subtree id {item} name '{name}' to {shown} in crush map")))
}

fn set_profile(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("profile").to_owned();
    edit(context, |map| {
        if let Some(profile) = Profile::from_name(&name) {
            map.tunables.apply(profile);
        }
        Ok(())
    })?;
    Ok(Answer::said(format!("adjusted tunables profile to {name}")))
}

fn set_tunable(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let value = context.arguments.int("value").unwrap_or(0);
    let version = u8::try_from(value).ok().filter(|version| *version <= 2);
    let version =
        version.ok_or_else(|| Refusal::invalid("value must be 0 or 1; got a larger one"))?;
    edit(context, |map| {
        map.tunables.straw_calc_version = version;
        Ok(())
    })?;
    Ok(Answer::said(format!("adjusted tunable straw_calc_version to {version}")))
}
