//! `osd pool application`: applications of pools and their metadata.

use super::named::pool_named;
use crate::command::{Answer, Command, Context, Refusal, command};
use serde_json::{Value, json};
use types::{Errno, PoolId};

/// `MAX_POOL_APPLICATIONS` and `MAX_POOL_APPLICATION_KEYS`
const APPLICATIONS_MAX: usize = 4;
const KEYS_MAX: usize = 64;
/// `MAX_POOL_APPLICATION_LENGTH`
const LENGTH_MAX: usize = 128;

pub const COMMANDS: &[Command] = &[
    command(
        "osd pool application enable name=pool,type=CephPoolname \
         name=app,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "enable use of an application <app> [cephfs,rbd,rgw] on pool <poolname>",
        "osd",
        "rw",
        enable,
    ),
    command(
        "osd pool application disable name=pool,type=CephPoolname name=app,type=CephString \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "disables use of an application <app> on pool <poolname>",
        "osd",
        "rw",
        disable,
    ),
    command(
        "osd pool application set name=pool,type=CephPoolname name=app,type=CephString \
         name=key,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=value,type=CephString,goodchars=[A-Za-z0-9-_.=]",
        "sets application <app> metadata key <key> to <value> on pool <poolname>",
        "osd",
        "rw",
        set,
    ),
    command(
        "osd pool application rm name=pool,type=CephPoolname name=app,type=CephString \
         name=key,type=CephString",
        "removes application <app> metadata key <key> on pool <poolname>",
        "osd",
        "rw",
        remove,
    ),
    command(
        "osd pool application get name=pool,type=CephPoolname,req=false \
         name=app,type=CephString,req=false name=key,type=CephString,req=false",
        "get value of key <key> of application <app> on pool <poolname>",
        "osd",
        "r",
        get,
    ),
];

/// The pool, its name, and the application of the arguments.
fn arguments(context: &Context<'_>) -> Result<(PoolId, String, String), Refusal> {
    let id = pool_named(context, "pool")?;
    let text = |name: &str| context.arguments.text(name).to_owned();
    Ok((id, text("pool"), text("app")))
}

fn is_enabled(context: &Context<'_>, id: PoolId, app: &str) -> bool {
    let pool = context.state.osdmap.pool(id);
    pool.is_some_and(|pool| pool.application_metadata.contains_key(app))
}

fn check_length(what: &str, text: &str) -> Result<(), Refusal> {
    if text.is_empty() || text.len() > LENGTH_MAX {
        return Err(Refusal::invalid(format!(
            "{what} '{text}' must have 1 to {LENGTH_MAX} characters"
        )));
    }
    Ok(())
}

/// Refuses the word `all`, which means everything in other commands.
fn check_word(what: &str, text: &str) -> Result<(), Refusal> {
    if text == "all" {
        return Err(Refusal::invalid(format!("{what} cannot be 'all'")));
    }
    Ok(())
}

fn not_enabled(app: &str, pool: &str) -> Refusal {
    Refusal::missing(format!("application '{app}' is not enabled on pool '{pool}'"))
}

fn enable(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (id, name, app) = arguments(context)?;
    check_length("application name", &app)?;
    let sure = context.arguments.flag("yes_i_really_mean_it");
    let count = context.state.osdmap.pool(id).map_or(0, |pool| pool.application_metadata.len());
    if !is_enabled(context, id, &app) {
        if count > 0 && !sure {
            let text = format!(
                "Are you SURE? Pool '{name}' already has an enabled application; pass --yes-i-really-mean-it to proceed anyway"
            );
            return Err(Refusal::new(Errno::PERM, text));
        }
        if count >= APPLICATIONS_MAX {
            return Err(Refusal::invalid(format!(
                "too many enabled applications on pool '{name}'; max {APPLICATIONS_MAX}"
            )));
        }
        if let Some(pool) = context.change.pool(context.state, id) {
            pool.application_metadata.insert(app.clone(), Default::default());
        }
    }
    Ok(Answer::said(format!("enabled application '{app}' on pool '{name}'")))
}

