//! `fs subvolume authorize` and its kin: entities that may use a subvolume.
//!
//! Two files tell the same from both sides, as in Ceph: the entities of a subvolume, and the subvolumes of an
//! entity. They are written before the capabilities are given, and after they are taken away, so that no
//! entity has capabilities that the files do not tell.

use crate::catalog::{Subvolume, Subvolumes};
use crate::failure::{During, Failure};
use crate::order::{Outcome, Printed, unknown};
use crate::paths;
use crate::procedure::Target;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use types::Errno;
use wire::InodeStat;

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
fn caps(all: &Subvolumes<'_>, subvolume: &Subvolume, stat: &InodeStat, level: &str) -> [String; 2] {
    let pool = all.order().pool_name(crate::attributes::pool_of(all.order(), stat));
    let namespace = match stat.layout.namespace.as_str() {
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

/// Capabilities without some and with another one.
fn changed(former: &str, without: &[String], with: Option<&str>) -> String {
    let mut parts: Vec<&str> = former
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty() && !without.iter().any(|gone| gone == part))
        .collect();
    parts.extend(with.filter(|new| !parts.contains(new)));
    parts.join(", ")
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
    note(all, subvolume, id, tenant, Some(level)).await?;
    let [mds, osd] = caps(all, subvolume, &stat, level);
    let other = caps(all, subvolume, &stat, if level == "r" { "rw" } else { "r" });
    let former = former.unwrap_or_default();
    let of = |service: &str| former.get(service).and_then(Value::as_str).unwrap_or_default();
    let mon = if of("mon").is_empty() { "allow r" } else { of("mon") };
    let entity = format!("client.{id}");
    let new = [
        ("mon", mon.to_owned()),
        ("mds", changed(of("mds"), &other[..1], Some(&mds))),
        ("osd", changed(of("osd"), &other[1..], Some(&osd))),
    ];
    let caps: Vec<&str> = new.iter().flat_map(|(key, value)| [*key, value.as_str()]).collect();
    let prefix = if former.is_empty() { "auth get-or-create" } else { "auth caps" };
    command(all, json!({ "prefix": prefix, "entity": entity, "caps": caps })).await?;
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

async fn deauthorize(all: &Subvolumes<'_>, subvolume: &Subvolume, id: &str) -> Outcome {
    let known = read(all, &paths::used_by(id)).await?.unwrap_or_default();
    let is_known = known["subvolumes"].get(name_of(subvolume)).is_some();
    if !is_known {
        // As in Ceph: the command may be a repeated one.
        return Ok(Printed::none());
    }
    if let (Some(former), Ok(stat)) = (entity(all, id).await?, all.content(subvolume).await) {
        let (read, write) = (caps(all, subvolume, &stat, "r"), caps(all, subvolume, &stat, "rw"));
        let of = |service: &str| former.get(service).and_then(Value::as_str).unwrap_or_default();
        let mds = changed(of("mds"), &[read[0].clone(), write[0].clone()], None);
        let osd = match mds.is_empty() {
            true => String::new(),
            false => of("osd").to_owned(),
        };
        let entity = format!("client.{id}");
        let new = match mds.is_empty() {
            true => json!({ "prefix": "auth rm", "entity": entity }),
            false => {
                let mon = if of("mon").is_empty() { "allow r" } else { of("mon") };
                let caps = ["mon", mon, "mds", &mds, "osd", &osd];
                json!({ "prefix": "auth caps", "entity": entity, "caps": caps })
            }
        };
        command(all, new).await?;
    }
    note(all, subvolume, id, None, None).await?;
    Ok(Printed::none())
}

/// Ends the sessions of an entity that has mounted the subvolume, and puts their clients on the blocklist.
async fn evict(all: &Subvolumes<'_>, subvolume: &Subvolume, id: &str) -> Outcome {
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

    #[test]
    fn ids_are_parts_of_names_of_files() {
        for bad in ["", "a/b", "a b", "admin", "$x"] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check("csi-user_1.x").is_ok());
    }
}
