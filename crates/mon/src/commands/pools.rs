//! Pools: listing, removal and snapshots.

use super::named::pool_named;
use super::new_pool::{check_dot, check_name};
use super::status::{client_rate_fields, rate_fields, rate_plain};
use crate::change::Change;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::pool;
use crate::state::{Overrides, State};
use maps::{Pool, PoolFlags};
use serde_json::{Map, Value, json};
use types::{Errno, OsdId, PoolId};

macro_rules! deletion {
    ($prefix:literal) => {
        concat!(
            $prefix,
            " name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false ",
            "name=yes_i_really_really_mean_it,type=CephBool,req=false ",
            "name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false"
        )
    };
}

pub const COMMANDS: &[Command] = &[
    command("osd lspools", "list pools", "osd", "r", lspools),
    command(
        "osd pool ls name=detail,type=CephChoices,strings=detail,req=false",
        "list pools",
        "osd",
        "r",
        list,
    ),
    command(
        "osd pool stats name=pool_name,type=CephPoolname,req=false",
        "obtain stats from all pools, or from specified pool",
        "osd",
        "r",
        stats,
    )
    .of_manager(),
    command(deletion!("osd pool delete"), "delete pool", "osd", "rw", delete),
    command(deletion!("osd pool rm"), "remove pool", "osd", "rw", delete),
    command(
        "osd pool rename name=srcpool,type=CephPoolname name=destpool,type=CephPoolname \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "rename <srcpool> to <destpool>",
        "osd",
        "rw",
        rename,
    ),
    command(
        "osd pool mksnap name=pool,type=CephPoolname name=snap,type=CephString",
        "make snapshot <snap> in <pool>",
        "osd",
        "rw",
        mksnap,
    ),
    command(
        "osd pool rmsnap name=pool,type=CephPoolname name=snap,type=CephString",
        "remove snapshot <snap> from <pool>",
        "osd",
        "rw",
        rmsnap,
    ),
];

/// Removes a pool from the map, unless an option or a flag disables deletion.
pub(crate) fn remove(
    state: &State,
    running: &Overrides,
    change: &mut Change,
    id: PoolId,
) -> Result<(), Refusal> {
    let map = &state.osdmap;
    if map.pool(id).is_none() {
        return Ok(());
    }
    if !state.mon_switch(running, "mon_allow_pool_delete", true) {
        let text = "pool deletion is disabled; you must first set the mon_allow_pool_delete config \
                    option to true before you can destroy a pool";
        return Err(Refusal::new(Errno::PERM, text));
    }
    if let Some(user) = crate::file_systems::user_of(state, id) {
        let (name, fs) = (map.pool_name(id).unwrap_or_default(), &user.fs_name);
        let text = format!(
            "pool '{name}' is in use by CephFS: remove it from file system '{fs}' with 'ceph fs rm_data_pool', or \
             the file system with 'ceph fs rm'"
        );
        return Err(Refusal::new(Errno::BUSY, text));
    }
    remove_unused(state, change, id)
}

/// Removes a pool from the map that no file system uses after the change.
pub(crate) fn remove_unused(state: &State, change: &mut Change, id: PoolId) -> Result<(), Refusal> {
    let map = &state.osdmap;
    let Some(pool) = map.pool(id) else { return Ok(()) };
    if pool.flags.contains(PoolFlags::NODELETE) {
        let text = "pool deletion is disabled; you must unset nodelete flag for the pool first";
        return Err(Refusal::new(Errno::PERM, text));
    }
    let incremental = change.osdmap(state);
    incremental.new_pools.remove(&id);
    incremental.old_pools.insert(id);
    let ours = |pg: &&types::PgId| pg.pool == id;
    for pg in map.pg_temp.keys().filter(ours) {
        incremental.new_pg_temp.insert(*pg, Vec::new());
    }
    for pg in map.primary_temp.keys().filter(ours) {
        incremental.new_primary_temp.insert(*pg, OsdId(-1));
    }
    incremental.old_pg_upmap.extend(map.pg_upmap.keys().filter(ours));
    incremental.old_pg_upmap_items.extend(map.pg_upmap_items.keys().filter(ours));
    incremental.old_pg_upmap_primaries.extend(map.pg_upmap_primaries.keys().filter(ours));
    Ok(())
}

