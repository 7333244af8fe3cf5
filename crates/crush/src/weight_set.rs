//! Making and changing weight sets.

use crate::map::slot;
use crate::{BucketAlg, BuildError, ChooseArg, ChooseArgs, CrushMap};

impl CrushMap {
    /// Makes the weight set `index` (a pool's number or [`crate::DEFAULT_CHOOSE_ARGS`]) a copy of the buckets' own
    /// weights, equal for each of `places` places in the result. Returns false if there is one already.
    pub fn create_weight_set(&mut self, index: i64, places: usize) -> Result<bool, BuildError> {
        if let Some(bucket) = self.buckets().find(|bucket| bucket.alg() != BucketAlg::Straw2) {
            return Err(BuildError::UnsupportedBucket { id: bucket.id, alg: bucket.alg() });
        }
        if self.choose_args.contains_key(&index) {
            return Ok(false);
        }
        let args = self.buckets().map(|bucket| {
            let weights: Vec<u32> = bucket.weighted_items().map(|(_, weight)| weight).collect();
            (bucket.id, ChooseArg { weight_sets: vec![weights; places], ids: Vec::new() })
        });
        let args = ChooseArgs::new(args.collect::<Vec<_>>());
        self.choose_args.insert(index, args);
        Ok(true)
    }

    /// Removes a weight set. Returns true if there was one.
    pub fn remove_weight_set(&mut self, index: i64) -> bool {
        self.choose_args.remove(&index).is_some()
    }

    /// Sets an item's weights, one per place, in a weight set, in every bucket that has the item, and the sums above
    /// it. Returns the number of these buckets.
    pub fn reweight_in_weight_set(&mut self, index: i64, item: &str, weights: &[u32]) -> Result<usize, BuildError> {
        let id = self.id(item).ok_or_else(|| BuildError::NoItem(item.to_owned()))?;
        let args = self.choose_args.get(&index).ok_or(BuildError::NoWeightSet(index))?;
        if args.positions() != weights.len() {
            return Err(BuildError::WeightSetPlaces { places: args.positions(), given: weights.len() });
        }
        let mut next = args.clone();
        let changed = self.reweight_above(&mut next, id, weights)?;
        self.choose_args.insert(index, next);
        Ok(changed)
    }

    fn reweight_above(&self, args: &mut ChooseArgs, id: i32, weights: &[u32]) -> Result<usize, BuildError> {
        let mut changed = 0;
        for parent in self.buckets() {
            let Some(at) = parent.position(id) else { continue };
            let own = slot(parent.id).expect("a bucket") as u32;
            let Some(arg) = args.by_slot.get_mut(&own).filter(|arg| !arg.weight_sets.is_empty()) else { continue };
            let mut sums = Vec::new();
            for (set, weight) in arg.weight_sets.iter_mut().zip(weights) {
                set[at] = *weight;
                let sum = set.iter().try_fold(0u32, |sum, weight| sum.checked_add(*weight));
                sums.push(sum.ok_or(BuildError::WeightOverflow(parent.id))?);
            }
            changed += 1;
            self.reweight_above(args, parent.id, &sums)?;
        }
        Ok(changed)
    }
}
