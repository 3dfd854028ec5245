//! Decoding of pools of Hammer (version 21) and later.

use super::encode::VERSION;
use super::{
    AutoscaleMode, CacheMode, HitSetParams, MergeMeta, PG_NUM_MAX, PeeringCrush, Pool, PoolFlags,
    PoolSnap, PoolType,
};
use codec::{Decode, DecodeErrorKind, Reader, Result};
use types::PoolId;

const VERSION_OLDEST: u8 = 21;

impl Decode for Pool {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("pool", VERSION, |r, version| {
            if version < VERSION_OLDEST {
                let kind = DecodeErrorKind::TooOld { version, oldest: VERSION_OLDEST };
                return Err(r.error("pool", kind));
            }
            let mut pool = Pool::default();
            decode_base(&mut pool, r)?;
            decode_tiering(&mut pool, r)?;
            decode_since_hammer(&mut pool, r, version)?;
            decode_since_luminous(&mut pool, r, version)?;
            decode_newest(&mut pool, r, version)?;
            Ok(pool)
        })
    }
}

fn decode_base(pool: &mut Pool, r: &mut Reader<'_>) -> Result<()> {
    let at = *r;
    let kind = r.u8("pool type")?;
    pool.kind = PoolType::from_number(kind).ok_or_else(|| at.invalid("pool type", kind.into()))?;
    pool.size = r.u8("size")?;
    pool.crush_rule = r.u8("crush rule")?;
    pool.object_hash = r.u8("object hash")?;
    let at = *r;
    pool.pg_num = r.u32("pg_num")?;
    if pool.pg_num > PG_NUM_MAX {
        return Err(at.invalid("pg_num", pool.pg_num.into()));
    }
    pool.pgp_num = r.u32("pgp_num")?;
    r.skip("localized pg_num", 8)?;
    pool.last_change = r.value()?;
    pool.snap_seq = r.value()?;
    pool.snap_epoch = r.value()?;
    pool.snaps = r.value()?;
    pool.removed_snaps = r.value()?;
    pool.auid = r.u64("auid")?;
    pool.flags = r.value()?;
    infer_snap_mode(pool);
    r.skip("crash replay interval", 4)?;
    pool.min_size = r.u8("min_size")?;
    pool.quota_max_bytes = r.u64("quota_max_bytes")?;
    pool.quota_max_objects = r.u64("quota_max_objects")?;
    Ok(())
}

/// For pools from before the two flags existed, the contents tell the mode.
fn infer_snap_mode(pool: &mut Pool) {
    let modes = PoolFlags::SELFMANAGED_SNAPS | PoolFlags::POOL_SNAPS;
    if pool.snap_seq.0 > 0 && !pool.flags.intersects(modes) {
        let pool_snaps = pool.removed_snaps.is_empty();
        pool.flags.set(PoolFlags::POOL_SNAPS, pool_snaps);
        pool.flags.set(PoolFlags::SELFMANAGED_SNAPS, !pool_snaps);
    }
}

fn decode_tiering(pool: &mut Pool, r: &mut Reader<'_>) -> Result<()> {
    pool.tiers = r.value()?;
    pool.tier_of = decode_tier(r)?;
    pool.cache_mode = CacheMode(r.u8("cache mode")?);
    pool.read_tier = decode_tier(r)?;
    pool.write_tier = decode_tier(r)?;
    pool.properties = r.value()?;
    pool.hit_set_params = r.value()?;
    pool.hit_set_period = r.u32("hit_set_period")?;
    pool.hit_set_count = r.u32("hit_set_count")?;
    pool.stripe_width = r.u32("stripe_width")?;
    pool.target_max_bytes = r.u64("target_max_bytes")?;
    pool.target_max_objects = r.u64("target_max_objects")?;
    pool.cache_target_dirty_ratio_micro = r.u32("cache_target_dirty_ratio")?;
    pool.cache_target_full_ratio_micro = r.u32("cache_target_full_ratio")?;
    pool.cache_min_flush_age = r.u32("cache_min_flush_age")?;
    pool.cache_min_evict_age = r.u32("cache_min_evict_age")?;
    Ok(())
}

