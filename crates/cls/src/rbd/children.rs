//! Clones of an image's snapshots. Those of format v2 are in the image's header; those of format v1 are in one object
//! for all images of a pool.

use super::header::change_op_features;
use super::op_feature;
use super::snapshots::{self, snapshot_key};
use crate::object::{Object, Output, Stop, encoded};
use bytes::Bytes;
use std::collections::BTreeSet;
use types::Errno;
use wire::rbd::{ChildSpec, Snapshot};
use wire::{DecodeError, Reader};

fn children_key(snap: u64) -> String {
    format!("snap_children_{snap:016x}")
}

pub(super) fn attach(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (snap, child): (u64, ChildSpec) = (input.u64()?, input.get()?);
    let snapshot = snapshots::load(object, snap)?;
    if snapshot.namespace.is_trash() {
        return Err(Errno::ENOENT.into());
    }
    let mut children: BTreeSet<ChildSpec> = object.value(children_key(snap))?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    object.set_value(children_key(snap), &children)?;
    let child_count = snapshot.child_count + 1;
    object.set_value(snapshot_key(snap), &Snapshot { child_count, ..snapshot })?;
    change_op_features(object, op_feature::CLONE_PARENT, op_feature::CLONE_PARENT)?;
    Ok(Output::none())
}

pub(super) fn detach(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (snap, child): (u64, ChildSpec) = (input.u64()?, input.get()?);
    let snapshot = snapshots::load(object, snap)?;
    let mut children: BTreeSet<ChildSpec> = object.must_have(children_key(snap))?;
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    match children.is_empty() {
        true => object.remove_value(children_key(snap))?,
        false => object.set_value(children_key(snap), &children)?,
    }
    let child_count = children.len() as u32;
    object.set_value(snapshot_key(snap), &Snapshot { child_count, ..snapshot })?;
    if child_count == 0 && snapshots::load_all(object)?.iter().all(|s| s.id == snap || s.child_count == 0) {
        change_op_features(object, 0, op_feature::CLONE_PARENT)?;
    }
    Ok(Output::none())
}

pub(super) fn list(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snap = input.u64()?;
    snapshots::load(object, snap)?;
    let children: BTreeSet<ChildSpec> = object.must_have(children_key(snap))?;
    Ok(Output::of(|w| w.put(&children)))
}

/// Key of a parent's children of format v1: pool, image and snapshot, encoded.
fn parent_key(input: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    let (pool, image, snap): (i64, Bytes, u64) = (input.get()?, input.get()?, input.u64()?);
    Ok([&encoded(&pool)[..], &encoded(&image), &encoded(&snap)].concat().into())
}

pub(super) fn add(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (key, child) = (parent_key(input)?, input.get::<Bytes>()?);
    let mut children: BTreeSet<Bytes> = object.value(&key)?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    object.set_value(&key, &children)?;
    Ok(Output::none())
}

pub(super) fn remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (key, child) = (parent_key(input)?, input.get::<Bytes>()?);
    let mut children: BTreeSet<Bytes> = object.must_have(&key)?;
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    match children.is_empty() {
        true => object.remove_value(&key)?,
        false => object.set_value(&key, &children)?,
    }
    Ok(Output::none())
}

pub(super) fn get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let key = parent_key(input)?;
    let children: BTreeSet<Bytes> = object.must_have(&key)?;
    Ok(Output::of(|w| w.put(&children)))
}
