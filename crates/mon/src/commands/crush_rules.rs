//! CRUSH rules.

use super::erasure_code::{profile_shape, rule_for_profile};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::crush::{rule, rules};
use crush::{AddRuleError, RenameError, RuleKind, SimpleRule};
use serde_json::json;
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command("osd crush rule ls", "list crush rules", "osd", "r", list),
    command("osd crush rule list", "list crush rules", "osd", "r", list),
    command(
        "osd crush rule ls-by-class name=class,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "list all crush rules that reference the same <class>",
        "osd",
        "r",
        list_by_class,
    ),
    command(
        "osd crush rule dump name=name,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        "dump crush rule <name> (default all)",
        "osd",
        "r",
        dump,
    ),
    command(
        "osd crush rule create-simple name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=root,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=type,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=mode,type=CephChoices,strings=firstn|indep,req=false",
        "create crush rule <name> to start from <root>, replicate across buckets of type <type>, using \
         a choose mode of <firstn|indep> (default firstn; indep best for erasure pools)",
        "osd",
        "rw",
        create,
    ),
    command(
        "osd crush rule create-replicated name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=root,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=type,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=class,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        "create crush rule <name> for replicated pool to start from <root>, replicate across buckets of \
         type <type>, use devices of type <class> (ssd or hdd)",
        "osd",
        "rw",
        create,
    ),
    command(
        "osd crush rule create-erasure name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=profile,type=CephString,req=false,goodchars=[A-Za-z0-9-_.=]",
        "create crush rule <name> for erasure coded pool created with <profile> (default default)",
        "osd",
        "rw",
        create_erasure,
    ),
    command(
        "osd crush rule rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "remove crush rule <name>",
        "osd",
        "rw",
        remove,
    ),
    command(
        "osd crush rule rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "rename crush rule <srcname> to <dstname>",
        "osd",
        "rw",
        rename,
    ),
];

fn names(context: &Context<'_>, names: &[&str]) -> Answer {
    context.show(|| json!(names), || names.iter().map(|name| format!("{name}\n")).collect())
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap.crush;
    let rules: Vec<&str> = map.rules().filter_map(|(id, _)| map.rule_name(id)).collect();
    Ok(names(context, &rules))
}

fn list_by_class(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap.crush;
    let class = context.arguments.text("class");
    let missing = || Refusal::missing(format!("failed to get rules by class '{class}'"));
    let class_id = map.class_id(class).ok_or_else(missing)?;
    let uses = |item: i32| map.split_shadow(item).and_then(|(_, class)| class) == Some(class_id);
    let rules = map.rules().filter(|(_, rule)| rule.takes().any(uses));
    let rules: Vec<&str> = rules.filter_map(|(id, _)| map.rule_name(id)).collect();
    Ok(names(context, &rules))
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap.crush;
    let Some(name) = context.arguments.optional("name").filter(|name| !name.is_empty()) else {
        return Ok(context.json(&json!(rules(map))));
    };
    let found = map.rule_id(name).and_then(|id| Some((id, map.rule(id)?)));
    let missing = || Refusal::missing(format!("unknown crush rule '{name}'"));
    let (id, found) = found.ok_or_else(missing)?;
    Ok(context.json(&rule(map, id, found)))
}

pub(super) fn refused(error: AddRuleError) -> Refusal {
    let errno = match &error {
        AddRuleError::NameTaken { .. } => Errno::EXIST,
        AddRuleError::NoSuchRoot { .. } => Errno::NOENT,
        AddRuleError::Full => Errno::NOSPC,
        _ => Errno::INVAL,
    };
    Refusal::new(errno, error.to_string())
}

fn create(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = |name: &str| context.arguments.text(name).to_owned();
    let (name, root, kind) = (text("name"), text("root"), text("type"));
    let class = context.arguments.optional("class").filter(|class| !class.is_empty());
    if context.state.osdmap.crush.rule_id(&name).is_some() {
        return Ok(Answer::said(format!("rule {name} already exists")));
    }
    let indep = context.arguments.optional("mode") == Some("indep");
    let rule = SimpleRule {
        name: &name,
        root: &root,
        failure_domain: &kind,
        class,
        kind: if indep { RuleKind::Erasure } else { RuleKind::Replicated },
    };
    let mut map = (*context.state.osdmap.crush).clone();
    map.add_simple_rule(&rule).map_err(refused)?;
    *context.change.crush(context.state) = map;
    Ok(Answer::default())
}

fn create_erasure(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name").to_owned();
    let profile = context.arguments.optional("profile").filter(|profile| !profile.is_empty());
    let profile = profile.unwrap_or("default").to_owned();
    if context.state.osdmap.crush.rule_id(&name).is_some() {
        return Ok(Answer::said(format!("rule {name} already exists")));
    }
    let missing = || Refusal::missing(format!("erasure code profile '{profile}' does not exist"));
    let known = context.state.osdmap.erasure_code_profiles.get(&profile).ok_or_else(missing)?;
    profile_shape(known)?;
    let id = rule_for_profile(context.state, &mut context.change, &name, known)?;
    Ok(Answer::said(format!("created rule {name} at {id}")))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name").to_owned();
    let map = &context.state.osdmap;
    let Some(id) = map.crush.rule_id(&name) else {
        return Ok(Answer::said(format!("rule {name} does not exist")));
    };
    if map.pools.values().any(|pool| u32::from(pool.crush_rule) == id) {
        return Err(Refusal::new(Errno::BUSY, format!("crush rule {name} ({id}) is in use")));
    }
    context.change.crush(context.state).remove_rule(id);
    Ok(Answer::default())
}

fn rename(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (from, to) = (
        context.arguments.text("srcname").to_owned(),
        context.arguments.text("dstname").to_owned(),
    );
    let mut map = (*context.state.osdmap.crush).clone();
    match map.rename_rule(&from, &to) {
        Ok(()) => *context.change.crush(context.state) = map,
        Err(RenameError::AlreadyDone { .. }) => {
            return Ok(Answer::said(format!("already renamed to '{to}'")));
        }
        Err(error @ RenameError::NoSuchName { .. }) => {
            return Err(Refusal::missing(error.to_string()));
        }
        Err(error @ RenameError::NameTaken { .. }) => {
            return Err(Refusal::new(Errno::EXIST, error.to_string()));
        }
        Err(error) => return Err(Refusal::invalid(error.to_string())),
    }
    Ok(Answer::default())
}
