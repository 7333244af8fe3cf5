//! Snapshots of an object: which state is read, what an update preserves, and what is given up.
//!
//! The rules are Ceph's. A writer tells which snapshots there are. Before the first change after one of them, the
//! object is cloned; the clone is an object of its own beside the present state, whose object information lists the
//! clones.

use super::Answers;
use super::execute::{
    Effects, Execution, FormerState, OpStop, OtherChange, Request, Run, StepOutput, after, done, output,
};
use super::watch::WatchEffect;
use crate::coded::change::{OmapBefore, take_data};
use crate::coded::rewrite::Rewrite;
use crate::group::log::LogKind;
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::group::snap_set::{AtSnap, ObjectClone, SnapSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{ObjectStat, SNAPS_ATTR, Step, Store};
use types::{EVersion, Errno, ObjectId, SnapId};
use wire::Writer;
use wire::basic::IntervalSet;
use wire::messages::{Op, OpArgs};

/// Checks that an update with these snapshots may be carried out. Errors: EOLDSNAPC if the object knows newer ones,
/// EINVAL if they are not valid.
pub(super) fn check_context(request: &Request<'_>, known: &SnapSet) -> Result<(), Errno> {
    if !request.may_write {
        return Ok(());
    }
    if request.order_snaps && request.snaps.seq < known.seq {
        return Err(Errno::EOLDSNAPC);
    }
    match request.snaps.is_valid() || mutant::is(mutant::Mutant::SnapBeyondTaken) {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

/// Returns the state of the object that a request is about.
pub(super) fn resolve(request: &Request<'_>, is_there: bool, known: &SnapSet) -> Result<AtSnap, Errno> {
    match request.snap {
        SnapId::HEAD | SnapId::DIR => Ok(AtSnap::Head),
        snap if !is_there || is_removed(request, snap) => Err(Errno::ENOENT),
        snap => Ok(known.at(snap)),
    }
}

fn is_removed(request: &Request<'_>, snap: SnapId) -> bool {
    request.removed_snaps.is_some_and(|removed| removed.contains(snap.0))
}

impl Execution<'_> {
    /// Returns the steps that keep the object's former state, if a snapshot needs it, in a transaction that changes the
    /// object. They come before all other steps.
    ///
    /// Errors: EINVAL if the kept state would get a number that no snapshot can have.
    pub(super) fn preserve(&mut self, effects: &mut Effects) -> Result<Vec<Step>, Errno> {
        let snaps = self.request.snaps;
        if snaps.seq > SnapId::LAST && !mutant::is(mutant::Mutant::SnapBeyondTaken) {
            return Err(Errno::EINVAL);
        }
        let seq = self.info.snap_set.seq;
        let newest = snaps.snaps.first().copied().unwrap_or_default();
        let mut steps = Vec::new();
        if self.before.is_some() && newest > seq {
            let object = self.object();
            let clone = ObjectId { snap: snaps.seq, ..object.clone() };
            let newer: Vec<SnapId> = snaps.snaps.iter().copied().take_while(|snap| *snap > seq).collect();
            let snaps_value = store::snaps_attr(&newer);
            Arc::make_mut(&mut self.info).snap_set.add_clone(snaps.seq, newer, self.size_before);
            let info = ObjectInfo {
                version: after(self.request.next_version, effects.others.len()),
                prior_version: self.info_before.version,
                snap_set: SnapSet::default(),
                watchers: BTreeMap::new(),
                ..(*self.info_before).clone()
            };
            steps = vec![
                Step::Clone { from: object, to: clone.clone() },
                Step::SetAttr { object: clone.clone(), name: OBJECT_INFO_ATTR.to_vec(), value: info.to_bytes() },
                // The store finds the clone by this attribute when these snapshots go. It stays as it is when some of
                // them do.
                Step::SetAttr { object: clone.clone(), name: SNAPS_ATTR.to_vec(), value: snaps_value },
            ];
            effects.others.push(OtherChange {
                object: clone,
                kind: LogKind::Modify,
                prior_version: EVersion::ZERO,
                user_version: info.user_version,
                is_lost: false,
            });
        }
        let changed = std::mem::take(&mut self.changed);
        let known = &mut Arc::make_mut(&mut self.info).snap_set;
        effects.bytes_delta += known.head_changed(&changed) as i64;
        known.seq = seq.max(snaps.seq);
        Ok(steps)
    }

    pub(super) fn list_snaps(&mut self) -> StepOutput {
        let known = &self.info.snap_set;
        let of_clone = |clone: &ObjectClone| 34 + 8 * clone.snaps.len() + 16 * clone.overlap.run_count();
        self.answers.take(50 + known.clones.iter().map(of_clone).sum::<usize>() as u64)?;
        let head = self.exists.then_some(self.size);
        output(|w| {
            w.versioned(2, 1, |w| {
                w.count(known.clones.len() + usize::from(head.is_some()));
                known.clones.iter().for_each(|clone| put_clone(w, clone));
                if let Some(size) = head {
                    w.versioned(1, 1, |w| {
                        w.put(&SnapId::HEAD);
                        w.count(0);
                        w.count(0);
                        w.u64(size);
                    });
                }
                w.put(&known.seq);
            });
        })
    }

    /// Makes the object what it was at a snapshot; removes it, if it was not there.
    pub(super) fn roll_back(&mut self, op: &Op) -> StepOutput {
        let OpArgs::Snap(snap) = op.args else { return Err(Errno::EINVAL.into()) };
        // The object's information before this operation tells where the state was.
        let before = self.info_before.clone();
        let known = &before.snap_set;
        let is_there = self.before.is_some() || known.is_whiteout;
        let at = match snap {
            SnapId::HEAD => AtSnap::Head,
            _ if !is_there || is_removed(self.request, snap) => AtSnap::Nothing,
            _ => known.at(snap),
        };
        let clone = match at {
            AtSnap::Head if self.exists => {
                (self.modified, self.user_modified) = (true, true);
                return done();
            }
            AtSnap::Clone(snap) => Some(ObjectId { snap, ..self.object() }),
            AtSnap::Head | AtSnap::Nothing => None,
        };
        let stat = match &clone {
            Some(clone) if !self.request.at_hand.contains(clone) => return Err(OpStop::Wants(clone.clone())),
            Some(clone) => self.answers.clone_stat(self.store, clone)?,
            None => None,
        };
        let Some((clone, stat)) = clone.zip(stat) else {
            if self.exists {
                if !self.info.watchers.is_empty() {
                    return Err(Errno::EBUSY.into());
                }
                self.remove();
            }
            return done();
        };
        let object = self.object();
        let size = match self.request.layout {
            None => stat.size_bytes,
            // The size that is here is a shard's.
            Some(_) => {
                let info = ObjectInfo::of(&stat).ok();
                let state = info.and_then(|info| Some((info.version, info.size_bytes?)));
                let (version, size_bytes) = state.ok_or_else(|| {
                    tracing::error!(object = %clone, "object information does not tell how long the object is");
                    Errno::EIO
                })?;
                self.gone_back_to = Some(FormerState { object: clone.clone(), version, size_bytes });
                size_bytes
            }
        };
        let mut changed = IntervalSet::new();
        changed.insert(0, size.max(self.size));
        changed.subtract(&known.overlap_with_head(clone.snap));
        self.changed.union(&changed);
        // Changes that earlier steps of this operation made to the object are gone.
        self.void_steps();
        self.push(Step::Clone { from: clone.clone(), to: object.clone() });
        self.push(Step::RemoveAttr { object, name: SNAPS_ATTR.to_vec() });
        Arc::make_mut(&mut self.info).digests = ObjectInfo::of(&stat).map(|info| info.digests).unwrap_or_default();
        (self.exists, self.size) = (true, size);
        self.sources.push(clone);
        done()
    }
}

fn put_clone(w: &mut Writer, clone: &ObjectClone) {
    w.versioned(1, 1, |w| {
        w.put(&clone.id);
        w.count(clone.snaps.len());
        clone.snaps.iter().rev().for_each(|snap| w.put(snap));
        w.count(clone.overlap.run_count());
        for (start, len) in clone.overlap.runs() {
            w.u64(start);
            w.u64(len);
        }
        w.u64(clone.size_bytes);
    });
}

/// Takes `removed` snapshots out of the oldest clone that has one, and removes that clone if it has no other. Says
/// whether there may be more to do. Nothing to do: no steps. Damage: EIO.
pub(crate) fn trim(
    store: &mut Store,
    request: &Request<'_>,
    answers: &mut Answers,
    removed: &IntervalSet,
) -> (Run, bool) {
    answers.rewind(usize::MAX);
    let nothing = || (Run::Done(Effects::default()), false);
    let damaged = || (Run::Done(Effects { result: Errno::EIO.as_result(), ..Effects::default() }), false);
    let stat = match answers.stat(store, request.object).map_err(OpStop::from) {
        Ok(Some(stat)) => stat,
        Err(OpStop::Blocked(id)) => return (Run::Blocked(id), false),
        Ok(None) => return nothing(),
        Err(_) => return damaged(),
    };
    let Ok(mut info) = ObjectInfo::of(&stat) else { return damaged() };
    let Some(snap) = info.snap_set.find_removed(removed) else { return nothing() };
    if request.layout.is_some() && info.size_bytes.is_none() {
        tracing::error!(object = %request.object, "object information does not tell how long the object is");
        return damaged();
    }
    // In erasure-coded pools this is the size of the whole object, while the store has a shard of it.
    let size_bytes = info.size_bytes.unwrap_or_default();
    let mut effects = Effects { prior_version: info.version, is_removal: true, ..Effects::default() };
    let bytes_before = info.snap_set.clone_bytes() as i64;
    let clone = ObjectId { snap, ..request.object.clone() };
    let known = info.snap_set.clones.iter_mut().find(|known| known.id == snap).expect("just found");
    known.snaps.retain(|snap| !removed.contains(snap.0));
    if known.snaps.is_empty() {
        if !request.at_hand.contains(&clone) {
            return (Run::Wants(clone), false);
        }
        let stat = match answers.clone_stat(store, &clone).map_err(OpStop::from) {
            Ok(stat) => stat,
            Err(OpStop::Blocked(id)) => return (Run::Blocked(id), false),
            Err(_) => return damaged(),
        };
        info.snap_set.remove_clone(snap);
        // The state may have been given up before.
        if let Some(stat) = stat {
            let prior_version = ObjectInfo::of(&stat).map(|info| info.version).unwrap_or_default();
            let kind = LogKind::Delete;
            effects.others.push(OtherChange {
                object: clone.clone(),
                kind,
                prior_version,
                user_version: 0,
                is_lost: false,
            });
            effects.objects_delta -= 1;
            effects.steps.push(Step::Remove { object: clone });
        }
    }
    effects.bytes_delta = info.snap_set.clone_bytes() as i64 - bytes_before;
    effects.user_version = info.user_version;
    let object = request.object.clone();
    if info.snap_set.is_whiteout && info.snap_set.clones.is_empty() {
        effects.deleted = true;
        effects.objects_delta -= 1;
        let ended = |(cookie, watcher)| WatchEffect::Ended { cookie, watcher, object_removed: true };
        effects.watch = info.watchers.into_keys().map(ended).collect();
        effects.steps.push(Step::Remove { object });
        effects.separate_shards(request, &stat, size_bytes);
        return (Run::Done(effects), false);
    }
    info.prior_version = info.version;
    info.version = after(request.next_version, effects.others.len());
    let value = info.to_bytes();
    effects.steps.push(Step::SetAttr { object, name: OBJECT_INFO_ATTR.to_vec(), value });
    effects.separate_shards(request, &stat, size_bytes);
    (Run::Done(effects), info.snap_set.find_removed(removed).is_some())
}

impl Effects {
    /// Takes the data out of the steps, in an erasure-coded pool, and notes how shards take back what becomes of the
    /// object itself, which was as `before` says.
    pub(super) fn separate_shards(&mut self, request: &Request<'_>, before: &ObjectStat, size_bytes: u64) {
        self.change = request.layout.map(|layout| {
            let rewrite = Rewrite::of(request.object, &self.steps, size_bytes, 0, layout);
            let (object, steps, same) = (request.object, &mut self.steps, OmapBefore::SAME);
            let change = take_data(object, steps, Some(before), size_bytes, &rewrite, same, &layout);
            Box::new(change)
        });
    }
}
