//! Decoding of pools of Hammer (version 21) and later.

use super::encode::VERSION;
use super::{
    AutoscaleMode, CacheMode, HitSetParams, MergeMeta, PeeringCrush, Pool, PoolFlags, PoolSnap,
    PoolType,
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
            pool.decode_base(r)?;
            pool.decode_tiering(r)?;
            pool.decode_since_hammer(r, version)?;
            pool.decode_since_luminous(r, version)?;
            pool.decode_newest(r, version)?;
            Ok(pool)
        })
    }
}

impl Pool {
    fn decode_base(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let at = *r;
        let kind = r.u8("pool type")?;
        self.kind =
            PoolType::from_number(kind).ok_or_else(|| at.invalid("pool type", kind.into()))?;
        self.size = r.u8("size")?;
        self.crush_rule = r.u8("crush rule")?;
        self.object_hash = r.u8("object hash")?;
        self.pg_num = r.u32("pg_num")?;
        self.pgp_num = r.u32("pgp_num")?;
        r.skip("localized pg_num", 8)?;
        self.last_change = r.value()?;
        self.snap_seq = r.value()?;
        self.snap_epoch = r.value()?;
        self.snaps = r.value()?;
        self.removed_snaps = r.value()?;
        self.auid = r.u64("auid")?;
        self.flags = r.value()?;
        self.infer_snap_mode();
        r.skip("crash replay interval", 4)?;
        self.min_size = r.u8("min_size")?;
        self.quota_max_bytes = r.u64("quota_max_bytes")?;
        self.quota_max_objects = r.u64("quota_max_objects")?;
        Ok(())
    }

    /// For pools from before the two flags existed, the contents tell the mode.
    fn infer_snap_mode(&mut self) {
        let modes = PoolFlags::SELFMANAGED_SNAPS | PoolFlags::POOL_SNAPS;
        if self.snap_seq.0 > 0 && !self.flags.intersects(modes) {
            let pool_snaps = self.removed_snaps.is_empty();
            self.flags.set(PoolFlags::POOL_SNAPS, pool_snaps);
            self.flags.set(PoolFlags::SELFMANAGED_SNAPS, !pool_snaps);
        }
    }

    fn decode_tiering(&mut self, r: &mut Reader<'_>) -> Result<()> {
        self.tiers = r.value()?;
        self.tier_of = decode_tier(r)?;
        self.cache_mode = CacheMode(r.u8("cache mode")?);
        self.read_tier = decode_tier(r)?;
        self.write_tier = decode_tier(r)?;
        self.properties = r.value()?;
        self.hit_set_params = r.value()?;
        self.hit_set_period = r.u32("hit_set_period")?;
        self.hit_set_count = r.u32("hit_set_count")?;
        self.stripe_width = r.u32("stripe_width")?;
        self.target_max_bytes = r.u64("target_max_bytes")?;
        self.target_max_objects = r.u64("target_max_objects")?;
        self.cache_target_dirty_ratio_micro = r.u32("cache_target_dirty_ratio")?;
        self.cache_target_full_ratio_micro = r.u32("cache_target_full_ratio")?;
        self.cache_min_flush_age = r.u32("cache_min_flush_age")?;
        self.cache_min_evict_age = r.u32("cache_min_evict_age")?;
        Ok(())
    }

    fn decode_since_hammer(&mut self, r: &mut Reader<'_>, version: u8) -> Result<()> {
        self.erasure_code_profile = r.value()?;
        self.last_force_op_resend_preluminous = r.value()?;
        self.min_read_recency_for_promote = r.u32("min_read_recency_for_promote")?;
        self.expected_num_objects = r.u64("expected_num_objects")?;
        self.cache_target_dirty_high_ratio_micro = r.u32("cache_target_dirty_high_ratio")?;
        self.min_write_recency_for_promote = r.u32("min_write_recency_for_promote")?;
        self.use_gmt_hitset = r.bool("use_gmt_hitset")?;
        if version >= 22 {
            self.fast_read = r.bool("fast_read")?;
        }
        self.hit_set_search_last_n = 1;
        if version >= 23 {
            self.hit_set_grade_decay_rate = r.u32("hit_set_grade_decay_rate")?;
            self.hit_set_search_last_n = r.u32("hit_set_search_last_n")?;
        }
        if version >= 24 {
            self.options = r.value()?;
        }
        Ok(())
    }

    fn decode_since_luminous(&mut self, r: &mut Reader<'_>, version: u8) -> Result<()> {
        self.last_force_op_resend_prenautilus =
            if version >= 25 { r.value()? } else { self.last_force_op_resend_preluminous };
        if version >= 26 {
            self.application_metadata = r.value()?;
        }
        if version >= 27 {
            self.create_time = r.value()?;
        }
        if version < 28 {
            self.pg_num_target = self.pg_num;
            self.pgp_num_target = self.pgp_num;
            self.pg_num_pending = self.pg_num;
            self.last_force_op_resend = self.last_force_op_resend_prenautilus;
            self.pg_autoscale_mode = AutoscaleMode::WARN;
            return Ok(());
        }
        self.pg_num_target = r.u32("pg_num_target")?;
        self.pgp_num_target = r.u32("pgp_num_target")?;
        self.pg_num_pending = r.u32("pg_num_pending")?;
        r.skip("epochs of the last merge", 8)?;
        self.last_force_op_resend = r.value()?;
        self.pg_autoscale_mode = AutoscaleMode(r.u8("pg_autoscale_mode")?);
        if version >= 29 {
            self.last_pg_merge_meta = r.value()?;
        }
        Ok(())
    }

    fn decode_newest(&mut self, r: &mut Reader<'_>, version: u8) -> Result<()> {
        if version == 30 || version >= 31 && r.bool("peering crush data")? {
            let rule = decode_peering_crush(r)?;
            self.peering_crush = (rule.bucket_count != 0).then_some(rule);
        }
        if version >= 32 {
            for word in &mut self.nonprimary_shards {
                *word = decode_varint(r)?;
            }
        }
        Ok(())
    }
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
