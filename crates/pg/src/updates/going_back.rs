//! Updates by which objects go back to what they were ([`crate::agreement::going_back`] tells when).

use crate::agreement::ways_back::{Way, WentBack};
use crate::context::{Context, OnCommit};
use crate::group::core::Core;
use crate::group::log::{LogEntry, LogKind};
use crate::group::missing::{found_step, missing_step};
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::messages::replication::RepOp;
use crate::ops::after;
use crate::updates::machine::Updates;
use std::collections::BTreeMap;
use store::Step;
use types::{EVersion, ObjectId};

impl Updates<'_> {
    /// Gives the former state of an object, which is here, a new version. Members get that as a log entry, and lack the
    /// object until it is sent to them. Returns what has become of the object; `None` if no log entry names it.
    pub(super) fn log_way_back(&mut self, cx: &mut Context<'_>, object: &ObjectId, way: Way) -> Option<WentBack> {
        let Way { to, voids, former, .. } = way;
        let newest = self.core.log.newest_of(object).cloned()?;
        let first = self.core.log.next_version(cx.map.epoch);
        let clones = self.core.void_clones(object, voids);
        let entry = |object: &ObjectId, at: usize, kind, prior_version| LogEntry {
            prior_version,
            user_version: former.as_ref().map_or(newest.user_version, |info| info.user_version),
            mtime: former.as_ref().map_or(newest.mtime, |info| info.mtime),
            voids,
            ..LogEntry::new(after(first, at), kind, object.clone())
        };
        let others = clones.iter().enumerate();
        let others: Vec<_> = others.map(|(at, (clone, had))| entry(clone, at, LogKind::Delete, *had)).collect();
        let kind = if former.is_some() { LogKind::Modify } else { LogKind::Delete };
        let own = entry(object, others.len(), kind, newest.version);
        let version = own.version;
        tracing::warn!(pg = %self.core.id, %object, from = %newest.version, %to, %version,
            "goes back: nobody has what it should be, nor was anybody answered for that");
        let went_back = WentBack {
            object: object.clone(),
            version: former.is_some().then_some(version),
            clones: clones.into_keys().collect(),
        };
        let mut steps: Vec<Step> =
            went_back.clones.iter().map(|clone| Step::Remove { object: clone.clone() }).collect();
        if former.is_none() {
            steps.push(Step::Remove { object: object.clone() });
        }
        let mut info = self.core.info.clone();
        info.last_update = version;
        info.stats.clones -= others.len() as i64;
        info.stats.objects -= others.len() as i64 + i64::from(former.is_none());
        let mut own_steps = steps.clone();
        // The size of the lost state is not known.
        own_steps.push(self.counts.count_anew());
        if let Some(former) = former {
            let info = ObjectInfo { version, prior_version: newest.version, ..former };
            let (name, value) = (OBJECT_INFO_ATTR.to_vec(), info.to_bytes());
            own_steps.push(Step::SetAttr { object: object.clone(), name, value });
            if self.core.missing.contains_key(object) {
                own_steps.push(found_step(object));
            }
        }
        let committed = self.core.info.rolled_forward;
        let logged = self.core.logged_transaction(cx, (&others, &own, own.to_bytes()), &info, own_steps, committed);
        self.core.info = info;
        let entries = others.iter().chain([&own]).cloned();
        self.core.append_logged(entries, (logged.log_tail, logged.forgotten), logged.rolled_forward);
        let then = OnCommit::PrimaryUpdate { since: self.core.interval.since, version };
        cx.submit_or_stop(logged.transaction, then);
        self.core.missing.remove(object);
        let pg = self.core.pg_interval();
        for (osd, _) in self.members.receiving() {
            let (entry, others, info, steps) = (own.clone(), others.clone(), self.core.info.clone(), steps.clone());
            cx.send_osd(osd, RepOp { pg, entry, others, info, committed, steps, hops_wanted: false });
        }
        Some(went_back)
    }
}

impl Core {
    /// Returns the object's clones that void updates made, with their versions.
    fn void_clones(&self, object: &ObjectId, from: EVersion) -> BTreeMap<ObjectId, EVersion> {
        let mut clones = BTreeMap::new();
        for entry in self.log.entries().filter(|entry| entry.version >= from && entry.object.is_clone()) {
            match entry.kind {
                LogKind::Modify if entry.object.head_of() == *object => {
                    clones.insert(entry.object.clone(), entry.version);
                }
                LogKind::Delete => drop(clones.remove(&entry.object)),
                _ => {}
            }
        }
        clones
    }

    /// Notes that objects go back by an update that has come: what is here of them is not what they are now. Returns
    /// the steps that note it durably.
    pub(super) fn lacks_what_goes_back<'a>(&mut self, entries: impl Iterator<Item = &'a LogEntry>) -> Vec<Step> {
        let mut steps = Vec::new();
        for entry in entries {
            let LogEntry { kind, voids, object, version, .. } = entry;
            if *voids != EVersion::ZERO && *kind == LogKind::Modify && self.info.covers(object) {
                self.missing.insert(object.clone(), *version);
                steps.push(missing_step(object, *version));
            }
        }
        steps
    }
}
