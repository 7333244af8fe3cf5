//! Weight sets: weights (and ids) that replace a bucket's own for mapping only, as the balancer makes them.

use std::collections::BTreeMap;

/// Index of the weight set that pools without one of their own use.
pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

/// Replacements for one bucket.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ChooseArg {
    /// Weights of the bucket's items for each place in the result; the last set serves all further places. May be
    /// empty.
    pub weight_sets: Vec<Vec<u32>>,
    /// Ids to hash instead of the items' own. Empty: the items' own.
    pub ids: Vec<i32>,
}

impl ChooseArg {
    pub fn is_empty(&self) -> bool {
        self.weight_sets.is_empty() && self.ids.is_empty()
    }
}

/// One set of replacements.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ChooseArgs {
    /// Replacements by bucket slot (`-1 - id`). Only straw2 buckets have entries; lengths follow the bucket's size.
    pub(crate) by_slot: BTreeMap<u32, ChooseArg>,
}

impl ChooseArgs {
    /// Makes a set from bucket ids with their replacements; empty ones are left out.
    pub fn new(args: impl IntoIterator<Item = (i32, ChooseArg)>) -> ChooseArgs {
        let kept = args.into_iter().filter(|(id, arg)| *id < 0 && !arg.is_empty());
        ChooseArgs { by_slot: kept.map(|(id, arg)| ((-1 - id) as u32, arg)).collect() }
    }

    /// Returns the replacements for bucket `id`, if any.
    #[inline]
    pub fn get(&self, id: i32) -> Option<&ChooseArg> {
        if self.by_slot.is_empty() { None } else { self.by_slot.get(&((-1 - id) as u32)) }
    }

    /// Returns the bucket ids with their replacements.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &ChooseArg)> {
        self.by_slot.iter().map(|(slot, arg)| (-1 - *slot as i32, arg))
    }

    /// Returns the number of places that weight sets distinguish; 1 where there are none.
    pub fn positions(&self) -> usize {
        self.by_slot.values().map(|arg| arg.weight_sets.len()).find(|n| *n > 0).unwrap_or(1)
    }
}
