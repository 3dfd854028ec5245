//! `rbd trash purge schedule`, which workers execute, and `rbd mirror snapshot schedule`, which is only
//! stored: no daemon mirrors images here.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::image_schedules::{Interval, Item, Schedule, parse_time};
use crate::image_tasks::MODULE;
use crate::keys;
use crate::state::State;
use maps::Pool;
use serde_json::{Map, Value, json};
use types::{PoolId, UTime};

/// The kind of purge schedules in their keys.
pub const TRASH: &str = "trash";
const MIRROR: &str = "mirror";

macro_rules! schedule {
    ($prefix:literal, $kind:expr, $what:literal) => {
        [
            command(
                concat!(
                    $prefix,
                    " schedule add name=level_spec,type=CephString name=interval,type=CephString \
                     name=start_time,type=CephString,req=false"
                ),
                concat!("Add rbd ", $what, " schedule"),
                MODULE,
                "rw",
                |context| add(context, $kind),
            ),
            command(
                concat!(
                    $prefix,
                    " schedule remove name=level_spec,type=CephString \
                     name=interval,type=CephString,req=false name=start_time,type=CephString,req=false"
                ),
                concat!("Remove rbd ", $what, " schedule"),
                MODULE,
                "rw",
                |context| remove(context, $kind),
            ),
            command(
                concat!($prefix, " schedule list name=level_spec,type=CephString,req=false"),
                concat!("List rbd ", $what, " schedule"),
                MODULE,
                "r",
                |context| list(context, $kind),
            ),
            command(
                concat!($prefix, " schedule status name=level_spec,type=CephString,req=false"),
                concat!("Show rbd ", $what, " schedule status"),
                MODULE,
                "r",
                |context| status(context, $kind),
            ),
        ]
    };
}

pub const TRASH_COMMANDS: &[Command] = &schedule!("rbd trash purge", TRASH, "trash purge");
pub const MIRROR_COMMANDS: &[Command] =
    &schedule!("rbd mirror snapshot", MIRROR, "mirror snapshot");
pub const COMMANDS: &[Command] = &[
    command(
        "rbd trash purge due",
        "for workers: whether there is anything to purge",
        MODULE,
        "rx",
        due,
    )
    .internal(),
    command("rbd trash purge take", "for workers: what is to be purged now", MODULE, "rwx", take)
        .internal(),
];

/// The scope of a schedule: all pools, a pool, a namespace, or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Level {
    /// Ids and names from the most general one to the most specific.
    id: Vec<String>,
    name: String,
}

impl Level {
    fn key(&self) -> String {
        self.id.join("/")
    }

    fn is_within(&self, key: &str) -> bool {
        key.is_empty() || self.key() == key || self.key().starts_with(&format!("{key}/"))
    }
}

/// Parses `''`, `POOL/`, `POOL/NAMESPACE/`, and `POOL/[NAMESPACE/]IMAGE` where images are allowed.
fn level(context: &Context<'_>, kind: &str) -> Result<Level, Refusal> {
    let spec = context.arguments.optional("level_spec").unwrap_or_default();
    let wrong = || Refusal::invalid(format!("'{spec}' is not [POOL/[NAMESPACE/]]"));
    let (pool, namespace, image) = match spec.split('/').collect::<Vec<_>>()[..] {
        [""] => return Ok(Level { id: Vec::new(), name: String::new() }),
        [pool, ""] => (pool, None, None),
        [pool, image] => (pool, Some(""), Some(image)),
        [pool, namespace, ""] => (pool, Some(namespace), None),
        [pool, namespace, image] => (pool, Some(namespace), Some(image)),
        _ => return Err(wrong()),
    };
    if pool.is_empty() || image.is_some() && kind == TRASH {
        return Err(wrong());
    }
    let id = context.state.osdmap.pool_id(pool);
    let id = id.ok_or_else(|| Refusal::invalid(format!("pool {pool} does not exist")))?;
    let parts = [Some(id.0.to_string()), namespace.map(str::to_owned), image.map(str::to_owned)];
    let name = match (namespace.unwrap_or_default(), image) {
        ("", Some(image)) => format!("{pool}/{image}"),
        _ => spec.to_owned(),
    };
    Ok(Level { id: parts.into_iter().flatten().collect(), name })
}

