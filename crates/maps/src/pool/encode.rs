//! Encoding of the pool, for peers since Nautilus.

use super::{HitSetParams, MergeMeta, Pool, PoolSnap};
use codec::{Encode, Writer};
use types::{Epoch, PoolId, features};

/// Newest version that is decoded and encoded.
pub(super) const VERSION: u8 = 32;
const VERSION_STRETCH: u8 = 30;
const VERSION_NAUTILUS: u8 = 29;
const COMPAT: u8 = 5;

impl Pool {
    /// Encoding for a peer with `features`.
    pub fn encode_for(&self, w: &mut Writer, features: u64) {
        let version = if features::has(features, features::SERVER_TENTACLE) {
            VERSION
        } else if self.peering_crush.is_some() {
            VERSION_STRETCH
        } else {
            VERSION_NAUTILUS
        };
        w.versioned(version, COMPAT, |w| {
            self.encode_base(w);
            self.encode_tiering(w);
            self.encode_later(w);
            self.encode_newest(w, version);
        });
    }

    fn encode_base(&self, w: &mut Writer) {
        w.u8(self.kind.number());
        w.u8(self.size);
        w.u8(self.crush_rule);
        w.u8(self.object_hash);
        w.u32(self.pg_num);
        w.u32(self.pgp_num);
        w.zeros(8); // once the numbers of localized placement groups
        w.value(&self.last_change);
        w.value(&self.snap_seq);
        w.value(&self.snap_epoch);
        w.value(&self.snaps);
        w.value(&self.removed_snaps);
        w.u64(self.auid);
        w.value(&self.flags);
        w.u32(0); // once the interval of crash replay
        w.u8(self.min_size);
        w.u64(self.quota_max_bytes);
        w.u64(self.quota_max_objects);
    }

    fn encode_tiering(&self, w: &mut Writer) {
        w.value(&self.tiers);
        encode_tier(w, self.tier_of);
        w.u8(self.cache_mode.0);
        encode_tier(w, self.read_tier);
        encode_tier(w, self.write_tier);
        w.value(&self.properties);
        w.value(&self.hit_set_params);
        w.u32(self.hit_set_period);
        w.u32(self.hit_set_count);
        w.u32(self.stripe_width);
        w.u64(self.target_max_bytes);
        w.u64(self.target_max_objects);
        w.u32(self.cache_target_dirty_ratio_micro);
        w.u32(self.cache_target_full_ratio_micro);
        w.u32(self.cache_min_flush_age);
        w.u32(self.cache_min_evict_age);
    }

    fn encode_later(&self, w: &mut Writer) {
        w.value(&self.erasure_code_profile);
        w.value(&self.last_force_op_resend_preluminous);
        w.u32(self.min_read_recency_for_promote);
        w.u64(self.expected_num_objects);
        w.u32(self.cache_target_dirty_high_ratio_micro);
        w.u32(self.min_write_recency_for_promote);
        w.bool(self.use_gmt_hitset);
        w.bool(self.fast_read);
        w.u32(self.hit_set_grade_decay_rate);
        w.u32(self.hit_set_search_last_n);
        w.value(&self.options);
        w.value(&self.last_force_op_resend_prenautilus);
        w.value(&self.application_metadata);
        w.value(&self.create_time);
        w.u32(self.pg_num_target);
        w.u32(self.pgp_num_target);
        w.u32(self.pg_num_pending);
        w.value(&Epoch(0)); // where 14.1 had two epochs of the last merge
        w.value(&Epoch(0));
        w.value(&self.last_force_op_resend);
        w.u8(self.pg_autoscale_mode.0);
        w.value(&self.last_pg_merge_meta);
    }

    fn encode_newest(&self, w: &mut Writer, version: u8) {
        if version > VERSION_STRETCH {
            w.bool(self.peering_crush.is_some());
        }
        if let Some(rule) = &self.peering_crush {
            w.u32(rule.bucket_count);
            w.u32(rule.bucket_target);
            w.u32(rule.bucket_barrier);
            w.i32(rule.mandatory_member);
        }
        if version >= 32 {
            self.nonprimary_shards.iter().for_each(|word| encode_varint(w, *word));
        }
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
