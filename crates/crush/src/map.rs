//! The map and its getters.

use crate::{Bucket, ChooseArgs, DEFAULT_CHOOSE_ARGS, Rule, RuleKind, Tunables};
use std::collections::{BTreeMap, BTreeSet};

/// Weight 1.0 in 16.16 fixed point: by convention one TiB, or for reweights "fully in".
pub const WEIGHT_ONE: u32 = 0x1_0000;

/// Largest depth of a hierarchy. Ceph's own limit is 10 levels.
pub(crate) const DEPTH_MAX: usize = 32;

/// Returns the types every new map has: (number, name).
pub fn default_types() -> [(i32, &'static str); 12] {
    [
        (0, "osd"),
        (1, "host"),
        (2, "chassis"),
        (3, "rack"),
        (4, "row"),
        (5, "pdu"),
        (6, "pod"),
        (7, "room"),
        (8, "datacenter"),
        (9, "zone"),
        (10, "region"),
        (11, "root"),
    ]
}

/// A hierarchy of buckets over devices, with the rules that place onto it.
///
/// Items are devices (OSDs, ids from 0) and buckets (ids below 0). Weights are 16.16 fixed point. For every device
/// class there is a *shadow* tree of the buckets restricted to that class, with buckets named `bucket~class`; it is
/// kept in step with every change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrushMap {
    /// Buckets by slot, `-1 - id`.
    pub(crate) buckets: Vec<Option<Bucket>>,
    pub(crate) rules: Vec<Option<Rule>>,
    /// Device count as the binary form carries it: grows with new devices and does not shrink by itself. Mapping goes
    /// by the highest device in any bucket instead, as Ceph does.
    pub(crate) max_devices: i32,
    pub(crate) types: BTreeMap<i32, String>,
    pub(crate) names: BTreeMap<i32, String>,
    /// Inverse of `names`.
    pub(crate) ids: BTreeMap<String, i32>,
    pub(crate) rule_names: BTreeMap<i32, String>,
    pub(crate) tunables: Tunables,
    /// Class of each device, and of each shadow bucket.
    pub(crate) classes: BTreeMap<i32, i32>,
    pub(crate) class_names: BTreeMap<i32, String>,
    /// Shadow buckets by original bucket, then class.
    pub(crate) shadows: BTreeMap<i32, BTreeMap<i32, i32>>,
    pub(crate) choose_args: BTreeMap<i64, ChooseArgs>,
    /// The number one above the highest device in any bucket; follows from `buckets`.
    pub(crate) device_limit: i32,
    /// The bucket that each item is in; follows from `buckets`, see [`CrushMap::parent`].
    pub(crate) parents: BTreeMap<i32, i32>,
}

impl CrushMap {
    /// Returns a map with the default types, the default tunables and nothing else.
    pub fn new() -> CrushMap {
        CrushMap {
            buckets: Vec::new(),
            rules: Vec::new(),
            max_devices: 0,
            types: default_types().into_iter().map(|(n, name)| (n, name.to_owned())).collect(),
            names: BTreeMap::new(),
            ids: BTreeMap::new(),
            rule_names: BTreeMap::new(),
            tunables: Tunables::default(),
            classes: BTreeMap::new(),
            class_names: BTreeMap::new(),
            shadows: BTreeMap::new(),
            choose_args: BTreeMap::new(),
            device_limit: 0,
            parents: BTreeMap::new(),
        }
    }

    pub fn tunables(&self) -> &Tunables {
        &self.tunables
    }

    pub fn set_tunables(&mut self, tunables: Tunables) {
        self.tunables = tunables;
    }

    // --- buckets and items ---