fn disable(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (id, name, app) = arguments(context)?;
    if !context.arguments.flag("yes_i_really_mean_it") {
        let text = "Are you SURE? Disabling an application within a pool might result in loss of application functionality; pass --yes-i-really-mean-it to proceed anyway";
        return Err(Refusal::new(Errno::PERM, text));
    }
    if !is_enabled(context, id, &app) {
        return Ok(Answer::said(format!("application '{app}' is not enabled on pool '{name}'")));
    }
    if let Some(pool) = context.change.pool(context.state, id) {
        pool.application_metadata.remove(&app);
    }
    Ok(Answer::said(format!("disable application '{app}' on pool '{name}'")))
}

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (id, name, app) = arguments(context)?;
    let (key, value) =
        (context.arguments.text("key").to_owned(), context.arguments.text("value").to_owned());
    check_word("key", &key)?;
    check_word("value", &value)?;
    check_length("key", &key)?;
    if value.len() > LENGTH_MAX {
        return Err(Refusal::invalid(format!("value of key '{key}' is longer than {LENGTH_MAX}")));
    }
    if !is_enabled(context, id, &app) {
        return Err(not_enabled(&app, &name));
    }
    let text = format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'");
    if let Some(pool) = context.change.pool(context.state, id) {
        let keys = pool.application_metadata.entry(app.clone()).or_default();
        if !keys.contains_key(&key) && keys.len() >= KEYS_MAX {
            return Err(Refusal::invalid(format!(
                "too many keys set for application '{app}' on pool '{name}'; max {KEYS_MAX}"
            )));
        }
        keys.insert(key, value);
    }
    Ok(Answer::said(text))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (id, name, app) = arguments(context)?;
    let key = context.arguments.text("key").to_owned();
    check_word("key", &key)?;
    if !is_enabled(context, id, &app) {
        return Err(not_enabled(&app, &name));
    }
    let known = context.state.osdmap.pool(id);
    if !known.is_some_and(|pool| pool.application_metadata[&app].contains_key(&key)) {
        return Ok(Answer::said(format!(
            "application '{app}' on pool '{name}' does not have key '{key}'"
        )));
    }
    if let Some(pool) = context.change.pool(context.state, id)
        && let Some(keys) = pool.application_metadata.get_mut(&app)
    {
        keys.remove(&key);
    }
    Ok(Answer::said(format!("removed application '{app}' key '{key}' on pool '{name}'")))
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    if context.arguments.optional("pool").is_none_or(str::is_empty) {
        let pools = map.pools.iter().map(|(id, pool)| {
            (map.pool_name(*id).unwrap_or_default().to_owned(), json!(pool.application_metadata))
        });
        return Ok(context.json(&Value::Object(pools.collect())));
    }
    let (id, name, app) = arguments(context)?;
    let Some(pool) = map.pool(id) else { return Ok(Answer::default()) };
    if app.is_empty() {
        return Ok(context.json(&json!(pool.application_metadata)));
    }
    let missing = || Refusal::missing(format!("pool '{name}' has no application '{app}'"));
    let keys = pool.application_metadata.get(&app).ok_or_else(missing)?;
    let Some(key) = context.arguments.optional("key") else {
        return Ok(context.json(&json!(keys)));
    };
    let missing = || {
        Refusal::missing(format!("application '{app}' on pool '{name}' does not have key '{key}'"))
    };
    let value = keys.get(key).ok_or_else(missing)?;
    // As in Ceph, the bare value in every format.
    Ok(Answer::output(format!("{value}\n")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{add_pool, run, state};
    use super::*;

    #[test]
    fn the_word_all_is_neither_key_nor_value() {
        let mut state = state();
        add_pool(&mut state);
        let enable = json!({ "pool": "x", "app": "rbd" });
        run(&mut state, "osd pool application enable", enable).unwrap();
        let mut set = |key: &str, value: &str| {
            let given = json!({ "pool": "x", "app": "rbd", "key": key, "value": value });
            run(&mut state, "osd pool application set", given)
        };
        assert_eq!(set("all", "1").unwrap_err(), Refusal::invalid("key cannot be 'all'"));
        assert_eq!(set("k", "all").unwrap_err(), Refusal::invalid("value cannot be 'all'"));
        set("k", "v").unwrap();
        let remove = json!({ "pool": "x", "app": "rbd", "key": "all" });
        let refusal = run(&mut state, "osd pool application rm", remove).unwrap_err();
        assert_eq!(refusal.errno, Errno::INVAL);
    }
}
