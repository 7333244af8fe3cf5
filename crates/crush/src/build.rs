//! Changing the hierarchy. Every public change either happens entirely, shadow trees and weight sets included, or
//! leaves the map as it was.

use crate::map::slot;
use crate::{Bucket, BucketAlg, BucketBody, BuildError, ChooseArg, ChooseArgs, CrushMap, Location, WEIGHT_ONE};
use std::collections::btree_map::Entry;

/// Ids of devices end here; far above any cluster, far below the markers of empty places.
const DEVICE_ID_END: i32 = 1 << 24;

/// Returns a weight given as a number (usually TiB) in 16.16 fixed point, rounded towards zero from single precision,
/// as Ceph does. Errors: [`BuildError::Weight`] if it is negative, not a number, or 32768 and more.
pub fn fixed_weight(weight: f64) -> Result<u32, BuildError> {
    let scaled = weight as f32 * WEIGHT_ONE as f32;
    if (0.0..i32::MAX as f32).contains(&scaled) { Ok(scaled as u32) } else { Err(BuildError::Weight(weight)) }
}

/// Checks a name. Errors: [`BuildError::Name`] for names that Ceph does not allow for items and types.
pub(crate) fn check_name(name: &str) -> Result<(), BuildError> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.chars().all(valid) { Ok(()) } else { Err(BuildError::Name(name.to_owned())) }
}

