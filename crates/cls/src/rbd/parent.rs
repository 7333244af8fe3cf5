//! The snapshot that an image was cloned from.

use super::header::change_op_features;
use super::snapshots::{self, snapshot_key};
use super::{EXDEV, NO_SNAP, feature, op_feature, require_feature};
use crate::object::{Object, Output, Stop};
use types::Errno;
use wire::Reader;
use wire::rbd::{Parent, ParentSpec, Snapshot};

fn load(object: &mut dyn Object) -> Result<Option<Parent>, Stop> {
    object.value("parent")
}

pub(super) fn get(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let spec = load(object)?.unwrap_or_default().spec;
    Ok(Output::of(|w| w.put(&spec)))
}

pub(super) fn overlap_get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let overlap = match input.u64()? {
        NO_SNAP => load(object)?.unwrap_or_default().head_overlap,
        snap => snapshots::load(object, snap)?.parent_overlap,
    };
    Ok(Output::of(|w| w.put(&overlap)))
}

/// Gives pool, image, snapshot and overlap in one answer, for clients before Nautilus.
pub(super) fn get_old(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snap = input.u64()?;
    let (mut spec, mut overlap) = (ParentSpec::default(), 0);
    let features: Option<u64> = object.value("features")?;
    if features.is_some_and(|features| features & feature::LAYERING != 0)
        && let Some(parent) = load(object)?
    {
        // The answer of this method has no field for a namespace.
        if !parent.spec.namespace.is_empty() {
            return Err(EXDEV.into());
        }
        let shown = match snap {
            NO_SNAP => Some(parent.head_overlap.unwrap_or(0)),
            snap => snapshots::load(object, snap)?.parent_overlap,
        };
        if let Some(shown) = shown {
            (spec, overlap) = (parent.spec, shown);
        }
    }
    Ok(Output::of(|w| {
        w.put(&spec.pool);
        w.put(&spec.image);
        w.u64(spec.snap);
        w.u64(overlap);
    }))
}

fn attach_to(object: &mut dyn Object, spec: ParentSpec, overlap: u64, again: bool) -> Result<Output, Stop> {
    object.must_exist()?;
    require_feature(object, feature::LAYERING)?;
    if !spec.exists() || overlap == 0 {
        return Err(Errno::EINVAL.into());
    }
    if let Some(have) = load(object)?
        && !again
        && (have.head_overlap.is_some() || have.spec != spec)
    {
        return Err(Errno::EEXIST.into());
    }
    let size: u64 = object.must_have("size")?;
    object.set_value("parent", &Parent { spec, head_overlap: Some(overlap.min(size)) })?;
    Ok(Output::none())
}

pub(super) fn attach(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (spec, overlap): (ParentSpec, u64) = (input.get()?, input.u64()?);
    let again = !input.is_empty() && input.bool()?;
    attach_to(object, spec, overlap, again)
}

pub(super) fn set_old(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let spec = ParentSpec { pool: input.get()?, image: input.get()?, snap: input.u64()?, ..ParentSpec::default() };
    let overlap = input.u64()?;
    attach_to(object, spec, overlap, false)
}

pub(super) fn detach(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    object.must_exist()?;
    require_feature(object, feature::LAYERING)?;
    let parent = load(object)?.filter(|parent| parent.head_overlap.is_some()).ok_or(Errno::ENOENT)?;
    let features: u64 = object.must_have("features")?;
    let showing: Vec<Snapshot> =
        snapshots::load_all(object)?.into_iter().filter(|snapshot| snapshot.parent_overlap.is_some()).collect();
    if features & feature::DEEP_FLATTEN != 0 {
        // The snapshots have been filled from the parent, too.
        for snapshot in &showing {
            object.set_value(snapshot_key(snapshot.id), &Snapshot { parent_overlap: None, ..snapshot.clone() })?;
        }
        object.remove_value("parent")?;
    } else if showing.is_empty() {
        object.remove_value("parent")?;
    } else {
        object.set_value("parent", &Parent { head_overlap: None, ..parent })?;
    }
    change_op_features(object, 0, op_feature::CLONE_CHILD)?;
    Ok(Output::none())
}

/// Removes the parent if neither a snapshot nor the image itself shows it any more. The caller has checked the
/// snapshots.
pub(super) fn forget_if_unused(object: &mut dyn Object) -> Result<(), Stop> {
    match load(object)? {
        Some(Parent { head_overlap: None, .. }) => object.remove_value("parent"),
        _ => Ok(()),
    }
}
