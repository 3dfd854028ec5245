//! Commands to force recovery. Recovery has no priorities here: groups recover as members and reservations
//! allow, so there is nothing to force, and the answer says so for each group.

use super::named::pools_listed;
use crate::command::{Answer, Command, Context, Refusal, command};
use types::{Errno, PgId};
use wire::internal::pg_state;

macro_rules! of_groups {
    ($prefix:literal) => {
        concat!($prefix, " name=pgid,type=CephPgid,n=N")
    };
}

macro_rules! of_pools {
    ($prefix:literal) => {
        concat!($prefix, " name=who,type=CephPoolname,n=N")
    };
}

pub const COMMANDS: &[Command] = &[
    command(
        of_groups!("pg force-recovery"),
        "force recovery of <pgid> first",
        "pg",
        "rw",
        |context| groups(context, &RECOVERY, true),
    ),
    command(
        of_groups!("pg force-backfill"),
        "force backfill of <pgid> first",
        "pg",
        "rw",
        |context| groups(context, &BACKFILL, true),
    ),
    command(
        of_groups!("pg cancel-force-recovery"),
        "restore normal recovery priority of <pgid>",
        "pg",
        "rw",
        |context| groups(context, &RECOVERY, false),
    ),
    command(
        of_groups!("pg cancel-force-backfill"),
        "restore normal backfill priority of <pgid>",
        "pg",
        "rw",
        |context| groups(context, &BACKFILL, false),
    ),
    command(
        of_pools!("osd pool force-recovery"),
        "force recovery of specified pool <who> first",
        "osd",
        "rw",
        |context| pools(context, &RECOVERY, true),
    )
    .of_manager(),
    command(
        of_pools!("osd pool force-backfill"),
        "force backfill of specified pool <who> first",
        "osd",
        "rw",
        |context| pools(context, &BACKFILL, true),
    )
    .of_manager(),
    command(
        of_pools!("osd pool cancel-force-recovery"),
        "restore normal recovery priority of specified pool <who>",
        "osd",
        "rw",
        |context| pools(context, &RECOVERY, false),
    )
    .of_manager(),
    command(
        of_pools!("osd pool cancel-force-backfill"),
        "restore normal recovery priority of specified pool <who>",
        "osd",
        "rw",
        |context| pools(context, &BACKFILL, false),
    )
    .of_manager(),
    command("pg repeer name=pgid,type=CephPgid", "force a PG to repeer", "osd", "rw", repeer),
];

/// A kind of recovery.
struct Way {
    name: &'static str,
    /// As in "does not require …".
    doing: &'static str,
    /// States of groups that need it.
    needed: u64,
}

const RECOVERY: Way = Way {
    name: "recovery",
    doing: "recovery",
    needed: pg_state::DEGRADED | pg_state::RECOVERY_WAIT | pg_state::RECOVERING,
};
const BACKFILL: Way = Way {
    name: "backfill",
    doing: "backfilling",
    needed: pg_state::DEGRADED | pg_state::BACKFILL_WAIT | pg_state::BACKFILLING,
};

fn existing(context: &Context<'_>, pg: PgId) -> Result<PgId, Refusal> {
    let pool = context.state.osdmap.pool(pg.pool);
    match pool.is_some_and(|pool| pg.seed < pool.pg_num) {
        true => Ok(pg),
        false => Err(Refusal::missing(format!("pg {pg} does not exist"))),
    }
}

fn groups(context: &mut Context<'_>, way: &Way, force: bool) -> Result<Answer, Refusal> {
    let given = context.arguments.list("pgid").iter();
    let groups = given.map(|text| existing(context, text.parse().unwrap_or_default()));
    let groups: Vec<PgId> = groups.collect::<Result<_, _>>()?;
    Ok(told(context, groups, way, force))
}

fn pools(context: &mut Context<'_>, way: &Way, force: bool) -> Result<Answer, Refusal> {
    let pools = pools_listed(context, "who")?;
    let groups = pools.iter().flat_map(|pool| context.state.osdmap.pgs(*pool));
    Ok(told(context, groups.collect(), way, force))
}

fn told(context: &Context<'_>, groups: Vec<PgId>, way: &Way, force: bool) -> Answer {
    let Way { name, doing, needed } = way;
    let sentence = |pg: PgId| {
        let state = context.live.stats.pg_state(&context.state.osdmap, pg);
        match (force, state & needed != 0) {
            (false, _) => format!("pg {pg} {name} not forced; "),
            (true, false) => format!("pg {pg} doesn't require {doing}; "),
            (true, true) => format!("pg {pg} has {name} under way, which knows no priorities; "),
        }
    };
    Answer::said(groups.into_iter().map(sentence).collect::<String>())
}

fn repeer(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let pg = existing(context, context.arguments.pg("pgid"))?;
    let primary = context.state.osdmap.pg_to_osds(pg).acting_primary;
    let next = match primary {
        Some(osd) => format!("'ceph osd down {osd}' has all groups of its primary peer again"),
        None => "none of its OSDs is up".to_owned(),
    };
    Err(Refusal::new(Errno::NOTSUPP, format!("pg {pg} cannot be made to peer alone; {next}")))
}
