//! Creation of pools, for commands and messages: the checks of their numbers and rules.

use crate::bootstrap::DEFAULT_RULE;
use crate::change::Change;
use crate::command::Refusal;
use crate::state::{Overrides, State};
use crush::CrushMap;
use maps::{AutoscaleMode, ErasureCode, OsdMap, Pool, PoolFlags, PoolType};
use std::collections::BTreeSet;
use types::{Errno, OsdId, PoolId};

/// Bound of the placement groups of one pool; exceeds any sensible number.
const PG_NUM_MAX: u32 = 65_536;
/// `mon_max_pg_per_osd`. Ceph's default is 250; groups cost less here, and a small cluster should hold a few
/// dozen pools.
const PGS_PER_OSD_DEFAULT: u64 = 1000;
const PG_NUM_DEFAULT: u64 = 32;
/// Bound of the copies of an object.
pub const SIZE_MAX: u64 = 10;
const SIZE_DEFAULT: u64 = 3;
/// As in Ceph, limits per OSD assume at least this number of OSDs.
const OSDS_EXPECTED_MIN: u64 = 3;
const NAME_LENGTH_MAX: usize = 512;

/// Parameters of a new pool; those that are `None` or zero have defaults.
#[derive(Debug, Default)]
pub(crate) struct NewPool<'a> {
    pub name: &'a str,
    pub pg_num: Option<u64>,
    pub pgp_num: Option<u64>,
    pub rule: Option<u8>,
    pub size: Option<u64>,
    /// Name and code of the profile of an erasure-coded pool, which decide its size.
    pub profile: Option<(&'a str, ErasureCode)>,
}

impl NewPool<'_> {
    fn size(&self, state: &State, running: &Overrides) -> Result<u8, Refusal> {
        if let Some((_, code)) = &self.profile {
            return Ok(code.shards());
        }
        let given = self.size.filter(|size| *size > 0);
        let size = given.or_else(|| option_number(state, running, "osd_pool_default_size"));
        check_size(size.unwrap_or(SIZE_DEFAULT))
    }

    /// The pool with its redundancy and nothing else.
    fn draft(&self, state: &State, running: &Overrides, size: u8, pg_num: u32, rule: u8) -> Pool {
        let Some((name, code)) = &self.profile else {
            let mut pool = Pool::new(PoolType::Replicated, size, pg_num, rule);
            pool.min_size = default_min_size(state, running, size);
            return pool;
        };
        let mut pool = Pool::new(PoolType::Erasure, size, pg_num, rule);
        pool.min_size = code.min_size();
        pool.stripe_width = code.stripe_width();
        pool.erasure_code_profile = (*name).to_owned();
        let overwrites = state.mon_switch(running, "osd_pool_default_flag_ec_overwrites", true);
        pool.flags.set(PoolFlags::EC_OVERWRITES, overwrites);
        assert!(pool.min_size >= code.data && pool.min_size <= size, "a pool can serve");
        pool
    }
}

/// A numeric option of monitors; `None` if it is zero or not set.
fn option_number(state: &State, running: &Overrides, name: &str) -> Option<u64> {
    state.mon_option(running, name)?.parse().ok().filter(|number| *number > 0)
}

/// Adds a new pool to the map, and returns its id.
pub(crate) fn create(
    state: &State,
    running: &Overrides,
    change: &mut Change,
    new: &NewPool<'_>,
) -> Result<PoolId, Refusal> {
    check_name(new.name)?;
    let map = &state.osdmap;
    let given = |number: Option<u64>| number.filter(|number| *number > 0);
    let size = new.size(state, running)?;
    let rule = match new.rule {
        Some(rule) => rule,
        None => default_rule(map)?,
    };
    // A rule for this pool may be part of the same change.
    let crush = change.crush_after(state);
    let kind = if new.profile.is_some() { PoolType::Erasure } else { PoolType::Replicated };
    check_rule(crush, rule, kind)?;
    let pg_num =
        given(new.pg_num).or_else(|| option_number(state, running, "osd_pool_default_pg_num"));
    let pg_num = check_pg_num(pg_num.unwrap_or(PG_NUM_DEFAULT))?;
    check_pgs_per_osd(state, running, crush, None, pg_num, size, rule)?;
    let pgp_num = given(new.pgp_num).or(given(new.pg_num));
    let pgp_num = pgp_num.or_else(|| option_number(state, running, "osd_pool_default_pgp_num"));
    let pgp_num = match pgp_num {
        None => pg_num,
        Some(number) => {
            u32::try_from(number).ok().filter(|number| *number <= pg_num).ok_or_else(|| {
                let text =
                    "'pgp_num' must be greater than 0 and lower or equal than 'pg_num', which in";
                Refusal::new(Errno::RANGE, format!("{text} this case is {pg_num}"))
            })?
        }
    };
    let mut pool = new.draft(state, running, size, pg_num, rule);
    (pool.pgp_num, pool.pgp_num_target) = (pgp_num, pgp_num);
    pool.flags.set(
        PoolFlags::NODELETE,
        state.mon_switch(running, "osd_pool_default_flag_nodelete", false),
    );
    let mode = state.mon_option(running, "osd_pool_default_pg_autoscale_mode");
    pool.pg_autoscale_mode = mode.and_then(|mode| mode.parse().ok()).unwrap_or(AutoscaleMode::OFF);
    pool.last_change = map.epoch.next();
    let incremental = change.osdmap(state);
    pool.create_time = incremental.modified;
    // The same change may make another pool.
    let last = incremental.new_pool_max.unwrap_or(map.pool_max);
    let id = PoolId(last.0.max(0) + 1);
    incremental.new_pool_max = Some(id);
    incremental.new_pools.insert(id, pool);
    incremental.new_pool_names.insert(id, new.name.to_owned());
    Ok(id)
}

