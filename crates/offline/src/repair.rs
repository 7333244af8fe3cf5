//! Repairs that need nothing but this store.
//!
//! A repair rewrites only data for which another copy in the same store is proof. It does not mend a bad block of an
//! object: every read of that block fails until the block is written anew. It removes a damaged object only if the
//! operator names the object; the object's placement group then brings it from another member.

use crate::check::check_open;
use crate::finding::MAKE_ANEW;
use crate::{CheckReport, Device, Finding, OfflineError, OfflineStore, Progress, group, losses};
use bytes::Bytes;
use pg::info::PgInfo;
use pg::missing_step;
use pg::object_info::ObjectInfo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use store::{LABEL_OFFSETS, LabelBlock, Step, Transaction};
use types::{AlignedBuf, BLOCK_BYTES, EVersion, ObjectId, PgId};

/// One thing that a repair does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RepairAction {
    /// Copies the good superblock over the bad one.
    Superblock { device: store::Device, from: u64, to: u64 },
    /// Makes two checkpoints, which writes both roots.
    Roots,
    /// Removes an object. Its group notes that it lacks this version, and brings it from another member.
    RemoveObject { object: ObjectId, group: Option<(PgId, EVersion)>, bad_blocks: u64 },
    /// Removes an object with bad blocks whose group starts over: it is older than the group's state anyway.
    RemoveStale { object: ObjectId, bad_blocks: u64 },
    /// Writes zeros over blocks of the log that cannot be read and hold nothing that is needed.
    ClearLog { device: store::Device, offsets: Vec<u64> },
    /// Has a group note that it lacks an object that was lost with damaged metadata. The group brings it from another
    /// member.
    NoteLost { object: ObjectId, group: Option<(PgId, EVersion)> },
    /// Removes everything of a group but a note that it is incomplete, because it may have lost objects or entries of
    /// its table. The group copies everything from another member. `pg_num`: number of groups in its pool.
    StartOver { pg: PgId, pg_num: u32 },
    /// Makes the metadata whole without its lost parts.
    GiveUp { parts: u64 },
}

impl RepairAction {
    pub fn json(&self) -> Value {
        match self {
            RepairAction::Superblock { device, from, to } => {
                json!({"action": "superblock", "device": device.to_string(), "from": from, "to": to})
            }
            RepairAction::Roots => json!({"action": "roots"}),
            RepairAction::RemoveObject { object, group, bad_blocks } => json!({
                "action": "remove_object", "object": object.to_string(), "bad_blocks": bad_blocks,
                "pg": group.map(|(pg, _)| pg.to_string()), "version": group.map(|(_, version)| version.to_string()),
            }),
            RepairAction::RemoveStale { object, bad_blocks } => {
                json!({"action": "remove_stale", "object": object.to_string(), "bad_blocks": bad_blocks})
            }
            RepairAction::ClearLog { device, offsets } => {
                json!({"action": "clear_log", "device": device.to_string(), "device_offsets": offsets})
            }
            RepairAction::NoteLost { object, group } => json!({
                "action": "note_lost", "object": object.to_string(),
                "pg": group.map(|(pg, _)| pg.to_string()), "version": group.map(|(_, version)| version.to_string()),
            }),
            RepairAction::StartOver { pg, pg_num } => {
                json!({"action": "start_over", "pg": pg.to_string(), "pg_num": pg_num})
            }
            RepairAction::GiveUp { parts } => json!({"action": "give_up", "parts": parts}),
        }
    }
}

impl fmt::Display for RepairAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairAction::Superblock { device, from, to } => {
                write!(f, "copy the superblock at {from:#x} over the one at {to:#x}")?;
                if *device != store::Device::Main { write!(f, " of the {device}") } else { Ok(()) }
            }
            RepairAction::Roots => f.write_str("write both checkpoint roots anew"),
            RepairAction::RemoveObject { object, group, bad_blocks } => {
                write!(f, "remove object {object} ({bad_blocks} bad blocks); ")?;
                match group {
                    Some((pg, version)) => write!(f, "pg {pg} then brings version {version} from another member"),
                    None => f.write_str("it belongs to no placement group of this store"),
                }
            }
            RepairAction::RemoveStale { object, bad_blocks } => {
                write!(f, "remove object {object} ({bad_blocks} bad blocks), whose pg starts over")
            }
            RepairAction::ClearLog { device, offsets } => {
                write!(f, "write zeros over {} unreadable blocks of the log on the {device}", offsets.len())
            }
            RepairAction::NoteLost { object, group: Some((pg, version)) } => {
                write!(f, "give up object {object}; pg {pg} then brings version {version} from another member")
            }
            RepairAction::NoteLost { object, group: None } => write!(f, "give up object {object}"),
            RepairAction::StartOver { pg, .. } => {
                write!(f, "have pg {pg} start over: it then copies everything from another member")
            }
            RepairAction::GiveUp { parts } => write!(f, "write the metadata anew without its {parts} lost parts"),
        }
    }
}

