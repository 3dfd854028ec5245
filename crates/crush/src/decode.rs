//! Reading a map (`CrushWrapper::decode`).
//!
//! Older writers stop earlier: each group of fields behind the names may be missing, and what is
//! missing has its legacy value. A map with which the mapper would not end, or would use items that do not
//! exist, is refused.

use crate::bucket::bucket_id;
use crate::bucket::{Algorithm, Bucket, Weights, tree_nodes_len};
use crate::choose_args::{ChooseArg, ChooseArgMap};
use crate::encode::MAGIC;
use crate::hash::HASH_RJENKINS1;
use crate::map::CrushMap;
use crate::names::Names;
use crate::rule::{Op, RULES_MAX, Rule, RuleType, Step};
use crate::tunables::Tunables;
use crate::{ITEM_NONE, TYPE_DEVICE, validate};
use codec::{Decode, Reader, Result};

impl Decode for CrushMap {
    /// Consumes all bytes: the encoding has no length.
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let magic = r.u32("crush.magic")?;
        if magic != MAGIC {
            return Err(r.invalid("crush.magic", magic.into()));
        }
        // Even a vacant bucket slot takes bytes, so the count is bounded by what is left.
        let slots = r.count("crush.max_buckets")?;
        let rules = r.u32("crush.max_rules")?;
        if rules as usize > RULES_MAX {
            return Err(r.invalid("crush.max_rules", rules.into()));
        }
        r.i32("crush.max_devices")?;

        let mut map = CrushMap::empty();
        for slot in 0..slots {
            map.buckets.push(decode_bucket(r, slot)?);
        }
        for id in 0..rules {
            map.rules.push(decode_rule(r, id)?);
        }
        map.types = decode_names(r, "crush.type_map")?;
        map.names = decode_names(r, "crush.name_map")?;
        map.rule_names = decode_names(r, "crush.rule_name_map")?;
        map.tunables = decode_tunables(r)?;
        if !r.is_empty() {
            map.item_classes = r.value()?;
            map.class_names = r.list("crush.class_name", decode_name)?.into_iter().collect();
            map.shadows = r.value()?;
        }
        if !r.is_empty() {
            let entry =
                |r: &mut Reader<'_>| Ok((r.i64("choose_args.pool")?, decode_choose_args(r, &map)?));
            map.choose_args = r.list("crush.choose_args", entry)?.into_iter().collect();
        }
        if !r.is_empty() {
            map.tunables.msr_descents = r.u32("crush.msr_descents")?;
            map.tunables.msr_collision_tries = r.u32("crush.msr_collision_tries")?;
        }
        validate::check_trees(&map)
            .map_err(|error| r.invalid("crush.buckets", error.bucket() as u32 as u64))?;
        map.finalize();
        Ok(map)
    }
}

fn decode_bucket(r: &mut Reader<'_>, slot: usize) -> Result<Option<Bucket>> {
    let number = r.u32("bucket.alg")?;
    if number == 0 {
        return Ok(None);
    }
    let Some(algorithm) = Algorithm::from_number(number) else {
        return Err(r.invalid("bucket.alg", number.into()));
    };
    let id = r.i32("bucket.id")?;
    if id != bucket_id(slot) {
        return Err(r.invalid("bucket.id", id as u32 as u64));
    }
    let type_id = r.u16("bucket.type")?;
    if type_id == TYPE_DEVICE {
        return Err(r.invalid("bucket.type", 0));
    }
    let again = r.u8("bucket.alg")?;
    if u32::from(again) != number {
        return Err(r.invalid("bucket.alg", again.into()));
    }
    let hash = r.u8("bucket.hash")?;
    if hash != HASH_RJENKINS1 {
        return Err(r.invalid("bucket.hash", hash.into()));
    }
    let weight = r.u32("bucket.weight")?;
    let items = r.list("bucket.items", decode_item)?;
    let weights = decode_weights(r, algorithm, items.len())?;
    Ok(Some(Bucket { id, type_id, weight, items, weights }))
}

/// The two highest numbers stand for "none" and "undefined" in results of rules, so they are no devices.
fn decode_item(r: &mut Reader<'_>) -> Result<i32> {
    let item = r.i32("bucket.item")?;
    if item >= ITEM_NONE - 1 { Err(r.invalid("bucket.item", item as u64)) } else { Ok(item) }
}

