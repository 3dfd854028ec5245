//! `fs subvolume authorize` and its kin: entities that may use a subvolume.
//!
//! Two files tell the same from both sides, as in Ceph: the entities of a subvolume, and the subvolumes of an
//! entity. They are written before the capabilities are given, and after they are taken away, so that no
//! entity has capabilities that the files do not tell.

use crate::attributes::DataPlace;
use crate::catalog::{Subvolume, Subvolumes};
use crate::failure::{During, Failure};
use crate::needs::{Need, is_needed, level_and_path};
use crate::order::{Outcome, Printed, unknown};
use crate::paths;
use crate::procedure::Target;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use types::Errno;

const MODE: u32 = 0o600;
/// Versions that Ceph gives the files of an entity and of a subvolume.
const ENTITY_VERSIONS: (u64, u64) = (6, 6);
const SUBVOLUME_VERSIONS: (u64, u64) = (2, 1);

pub(crate) async fn run(all: &Subvolumes<'_>, action: &str) -> Outcome {
    let subvolume = all.named().await?;
    let id = all.order().text("auth_id");
    if action != "authorized_list" {
        check(id)?;
    }
    match action {
        "authorized_list" => list(all, &subvolume).await,
        "authorize" => {
            subvolume.must_be_complete("authorize")?;
            authorize(all, &subvolume, id).await
        }
        "deauthorize" => deauthorize(all, &subvolume, id).await,
        "evict" => evict(all, &subvolume, id).await,
        _ => Err(unknown(all.order())),
    }
}

/// Ids are parts of names of files.
fn check(id: &str) -> Result<(), Failure> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    let is_valid = !id.is_empty() && id.len() <= 200 && id.chars().all(is_plain);
    match is_valid && id != "admin" {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "'{id}' is no valid auth ID: it has 1 to 200 letters, digits and '-_.', and is not 'admin'"
        ))),
    }
}

async fn read(all: &Subvolumes<'_>, path: &str) -> Result<Option<Value>, Failure> {
    match all.tree().read(path).await {
        Err(Errno::NOENT) => Ok(None),
        content => {
            let content = content.during(|| format!("reading /{path}"))?;
            let parsed = serde_json::from_slice(&content);
            let reason = |error| Failure::invalid(format!("/{path} is no JSON: {error}"));
            parsed.map(Some).map_err(reason)
        }
    }
}

async fn write(all: &Subvolumes<'_>, path: &str, value: &Value) -> Result<(), Failure> {
    let text = Bytes::from(value.to_string());
    all.tree().replace(path, text, MODE).await.during(|| format!("writing /{path}"))
}

/// The name by which the file of an entity knows a subvolume.
fn name_of(subvolume: &Subvolume) -> String {
    match subvolume.group.is_empty() {
        true => subvolume.name.clone(),
        false => format!("{}/{}", subvolume.group, subvolume.name),
    }
}

async fn list(all: &Subvolumes<'_>, subvolume: &Subvolume) -> Outcome {
    let path = paths::users_of(&subvolume.group, &subvolume.name);
    let known = read(all, &path).await?.unwrap_or_default();
    let known = known["auths"].as_object().cloned().unwrap_or_default();
    let shown: Vec<Value> =
        known.into_iter().map(|(id, entry)| json!({ id: entry["access_level"] })).collect();
    Ok(Printed::json(&json!(shown)))
}

/// The capabilities for a subvolume at a server and at OSDs.
fn caps(subvolume: &Subvolume, place: &DataPlace, level: &str) -> [String; 2] {
    let DataPlace { pool, namespace } = place;
    let namespace = match namespace.as_str() {
        "" => String::new(),
        namespace => format!(" namespace={namespace}"),
    };
    [
        format!("allow {level} path=/{}", subvolume.content()),
        format!("allow {level} pool={pool}{namespace}"),
    ]
}

/// The capabilities of an entity; `None` if there is no such entity.
async fn entity(all: &Subvolumes<'_>, id: &str) -> Result<Option<Map<String, Value>>, Failure> {
    let command =
        json!({ "prefix": "auth get", "entity": format!("client.{id}"), "format": "json" });
    match all.tree().steps().command(Target::Monitors, command).await {
        Err((Errno::NOENT, _)) => Ok(None),
        Err((errno, text)) => Err(Failure::new(errno, text)),
        Ok(output) => {
            let told: Value = serde_json::from_slice(&output).unwrap_or_default();
            Ok(Some(told[0]["caps"].as_object().cloned().unwrap_or_default()))
        }
    }
}

async fn command(all: &Subvolumes<'_>, command: Value) -> Result<Bytes, Failure> {
    let ran = all.tree().steps().command(Target::Monitors, command).await;
    ran.map_err(|(errno, text)| Failure::new(errno, text))
}