fn minutes(now: UTime) -> u64 {
    u64::from(now.seconds) / 60
}

fn item(context: &Context<'_>, interval: &str) -> Result<Item, Refusal> {
    let wrong = |what: &str, text: &str, like: &str| {
        Refusal::invalid(format!("Invalid {what} ({text}): expected {like}"))
    };
    let parsed = Interval::parse(interval);
    let interval = parsed.ok_or_else(|| wrong("interval", interval, "30m, 12h or 1d"))?;
    let start = context.arguments.optional("start_time").filter(|text| !text.is_empty());
    let start = start.map(|text| {
        parse_time(text).ok_or_else(|| wrong("start time", text, "14:00 or 14:00+02:00"))
    });
    Ok(Item { interval, start: start.transpose()? })
}

fn store(context: &mut Context<'_>, kind: &str, level: &str, schedule: &Schedule) {
    let key = keys::image_schedule(kind, level);
    match schedule.items.is_empty() {
        true => context.change.delete(key),
        false => context.change.put(key, serde_json::to_vec(schedule).expect("it is JSON")),
    }
}

fn known<'a>(state: &'a State, kind: &str) -> impl Iterator<Item = (&'a str, &'a Schedule)> {
    let kind = kind.to_owned();
    let all = state.images.schedules.iter().filter(move |((of, _), _)| *of == kind);
    all.map(|((_, level), schedule)| (level.as_str(), schedule))
}

fn find(context: &Context<'_>, kind: &str, level: &Level) -> Option<Schedule> {
    context.state.images.schedules.get(&(kind.to_owned(), level.key())).cloned()
}

fn add(context: &mut Context<'_>, kind: &str) -> Result<Answer, Refusal> {
    let level = level(context, kind)?;
    let item = item(context, context.arguments.text("interval"))?;
    let done = minutes(context.change.now());
    let mut schedule =
        find(context, kind, &level).unwrap_or(Schedule { done, ..Schedule::default() });
    schedule.name = level.name.clone();
    if !schedule.items.contains(&item) {
        schedule.items.push(item);
    }
    store(context, kind, &level.key(), &schedule);
    Ok(Answer::default())
}

fn remove(context: &mut Context<'_>, kind: &str) -> Result<Answer, Refusal> {
    let level = level(context, kind)?;
    let interval = context.arguments.optional("interval").filter(|text| !text.is_empty());
    // An invalid interval is refused even if there is nothing to remove.
    let gone = interval.map(|interval| item(context, interval)).transpose()?;
    let Some(mut schedule) = find(context, kind, &level) else { return Ok(Answer::default()) };
    match gone {
        None => schedule.items.clear(),
        Some(gone) => schedule.items.retain(|item| *item != gone),
    }
    store(context, kind, &level.key(), &schedule);
    Ok(Answer::default())
}

/// Schedules of the level and below it; if the level has none of its own, also the one that applies to it.
fn list(context: &mut Context<'_>, kind: &str) -> Result<Answer, Refusal> {
    let level = level(context, kind)?;
    let above = known(context.state, kind).filter(|(key, _)| level.is_within(key));
    let counts = above.map(|(key, _)| key).max_by_key(|key| key.len());
    let is_below =
        |key: &str| Level { id: vec![key.to_owned()], ..level.clone() }.is_within(&level.key());
    let mut shown = Map::new();
    for (key, schedule) in known(context.state, kind) {
        if Some(key) == counts || is_below(key) {
            let items = schedule.items.iter().map(|item| {
                json!({ "interval": item.interval.to_string(), "start_time": item.start_text() })
            });
            let items: Vec<Value> = items.collect();
            shown.insert(key.to_owned(), json!({ "name": schedule.name, "schedule": items }));
        }
    }
    Ok(context.json(&json!(shown)))
}