fn lspools(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let names = &context.state.osdmap.pool_names;
    let json = || {
        let pool = |(id, name): (&PoolId, &String)| json!({ "poolnum": id.0, "poolname": name });
        Value::from(names.iter().map(pool).collect::<Vec<_>>())
    };
    Ok(context.show(json, || names.iter().map(|(id, name)| format!("{id} {name}\n")).collect()))
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    if context.arguments.optional("detail").is_none() {
        let names: Vec<&String> = map.pool_names.values().collect();
        let plain = || names.iter().map(|name| format!("{name}\n")).collect();
        return Ok(context.show(|| json!(names), plain));
    }
    let detailed = |(id, one): (&PoolId, &Pool)| {
        let mut value = pool::json(map, *id, one);
        // Here the id has another name than in `osd dump`.
        if let Value::Object(object) = &mut value {
            object.shift_remove("pool");
            object.shift_insert(0, "pool_id".to_owned(), json!(id.0));
        }
        value
    };
    let json = || Value::from(map.pools.iter().map(detailed).collect::<Vec<_>>());
    let plain = || {
        let lines: String = map.pools.iter().map(|(id, one)| pool::line(map, *id, one)).collect();
        lines + "\n"
    };
    Ok(context.show(json, plain))
}

fn stats(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let pools: Vec<PoolId> = match context.arguments.optional("pool_name") {
        None => map.pools.keys().copied().collect(),
        Some(_) => vec![pool_named(context, "pool_name")?],
    };
    let object = |fields: Vec<(&'static str, u64)>| -> Map<String, Value> {
        fields.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
    };
    let json = || {
        let pool = |id: &PoolId| {
            let (totals, rate) = (
                context.live.stats.pool_totals(*id),
                context.live.stats.rate(context.now, Some(*id)),
            );
            let client = client_rate_fields(&rate);
            let recovery: Vec<_> =
                rate_fields(&rate).into_iter().filter(|field| !client.contains(field)).collect();
            let mut degraded = Vec::new();
            if totals.degraded > 0 {
                degraded.extend([
                    ("degraded_objects", totals.degraded),
                    ("degraded_total", totals.copies),
                ]);
            }
            json!({
                "pool_name": map.pool_name(*id),
                "pool_id": id.0,
                "recovery": object(degraded),
                "recovery_rate": object(recovery),
                "client_io_rate": object(client),
            })
        };
        Value::from(pools.iter().map(pool).collect::<Vec<_>>())
    };
    let plain = || {
        let mut text = String::new();
        for id in &pools {
            text += &format!("pool {} id {id}\n", map.pool_name(*id).unwrap_or_default());
            let rate = context.live.stats.rate(context.now, Some(*id));
            text += &match rate.reads + rate.writes {
                0 => "  nothing is going on\n\n".to_owned(),
                _ => format!("  client io {}\n\n", rate_plain(&rate)),
            };
        }
        text
    };
    Ok(context.show(json, plain))
}

fn delete(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("pool").to_owned();
    let Some(id) = context.state.osdmap.pool_id(&name) else {
        return Ok(Answer::said(format!("pool '{name}' does not exist")));
    };
    let flag = |name: &str| context.arguments.flag(name);
    let is_sure =
        flag("yes_i_really_really_mean_it") || flag("yes_i_really_really_mean_it_not_faking");
    let is_repeated = context.arguments.optional("pool2") == Some(&name);
    if !is_sure || !is_repeated {
        let text = format!(
            "WARNING: this will *PERMANENTLY DESTROY* all data stored in pool {name}.  If you are \
             *ABSOLUTELY CERTAIN* that is what you want, pass the pool name *twice*, followed by \
             --yes-i-really-really-mean-it."
        );
        return Err(Refusal::new(Errno::PERM, text));
    }
    remove(context.state, context.live.running, &mut context.change, id)?;
    Ok(Answer::said(format!("pool '{name}' removed")))
}

fn rename(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (from, to) = (
        context.arguments.text("srcpool").to_owned(),
        context.arguments.text("destpool").to_owned(),
    );
    let map = &context.state.osdmap;
    check_dot(&to, context.arguments.flag("yes_i_really_mean_it"))?;
    match (map.pool_id(&from), map.pool_id(&to)) {
        (None, Some(_)) => Ok(Answer::said(format!(
            "pool '{from}' does not exist; pool '{to}' does -- assuming successful rename"
        ))),
        (None, None) => Err(Refusal::missing(format!("unrecognized pool '{from}'"))),
        (Some(_), Some(_)) => {
            Err(Refusal::new(Errno::EXIST, format!("pool '{to}' already exists")))
        }
        (Some(id), None) => {
            check_name(&to)?;
            let text = format!("pool '{from}' renamed to '{to}'");
            context.change.osdmap(context.state).new_pool_names.insert(id, to);
            Ok(Answer::said(text))
        }
    }
}

