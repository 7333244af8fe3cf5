//! States of an object that nobody has any more are given up, and the object goes on without them.
//!
//! All in one update. Where the present state is lost and snapshots preserve others, a whiteout takes its place, as if
//! a client had removed the object: so the others can be read, and go with their snapshots.

use super::execute::{Effects, OtherChange, Request, Run, after};
use super::watch::WatchEffect;
use crate::group::log::LogKind;
use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::group::snap_set::{ObjectClone, SnapSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{ObjectStat, Step, Store, UNKNOWN_SNAP};
use types::{EVersion, EntityName, ObjectId, SnapId};
use wire::basic::IntervalSet;

/// States listed at a time.
const PAGE_STATES: usize = 256;

/// States of one object to be given up, and the findings on the rest so far.
#[derive(Debug, Default)]
pub(crate) struct GiveUp {
    /// States that nobody has, with the versions that are wanted.
    pub lost: BTreeMap<ObjectId, EVersion>,
    /// The pool's snapshots, where the map knows all of them.
    snaps: Option<BTreeSet<SnapId>>,
    head: Option<Option<Arc<ObjectStat>>>,
    /// States that snapshots preserve, as far as they were listed.
    states: BTreeMap<SnapId, Option<PreservedState>>,
    all_listed: bool,
}

/// A state that a snapshot preserves.
#[derive(Debug)]
struct PreservedState {
    version: EVersion,
    size_bytes: u64,
    /// Snapshots that it was made for, newest first.
    snaps: Vec<SnapId>,
}

impl PreservedState {
    fn of(snap: SnapId, stat: &ObjectStat) -> PreservedState {
        let info = ObjectInfo::of(stat).unwrap_or_default();
        let snaps = store::snaps_of_clone(&stat.attrs).into_iter().rev();
        // Clones that were made before it was noted are taken for those of the newest snapshot then.
        let snaps = snaps.map(|noted| if noted == UNKNOWN_SNAP { snap } else { noted }).collect();
        PreservedState { version: info.version, size_bytes: info.size_bytes.unwrap_or(stat.size_bytes), snaps }
    }
}

/// Gives up what is lost of an object. Everything else of it that is somewhere is here. Nothing to do: no steps.
pub(crate) fn give_up(store: &mut Store, request: &Request<'_>, give_up: &mut GiveUp) -> Run {
    match give_up.learn(store, request.object) {
        Ok(()) => Run::Done(give_up.effects(request)),
        Err(NoAnswer::Pending(id)) => Run::Blocked(id),
        Err(NoAnswer::Damaged(damage)) => {
            tracing::error!(object = %request.object, "nothing of it is given up: {damage}");
            Run::Done(Effects::default())
        }
    }
}

impl GiveUp {
    pub fn new(lost: BTreeMap<ObjectId, EVersion>, snaps: Option<BTreeSet<SnapId>>) -> GiveUp {
        GiveUp { lost, snaps, ..GiveUp::default() }
    }

    /// Adds states of the object that are lost beside the known ones.
    pub fn also(&mut self, lost: BTreeMap<ObjectId, EVersion>) {
        self.lost.extend(lost);
        self.look_again();
    }

    /// Keeps states among the lost ones if `is_lost` says so; the others have been found since.
    pub fn keep(&mut self, is_lost: impl Fn(&ObjectId) -> bool) {
        let before = self.lost.len();
        self.lost.retain(|state, _| is_lost(state));
        if self.lost.len() < before {
            self.look_again();
        }
    }

    /// Forgets what was seen while other states were lost: a state that was found is another one than was here.
    fn look_again(&mut self) {
        *self = GiveUp::new(std::mem::take(&mut self.lost), self.snaps.take());
    }

    /// Looks up the present state that is here, and the states that snapshots preserve.
    fn learn(&mut self, store: &mut Store, head: &ObjectId) -> Result<(), NoAnswer> {
        if self.head.is_none() {
            self.head = Some(ready(store.stat(head))?);
        }
        while !self.all_listed {
            let from = match self.states.last_key_value() {
                Some((last, _)) => ObjectId { snap: SnapId(last.0 + 1), ..head.clone() },
                None => head.before_all_states(),
            };
            let page = ready(store.list(&from, head, PAGE_STATES))?;
            self.all_listed = page.len() < PAGE_STATES;
            self.states.extend(page.into_iter().map(|state| (state.snap, None)));
        }
        for (snap, kept) in self.states.iter_mut().filter(|(_, kept)| kept.is_none()) {
            let state = ObjectId { snap: *snap, ..head.clone() };
            if !self.lost.contains_key(&state) {
                *kept = ready(store.stat(&state))?.map(|stat| PreservedState::of(*snap, &stat));
            }
        }
        Ok(())
    }

    fn effects(&mut self, request: &Request<'_>) -> Effects {
        let head = request.object;
        let stat = self.head.clone().flatten();
        let info = stat.as_ref().and_then(|stat| ObjectInfo::of(stat).ok());
        let wanted = self.lost.get(head).copied();
        if self.lost.is_empty() || stat.is_some() && info.is_none() && wanted.is_none() {
            return Effects::default();
        }
        let mut effects = Effects { is_removal: true, ..Effects::default() };
        let snap_set = match (&stat, &info) {
            (Some(stat), Some(info)) if wanted.is_none() => {
                self.leave_out(&mut effects);
                return self.without_clones(request, effects, stat, info.clone());
            }
            _ => self.known_again(info.as_ref().filter(|info| wanted == Some(info.version)), info.as_ref(), head),
        };
        self.leave_out(&mut effects);
        effects.prior_version = wanted.unwrap_or_default();
        effects.user_version = request.last_user_version + 1;
        effects.steps.push(Step::Remove { object: head.clone() });
        if let (Some(stat), Some(info)) = (&stat, &info) {
            let size_bytes = info.size_bytes.unwrap_or(stat.size_bytes);
            effects.bytes_delta = -((size_bytes + info.snap_set.clone_bytes()) as i64);
            let ended = |(cookie, watcher): &(u64, EntityName)| WatchEffect::Ended {
                cookie: *cookie,
                watcher: *watcher,
                object_removed: true,
            };
            effects.watch = info.watchers.keys().map(ended).collect();
        }
        effects.objects_delta -= i64::from(wanted.is_some());
        if snap_set.clones.is_empty() {
            effects.deleted = true;
            return effects;
        }
        if let Some(version) = wanted {
            effects.others.push(lost_state(head, version));
            effects.prior_version = EVersion::ZERO;
        }
        effects.objects_delta += 1;
        effects.bytes_delta += snap_set.clone_bytes() as i64;
        let info = ObjectInfo {
            version: after(request.next_version, effects.others.len()),
            user_version: effects.user_version,
            mtime: request.now,
            size_bytes: request.layout.map(|_| 0),
            snap_set,
            ..ObjectInfo::default()
        };
        effects.steps.push(Step::Touch { object: head.clone() });
        let name = OBJECT_INFO_ATTR.to_vec();
        effects.steps.push(Step::SetAttr { object: head.clone(), name, value: info.to_bytes() });
        effects
    }

    /// Removes lost states that snapshots preserve.
    fn leave_out(&self, effects: &mut Effects) {
        for (state, version) in self.lost.iter().filter(|(state, _)| state.is_clone()) {
            effects.others.push(lost_state(state, *version));
            effects.steps.push(Step::Remove { object: state.clone() });
            effects.objects_delta -= 1;
        }
    }

    /// Takes lost states out of the list of the present state, which is there.
    fn without_clones(
        &self,
        request: &Request<'_>,
        mut effects: Effects,
        stat: &ObjectStat,
        mut info: ObjectInfo,
    ) -> Effects {
        let before = info.snap_set.clone_bytes() as i64;
        self.lost.keys().for_each(|state| info.snap_set.remove_clone(state.snap));
        effects.bytes_delta = info.snap_set.clone_bytes() as i64 - before;
        (effects.prior_version, effects.user_version) = (info.version, info.user_version);
        let (object, size_bytes) = (request.object.clone(), info.size_bytes.unwrap_or_default());
        if info.snap_set.is_whiteout && info.snap_set.clones.is_empty() {
            effects.deleted = true;
            effects.objects_delta -= 1;
            effects.steps.push(Step::Remove { object });
        } else {
            info.prior_version = info.version;
            info.version = after(request.next_version, effects.others.len());
            let value = info.to_bytes();
            effects.steps.push(Step::SetAttr { object, name: OBJECT_INFO_ATTR.to_vec(), value });
        }
        effects.separate_shards(request, stat, size_bytes);
        effects
    }

    /// Returns the snapshots of an object whose present state is lost, as far as the states that there are tell.
    /// `exact` is the lost state's own information, if that is here; `old` may be an older one's.
    fn known_again(&mut self, exact: Option<&ObjectInfo>, old: Option<&ObjectInfo>, head: &ObjectId) -> SnapSet {
        let mut known = exact.map(|info| info.snap_set.clone()).unwrap_or_default();
        let mut all = IntervalSet::new();
        all.insert(0, u64::MAX);
        known.head_changed(&all);
        let is_kept = |id: SnapId| self.states.get(&id).is_some_and(Option::is_some);
        let gone: Vec<SnapId> = known.clones.iter().map(|clone| clone.id).filter(|id| !is_kept(*id)).collect();
        gone.into_iter().for_each(|id| known.remove_clone(id));
        let ids = known.clones.iter().map(|clone| clone.id);
        if !ids.eq(self.states.iter().filter(|(_, kept)| kept.is_some()).map(|(id, _)| *id)) {
            // Bytes that these states share with states between them are not known.
            known.clones.clear();
            for (id, kept) in self.states.iter().filter_map(|(id, kept)| Some((*id, kept.as_ref()?))) {
                let listed = old.and_then(|info| info.snap_set.clones.iter().find(|clone| clone.id == id));
                let snaps = listed.map_or_else(|| kept.snaps.clone(), |clone| clone.snaps.clone());
                known.clones.push(ObjectClone { id, snaps, size_bytes: kept.size_bytes, overlap: IntervalSet::new() });
            }
        }
        if let Some(snaps) = &self.snaps {
            known.clones.iter_mut().for_each(|clone| clone.snaps.retain(|snap| snaps.contains(snap)));
        }
        // A state that no snapshot needs would never go.
        let unneeded = known.clones.iter().filter(|clone| clone.snaps.is_empty()).map(|clone| clone.id);
        for id in unneeded.collect::<Vec<_>>() {
            let version = self.states[&id].as_ref().expect("it is there").version;
            self.lost.insert(ObjectId { snap: id, ..head.clone() }, version);
            known.remove_clone(id);
        }
        let newest = known.clones.last().map_or(SnapId::default(), |clone| clone.id);
        let seq = old.map_or(SnapId::default(), |info| info.snap_set.seq);
        (known.seq, known.is_whiteout) = (known.seq.max(newest).max(seq), true);
        known
    }
}

fn lost_state(state: &ObjectId, prior_version: EVersion) -> OtherChange {
    let (object, kind) = (state.clone(), LogKind::Delete);
    OtherChange { object, kind, prior_version, user_version: 0, is_lost: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    #[test]
    fn what_was_seen_is_looked_at_again_when_other_states_are_lost() {
        let head = ObjectId::head(PoolId(1), 7, b"", b"o");
        let state = |snap: u64| ObjectId { snap: SnapId(snap), ..head.clone() };
        let lost = |snaps: &[u64]| snaps.iter().map(|snap| (state(*snap), EVersion::new(1, *snap))).collect();
        let mut give_up = GiveUp::new(lost(&[2, 3]), Some([SnapId(5)].into()));
        let see = |give_up: &mut GiveUp| {
            (give_up.head, give_up.all_listed) = (Some(None), true);
            let kept = PreservedState { version: EVersion::new(1, 1), size_bytes: 5, snaps: vec![SnapId(1)] };
            give_up.states.insert(SnapId(1), Some(kept));
        };
        let is_seen = |give_up: &GiveUp| (give_up.head.is_some(), give_up.all_listed, give_up.states.len());
        see(&mut give_up);
        give_up.keep(|_| true);
        assert_eq!(is_seen(&give_up), (true, true, 1));
        give_up.keep(|object| *object == state(3));
        assert_eq!((is_seen(&give_up), &give_up.lost), ((false, false, 0), &lost(&[3])));
        see(&mut give_up);
        give_up.also(lost(&[4]));
        assert_eq!((is_seen(&give_up), &give_up.lost), ((false, false, 0), &lost(&[3, 4])));
        assert_eq!(give_up.snaps, Some([SnapId(5)].into()));
    }
}