/// Pools, and namespaces with a schedule of their own, with the time of their next purge.
fn status(context: &mut Context<'_>, kind: &str) -> Result<Answer, Refusal> {
    let level = level(context, kind)?;
    if kind == MIRROR {
        return Ok(context.json(&json!({ "scheduled_images": [] })));
    }
    let now = minutes(context.change.now());
    let mut scheduled = Vec::new();
    for part in parts(context.state) {
        let own = part.level();
        let Some((_, schedule)) = effective(context.state, &own) else { continue };
        let Some(next) = schedule.next(now).filter(|_| own.is_within(&level.key())) else {
            continue;
        };
        let at = UTime { seconds: (next * 60) as u32, nanoseconds: 0 }.to_iso();
        scheduled.push(json!({
            "schedule_time": at[..19].replace('T', " "),
            "pool_id": part.pool.0.to_string(),
            "pool_name": part.pool_name,
            "namespace": part.namespace,
        }));
    }
    Ok(context.json(&json!({ "scheduled": scheduled })))
}

/// A pool, or a namespace in it that has a schedule.
struct Part {
    pool: PoolId,
    pool_name: String,
    namespace: String,
}

impl Part {
    fn level(&self) -> Level {
        Level { id: vec![self.pool.0.to_string(), self.namespace.clone()], name: String::new() }
    }
}

/// All parts known to the monitor, which does not know all namespaces. Erasure-coded pools have data of
/// images, but neither images nor their trash.
fn parts(state: &State) -> Vec<Part> {
    let map = &state.osdmap;
    let holds_images =
        |pool: &Pool| pool.is_replicated() && pool.application_metadata.contains_key("rbd");
    let pools = map.pools.iter().filter(|(_, pool)| holds_images(pool));
    let mut parts = Vec::new();
    for (id, _) in pools {
        let own = known(state, TRASH).filter_map(|(key, _)| {
            let (pool, namespace) = key.split_once('/')?;
            (pool == id.0.to_string()).then(|| namespace.to_owned())
        });
        let namespaces: std::collections::BTreeSet<String> = own.chain([String::new()]).collect();
        parts.extend(namespaces.into_iter().map(|namespace| {
            let pool_name = map.pool_name(*id).unwrap_or_default().to_owned();
            Part { pool: *id, pool_name, namespace }
        }));
    }
    parts
}

/// The schedule that applies to a level.
fn effective<'a>(state: &'a State, level: &Level) -> Option<(&'a str, &'a Schedule)> {
    known(state, TRASH).filter(|(key, _)| level.is_within(key)).max_by_key(|(key, _)| key.len())
}

fn due(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let now = minutes(context.change.now());
    let is_due = known(context.state, TRASH).any(|(_, schedule)| schedule.is_due(now));
    Ok(context.json(&json!({ "is_due": is_due })))
}

/// Hands all due purges to the caller. If that worker dies, they are done at the next due time.
fn take(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let now = minutes(context.change.now());
    let due = due_now(context.state, now);
    let wanted = wanted(context.state, &due);
    for (key, schedule) in due {
        store(context, TRASH, &key, &Schedule { done: now, ..schedule });
    }
    Ok(context.json(&json!(wanted)))
}

fn due_now(state: &State, now: u64) -> Vec<(String, Schedule)> {
    let due = known(state, TRASH).filter(|(_, schedule)| schedule.is_due(now));
    due.map(|(key, schedule)| (key.to_owned(), schedule.clone())).collect()
}

/// The parts to purge. A pool's schedule applies to its namespaces too, except those with schedules of their
/// own.
fn wanted(state: &State, due: &[(String, Schedule)]) -> Vec<Value> {
    let parts = parts(state);
    let is_due = |key: &str| due.iter().any(|(other, _)| other == key);
    let wanted = parts.iter().filter_map(|part| {
        let (key, _) = effective(state, &part.level()).filter(|(key, _)| is_due(key))?;
        let is_whole = part.namespace.is_empty() && !key.contains('/');
        let others = parts.iter().filter(|other| other.pool == part.pool);
        let but: Vec<&String> = others.map(|other| &other.namespace).collect();
        Some(json!({
            "pool": part.pool.0,
            "pool_name": part.pool_name,
            "namespace": part.namespace,
            "and_all_but": is_whole.then_some(but),
        }))
    });
    wanted.collect()
}

