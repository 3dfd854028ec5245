//! Formatting of the CRUSH map and its rules.

use crate::command::number;
use crush::{CrushMap, Op, Rule, Step, Tunables};
use serde_json::{Value, json};

/// `osd crush dump`
pub fn json(crush: &CrushMap) -> Value {
    let mut value = json!({
        "devices": devices(crush),
        "types": types(crush),
        "buckets": crush.buckets().map(|bucket| bucket_json(crush, bucket)).collect::<Vec<_>>(),
        "rules": rules(crush),
        "tunables": tunables(crush),
    });
    value["choose_args"] = choose_args(crush);
    value
}

fn devices(crush: &CrushMap) -> Vec<Value> {
    let names = crush.item_names().filter(|(id, _)| *id >= 0);
    let device = |(id, name): (i32, &str)| match crush.item_class(id) {
        Some(class) => json!({ "id": id, "name": name, "class": class }),
        None => json!({ "id": id, "name": name }),
    };
    names.map(device).collect()
}

fn types(crush: &CrushMap) -> Vec<Value> {
    crush.types().map(|(id, name)| json!({ "type_id": id, "name": name })).collect()
}

fn bucket_json(crush: &CrushMap, bucket: &crush::Bucket) -> Value {
    let items = bucket.items().iter().enumerate().map(|(position, id)| {
        json!({ "id": id, "weight": bucket.item_weight(position), "pos": position })
    });
    json!({
        "id": bucket.id(),
        "name": crush.item_name(bucket.id()).unwrap_or_default(),
        "type_id": bucket.type_id(),
        "type_name": crush.type_name(bucket.type_id()).unwrap_or_default(),
        "weight": bucket.weight(),
        "alg": bucket.algorithm().name(),
        "hash": "rjenkins1",
        "items": items.collect::<Vec<_>>(),
    })
}

/// `osd crush rule dump`
pub fn rules(crush: &CrushMap) -> Vec<Value> {
    crush.rules().map(|(id, one)| rule(crush, id, one)).collect()
}

/// One rule, as in `osd crush rule dump`.
pub fn rule(crush: &CrushMap, id: u32, rule: &Rule) -> Value {
    json!({
        "rule_id": id,
        "rule_name": crush.rule_name(id).unwrap_or_default(),
        "type": rule.rule_type.0,
        "steps": rule.steps.iter().map(|step| step_json(crush, step)).collect::<Vec<_>>(),
    })
}

fn step_json(crush: &CrushMap, step: &Step) -> Value {
    let op = step.op.name().unwrap_or("unknown");
    match step.op {
        Op::TAKE => json!({
            "op": op,
            "item": step.arg1,
            "item_name": crush.item_name(step.arg1).unwrap_or_default(),
        }),
        Op::NOOP | Op::EMIT => json!({ "op": op }),
        Op::CHOOSE_FIRSTN
        | Op::CHOOSE_INDEP
        | Op::CHOOSELEAF_FIRSTN
        | Op::CHOOSELEAF_INDEP
        | Op::CHOOSE_MSR => {
            let kind = u16::try_from(step.arg2).ok().and_then(|kind| crush.type_name(kind));
            json!({ "op": op, "num": step.arg1, "type": kind.unwrap_or_default() })
        }
        _ => json!({ "op": op, "num": step.arg1 }),
    }
}

/// `osd crush show-tunables`
pub fn tunables(crush: &CrushMap) -> Value {
    let tunables = &crush.tunables;
    let profile = tunables.profile();
    let is = |wanted: bool| u8::from(wanted);
    let straw2 = crush.buckets().any(|bucket| bucket.algorithm() == crush::Algorithm::Straw2);
    let indep = |rule: &Rule| {
        rule.steps.iter().any(|step| matches!(step.op, Op::CHOOSE_INDEP | Op::CHOOSELEAF_INDEP))
    };
    json!({
        "choose_local_tries": tunables.choose_local_tries,
        "choose_local_fallback_tries": tunables.choose_local_fallback_tries,
        "choose_total_tries": tunables.choose_total_tries,
        "chooseleaf_descend_once": tunables.chooseleaf_descend_once,
        "chooseleaf_vary_r": tunables.chooseleaf_vary_r,
        "chooseleaf_stable": tunables.chooseleaf_stable,
        "straw_calc_version": tunables.straw_calc_version,
        "allowed_bucket_algs": tunables.allowed_bucket_algs,
        "profile": profile.map_or("unknown", crush::Profile::name),
        "optimal_tunables": is(*tunables == Tunables::optimal()),
        "legacy_tunables": is(*tunables == Tunables::legacy()),
        "minimum_required_version": match crush::requirements::minimum_required_version(crush) {
            "squid" => "squid",
            _ => profile.map_or("jewel", crush::Profile::name),
        },
        "require_feature_tunables": is(tunables.choose_local_tries != 2),
        "require_feature_tunables2": is(tunables.chooseleaf_descend_once != 0),
        "has_v2_rules": is(crush.rules().any(|(_, rule)| indep(rule))),
        "require_feature_tunables3": is(tunables.chooseleaf_vary_r != 0),
        "has_v3_rules": 0,
        "has_v4_buckets": is(straw2),
        "require_feature_tunables5": is(tunables.chooseleaf_stable != 0),
        "has_v5_rules": 0,
    })
}

fn choose_args(crush: &CrushMap) -> Value {
    let sets = crush.choose_args().map(|(pool, args)| {
        let entries = args.iter().map(|(bucket, arg)| {
            let weights: Vec<Vec<Value>> = arg
                .weight_sets
                .iter()
                .map(|set| set.iter().map(|w| number(f64::from(*w) / 65536.0)).collect())
                .collect();
            json!({ "bucket_id": bucket, "weight_set": weights })
        });
        (pool.to_string(), Value::from(entries.collect::<Vec<_>>()))
    });
    Value::Object(sets.collect())
}
