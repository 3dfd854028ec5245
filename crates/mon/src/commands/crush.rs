//! `osd crush` for the map as a whole: dump, tunables, export and import.

use crate::change::Change;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump;
use crate::state::State;
use codec::decode_all;
use crush::{
    AddRuleError, Algorithm, CrushMap, DEFAULT_CHOOSE_ARGS, Profile, RenameError, requirements,
};
use maps::{PoolType, Release};
use serde_json::json;
use std::sync::Arc;
use types::{Errno, PoolId};

const TUNABLES: &str = "osd crush tunables name=profile,type=CephChoices,\
    strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default";
const SET_TUNABLE: &str = "osd crush set-tunable \
    name=tunable,type=CephChoices,strings=straw_calc_version name=value,type=CephInt";
const GET_TUNABLE: &str =
    "osd crush get-tunable name=tunable,type=CephChoices,strings=straw_calc_version";
const WEIGHT_SET_CREATE: &str = "osd crush weight-set create name=pool,type=CephPoolname \
    name=mode,type=CephChoices,strings=flat|positional";
const WEIGHT_SET_REWEIGHT: &str = "osd crush weight-set reweight name=pool,type=CephPoolname \
    name=item,type=CephString name=weight,type=CephFloat,range=0.0,n=N";
const WEIGHT_SET_REWEIGHT_COMPAT: &str = "osd crush weight-set reweight-compat \
    name=item,type=CephString name=weight,type=CephFloat,range=0.0,n=N";

pub const COMMANDS: &[Command] = &[
    command("osd crush dump", "dump crush map", "osd", "r", show),
    command(
        "osd crush tree name=show_shadow,type=CephBool,req=false",
        "dump crush buckets and items in a tree view",
        "osd",
        "r",
        tree,
    ),
    command(
        "osd crush ls name=node,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "list items beneath a node in the CRUSH tree",
        "osd",
        "r",
        list,
    ),
    command(
        "osd setcrushmap name=prior_version,type=CephInt,req=false",
        "set crush map from input file",
        "osd",
        "rw",
        set_map,
    ),
    command(
        "osd crush set-all-straw-buckets-to-straw2",
        "convert all CRUSH current straw buckets to use the straw2 algorithm",
        "osd",
        "rw",
        convert_straw,
    ),
    command(TUNABLES, "set crush tunables values to <profile>", "osd", "rw", set_tunables),
    command(SET_TUNABLE, "set crush tunable <tunable> to <value>", "osd", "rw", set_tunable),
    command(GET_TUNABLE, "get crush tunable <tunable>", "osd", "r", tunable),
    command("osd crush show-tunables", "show current crush tunables", "osd", "r", tunables),
    command("osd crush weight-set ls", "list crush weight sets", "osd", "r", weight_sets),
    command("osd crush weight-set dump", "dump crush weight sets", "osd", "r", weight_set_dump),
    command(
        "osd crush weight-set create-compat",
        "create a default backward-compatible weight-set",
        "osd",
        "rw",
        no_weight_sets,
    ),
    command(WEIGHT_SET_CREATE, "create a weight-set for a given pool", "osd", "rw", no_weight_sets),
    command(
        "osd crush weight-set rm name=pool,type=CephPoolname",
        "remove the weight-set for a given pool",
        "osd",
        "rw",
        no_weight_sets,
    ),
    command(
        "osd crush weight-set rm-compat",
        "remove the backward-compatible weight-set",
        "osd",
        "rw",
        no_weight_sets,
    ),
    command(
        WEIGHT_SET_REWEIGHT,
        "set weight for an item (bucket or osd) in a pool's weight-set",
        "osd",
        "rw",
        no_weight_sets,
    ),
    command(
        WEIGHT_SET_REWEIGHT_COMPAT,
        "set weight for an item (bucket or osd) in the backward-compatible weight-set",
        "osd",
        "rw",
        no_weight_sets,
    ),
];

/// Edits a copy of the CRUSH map. The result becomes part of the change unless the edit fails or changes
/// nothing, in which case there is no new epoch.
pub(super) fn edited<T>(
    state: &State,
    change: &mut Change,
    edit: impl FnOnce(&mut CrushMap) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let before = change.crush_after(state);
    let mut after = before.clone();
    let outcome = edit(&mut after)?;
    if after != *before {
        *change.crush(state) = after;
    }
    Ok(outcome)
}

/// Resolves the name of a bucket or device; `ENOENT` if there is none.
pub(super) fn item_named(crush: &CrushMap, name: &str) -> Result<i32, Refusal> {
    crush.item_id(name).ok_or_else(|| Refusal::missing(format!("item {name} does not exist")))
}

/// The refusal for a rename. [`RenameError::AlreadyDone`] is a success, which callers answer themselves.
pub(super) fn rename_refused(error: &RenameError) -> Refusal {
    let errno = match error {
        RenameError::NoSuchName { .. } => Errno::NOENT,
        RenameError::AlreadyDone { .. } => Errno::ALREADY,
        RenameError::NameTaken { .. } => Errno::EXIST,
        RenameError::InvalidName { .. } => Errno::INVAL,
        RenameError::NotABucket { .. } => Errno::NOTDIR,
    };
    Refusal::new(errno, error.to_string())
}

