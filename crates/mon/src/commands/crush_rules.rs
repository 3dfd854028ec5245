//! `osd crush rule`: the rules by which pools choose their OSDs.

use super::crush::{edited, rename_refused, rule_refused};
use super::erasure_rule;
use crate::bootstrap::DEFAULT_PROFILE;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump;
use crush::{CrushMap, RenameError, Rule, RuleKind, RuleType, SimpleRule};
use serde_json::json;
use types::Errno;

const DUMP: &str =
    "osd crush rule dump name=name,type=CephString,goodchars=[A-Za-z0-9-_.],req=false";
const CREATE_SIMPLE: &str = "osd crush rule create-simple \
    name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=root,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=type,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=mode,type=CephChoices,strings=firstn|indep,req=false";
const CREATE_REPLICATED: &str = "osd crush rule create-replicated \
    name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=root,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=type,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=class,type=CephString,goodchars=[A-Za-z0-9-_],req=false";
const CREATE_ERASURE: &str = "osd crush rule create-erasure \
    name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=profile,type=CephString,req=false,goodchars=[A-Za-z0-9-_.=]";
const RENAME: &str = "osd crush rule rename \
    name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]";

pub const COMMANDS: &[Command] = &[
    command("osd crush rule list", "list crush rules", "osd", "r", list),
    command("osd crush rule ls", "list crush rules", "osd", "r", list),
    command(
        "osd crush rule ls-by-class name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "list all crush rules that reference the same <class>",
        "osd",
        "r",
        list_by_class,
    ),
    command(DUMP, "dump crush rule <name> (default all)", "osd", "r", dump_rules),
    command(
        CREATE_SIMPLE,
        "create crush rule <name> to start from <root>, replicate across buckets of type <type>, \
         using a choose mode of <firstn|indep> (default firstn; indep best for erasure pools)",
        "osd",
        "rw",
        create_simple,
    ),
    command(
        CREATE_REPLICATED,
        "create crush rule <name> for replicated pool to start from <root>, replicate across \
         buckets of type <type>, use devices of type <class> (ssd or hdd)",
        "osd",
        "rw",
        create_replicated,
    ),
    command(
        CREATE_ERASURE,
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
    command(RENAME, "rename crush rule <srcname> to <dstname>", "osd", "rw", rename),
];

fn names(context: &Context<'_>, names: &[&str]) -> Answer {
    context.show(|| json!(names), || names.iter().map(|name| format!("{name}\n")).collect())
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let crush = &context.state.osdmap.crush;
    let rules: Vec<&str> = crush.rules().filter_map(|(id, _)| crush.rule_name(id)).collect();
    Ok(names(context, &rules))
}

fn list_by_class(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let crush = &context.state.osdmap.crush;
    let name = context.arguments.text("class");
    let class = crush
        .class_id(name)
        .ok_or_else(|| Refusal::missing(format!("failed to get rules by class '{name}'")))?;
    let rules = rules_of_class(crush, class);
    Ok(names(context, &rules))
}

/// Names of the rules that take the devices of one class.
pub(super) fn rules_of_class(crush: &CrushMap, class: i32) -> Vec<&str> {
    let starts_there =
        |take| crush.split_shadow(take).is_some_and(|(_, its_class)| its_class == Some(class));
    let rules = crush.rules().filter(|(_, rule)| rule.takes().any(starts_there));
    rules.filter_map(|(id, _)| crush.rule_name(id)).collect()
}

fn dump_rules(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let crush = &context.state.osdmap.crush;
    let Some(name) = context.arguments.optional("name").filter(|name| !name.is_empty()) else {
        return Ok(context.json(&json!(dump::crush::rules(crush))));
    };
    let found = crush.rule_id(name).and_then(|id| Some((id, crush.rule(id)?)));
    let (id, rule) =
        found.ok_or_else(|| Refusal::missing(format!("unknown crush rule '{name}'")))?;
    Ok(context.json(&dump::crush::rule(crush, id, rule)))
}

fn already_exists(name: &str) -> Answer {
    Answer::said(format!("rule {name} already exists"))
}

fn create_simple(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let arguments = &context.arguments;
    let indep = arguments.optional("mode") == Some("indep");
    let simple = SimpleRule {
        name: arguments.text("name"),
        root: arguments.text("root"),
        failure_domain: arguments.text("type"),
        class: None,
        kind: if indep { RuleKind::Erasure } else { RuleKind::Replicated },
    };
    if context.state.osdmap.crush.rule_id(simple.name).is_some() {
        return Ok(already_exists(simple.name));
    }
    edited(context.state, &mut context.change, |crush| match indep {
        true => add_indep_for_replicas(crush, &simple),
        false => add(crush, &simple).map(|_| ()),
    })?;
    Ok(Answer::default())
}

/// The mode says how the rule chooses, not for which type of pool it is: the rule is for replicated pools.
fn add_indep_for_replicas(crush: &mut CrushMap, simple: &SimpleRule<'_>) -> Result<(), Refusal> {
    let mut draft = crush.clone();
    let id = add(&mut draft, simple)?;
    let steps = draft.rule(id).map(|rule| rule.steps.clone()).unwrap_or_default();
    let rule = Rule::new(RuleType::REPLICATED, steps);
    crush.add_rule(simple.name, rule).map_err(|error| rule_refused(&error))?;
    Ok(())
}

fn create_replicated(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let arguments = &context.arguments;
    let simple = SimpleRule {
        name: arguments.text("name"),
        root: arguments.text("root"),
        failure_domain: arguments.text("type"),
        class: arguments.optional("class").filter(|class| !class.is_empty()),
        kind: RuleKind::Replicated,
    };
    if context.state.osdmap.crush.rule_id(simple.name).is_some() {
        return Ok(already_exists(simple.name));
    }
    edited(context.state, &mut context.change, |crush| add(crush, &simple))?;
    Ok(Answer::default())
}

fn create_erasure(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name");
    let profile = context.arguments.optional("profile").filter(|profile| !profile.is_empty());
    if context.state.osdmap.crush.rule_id(name).is_some() {
        return Ok(already_exists(name));
    }
    let profile = profile.unwrap_or(DEFAULT_PROFILE);
    let known = context.state.osdmap.erasure_code_profiles.get(profile);
    let unknown = || Refusal::missing(format!("unknown erasure code profile '{profile}'"));
    let profile = known.ok_or_else(unknown)?;
    let id = erasure_rule::add(context.state, &mut context.change, name, profile)?;
    Ok(Answer::said(format!("created rule {name} at {id}")))
}

fn add(crush: &mut CrushMap, simple: &SimpleRule<'_>) -> Result<u32, Refusal> {
    crush.add_simple_rule(simple).map_err(|error| rule_refused(&error))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name");
    let map = &context.state.osdmap;
    let Some(id) = map.crush.rule_id(name) else {
        return Ok(Answer::said(format!("rule {name} does not exist")));
    };
    if map.pools.values().any(|pool| u32::from(pool.crush_rule) == id) {
        let text = format!("crush rule {name} ({id}) is in use");
        return Err(Refusal::new(Errno::BUSY, text));
    }
    context.change.crush(context.state).remove_rule(id);
    Ok(Answer::default())
}

fn rename(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (from, to) = (context.arguments.text("srcname"), context.arguments.text("dstname"));
    if from == to {
        return Ok(Answer::said("destination rule name is equal to source rule name"));
    }
    let renamed =
        edited(context.state, &mut context.change, |crush| Ok(crush.rename_rule(from, to)))?;
    match renamed {
        Ok(()) => Ok(Answer::default()),
        Err(RenameError::AlreadyDone { .. }) => {
            Ok(Answer::said(format!("already renamed to '{to}'")))
        }
        Err(error) => Err(rename_refused(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{add_pool, run, state, text};
    use super::*;
    use crush::Op;

    #[test]
    fn a_rule_is_made_once_and_found_by_name() {
        let mut state = state();
        let rule = json!({ "name": "r1", "root": "default", "type": "osd" });
        let create = "osd crush rule create-replicated";
        assert_eq!(run(&mut state, create, rule.clone()).unwrap().text, "");
        assert_eq!(state.osdmap.crush.rule_id("r1"), Some(1));
        assert_eq!(run(&mut state, create, rule).unwrap().text, "rule r1 already exists");
        let listed = run(&mut state, "osd crush rule ls", json!({})).unwrap();
        assert_eq!(text(&listed), "replicated_rule\nr1\n");
    }

    #[test]
    fn what_a_rule_needs_and_is_missing_is_named() {
        let mut state = state();
        let rule = json!({ "name": "r2", "root": "default", "type": "osd", "class": "ssd" });
        let refusal = run(&mut state, "osd crush rule create-replicated", rule).unwrap_err();
        assert_eq!(refusal, Refusal::invalid("device class ssd does not exist"));
        let class = json!({ "class": "ssd" });
        let refusal = run(&mut state, "osd crush rule ls-by-class", class).unwrap_err();
        assert_eq!(refusal, Refusal::missing("failed to get rules by class 'ssd'"));
        let profile = json!({ "name": "r4", "profile": "none" });
        let refusal = run(&mut state, "osd crush rule create-erasure", profile).unwrap_err();
        assert_eq!(refusal, Refusal::missing("unknown erasure code profile 'none'"));
    }

    #[test]
    fn an_erasure_rule_follows_its_profile() {
        let mut state = state();
        let rule = json!({ "name": "r4", "profile": "p" });
        let answer = run(&mut state, "osd crush rule create-erasure", rule).unwrap();
        assert_eq!(answer.text, "created rule r4 at 1");
        let rule = state.osdmap.crush.rule(1).unwrap();
        assert!(rule.rule_type.serves_erasure());
        assert!(rule.steps.iter().any(|step| step.op == Op::CHOOSE_INDEP));
    }

    #[test]
    fn the_choosing_mode_does_not_change_what_pools_a_simple_rule_serves() {
        let mut state = state();
        let rule = json!({ "name": "r", "root": "default", "type": "host", "mode": "indep" });
        run(&mut state, "osd crush rule create-simple", rule).unwrap();
        let rule = state.osdmap.crush.rule(1).unwrap();
        assert!(rule.rule_type.serves_replicated());
        assert!(rule.steps.iter().any(|step| step.op == Op::CHOOSELEAF_INDEP));
    }

    #[test]
    fn a_rename_that_was_done_before_is_a_success_and_changes_nothing() {
        let mut state = state();
        let names = json!({ "srcname": "replicated_rule", "dstname": "r" });
        assert_eq!(run(&mut state, "osd crush rule rename", names.clone()).unwrap().text, "");
        let epoch = state.osdmap.epoch;
        let again = run(&mut state, "osd crush rule rename", names).unwrap();
        assert_eq!(again.text, "already renamed to 'r'");
        assert_eq!(state.osdmap.epoch, epoch);
    }

    #[test]
    fn only_rules_without_pools_can_be_removed() {
        let mut state = state();
        add_pool(&mut state);
        let rule = json!({ "name": "replicated_rule" });
        let refusal = run(&mut state, "osd crush rule rm", rule).unwrap_err();
        assert_eq!(refusal.errno, Errno::BUSY);
        assert_eq!(refusal.text, "crush rule replicated_rule (0) is in use");
        let unknown = run(&mut state, "osd crush rule rm", json!({ "name": "r1" })).unwrap();
        assert_eq!(unknown.text, "rule r1 does not exist");
    }
}
