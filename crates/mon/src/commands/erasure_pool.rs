//! Checks of a new erasure-coded pool, and its implicit rule.

use super::erasure_code::profile_refused;
use super::erasure_rule;
use crate::bootstrap::{DEFAULT_PROFILE, default_erasure_code_profile};
use crate::change::Change;
use crate::command::Refusal;
use crate::numbers::{HOLDS_SHARDS, osd_that_cannot};
use crate::state::State;
use crate::usage::{room_found, room_wanted};
use maps::{ErasureCode, ErasureCodeProfile, OsdMap, Pool, PoolType};
use std::sync::Arc;
use types::{Errno, OsdId};

/// The implicit rule of pools with the default profile; that of others has the pool's name.
const DEFAULT_RULE: &str = "erasure-code";

/// The parts of a new erasure-coded pool that its profile decides.
#[derive(Debug)]
pub(super) struct Plan {
    pub profile: String,
    pub code: ErasureCode,
    pub rule: u8,
    /// The implicit rule existed, and is not as the profile says.
    pub has_foreign_rule: bool,
}

/// Plans a pool with a profile, the default one if `profile` is `None`, and a rule, an implicit one if `rule`
/// is `None`. Adds to the change what does not exist yet. Unless `is_sure`, the rule must find a place for
/// each shard.
pub(super) fn plan(
    state: &State,
    change: &mut Change,
    pool: &str,
    profile: Option<&str>,
    rule: Option<&str>,
    is_sure: bool,
) -> Result<Plan, Refusal> {
    check_osds(state, pool)?;
    let name = profile.unwrap_or(DEFAULT_PROFILE);
    let profile = known_profile(state, change, name)?;
    let code = ErasureCode::parse(&profile).map_err(|error| profile_refused(&error))?;
    let is_implicit = rule.is_none();
    let rule = match rule {
        Some(rule) => {
            let id = change.crush_after(state).rule_id(rule);
            let missing = || Refusal::missing(format!("specified rule {rule} doesn't exist"));
            id.ok_or_else(missing)?
        }
        None => implicit_rule(state, change, pool, name, &profile, &code)?,
    };
    let rule = u8::try_from(rule).map_err(|_| Refusal::invalid(format!("no such rule: {rule}")))?;
    let crush = change.crush_after(state);
    super::new_pool::check_rule(crush, rule, PoolType::Erasure)?;
    let has_foreign_rule = is_implicit && !erasure_rule::is_of(crush, rule, &profile);
    let plan = Plan { profile: name.to_owned(), code, rule, has_foreign_rule };
    if !is_sure {
        check_room(state, change, pool, &plan)?;
    }
    Ok(plan)
}

/// Refuses pools whose shards some OSD could not keep.
fn check_osds(state: &State, pool: &str) -> Result<(), Refusal> {
    let is_any_up = state.osdmap.existing_osds().any(|(_, osd)| osd.is_up());
    let reason = match osd_that_cannot(state, HOLDS_SHARDS) {
        Some(osd) => format!(
            "osd.{osd} runs a version that keeps no shards of erasure-coded pools. Next: update all OSDs"
        ),
        None if !is_any_up => "no OSD is up that could say that it keeps shards".to_owned(),
        None => return Ok(()),
    };
    let text = format!("pool '{pool}' was not created: {reason}");
    Err(Refusal::new(Errno::NOTSUPP, text))
}

/// The profile of that name. The default one is made anew if it was removed.
fn known_profile(
    state: &State,
    change: &mut Change,
    name: &str,
) -> Result<ErasureCodeProfile, Refusal> {
    if let Some(known) = state.osdmap.erasure_code_profiles.get(name) {
        return Ok(known.clone());
    }
    if name != DEFAULT_PROFILE {
        return Err(Refusal::missing(format!(
            "unknown erasure code profile '{name}': see 'ceph osd erasure-code-profile ls'"
        )));
    }
    let profile = default_erasure_code_profile();
    let profiles = &mut change.osdmap(state).new_erasure_code_profiles;
    profiles.insert(name.to_owned(), profile.clone());
    Ok(profile)
}

/// The rule that Ceph would name so, made by the profile unless it exists.
fn implicit_rule(
    state: &State,
    change: &mut Change,
    pool: &str,
    profile_name: &str,
    profile: &ErasureCodeProfile,
    code: &ErasureCode,
) -> Result<u32, Refusal> {
    let name = if profile_name == DEFAULT_PROFILE { DEFAULT_RULE } else { pool };
    if let Some(known) = change.crush_after(state).rule_id(name) {
        return Ok(known);
    }
    erasure_rule::Placement::of(profile)?.check(code)?;
    erasure_rule::add(state, change, name, profile)
}

/// Refuses a pool of which no group could have all its shards, with what is missing.
fn check_room(state: &State, change: &Change, name: &str, plan: &Plan) -> Result<(), Refusal> {
    let Plan { profile, code, rule, has_foreign_rule } = plan;
    let mut map: OsdMap = state.osdmap.clone();
    map.crush = Arc::new(change.crush_after(state).clone());
    let pool = Pool::new(PoolType::Erasure, code.shards(), 1, *rule);
    let is_in = |osd: OsdId| map.is_in(osd);
    let mut domains = map.domains();
    let osds = domains.devices(&pool).into_iter().filter(|osd| is_in(*osd)).count();
    let room = domains.room(&pool, is_in);
    if room.places >= usize::from(pool.size) {
        return Ok(());
    }
    let rule = map.crush.rule_name((*rule).into()).unwrap_or_default();
    let (wanted, found, kind) = (room_wanted(&pool, &room), room_found(&room), room.kind);
    let spread = match kind != "osd" && osds >= usize::from(pool.size) {
        _ if *has_foreign_rule => format!(
            "rule '{rule}' existed and is not as the profile says: 'ceph osd crush rule rm {rule}', or name \
             another rule; "
        ),
        true => format!(
            "to be content with different OSDs, 'ceph osd erasure-code-profile set NAME k={} m={} \
             crush-failure-domain=osd'; ",
            code.data, code.parity
        ),
        false => String::new(),
    };
    Err(Refusal::invalid(format!(
        "pool '{name}' was not created: profile '{profile}' wants {wanted}, and rule '{rule}' {found}. \
         Next: add {kind}s; {spread}or with --yes-i-really-mean-it create it before they are there"
    )))
}

#[cfg(test)]
mod tests;
