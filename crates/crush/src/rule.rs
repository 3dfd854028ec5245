//! Rules: short programs that walk the map.

/// Rule ids fit in a byte (`CRUSH_MAX_RULES`).
pub const RULES_MAX: usize = 256;

/// Operation of a step (`crush_opcodes`). Unknown operations are kept and ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op(pub u32);

impl Op {
    /// `CRUSH_RULE_NOOP`
    pub const NOOP: Op = Op(0);
    /// Start at item `arg1`.
    pub const TAKE: Op = Op(1);
    /// Choose `arg1` items of type `arg2`; zero or less counts from the result size.
    pub const CHOOSE_FIRSTN: Op = Op(2);
    /// As [`Op::CHOOSE_FIRSTN`], with positions that are kept: a failure leaves a gap.
    pub const CHOOSE_INDEP: Op = Op(3);
    /// Append the chosen items to the result.
    pub const EMIT: Op = Op(4);
    /// Choose `arg1` items of type `arg2` and a device below each.
    pub const CHOOSELEAF_FIRSTN: Op = Op(6);
    /// As [`Op::CHOOSELEAF_FIRSTN`], with positions that are kept.
    pub const CHOOSELEAF_INDEP: Op = Op(7);
    /// Override [`Tunables::choose_total_tries`](crate::Tunables::choose_total_tries) for this rule.
    pub const SET_CHOOSE_TRIES: Op = Op(8);
    /// Set the number of tries of the leaf search.
    pub const SET_CHOOSELEAF_TRIES: Op = Op(9);
    /// Override the tunable `choose_local_tries`.
    pub const SET_CHOOSE_LOCAL_TRIES: Op = Op(10);
    /// Override the tunable `choose_local_fallback_tries`.
    pub const SET_CHOOSE_LOCAL_FALLBACK_TRIES: Op = Op(11);
    /// Override the tunable `chooseleaf_vary_r`.
    pub const SET_CHOOSELEAF_VARY_R: Op = Op(12);
    /// Override the tunable `chooseleaf_stable`.
    pub const SET_CHOOSELEAF_STABLE: Op = Op(13);
    /// Override the tunable `msr_descents`.
    pub const SET_MSR_DESCENTS: Op = Op(14);
    /// Override the tunable `msr_collision_tries`.
    pub const SET_MSR_COLLISION_TRIES: Op = Op(15);
    /// Choose `arg1` items of type `arg2` in a multi-step retry rule.
    pub const CHOOSE_MSR: Op = Op(16);

    /// The name in dumps and in decompiled maps.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Op::NOOP => "noop",
            Op::TAKE => "take",
            Op::CHOOSE_FIRSTN => "choose_firstn",
            Op::CHOOSE_INDEP => "choose_indep",
            Op::EMIT => "emit",
            Op::CHOOSELEAF_FIRSTN => "chooseleaf_firstn",
            Op::CHOOSELEAF_INDEP => "chooseleaf_indep",
            Op::SET_CHOOSE_TRIES => "set_choose_tries",
            Op::SET_CHOOSELEAF_TRIES => "set_chooseleaf_tries",
            Op::SET_CHOOSE_LOCAL_TRIES => "set_choose_local_tries",
            Op::SET_CHOOSE_LOCAL_FALLBACK_TRIES => "set_choose_local_fallback_tries",
            Op::SET_CHOOSELEAF_VARY_R => "set_chooseleaf_vary_r",
            Op::SET_CHOOSELEAF_STABLE => "set_chooseleaf_stable",
            Op::SET_MSR_DESCENTS => "set_msr_descents",
            Op::SET_MSR_COLLISION_TRIES => "set_msr_collision_tries",
            Op::CHOOSE_MSR => "choosemsr",
            _ => return None,
        })
    }
}

/// `crush_rule_step`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Operation.
    pub op: Op,
    /// First argument; its meaning depends on the operation.
    pub arg1: i32,
    /// Second argument; its meaning depends on the operation.
    pub arg2: i32,
}

impl Step {
    /// A step with both arguments.
    pub fn new(op: Op, arg1: i32, arg2: i32) -> Self {
        Step { op, arg1, arg2 }
    }
}

/// Kind of pools that a rule serves (`crush_rule_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleType(pub u8);

impl RuleType {
    /// For replicated pools.
    pub const REPLICATED: RuleType = RuleType(1);
    /// For erasure-coded pools.
    pub const ERASURE: RuleType = RuleType(3);
    /// A multi-step retry rule for replicated pools.
    pub const MSR_FIRSTN: RuleType = RuleType(4);
    /// A multi-step retry rule for erasure-coded pools.
    pub const MSR_INDEP: RuleType = RuleType(5);

    /// True for multi-step retry rules.
    pub fn is_msr(self) -> bool {
        matches!(self, RuleType::MSR_FIRSTN | RuleType::MSR_INDEP)
    }

    /// True if replicated pools may use the rule.
    pub fn serves_replicated(self) -> bool {
        matches!(self, RuleType::REPLICATED | RuleType::MSR_FIRSTN)
    }

    /// True if erasure-coded pools may use the rule.
    pub fn serves_erasure(self) -> bool {
        matches!(self, RuleType::ERASURE | RuleType::MSR_INDEP)
    }
}

/// `crush_rule`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Kind of pools that the rule serves.
    pub rule_type: RuleType,
    /// Former bounds of the pool's size; sent only to peers older than Quincy.
    pub deprecated_min_size: u8,
    /// Upper one of these bounds.
    pub deprecated_max_size: u8,
    /// The program.
    pub steps: Vec<Step>,
}

impl Rule {
    /// A rule with bounds that no reader observes.
    pub fn new(rule_type: RuleType, steps: Vec<Step>) -> Self {
        Rule { rule_type, deprecated_min_size: 1, deprecated_max_size: 100, steps }
    }

    /// Start items of the rule.
    pub fn takes(&self) -> impl Iterator<Item = i32> + '_ {
        self.steps.iter().filter(|step| step.op == Op::TAKE).map(|step| step.arg1)
    }

    /// True if the rule chooses devices once, in sequence, with later ones replacing rejected ones. Then a
    /// device outside of the result influences the result only by its rejection.
    pub fn is_simple(&self) -> bool {
        let mut choices = self.steps.iter().filter(|step| {
            !matches!(step.op, Op::TAKE | Op::EMIT | Op::NOOP)
                && !(Op::SET_CHOOSE_TRIES.0..=Op::SET_CHOOSELEAF_STABLE.0).contains(&step.op.0)
        });
        let (first, second) = (choices.next(), choices.next());
        let closes_up = |step: &Step| match step.op {
            Op::CHOOSELEAF_FIRSTN => true,
            Op::CHOOSE_FIRSTN => step.arg2 == i32::from(crate::TYPE_DEVICE),
            _ => false,
        };
        !self.rule_type.is_msr() && first.is_some_and(closes_up) && second.is_none()
    }
}