/// Actions of a repair, and the findings of the check that they rest on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairPlan {
    pub actions: Vec<RepairAction>,
    pub report: CheckReport,
}

/// Actions that a repair has carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairReport {
    pub done: Vec<RepairAction>,
    /// Result of the check after the repair.
    pub after: CheckReport,
}

impl RepairPlan {
    /// Damage that the actions do not mend.
    pub fn remains(&self) -> impl Iterator<Item = &Finding> {
        self.report.findings.iter().filter(|finding| finding.is_damage() && !self.mends(finding))
    }

    fn mends(&self, finding: &Finding) -> bool {
        self.actions.iter().any(|action| match (action, finding) {
            (RepairAction::Superblock { device, to, .. }, Finding::Superblock { device: of, offset, .. }) => {
                (device, to) == (of, offset)
            }
            (RepairAction::Roots, Finding::Root { .. }) => true,
            (RepairAction::GiveUp { .. }, Finding::Lost { .. } | Finding::LostObject { .. }) => true,
            (RepairAction::ClearLog { .. }, Finding::LogBlock { .. }) => true,
            (RepairAction::RemoveStale { object, .. }, finding) => object_of(finding) == Some(object),
            (RepairAction::StartOver { pg, .. }, Finding::Group { pg: of, .. }) => pg == of,
            (RepairAction::RemoveObject { object, .. }, finding) => object_of(finding) == Some(object),
            _ => false,
        })
    }
}

fn object_of(finding: &Finding) -> Option<&ObjectId> {
    match finding {
        Finding::Block {
            error: store::ReadError::Checksum { object, .. } | store::ReadError::Device { object, .. },
        } => Some(object),
        Finding::ObjectInfo { object, .. } => Some(object),
        _ => None,
    }
}

/// Checks the store and says what could be done. The store must have been opened to be mended. `remove`: names of
/// damaged objects, as a check prints them. Errors: an object that is not there, or is not damaged.
pub fn plan_repair<D: Device>(
    store: &mut OfflineStore<D>,
    remove: &[String],
    progress: Progress<'_>,
) -> Result<RepairPlan, OfflineError> {
    let report = check_open(store, progress)?;
    let mut actions = Vec::new();
    for (device, copies) in store.superblocks() {
        let sound = copies.iter().position(|copy| matches!(copy, LabelBlock::Sound(_))).expect("the store is open");
        for (at, copy) in copies.iter().enumerate() {
            if !matches!(copy, LabelBlock::Sound(_)) {
                let (from, to) = (LABEL_OFFSETS[sound], LABEL_OFFSETS[at]);
                actions.push(RepairAction::Superblock { device: *device, from, to });
            }
        }
    }
    let losses = losses::of(store)?;
    if let Some(why) = losses.as_ref().and_then(|losses| losses.refused.as_ref()) {
        return Err(OfflineError::Refused(format!("{why}. {MAKE_ANEW}")));
    }
    if let Some(losses) = losses {
        if losses.log {
            actions.extend(stale(&report));
        }
        actions.extend(losses.objects.into_iter().map(|(object, group)| RepairAction::NoteLost { object, group }));
        actions.extend(losses.start_over.into_iter().map(|(pg, pg_num)| RepairAction::StartOver { pg, pg_num }));
        actions.push(RepairAction::GiveUp { parts: losses.parts.len() as u64 });
    }
    // Actions that write checkpoints come after the notes, because an earlier checkpoint would lack the notes.
    if report.findings.iter().any(|finding| matches!(finding, Finding::Root { .. })) {
        actions.push(RepairAction::Roots);
    }
    if !store.store().unreadable_log().is_empty() {
        let (device, offsets) = (store.store().log_device(), store.store().unreadable_log().to_vec());
        actions.push(RepairAction::ClearLog { device, offsets });
    }
    for name in remove {
        actions.push(removal(store, name, &report)?);
    }
    Ok(RepairPlan { actions, report })
}

/// Removals of all objects with bad blocks, for a store whose groups all start over.
fn stale(report: &CheckReport) -> Vec<RepairAction> {
    let mut bad: BTreeMap<&ObjectId, u64> = BTreeMap::new();
    let blocks = report.findings.iter().filter(|finding| matches!(finding, Finding::Block { .. }));
    blocks.filter_map(object_of).for_each(|object| *bad.entry(object).or_default() += 1);
    let remove =
        |(object, bad_blocks): (&ObjectId, u64)| RepairAction::RemoveStale { object: object.clone(), bad_blocks };
    bad.into_iter().map(remove).collect()
}

