//! `osd crush class`: device classes, by which rules choose among types of disks.

use super::crush::{edited, rename_refused};
use super::crush_rules::rules_of_class;
use super::named::osds_listed;
use crate::command::{Answer, Command, Context, Refusal, command};
use crush::{ClassError, CrushMap, RenameError};
use serde_json::json;
use std::collections::BTreeMap;
use types::{Errno, OsdId};

const RENAME: &str = "osd crush class rename \
    name=srcname,type=CephString,goodchars=[A-Za-z0-9-_] \
    name=dstname,type=CephString,goodchars=[A-Za-z0-9-_]";
const SET: &str = "osd crush set-device-class \
    name=class,type=CephString,goodchars=[A-Za-z0-9-_] name=ids,type=CephString,n=N";

pub const COMMANDS: &[Command] = &[
    command("osd crush class ls", "list all crush device classes", "osd", "r", list),
    command(
        "osd crush class ls-osd name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "list all osds belonging to the specific <class>",
        "osd",
        "r",
        list_osds,
    ),
    command(
        "osd crush class create name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "create crush device class <class>",
        "osd",
        "rw",
        create,
    ),
    command(
        "osd crush class rm name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "remove crush device class <class>",
        "osd",
        "rw",
        remove,
    ),
    command(RENAME, "rename crush device class <srcname> to <dstname>", "osd", "rw", rename),
    command(
        SET,
        "set the <class> of the osd(s) <id> [<id>...],or use <all|any> to set all.",
        "osd",
        "rw",
        set_devices,
    ),
    command(
        "osd crush rm-device-class name=ids,type=CephString,n=N",
        "remove class of the osd(s) <id> [<id>...],or use <all|any> to remove all.",
        "osd",
        "rw",
        remove_devices,
    ),
    command(
        "osd crush get-device-class name=ids,type=CephString,n=N",
        "get classes of specified osd(s) <id> [<id>...]",
        "osd",
        "r",
        show_devices,
    ),
];

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let classes: Vec<&str> = context.state.osdmap.crush.classes().map(|(_, name)| name).collect();
    Ok(context.json(&json!(classes)))
}

fn list_osds(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osds = context.state.osdmap.crush.devices_of_class(context.arguments.text("class"));
    Ok(context.show(|| json!(osds), || join(&osds, "\n")))
}

fn join<'a>(items: impl IntoIterator<Item = &'a i32>, separator: &str) -> String {
    let items: Vec<String> = items.into_iter().map(i32::to_string).collect();
    items.join(separator)
}

fn create(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let class = context.arguments.text("class");
    if context.state.osdmap.crush.class_id(class).is_some() {
        return Ok(Answer::said(format!("class '{class}' already exists")));
    }
    let id = edited(context.state, &mut context.change, |crush| {
        crush.add_class(class).map_err(|error| refused(&error))
    })?;
    Ok(Answer::said(format!("created class {class} with id {id} to crush map")))
}

fn refused(error: &ClassError) -> Refusal {
    match error {
        ClassError::NoSuchDevice { .. } => Refusal::missing(error.to_string()),
        ClassError::InvalidName { .. } => Refusal::invalid(error.to_string()),
        ClassError::OtherClass { .. } => Refusal::new(Errno::BUSY, error.to_string()),
    }
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let class = context.arguments.text("class");
    let map = &context.state.osdmap;
    let Some(id) = map.crush.class_id(class) else { return Ok(Answer::default()) };
    let busy = |by: &str| Refusal::new(Errno::BUSY, format!("class '{class}' {by}"));
    let rules = rules_of_class(&map.crush, id);
    if !rules.is_empty() {
        let rules = rules.join("','");
        return Err(busy(&format!("still referenced by crush_rule(s): '{rules}'")));
    }
    let needs_class = |profile: &maps::ErasureCodeProfile| {
        profile.get("crush-device-class").is_some_and(|needed| needed == class)
    };
    let profiles = map.erasure_code_profiles.iter().filter(|(_, profile)| needs_class(profile));
    let profiles: Vec<&str> = profiles.map(|(name, _)| name.as_str()).collect();
    if !profiles.is_empty() {
        let profiles = profiles.join(",");
        return Err(busy(&format!("is still referenced by erasure-code-profile(s): {profiles}")));
    }
    context.change.crush(context.state).remove_class(id);
    Ok(Answer::said(format!("removed class {class} with id {id} from crush map")))
}