/// Refuses a new map with multi-step retry rules if clients are allowed that do not know them: such a client
/// would find no OSD, and wait for ever.
pub(super) fn check_clients(state: &State, new: &CrushMap) -> Result<(), Refusal> {
    let needs_squid = |crush| requirements::minimum_required_version(crush) == "squid";
    let (needed, allowed) = (Release::SQUID, state.osdmap.require_min_compat_client);
    if allowed >= needed || !needs_squid(new) || needs_squid(&state.osdmap.crush) {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "new crush map requires client version {needed} but require_min_compat_client is {allowed}: older \
         clients do not know multi-step retry rules (several OSDs per failure domain); if there are no \
         such clients, 'ceph osd set-require-min-compat-client {needed}' first"
    )))
}

/// The refusal for a rule that cannot be added.
pub(super) fn rule_refused(error: &AddRuleError) -> Refusal {
    let errno = match error {
        AddRuleError::NameTaken { .. } => Errno::EXIST,
        AddRuleError::NoSuchRoot { .. } => Errno::NOENT,
        AddRuleError::Full => Errno::NOSPC,
        AddRuleError::InvalidName { .. }
        | AddRuleError::NoSuchType { .. }
        | AddRuleError::NoSuchClass { .. }
        | AddRuleError::EmptyClass { .. } => Errno::INVAL,
    };
    Refusal::new(errno, error.to_string())
}

fn show(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&dump::crush::json(&context.state.osdmap.crush)))
}

fn tree(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let crush = &context.state.osdmap.crush;
    let shadows = context.arguments.flag("show_shadow");
    let plain = || dump::tree::crush_plain(crush, shadows);
    Ok(context.show(|| dump::tree::crush_json(crush, shadows), plain))
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let crush = &context.state.osdmap.crush;
    let name = context.arguments.text("node");
    let missing = || Refusal::missing(format!("node '{name}' does not exist"));
    let node = crush.item_id(name).ok_or_else(missing)?;
    let items = if node < 0 { crush.children(node) } else { &[node] };
    let names = items.iter().map(|item| crush.item_name(*item).unwrap_or_default());
    let plain = || names.clone().map(|name| format!("{name}\n")).collect();
    Ok(context.show(|| json!(names.clone().collect::<Vec<_>>()), plain))
}

// Import

/// Replaces the CRUSH map by the input; the answer is its new version.
pub(super) fn set_map(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let crush = given_map(context.state, &context.input)?;
    check_clients(context.state, &crush)?;
    let current = context.state.osdmap.crush_version;
    if let Some(prior) = context.arguments.int("prior_version") {
        let is_repeated = prior == i64::from(current) - 1;
        if is_repeated && crush == *context.state.osdmap.crush {
            return Ok(Answer::said(current.to_string()));
        }
        if prior != i64::from(current) {
            let text = format!("prior_version {prior} != crush version {current}");
            return Err(Refusal::new(Errno::PERM, text));
        }
    }
    context.change.osdmap(context.state).crush = Some(Arc::new(crush));
    Ok(Answer::said((current + 1).to_string()))
}

/// Decodes the input, and checks that it has a rule of the right type for every pool.
fn given_map(state: &State, input: &[u8]) -> Result<CrushMap, Refusal> {
    if input.is_empty() {
        return Err(Refusal::invalid("there is no crush map, which is to be given with -i"));
    }
    let crush: CrushMap = decode_all("crush map", input)
        .map_err(|error| Refusal::invalid(format!("Failed to parse crushmap: {error}")))?;
    for (id, pool) in &state.osdmap.pools {
        let number = pool.crush_rule;
        let rule = crush.rule(number.into()).ok_or_else(|| {
            let text = format!("pool {id} references crush_rule {number} but it is not present");
            Refusal::invalid(text)
        })?;
        let serves = match pool.kind {
            PoolType::Replicated => rule.rule_type.serves_replicated(),
            PoolType::Erasure => rule.rule_type.serves_erasure(),
        };
        if !serves {
            return Err(Refusal::invalid(format!("pool {id} type does not match rule {number}")));
        }
    }
    Ok(crush)
}

fn convert_straw(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let crush = &context.state.osdmap.crush;
    match crush.buckets().find(|bucket| bucket.algorithm() == Algorithm::Straw) {
        None => Ok(Answer::default()),
        Some(bucket) => {
            let name = crush.item_name(bucket.id()).unwrap_or_default();
            let text = format!("bucket '{name}' cannot be converted; edit the map with crushtool");
            Err(Refusal::new(Errno::NOTSUPP, text))
        }
    }
}

// Tunables

