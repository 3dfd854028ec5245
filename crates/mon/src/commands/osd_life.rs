//! Creation and removal of OSDs.

use super::crush_edit::crush_remove;
use super::named::osds_listed;
use super::osd::existing;
use crate::bootstrap::OSD_CAPS;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::keys;
use crate::state::OSD_ID_MAX;
use auth::{CryptoKey, EntityAuth};
use maps::OsdState;
use serde_json::{Value, json};
use types::{EntityName, Errno, OsdId, Uuid};

macro_rules! with_force {
    ($prefix:literal) => {
        concat!(
            $prefix,
            " name=id,type=CephOsdName name=force,type=CephBool,req=false ",
            "name=yes_i_really_mean_it,type=CephBool,req=false"
        )
    };
}

pub const COMMANDS: &[Command] = &[
    command(
        "osd new name=uuid,type=CephUUID,req=true name=id,type=CephOsdName,req=false",
        "Create a new OSD. If supplied, the `id` to be replaced needs to exist and have been \
         previously destroyed. Reads secrets from JSON file via `-i <file>`.",
        "osd",
        "rw",
        new,
    ),
    command(
        "osd create name=uuid,type=CephUUID,req=false name=id,type=CephOsdName,req=false",
        "create new osd (with optional UUID and ID)",
        "osd",
        "rw",
        new,
    ),
    command(
        "osd rm name=ids,type=CephString,n=N",
        "remove osd(s) <id> [<id>...]",
        "osd",
        "rw",
        remove,
    ),
    command(
        with_force!("osd destroy"),
        "mark osd as being destroyed. Keeps the ID intact (allowing reuse), but removes cephx keys.",
        "osd",
        "rw",
        destroy,
    ).of_manager(),
    command(
        with_force!("osd purge"),
        "purge all osd data from the monitors including the OSD id and CRUSH position",
        "osd",
        "rw",
        purge,
    ).of_manager(),
    command(
        with_force!("osd purge-new"),
        "purge all traces of an OSD that was partially created but never started",
        "osd",
        "rw",
        purge_new,
    ),
    command(
        "osd lost name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        "mark osd as permanently lost. THIS DESTROYS DATA IF NO MORE REPLICAS EXIST, BE CAREFUL",
        "osd",
        "rw",
        lost,
    ),
    command(
        "osd setmaxosd name=newmax,type=CephInt,range=0",
        "set new maximum osd value",
        "osd",
        "rw",
        setmaxosd,
    ),
];

fn new(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let uuid = match context.arguments.optional("uuid") {
        None => None,
        Some(text) => Some(
            text.parse::<Uuid>()
                .map_err(|()| Refusal::invalid(format!("'{text}' is not a uuid")))?,
        ),
    };
    let same = uuid.and_then(|uuid| map.existing_osds().find(|(_, osd)| osd.uuid == uuid));
    if let Some((osd, _)) = same {
        if let Some(other) = context.arguments.optional_osd("id").filter(|other| *other != osd) {
            let uuid = uuid.unwrap_or_default();
            let text = format!("uuid {uuid} already in use by osd.{osd}, not by osd.{other}");
            return Err(Refusal::new(Errno::EXIST, text));
        }
        check_secret(context, osd)?;
        return Ok(created(context, osd));
    }
    let osd = match context.arguments.optional_osd("id") {
        Some(osd) => {
            let known = map.osd(osd);
            if known.is_some_and(|known| !known.state.contains(OsdState::DESTROYED)) {
                let text = format!("osd.{osd} has already been created and was not destroyed");
                return Err(Refusal::new(Errno::EXIST, text));
            }
            osd
        }
        None => (0..).map(OsdId).find(|osd| !map.exists(*osd)).unwrap_or(OsdId::NONE),
    };
    if osd.0 >= OSD_ID_MAX {
        let text = format!("osd.{osd} is beyond the highest number, {}", OSD_ID_MAX - 1);
        return Err(Refusal::new(Errno::RANGE, text));
    }
    let key = new_key(context)?;
    let known = map.osd(osd).map(|known| known.state).unwrap_or_default();
    let incremental = context.change.osdmap(context.state);
    if osd.0 >= map.max_osd() {
        incremental.new_max_osd = Some(osd.0 + 1);
    }
    let wanted = OsdState::EXISTS | OsdState::NEW;
    let flips = (wanted.0 & !known.0) | (OsdState::DESTROYED.0 & known.0);
    incremental.new_state.insert(osd, OsdState(flips));
    incremental.new_weight.insert(osd, 0);
    if let Some(uuid) = uuid {
        incremental.new_uuid.insert(osd, uuid);
    }
    if let Some(key) = key {
        let entity = OSD_CAPS
            .iter()
            .fold(EntityAuth::new(key), |entity, (service, caps)| entity.with_caps(service, caps));
        context.change.put(keys::auth(&EntityName::osd(osd.0)), codec::encode_to_bytes(&entity));
    }
    Ok(created(context, osd))
}

