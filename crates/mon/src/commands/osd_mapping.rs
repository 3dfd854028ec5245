//! Placement of objects and groups, and its overrides (`pg-temp`, `primary-temp`, upmaps).

use super::named::osds_listed;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::pgs::set_text;
use maps::{Pool, Release};
use serde_json::json;
use types::{Errno, OsdId, PgId};

pub const COMMANDS: &[Command] = &[
    command(
        "osd map name=pool,type=CephPoolname name=object,type=CephObjectname \
         name=nspace,type=CephString,req=false",
        "find pg for <object> in <pool> with [namespace]",
        "osd",
        "r",
        map_object,
    ),
    command("pg map name=pgid,type=CephPgid", "show mapping of pg to osds", "pg", "r", map_group),
    command(
        "osd pg-temp name=pgid,type=CephPgid name=id,type=CephString,n=N,req=false",
        "set pg_temp mapping <pgid>:[<id> [<id>...]] (developers only)",
        "osd",
        "rw",
        pg_temp,
    ),
    command(
        "osd primary-temp name=pgid,type=CephPgid name=id,type=CephOsdName",
        "set primary_temp mapping pgid:<id> (developers only)",
        "osd",
        "rw",
        primary_temp,
    ),
    command(
        "osd rm-primary-temp name=pgid,type=CephPgid",
        "clear primary_temp mapping pgid (developers only)",
        "osd",
        "rw",
        rm_primary_temp,
    ),
    command(
        "osd pg-upmap name=pgid,type=CephPgid name=id,type=CephString,n=N",
        "set pg_upmap mapping <pgid>:[<id> [<id>...]] (developers only)",
        "osd",
        "rw",
        upmap,
    ),
    command(
        "osd rm-pg-upmap name=pgid,type=CephPgid",
        "clear pg_upmap mapping for <pgid>",
        "osd",
        "rw",
        rm_upmap,
    ),
    command(
        "osd pg-upmap-items name=pgid,type=CephPgid name=id,type=CephString,n=N",
        "set pg_upmap_items mapping <pgid>:{<id> to <id>, [...]} (developers only)",
        "osd",
        "rw",
        upmap_items,
    ),
    command(
        "osd rm-pg-upmap-items name=pgid,type=CephPgid",
        "clear pg_upmap_items mapping for <pgid>",
        "osd",
        "rw",
        rm_upmap_items,
    ),
    command(
        "osd pg-upmap-primary name=pgid,type=CephPgid name=id,type=CephOsdName",
        "set pg primary osd <pgid>:<id> (id (osd) must be part of pgid)",
        "osd",
        "rw",
        upmap_primary,
    ),
    command(
        "osd rm-pg-upmap-primary name=pgid,type=CephPgid",
        "clear pg primary setting for <pgid>",
        "osd",
        "rw",
        rm_upmap_primary,
    ),
    command(
        "osd force-create-pg name=pgid,type=CephPgid name=yes_i_really_mean_it,type=CephBool,req=false",
        "force creation of pg <pgid>",
        "osd",
        "rw",
        |context| {
            group(context)?;
            let text = "placement groups are created by their OSDs; none needs to be forced";
            Err(Refusal::new(Errno::NOTSUPP, text))
        },
    ),
];

fn map_object(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (map, name) = (&context.state.osdmap, context.arguments.text("pool"));
    let missing = || Refusal::missing(format!("pool {name} does not exist"));
    let pool = map.pool_id(name).ok_or_else(missing)?;
    let object = context.arguments.text("object");
    let namespace = context.arguments.optional("nspace").unwrap_or_default();
    let (pg, hash) =
        map.object_to_pg(pool, namespace.as_bytes(), b"", object.as_bytes()).ok_or_else(missing)?;
    let mapping = map.pg_to_osds(pg);
    let full =
        if namespace.is_empty() { object.to_owned() } else { format!("{namespace}/{object}") };
    let raw = PgId { pool, seed: hash };
    let primary = |osd: Option<OsdId>| osd.map_or(-1, |osd| osd.0);
    let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect::<Vec<_>>();
    let json = || {
        json!({
            "epoch": map.epoch.0,
            "pool": name,
            "pool_id": pool.0,
            "objname": full,
            "raw_pgid": raw.to_string(),
            "pgid": pg.to_string(),
            "up": ids(&mapping.up),
            "up_primary": primary(mapping.up_primary),
            "acting": ids(&mapping.acting),
            "acting_primary": primary(mapping.acting_primary),
        })
    };
    let plain = || {
        format!(
            "osdmap e{} pool '{name}' ({pool}) object '{full}' -> pg {raw} ({pg}) -> up ({}, p{}) \
             acting ({}, p{})\n",
            map.epoch,
            set_text(&mapping.up),
            primary(mapping.up_primary),
            set_text(&mapping.acting),
            primary(mapping.acting_primary),
        )
    };
    Ok(context.show(json, plain))
}

