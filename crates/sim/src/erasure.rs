//! Erasure-coded pools of a scenario: their shape, and the commands that make them.
//!
//! In such a seed the pool that clients use is erasure-coded. It tolerates as many failures as the replicated
//! pool of the scenario would: `size` and `min_size` count copies, and k - 1 is added to both. Some objects
//! lie in a replicated pool beside it, on the same OSDs.

use crate::names::{APPENDED, BESIDE, POOL};
use stdx::Prng;

/// Percent of the seeds that have an erasure-coded pool, unless the caller wants another share.
pub const PERCENT_USUAL: u64 = 33;
/// Separates its draws from all others.
const SALT: u64 = 0xec_5eed_0042;
/// Name of the profile.
const PROFILE: &str = "code";
/// Shards of data; more often few, since each takes an OSD.
const DATA: [u8; 6] = [2, 2, 2, 3, 4, 4];
const CODES: [(&str, &str); 3] =
    [("isa", "reed_sol_van"), ("isa", "cauchy"), ("jerasure", "reed_sol_van")];
/// Bytes of a stripe in one shard.
const UNITS: [u32; 4] = [4_096, 4_096, 8_192, 16_384];
/// One in so many seeds has a shard for each OSD, so that a lost disk leaves holes.
const TIGHT_ONE_IN: u64 = 2;
/// One in so many seeds has the widest code.
const WIDE_ONE_IN: u64 = 16;
const WIDE: (u8, u8) = (8, 3);
/// One in so many seeds has two shards on each host.
const PAIRS_ONE_IN: u64 = 8;
const SHARDS_PER_HOST: usize = 2;
/// One in so many seeds has a pool without overwrites, too.
const APPENDED_ONE_IN: u64 = 4;
/// Its groups.
const APPENDED_GROUPS: u32 = 2;
/// OSDs beyond those that one group needs.
const OSDS_MORE_MAX: u64 = 3;
/// The longest times in milliseconds for which a group holds committed changes while it is idle.
const SETTLE_MS: [u64; 6] = [0, 1, 20, 500, 5_000, 90_000];

/// The code of the pool that clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasureShape {
    /// Shards of data.
    pub data: u8,
    /// Plugin and technique.
    pub code: (&'static str, &'static str),
    /// Bytes of a stripe in one shard.
    pub unit: u32,
    /// Time in milliseconds after which an idle group settles what is committed.
    pub settle_ms: u64,
    /// There is another pool of this code, without overwrites.
    pub has_appended: bool,
    /// Shards lie on hosts in pairs.
    pub in_pairs: bool,
}

impl ErasureShape {
    /// Bytes of data in a stripe.
    pub fn stripe(&self) -> u64 {
        u64::from(self.data) * u64::from(self.unit)
    }
}

/// A drawn pool, and the cluster that it needs.
#[derive(Debug, Clone, Copy)]
pub struct Drawn {
    /// The code.
    pub shape: ErasureShape,
    /// Copies of the replicated pool that tolerates as much, and those with which it serves.
    pub size: u8,
    /// See `size`.
    pub min_size: u8,
    /// OSDs beyond those that one group needs.
    more: usize,
    /// Decides the number of hosts.
    hosts: u64,
}

impl Drawn {
    /// OSDs and hosts for at least so many OSDs, with a group on so many `places`.
    pub fn cluster(&self, osds: usize, places: usize) -> (usize, usize) {
        let osds = osds.max(places + self.more);
        if self.shape.in_pairs {
            let hosts = places.div_ceil(SHARDS_PER_HOST);
            return (osds.max(hosts * SHARDS_PER_HOST), hosts);
        }
        (osds, 1 + (self.hosts % osds as u64) as usize)
    }
}

/// The `min_size` of a pool of this code, where that of copies is `min_size`.
pub fn least(shape: &ErasureShape, min_size: u8) -> u8 {
    min_size + shape.data - 1
}

/// Draws an erasure-coded pool in so many percent of the seeds.
pub fn draw(seed: u64, percent: u64) -> Option<Drawn> {
    let mut prng = Prng::new(seed ^ SALT);
    let p = &mut prng;
    if !p.chance(percent, 100) {
        return None;
    }
    let parity = 1 + p.below(2) as u8;
    let (data, code, unit) = (*p.choose(&DATA), *p.choose(&CODES), *p.choose(&UNITS));
    let settle_ms = *p.choose(&SETTLE_MS);
    let mut others = Prng::new(!seed ^ SALT);
    let has_appended = others.chance(1, APPENDED_ONE_IN);
    let (data, parity) = if others.chance(1, WIDE_ONE_IN) { WIDE } else { (data, parity) };
    let in_pairs = others.chance(1, PAIRS_ONE_IN);
    let shape = ErasureShape { data, code, unit, settle_ms, has_appended, in_pairs };
    let min_size = if parity > 1 && p.chance(2, 3) { 2 } else { 1 };
    let more = if p.chance(1, TIGHT_ONE_IN) { 0 } else { p.below(OSDS_MORE_MAX + 1) };
    Some(Drawn { shape, size: parity + 1, min_size, more: more as usize, hosts: p.next_u64() })
}

/// The commands that make the pools, in order.
pub fn commands(
    shape: &ErasureShape,
    (size, min_size): (u8, u8),
    pg_num: u32,
    domain: &str,
) -> Vec<String> {
    let ErasureShape { data, code: (plugin, technique), unit, in_pairs, .. } = shape;
    let parity = size - 1;
    let hosts = usize::from(data + parity).div_ceil(SHARDS_PER_HOST);
    let places = match in_pairs {
        false => format!(r#""crush-failure-domain={domain}""#),
        true => format!(
            r#""crush-failure-domain=host","crush-num-failure-domains={hosts}","crush-osds-per-failure-domain={SHARDS_PER_HOST}""#
        ),
    };
    let profile = format!(
        r#"{{"prefix":"osd erasure-code-profile set","name":"{PROFILE}","profile":["k={data}","m={parity}","plugin={plugin}","technique={technique}","stripe_unit={unit}",{places}]}}"#
    );
    let no_overwrites = r#"{"prefix":"config set","who":"mon","name":"osd_pool_default_flag_ec_overwrites","value":"false"}"#;
    let pool = |name: &str, pg_num: u32| {
        format!(
            r#"{{"prefix":"osd pool create","pool":"{name}","pg_num":{pg_num},"pgp_num":{pg_num},"pool_type":"erasure","erasure_code_profile":"{PROFILE}","pg_autoscale_mode":"off"}}"#
        )
    };
    let least = least(shape, min_size).to_string();
    let set = crate::commands::set_pool_command;
    // Rules for pairs are not for older clients.
    let compat = r#"{"prefix":"osd set-require-min-compat-client","version":"squid","yes_i_really_mean_it":true}"#;
    let compat = in_pairs.then(|| compat.to_owned());
    let mut all: Vec<String> = compat.into_iter().collect();
    all.extend([
        profile,
        pool(POOL, pg_num),
        set(POOL, "allow_ec_overwrites", "true"),
        set(POOL, "min_size", &least),
        crate::commands::create_pool_command(BESIDE, pg_num, size),
        set(BESIDE, "min_size", &min_size.to_string()),
    ]);
    if shape.has_appended {
        let made = [pool(APPENDED, APPENDED_GROUPS), set(APPENDED, "min_size", &least)];
        all.push(no_overwrites.to_owned());
        all.extend(made);
    }
    all
}
