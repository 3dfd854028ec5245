//! `osd tier`: cache tiers, which are not supported. Ceph advises against them, too.

use super::named::pool_named;
use crate::command::{Answer, Command, Context, Refusal, command};
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command(
        "osd tier add name=pool,type=CephPoolname name=tierpool,type=CephPoolname \
         name=force_nonempty,type=CephBool,req=false",
        "add the tier <tierpool> (the second one) to base pool <pool> (the first one)",
        "osd",
        "rw",
        add,
    ),
    command(
        "osd tier add-cache name=pool,type=CephPoolname name=tierpool,type=CephPoolname \
         name=size,type=CephInt,range=0",
        "add a cache <tierpool> (the second one) of size <size> to existing pool <pool> (the first one)",
        "osd",
        "rw",
        add,
    ),
    command(
        "osd tier rm name=pool,type=CephPoolname name=tierpool,type=CephPoolname",
        "remove the tier <tierpool> (the second one) from base pool <pool> (the first one)",
        "osd",
        "rw",
        remove,
    ),
    command(
        "osd tier remove name=pool,type=CephPoolname name=tierpool,type=CephPoolname",
        "remove the tier <tierpool> (the second one) from base pool <pool> (the first one)",
        "osd",
        "rw",
        remove,
    ),
    command(
        "osd tier cache-mode name=pool,type=CephPoolname \
         name=mode,type=CephChoices,strings=writeback|readproxy|readonly|none \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "specify the caching mode for cache tier <pool>",
        "osd",
        "rw",
        cache_mode,
    ),
    command(
        "osd tier set-overlay name=pool,type=CephPoolname name=overlaypool,type=CephPoolname",
        "set the overlay pool for base pool <pool> to be <overlaypool>",
        "osd",
        "rw",
        set_overlay,
    ),
    command(
        "osd tier rm-overlay name=pool,type=CephPoolname",
        "remove the overlay pool for base pool <pool>",
        "osd",
        "rw",
        remove_overlay,
    ),
    command(
        "osd tier remove-overlay name=pool,type=CephPoolname",
        "remove the overlay pool for base pool <pool>",
        "osd",
        "rw",
        remove_overlay,
    ),
];

fn names<'a>(context: &'a Context<'_>, other: &str) -> Result<(&'a str, &'a str), Refusal> {
    pool_named(context, "pool")?;
    pool_named(context, other)?;
    Ok((context.arguments.text("pool"), context.arguments.text(other)))
}

fn add(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (pool, tier) = names(context, "tierpool")?;
    let id = pool_named(context, "tierpool")?;
    if context.state.osdmap.pool(id).is_some_and(maps::Pool::is_erasure) {
        let text = format!("tier pool '{tier}' is an ec pool, which cannot be a tier");
        return Err(Refusal::new(Errno::NOTSUPP, text));
    }
    if context.live.stats.pool_totals(id).objects > 0 && !context.arguments.flag("force_nonempty") {
        let text = format!("tier pool '{tier}' is not empty; --force-nonempty to force");
        return Err(Refusal::new(Errno::NOTEMPTY, text));
    }
    let has_had_snapshots = |pool: &maps::Pool| pool.snap_seq.0 > 0;
    if context.state.osdmap.pool(id).is_some_and(has_had_snapshots) {
        let text = format!(
            "tier pool '{tier}' has snapshot state; it cannot be added as a tier without breaking the pool"
        );
        return Err(Refusal::new(Errno::NOTEMPTY, text));
    }
    let text = format!("'{tier}' does not become a tier of '{pool}': cache tiers are not served");
    Err(Refusal::new(Errno::NOTSUPP, text))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (pool, tier) = names(context, "tierpool")?;
    Ok(Answer::said(format!("pool '{tier}' is now (or already was) not a tier of '{pool}'")))
}

fn cache_mode(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    pool_named(context, "pool")?;
    let pool = context.arguments.text("pool");
    Err(Refusal::invalid(format!("pool '{pool}' is not a tier")))
}

fn set_overlay(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (pool, overlay) = names(context, "overlaypool")?;
    Err(Refusal::invalid(format!("tier pool '{overlay}' is not a tier of '{pool}'")))
}

fn remove_overlay(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    pool_named(context, "pool")?;
    let pool = context.arguments.text("pool");
    Ok(Answer::said(format!("there is now (or already was) no overlay for '{pool}'")))
}