impl CrushMap {
    /// Applies `change` entirely or not at all, then brings the shadow trees up to date.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut CrushMap) -> Result<T, BuildError>,
    ) -> Result<T, BuildError> {
        let mut next = self.clone();
        let done = change(&mut next)?;
        next.rebuild_shadows()?;
        next.finalize();
        *self = next;
        Ok(done)
    }

    /// Adds an empty straw2 bucket that is in no other bucket yet. Returns its id. Its shadows follow once something
    /// changes below a root, as in Ceph.
    pub fn add_bucket(&mut self, name: &str, type_name: &str) -> Result<i32, BuildError> {
        let kind = self.bucket_type(type_name)?;
        self.make_bucket(name, kind)
    }

    /// Adds a straw2 bucket with these items and weights; for building large maps at once. Items below 0 must exist;
    /// devices without a name get `osd.N`. Shadow trees follow at the next change by another method.
    pub fn add_bucket_of(&mut self, name: &str, type_name: &str, items: &[(i32, u32)]) -> Result<i32, BuildError> {
        let kind = self.bucket_type(type_name)?;
        let mut weight = 0u32;
        for (item, w) in items {
            if *item < 0 && self.bucket(*item).is_none() {
                return Err(BuildError::NoItemId(*item));
            }
            if *item >= DEVICE_ID_END {
                return Err(BuildError::OsdId(*item));
            }
            weight = weight.checked_add(*w).ok_or(BuildError::WeightOverflow(0))?;
        }
        let id = self.make_bucket(name, kind)?;
        for (item, _) in items {
            if *item >= 0 && !self.item_exists(*item) {
                self.set_name(*item, format!("osd.{item}"));
            }
            self.max_devices = self.max_devices.max(item.saturating_add(1));
            self.device_limit = self.device_limit.max(item.saturating_add(1));
            // The first bucket by slot counts, and slots count down from -1.
            let parent = self.parents.entry(*item).or_insert(id);
            *parent = id.max(*parent);
        }
        let bucket = self.bucket_mut(id);
        bucket.items = items.iter().map(|(item, _)| *item).collect();
        bucket.body = BucketBody::Straw2 { weights: items.iter().map(|(_, weight)| *weight).collect() };
        bucket.weight = weight;
        Ok(id)
    }

    /// Puts an item (a device, or a bucket that exists) at `location` with `weight`, and makes the buckets that
    /// `location` names and that do not exist. The item must not be there already. In weight sets a device starts with
    /// its weight.
    pub fn insert_item(&mut self, item: i32, weight: u32, name: &str, location: &Location) -> Result<(), BuildError> {
        self.change(|map| map.insert(item, weight, name, location, item >= 0))
    }

    /// Puts a device at `location`. A device that is elsewhere moves and keeps its weight; one that is there already
    /// stays. Returns true if anything changed. OSDs ask for this when they start.
    pub fn create_or_move_item(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        location: &Location,
    ) -> Result<bool, BuildError> {
        check_name(name)?;
        self.check_location(location)?;
        if self.weight_at(item, location).is_some() {
            return Ok(false);
        }
        self.change(|map| {
            let weight = if map.is_linked(item) { map.item_weight(item).unwrap_or(weight) } else { weight };
            map.unlink_everywhere(item)?;
            map.insert(item, weight, name, location, item >= 0)
        })?;
        Ok(true)
    }

    /// Puts an item at `location` with `weight`, wherever it was before. Returns true if anything changed.
    pub fn set_item(&mut self, item: i32, weight: u32, name: &str, location: &Location) -> Result<bool, BuildError> {
        check_name(name)?;
        self.check_location(location)?;
        let before = self.weight_at(item, location);
        if before == Some(weight) && self.name(item) == Some(name) {
            return Ok(false);
        }
        self.change(|map| match before {
            Some(_) => {
                map.set_weight_at(item, weight, location, false)?;
                if map.id(name).is_some_and(|id| id != item) {
                    return Err(BuildError::NameExists(name.to_owned()));
                }
                map.set_name(item, name.to_owned());
                Ok(())
            }
            None => {
                map.unlink_everywhere(item)?;
                map.insert(item, weight, name, location, item >= 0)
            }
        })?;
        Ok(true)
    }

    /// Moves an item and everything below it to `location`, with its present weight. In weight sets a device starts
    /// with that weight.
    pub fn move_item(&mut self, name: &str, location: &Location) -> Result<(), BuildError> {
        let id = self.known(name)?;
        self.check_location(location)?;
        self.check_not_shadow(id)?;
        self.change(|map| {
            let weight = map.item_weight(id).unwrap_or(0);
            match map.places(id).as_slice() {
                [] => {}
                [parent] => map.detach(*parent, id)?,
                _ if id >= 0 => map.unlink_everywhere(id)?,
                places => return Err(BuildError::Ambiguous { name: name.to_owned(), places: places.len() }),
            }
            map.insert(id, weight, name, location, id >= 0)
        })
    }

    /// Puts a bucket at `location` in addition to its present place.
    pub fn link_bucket(&mut self, name: &str, location: &Location) -> Result<(), BuildError> {
        let id = self.known_bucket(name)?;
        self.change(|map| {
            let weight = map.item_weight(id).unwrap_or(0);
            map.insert(id, weight, name, location, false)
        })
    }

    /// Removes an item from the map: from every bucket, or from those below `ancestor` only. A bucket must be empty
    /// and unused by rules. An item that remains nowhere loses its name.
    pub fn remove_item(&mut self, name: &str, ancestor: Option<&str>) -> Result<(), BuildError> {
        let id = self.known(name)?;
        self.check_not_shadow(id)?;
        if let Some(bucket) = self.bucket(id) {
            if !bucket.items.is_empty() {
                return Err(BuildError::NotEmpty(name.to_owned()));
            }
            if self.in_use(id) {
                return Err(BuildError::InUse(name.to_owned()));
            }
        }
        let ancestor = ancestor.map(|name| self.known_bucket(name)).transpose()?;
        self.change(|map| {
            map.unlink_below(id, ancestor)?;
            if !map.places(id).is_empty() {
                return Ok(());
            }
            if let Some(at) = slot(id) {
                map.shadows.remove(&id);
                map.buckets[at] = None;
                map.choose_args.values_mut().for_each(|args| drop(args.by_slot.remove(&(at as u32))));
            } else {
                map.classes.remove(&id);
            }
            map.remove_name(id);
            Ok(())
        })
    }

    /// Takes an item out of every bucket, or out of those below `ancestor`, without forgetting the item.
    pub fn unlink_item(&mut self, name: &str, ancestor: Option<&str>) -> Result<(), BuildError> {
        let id = self.known(name)?;
        self.check_not_shadow(id)?;
        let ancestor = ancestor.map(|name| self.known_bucket(name)).transpose()?;
        self.change(|map| map.unlink_below(id, ancestor))
    }

    /// Sets the weight of a device in every bucket that has it, in weight sets too. Returns the number of these
    /// buckets.
    pub fn reweight(&mut self, name: &str, weight: u32) -> Result<usize, BuildError> {
        let id = self.known(name)?;
        self.change(|map| {
            let places = map.places(id);
            for place in &places {
                map.set_item_weight(*place, id, weight, true)?;
            }
            Ok(places.len())
        })
    }

    /// Sets the weight of every device below a bucket. Returns their number.
    pub fn reweight_subtree(&mut self, name: &str, weight: u32) -> Result<usize, BuildError> {
        let root = self.known_bucket(name)?;
        self.change(|map| {
            let mut devices = 0;
            let mut todo = vec![root];
            while let Some(id) = todo.pop() {
                let items = map.bucket(id).map(|bucket| bucket.items.clone()).unwrap_or_default();
                for item in items {
                    if item >= 0 {
                        map.set_item_weight(id, item, weight, true)?;
                        devices += 1;
                    } else {
                        todo.push(item);
                    }
                }
            }
            Ok(devices)
        })
    }

    /// Recomputes every bucket's weight from the devices below it, in weight sets too.
    pub fn reweight_all(&mut self) -> Result<(), BuildError> {
        self.change(|map| {
            let roots: Vec<i32> = map.roots().into_iter().filter(|id| !map.is_shadow(*id)).collect();
            roots.into_iter().try_for_each(|root| map.sum_up(root))
        })
    }

    /// Gives a bucket another name. Its shadows follow.
    pub fn rename_bucket(&mut self, from: &str, to: &str) -> Result<(), BuildError> {
        check_name(to)?;
        let id = self.known_bucket(from)?;
        self.check_not_shadow(id)?;
        if self.id(to).is_some() {
            return Err(BuildError::NameExists(to.to_owned()));
        }
        self.set_name(id, to.to_owned());
        let shadows: Vec<(i32, i32)> =
            self.shadows.get(&id).into_iter().flatten().map(|(class, shadow)| (*class, *shadow)).collect();
        for (class, shadow) in shadows {
            if let Some(class) = self.class_names.get(&class) {
                let name = format!("{to}~{class}");
                self.set_name(shadow, name);
            }
        }
        Ok(())
    }

    /// Exchanges the items of two buckets, and their names; neither may be below the other.
    pub fn swap_bucket(&mut self, a: &str, b: &str) -> Result<(), BuildError> {
        let (id_a, id_b) = (self.known_bucket(a)?, self.known_bucket(b)?);
        if id_a == id_b || self.subtree_contains(id_a, id_b) || self.subtree_contains(id_b, id_a) {
            return Err(BuildError::Loop { item: a.to_owned(), below: b.to_owned() });
        }
        self.change(|map| {
            let of = |map: &CrushMap, id| -> Vec<(i32, u32)> {
                map.bucket(id).into_iter().flat_map(Bucket::weighted_items).collect()
            };
            let (items_a, items_b) = (of(map, id_a), of(map, id_b));
            for (id, old, new) in [(id_a, &items_a, &items_b), (id_b, &items_b, &items_a)] {
                old.iter().try_for_each(|(item, _)| map.bucket_remove(id, *item))?;
                new.iter().try_for_each(|(item, weight)| map.bucket_add(id, *item, *weight))?;
            }
            map.propagate(id_a)?;
            map.propagate(id_b)?;
            map.set_name(id_a, b.to_owned());
            map.set_name(id_b, a.to_owned());
            Ok(())
        })
    }

    /// Makes a bucket draw its items as equals, by a permutation, which is cheaper for many equal items.
    ///
    /// Errors: [`BuildError::Uneven`] unless all its items weigh the same.
    pub fn make_uniform(&mut self, id: i32) -> Result<(), BuildError> {
        let bucket = self.bucket(id).ok_or(BuildError::NoItemId(id))?;
        let item_weight = bucket.item_weight(0);
        if bucket.weighted_items().any(|(_, weight)| weight != item_weight) {
            return Err(BuildError::Uneven(id));
        }
        self.bucket_mut(id).body = BucketBody::Uniform { item_weight };
        self.choose_args.values_mut().for_each(|args| drop(args.by_slot.remove(&((-1 - id) as u32))));
        Ok(())
    }

    /// Names a device that need not be in any bucket yet.
    pub fn name_device(&mut self, id: i32, name: &str) -> Result<(), BuildError> {
        check_name(name)?;
        match self.id(name) {
            Some(other) if other != id => Err(BuildError::NameExists(name.to_owned())),
            _ => {
                self.set_name(id, name.to_owned());
                Ok(())
            }
        }
    }

    /// Replaces or removes the weight set `index`. Entries that do not fit their bucket are an error.
    pub fn set_choose_args(&mut self, index: i64, args: Option<ChooseArgs>) -> Result<(), BuildError> {
        for (id, arg) in args.iter().flat_map(ChooseArgs::iter) {
            let bucket = self.bucket(id).ok_or(BuildError::NoItemId(id))?;
            let size = bucket.items.len();
            if bucket.alg() != BucketAlg::Straw2 {
                return Err(BuildError::UnsupportedBucket { id, alg: bucket.alg() });
            }
            let fits = (arg.ids.is_empty() || arg.ids.len() == size) && arg.weight_sets.iter().all(|s| s.len() == size);
            if !fits {
                return Err(BuildError::WeightSetSize { id, size });
            }
        }
        match args {
            Some(args) => drop(self.choose_args.insert(index, args)),
            None => drop(self.choose_args.remove(&index)),
        }
        Ok(())
    }

    // --- steps that changes are made of; they may leave the map half changed when they fail ---

    fn known(&self, name: &str) -> Result<i32, BuildError> {
        self.id(name).ok_or_else(|| BuildError::NoItem(name.to_owned()))
    }

    fn known_bucket(&self, name: &str) -> Result<i32, BuildError> {
        let id = self.known(name)?;
        if self.bucket(id).is_some() { Ok(id) } else { Err(BuildError::NotABucket(name.to_owned())) }
    }

    fn check_not_shadow(&self, id: i32) -> Result<(), BuildError> {
        match self.name(id) {
            Some(name) if self.is_shadow(id) => Err(BuildError::Shadow(name.to_owned())),
            _ => Ok(()),
        }
    }

    fn bucket_type(&self, type_name: &str) -> Result<u16, BuildError> {
        self.type_id(type_name).filter(|kind| *kind > 0).ok_or_else(|| BuildError::NoType(type_name.to_owned()))
    }

    /// Returns the bucket. Panics if there is none: callers have looked.
    pub(crate) fn bucket_mut(&mut self, id: i32) -> &mut Bucket {
        let at = slot(id).unwrap_or_else(|| panic!("{id} is a device"));
        self.buckets[at].as_mut().unwrap_or_else(|| panic!("bucket {id} does not exist"))
    }

    pub(crate) fn set_name(&mut self, id: i32, name: String) {
        self.remove_name(id);
        self.ids.insert(name.clone(), id);
        self.names.insert(id, name);
    }

    pub(crate) fn remove_name(&mut self, id: i32) {
        if let Some(name) = self.names.remove(&id) {
            // Maps from elsewhere may have one name twice.
            if self.ids.get(&name) == Some(&id) {
                self.ids.remove(&name);
            }
        }
    }

    /// Puts an empty bucket into slot `at`. The slots grow by doubling from 8, as Ceph's do, so that maps compare.
    pub(crate) fn place_bucket(&mut self, at: usize, kind: u16) -> i32 {
        let mut slots = self.buckets.len();
        while at >= slots {
            slots = if slots == 0 { 8 } else { slots * 2 };
        }
        self.buckets.resize(slots, None);
        assert!(self.buckets[at].is_none(), "bucket slot {at} is taken");
        let id = -1 - at as i32;
        self.buckets[at] = Some(Bucket::straw2(id, kind));
        id
    }

    fn make_bucket(&mut self, name: &str, kind: u16) -> Result<i32, BuildError> {
        check_name(name)?;
        if self.id(name).is_some() {
            return Err(BuildError::NameExists(name.to_owned()));
        }
        let at = self.buckets.iter().position(Option::is_none).unwrap_or(self.buckets.len());
        let id = self.place_bucket(at, kind);
        self.set_name(id, name.to_owned());
        Ok(id)
    }

    /// Returns the buckets, shadows aside, that have `item` among their items.
    fn places(&self, item: i32) -> Vec<i32> {
        let holds = |bucket: &&Bucket| bucket.items.contains(&item) && !self.is_shadow(bucket.id);
        self.buckets().filter(holds).map(|bucket| bucket.id).collect()
    }

    pub(crate) fn insert(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        location: &Location,
        init_weight_sets: bool,
    ) -> Result<(), BuildError> {
        check_name(name)?;
        self.check_location(location)?;
        self.check_not_shadow(item)?;
        if item >= DEVICE_ID_END {
            return Err(BuildError::OsdId(item));
        }
        if item < 0 && self.bucket(item).is_none() {
            return Err(BuildError::NoItemId(item));
        }
        match self.id(name) {
            Some(id) if id != item => return Err(BuildError::NameExists(name.to_owned())),
            Some(_) => {}
            None => self.set_name(item, name.to_owned()),
        }
        let levels: Vec<(u16, String)> = self.levels(location).map(|(kind, name)| (kind, name.to_owned())).collect();
        let mut at = item;
        let mut made = false;
        for (kind, bucket_name) in &levels {
            let Some(id) = self.id(bucket_name) else {
                made = true;
                let id = self.make_bucket(bucket_name, *kind)?;
                self.bucket_add(id, at, 0)?;
                at = id;
                continue;
            };
            let bucket = self.bucket(id).ok_or_else(|| BuildError::NotABucket(bucket_name.clone()))?;
            if bucket.kind != *kind {
                let text = |kind| self.type_name(kind).unwrap_or("unknown").to_owned();
                return Err(BuildError::WrongType {
                    name: bucket_name.clone(),
                    is: text(bucket.kind),
                    wanted: text(*kind),
                });
            }
            if self.subtree_contains(id, at) {
                return Err(BuildError::ItemExists(at));
            }
            if self.subtree_contains(at, id) {
                let item = self.name(at).unwrap_or_default().to_owned();
                return Err(BuildError::Loop { item, below: bucket_name.clone() });
            }
            self.bucket_add(id, at, 0)?;
            break;
        }
        self.set_weight_at(item, weight, location, init_weight_sets)?;
        // A device in a bucket that was there changes nothing about the shape, and there may be many of them.
        if (made || item < 0)
            && let Some(id) = self.misshapen()
        {
            return Err(BuildError::TooDeep(id));
        }
        self.max_devices = self.max_devices.max(item.saturating_add(1));
        Ok(())
    }

    /// Sets the item's weight in those of the location's buckets that hold it.
    fn set_weight_at(
        &mut self,
        item: i32,
        weight: u32,
        location: &Location,
        weight_sets: bool,
    ) -> Result<(), BuildError> {
        let ids: Vec<i32> = location.iter().filter_map(|(_, name)| self.id(name)).collect();
        let mut found = false;
        for id in ids {
            if self.bucket(id).is_some_and(|bucket| bucket.items.contains(&item)) {
                self.set_item_weight(id, item, weight, weight_sets)?;
                found = true;
            }
        }
        if found { Ok(()) } else { Err(BuildError::NoLocation) }
    }

    /// Sets the weight of `item` in bucket `id` and, as far as bucket weights follow, further up.
    pub(crate) fn set_item_weight(
        &mut self,
        id: i32,
        item: i32,
        weight: u32,
        weight_sets: bool,
    ) -> Result<(), BuildError> {
        let bucket = self.bucket_mut(id);
        let alg = bucket.alg();
        let Some(index) = bucket.position(item) else { return Err(BuildError::NoItemId(item)) };
        let BucketBody::Straw2 { weights } = &mut bucket.body else {
            return Err(BuildError::UnsupportedBucket { id, alg });
        };
        let sum = u64::from(bucket.weight).saturating_sub(weights[index].into()) + u64::from(weight);
        weights[index] = weight;
        bucket.weight = u32::try_from(sum).map_err(|_| BuildError::WeightOverflow(id))?;
        if weight_sets {
            let at = (-1 - id) as u32;
            for arg in self.choose_args.values_mut().filter_map(|args| args.by_slot.get_mut(&at)) {
                arg.weight_sets.iter_mut().for_each(|set| set[index] = weight);
            }
        }
        self.propagate(id)
    }

    /// Carries a bucket's weight, and its sums in weight sets, into the buckets that hold it. Shadow trees are left
    /// to their rebuild.
    fn propagate(&mut self, id: i32) -> Result<(), BuildError> {
        let weight = self.bucket_mut(id).weight;
        let parents = self.places(id);
        for args in self.choose_args.values_mut() {
            let Some(sums) = args.by_slot.get(&((-1 - id) as u32)).map(set_sums) else { continue };
            for parent in &parents {
                let bucket = self.buckets[slot(*parent).expect("a bucket")].as_ref().expect("listed");
                let index = bucket.position(id).expect("listed as its item");
                if let Some(arg) = args.by_slot.get_mut(&((-1 - parent) as u32)) {
                    for (place, set) in arg.weight_sets.iter_mut().enumerate() {
                        set[index] = sums.get(place).or(sums.last()).copied().unwrap_or(set[index]);
                    }
                }
            }
        }
        for parent in parents {
            self.set_item_weight(parent, id, weight, false)?;
        }
        Ok(())
    }

    pub(crate) fn bucket_add(&mut self, id: i32, item: i32, weight: u32) -> Result<(), BuildError> {
        let bucket = self.bucket_mut(id);
        let alg = bucket.alg();
        let BucketBody::Straw2 { weights } = &mut bucket.body else {
            return Err(BuildError::UnsupportedBucket { id, alg });
        };
        bucket.weight = bucket.weight.checked_add(weight).ok_or(BuildError::WeightOverflow(id))?;
        bucket.items.push(item);
        weights.push(weight);
        // A bucket that got its first item takes part in every weight set.
        let fresh = bucket.items.len() == 1;
        for args in self.choose_args.values_mut() {
            let positions = args.positions();
            let arg = match args.by_slot.entry((-1 - id) as u32) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) if fresh => {
                    entry.insert(ChooseArg { weight_sets: vec![Vec::new(); positions], ids: Vec::new() })
                }
                Entry::Vacant(_) => continue,
            };
            arg.weight_sets.iter_mut().for_each(|set| set.push(weight));
            if !arg.ids.is_empty() {
                arg.ids.push(item);
            }
        }
        Ok(())
    }

    fn bucket_remove(&mut self, id: i32, item: i32) -> Result<(), BuildError> {
        let bucket = self.bucket_mut(id);
        let alg = bucket.alg();
        let Some(index) = bucket.position(item) else { return Err(BuildError::NoItemId(item)) };
        let BucketBody::Straw2 { weights } = &mut bucket.body else {
            return Err(BuildError::UnsupportedBucket { id, alg });
        };
        bucket.items.remove(index);
        bucket.weight = bucket.weight.saturating_sub(weights.remove(index));
        let at = (-1 - id) as u32;
        for arg in self.choose_args.values_mut().filter_map(|args| args.by_slot.get_mut(&at)) {
            for set in &mut arg.weight_sets {
                set.remove(index);
            }
            if !arg.ids.is_empty() {
                arg.ids.remove(index);
            }
        }
        Ok(())
    }

    fn detach(&mut self, parent: i32, item: i32) -> Result<(), BuildError> {
        self.bucket_remove(parent, item)?;
        self.propagate(parent)
    }

    fn unlink_everywhere(&mut self, item: i32) -> Result<(), BuildError> {
        self.places(item).into_iter().try_for_each(|parent| self.detach(parent, item))
    }

    fn unlink_below(&mut self, item: i32, ancestor: Option<i32>) -> Result<(), BuildError> {
        let Some(ancestor) = ancestor else { return self.unlink_everywhere(item) };
        let places: Vec<i32> =
            self.places(item).into_iter().filter(|place| self.subtree_contains(ancestor, *place)).collect();
        if places.is_empty() {
            return Err(BuildError::NoItemId(item));
        }
        places.into_iter().try_for_each(|parent| self.detach(parent, item))
    }

    /// Sets the weights of a bucket's sub-buckets to their sums, depth first.
    fn sum_up(&mut self, id: i32) -> Result<(), BuildError> {
        let items = self.bucket(id).map(|bucket| bucket.items.clone()).unwrap_or_default();
        for item in items.into_iter().filter(|item| *item < 0) {
            self.sum_up(item)?;
            let weight = self.item_weight(item).unwrap_or(0);
            self.set_item_weight(id, item, weight, false)?;
            self.propagate(item)?;
        }
        Ok(())
    }

    /// Returns true if a bucket may not go: a rule starts from it or from one of its shadows, or it is a shadow.
    fn in_use(&self, id: i32) -> bool {
        let taken = |take: i32| take == id || self.split_class(take).is_some_and(|(original, _)| original == id);
        self.is_shadow(id) || self.rules().any(|(rule, _)| self.rule_takes(rule).into_iter().any(taken))
    }
}

/// Returns the sum of a weight set for each place.
fn set_sums(arg: &ChooseArg) -> Vec<u32> {
    arg.weight_sets.iter().map(|set| set.iter().fold(0u32, |sum, weight| sum.saturating_add(*weight))).collect()
}
