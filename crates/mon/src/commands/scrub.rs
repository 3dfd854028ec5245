//! Commands to scrub and repair groups. The monitor sends them to the primaries at once, over their sessions
//! with this monitor.

use crate::command::{Answer, Command, Context, Refusal, command};
use std::collections::BTreeMap;
use types::{EntityType, Errno, OsdId, PgId};
use wire::internal::ScrubOrder;

pub const COMMANDS: &[Command] = &[
    command("pg scrub name=pgid,type=CephPgid", "start scrub on <pgid>", "pg", "rw", |context| {
        group(context, false, false)
    }),
    command(
        "pg deep-scrub name=pgid,type=CephPgid",
        "start deep-scrub on <pgid>",
        "pg",
        "rw",
        |context| group(context, true, false),
    ),
    command("pg repair name=pgid,type=CephPgid", "start repair on <pgid>", "pg", "rw", |context| {
        group(context, true, true)
    }),
    command(
        "osd scrub name=who,type=CephString",
        "initiate scrub on osd <who>, or use <all|any> to scrub all",
        "osd",
        "rw",
        |context| osd(context, false, false),
    )
    .of_manager(),
    command(
        "osd deep-scrub name=who,type=CephString",
        "initiate deep scrub on osd <who>, or use <all|any> to deep scrub all",
        "osd",
        "rw",
        |context| osd(context, true, false),
    )
    .of_manager(),
    command(
        "osd repair name=who,type=CephString",
        "initiate repair on osd <who>, or use <all|any> to repair all",
        "osd",
        "rw",
        |context| osd(context, true, true),
    )
    .of_manager(),
    command(
        "osd pool scrub name=who,type=CephPoolname,n=N",
        "initiate scrub on pool <who>",
        "osd",
        "rw",
        |context| pools(context, false, false),
    )
    .of_manager(),
    command(
        "osd pool deep-scrub name=who,type=CephPoolname,n=N",
        "initiate deep-scrub on pool <who>",
        "osd",
        "rw",
        |context| pools(context, true, false),
    )
    .of_manager(),
    command(
        "osd pool repair name=who,type=CephPoolname,n=N",
        "initiate repair on pool <who>",
        "osd",
        "rw",
        |context| pools(context, true, true),
    )
    .of_manager(),
];

fn verb(deep: bool, repair: bool) -> &'static str {
    match (deep, repair) {
        (_, true) => "repair",
        (true, _) => "deep-scrub",
        _ => "scrub",
    }
}

fn group(context: &mut Context<'_>, deep: bool, repair: bool) -> Result<Answer, Refusal> {
    let pg: PgId = context.arguments.pg("pgid");
    let map = &context.state.osdmap;
    if map.pool(pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num) {
        return Err(Refusal::missing(format!("pgid '{pg}' does not exist")));
    }
    let Some(primary) = map.pg_to_osds(pg).acting_primary else {
        let text = format!(
            "pg {pg} has no primary osd: none of its OSDs is up; 'ceph pg map {pg}' shows them"
        );
        return Err(Refusal::new(Errno::AGAIN, text));
    };
    tell(context, primary, vec![pg], deep, repair)?;
    let verb = verb(deep, repair);
    Ok(Answer::said(format!("instructing pg {pg} on osd.{primary} to {verb}")))
}

fn osd(context: &mut Context<'_>, deep: bool, repair: bool) -> Result<Answer, Refusal> {
    let who = context.arguments.text("who");
    let map = &context.state.osdmap;
    let up: Vec<OsdId> = match who {
        "*" | "all" | "any" => {
            map.existing_osds().filter(|(_, osd)| osd.is_up()).map(|(id, _)| id).collect()
        }
        who => vec![named(who)?],
    };
    if let Some(absent) = up.iter().find(|osd| map.osd(**osd).is_none_or(|osd| !osd.is_up())) {
        return Err(Refusal::new(Errno::AGAIN, format!("osd.{absent} is not up")));
    }
    for osd in &up {
        tell(context, *osd, Vec::new(), deep, repair)?;
    }
    let names: Vec<String> = up.iter().map(OsdId::to_string).collect();
    Ok(Answer::said(format!("instructed osd(s) {} to {}", names.join(","), verb(deep, repair))))
}

/// Scrubs all groups of some pools; each OSD gets one order.
fn pools(context: &mut Context<'_>, deep: bool, repair: bool) -> Result<Answer, Refusal> {
    let pools = super::named::pools_listed(context, "who")?;
    let map = &context.state.osdmap;
    let mut placement = map.placement();
    let mut orders = BTreeMap::<OsdId, Vec<PgId>>::new();
    let mut idle = Vec::new();
    for pg in pools.iter().flat_map(|pool| map.pgs(*pool)) {
        match placement.pg_to_osds(pg).acting_primary {
            Some(primary) => orders.entry(primary).or_default().push(pg),
            None => idle.push(format!("pg {pg} has no primary osd; ")),
        }
    }
    for (osd, pgs) in orders {
        tell(context, osd, pgs, deep, repair)?;
    }
    Ok(Answer::said(idle.concat()))
}

fn named(who: &str) -> Result<OsdId, Refusal> {
    let number = who.strip_prefix("osd.").unwrap_or(who).parse().ok().filter(|number| *number >= 0);
    number.map(OsdId).ok_or_else(|| {
        Refusal::invalid(format!("'{who}' is no OSD: expected its number, osd.N, or 'all'"))
    })
}

fn tell(
    context: &mut Context<'_>,
    osd: OsdId,
    pgs: Vec<PgId>,
    deep: bool,
    repair: bool,
) -> Result<(), Refusal> {
    let is_osd = |kind, id| kind == EntityType::OSD && id == osd.0 as u64;
    if !context.live.peers.values().any(|peer| is_osd(peer.kind, peer.global_id)) {
        let text = format!(
            "osd.{osd} has no session with this monitor; 'ceph tell <pgid> {}' reaches it directly",
            verb(deep, repair)
        );
        return Err(Refusal::new(Errno::AGAIN, text));
    }
    let fsid = context.state.monmap.fsid;
    context.change.order(osd, ScrubOrder { fsid, pgs, deep, repair });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{add_pool, run, state};
    use serde_json::json;

    #[test]
    fn what_cannot_be_scrubbed_is_refused_with_the_reason() {
        let mut state = state();
        add_pool(&mut state);
        let refused =
            |state: &mut _, prefix: &str, given| run(state, prefix, given).unwrap_err().to_string();
        let text = refused(&mut state, "pg scrub", json!({ "pgid": "1.99" }));
        assert!(text.contains("does not exist"), "{text}");
        let text = refused(&mut state, "pg repair", json!({ "pgid": "1.0" }));
        assert!(text.contains("no primary"), "{text}");
        let text = refused(&mut state, "osd scrub", json!({ "who": "1" }));
        assert!(text.contains("osd.1 is not up"), "{text}");
        let text = refused(&mut state, "osd deep-scrub", json!({ "who": "x" }));
        assert!(text.contains("'x' is no OSD"), "{text}");
    }
}