/// The pool of the argument, unless its clients manage snapshots themselves.
fn pool_with_snapshots(context: &Context<'_>) -> Result<PoolId, Refusal> {
    let id = pool_named(context, "pool")?;
    let pool = context.state.osdmap.pool(id);
    if pool.is_some_and(|pool| pool.flags.contains(PoolFlags::SELFMANAGED_SNAPS)) {
        let name = context.arguments.text("pool");
        let text = format!("pool {name} is in unmanaged snaps mode");
        return Err(Refusal::invalid(text));
    }
    Ok(id)
}

fn mksnap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_with_snapshots(context)?;
    let (pool, snap) =
        (context.arguments.text("pool").to_owned(), context.arguments.text("snap").to_owned());
    let exists = |pool: &Pool| pool.snaps.values().any(|known| known.name == snap);
    if context.state.osdmap.pool(id).is_some_and(exists) {
        return Ok(Answer::said(format!("pool {pool} snap {snap} already exists")));
    }
    let now = context.now;
    context.change.add_pool_snapshot(context.state, id, &snap, now);
    Ok(Answer::said(format!("created pool {pool} snap {snap}")))
}

fn rmsnap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_with_snapshots(context)?;
    let (pool, snap) =
        (context.arguments.text("pool").to_owned(), context.arguments.text("snap").to_owned());
    let known = context.state.osdmap.pool(id);
    let found = known.and_then(|pool| pool.snaps.values().find(|known| known.name == snap));
    let Some(found) = found else {
        return Ok(Answer::said(format!("pool {pool} snap {snap} does not exist")));
    };
    context.change.remove_pool_snapshot(context.state, id, found.id);
    Ok(Answer::said(format!("removed pool {pool} snap {snap}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{add_pool, run, set_option, state};
    use super::*;

    #[test]
    fn only_the_name_given_twice_and_a_flag_delete_a_pool() {
        let mut state = state();
        add_pool(&mut state);
        let faked = json!({ "pool": "x", "yes_i_really_really_mean_it_not_faking": true });
        let unsure = json!({ "pool": "x", "pool2": "x" });
        let other = json!({ "pool": "x", "pool2": "y", "yes_i_really_really_mean_it": true });
        for given in [faked, unsure, other] {
            let refusal = run(&mut state, "osd pool rm", given).unwrap_err();
            assert_eq!(refusal.errno, Errno::PERM);
        }
        let sure =
            json!({ "pool": "x", "pool2": "x", "yes_i_really_really_mean_it_not_faking": true });
        assert_eq!(run(&mut state, "osd pool rm", sure).unwrap().text, "pool 'x' removed");
        assert!(state.osdmap.pools.is_empty());
    }

    #[test]
    fn deletion_is_forbidden_in_any_spelling() {
        let mut state = state();
        add_pool(&mut state);
        let sure = json!({ "pool": "x", "pool2": "x", "yes_i_really_really_mean_it": true });
        for spelling in ["false", "0", "no", "False", "off"] {
            set_option(&mut state, "mon_allow_pool_delete", spelling);
            let refusal = run(&mut state, "osd pool delete", sure.clone()).unwrap_err();
            assert_eq!(refusal.errno, Errno::PERM, "{spelling}");
        }
        set_option(&mut state, "mon_allow_pool_delete", "on");
        run(&mut state, "osd pool delete", sure).unwrap();
    }

    #[test]
    fn names_with_a_dot_in_front_need_confirmation() {
        let mut state = state();
        add_pool(&mut state);
        let names = json!({ "srcpool": "x", "destpool": ".x" });
        assert_eq!(run(&mut state, "osd pool rename", names).unwrap_err().errno, Errno::PERM);
        let sure = json!({ "srcpool": "x", "destpool": ".x", "yes_i_really_mean_it": true });
        run(&mut state, "osd pool rename", sure).unwrap();
        assert!(state.osdmap.pool_id(".x").is_some());
    }
}
