//! `osd pool create`, with the options of autoscaling.

use super::erasure_pool;
use super::new_pool::{self, NewPool, check_dot};
use super::pool_options::integer;
use crate::command::{Answer, Command, Context, Refusal, command};
use maps::{PoolFlags, PoolOption, PoolOptionValue, PoolType};
use types::PoolId;

pub const COMMANDS: &[Command] = &[command(
    "osd pool create name=pool,type=CephPoolname name=pg_num,type=CephInt,range=0,req=false \
         name=pgp_num,type=CephInt,range=0,req=false \
         name=pool_type,type=CephChoices,strings=replicated|erasure,req=false \
         name=erasure_code_profile,type=CephString,req=false,goodchars=[A-Za-z0-9-_.] \
         name=rule,type=CephString,req=false name=expected_num_objects,type=CephInt,range=0,req=false \
         name=size,type=CephInt,range=0,req=false name=pg_num_min,type=CephInt,range=0,req=false \
         name=pg_num_max,type=CephInt,range=0,req=false \
         name=autoscale_mode,type=CephChoices,strings=on|off|warn,req=false \
         name=bulk,type=CephBool,req=false name=target_size_bytes,type=CephInt,range=0,req=false \
         name=target_size_ratio,type=CephFloat,range=0.0,req=false \
         name=yes_i_really_mean_it,type=CephBool,req=false",
    "create pool",
    "osd",
    "rw",
    create,
)];

fn create(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("pool").to_owned();
    check_dot(&name, context.arguments.flag("yes_i_really_mean_it"))?;
    let kind = context.arguments.optional("pool_type").unwrap_or("replicated");
    let kind: PoolType = kind.parse().unwrap_or_default();
    if let Some(id) = context.state.osdmap.pool_id(&name) {
        let existing = context.state.osdmap.pool(id).map(|pool| pool.kind).unwrap_or_default();
        if existing != kind {
            let text = format!("pool '{name}' cannot change to type {kind}");
            return Err(Refusal::invalid(text));
        }
        return Ok(Answer::said(format!("pool '{name}' already exists")));
    }
    let (id, expected_objects, note) = match kind {
        PoolType::Replicated => create_replicated(context, &name)?,
        PoolType::Erasure => create_erasure(context, &name)?,
    };
    apply_options(context, id, expected_objects);
    Ok(Answer::said(format!("pool '{name}' created{note}")))
}

