//! Device classes and the shadow trees that rules for one class start from.

use crate::map::slot;
use crate::{BuildError, ChooseArg, CrushMap, op};
use std::collections::{BTreeMap, BTreeSet};

impl CrushMap {
    /// Binds a device to a class, which is made if need be. Returns true if anything changed.
    ///
    /// Errors: [`BuildError::ClassSet`] if it has another class: that must be removed first.
    pub fn set_device_class(&mut self, device: i32, class: &str) -> Result<bool, BuildError> {
        if self.class_of(device) == Some(class) && device >= 0 {
            return Ok(false);
        }
        self.change(|map| map.bind_class(device, class))?;
        Ok(true)
    }

    /// Binds a device to a class, and leaves shadow trees to their rebuild.
    pub(crate) fn bind_class(&mut self, device: i32, class: &str) -> Result<(), BuildError> {
        crate::build::check_name(class)?;
        if device < 0 || !self.item_exists(device) {
            return Err(BuildError::NoItemId(device));
        }
        match self.class_of(device) {
            Some(is) if is == class => {}
            Some(is) => return Err(BuildError::ClassSet { item: device, is: is.to_owned() }),
            None => {
                let class = self.make_class(class);
                self.classes.insert(device, class);
            }
        }
        Ok(())
    }

    /// Unbinds a device from its class. Returns true if it had one.
    pub fn remove_device_class(&mut self, device: i32) -> Result<bool, BuildError> {
        if device < 0 || !self.item_exists(device) {
            return Err(BuildError::NoItemId(device));
        }
        self.change(|map| Ok(map.classes.remove(&device).is_some()))
    }

    /// Makes a class without devices. It lasts until the next change unless a device joins it. Returns true if it is
    /// new.
    pub fn add_class(&mut self, class: &str) -> Result<bool, BuildError> {
        crate::build::check_name(class)?;
        let new = self.class_id(class).is_none();
        self.make_class(class);
        Ok(new)
    }

    /// Unbinds every device of a class and forgets the class.
    pub fn remove_class(&mut self, class: &str) -> Result<(), BuildError> {
        let id = self.class_id(class).ok_or_else(|| BuildError::NoClass(class.to_owned()))?;
        if self.class_in_use(id) {
            return Err(BuildError::ClassInUse(class.to_owned()));
        }
        self.change(|map| {
            map.classes.retain(|device, c| *device < 0 || *c != id);
            Ok(())
        })
    }

    /// Gives a class another name; rules keep working.
    pub fn rename_class(&mut self, from: &str, to: &str) -> Result<(), BuildError> {
        crate::build::check_name(to)?;
        let id = self.class_id(from).ok_or_else(|| BuildError::NoClass(from.to_owned()))?;
        if self.class_id(to).is_some() {
            return Err(BuildError::NameExists(to.to_owned()));
        }
        self.class_names.insert(id, to.to_owned());
        let shadows: Vec<(i32, i32)> =
            self.shadows.iter().filter_map(|(original, of)| Some((*original, *of.get(&id)?))).collect();
        for (original, shadow) in shadows {
            let name = format!("{}~{to}", self.name(original).unwrap_or_default());
            self.set_name(shadow, name);
        }
        Ok(())
    }

    fn make_class(&mut self, class: &str) -> i32 {
        self.class_id(class).unwrap_or_else(|| {
            let id = self.class_names.last_key_value().map_or(0, |(id, _)| id + 1);
            self.class_names.insert(id, class.to_owned());
            id
        })
    }

    /// Returns true if a rule starts from a shadow of this class.
    fn class_in_use(&self, class: i32) -> bool {
        let is_shadow = |item: i32| self.shadows.values().any(|of| of.get(&class) == Some(&item));
        self.rules().flat_map(|(_, rule)| &rule.steps).any(|step| step.op == op::TAKE && is_shadow(step.arg1))
    }