    /// Returns the bucket with `id`; `None` for devices and unknown ids.
    #[inline]
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        self.buckets.get(slot(id)?)?.as_ref()
    }

    /// Returns all buckets, shadows included, by slot: ids -1, -2, ...
    pub fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.iter().flatten()
    }

    /// Returns the number of bucket slots, empty ones included.
    pub fn max_buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the device count as the binary form carries it.
    pub fn max_devices(&self) -> i32 {
        self.max_devices
    }

    /// Makes the device count one above the highest device in any bucket. Ceph does so to each map that it reads, and
    /// checksums of OSD maps depend on it.
    pub fn recount_devices(&mut self) {
        self.max_devices = self.device_limit;
    }

    /// Returns the number one above the highest device in any bucket.
    pub(crate) fn device_limit(&self) -> i32 {
        self.device_limit
    }

    /// Returns true if `id` is a bucket or a named device. A device may exist without being in any bucket.
    pub fn item_exists(&self, id: i32) -> bool {
        self.names.contains_key(&id)
    }

    /// Returns true if some bucket has `id` among its items.
    pub fn is_linked(&self, id: i32) -> bool {
        self.buckets().any(|bucket| bucket.items.contains(&id))
    }

    /// Returns the name of a device or bucket.
    pub fn name(&self, id: i32) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// Returns the device or bucket called `name`.
    pub fn id(&self, name: &str) -> Option<i32> {
        self.ids.get(name).copied()
    }

    /// Returns all named items, by id.
    pub fn names(&self) -> impl Iterator<Item = (i32, &str)> {
        self.names.iter().map(|(id, name)| (*id, name.as_str()))
    }

    /// Returns all devices that are in some bucket.
    pub fn devices(&self) -> BTreeSet<i32> {
        self.buckets().flat_map(|bucket| &bucket.items).copied().filter(|item| *item >= 0).collect()
    }

    /// Returns the type number of an item: 0 for devices.
    pub fn kind(&self, id: i32) -> Option<u16> {
        if id >= 0 { Some(0) } else { self.bucket(id).map(|bucket| bucket.kind) }
    }

    pub fn type_name(&self, kind: u16) -> Option<&str> {
        self.types.get(&kind.into()).map(String::as_str)
    }

    /// Returns the number of the type called `name`.
    pub fn type_id(&self, name: &str) -> Option<u16> {
        self.types.iter().find(|(_, n)| *n == name).and_then(|(id, _)| u16::try_from(*id).ok())
    }

    /// Returns the types by number.
    pub fn types(&self) -> impl Iterator<Item = (i32, &str)> {
        self.types.iter().map(|(id, name)| (*id, name.as_str()))
    }

    /// Returns the buckets that are in no other bucket, lowest id first. Shadow roots are among them.
    pub fn roots(&self) -> Vec<i32> {
        let linked: BTreeSet<i32> = self.buckets().flat_map(|bucket| &bucket.items).copied().collect();
        let mut roots: Vec<i32> = self.buckets().map(|bucket| bucket.id).filter(|id| !linked.contains(id)).collect();
        roots.sort_unstable();
        roots
    }

    /// Returns true if `item` is `root` or below it.
    pub fn subtree_contains(&self, root: i32, item: i32) -> bool {
        root == item
            || self.bucket(root).is_some_and(|bucket| bucket.items.iter().any(|i| self.subtree_contains(*i, item)))
    }

    /// Returns the devices at or below `root`, in the order of a depth-first walk.
    pub fn leaves(&self, root: i32) -> Vec<i32> {
        fn walk(map: &CrushMap, item: i32, leaves: &mut Vec<i32>) {
            if item >= 0 {
                leaves.push(item);
            } else if let Some(bucket) = map.bucket(item) {
                bucket.items.iter().for_each(|i| walk(map, *i, leaves));
            }
        }
        let mut leaves = Vec::new();
        walk(self, root, &mut leaves);
        leaves
    }

    /// Returns the first bucket, by slot, that has `id` among its items; shadow buckets do not count.
    pub fn parent(&self, id: i32) -> Option<i32> {
        self.parents.get(&id).copied()
    }

    /// Returns the weight of an item: a bucket's own, a device's in the first bucket, by slot, that has it.
    pub fn item_weight(&self, id: i32) -> Option<u32> {
        if id < 0 {
            return self.bucket(id).map(|bucket| bucket.weight);
        }
        self.buckets().find_map(|bucket| bucket.position(id).map(|index| bucket.item_weight(index)))
    }

    // --- device classes ---

    /// Returns the class of a device, or of a shadow bucket.
    pub fn class_of(&self, id: i32) -> Option<&str> {
        self.class_names.get(self.classes.get(&id)?).map(String::as_str)
    }

    /// Returns the classes by number.
    pub fn classes(&self) -> impl Iterator<Item = (i32, &str)> {
        self.class_names.iter().map(|(id, name)| (*id, name.as_str()))
    }

    pub fn class_id(&self, name: &str) -> Option<i32> {
        self.class_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }

    /// Returns the devices of a class.
    pub fn devices_of_class(&self, class: &str) -> BTreeSet<i32> {
        let Some(class) = self.class_id(class) else { return BTreeSet::new() };
        self.classes.iter().filter(|(id, c)| **id >= 0 && **c == class).map(|(id, _)| *id).collect()
    }

    /// Returns the shadow of `bucket` for a class.
    pub fn shadow(&self, bucket: i32, class: &str) -> Option<i32> {
        self.shadows.get(&bucket)?.get(&self.class_id(class)?).copied()
    }

    /// Returns true if `id` is a shadow bucket.
    pub fn is_shadow(&self, id: i32) -> bool {
        id < 0 && self.name(id).is_some_and(|name| name.contains('~'))
    }

    /// Returns bucket and class of a bucket whose name may be a shadow's (`default~ssd`): the original bucket and the
    /// class; a class of `None` if it is no shadow.
    pub fn split_class(&self, id: i32) -> Option<(i32, Option<i32>)> {
        let name = self.name(id)?;
        match name.split_once('~') {
            None => Some((id, None)),
            Some((original, class)) => Some((self.id(original)?, Some(self.class_id(class)?))),
        }
    }

    // --- rules ---

    /// Returns rule number `rule`.
    pub fn rule(&self, rule: u32) -> Option<&Rule> {
        self.rules.get(rule as usize)?.as_ref()
    }

    /// Returns the rules with their numbers.
    pub fn rules(&self) -> impl Iterator<Item = (u32, &Rule)> {
        self.rules.iter().enumerate().filter_map(|(n, rule)| Some((n as u32, rule.as_ref()?)))
    }

    pub fn rule_name(&self, rule: u32) -> Option<&str> {
        self.rule_names.get(&(rule as i32)).map(String::as_str)
    }

    pub fn rule_by_name(&self, name: &str) -> Option<u32> {
        self.rule_names.iter().find(|(_, n)| *n == name).map(|(rule, _)| *rule as u32)
    }

    /// Returns the rule that a pool uses: the first whose ruleset, type and size range fit, as Pacific chooses.
    pub fn find_rule(&self, ruleset: u8, kind: RuleKind, size: u32) -> Option<u32> {
        let fits = |rule: &Rule| {
            let sizes = u32::from(rule.min_size)..=u32::from(rule.max_size);
            rule.ruleset == ruleset && rule.kind == kind && sizes.contains(&size)
        };
        self.rules().find(|(_, rule)| fits(rule)).map(|(n, _)| n)
    }

    /// Returns the buckets and devices that the TAKE steps of a rule start from.
    pub fn rule_takes(&self, rule: u32) -> BTreeSet<i32> {
        let steps = self.rule(rule).map(|rule| rule.steps.as_slice()).unwrap_or_default();
        steps.iter().filter(|step| step.op == crate::op::TAKE).map(|step| step.arg1).collect()
    }

    /// Returns the share of the data that a rule puts on each device, by the weights alone: sums to 1 per TAKE.
    pub fn rule_weights(&self, rule: u32) -> BTreeMap<i32, f64> {
        let mut shares = BTreeMap::new();
        for take in self.rule_takes(rule) {
            let mut weights = BTreeMap::new();
            self.add_device_weights(take, &mut weights);
            let sum: f64 = weights.values().sum();
            for (device, weight) in weights.into_iter().filter(|_| sum > 0.0) {
                *shares.entry(device).or_insert(0.0) += weight / sum;
            }
        }
        shares
    }

    fn add_device_weights(&self, item: i32, weights: &mut BTreeMap<i32, f64>) {
        if item >= 0 {
            weights.insert(item, 1.0);
        }
        for (child, weight) in self.bucket(item).into_iter().flat_map(Bucket::weighted_items) {
            if child >= 0 {
                weights.insert(child, f64::from(weight) / f64::from(WEIGHT_ONE));
            } else {
                self.add_device_weights(child, weights);
            }
        }
    }

    // --- weight sets ---

    /// Returns the weight set of a pool: its own, else the default one, else none.
    pub fn choose_args_for(&self, pool: i64) -> Option<&ChooseArgs> {
        if self.choose_args.is_empty() {
            return None;
        }
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&DEFAULT_CHOOSE_ARGS))
    }

    /// Returns all weight sets by index: a pool's number or [`DEFAULT_CHOOSE_ARGS`].
    pub fn choose_args(&self) -> impl Iterator<Item = (i64, &ChooseArgs)> {
        self.choose_args.iter().map(|(index, args)| (*index, args))
    }

    /// Recomputes the fields that follow from the buckets.
    pub(crate) fn finalize(&mut self) {
        let highest = self.buckets.iter().flatten().flat_map(|bucket| &bucket.items).copied().max();
        self.device_limit = highest.map_or(0, |item| item.max(-1).saturating_add(1));
        let mut parents = BTreeMap::new();
        for bucket in self.buckets.iter().flatten().filter(|bucket| !self.is_shadow(bucket.id)) {
            for item in &bucket.items {
                parents.entry(*item).or_insert(bucket.id);
            }
        }
        self.parents = parents;
    }

    /// Returns a bucket on a cycle or too deep, if there is one. Everything else relies on there being none.
    pub(crate) fn misshapen(&self) -> Option<i32> {
        #[derive(Clone, Copy)]
        enum Mark {
            New,
            Open,
            Done(usize),
        }
        let mut marks = vec![Mark::New; self.buckets.len()];
        // Each entry is a slot, the index of the next item to look at, and the height found so far.
        let mut stack: Vec<(usize, usize, usize)> = Vec::new();
        for start in 0..self.buckets.len() {
            if matches!(marks[start], Mark::New) {
                stack.push((start, 0, 1));
                marks[start] = Mark::Open;
            }
            while let Some((at, next, height)) = stack.pop() {
                let items = self.buckets[at].as_ref().map(|b| b.items.as_slice()).unwrap_or_default();
                if height > DEPTH_MAX || stack.len() > DEPTH_MAX {
                    return Some(-1 - at as i32);
                }
                let Some(item) = items.get(next) else {
                    marks[at] = Mark::Done(height);
                    if let Some(parent) = stack.last_mut() {
                        parent.2 = parent.2.max(height + 1);
                    }
                    continue;
                };
                stack.push((at, next + 1, height));
                let Some(below) = slot(*item).filter(|slot| *slot < self.buckets.len()) else { continue };
                match marks[below] {
                    Mark::New => {
                        marks[below] = Mark::Open;
                        stack.push((below, 0, 1));
                    }
                    Mark::Open => return Some(*item),
                    Mark::Done(below_height) => {
                        let last = stack.last_mut().expect("pushed above");
                        last.2 = last.2.max(below_height + 1);
                    }
                }
            }
        }
        None
    }
}

impl Default for CrushMap {
    fn default() -> CrushMap {
        CrushMap::new()
    }
}

/// Returns the slot of a bucket id; `None` for devices.
#[inline]
pub(crate) fn slot(id: i32) -> Option<usize> {
    if id < 0 { Some((-1 - id) as usize) } else { None }
}
