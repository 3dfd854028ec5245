//! `pool_opts_t`: optional settings of a pool.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;

/// Number in the encoding, name, and type of each option.
const OPTIONS: [(&str, OptionType); 26] = [
    ("scrub_min_interval", OptionType::Double),
    ("scrub_max_interval", OptionType::Double),
    ("deep_scrub_interval", OptionType::Double),
    ("recovery_priority", OptionType::Int),
    ("recovery_op_priority", OptionType::Int),
    ("scrub_priority", OptionType::Int),
    ("compression_mode", OptionType::Str),
    ("compression_algorithm", OptionType::Str),
    ("compression_required_ratio", OptionType::Double),
    ("compression_max_blob_size", OptionType::Int),
    ("compression_min_blob_size", OptionType::Int),
    ("csum_type", OptionType::Int),
    ("csum_max_block", OptionType::Int),
    ("csum_min_block", OptionType::Int),
    ("fingerprint_algorithm", OptionType::Str),
    ("pg_num_min", OptionType::Int),
    ("target_size_bytes", OptionType::Int),
    ("target_size_ratio", OptionType::Double),
    ("pg_autoscale_bias", OptionType::Double),
    ("read_lease_interval", OptionType::Double),
    ("dedup_tier", OptionType::Int),
    ("dedup_chunk_algorithm", OptionType::Str),
    ("dedup_cdc_chunk_size", OptionType::Int),
    ("pg_num_max", OptionType::Int),
    ("read_ratio", OptionType::Int),
    ("pct_update_delay", OptionType::Int),
];

/// Type of the value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionType {
    /// Text.
    Str,
    /// A signed number of 64 bits.
    Int,
    /// A floating-point number of 64 bits.
    Double,
}

/// `pool_opts_t::key_t`; options of newer releases have numbers without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolOption(pub i32);

impl PoolOption {
    /// Bytes that the pool is expected to have, for the autoscaler.
    pub const TARGET_SIZE_BYTES: PoolOption = PoolOption(16);
    /// Relative share of the cluster that the pool is expected to use, for the autoscaler.
    pub const TARGET_SIZE_RATIO: PoolOption = PoolOption(17);

    /// The option that `ceph osd pool set` calls so.
    pub fn from_name(name: &str) -> Option<PoolOption> {
        OPTIONS.iter().position(|(known, _)| *known == name).map(|i| PoolOption(i as i32))
    }

    /// All options that have a name.
    pub fn all() -> impl Iterator<Item = PoolOption> {
        (0..OPTIONS.len() as i32).map(PoolOption)
    }

    fn entry(self) -> Option<&'static (&'static str, OptionType)> {
        OPTIONS.get(usize::try_from(self.0).ok()?)
    }

    /// The name in `ceph osd pool set`; `None` for an option of a newer release.
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|(name, _)| *name)
    }

    /// Type of the value; `None` for an option of a newer release.
    pub fn value_type(self) -> Option<OptionType> {
        self.entry().map(|(_, kind)| *kind)
    }
}

/// Value of an option.
#[derive(Debug, Clone, PartialEq)]
pub enum PoolOptionValue {
    /// Text.
    Str(String),
    /// A number.
    Int(i64),
    /// A floating-point number.
    Double(f64),
}

/// The options that are set, with their values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolOptions(pub BTreeMap<PoolOption, PoolOptionValue>);

impl Encode for PoolOptions {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.count(self.0.len());
            for (option, value) in &self.0 {
                w.i32(option.0);
                encode_value(w, value);
            }
        });
    }
}

fn encode_value(w: &mut Writer, value: &PoolOptionValue) {
    match value {
        PoolOptionValue::Str(text) => {
            w.i32(0);
            w.string(text);
        }
        PoolOptionValue::Int(number) => {
            w.i32(1);
            w.i64(*number);
        }
        PoolOptionValue::Double(number) => {
            w.i32(2);
            w.f64(*number);
        }
    }
}

impl Decode for PoolOptions {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("pool options", 2, |r, version| {
            let entry = |r: &mut Reader<'_>| {
                Ok((PoolOption(r.i32("pool option")?), decode_value(r, version)?))
            };
            Ok(PoolOptions(r.list("pool options", entry)?.into_iter().collect()))
        })
    }
}

fn decode_value(r: &mut Reader<'_>, version: u8) -> Result<PoolOptionValue> {
    let at = *r;
    match r.i32("type of a pool option")? {
        0 => Ok(PoolOptionValue::Str(r.value()?)),
        1 if version >= 2 => Ok(PoolOptionValue::Int(r.i64("value")?)),
        1 => Ok(PoolOptionValue::Int(r.i32("value")?.into())),
        2 => Ok(PoolOptionValue::Double(r.f64("value")?)),
        other => Err(at.invalid("type of a pool option", other as u64)),
    }
}
