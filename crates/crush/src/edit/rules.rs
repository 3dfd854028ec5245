//! Rules created by commands.

use super::shadows;
use crate::map::CrushMap;
use crate::names::is_valid_name;
use crate::rule::{Op, RULES_MAX, Rule, RuleType, Step};
use thiserror::Error;

/// Kind of pools that a simple rule serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// Results close gaps (`firstn`).
    Replicated,
    /// Results keep their positions (`indep`), with more tries since each shard must be found.
    Erasure,
}

/// A rule that spreads over buckets of one type below one root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimpleRule<'a> {
    /// Name of the new rule.
    pub name: &'a str,
    /// Name of the bucket from which the rule starts.
    pub root: &'a str,
    /// The type of buckets of which each holds at most one of the devices; empty for devices.
    pub failure_domain: &'a str,
    /// Only devices of this class.
    pub class: Option<&'a str>,
    /// Kind of pools that the rule serves.
    pub kind: RuleKind,
}

/// A rule for the pools of an erasure code profile that bounds the failure domains, or places several
/// shards in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasureRule<'a> {
    /// Name of the new rule.
    pub name: &'a str,
    /// Name of the bucket from which the rule starts.
    pub root: &'a str,
    /// The type of buckets over which shards are spread.
    pub failure_domain: &'a str,
    /// Only devices of this class.
    pub class: Option<&'a str>,
    /// Failure domains of a group (`crush-num-failure-domains`); zero for as many as the pool's size.
    pub domains: u16,
    /// Devices in each of them (`crush-osds-per-failure-domain`); more than one makes a multi-step retry
    /// rule, which clients before Squid do not understand.
    pub devices_per_domain: u16,
}

/// Reason why a rule cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddRuleError {
    /// Another rule has the name.
    #[error("rule {name} exists")]
    NameTaken {
        /// Name that was given.
        name: String,
    },
    /// The name is empty or has characters that names must not have.
    #[error("rule name '{name}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName {
        /// Name that was given.
        name: String,
    },
    /// The map has no such bucket.
    #[error("root item {root} does not exist")]
    NoSuchRoot {
        /// Name that was given.
        root: String,
    },
    /// The map has no such bucket type.
    #[error("unknown type {failure_domain}")]
    NoSuchType {
        /// Name that was given.
        failure_domain: String,
    },
    /// The map has no such device class.
    #[error("device class {class} does not exist")]
    NoSuchClass {
        /// Name that was given.
        class: String,
    },
    /// There are no devices of the class below the root.
    #[error("root {root} has no devices with class {class}")]
    EmptyClass {
        /// Name of the root.
        root: String,
        /// Name of the class.
        class: String,
    },
    /// All [`crate::RULES_MAX`] rule ids are in use.
    #[error("all {} rule ids are taken", RULES_MAX)]
    Full,
}

const ERASURE_LEAF_TRIES: i32 = 5;
const ERASURE_TRIES: i32 = 100;
/// Chooses as many as the pool's size.
const CHOOSE_ALL: i32 = 0;

pub(super) fn add_simple_rule(
    crush: &mut CrushMap,
    simple: &SimpleRule<'_>,
) -> Result<u32, AddRuleError> {
    check_rule_name(crush, simple.name)?;
    let root = crush.item_id(simple.root);
    let root = root.ok_or_else(|| AddRuleError::NoSuchRoot { root: simple.root.into() })?;
    let type_id = domain_type(crush, simple.failure_domain)?;
    let root = match simple.class {
        None => root,
        Some(class) => root_of_class(crush, root, simple.root, class)?,
    };
    let rule = simple_rule(simple.kind, root, type_id, CHOOSE_ALL);
    add_rule(crush, simple.name, rule)
}

pub(super) fn add_erasure_rule(
    crush: &mut CrushMap,
    wanted: &ErasureRule<'_>,
) -> Result<u32, AddRuleError> {
    check_rule_name(crush, wanted.name)?;
    let root = crush.item_id(wanted.root);
    let root = root.ok_or_else(|| AddRuleError::NoSuchRoot { root: wanted.root.into() })?;
    let type_id = domain_type(crush, wanted.failure_domain)?;
    let root = match wanted.class {
        None => root,
        Some(class) => root_of_class(crush, root, wanted.root, class)?,
    };
    let rule = match wanted.devices_per_domain {
        ..=1 => simple_rule(RuleKind::Erasure, root, type_id, wanted.domains.into()),
        devices => retrying_rule(root, type_id, wanted.domains, devices),
    };
    add_rule(crush, wanted.name, rule)
}