/// The id of a new pool, the objects that it is expected to have, and a note for its user.
type Created = (PoolId, u64, &'static str);

fn create_replicated(context: &mut Context<'_>, name: &str) -> Result<Created, Refusal> {
    let (rule, expected_objects) = rule_and_expectation(context)?;
    let new = NewPool { rule, size: count(context, "size"), ..numbers(context, name) };
    let id = new_pool::create(context.state, context.live.running, &mut context.change, &new)?;
    Ok((id, expected_objects, ""))
}

/// The profile decides the size, so that an argument for it is ignored, as in Ceph.
fn create_erasure(context: &mut Context<'_>, name: &str) -> Result<Created, Refusal> {
    let arguments = &context.arguments;
    let text = |name: &str| arguments.optional(name).filter(|text| !text.is_empty());
    let (profile, rule) = (text("erasure_code_profile"), text("rule"));
    let is_sure = arguments.flag("yes_i_really_mean_it");
    let (state, change) = (context.state, &mut context.change);
    let plan = erasure_pool::plan(state, change, name, profile, rule, is_sure)?;
    let new = NewPool {
        rule: Some(plan.rule),
        profile: Some((&plan.profile, plan.code)),
        ..numbers(context, name)
    };
    let id = new_pool::create(context.state, context.live.running, &mut context.change, &new)?;
    let note = match plan.has_foreign_rule {
        true => " with a crush rule that existed and is not as its profile says",
        false => "",
    };
    Ok((id, count(context, "expected_num_objects").unwrap_or(0), note))
}

fn count(context: &Context<'_>, name: &str) -> Option<u64> {
    context.arguments.int(name).and_then(|count| count.try_into().ok())
}

fn numbers<'a>(context: &Context<'_>, name: &'a str) -> NewPool<'a> {
    let (pg_num, pgp_num) = (count(context, "pg_num"), count(context, "pgp_num"));
    NewPool { name, pg_num, pgp_num, ..NewPool::default() }
}

/// The rule, and the expected number of objects. Clients that fill in parameters by position send the rule as
/// the profile of an erasure-coded pool, and the number as the rule.
fn rule_and_expectation(context: &Context<'_>) -> Result<(Option<u8>, u64), Refusal> {
    let text = |name: &str| context.arguments.optional(name).filter(|text| !text.is_empty());
    let by_name = context.arguments.int("expected_num_objects").unwrap_or(0);
    let (rule, expected) = match (text("erasure_code_profile"), text("rule")) {
        (Some(rule), Some(number)) => (Some(rule), integer(number)?),
        (Some(rule), None) | (None, Some(rule)) => (Some(rule), by_name),
        (None, None) => (None, by_name),
    };
    let refused = |_| Refusal::invalid("'expected_num_objects' must be non-negative");
    let expected = u64::try_from(expected).map_err(refused)?;
    let rule = rule.map(|rule| {
        let id = context.state.osdmap.crush.rule_id(rule).and_then(|id| u8::try_from(id).ok());
        id.ok_or_else(|| Refusal::missing(format!("specified rule {rule} doesn't exist")))
    });
    Ok((rule.transpose()?, expected))
}

/// Applies the remaining arguments to the new pool.
fn apply_options(context: &mut Context<'_>, id: PoolId, expected_objects: u64) {
    let arguments = &context.arguments;
    let mut options = Vec::new();
    for name in ["pg_num_min", "pg_num_max", "target_size_bytes"] {
        if let Some(value) = arguments.int(name).filter(|value| *value > 0) {
            options.push((name, PoolOptionValue::Int(value)));
        }
    }
    if let Some(ratio) = arguments.float("target_size_ratio").filter(|ratio| *ratio > 0.0) {
        options.push(("target_size_ratio", PoolOptionValue::Double(ratio)));
    }
    let mode = arguments.optional("autoscale_mode").and_then(|mode| mode.parse().ok());
    let bulk = arguments.flag("bulk");
    let Some(pool) = context.change.osdmap(context.state).new_pools.get_mut(&id) else { return };
    pool.pg_autoscale_mode = mode.unwrap_or(pool.pg_autoscale_mode);
    pool.flags.set(PoolFlags::BULK, bulk);
    pool.expected_num_objects = expected_objects;
    for (name, value) in options {
        if let Some(option) = PoolOption::from_name(name) {
            pool.options.0.insert(option, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{add_pool, run, set_option, state};
    use super::*;
    use crate::command::Refusal;
    use crate::state::State;
    use serde_json::{Value, json};
    use types::Errno;

    fn create(state: &mut State, given: Value) -> Result<Answer, Refusal> {
        run(state, "osd pool create", given)
    }

    #[test]
    fn a_rule_and_an_expectation_by_position_are_understood() {
        let mut state = state();
        let rule = json!({ "name": "myrule", "root": "default", "type": "osd" });
        run(&mut state, "osd crush rule create-replicated", rule).unwrap();
        let by_position = json!({
            "pool": "p", "pg_num": 8, "pgp_num": 8, "pool_type": "replicated",
            "erasure_code_profile": "myrule", "rule": "1000",
        });
        create(&mut state, by_position).unwrap();
        let by_name = json!({ "pool": "q", "rule": "myrule", "expected_num_objects": 5 });
        create(&mut state, by_name).unwrap();
        let shape = |id: i64| {
            let pool = &state.osdmap.pools[&PoolId(id)];
            (pool.crush_rule, pool.expected_num_objects, pool.pg_num)
        };
        assert_eq!((shape(1), shape(2)), ((1, 1000, 8), (1, 5, 32)));
        let wrong = json!({ "pool": "r", "erasure_code_profile": "myrule", "rule": "many" });
        assert_eq!(create(&mut state, wrong).unwrap_err().errno, Errno::INVAL);
    }

    #[test]
    fn a_rule_for_other_pools_is_refused() {
        let mut state = state();
        let rule = json!({ "name": "e", "profile": "p" });
        run(&mut state, "osd crush rule create-erasure", rule).unwrap();
        let refusal = create(&mut state, json!({ "pool": "p", "rule": "e" })).unwrap_err();
        assert_eq!(refusal, Refusal::invalid("crush rule 1 type does not match pool"));
    }

    #[test]
    fn erasure_coded_pools_are_refused_unless_they_exist_as_another_kind() {
        let mut state = state();
        add_pool(&mut state);
        let of_kind = |pool: &str| json!({ "pool": pool, "pool_type": "erasure" });
        let refusal = create(&mut state, of_kind("e")).unwrap_err();
        assert_eq!(refusal.errno, Errno::NOTSUPP);
        assert!(refusal.text.contains("no OSD is up"), "{refusal}");
        let refusal = create(&mut state, of_kind("x")).unwrap_err();
        assert_eq!(refusal.text, "pool 'x' cannot change to type erasure");
    }

    #[test]
    fn absurd_defaults_are_refused_and_never_wrap() {
        let mut state = state();
        set_option(&mut state, "osd_pool_default_size", "257");
        let refusal = create(&mut state, json!({ "pool": "p" })).unwrap_err();
        assert_eq!(refusal.text, "pool size must be between 1 and 10");
        set_option(&mut state, "osd_pool_default_size", "2");
        set_option(&mut state, "osd_pool_default_pg_num", "4294967304");
        assert_eq!(create(&mut state, json!({ "pool": "p" })).unwrap_err().errno, Errno::RANGE);
        set_option(&mut state, "osd_pool_default_pg_num", "8");
        set_option(&mut state, "osd_pool_default_min_size", "300");
        set_option(&mut state, "mon_max_pg_per_osd", "18446744073709551615");
        create(&mut state, json!({ "pool": "p" })).unwrap();
        assert_eq!(state.osdmap.pools[&PoolId(1)].min_size, 2);
    }

    #[test]
    fn the_limit_per_osd_is_explained_with_the_numbers_it_compared() {
        let mut state = state();
        set_option(&mut state, "mon_max_pg_per_osd", "50");
        let refusal = create(&mut state, json!({ "pool": "p", "pg_num": 64 })).unwrap_err();
        assert_eq!(
            refusal.text,
            "pg_num 64 size 3 for this pool would result in 64 cumulative PGs per OSD (192 total PG \
             replicas on 3 'in' root OSDs by crush rule) which exceeds the mon_max_pg_per_osd value \
             of 50"
        );
    }

    #[test]
    fn new_pools_are_not_scaled_and_dotted_names_are_confirmed() {
        let mut state = state();
        let dotted = json!({ "pool": ".mgr" });
        assert_eq!(create(&mut state, dotted).unwrap_err().errno, Errno::PERM);
        create(&mut state, json!({ "pool": ".mgr", "yes_i_really_mean_it": true })).unwrap();
        assert_eq!(state.osdmap.pools[&PoolId(1)].pg_autoscale_mode, maps::AutoscaleMode::OFF);
    }
}