/// The parts of the capabilities for a service.
fn parts(caps: &str) -> impl Iterator<Item = &str> {
    caps.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// The capabilities for a service.
fn caps_for<'a>(caps: &'a Map<String, Value>, service: &str) -> &'a str {
    caps.get(service).and_then(Value::as_str).unwrap_or_default()
}

/// Capabilities as commands to the monitors have them. Services without any are left out.
fn arguments(caps: &Map<String, Value>) -> Vec<&str> {
    let pairs = caps.iter().map(|(service, text)| [service, text.as_str().unwrap_or_default()]);
    pairs.filter(|[_, text]| !text.is_empty()).flatten().collect()
}

/// Capabilities without some and with another one.
fn changed(former: &str, without: &[String], with: Option<&str>) -> String {
    let mut kept: Vec<&str> =
        parts(former).filter(|part| !without.iter().any(|gone| gone == part)).collect();
    kept.extend(with.filter(|new| !kept.contains(new)));
    kept.join(", ")
}

/// Capabilities at a server that are none of some.
fn others<'a>(caps: &'a Map<String, Value>, but: [&'a String; 2]) -> impl Iterator<Item = &'a str> {
    parts(caps_for(caps, "mds")).filter(move |part| !but.iter().any(|other| other == part))
}

/// Capabilities of an entity with those for a subvolume, in place of those of the other level. `needs` are
/// those of its other capabilities at a server.
fn with_access(
    former: &Map<String, Value>,
    [mds, osd]: [String; 2],
    other: [String; 2],
    needs: &[Need],
) -> Map<String, Value> {
    let had_other = parts(caps_for(former, "mds")).any(|part| part == other[0]);
    let is_gone = had_other && !is_needed(&other[1], needs);
    let gone = if is_gone { &other[1..] } else { &[] };
    let mon = caps_for(former, "mon");
    let mon = if mon.is_empty() { "allow r" } else { mon };
    let mut new = former.clone();
    new.insert("mon".to_owned(), json!(mon));
    new.insert("mds".to_owned(), json!(changed(caps_for(former, "mds"), &other[..1], Some(&mds))));
    new.insert("osd".to_owned(), json!(changed(caps_for(former, "osd"), gone, Some(&osd))));
    new
}

async fn authorize(all: &Subvolumes<'_>, subvolume: &Subvolume, id: &str) -> Outcome {
    let order = all.order();
    let level = order.optional("access_level").unwrap_or("rw");
    if !["r", "rw"].contains(&level) {
        let text = format!("invalid access level '{level}': it is r or rw");
        return Err(Failure::invalid(text));
    }
    let tenant = order.optional("tenant_id");
    let known = read(all, &paths::used_by(id)).await?;
    let former = entity(all, id).await?;
    if former.is_some() && known.is_none() && !order.flag("allow_existing_id") {
        let text = format!(
            "auth ID: {id} exists and not created by ceph manager volume plugin. Not allowed to modify"
        );
        return Err(Failure::new(Errno::PERM, text));
    }
    let owner = known.as_ref().and_then(|known| known["tenant_id"].as_str());
    if known.is_some() && owner != tenant {
        return Err(Failure::new(Errno::PERM, format!("auth ID: {id} is already in use")));
    }
    let stat = all.content(subvolume).await?;
    let place = DataPlace::of(all.tree(), all.order(), subvolume.content(), &stat).await?;
    note(all, subvolume, id, tenant, Some(level)).await?;
    let own = caps(subvolume, &place, level);
    let other = caps(subvolume, &place, if level == "r" { "rw" } else { "r" });
    let known = former.clone().unwrap_or_default();
    let needs = Need::of(all, others(&known, [&own[0], &other[0]])).await?;
    let entity = format!("client.{id}");
    let prefix = if former.is_none() { "auth get-or-create" } else { "auth caps" };
    let new = with_access(&known, own, other, &needs);
    command(all, json!({ "prefix": prefix, "entity": entity, "caps": arguments(&new) })).await?;
    let get = json!({ "prefix": "auth get-key", "entity": entity, "format": "plain" });
    let key = command(all, get).await?;
    Ok(Printed::text(String::from_utf8_lossy(&key).trim()))
}

/// Notes in both files that an entity may use a subvolume, or that it may not.
async fn note(
    all: &Subvolumes<'_>,
    subvolume: &Subvolume,
    id: &str,
    tenant: Option<&str>,
    level: Option<&str>,
) -> Result<(), Failure> {
    let of_entity = (paths::used_by(id), "subvolumes", name_of(subvolume), ENTITY_VERSIONS);
    let of_subvolume = (
        paths::users_of(&subvolume.group, &subvolume.name),
        "auths",
        id.to_owned(),
        SUBVOLUME_VERSIONS,
    );
    for (path, section, key, (version, compatible)) in [of_entity, of_subvolume] {
        let mut file = read(all, &path).await?.unwrap_or_else(|| json!({}));
        if !file.is_object() || !file[section].is_object() {
            file[section] = json!({});
        }
        (file["version"], file["compat_version"]) = (json!(version), json!(compatible));
        if section == "subvolumes" {
            file["dirty"] = json!(false);
            let former = file["tenant_id"].as_str().map(str::to_owned);
            file["tenant_id"] = json!(tenant.map(str::to_owned).or(former));
        }
        match (level, file[section].as_object_mut()) {
            (Some(level), Some(entries)) => {
                entries.insert(key, json!({ "dirty": false, "access_level": level }));
            }
            (None, Some(entries)) => {
                entries.remove(&key);
            }
            _ => {}
        }
        let is_empty = file[section].as_object().is_none_or(Map::is_empty);
        match is_empty {
            true => match all.tree().unlink(&path).await {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno).during(|| format!("removing /{path}")),
            },
            false => write(all, &path, &file).await?,
        }
    }
    all.tree().sync().await.during(|| "storing who may use a subvolume".to_owned())
}