fn decode_weights(r: &mut Reader<'_>, algorithm: Algorithm, len: usize) -> Result<Weights> {
    let weight = |r: &mut Reader<'_>| r.u32("bucket.item_weight");
    let pairs = |r: &mut Reader<'_>| -> Result<(Vec<u32>, Vec<u32>)> {
        (0..len).map(|_| Ok((weight(r)?, r.u32("bucket.item_scale")?))).collect()
    };
    Ok(match algorithm {
        Algorithm::Uniform => Weights::Uniform { each: weight(r)? },
        Algorithm::List => {
            let (items, sums) = pairs(r)?;
            Weights::List { items, sums }
        }
        Algorithm::Straw => {
            let (items, straws) = pairs(r)?;
            Weights::Straw { items, straws }
        }
        Algorithm::Straw2 => {
            Weights::Straw2 { items: (0..len).map(|_| weight(r)).collect::<Result<_>>()? }
        }
        Algorithm::Tree => {
            let nodes = r.u8("bucket.num_nodes")?;
            if len > 0 && usize::from(nodes) != tree_nodes_len(len) {
                return Err(r.invalid("bucket.num_nodes", nodes.into()));
            }
            Weights::Tree { nodes: (0..nodes).map(|_| weight(r)).collect::<Result<_>>()? }
        }
    })
}

fn decode_rule(r: &mut Reader<'_>, id: u32) -> Result<Option<Rule>> {
    if r.u32("rule.present")? == 0 {
        return Ok(None);
    }
    let len = r.count("rule.len")?;
    let ruleset = r.u8("rule.ruleset")?;
    if u32::from(ruleset) != id {
        return Err(r.invalid("rule.ruleset", ruleset.into()));
    }
    let rule_type = RuleType(r.u8("rule.type")?);
    let deprecated_min_size = r.u8("rule.min_size")?;
    let deprecated_max_size = r.u8("rule.max_size")?;
    let step = |_| Ok(Step::new(Op(r.u32("step.op")?), r.i32("step.arg1")?, r.i32("step.arg2")?));
    let steps = (0..len).map(step).collect::<Result<_>>()?;
    Ok(Some(Rule { rule_type, deprecated_min_size, deprecated_max_size, steps }))
}

fn decode_name(r: &mut Reader<'_>) -> Result<(i32, String)> {
    Ok((r.i32("name.id")?, r.string("name")?))
}

/// Ancient writers gave these maps 64-bit keys. The upper half then stands where the length of
/// the name should be, and is zero, which no name's length is.
fn decode_names(r: &mut Reader<'_>, field: &'static str) -> Result<Names> {
    let entry = |r: &mut Reader<'_>| {
        let id = r.i32(field)?;
        let mut ahead = *r;
        if ahead.u32(field)? == 0 {
            *r = ahead;
        }
        let at = *r;
        match r.string(field)? {
            // An empty name could not be encoded again.
            name if name.is_empty() => Err(at.invalid(field, 0)),
            name => Ok((id, name)),
        }
    };
    Ok(r.list(field, entry)?.into_iter().collect())
}

fn decode_tunables(r: &mut Reader<'_>) -> Result<Tunables> {
    let mut tunables = Tunables::legacy();
    if !r.is_empty() {
        tunables.choose_local_tries = r.u32("crush.choose_local_tries")?;
        tunables.choose_local_fallback_tries = r.u32("crush.choose_local_fallback_tries")?;
        tunables.choose_total_tries = r.u32("crush.choose_total_tries")?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_descend_once = r.u32("crush.chooseleaf_descend_once")?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_vary_r = r.u8("crush.chooseleaf_vary_r")?;
    }
    if !r.is_empty() {
        tunables.straw_calc_version = r.u8("crush.straw_calc_version")?;
    }
    if !r.is_empty() {
        tunables.allowed_bucket_algs = r.u32("crush.allowed_bucket_algs")?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_stable = r.u8("crush.chooseleaf_stable")?;
    }
    Ok(tunables)
}

/// Only straw2 buckets can have replacements; what others have is dropped, as Ceph does.
fn decode_choose_args(r: &mut Reader<'_>, map: &CrushMap) -> Result<ChooseArgMap> {
    let mut args = ChooseArgMap::default();
    for _ in 0..r.count("choose_args.size")? {
        let slot = r.u32("choose_args.bucket_index")?;
        let Some(bucket) = map.buckets.get(slot as usize) else {
            return Err(r.invalid("choose_args.bucket_index", slot.into()));
        };
        let arg = decode_choose_arg(r)?;
        let Some(bucket) = bucket else { continue };
        if bucket.algorithm() != Algorithm::Straw2 || arg.is_empty() {
            continue;
        }
        let len = bucket.items.len();
        if arg.weight_sets.iter().any(|set| set.len() != len) {
            return Err(r.invalid("choose_args.weights", slot.into()));
        }
        if !arg.ids.is_empty() && arg.ids.len() != len {
            return Err(r.invalid("choose_args.ids", slot.into()));
        }
        args.args.insert(slot as usize, arg);
    }
    Ok(args)
}

fn decode_choose_arg(r: &mut Reader<'_>) -> Result<ChooseArg> {
    let set = |r: &mut Reader<'_>| r.list("choose_args.weights", |r| r.u32("choose_args.weight"));
    let weight_sets = r.list("choose_args.weight_set", set)?;
    let ids = r.list("choose_args.ids", |r| r.i32("choose_args.id"))?;
    Ok(ChooseArg { weight_sets, ids })
}
