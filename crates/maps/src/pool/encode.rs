//! Encoding of the pool, for peers since Nautilus.

use super::{HitSetParams, MergeMeta, Pool, PoolSnap};
use codec::{Encode, EncodeFor, Writer};
use types::{Epoch, PoolId, features};

/// Newest version that is decoded and encoded.
pub(super) const VERSION: u8 = 32;
const VERSION_STRETCH: u8 = 30;
const VERSION_NAUTILUS: u8 = 29;
const COMPAT: u8 = 5;

impl EncodeFor for Pool {
    fn encode_for(&self, w: &mut Writer, features: u64) {
        let version = if features::has(features, features::SERVER_TENTACLE) {
            VERSION
        } else if self.peering_crush.is_some() {
            VERSION_STRETCH
        } else {
            VERSION_NAUTILUS
        };
        w.versioned(version, COMPAT, |w| {
            encode_base(self, w);
            encode_tiering(self, w);
            encode_later(self, w);
            encode_newest(self, w, version);
        });
    }
}

fn encode_base(pool: &Pool, w: &mut Writer) {
    w.u8(pool.kind.number());
    w.u8(pool.size);
    w.u8(pool.crush_rule);
    w.u8(pool.object_hash);
    w.u32(pool.pg_num);
    w.u32(pool.pgp_num);
    w.zeros(8); // once the numbers of localized placement groups
    w.value(&pool.last_change);
    w.value(&pool.snap_seq);
    w.value(&pool.snap_epoch);
    w.value(&pool.snaps);
    w.value(&pool.removed_snaps);
    w.u64(pool.auid);
    w.value(&pool.flags);
    w.u32(0); // once the interval of crash replay
    w.u8(pool.min_size);
    w.u64(pool.quota_max_bytes);
    w.u64(pool.quota_max_objects);
}

fn encode_tiering(pool: &Pool, w: &mut Writer) {
    w.value(&pool.tiers);
    encode_tier(w, pool.tier_of);
    w.u8(pool.cache_mode.0);
    encode_tier(w, pool.read_tier);
    encode_tier(w, pool.write_tier);
    w.value(&pool.properties);
    w.value(&pool.hit_set_params);
    w.u32(pool.hit_set_period);
    w.u32(pool.hit_set_count);
    w.u32(pool.stripe_width);
    w.u64(pool.target_max_bytes);
    w.u64(pool.target_max_objects);
    w.u32(pool.cache_target_dirty_ratio_micro);
    w.u32(pool.cache_target_full_ratio_micro);
    w.u32(pool.cache_min_flush_age);
    w.u32(pool.cache_min_evict_age);
}

fn encode_later(pool: &Pool, w: &mut Writer) {
    w.value(&pool.erasure_code_profile);
    w.value(&pool.last_force_op_resend_preluminous);
    w.u32(pool.min_read_recency_for_promote);
    w.u64(pool.expected_num_objects);
    w.u32(pool.cache_target_dirty_high_ratio_micro);
    w.u32(pool.min_write_recency_for_promote);
    w.bool(pool.use_gmt_hitset);
    w.bool(pool.fast_read);
    w.u32(pool.hit_set_grade_decay_rate);
    w.u32(pool.hit_set_search_last_n);
    w.value(&pool.options);
    w.value(&pool.last_force_op_resend_prenautilus);
    w.value(&pool.application_metadata);
    w.value(&pool.create_time);
    w.u32(pool.pg_num_target);
    w.u32(pool.pgp_num_target);
    w.u32(pool.pg_num_pending);
    w.value(&Epoch(0)); // where 14.1 had two epochs of the last merge
    w.value(&Epoch(0));
    w.value(&pool.last_force_op_resend);
    w.u8(pool.pg_autoscale_mode.0);
    w.value(&pool.last_pg_merge_meta);
}

fn encode_newest(pool: &Pool, w: &mut Writer, version: u8) {
    if version > VERSION_STRETCH {
        w.bool(pool.peering_crush.is_some());
    }
    if let Some(rule) = &pool.peering_crush {
        w.u32(rule.bucket_count);
        w.u32(rule.bucket_target);
        w.u32(rule.bucket_barrier);
        w.i32(rule.mandatory_member);
    }
    if version >= 32 {
        pool.nonprimary_shards.iter().for_each(|word| encode_varint(w, *word));
    }
}

fn encode_tier(w: &mut Writer, tier: Option<PoolId>) {
    w.value(&tier.unwrap_or(PoolId(-1)));
}

/// Seven bits per byte, lowest first; the top bit is set if more bytes follow.
fn encode_varint(w: &mut Writer, mut value: u64) {
    while value >= 0x80 {
        w.u8(value as u8 | 0x80);
        value >>= 7;
    }
    w.u8(value as u8);
}

impl Encode for PoolSnap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.value(&self.id);
            w.value(&self.stamp);
            w.value(&self.name);
        });
    }
}

impl Encode for MergeMeta {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.source);
            w.value(&self.ready_epoch);
            w.value(&self.last_epoch_started);
            w.value(&self.last_epoch_clean);
            w.value(&self.source_version);
            w.value(&self.target_version);
        });
    }
}

impl Encode for HitSetParams {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| match self {
            HitSetParams::None => w.u8(0),
            HitSetParams::ExplicitHash => w.u8(1),
            HitSetParams::ExplicitObject => w.u8(2),
            HitSetParams::Bloom { false_positive_ppm, target_size, seed } => {
                w.u8(3);
                w.versioned(1, 1, |w| {
                    w.u32(*false_positive_ppm);
                    w.u64(*target_size);
                    w.u64(*seed);
                });
            }
        });
    }
}
