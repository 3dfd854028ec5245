//! Device classes.

use super::osds_listed;
use crate::command::{Answer, Command, Context, Refusal, command};
use crush::ClassError;
use serde_json::{Value, json};
use types::{Errno, OsdId};

pub const COMMANDS: &[Command] = &[
    command("osd crush class ls", "list all crush device classes", "osd", "r", list),
    command(
        "osd crush class ls-osd name=class,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "list all osds belonging to the specific <class>",
        "osd",
        "r",
        list_osds,
    ),
    command(
        "osd crush class create name=class,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "create crush device class <class>",
        "osd",
        "rw",
        create,
    ),
    command(
        "osd crush class rm name=class,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "remove crush device class <class>",
        "osd",
        "rw",
        remove,
    ),
    command(
        "osd crush class rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_] \
         name=dstname,type=CephString,goodchars=[A-Za-z0-9-_]",
        "rename crush device class <srcname> to <dstname>",
        "osd",
        "rw",
        rename,
    ),
    command(
        "osd crush set-device-class name=class,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=ids,type=CephString,n=N",
        "set the <class> of the osd(s) <id> [<id>...],or use <all|any> to set all.",
        "osd",
        "rw",
        set,
    ),
    command(
        "osd crush rm-device-class name=ids,type=CephString,n=N",
        "remove class of the osd(s) <id> [<id>...],or use <all|any> to remove all.",
        "osd",
        "rw",
        unset,
    ),
    command(
        "osd crush get-device-class name=ids,type=CephString,n=N",
        "get classes of specified osd(s) <id> [<id>...]",
        "osd",
        "r",
        get,
    ),
];

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let names: Vec<&str> = context.state.osdmap.crush.classes().map(|(_, name)| name).collect();
    Ok(context.json(&json!(names)))
}

fn list_osds(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let class = context.arguments.text("class");
    let osds = context.state.osdmap.crush.devices_of_class(class);
    Ok(context.show(|| json!(osds), || osds.iter().map(|osd| format!("{osd}\n")).collect()))
}

fn create(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let class = context.arguments.text("class");
    if context.state.osdmap.crush.class_id(class).is_some() {
        return Ok(Answer::said(format!("class '{class}' already exists")));
    }
    let text = format!(
        "class '{class}' comes into being with its first device: use 'ceph osd crush set-device-class {class} <osd>'"
    );
    Err(Refusal::new(Errno::NOTSUPP, text))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let class = context.arguments.text("class").to_owned();
    let map = &context.state.osdmap.crush;
    if map.class_id(&class).is_none() {
        return Ok(Answer::said(format!("class '{class}' does not exist")));
    }
    let uses = |item: i32| {
        map.split_shadow(item).and_then(|(_, class)| map.class_name(class?)) == Some(&class)
    };
    if let Some((id, _)) = map.rules().find(|(_, rule)| rule.takes().any(uses)) {
        let rule = map.rule_name(id).unwrap_or_default();
        let text = format!("class '{class}' still referenced by crush_rule '{rule}'");
        return Err(Refusal::new(Errno::BUSY, text));
    }
    let devices = map.devices_of_class(&class);
    let crush = context.change.crush(context.state);
    for device in devices {
        crush.remove_device_class(device).map_err(refused)?;
    }
    Ok(Answer::said(format!("removed class {class} from crush map")))
}

fn rename(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (from, to) = (
        context.arguments.text("srcname").to_owned(),
        context.arguments.text("dstname").to_owned(),
    );
    let map = &context.state.osdmap.crush;
    if map.class_id(&from).is_none() && map.class_id(&to).is_some() {
        return Ok(Answer::said(format!("already renamed to '{to}'")));
    }
    let mut map = (**map).clone();
    map.rename_class(&from, &to).map_err(|error| Refusal::missing(error.to_string()))?;
    *context.change.crush(context.state) = map;
    Ok(Answer::said(format!("rename device class '{from}' to '{to}'")))
}

fn listed(context: &Context<'_>) -> Result<Vec<OsdId>, Refusal> {
    let map = &context.state.osdmap;
    osds_listed(context.arguments.list("ids"), || map.existing_osds().map(|(osd, _)| osd).collect())
}

fn refused(error: ClassError) -> Refusal {
    match &error {
        ClassError::OtherClass { device, class } => Refusal::new(
            Errno::BUSY,
            format!(
                "osd.{device} has already bound to class '{class}', can not reset class; use 'ceph osd \
                 crush rm-device-class <id>' to remove old class first"
            ),
        ),
        ClassError::NoSuchDevice { .. } => Refusal::missing(error.to_string()),
        _ => Refusal::invalid(error.to_string()),
    }
}

fn join(osds: &[OsdId]) -> String {
    osds.iter().map(OsdId::to_string).collect::<Vec<_>>().join(",")
}

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let class = context.arguments.text("class").to_owned();
    let (mut changed, mut text) = (Vec::new(), String::new());
    let mut map = (*context.state.osdmap.crush).clone();
    for osd in listed(context)? {
        if !context.state.osdmap.exists(osd) {
            return Err(Refusal::missing(format!("osd.{osd} does not exist")));
        }
        match map.set_device_class(osd.0, &class).map_err(refused)? {
            true => changed.push(osd),
            false => text += &format!("osd.{osd} already set to class {class}. "),
        }
    }
    if !changed.is_empty() {
        *context.change.crush(context.state) = map;
    }
    Ok(Answer::said(format!("{text}set osd(s) {} to class '{class}'", join(&changed))))
}

fn unset(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (mut changed, mut text) = (Vec::new(), String::new());
    let mut map = (*context.state.osdmap.crush).clone();
    for osd in listed(context)? {
        match map.remove_device_class(osd.0).map_err(refused)? {
            true => changed.push(osd),
            false => text += &format!("osd.{osd} belongs to no class, "),
        }
    }
    if !changed.is_empty() {
        *context.change.crush(context.state) = map;
    }
    Ok(Answer::said(format!("{text}done removing class of osd(s): {}", join(&changed))))
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osds = listed(context)?;
    if let Some(osd) = osds.iter().find(|osd| !context.state.osdmap.exists(**osd)) {
        return Err(Refusal::missing(format!("osd.{osd} does not exist")));
    }
    let class =
        |osd: &OsdId| context.state.osdmap.crush.item_class(osd.0).unwrap_or_default().to_owned();
    let json = || {
        let entry = |osd: &OsdId| json!({ "osd": osd.0, "device_class": class(osd) });
        Value::from(osds.iter().map(entry).collect::<Vec<_>>())
    };
    Ok(context.show(json, || osds.iter().map(|osd| format!("{}\n", class(osd))).collect()))
}
