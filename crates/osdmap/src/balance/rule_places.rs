//! Places that a CRUSH rule allows for the copies of a placement group.

use crate::{OsdMap, PgPool};
use crush::{CrushMap, RuleKind, WEIGHT_ONE, op};
use std::collections::BTreeMap;
use types::OsdId;

/// The devices that a rule reaches, and which of them may stand together in one placement group.
#[derive(Clone, PartialEq, Debug)]
pub struct RulePlaces {
    devices: BTreeMap<OsdId, Place>,
    /// Number of times that the rule begins anew (TAKE).
    takes: usize,
}

#[derive(Clone, PartialEq, Debug)]
struct Place {
    take: usize,
    /// The item that each choice of the rule, from the outermost on, makes on the way to the device.
    path: Vec<i32>,
    weight: f64,
}

impl RulePlaces {
    /// Reads a rule. `None` for rules whose choices cannot be told from the hierarchy alone: of kinds unknown here, or
    /// such that reach a device in two ways.
    pub fn of(crush: &CrushMap, rule: u32) -> Option<RulePlaces> {
        let mut places = RulePlaces { devices: BTreeMap::new(), takes: 0 };
        let mut take: Option<i32> = None;
        let mut kinds: Vec<u16> = Vec::new();
        for step in &crush.rule(rule)?.steps {
            match step.op {
                op::TAKE => (take, kinds) = (Some(step.arg1), Vec::new()),
                op::CHOOSE_FIRSTN | op::CHOOSE_INDEP | op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP => {
                    kinds.push(u16::try_from(step.arg2).ok()?);
                }
                op::EMIT => {
                    let root = take.take()?;
                    places.walk(crush, root, WEIGHT_ONE, &kinds, &mut Vec::new())?;
                    places.takes += 1;
                }
                op::CHOOSE_MSR => return None,
                _ => {}
            }
        }
        Some(places)
    }

    /// Reads the pool's rule, as [`RulePlaces::of`]. `None` as well if no rule fits the pool.
    pub fn of_pool(map: &OsdMap, pool: &PgPool) -> Option<RulePlaces> {
        let rule = map.crush.find_rule(pool.crush_rule, RuleKind(pool.kind.0), pool.size.into())?;
        RulePlaces::of(&map.crush, rule)
    }

    /// Adds every device below `item`. `above`: the items from the root down to it.
    fn walk(&mut self, crush: &CrushMap, item: i32, weight: u32, kinds: &[u16], above: &mut Vec<i32>) -> Option<()> {
        above.push(item);
        if item >= 0 {
            let chosen = |kind: &u16| match kind {
                0 => Some(item),
                // Of several items of a kind above each other, rules come to the outermost.
                kind => above.iter().copied().skip(1).find(|id| *id < 0 && crush.kind(*id) == Some(*kind)),
            };
            let path: Option<Vec<i32>> = kinds.iter().map(chosen).collect();
            if let Some(path) = path.filter(|path| !path.is_empty()) {
                let weight = f64::from(weight) / f64::from(WEIGHT_ONE);
                let place = Place { take: self.takes, path, weight };
                if self.devices.insert(OsdId(item), place).is_some() {
                    return None;
                }
            }
        } else {
            for (child, weight) in crush.bucket(item)?.weighted_items() {
                self.walk(crush, child, weight, kinds, above)?;
            }
        }
        above.pop();
        Some(())
    }

    /// Returns every device, the part of the rule that reaches it, and its weight in the hierarchy (1.0 is one unit).
    pub fn devices(&self) -> impl Iterator<Item = (OsdId, usize, f64)> {
        self.devices.iter().map(|(osd, place)| (*osd, place.take, place.weight))
    }

    /// Returns the part of the rule that reaches the device.
    pub fn take_of(&self, osd: OsdId) -> Option<usize> {
        self.devices.get(&osd).map(|place| place.take)
    }

    /// Returns true if `to` can stand in for `from` in a group that `members` hold, so that the rule's failure domains
    /// are kept: it is chosen by equal choices but for the last, whose item no other member has.
    pub fn may_replace(&self, members: &[OsdId], from: OsdId, to: OsdId) -> bool {
        let (Some(old), Some(new)) = (self.devices.get(&from), self.devices.get(&to)) else { return false };
        let outer = |place: &Place| place.path.len() - 1;
        let same_outer = old.take == new.take && old.path[..outer(old)] == new.path[..outer(new)];
        let is_free = members.iter().filter(|member| **member != from).all(|member| {
            let other = self.devices.get(member);
            *member != to && other.is_none_or(|other| other.take != new.take || other.path.last() != new.path.last())
        });
        from != to && members.contains(&from) && new.weight > 0.0 && same_outer && is_free
    }

    /// Returns true if the OSD can stand beside all members, in place of any one whose choices but for the last are its
    /// own: no member is in its failure domain.
    pub fn is_apart(&self, members: &[OsdId], osd: OsdId) -> bool {
        self.devices.get(&osd).filter(|place| place.weight > 0.0).is_some_and(|place| {
            let others = members.iter().filter_map(|member| self.devices.get(member));
            !members.contains(&osd)
                && others.into_iter().all(|other| (other.take, other.path.last()) != (place.take, place.path.last()))
        })
    }

    /// Returns true if a group can be held by exactly these OSDs: all within the rule's reach, and no two in one
    /// failure domain. The numbers of OSDs in outer domains are not looked at.
    pub fn may_hold(&self, members: &[OsdId]) -> bool {
        let places: Option<Vec<&Place>> = members.iter().map(|osd| self.devices.get(osd)).collect();
        places.is_some_and(|places| {
            let apart = |(n, place): (usize, &&Place)| {
                places[..n].iter().all(|other| (other.take, other.path.last()) != (place.take, place.path.last()))
            };
            places.iter().enumerate().all(apart)
        })
    }
}
