//! Changes of a pool's number of copies, and of its number of placement groups.

use super::new_pool::{check_pg_num, check_pgs_per_osd, check_rule, check_size, default_min_size};
use crate::command::{Context, Refusal};
use crate::numbers::{SPLITS, all_osds_can, needed_to_merge, set_target};
use maps::{ErasureCode, OsdMap, Pool, PoolFlags};
use types::{Errno, PoolId};

/// Sets the number of copies, and the default `min_size` for it.
pub(super) fn set_size(
    context: &Context<'_>,
    id: PoolId,
    pool: &mut Pool,
    size: i64,
) -> Result<(), Refusal> {
    let refused = |errno: Errno, text: &str| Err(Refusal::new(errno, text));
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let text =
            "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return refused(Errno::PERM, text);
    }
    if pool.is_erasure() {
        return refused(Errno::NOTSUPP, "can not change the size of an erasure-coded pool");
    }
    let size = check_size(u64::try_from(size).unwrap_or(0))?;
    if size == 1 && !context.state.mon_switch(context.live.running, "mon_allow_pool_size_one", true)
    {
        return refused(Errno::PERM, "configuring pool size as 1 is disabled by default.");
    }
    if size == 1 && !context.arguments.flag("yes_i_really_mean_it") {
        let text = "WARNING: setting pool size 1 could lead to data loss without recovery. If you are \
                    *ABSOLUTELY CERTAIN* that is what you want, pass the flag --yes-i-really-mean-it.";
        return refused(Errno::PERM, text);
    }
    check_rule(&context.state.osdmap.crush, pool.crush_rule, pool.kind)?;
    if size > pool.size {
        check_pgs_per_osd(
            context.state,
            context.live.running,
            &context.state.osdmap.crush,
            Some(id),
            pool.pg_num,
            size,
            pool.crush_rule,
        )?;
    }
    pool.size = size;
    pool.min_size = default_min_size(context.state, context.live.running, size);
    Ok(())
}

/// Sets the number of copies or shards without which a group does not serve: fewer shards than hold the data
/// could not.
pub(super) fn set_min_size(map: &OsdMap, pool: &mut Pool, min_size: i64) -> Result<(), Refusal> {
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let text =
            "pool min size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Refusal::new(Errno::PERM, text));
    }
    let size = i64::from(pool.size);
    let least = match pool.is_erasure() {
        true => ErasureCode::of_pool(map, pool).map_or(1, |code| i64::from(code.data)),
        false => 1,
    };
    if !(least..=size).contains(&min_size) {
        return Err(Refusal::invalid(format!(
            "pool min_size must be between {least} and size, which is set to {size}"
        )));
    }
    pool.min_size = min_size as u8;
    Ok(())
}

fn check_pg_change(pool: &Pool, variable: &str) -> Result<(), Refusal> {
    if pool.flags.contains(PoolFlags::NOPGCHANGE) {
        let text = format!(
            "pool {variable} change is disabled; you must unset nopgchange flag for the pool first"
        );
        return Err(Refusal::new(Errno::PERM, text));
    }
    Ok(())
}

/// Sets the target of `pg_num`; groups are split or merged towards it.
pub(super) fn set_pg_num(
    context: &Context<'_>,
    id: PoolId,
    pool: &mut Pool,
    pg_num: i64,
) -> Result<(), Refusal> {
    check_pg_change(pool, "pg_num")?;
    if pg_num == i64::from(pool.pg_num_target) {
        return Ok(());
    }
    let pg_num = check_pg_num(u64::try_from(pg_num).unwrap_or(0))?;
    let needed = if pg_num > pool.pg_num_target { SPLITS } else { needed_to_merge(pool) };
    if needed == SPLITS {
        check_pgs_per_osd(
            context.state,
            context.live.running,
            &context.state.osdmap.crush,
            Some(id),
            pg_num,
            pool.size,
            pool.crush_rule,
        )?;
    }
    check_abilities(context, pool, needed)?;
    set_target(pool, pg_num);
    Ok(())
}

fn check_abilities(context: &Context<'_>, pool: &Pool, needed: &str) -> Result<(), Refusal> {
    if all_osds_can(context.state, needed) {
        return Ok(());
    }
    let what = if needed == SPLITS { "split" } else { "merge" };
    let text = format!(
        "pg_num stays {}: not every OSD that is up can {what} placement groups; see which with \
         'ceph osd metadata' ({needed}) and restart those with a newer release",
        pool.pg_num
    );
    Err(Refusal::new(Errno::NOTSUPP, text))
}

/// Raises `pg_num` at once; it can be lowered only through the target.
pub(super) fn set_pg_num_at_once(
    context: &Context<'_>,
    id: PoolId,
    pool: &mut Pool,
    pg_num: i64,
) -> Result<(), Refusal> {
    check_pg_change(pool, "pg_num_actual")?;
    let pg_num = check_pg_num(u64::try_from(pg_num).unwrap_or(0))?;
    if pg_num < pool.pg_num {
        let text = format!("pg_num_actual {pg_num} < pg_num {}: set pg_num instead", pool.pg_num);
        return Err(Refusal::invalid(text));
    }
    check_pgs_per_osd(
        context.state,
        context.live.running,
        &context.state.osdmap.crush,
        Some(id),
        pg_num,
        pool.size,
        pool.crush_rule,
    )?;
    check_abilities(context, pool, SPLITS)?;
    pool.set_pg_num(pg_num, context.state.osdmap.epoch.next());
    if pg_num > pool.pg_num_target {
        set_target(pool, pg_num);
    }
    Ok(())
}

/// Sets the target of `pgp_num`, or with `at_once` the number itself.
pub(super) fn set_pgp_num(pool: &mut Pool, given: i64, at_once: bool) -> Result<(), Refusal> {
    check_pg_change(pool, "pgp_num")?;
    let pgp_num = u32::try_from(given).ok().filter(|number| *number > 0);
    let pg_num = if at_once { pool.pg_num } else { pool.pg_num_target };
    let pgp_num = pgp_num.filter(|number| *number <= pg_num).ok_or_else(|| {
        Refusal::invalid(match given {
            ..=0 => format!("specified pgp_num must > 0, but you set to {given}"),
            _ => format!("specified pgp_num {given} > pg_num {pg_num}"),
        })
    })?;
    assert!(pgp_num > 0 && pgp_num <= pg_num, "{pgp_num} of {pg_num} groups");
    pool.pgp_num_target = pgp_num;
    if at_once {
        pool.pgp_num = pgp_num;
    }
    Ok(())
}
