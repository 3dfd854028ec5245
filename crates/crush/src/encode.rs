//! Encoding of the map (`CrushWrapper::encode`).
//!
//! The encoding has no version and no length. Additions of newer releases stand at the end, and the reader's
//! features decide where the end is.

use crate::bucket::{Bucket, Weights};
use crate::choose_args::{ChooseArg, ChooseArgMap, DEFAULT_CHOOSE_ARGS};
use crate::hash::HASH_RJENKINS1;
use crate::map::CrushMap;
use crate::names::Names;
use crate::rule::Rule;
use codec::{EncodeFor, Writer};
use types::features;

pub(crate) const MAGIC: u32 = 0x0001_0000;

/// Sizes of pools that a rule serves, sent to peers that ignore them.
const ANY_MIN_SIZE: u8 = 1;
const ANY_MAX_SIZE: u8 = 100;

impl EncodeFor for CrushMap {
    fn encode_for(&self, w: &mut Writer, features: u64) {
        w.u32(MAGIC);
        w.i32(self.buckets.len() as i32);
        w.u32(self.rules.len() as u32);
        w.i32(self.max_devices);
        let substitute = weights_for_old_peer(self, features);
        for bucket in &self.buckets {
            match bucket {
                None => w.u32(0),
                Some(bucket) => bucket.encode(w, substitute.and_then(|map| map.arg(bucket.id))),
            }
        }
        for (id, rule) in self.rules.iter().enumerate() {
            w.u32(rule.is_some().into());
            if let Some(rule) = rule {
                rule.encode(w, id as u8, features);
            }
        }
        [&self.types, &self.names, &self.rule_names].into_iter().for_each(|names| names.encode(w));
        encode_tunables(self, w, features);
        if features::has(features, features::SERVER_LUMINOUS) {
            encode_classes(self, w);
            encode_choose_args(self, w);
        }
        if features::has(features, features::CRUSH_MSR) {
            w.u32(self.tunables.msr_descents);
            w.u32(self.tunables.msr_collision_tries);
        }
    }
}

/// A peer that does not know choose args sees the default set's weights as the real ones,
/// provided that they can stand in: one set only, with one position.
fn weights_for_old_peer(crush: &CrushMap, features: u64) -> Option<&ChooseArgMap> {
    if features::has(features, features::CRUSH_CHOOSE_ARGS) || crush.choose_args.len() != 1 {
        return None;
    }
    let map = crush.choose_args.get(&DEFAULT_CHOOSE_ARGS)?;
    map.iter().all(|(_, arg)| arg.weight_sets.len() == 1 && arg.ids.is_empty()).then_some(map)
}

fn encode_tunables(crush: &CrushMap, w: &mut Writer, features: u64) {
    let tunables = &crush.tunables;
    w.u32(tunables.choose_local_tries);
    w.u32(tunables.choose_local_fallback_tries);
    w.u32(tunables.choose_total_tries);
    w.u32(tunables.chooseleaf_descend_once);
    w.u8(tunables.chooseleaf_vary_r);
    w.u8(tunables.straw_calc_version);
    w.u32(tunables.allowed_bucket_algs);
    if features::has(features, features::CRUSH_TUNABLES5) {
        w.u8(tunables.chooseleaf_stable);
    }
}

fn encode_classes(crush: &CrushMap, w: &mut Writer) {
    w.value(&crush.item_classes);
    crush.class_names.encode(w);
    w.value(&crush.shadows);
}

fn encode_choose_args(crush: &CrushMap, w: &mut Writer) {
    w.count(crush.choose_args.len());
    for (&pool, map) in &crush.choose_args {
        w.i64(pool);
        w.count(map.args.len());
        for (&slot, arg) in &map.args {
            w.u32(slot as u32);
            arg.encode(w);
        }
    }
}

impl Bucket {
    fn encode(&self, w: &mut Writer, substitute: Option<&ChooseArg>) {
        let algorithm = self.algorithm() as u8;
        w.u32(algorithm.into());
        w.i32(self.id);
        w.u16(self.type_id);
        w.u8(algorithm);
        w.u8(HASH_RJENKINS1);
        w.u32(self.weight);
        w.list(&self.items, |w, item| w.i32(*item));
        match &self.weights {
            Weights::Uniform { each } => w.u32(*each),
            Weights::List { items: first, sums: second }
            | Weights::Straw { items: first, straws: second } => {
                for (first, second) in first.iter().zip(second) {
                    w.u32(*first);
                    w.u32(*second);
                }
            }
            Weights::Tree { nodes } => {
                w.u8(nodes.len() as u8);
                nodes.iter().for_each(|node| w.u32(*node));
            }
            Weights::Straw2 { items } => {
                let weights = substitute.and_then(|arg| arg.weights(0)).unwrap_or(items);
                weights.iter().for_each(|weight| w.u32(*weight));
            }
        }
    }
}

impl Rule {
    fn encode(&self, w: &mut Writer, id: u8, features: u64) {
        w.count(self.steps.len());
        // Rules once had a number besides their id; readers require that both are equal.
        w.u8(id);
        w.u8(self.rule_type.0);
        let sizes = if features::has(features, features::SERVER_QUINCY) {
            [ANY_MIN_SIZE, ANY_MAX_SIZE]
        } else {
            [self.deprecated_min_size, self.deprecated_max_size]
        };
        w.raw(&sizes);
        for step in &self.steps {
            w.u32(step.op.0);
            w.i32(step.arg1);
            w.i32(step.arg2);
        }
    }
}

impl ChooseArg {
    fn encode(&self, w: &mut Writer) {
        w.list(&self.weight_sets, |w, set| w.list(set, |w, weight| w.u32(*weight)));
        w.list(&self.ids, |w, id| w.i32(*id));
    }
}

impl Names {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for (id, name) in self.iter() {
            w.i32(id);
            w.string(name);
        }
    }
}