fn rename(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (from, to) = (context.arguments.text("srcname"), context.arguments.text("dstname"));
    let renamed =
        edited(context.state, &mut context.change, |crush| Ok(crush.rename_class(from, to)))?;
    match renamed {
        Ok(()) => Ok(Answer::said(format!("rename class '{from}' to '{to}'"))),
        Err(RenameError::AlreadyDone { .. }) => {
            Ok(Answer::said(format!("already renamed to '{to}'")))
        }
        Err(error) => Err(rename_refused(&error)),
    }
}

/// The OSDs of the argument `ids`, and whether it was `all`.
fn chosen(context: &Context<'_>) -> Result<(Vec<OsdId>, bool), Refusal> {
    let mut all = false;
    let osds = osds_listed(context.arguments.list("ids"), || {
        all = true;
        context.state.osdmap.existing_osds().map(|(osd, _)| osd).collect()
    })?;
    Ok((osds, all))
}

fn set_devices(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (osds, all) = chosen(context)?;
    let class = context.arguments.text("class");
    let state = context.state;
    let (mut updated, mut text) = (Vec::new(), String::new());
    edited(state, &mut context.change, |crush| {
        for osd in osds {
            if !state.osdmap.exists(osd) {
                text += &format!("osd.{osd} does not exist. ");
            } else if crush.item_name(osd.0).is_none() {
                text += &format!("osd.{osd} has no place in the crush map. ");
            } else if set_device(crush, osd, class)? {
                updated.push(osd.0);
            } else if !all {
                text += &format!(
                    "osd.{osd} already set to class {class}. set-device-class item id {} name \
                     'osd.{osd}' device_class '{class}': no change. ",
                    osd.0
                );
            }
        }
        Ok(())
    })?;
    let updated = join(&updated, ",");
    Ok(Answer::said(format!("{text}set osd(s) {updated} to class '{class}'")))
}

/// Sets the class of a device. Returns whether the map has changed.
fn set_device(crush: &mut CrushMap, osd: OsdId, class: &str) -> Result<bool, Refusal> {
    crush.set_device_class(osd.0, class).map_err(|error| match error {
        ClassError::OtherClass { class: current, .. } => Refusal::new(
            Errno::BUSY,
            format!(
                "osd.{osd} has already bound to class '{current}', can not reset class to '{class}'; \
                 use 'ceph osd crush rm-device-class <id>' to remove old class first"
            ),
        ),
        error => refused(&error),
    })
}

fn remove_devices(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (osds, _) = chosen(context)?;
    let state = context.state;
    let (mut updated, mut text) = (Vec::new(), String::new());
    edited(state, &mut context.change, |crush| {
        for osd in osds {
            if !state.osdmap.exists(osd) {
                text += &format!("osd.{osd} does not exist. ");
            } else if crush.item_class(osd.0).is_none() {
                text += &format!("osd.{osd} belongs to no class, ");
            } else if crush.remove_device_class(osd.0).map_err(|error| refused(&error))? {
                updated.push(osd.0);
            }
        }
        Ok(())
    })?;
    let updated = join(&updated, ",");
    Ok(Answer::said(format!("{text}done removing class of osd(s): {updated}")))
}

