//! An image's snapshots.

use super::header::change_op_features;
use super::parent;
use super::{ESTALE, NO_SNAP, SNAP_MAX, feature, op_feature, require_feature};
use crate::object::{Object, Output, Stop, decode_stored};
use bytes::Bytes;
use types::Errno;
use wire::Reader;
use wire::rbd::{Parent, Snapshot, SnapshotInfo, SnapshotNamespace, protection};

const KEY_PREFIX: &str = "snapshot_";

pub(super) fn snapshot_key(snap: u64) -> String {
    format!("{KEY_PREFIX}{snap:016x}")
}

/// Loads a snapshot. ENOENT if it does not exist.
pub(super) fn load(object: &mut dyn Object, snap: u64) -> Result<Snapshot, Stop> {
    object.must_have(snapshot_key(snap))
}

pub(super) fn load_all(object: &mut dyn Object) -> Result<Vec<Snapshot>, Stop> {
    object.all_values(KEY_PREFIX.as_bytes())?.iter().map(|(_, value)| decode_stored(value)).collect()
}

/// Loads the snapshot whose id begins the input. EINVAL for the id of the image itself.
fn named(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Snapshot, Stop> {
    match input.u64()? {
        NO_SNAP => Err(Errno::EINVAL.into()),
        snap => load(object, snap),
    }
}

fn save(object: &mut dyn Object, snapshot: &Snapshot) -> Result<Output, Stop> {
    object.set_value(snapshot_key(snapshot.id), snapshot)?;
    Ok(Output::none())
}

pub(super) fn get_context(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let newest: u64 = object.must_have("snap_seq")?;
    let snapshots = load_all(object)?;
    Ok(Output::of(|w| {
        w.u64(newest);
        w.count(snapshots.len());
        // Keys ascend with the ids.
        snapshots.iter().rev().for_each(|snapshot| w.u64(snapshot.id));
    }))
}

pub(super) fn get_name(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snapshot = named(object, input)?;
    Ok(Output::of(|w| w.put(&snapshot.name)))
}

pub(super) fn get_timestamp(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snapshot = named(object, input)?;
    Ok(Output::of(|w| w.put(&snapshot.timestamp)))
}

pub(super) fn get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snapshot = named(object, input)?;
    Ok(Output::of(|w| w.put(&SnapshotInfo::from(snapshot))))
}

pub(super) fn add(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (name, id): (Bytes, u64) = (input.get()?, input.u64()?);
    let namespace: SnapshotNamespace = if input.is_empty() { SnapshotNamespace::User } else { input.get()? };
    if id > SNAP_MAX {
        return Err(Errno::EINVAL.into());
    }
    let newest: u64 = object.must_have("snap_seq")?;
    if id < newest {
        // Another client was faster: this one takes a newer id.
        return Err(ESTALE.into());
    }
    let image_size = object.must_have("size")?;
    let flags = object.value("flags")?.unwrap_or(0);
    let limit: u64 = object.value("snap_limit")?.unwrap_or(u64::MAX);
    let others = load_all(object)?;
    if others.iter().any(|other| other.id == id || (other.name == name && other.namespace == namespace)) {
        return Err(Errno::EEXIST.into());
    }
    if others.len() as u64 >= limit {
        return Err(Errno::EDQUOT.into());
    }
    let parent: Option<Parent> = object.value("parent")?;
    if namespace.is_trash() {
        change_op_features(object, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    }
    let snapshot = Snapshot {
        id,
        name,
        image_size,
        protection: protection::UNPROTECTED,
        flags,
        namespace,
        timestamp: object.now(),
        child_count: 0,
        parent_overlap: parent.and_then(|parent| parent.head_overlap),
    };
    object.set_value("snap_seq", &id)?;
    save(object, &snapshot)
}

pub(super) fn remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snapshot = load(object, input.u64()?)?;
    if snapshot.protection != protection::UNPROTECTED || snapshot.child_count > 0 {
        return Err(Errno::EBUSY.into());
    }
    let others: Vec<Snapshot> = load_all(object)?.into_iter().filter(|other| other.id != snapshot.id).collect();
    if snapshot.parent_overlap.is_some() && others.iter().all(|other| other.parent_overlap.is_none()) {
        parent::forget_if_unused(object)?;
    }
    let gone = if others.iter().any(|other| other.namespace.is_trash()) { 0 } else { op_feature::SNAP_TRASH };
    if snapshot.namespace.is_trash() && gone != 0 {
        change_op_features(object, 0, gone)?;
    }
    object.remove_value(snapshot_key(snapshot.id))?;
    Ok(Output::none())
}

pub(super) fn rename(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (id, name): (u64, Bytes) = (input.u64()?, input.get()?);
    let snapshot = load(object, id)?;
    let taken = |other: &Snapshot| other.name == name && other.namespace == snapshot.namespace;
    if load_all(object)?.iter().any(taken) {
        return Err(Errno::EEXIST.into());
    }
    save(object, &Snapshot { name, ..snapshot })
}

/// A text in the form of a random UUID.
fn random_uuid(object: &mut dyn Object) -> String {
    let (a, b) = (object.random(), object.random());
    let time_hi = 0x4000 | (a & 0xfff);
    let clock = 0x8000 | (b >> 48 & 0x3fff);
    format!("{:08x}-{:04x}-{time_hi:04x}-{clock:04x}-{:012x}", a >> 32, a >> 16 & 0xffff, b & 0xffff_ffff_ffff)
}

pub(super) fn trash(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snapshot = load(object, input.u64()?)?;
    if snapshot.protection != protection::UNPROTECTED {
        return Err(Errno::EBUSY.into());
    }
    if snapshot.namespace.is_trash() {
        return Err(Errno::EEXIST.into());
    }
    change_op_features(object, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    let original_kind = snapshot.namespace.kind();
    let namespace = SnapshotNamespace::Trash { original_name: snapshot.name.clone(), original_kind };
    let name = random_uuid(object).into();
    save(object, &Snapshot { name, namespace, ..snapshot })
}

pub(super) fn get_limit(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let limit: u64 = object.value("snap_limit")?.unwrap_or(u64::MAX);
    Ok(Output::of(|w| w.u64(limit)))
}

pub(super) fn set_limit(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let limit = input.u64()?;
    if limit == u64::MAX {
        object.remove_value("snap_limit")?;
        return Ok(Output::none());
    }
    if (load_all(object)?.len() as u64) > limit {
        return Err(Errno::ERANGE.into());
    }
    object.set_value("snap_limit", &limit)?;
    Ok(Output::none())
}

pub(super) fn get_protection(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snapshot = named(object, input)?;
    if snapshot.protection >= protection::END {
        return Err(Errno::EIO.into());
    }
    Ok(Output::of(|w| w.u8(snapshot.protection)))
}

pub(super) fn set_protection(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (snap, status) = (input.u64()?, input.u8()?);
    object.must_exist()?;
    require_feature(object, feature::LAYERING)?;
    if snap == NO_SNAP || status >= protection::END {
        return Err(Errno::EINVAL.into());
    }
    let snapshot = load(object, snap)?;
    save(object, &Snapshot { protection: status, ..snapshot })
}