fn removal<D: Device>(
    store: &mut OfflineStore<D>,
    name: &str,
    report: &CheckReport,
) -> Result<RepairAction, OfflineError> {
    let mut found = None;
    store.for_each_object(&ObjectId::min(), &ObjectId::max(), |_, object| {
        if object.to_string() == name {
            found = Some(object);
        }
        Ok(())
    })?;
    let refused = |what: String| Err(OfflineError::Refused(what));
    let Some(object) = found else {
        return refused(format!("there is no object {name}; give it as 'nacre store check' prints it"));
    };
    let findings = report.findings.iter().filter(|finding| object_of(finding) == Some(&object));
    let bad_blocks = findings.clone().filter(|finding| matches!(finding, Finding::Block { .. })).count() as u64;
    if findings.count() == 0 {
        return refused(format!("object {name} is not damaged"));
    }
    let stat = store.ready(|store| store.stat(&object))?;
    let own = stat.and_then(|stat| ObjectInfo::of(&stat).ok()).map(|info| info.version);
    let group = match group::of_object(store, &object)? {
        None => None,
        Some(group) => match group.table.version_of(&object).or(own) {
            Some(version) => Some((group.pg, version)),
            None => return refused(format!("object {name}: nothing says which version pg {} should have", group.pg)),
        },
    };
    // If the pool has a group that does not tell its objects, the object may be its own, and the group must not lose it
    // unnoticed.
    let silent = store.store().pgs().into_iter().any(|pg| pg.pool == object.pool);
    if group.is_none() && silent {
        return refused(format!("object {name}: cannot tell which placement group would bring it back"));
    }
    Ok(RepairAction::RemoveObject { object, group, bad_blocks })
}

/// Carries out a plan on the store that it was made for, which must be open for writing. Then checks the store again.
/// Also gives the device back.
pub fn repair<D: Device>(
    mut store: OfflineStore<D>,
    plan: &RepairPlan,
    progress: Progress<'_>,
) -> Result<(D, RepairReport), OfflineError> {
    for action in &plan.actions {
        match action {
            RepairAction::Superblock { device, from, to } => {
                let block = store
                    .read_raw(*device, *from, BLOCK_BYTES)
                    .map_err(|errno| OfflineError::SuperblockRead { offset: *from, errno })?;
                store.write_raw(*device, *to, block)?;
            }
            RepairAction::Roots => {
                store.settle(true)?;
                store.settle(true)?;
            }
            RepairAction::RemoveObject { object, group, .. } => {
                let mut steps = vec![Step::Remove { object: object.clone() }];
                let pg = match group {
                    Some((pg, version)) => {
                        steps.push(missing_step(object, *version));
                        *pg
                    }
                    None => PgId { pool: object.pool, seed: 0 },
                };
                store.submit(Transaction { pg, steps })?;
                store.settle(false)?;
            }
            RepairAction::RemoveStale { object, .. } => {
                let pg = PgId { pool: object.pool, seed: 0 };
                store.submit(Transaction { pg, steps: vec![Step::Remove { object: object.clone() }] })?;
            }
            RepairAction::ClearLog { device, offsets } => {
                // Blocks of the log that the checkpoint or other writes have replaced can be read again.
                store.settle(true)?;
                for offset in offsets {
                    if store.read_raw(*device, *offset, BLOCK_BYTES).is_err() {
                        store.write_raw(*device, *offset, AlignedBuf::zeroed(BLOCK_BYTES))?;
                    }
                }
            }
            RepairAction::NoteLost { object, group } => {
                if let Some((pg, version)) = group {
                    store.submit(Transaction { pg: *pg, steps: vec![missing_step(object, *version)] })?;
                }
            }
            RepairAction::StartOver { pg, pg_num } => {
                let all = Step::PgRemoveRange { begin: Bytes::new(), end: Bytes::from_static(&[0xff]) };
                let info = PgInfo { complete: false, pg_num: *pg_num, ..PgInfo::default() };
                store.submit(Transaction { pg: *pg, steps: vec![all, info.step()] })?;
            }
            // This checkpoint covers the notes.
            RepairAction::GiveUp { .. } => store.settle(true)?,
        }
    }
    store.settle(false)?;
    let mut store = OfflineStore::open_to_mend(store.into_device())?;
    let after = check_open(&mut store, progress)?;
    Ok((store.into_device(), RepairReport { done: plan.actions.clone(), after }))
}
