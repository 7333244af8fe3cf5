//! Exceptions that no longer make sense.

use super::{RulePlaces, UpmapChanges};
use crate::{OsdMap, PgMapping};
use std::collections::BTreeMap;
use types::{OsdId, PoolId};

/// Finds exceptions that have no effect, or one that the rule does not allow: of groups that are gone, from OSDs that
/// the group is not on, to OSDs that are gone, out or of no weight, or into a failure domain that another copy is in.
///
/// `mapping`: of this map. Panics if it is of another epoch.
pub fn stale_upmaps(map: &OsdMap, mapping: &PgMapping) -> UpmapChanges {
    assert_eq!(mapping.epoch(), map.epoch, "the mapping of another map");
    let mut changes = UpmapChanges::default();
    let mut rules: BTreeMap<PoolId, Option<RulePlaces>> = BTreeMap::new();
    let mut places_of = |id: PoolId| -> Option<RulePlaces> {
        let read = || RulePlaces::of_pool(map, map.pool(id)?);
        rules.entry(id).or_insert_with(read).clone()
    };
    for (pg, osds) in &map.pg_upmap {
        let usable = |osds: &[OsdId]| osds.iter().all(|osd| map.exists(*osd) && map.weight(*osd) > 0);
        let is_sound = map.has_pg(*pg)
            && usable(osds)
            && places_of(pg.pool).is_none_or(|places| places.may_hold(osds))
            && mapping.crush(*pg).is_none_or(|raw| raw != osds.as_slice());
        if !is_sound {
            changes.removed_explicit.insert(*pg);
        }
    }
    for (pg, items) in &map.pg_upmap_items {
        let (Some(pool), true) = (map.pool(pg.pool), map.has_pg(*pg)) else {
            changes.removed_items.insert(*pg);
            continue;
        };
        let Some(raw) = mapping.crush(*pg) else { continue };
        let mut osds = map.existing(pool, raw);
        // Exchanges are those of CRUSH's OSDs, whichever order of shards the group has.
        let counts = |_: &&Vec<OsdId>| !changes.removed_explicit.contains(pg) && !map.has_order(*pg);
        if let Some(explicit) = map.pg_upmap.get(pg).filter(counts) {
            osds.clone_from(explicit);
        }
        let kept = sensible(map, places_of(pg.pool).as_ref(), &osds, items);
        if kept != *items {
            changes.set(*pg, kept);
        }
    }
    changes
}

/// Returns the exchanges of a group that have an effect and that its rule allows. `osds`: its OSDs without them.
fn sensible(
    map: &OsdMap,
    places: Option<&RulePlaces>,
    osds: &[OsdId],
    items: &[(OsdId, OsdId)],
) -> Vec<(OsdId, OsdId)> {
    let mut kept = items.to_vec();
    loop {
        let mut at = osds.to_vec();
        kept.retain(|(from, to)| {
            let works = at.contains(from) && !at.contains(to) && map.exists(*to) && map.weight(*to) > 0;
            if works {
                map.exchange(&[(*from, *to)], &mut at);
            }
            works
        });
        // Only the group's final OSDs count, not the way there: one exchange may make room for another one before it.
        let is_allowed = |(from, to): &(OsdId, OsdId)| {
            let before: Vec<OsdId> = at.iter().map(|osd| if osd == to { *from } else { *osd }).collect();
            places.is_none_or(|places| !at.contains(to) || places.may_replace(&before, *from, *to))
        };
        match kept.iter().position(|item| !is_allowed(item)) {
            Some(bad) => drop(kept.remove(bad)),
            None => return kept,
        }
    }
}