fn decode_since_hammer(pool: &mut Pool, r: &mut Reader<'_>, version: u8) -> Result<()> {
    pool.erasure_code_profile = r.value()?;
    pool.last_force_op_resend_preluminous = r.value()?;
    pool.min_read_recency_for_promote = r.u32("min_read_recency_for_promote")?;
    pool.expected_num_objects = r.u64("expected_num_objects")?;
    pool.cache_target_dirty_high_ratio_micro = r.u32("cache_target_dirty_high_ratio")?;
    pool.min_write_recency_for_promote = r.u32("min_write_recency_for_promote")?;
    pool.use_gmt_hitset = r.bool("use_gmt_hitset")?;
    if version >= 22 {
        pool.fast_read = r.bool("fast_read")?;
    }
    pool.hit_set_search_last_n = 1;
    if version >= 23 {
        pool.hit_set_grade_decay_rate = r.u32("hit_set_grade_decay_rate")?;
        pool.hit_set_search_last_n = r.u32("hit_set_search_last_n")?;
    }
    if version >= 24 {
        pool.options = r.value()?;
    }
    Ok(())
}

fn decode_since_luminous(pool: &mut Pool, r: &mut Reader<'_>, version: u8) -> Result<()> {
    pool.last_force_op_resend_prenautilus =
        if version >= 25 { r.value()? } else { pool.last_force_op_resend_preluminous };
    if version >= 26 {
        pool.application_metadata = r.value()?;
    }
    if version >= 27 {
        pool.create_time = r.value()?;
    }
    if version < 28 {
        pool.pg_num_target = pool.pg_num;
        pool.pgp_num_target = pool.pgp_num;
        pool.pg_num_pending = pool.pg_num;
        pool.last_force_op_resend = pool.last_force_op_resend_prenautilus;
        pool.pg_autoscale_mode = AutoscaleMode::WARN;
        return Ok(());
    }
    pool.pg_num_target = r.u32("pg_num_target")?;
    pool.pgp_num_target = r.u32("pgp_num_target")?;
    pool.pg_num_pending = r.u32("pg_num_pending")?;
    r.skip("epochs of the last merge", 8)?;
    pool.last_force_op_resend = r.value()?;
    pool.pg_autoscale_mode = AutoscaleMode(r.u8("pg_autoscale_mode")?);
    if version >= 29 {
        pool.last_pg_merge_meta = r.value()?;
    }
    Ok(())
}

fn decode_newest(pool: &mut Pool, r: &mut Reader<'_>, version: u8) -> Result<()> {
    if version == 30 || version >= 31 && r.bool("peering crush data")? {
        let rule = decode_peering_crush(r)?;
        pool.peering_crush = (rule.bucket_count != 0).then_some(rule);
    }
    if version >= 32 {
        for word in &mut pool.nonprimary_shards {
            *word = decode_varint(r)?;
        }
    }
    Ok(())
}

fn decode_peering_crush(r: &mut Reader<'_>) -> Result<PeeringCrush> {
    Ok(PeeringCrush {
        bucket_count: r.u32("peering bucket count")?,
        bucket_target: r.u32("peering bucket target")?,
        bucket_barrier: r.u32("peering bucket barrier")?,
        mandatory_member: r.i32("peering mandatory member")?,
    })
}

fn decode_tier(r: &mut Reader<'_>) -> Result<Option<PoolId>> {
    let pool: PoolId = r.value()?;
    Ok((pool.0 >= 0).then_some(pool))
}

fn decode_varint(r: &mut Reader<'_>) -> Result<u64> {
    let at = *r;
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = r.u8("varint")?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(at.invalid("varint", value))
}

impl Decode for PoolSnap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("pool snapshot", 2, |r, _| {
            Ok(PoolSnap { id: r.value()?, stamp: r.value()?, name: r.value()? })
        })
    }
}

impl Decode for MergeMeta {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("pg merge", 1, |r, _| {
            Ok(MergeMeta {
                source: r.value()?,
                ready_epoch: r.value()?,
                last_epoch_started: r.value()?,
                last_epoch_clean: r.value()?,
                source_version: r.value()?,
                target_version: r.value()?,
            })
        })
    }
}

impl Decode for HitSetParams {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("hit set parameters", 1, |r, _| {
            let at = *r;
            match r.u8("hit set type")? {
                0 => Ok(HitSetParams::None),
                1 => Ok(HitSetParams::ExplicitHash),
                2 => Ok(HitSetParams::ExplicitObject),
                3 => r.versioned("bloom hit set", 1, |r, _| {
                    Ok(HitSetParams::Bloom {
                        false_positive_ppm: r.u32("false positives")?,
                        target_size: r.u64("target size")?,
                        seed: r.u64("seed")?,
                    })
                }),
                other => Err(at.invalid("hit set type", other.into())),
            }
        })
    }
}