fn domain_type(crush: &CrushMap, name: &str) -> Result<u16, AddRuleError> {
    let type_id = match name {
        "" => Some(crate::TYPE_DEVICE),
        name => crush.type_id(name),
    };
    type_id.ok_or_else(|| AddRuleError::NoSuchType { failure_domain: name.to_string() })
}

pub(super) fn add_rule(crush: &mut CrushMap, name: &str, rule: Rule) -> Result<u32, AddRuleError> {
    check_rule_name(crush, name)?;
    let vacant = crush.rules.iter().position(Option::is_none).unwrap_or(crush.rules.len());
    if vacant >= RULES_MAX {
        return Err(AddRuleError::Full);
    }
    if vacant == crush.rules.len() {
        crush.rules.push(None);
    }
    crush.rules[vacant] = Some(rule);
    crush.rule_names.set(vacant as i32, name);
    Ok(vacant as u32)
}

pub(super) fn remove_rule(crush: &mut CrushMap, id: u32) -> bool {
    let Some(rule) = crush.rules.get_mut(id as usize) else { return false };
    let existed = rule.take().is_some();
    if existed {
        crush.rule_names.remove(id as i32);
        shadows::update_derived(crush);
    }
    existed
}

fn check_rule_name(crush: &CrushMap, name: &str) -> Result<(), AddRuleError> {
    if !is_valid_name(name) {
        return Err(AddRuleError::InvalidName { name: name.into() });
    }
    match crush.rule_id(name) {
        Some(_) => Err(AddRuleError::NameTaken { name: name.into() }),
        None => Ok(()),
    }
}

fn root_of_class(
    crush: &CrushMap,
    root: i32,
    name: &str,
    class: &str,
) -> Result<i32, AddRuleError> {
    let Some(class_id) = crush.class_id(class) else {
        return Err(AddRuleError::NoSuchClass { class: class.into() });
    };
    let empty = || AddRuleError::EmptyClass { root: name.into(), class: class.into() };
    crush.shadow(root, class_id).ok_or_else(empty)
}

/// A multi-step retry rule: if a device is out, its failure domain is chosen again, too.
fn retrying_rule(root: i32, type_id: u16, domains: u16, devices: u16) -> Rule {
    assert!(devices > 1, "one device in each domain needs no such rule");
    let steps = vec![
        Step::new(Op::TAKE, root, 0),
        Step::new(Op::CHOOSE_MSR, domains.into(), type_id.into()),
        Step::new(Op::CHOOSE_MSR, devices.into(), crate::TYPE_DEVICE.into()),
        Step::new(Op::EMIT, 0, 0),
    ];
    Rule::new(RuleType::MSR_INDEP, steps)
}

fn simple_rule(kind: RuleKind, root: i32, type_id: u16, count: i32) -> Rule {
    let is_device = type_id == crate::TYPE_DEVICE;
    let (rule_type, op) = match (kind, is_device) {
        (RuleKind::Replicated, false) => (RuleType::REPLICATED, Op::CHOOSELEAF_FIRSTN),
        (RuleKind::Replicated, true) => (RuleType::REPLICATED, Op::CHOOSE_FIRSTN),
        (RuleKind::Erasure, false) => (RuleType::ERASURE, Op::CHOOSELEAF_INDEP),
        (RuleKind::Erasure, true) => (RuleType::ERASURE, Op::CHOOSE_INDEP),
    };
    let mut steps = Vec::new();
    if kind == RuleKind::Erasure {
        steps.push(Step::new(Op::SET_CHOOSELEAF_TRIES, ERASURE_LEAF_TRIES, 0));
        steps.push(Step::new(Op::SET_CHOOSE_TRIES, ERASURE_TRIES, 0));
    }
    steps.push(Step::new(Op::TAKE, root, 0));
    steps.push(Step::new(op, count, type_id.into()));
    steps.push(Step::new(Op::EMIT, 0, 0));
    Rule::new(rule_type, steps)
}
