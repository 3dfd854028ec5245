//! `rbd perf image`: client I/O per image. `rbd perf image iostat` and `iotop` poll it.

use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::image_tasks::{MODULE, POOL_DEFAULT};
use crate::image_traffic::{COLUMNS, ImageKey, Note, Row};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use types::PoolId;

/// Bound of the images in one answer.
const SHOWN_MAX: usize = 64;

pub const COMMANDS: &[Command] = &[
    command(
        "rbd perf image stats name=pool_spec,type=CephString,req=false name=sort_by,\
         type=CephChoices,strings=write_ops|write_bytes|write_latency|read_ops|read_bytes|read_latency,\
         req=false",
        "Retrieve current RBD IO performance stats",
        MODULE,
        "r",
        |context| show(context, "stat"),
    ),
    command(
        "rbd perf image counters name=pool_spec,type=CephString,req=false name=sort_by,\
         type=CephChoices,strings=write_ops|write_bytes|write_latency|read_ops|read_bytes|read_latency,\
         req=false",
        "Retrieve current RBD IO performance counters",
        MODULE,
        "r",
        |context| show(context, "counter"),
    ),
    command(
        "rbd perf image unnamed",
        "for workers: images of which only the ids are known",
        MODULE,
        "rx",
        unnamed,
    )
    .internal(),
    command(
        "rbd perf image name name=names,type=CephString",
        "for workers: what images are called",
        MODULE,
        "rx",
        name,
    )
    .internal(),
];

/// The pool and namespace of the argument; `None` for all.
fn scope(context: &Context<'_>) -> Result<Option<(PoolId, String)>, Refusal> {
    let spec = context.arguments.optional("pool_spec").unwrap_or_default();
    if spec.is_empty() {
        return Ok(None);
    }
    let (pool, namespace) = parts(spec)?;
    let id = context.state.osdmap.pool_id(pool);
    let id = id.ok_or_else(|| Refusal::missing(format!("Pool '{pool}' not found")))?;
    Ok(Some((id, namespace.to_owned())))
}

/// `POOL[/NAMESPACE]`
pub(super) fn parts(spec: &str) -> Result<(&str, &str), Refusal> {
    match spec.split('/').collect::<Vec<_>>()[..] {
        ["", namespace] => Ok((POOL_DEFAULT, namespace)),
        [pool] => Ok((pool, "")),
        [pool, namespace] => Ok((pool, namespace)),
        _ => Err(Refusal::invalid(format!("'{spec}' is not POOL[/NAMESPACE]"))),
    }
}

fn show(context: &mut Context<'_>, what: &str) -> Result<Answer, Refusal> {
    let scope = scope(context)?;
    context.change.note_images(Note::Asked);
    let traffic = &context.live.stats.images;
    let rates = traffic.rates(context.now);
    let rows = if what == "stat" { rates.clone() } else { traffic.totals() };
    let is_wanted = |(pool, namespace, _): &ImageKey| {
        scope.as_ref().is_none_or(|(id, within)| id == pool && within == namespace)
    };
    let sort_by = context.arguments.optional("sort_by").unwrap_or(COLUMNS[0]);
    let column = COLUMNS.iter().position(|name| *name == sort_by).unwrap_or(0);
    // Sorted by current rates, also if counters are requested.
    let rank = |key: &ImageKey| rates.get(key).map_or(0, |row| row[column] as u64);
    let mut rows: Vec<(ImageKey, Row)> =
        rows.into_iter().filter(|(key, _)| is_wanted(key)).collect();
    rows.retain(|(_, row)| row.iter().any(|value| *value != 0.0));
    rows.sort_by_key(|(key, _)| Reverse(rank(key)));
    rows.truncate(SHOWN_MAX);
    let (pools, images) = table(context, &rows);
    Ok(context.json(&json!({
        "timestamp": context.change.now().seconds as f64,
        format!("{what}_descriptors"): COLUMNS,
        "pool_descriptors": pools,
        format!("{what}s"): images,
    })))
}

/// Pools by their index in this answer, and images as `INDEX/NAME`.
fn table(context: &Context<'_>, rows: &[(ImageKey, Row)]) -> (Map<String, Value>, Vec<Value>) {
    let mut numbers = BTreeMap::new();
    let mut pools = Map::new();
    let images = rows.iter().map(|((pool, namespace, image), row)| {
        let next = numbers.len();
        let index = *numbers.entry((*pool, namespace)).or_insert(next);
        let name = context.state.osdmap.pool_name(*pool).unwrap_or_default();
        let slash = if namespace.is_empty() { "" } else { "/" };
        pools.insert(index.to_string(), json!(format!("{name}{slash}{namespace}")));
        let values: Vec<Value> = row.iter().map(|value| number(*value)).collect();
        json!({ format!("{index}/{image}"): values })
    });
    let images = images.collect();
    (pools, images)
}

fn unnamed(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let images =
        context.live.stats.images.unnamed(context.now).filter_map(|(pool, namespace, id)| {
            let pool_name = map.pool_name(*pool)?;
            Some(
                json!({ "pool": pool.0, "pool_name": pool_name, "namespace": namespace, "id": id }),
            )
        });
    Ok(context.json(&json!(images.collect::<Vec<_>>())))
}

/// Takes the list of [`unnamed`] back, with `name` added to each image, which is null if there is no such
/// image.
fn name(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let said: Value = serde_json::from_str(context.arguments.text("names"))
        .map_err(|error| Refusal::invalid(format!("the names are not JSON: {error}")))?;
    let all = said.as_array().into_iter().flatten();
    let names = all.filter_map(|image| {
        let text = |key: &str| image[key].as_str().map(str::to_owned);
        let key = (PoolId(image["pool"].as_i64()?), text("namespace")?, text("id")?);
        Some((key, text("name")))
    });
    context.change.note_images(Note::Names(names.collect()));
    Ok(context.json(&json!({})))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::{add_pool, run, state, text};
    use crate::image_tasks;

    #[test]
    fn answers_have_the_form_that_rbd_reads() {
        let mut state = state();
        add_pool(&mut state);
        let mut ask =
            |spec: &str| run(&mut state, "rbd perf image stats", json!({ "pool_spec": spec }));
        let value: Value = serde_json::from_str(&text(&ask("x").unwrap())).unwrap();
        assert_eq!(value["stat_descriptors"][5], "read_latency");
        assert_eq!((&value["pool_descriptors"], &value["stats"]), (&json!({}), &json!([])));
        assert!(ask("none").is_err() && ask("a/b/c").is_err() && ask("").is_ok());
        assert_eq!(image_tasks::MODULE, "rbd_support");
    }
}