/// The pool and namespace of a level, for capabilities.
pub fn scope(spec: &str) -> Option<(&str, &str)> {
    match spec.split('/').collect::<Vec<_>>()[..] {
        [pool, _] => Some((pool, "")),
        [pool, namespace, _] => Some((pool, namespace)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::{add_pool, run, state, text};

    fn ask(state: &mut State, prefix: &str, given: Value) -> Value {
        let answer = run(state, prefix, given).unwrap_or_else(|error| panic!("{error}"));
        serde_json::from_str(&text(&answer)).unwrap_or_default()
    }

    fn with_pool() -> State {
        let mut state = state();
        add_pool(&mut state);
        let pool = state.osdmap.pools.values_mut().next().unwrap();
        pool.application_metadata.insert("rbd".into(), Default::default());
        state
    }

    #[test]
    fn schedules_are_kept_by_level_and_the_most_specific_counts() {
        let mut state = with_pool();
        let prefix = "rbd trash purge schedule add";
        let given =
            |level: &str, interval: &str| json!({ "level_spec": level, "interval": interval });
        ask(&mut state, prefix, given("", "1d"));
        ask(
            &mut state,
            prefix,
            json!({ "level_spec": "x/", "interval": "2h", "start_time": "14:00" }),
        );
        ask(&mut state, prefix, given("x/space/", "30"));
        for wrong in [given("none/", "1d"), given("x/", "1w"), given("x/space/image", "1d")] {
            assert!(run(&mut state, prefix, wrong).is_err());
        }
        let list = "rbd trash purge schedule list";
        let all = ask(&mut state, list, json!({}));
        assert_eq!(all.as_object().unwrap().len(), 3, "{all}");
        let own = ask(&mut state, list, json!({ "level_spec": "x/other/" }));
        let (_, entry) = own.as_object().unwrap().iter().next().unwrap();
        assert_eq!(entry["name"], "x/");
        assert_eq!(entry["schedule"], json!([{ "interval": "2h", "start_time": "14:00:00" }]));
        let status = ask(&mut state, "rbd trash purge schedule status", json!({}));
        assert_eq!(status["scheduled"].as_array().unwrap().len(), 2, "{status}");
        ask(&mut state, "rbd trash purge schedule remove", json!({ "level_spec": "x/" }));
        assert_eq!(ask(&mut state, list, json!({})).as_object().unwrap().len(), 2);
        ask(&mut state, "rbd mirror snapshot schedule add", given("x/image", "1h"));
        let mirrored = ask(&mut state, "rbd mirror snapshot schedule list", json!({}));
        let (_, entry) = mirrored.as_object().unwrap().iter().next().unwrap();
        assert_eq!(entry["name"], "x/image");
    }

    #[test]
    fn a_pool_is_purged_with_the_namespaces_that_have_no_schedule_of_their_own() {
        let mut state = with_pool();
        let add = "rbd trash purge schedule add";
        ask(&mut state, add, json!({ "level_spec": "x/", "interval": "1m" }));
        ask(&mut state, add, json!({ "level_spec": "x/space/", "interval": "1d" }));
        let due = due_now(&state, 5);
        assert_eq!(due.len(), 1);
        let wanted = wanted(&state, &due);
        assert_eq!((wanted.len(), &wanted[0]["namespace"]), (1, &json!("")));
        assert_eq!(wanted[0]["and_all_but"], json!(["", "space"]));
        assert_eq!(ask(&mut state, "rbd trash purge due", json!({}))["is_due"], false);
        assert_eq!(ask(&mut state, "rbd trash purge take", json!({})), json!([]));
    }
}
