//! Rules: the programs that mapping runs.

/// Opcodes of rule steps.
pub mod op {
    pub const NOOP: u32 = 0;
    pub const TAKE: u32 = 1;
    pub const CHOOSE_FIRSTN: u32 = 2;
    pub const CHOOSE_INDEP: u32 = 3;
    pub const EMIT: u32 = 4;
    pub const CHOOSELEAF_FIRSTN: u32 = 6;
    pub const CHOOSELEAF_INDEP: u32 = 7;
    pub const SET_CHOOSE_TRIES: u32 = 8;
    pub const SET_CHOOSELEAF_TRIES: u32 = 9;
    pub const SET_CHOOSE_LOCAL_TRIES: u32 = 10;
    pub const SET_CHOOSE_LOCAL_FALLBACK_TRIES: u32 = 11;
    pub const SET_CHOOSELEAF_VARY_R: u32 = 12;
    pub const SET_CHOOSELEAF_STABLE: u32 = 13;
    pub const SET_MSR_DESCENTS: u32 = 14;
    pub const SET_MSR_COLLISION_TRIES: u32 = 15;
    pub const CHOOSE_MSR: u32 = 16;

    /// Returns the name that `osd crush rule dump` prints.
    pub fn name(op: u32) -> &'static str {
        match op {
            NOOP => "noop",
            TAKE => "take",
            CHOOSE_FIRSTN => "choose_firstn",
            CHOOSE_INDEP => "choose_indep",
            EMIT => "emit",
            CHOOSELEAF_FIRSTN => "chooseleaf_firstn",
            CHOOSELEAF_INDEP => "chooseleaf_indep",
            SET_CHOOSE_TRIES => "set_choose_tries",
            SET_CHOOSELEAF_TRIES => "set_chooseleaf_tries",
            SET_CHOOSE_LOCAL_TRIES => "set_choose_local_tries",
            SET_CHOOSE_LOCAL_FALLBACK_TRIES => "set_choose_local_fallback_tries",
            SET_CHOOSELEAF_VARY_R => "set_chooseleaf_vary_r",
            SET_CHOOSELEAF_STABLE => "set_chooseleaf_stable",
            SET_MSR_DESCENTS => "set_msr_descents",
            SET_MSR_COLLISION_TRIES => "set_msr_collision_tries",
            CHOOSE_MSR => "choose_msr",
            _ => "unknown",
        }
    }
}

/// Type of the pools that a rule is for, as a number of the binary form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleKind(pub u8);

impl RuleKind {
    pub const REPLICATED: RuleKind = RuleKind(1);
    pub const ERASURE: RuleKind = RuleKind(3);
    pub const MSR_FIRSTN: RuleKind = RuleKind(4);
    pub const MSR_INDEP: RuleKind = RuleKind(5);
}

/// One step. The meaning of the arguments depends on the opcode: TAKE (item), CHOOSE* (count, type), SET_* (value).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub op: u32,
    pub arg1: i32,
    pub arg2: i32,
}

impl Step {
    pub const EMIT: Step = Step { op: op::EMIT, arg1: 0, arg2: 0 };

    pub const fn take(item: i32) -> Step {
        Step { op: op::TAKE, arg1: item, arg2: 0 }
    }

    pub const fn new(op: u32, arg1: i32, arg2: i32) -> Step {
        Step { op, arg1, arg2 }
    }
}

/// A rule. Its number is its slot in the map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Number by which old pools name the rule; equals the rule's slot in every map since Luminous.
    pub ruleset: u8,
    pub kind: RuleKind,
    /// Smallest and largest pool size the rule is for.
    pub min_size: u8,
    pub max_size: u8,
    pub steps: Vec<Step>,
}