/// Whether capabilities allow no more than to reach the monitors.
fn is_worthless(caps: &Map<String, Value>) -> bool {
    matches!(arguments(caps)[..], [] | ["mon", "allow r"])
}

/// Whether a capability at a server is for a subvolume: for its content, or one that it had before.
fn is_for(subvolume: &Subvolume, part: &str) -> bool {
    let (path, directory) = (level_and_path(part).1, format!("/{}", subvolume.directory()));
    let below = path.strip_prefix(&directory);
    let is_content = !subvolume.content().is_empty()
        && path.strip_prefix('/').is_some_and(|path| path == subvolume.content());
    is_content || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Capabilities at OSDs that were given with one at a server. If the content is gone, its pool and its
/// namespace are not known, so it is those of all pools and of the namespaces that it may have had.
fn paired(
    all: &Subvolumes<'_>,
    subvolume: &Subvolume,
    place: Option<&DataPlace>,
    mds: &str,
) -> Vec<String> {
    let (level, path) = level_and_path(mds);
    if let Some(place) = place.filter(|_| path.trim_start_matches('/') == subvolume.content()) {
        return caps(subvolume, place, level)[1..].to_vec();
    }
    let id = path.rsplit('/').next().unwrap_or_default();
    let name = if subvolume.group.is_empty() { &subvolume.name } else { id };
    let pools = all.order().volume.data_pools.iter().map(|pool| &pool.name);
    let both = |pool| {
        let whole = format!("allow {level} pool={pool}");
        [format!("{whole} namespace=fsvolumens_{name}"), whole]
    };
    pools.flat_map(both).collect()
}

/// Capabilities of an entity without those for a subvolume; `None` if it has none for it.
async fn without_access(
    all: &Subvolumes<'_>,
    subvolume: &Subvolume,
    place: Option<&DataPlace>,
    former: &Map<String, Value>,
) -> Result<Option<Map<String, Value>>, Failure> {
    let (gone, rest): (Vec<&str>, Vec<&str>) =
        parts(caps_for(former, "mds")).partition(|part| is_for(subvolume, part));
    if gone.is_empty() {
        return Ok(None);
    }
    let osd = gone.iter().flat_map(|part| paired(all, subvolume, place, part));
    let needs = Need::of(all, rest.iter().copied()).await?;
    let osd: Vec<String> = osd.filter(|osd| !is_needed(osd, &needs)).collect();
    let mut left = former.clone();
    left.insert("mds".to_owned(), json!(rest.join(", ")));
    left.insert("osd".to_owned(), json!(changed(caps_for(former, "osd"), &osd, None)));
    Ok(Some(left))
}

async fn deauthorize(all: &Subvolumes<'_>, subvolume: &Subvolume, id: &str) -> Outcome {
    let known = read(all, &paths::used_by(id)).await?.unwrap_or_default();
    let is_known = known["subvolumes"].get(name_of(subvolume)).is_some();
    if !is_known {
        // As in Ceph: the command may be a repeated one.
        return Ok(Printed::none());
    }
    if let Some(former) = entity(all, id).await? {
        let place = match all.content(subvolume).await {
            Err(Failure { errno: Errno::NOENT, .. }) => None,
            found => {
                let path = subvolume.content();
                Some(DataPlace::of(all.tree(), all.order(), path, &found?).await?)
            }
        };
        if let Some(left) = without_access(all, subvolume, place.as_ref(), &former).await? {
            let entity = format!("client.{id}");
            let new = match is_worthless(&left) {
                true => json!({ "prefix": "auth rm", "entity": entity }),
                false => {
                    json!({ "prefix": "auth caps", "entity": entity, "caps": arguments(&left) })
                }
            };
            command(all, new).await?;
        }
    }
    note(all, subvolume, id, None, None).await?;
    Ok(Printed::none())
}

/// Ends the sessions of an entity that has mounted the subvolume, and puts their clients on the blocklist.
async fn evict(all: &Subvolumes<'_>, subvolume: &Subvolume, id: &str) -> Outcome {
    if subvolume.content().is_empty() {
        // An empty path would be the root, and all clients of the entity are below it.
        return Err(subvolume.has_no_content());
    }
    let steps = all.tree().steps();
    let ask = json!({ "prefix": "session ls", "format": "json" });
    let failed = |(errno, text): (Errno, String)| {
        Failure::new(errno, format!("asking the metadata server for its sessions: {text}"))
    };
    let sessions = steps.command(Target::Server, ask).await.map_err(failed)?;
    let sessions: Value = serde_json::from_slice(&sessions).unwrap_or_default();
    let path = format!("/{}", subvolume.content());
    for session in sessions.as_array().into_iter().flatten() {
        let told = &session["client_metadata"];
        let root = told["root"].as_str().unwrap_or_default();
        let is_below = root == path || root.starts_with(&format!("{path}/"));
        let is_meant = told["entity_id"].as_str() == Some(id) && is_below;
        if let Some(number) = session["id"].as_u64().filter(|_| is_meant) {
            let filter = vec![format!("id={number}")];
            let end = json!({ "prefix": "session evict", "filters": filter });
            steps.command(Target::Server, end).await.map_err(failed)?;
        }
    }
    Ok(Printed::none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_added_once_and_taken_away() {
        let gone = ["allow r path=/a".to_owned()];
        assert_eq!(changed("", &gone, Some("allow rw path=/a")), "allow rw path=/a");
        let both = "allow r path=/a, allow rw path=/b";
        assert_eq!(changed(both, &gone, Some("allow rw path=/b")), "allow rw path=/b");
        assert_eq!(changed(both, &gone, None), "allow rw path=/b");
        assert_eq!(changed("allow r path=/a", &gone, None), "");
    }

    fn rights(mds: &str, osd: &str) -> Map<String, Value> {
        let caps = json!({ "mds": mds, "mgr": "allow r", "mon": "allow r", "osd": osd });
        caps.as_object().cloned().unwrap()
    }

    fn need(level: &str, pool: Option<&str>) -> Need {
        Need { level: level.to_owned(), pool: pool.map(str::to_owned) }
    }

    fn pair(level: &str, path: &str, pool: &str) -> [String; 2] {
        [format!("allow {level} path={path}"), format!("allow {level} pool={pool}")]
    }

    #[test]
    fn another_level_takes_no_rights_of_other_subvolumes() {
        let (own, other) = (pair("r", "/b", "x"), pair("rw", "/b", "x"));
        let former = rights("allow rw path=/a", "allow rw pool=x");
        let both = "allow rw pool=x, allow r pool=x";
        let with_access = |former: &Map<String, Value>, own: [String; 2], other: [String; 2]| {
            let rest = others(former, [&own[0], &other[0]]);
            let needs: Vec<Need> =
                rest.map(|part| need(level_and_path(part).0, Some("x"))).collect();
            with_access(former, own, other, &needs)
        };
        let new = rights("allow rw path=/a, allow r path=/b", both);
        assert_eq!(with_access(&former, own.clone(), other.clone()), new);
        let former = rights("allow rw path=/a, allow rw path=/b", "allow rw pool=x");
        assert_eq!(with_access(&former, own.clone(), other.clone()), new);
        let former = rights("allow rw path=/b", "allow rw pool=x");
        let new = rights("allow r path=/b", "allow r pool=x");
        assert_eq!(with_access(&former, own.clone(), other.clone()), new);
        let former = rights("allow r path=/a, allow rw path=/b", "allow r pool=x, allow rw pool=x");
        let new = rights("allow r path=/a, allow r path=/b", "allow r pool=x");
        assert_eq!(with_access(&former, own, other), new);
    }

    #[test]
    fn a_key_that_allows_no_more_than_to_reach_the_monitors_is_worthless() {
        let mut caps = rights("", "");
        assert!(!is_worthless(&caps));
        caps.remove("mgr");
        assert!(is_worthless(&caps));
        caps.insert("mon".to_owned(), json!("allow *"));
        assert!(!is_worthless(&caps));
        assert!(is_worthless(&Map::new()));
    }

    #[test]
    fn ids_are_parts_of_names_of_files() {
        for bad in ["", "a/b", "a b", "admin", "$x"] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check("csi-user_1.x").is_ok());
    }
}