fn created(context: &Context<'_>, osd: OsdId) -> Answer {
    context.show(|| json!({ "osdid": osd.0 }), || format!("{osd}\n"))
}

/// The same OSD may be requested again, but not with another secret.
fn check_secret(context: &Context<'_>, osd: OsdId) -> Result<(), Refusal> {
    let Some(key) = new_key(context)? else { return Ok(()) };
    let known = context.state.entities.get(&EntityName::osd(osd.0));
    if known.is_some_and(|known| known.key != key) {
        let text = format!("osd.{osd} exists, and its cephx_secret is another one");
        return Err(Refusal::new(Errno::EXIST, text));
    }
    Ok(())
}

/// The key of `{"cephx_secret": "…"}` in the input.
fn new_key(context: &Context<'_>) -> Result<Option<CryptoKey>, Refusal> {
    if context.input.is_empty() {
        return Ok(None);
    }
    let secrets: Value = serde_json::from_slice(&context.input)
        .map_err(|error| Refusal::invalid(format!("the input is not JSON: {error}")))?;
    let Some(secret) = secrets["cephx_secret"].as_str() else { return Ok(None) };
    let key = secret
        .parse()
        .map_err(|error: auth::KeyTextError| Refusal::invalid(format!("cephx_secret: {error}")))?;
    Ok(Some(key))
}

/// Removes an OSD that is down from the map.
fn forget(context: &mut Context<'_>, osd: OsdId) {
    let known = context.state.osdmap.osd(osd).map(|known| known.state).unwrap_or_default();
    let incremental = context.change.osdmap(context.state);
    // Flipping all bits that are set clears them.
    incremental.new_state.insert(osd, OsdState(known.0 | OsdState::EXISTS.0));
    context.change.delete(keys::osd_metadata(osd));
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let all = || map.existing_osds().map(|(osd, _)| osd).collect();
    let osds = osds_listed(context.arguments.list("ids"), all)?;
    if let Some(up) = osds.iter().find(|osd| map.is_up(**osd)) {
        let text = format!("osd.{up} is still up; must be down before removal. ");
        return Err(Refusal::new(Errno::BUSY, text));
    }
    let mut text = Vec::new();
    for osd in osds {
        if map.exists(osd) {
            forget(context, osd);
            text.push(format!("removed osd.{osd}"));
        } else {
            text.push(format!("osd.{osd} does not exist. "));
        }
    }
    Ok(Answer::said(text.join(", ")))
}

fn confirm(context: &Context<'_>, what: &str) -> Result<(), Refusal> {
    if context.arguments.flag("yes_i_really_mean_it") || context.arguments.flag("force") {
        return Ok(());
    }
    let osd = context.arguments.osd("id");
    Err(Refusal::new(
        Errno::PERM,
        format!(
            "Are you SURE?  Did you verify with 'ceph osd safe-to-destroy'?  This will {what} osd.{osd}; \
                 pass --yes-i-really-mean-it to proceed anyway"
        ),
    ))
}