fn set_tunables(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("profile");
    let profile = Profile::from_name(name)
        .ok_or_else(|| Refusal::invalid(format!("unrecognized profile '{name}'")))?;
    edited(context.state, &mut context.change, |crush| {
        crush.tunables.apply(profile);
        if matches!(name, "optimal" | "default") {
            crush.tunables.straw_calc_version = 1;
        }
        Ok(())
    })?;
    Ok(Answer::said(format!("adjusted tunables profile to {name}")))
}

fn set_tunable(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("tunable");
    let value = context.arguments.int("value").unwrap_or_default();
    let version = u8::try_from(value).ok().filter(|version| *version <= 1);
    let version =
        version.ok_or_else(|| Refusal::invalid(format!("value must be 0 or 1; got {value}")))?;
    edited(context.state, &mut context.change, |crush| {
        crush.tunables.straw_calc_version = version;
        Ok(())
    })?;
    Ok(Answer::said(format!("adjusted tunable {name} to {value}")))
}

fn tunable(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let version = context.state.osdmap.crush.tunables.straw_calc_version;
    Ok(context.show(|| json!({ "straw_calc_version": version }), || format!("{version}\n")))
}

fn tunables(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&dump::crush::tunables(&context.state.osdmap.crush)))
}

// Weight sets

fn weight_sets(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let name = |pool: i64| match pool {
        DEFAULT_CHOOSE_ARGS => "(compat)",
        pool => map.pool_name(PoolId(pool)).unwrap_or_default(),
    };
    let names: Vec<&str> = map.crush.choose_args().map(|(pool, _)| name(pool)).collect();
    let plain = || names.iter().map(|name| format!("{name}\n")).collect();
    Ok(context.show(|| json!(names), plain))
}

fn weight_set_dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let value = dump::crush::json(&context.state.osdmap.crush);
    Ok(context.json(&json!({ "choose_args": value["choose_args"] })))
}

/// Maps with weight sets are supported, but only `osd setcrushmap` can import them.
fn no_weight_sets(_: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = "weight-sets cannot be edited by commands; edit the map with crushtool";
    Err(Refusal::new(Errno::NOTSUPP, text))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{add_pool, run, state, text};
    use super::*;
    use bytes::Bytes;
    use codec::{EncodeFor, Writer};

    fn encoded(crush: &CrushMap) -> Bytes {
        let mut writer = Writer::new();
        crush.encode_for(&mut writer, types::features::SUPPORTED);
        writer.into_bytes()
    }

    #[test]
    fn a_nodes_items_are_listed_by_name() {
        let mut state = state();
        let mut listed = |node: &str| {
            run(&mut state, "osd crush ls", json!({ "node": node })).map(|answer| text(&answer))
        };
        assert_eq!(listed("default").unwrap(), "h\n");
        assert_eq!(listed("h").unwrap(), "osd.0\nosd.1\nosd.2\n");
        assert_eq!(listed("osd.1").unwrap(), "osd.1\n");
        assert_eq!(listed("rack1").unwrap_err().text, "node 'rack1' does not exist");
    }

    #[test]
    fn a_map_that_was_taken_out_can_be_put_in_again() {
        let mut state = state();
        add_pool(&mut state);
        let crush = given_map(&state, &encoded(&state.osdmap.crush)).unwrap();
        assert_eq!(crush, *state.osdmap.crush);
    }

    #[test]
    fn maps_that_cannot_be_read_or_lack_a_pools_rule_are_refused() {
        let mut state = state();
        add_pool(&mut state);
        assert_eq!(given_map(&state, &[]).unwrap_err().errno, Errno::INVAL);
        let refusal = given_map(&state, b"nonsense").unwrap_err();
        assert!(refusal.text.starts_with("Failed to parse crushmap: "), "{refusal}");
        let refusal = given_map(&state, &encoded(&CrushMap::new())).unwrap_err();
        assert_eq!(refusal.text, "pool 1 references crush_rule 0 but it is not present");
    }

    #[test]
    fn tunables_follow_profiles_and_the_straw_formula_is_its_own() {
        let mut state = state();
        let epoch = state.osdmap.epoch;
        let optimal = json!({ "profile": "optimal" });
        let answer = run(&mut state, "osd crush tunables", optimal).unwrap();
        assert_eq!(answer.text, "adjusted tunables profile to optimal");
        assert_eq!(state.osdmap.epoch, epoch);
        run(&mut state, "osd crush tunables", json!({ "profile": "bobtail" })).unwrap();
        let tunables = &state.osdmap.crush.tunables;
        assert_eq!(tunables.profile(), Some(Profile::Bobtail));
        assert_eq!(tunables.straw_calc_version, 1);
        let set = |value: i64| json!({ "tunable": "straw_calc_version", "value": value });
        let answer = run(&mut state, "osd crush set-tunable", set(0)).unwrap();
        assert_eq!(answer.text, "adjusted tunable straw_calc_version to 0");
        let refusal = run(&mut state, "osd crush set-tunable", set(2)).unwrap_err();
        assert_eq!(refusal.text, "value must be 0 or 1; got 2");
    }
}
