//! The CRUSH map as it is.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::{crush, tree};
use serde_json::json;

pub const COMMANDS: &[Command] = &[
    command("osd crush dump", "dump crush map", "osd", "r", dump),
    command(
        "osd crush tree name=show_shadow,type=CephBool,req=false",
        "dump crush buckets and items in a tree view",
        "osd",
        "r",
        show_tree,
    ),
    command(
        "osd crush ls name=node,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "list items beneath a node in the CRUSH tree",
        "osd",
        "r",
        list,
    ),
    command("osd crush show-tunables", "show current crush tunables", "osd", "r", tunables),
    command(
        "osd crush get-tunable name=tunable,type=CephChoices,strings=straw_calc_version",
        "get crush tunable <tunable>",
        "osd",
        "r",
        tunable,
    ),
    command("osd crush weight-set ls", "list crush weight sets", "osd", "r", weight_sets),
    command("osd crush weight-set dump", "dump crush weight sets", "osd", "r", dump_weight_sets),
];

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&crush::json(&context.state.osdmap.crush)))
}

fn show_tree(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap.crush;
    let shadows = context.arguments.flag("show_shadow");
    Ok(context.show(|| tree::crush_json(map, shadows), || tree::crush_plain(map, shadows)))
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap.crush;
    let node = context.arguments.text("node");
    let item = map.item_id(node);
    let item = item.ok_or_else(|| Refusal::missing(format!("node '{node}' does not exist")))?;
    let children = if item >= 0 { std::slice::from_ref(&item) } else { map.children(item) };
    let names: Vec<&str> = children.iter().filter_map(|child| map.item_name(*child)).collect();
    Ok(context.show(|| json!(names), || names.iter().map(|name| format!("{name}\n")).collect()))
}

fn tunables(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&crush::tunables(&context.state.osdmap.crush)))
}

fn tunable(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let version = context.state.osdmap.crush.tunables.straw_calc_version;
    let json = || json!({ "straw_calc_version": version });
    Ok(context.show(json, || format!("{version}\n")))
}

fn weight_sets(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let names: Vec<String> = map
        .crush
        .choose_args()
        .map(|(pool, _)| match pool {
            ::crush::DEFAULT_CHOOSE_ARGS => "(compat)".to_owned(),
            pool => map.pool_name(types::PoolId(pool)).unwrap_or_default().to_owned(),
        })
        .collect();
    Ok(context.show(|| json!(names), || names.iter().map(|name| format!("{name}\n")).collect()))
}

fn dump_weight_sets(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let dump = crush::json(&context.state.osdmap.crush);
    Ok(context.json(&json!({ "choose_args": dump["choose_args"] })))
}