fn check_stopped(context: &Context<'_>, osd: OsdId) -> Result<(), Refusal> {
    match context.state.osdmap.is_up(osd) {
        true => Err(Refusal::new(Errno::BUSY, format!("osd.{osd} is not `down`."))),
        false => Ok(()),
    }
}

fn absent(osd: OsdId) -> Answer {
    Answer::said(format!("osd.{osd} does not exist"))
}

fn destroy(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = context.arguments.osd("id");
    if !context.state.osdmap.exists(osd) {
        return Ok(absent(osd));
    }
    check_stopped(context, osd)?;
    confirm(context, "destroy the keys of")?;
    let known = context.state.osdmap.osd(osd).map(|known| known.state).unwrap_or_default();
    if known.contains(OsdState::DESTROYED) {
        return Ok(Answer::said(format!("destroyed osd.{osd}")));
    }
    let incremental = context.change.osdmap(context.state);
    let flips = (OsdState::DESTROYED | OsdState::NEW).0 & !known.0;
    incremental.new_state.insert(osd, OsdState(flips));
    incremental.new_uuid.insert(osd, Uuid::default());
    context.change.delete(keys::auth(&EntityName::osd(osd.0)));
    Ok(Answer::said(format!("destroyed osd.{osd}")))
}

fn purge(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = context.arguments.osd("id");
    check_stopped(context, osd)?;
    let (exists, has_key) = (
        context.state.osdmap.exists(osd),
        context.state.entities.contains_key(&EntityName::osd(osd.0)),
    );
    let is_placed = context.state.osdmap.crush.parent(osd.0).is_some();
    // An OSD that is not in the map may still have a key or a CRUSH location.
    if !exists && !has_key && !is_placed {
        return Ok(absent(osd));
    }
    confirm(context, "remove all traces of")?;
    if exists {
        forget(context, osd);
    }
    crush_remove(context.state, &mut context.change, osd);
    if has_key {
        context.change.delete(keys::auth(&EntityName::osd(osd.0)));
    }
    Ok(Answer::said(format!("purged osd.{osd}")))
}

/// Like `osd purge`, but only for an OSD that was never up.
fn purge_new(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = context.arguments.osd("id");
    let known = context.state.osdmap.osd(osd);
    if known.is_some_and(|known| known.is_up() || known.info.up_from.0 > 0) {
        let text = format!("osd.{osd} is not new: it has been up; 'ceph osd purge' removes it");
        return Err(Refusal::new(Errno::PERM, text));
    }
    purge(context)
}

fn lost(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    confirm(context, "declare lost what only it has:")?;
    let osd = existing(context, "id")?;
    check_stopped(context, osd)?;
    let epoch = context.state.osdmap.osd(osd).map_or(types::Epoch(0), |known| known.info.down_at);
    context.change.osdmap(context.state).new_lost.insert(osd, epoch);
    Ok(Answer::said(format!("marked osd lost in epoch {epoch}")))
}

fn setmaxosd(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let new = context.arguments.int("newmax").unwrap_or(0);
    let map = &context.state.osdmap;
    if new > i64::from(OSD_ID_MAX) {
        return Err(Refusal::new(Errno::RANGE, format!("max_osd {new} is above {OSD_ID_MAX}")));
    }
    let new = new as i32;
    if let Some((osd, _)) = map.existing_osds().find(|(osd, _)| osd.0 >= new) {
        let text = format!(
            "cannot shrink max_osd to {new} because osd.{osd} (and possibly others) still in use"
        );
        return Err(Refusal::new(Errno::BUSY, text));
    }
    if new != map.max_osd() {
        context.change.osdmap(context.state).new_max_osd = Some(new);
    }
    Ok(Answer::said(format!("set new max_osd = {new}")))
}