fn show_devices(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (osds, _) = chosen(context)?;
    let crush = &context.state.osdmap.crush;
    let class_of = |osd: OsdId| (osd, crush.item_class(osd.0).unwrap_or_default());
    let classes: BTreeMap<OsdId, &str> = osds.into_iter().map(class_of).collect();
    let json = || {
        let entry = |(osd, class): (&OsdId, &&str)| json!({ "osd": osd.0, "device_class": class });
        json!(classes.iter().map(entry).collect::<Vec<_>>())
    };
    let plain = || match classes.len() {
        1 => classes.values().map(|class| (*class).to_owned()).collect(),
        _ => {
            let lines = classes.iter().map(|(osd, class)| format!("osd.{osd} {class}"));
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    Ok(context.show(json, plain))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, state, text};
    use super::*;

    const SET: &str = "osd crush set-device-class";
    const UNSET: &str = "osd crush rm-device-class";

    #[test]
    fn a_device_has_one_class_until_it_is_taken_away() {
        let mut state = state();
        let class = |name: &str| json!({ "class": name, "ids": ["0"] });
        assert_eq!(run(&mut state, SET, class("ssd")).unwrap().text, "set osd(s) 0 to class 'ssd'");
        let refusal = run(&mut state, SET, class("hdd")).unwrap_err();
        assert_eq!(refusal.errno, Errno::BUSY);
        assert_eq!(
            refusal.text,
            "osd.0 has already bound to class 'ssd', can not reset class to 'hdd'; use 'ceph osd \
             crush rm-device-class <id>' to remove old class first"
        );
        let ids = json!({ "ids": ["osd.0"] });
        let answer = run(&mut state, UNSET, ids.clone()).unwrap();
        assert_eq!(answer.text, "done removing class of osd(s): 0");
        let again = "osd.0 belongs to no class, done removing class of osd(s): ";
        assert_eq!(run(&mut state, UNSET, ids).unwrap().text, again);
        assert!(run(&mut state, SET, class("hdd")).is_ok());
    }

    #[test]
    fn setting_a_class_again_says_so_and_makes_no_new_map() {
        let mut state = state();
        let ssd = json!({ "class": "ssd", "ids": ["0"] });
        run(&mut state, SET, ssd.clone()).unwrap();
        let epoch = state.osdmap.epoch;
        assert_eq!(
            run(&mut state, SET, ssd).unwrap().text,
            "osd.0 already set to class ssd. set-device-class item id 0 name 'osd.0' \
             device_class 'ssd': no change. set osd(s)  to class 'ssd'"
        );
        assert_eq!(state.osdmap.epoch, epoch);
    }

    #[test]
    fn classes_are_shown_one_alone_or_many_by_line() {
        let mut state = state();
        run(&mut state, SET, json!({ "class": "ssd", "ids": ["0"] })).unwrap();
        let mut shown = |ids: &[&str]| {
            let answer = run(&mut state, "osd crush get-device-class", json!({ "ids": ids }));
            text(&answer.unwrap())
        };
        assert_eq!(shown(&["0"]), "ssd");
        assert_eq!(shown(&["0", "1"]), "osd.0 ssd\nosd.1 ");
        let answer = run(&mut state, "osd crush class ls-osd", json!({ "class": "ssd" }));
        assert_eq!(text(&answer.unwrap()), "0");
    }

    #[test]
    fn a_class_that_a_rule_needs_stays() {
        let mut state = state();
        let ssd = json!({ "class": "ssd" });
        run(&mut state, SET, json!({ "class": "ssd", "ids": ["all"] })).unwrap();
        let rule = json!({ "name": "fast", "root": "default", "type": "osd", "class": "ssd" });
        run(&mut state, "osd crush rule create-replicated", rule).unwrap();
        let refusal = run(&mut state, "osd crush class rm", ssd.clone()).unwrap_err();
        assert_eq!(refusal.text, "class 'ssd' still referenced by crush_rule(s): 'fast'");
        run(&mut state, "osd crush rule rm", json!({ "name": "fast" })).unwrap();
        run(&mut state, "osd crush class rm", ssd.clone()).unwrap();
        assert_eq!(state.osdmap.crush.class_id("ssd"), None);
        assert_eq!(run(&mut state, "osd crush class rm", ssd).unwrap(), Answer::default());
    }

    #[test]
    fn classes_are_made_and_renamed_by_name() {
        let mut state = state();
        let mut said =
            |prefix: &str, given: serde_json::Value| run(&mut state, prefix, given).unwrap().text;
        let nvme = json!({ "class": "nvme" });
        let created = said("osd crush class create", nvme.clone());
        assert_eq!(created, "created class nvme with id 0 to crush map");
        assert_eq!(said("osd crush class create", nvme), "class 'nvme' already exists");
        let names = json!({ "srcname": "nvme", "dstname": "ssd" });
        let renamed = said("osd crush class rename", names.clone());
        assert_eq!(renamed, "rename class 'nvme' to 'ssd'");
        assert_eq!(said("osd crush class rename", names), "already renamed to 'ssd'");
    }
}