    /// Brings shadow trees into step with buckets and classes. Shadows keep their ids, so that rules and placements
    /// stay; classes with neither devices nor rules are forgotten.
    pub(crate) fn rebuild_shadows(&mut self) -> Result<(), BuildError> {
        let dead: Vec<i32> = self
            .class_names
            .keys()
            .copied()
            .filter(|class| {
                let has_devices = self.classes.iter().any(|(device, c)| *device >= 0 && c == class);
                !has_devices && !self.class_in_use(*class)
            })
            .collect();
        for class in dead {
            self.class_names.remove(&class);
        }
        let old = std::mem::take(&mut self.shadows);
        let shadows: Vec<i32> = self.buckets().map(|bucket| bucket.id).filter(|id| self.is_shadow(*id)).collect();
        for id in shadows {
            let at = slot(id).expect("a bucket");
            self.buckets[at] = None;
            self.remove_name(id);
            self.classes.remove(&id);
            self.choose_args.values_mut().for_each(|args| drop(args.by_slot.remove(&(at as u32))));
        }
        if self.class_names.is_empty() {
            return Ok(());
        }
        let taken: BTreeSet<i32> = old.values().flat_map(|of| of.values().copied()).collect();
        let roots = self.roots();
        let classes: Vec<(i32, String)> = self.class_names.iter().map(|(id, name)| (*id, name.clone())).collect();
        for root in roots {
            for (class, name) in &classes {
                self.make_shadow(root, *class, name, &old, &taken)?;
            }
        }
        Ok(())
    }

    /// Returns the shadow of `original` for a class, made with those of everything below it.
    fn make_shadow(
        &mut self,
        original: i32,
        class: i32,
        class_name: &str,
        old: &BTreeMap<i32, BTreeMap<i32, i32>>,
        taken: &BTreeSet<i32>,
    ) -> Result<i32, BuildError> {
        if let Some(done) = self.shadows.get(&original).and_then(|of| of.get(&class)) {
            return Ok(*done);
        }
        let source = self.bucket(original).ok_or(BuildError::NoItemId(original))?.clone();
        // Each entry is an item of the shadow, its weight, and its position in the original.
        let mut items: Vec<(i32, u32, usize)> = Vec::new();
        for (index, (item, weight)) in source.weighted_items().enumerate() {
            if item < 0 {
                let shadow = self.make_shadow(item, class, class_name, old, taken)?;
                items.push((shadow, self.bucket_mut(shadow).weight, index));
            } else if self.classes.get(&item) == Some(&class) {
                items.push((item, weight, index));
            }
        }
        let at = match old.get(&original).and_then(|of| of.get(&class)) {
            Some(id) => slot(*id).ok_or(BuildError::NoItemId(*id))?,
            // The id is one that no shadow had before, so that an old rule cannot come to mean another tree.
            None => (0..)
                .find(|at| {
                    let free = self.buckets.get(*at).is_none_or(Option::is_none);
                    free && !taken.contains(&(-1 - *at as i32))
                })
                .expect("slots are unbounded"),
        };
        let id = self.place_bucket(at, source.kind);
        let sets = self.shadow_weight_sets(original, &items);
        for (item, weight, _) in &items {
            let bucket = self.bucket_mut(id);
            bucket.items.push(*item);
            bucket.weight = bucket.weight.checked_add(*weight).ok_or(BuildError::WeightOverflow(original))?;
        }
        self.bucket_mut(id).body = crate::BucketBody::Straw2 { weights: items.iter().map(|i| i.1).collect() };
        for (index, arg) in sets {
            self.choose_args.get_mut(&index).expect("iterated").by_slot.insert(at as u32, arg);
        }
        let name = format!("{}~{class_name}", self.name(original).unwrap_or_default());
        self.set_name(id, name);
        self.classes.insert(id, class);
        self.shadows.entry(original).or_default().insert(class, id);
        Ok(id)
    }

    /// Returns the weights of a shadow with `items` in each weight set: for devices the original's weights, for
    /// sub-buckets the sums of theirs.
    fn shadow_weight_sets(&self, original: i32, items: &[(i32, u32, usize)]) -> Vec<(i64, ChooseArg)> {
        let weight = |args: &crate::ChooseArgs, arg: &ChooseArg, place: usize, (item, _, index): (i32, u32, usize)| {
            if item >= 0 {
                return arg.weight_sets[place][index];
            }
            let sets = args.get(item).map(|arg| arg.weight_sets.as_slice()).unwrap_or_default();
            let set = sets.get(place).or(sets.last());
            set.map_or(0, |set| set.iter().fold(0u32, |sum, weight| sum.saturating_add(*weight)))
        };
        let mut of_shadow = Vec::new();
        for (index, args) in &self.choose_args {
            let Some(arg) = args.get(original).filter(|arg| !arg.weight_sets.is_empty()) else { continue };
            let sets = (0..arg.weight_sets.len())
                .map(|place| items.iter().map(|item| weight(args, arg, place, *item)).collect())
                .collect();
            of_shadow.push((*index, ChooseArg { weight_sets: sets, ids: Vec::new() }));
        }
        of_shadow
    }
}