/// The default `min_size` of a pool of that size.
pub(super) fn default_min_size(state: &State, running: &Overrides, size: u8) -> u8 {
    match option_number(state, running, "osd_pool_default_min_size") {
        Some(configured) => u8::try_from(configured).map_or(size, |number| number.min(size)),
        None => size - size / 2,
    }
}

/// Checks the number of copies of a pool.
pub(super) fn check_size(size: u64) -> Result<u8, Refusal> {
    let fits = |size: &u8| (1..=SIZE_MAX).contains(&u64::from(*size));
    let text = || Refusal::invalid(format!("pool size must be between 1 and {SIZE_MAX}"));
    u8::try_from(size).ok().filter(fits).ok_or_else(text)
}

/// Checks that a rule exists and is for this type of pool.
pub(super) fn check_rule(crush: &CrushMap, rule: u8, kind: PoolType) -> Result<(), Refusal> {
    let missing = || Refusal::missing(format!("crush rule {rule} does not exist"));
    let rule_type = crush.rule(rule.into()).ok_or_else(missing)?.rule_type;
    let serves = match kind {
        PoolType::Replicated => rule_type.serves_replicated(),
        PoolType::Erasure => rule_type.serves_erasure(),
    };
    let text = || Refusal::invalid(format!("crush rule {rule} type does not match pool"));
    if serves { Ok(()) } else { Err(text()) }
}

/// Refuses names with a leading dot without confirmation: such pools are for daemons (`.mgr`), and hidden
/// from some tools.
pub(super) fn check_dot(name: &str, is_sure: bool) -> Result<(), Refusal> {
    if name.starts_with('.') && !is_sure {
        let text = "pool names beginning with . are not allowed; pass --yes-i-really-mean-it if you \
                    really want one";
        return Err(Refusal::new(Errno::PERM, text));
    }
    Ok(())
}

/// Checks the name of a new or renamed pool.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    let is_printable = name.chars().all(|c| !c.is_control());
    if name.is_empty() || name.len() > NAME_LENGTH_MAX || !is_printable {
        let text = format!(
            "pool name '{name}' is invalid: it must have 1 to {NAME_LENGTH_MAX} printable characters"
        );
        return Err(Refusal::invalid(text));
    }
    Ok(())
}

fn default_rule(map: &OsdMap) -> Result<u8, Refusal> {
    let named = map.crush.rule_id(DEFAULT_RULE);
    let any = || map.crush.rules().find(|(_, rule)| rule.rule_type.serves_replicated());
    let id = named.or_else(|| any().map(|(id, _)| id));
    let id = id.and_then(|id| u8::try_from(id).ok());
    id.ok_or_else(|| Refusal::missing("No suitable CRUSH rule exists, check 'osd crush rule ls'"))
}

/// Checks a number of placement groups.
pub(super) fn check_pg_num(pg_num: u64) -> Result<u32, Refusal> {
    let fits = |pg_num: &u32| (1..=PG_NUM_MAX).contains(pg_num);
    u32::try_from(pg_num).ok().filter(fits).ok_or_else(|| {
        let text =
            format!("'pg_num' must be greater than 0 and less than or equal to {PG_NUM_MAX}");
        Refusal::new(Errno::RANGE, text)
    })
}

/// The OSDs that are in and that a rule can choose.
fn osds_of_rule(map: &OsdMap, crush: &CrushMap, rule: u8) -> BTreeSet<OsdId> {
    let takes = crush.rule(rule.into()).into_iter().flat_map(|rule| rule.takes());
    let devices = takes.flat_map(|root| crush.devices_below(root));
    devices.map(OsdId).filter(|osd| map.is_in(*osd)).collect()
}

/// Checks that the OSDs can hold a pool with that many groups, which is new or replaces `changed`.
pub(super) fn check_pgs_per_osd(
    state: &State,
    running: &Overrides,
    crush: &CrushMap,
    changed: Option<PoolId>,
    pg_num: u32,
    size: u8,
    rule: u8,
) -> Result<(), Refusal> {
    let map = &state.osdmap;
    let copies = |pg_num: u32, size: u8| u64::from(pg_num) * u64::from(size);
    let others =
        map.pools.iter().filter(|(id, pool)| Some(**id) != changed && pool.crush_rule == rule);
    let used = others.map(|(_, pool)| copies(pool.pg_num_target, pool.size));
    let wanted = used.fold(copies(pg_num, size), u64::saturating_add);
    let osds = (osds_of_rule(map, crush, rule).len() as u64).max(OSDS_EXPECTED_MIN);
    let limit = state.mon_option(running, "mon_max_pg_per_osd").and_then(|text| text.parse().ok());
    let limit: u64 = limit.unwrap_or(PGS_PER_OSD_DEFAULT);
    if wanted / osds <= limit || limit == 0 {
        return Ok(());
    }
    let text = format!(
        "pg_num {pg_num} size {size} for this pool would result in {} cumulative PGs per OSD ({wanted} \
         total PG replicas on {osds} 'in' root OSDs by crush rule) which exceeds the \
         mon_max_pg_per_osd value of {limit}",
        wanted / osds,
    );
    Err(Refusal::new(Errno::RANGE, text))
}