/// The group that `pgid` names, which must exist.
fn group(context: &Context<'_>) -> Result<PgId, Refusal> {
    let asked = context.arguments.pg("pgid");
    let found = context.state.osdmap.pool(asked.pool).filter(|pool| asked.seed < pool.pg_num);
    match found {
        Some(_) => Ok(asked),
        None => Err(Refusal::missing(format!("pgid '{asked}' does not exist"))),
    }
}

fn map_group(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let raw = context.arguments.pg("pgid");
    let missing = || Refusal::missing(format!("pgid '{raw}' does not exist"));
    let pg = map.raw_pg_to_pg(raw).ok_or_else(missing)?;
    let mapping = map.pg_to_osds(pg);
    let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect::<Vec<_>>();
    let json = || {
        json!({
            "epoch": map.epoch.0,
            "raw_pgid": raw.to_string(),
            "pgid": pg.to_string(),
            "up": ids(&mapping.up),
            "acting": ids(&mapping.acting),
        })
    };
    let plain = || {
        let (up, acting) = (set_text(&mapping.up), set_text(&mapping.acting));
        format!("osdmap e{} pg {raw} ({pg}) -> up {up} acting {acting}\n", map.epoch)
    };
    Ok(context.show(json, plain))
}

fn listed_osds(context: &Context<'_>) -> Result<Vec<OsdId>, Refusal> {
    let osds = osds_listed(context.arguments.list("id"), Vec::new)?;
    match osds.iter().find(|osd| !context.state.osdmap.exists(**osd)) {
        Some(osd) => Err(Refusal::missing(format!("osd.{osd} does not exist"))),
        None => Ok(osds),
    }
}

/// The given members of a group: no more than its pool has copies, and each OSD only once.
fn members(context: &Context<'_>, pg: PgId) -> Result<Vec<OsdId>, Refusal> {
    let osds = listed_osds(context)?;
    let twice = osds.iter().enumerate().find(|(at, osd)| osds[..*at].contains(osd));
    if let Some((_, osd)) = twice {
        return Err(Refusal::invalid(format!("osd.{osd} is named more than once")));
    }
    let pool = context.state.osdmap.pool(pg.pool);
    let size = pool.map_or(0, |pool| usize::from(pool.size));
    if pool.is_some_and(Pool::is_erasure) && !osds.is_empty() && osds.len() < size {
        let text =
            format!("num of osds ({}) < pool size ({size}): name one for each shard", osds.len());
        return Err(Refusal::invalid(text));
    }
    if osds.len() > size {
        let text = format!("num of osds ({}) > pool size ({size})", osds.len());
        return Err(Refusal::invalid(text));
    }
    Ok(osds)
}

fn pg_temp(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let pg = group(context)?;
    let osds = members(context, pg)?;
    let text = format!("set {pg} pg_temp mapping to {}", set_text(&osds));
    context.change.osdmap(context.state).new_pg_temp.insert(pg, osds);
    Ok(Answer::said(text))
}

fn primary_temp(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (pg, osd) = (group(context)?, super::osd::existing(context, "id")?);
    if !context.state.osdmap.pg_to_osds(pg).acting.contains(&osd) {
        return Err(Refusal::invalid(format!("osd.{osd} is not in acting set for pg {pg}")));
    }
    context.change.osdmap(context.state).new_primary_temp.insert(pg, osd);
    Ok(Answer::said(format!("set {pg} primary_temp mapping to {osd}")))
}

fn rm_primary_temp(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let pg = group(context)?;
    if context.state.osdmap.primary_temp.contains_key(&pg) {
        context.change.osdmap(context.state).new_primary_temp.insert(pg, OsdId(-1));
    }
    Ok(Answer::said(format!("clear {pg} primary_temp mapping")))
}

/// Refuses an override that the oldest allowed clients do not support: they would look for data in the wrong
/// place.
fn check_clients(context: &Context<'_>, needed: Release, what: &str) -> Result<(), Refusal> {
    let allowed = context.state.osdmap.require_min_compat_client;
    if allowed >= needed {
        return Ok(());
    }
    let text = format!(
        "min_compat_client {allowed} < {needed}, which is required for {what}. Try 'ceph osd \
         set-require-min-compat-client {needed}' before using the new interface"
    );
    Err(Refusal::new(Errno::PERM, text))
}

fn upmap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    check_clients(context, Release::LUMINOUS, "pg-upmap")?;
    let pg = group(context)?;
    let osds = members(context, pg)?;
    let text = format!("set {pg} pg_upmap mapping to {}", set_text(&osds));
    context.change.osdmap(context.state).new_pg_upmap.insert(pg, osds);
    Ok(Answer::said(text))
}

fn rm_upmap(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    check_clients(context, Release::LUMINOUS, "pg-upmap")?;
    let pg = group(context)?;
    if context.state.osdmap.pg_upmap.contains_key(&pg) {
        context.change.osdmap(context.state).old_pg_upmap.insert(pg);
    }
    Ok(Answer::said(format!("clear {pg} pg_upmap mapping")))
}

fn upmap_items(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    check_clients(context, Release::LUMINOUS, "pg-upmap")?;
    let (pg, osds) = (group(context)?, listed_osds(context)?);
    if osds.is_empty() || !osds.len().is_multiple_of(2) {
        return Err(Refusal::invalid(
            "you must specify pairs of osds to exchange: from to [from to ...]",
        ));
    }
    let items: Vec<(OsdId, OsdId)> = osds.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let pairs: Vec<String> = items.iter().map(|(from, to)| format!("{from}->{to}")).collect();
    context.change.osdmap(context.state).new_pg_upmap_items.insert(pg, items);
    Ok(Answer::said(format!("set {pg} pg_upmap_items mapping to [{}]", pairs.join(","))))
}

fn rm_upmap_items(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    check_clients(context, Release::LUMINOUS, "pg-upmap")?;
    let pg = group(context)?;
    if context.state.osdmap.pg_upmap_items.contains_key(&pg) {
        context.change.osdmap(context.state).old_pg_upmap_items.insert(pg);
    }
    Ok(Answer::said(format!("clear {pg} pg_upmap_items mapping")))
}

fn upmap_primary(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    check_clients(context, Release::REEF, "pg-upmap-primary")?;
    let (pg, osd) = (group(context)?, super::osd::existing(context, "id")?);
    if context.state.osdmap.pool(pg.pool).is_some_and(Pool::is_erasure) {
        // It would exchange the shards of two positions.
        return Err(Refusal::invalid("pg-upmap-primary is only supported for replicated pools"));
    }
    if !context.state.osdmap.pg_to_osds(pg).up.contains(&osd) {
        return Err(Refusal::invalid(format!("osd.{osd} is not in acting set for pg {pg}")));
    }
    context.change.osdmap(context.state).new_pg_upmap_primaries.insert(pg, osd);
    Ok(Answer::said(format!("change primary for pg {pg} to osd.{osd}")))
}

fn rm_upmap_primary(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let pg = group(context)?;
    if context.state.osdmap.pg_upmap_primaries.contains_key(&pg) {
        context.change.osdmap(context.state).old_pg_upmap_primaries.insert(pg);
    }
    Ok(Answer::said(format!("clear {pg} pg_upmap_primary mapping")))
}
