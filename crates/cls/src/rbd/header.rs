//! An image's header: size, features, flags, times.

use super::snapshots::{self, snapshot_key};
use super::{ENOSYS, NO_SNAP, feature, op_feature, require_feature};
use crate::object::{Object, Output, Stop, encoded};
use bytes::Bytes;
use types::{Errno, Utime};
use wire::Reader;
use wire::rbd::Parent;

pub(super) fn create(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (size, order, features, object_prefix): (u64, u8, u64, Bytes) =
        (input.u64()?, input.u8()?, input.u64()?, input.get()?);
    let data_pool: Option<i64> = if input.is_empty() { None } else { Some(input.get()?).filter(|pool| *pool != -1) };
    if features & !feature::ALL != 0 {
        return Err(ENOSYS.into());
    }
    if object_prefix.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    if object.omap_get(b"object_prefix")?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if features & feature::OPERATIONS != 0 || data_pool.is_some() != (features & feature::DATA_POOL != 0) {
        return Err(Errno::EINVAL.into());
    }
    let now = encoded(&object.now());
    let mut values = vec![
        ("size", encoded(&size)),
        ("order", encoded(&order)),
        ("features", encoded(&features)),
        ("object_prefix", encoded(&object_prefix)),
        ("snap_seq", encoded(&0u64)),
        ("create_timestamp", now.clone()),
        ("access_timestamp", now.clone()),
        ("modify_timestamp", now),
    ];
    values.extend(data_pool.map(|pool| ("data_pool_id", encoded(&pool))));
    object.omap_set(values.into_iter().map(|(key, value)| (Bytes::from(key), value)).collect())?;
    Ok(Output::none())
}

pub(super) fn get_features(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    // All snapshots of an image have the image's features.
    let _snap = input.u64()?;
    let read_only = !input.is_empty() && input.bool()?;
    let features: u64 = object.must_have("features")?;
    let needed = if read_only { feature::INCOMPATIBLE } else { feature::WRITE_INCOMPATIBLE };
    Ok(Output::of(|w| {
        w.u64(features);
        w.u64(features & needed);
    }))
}

pub(super) fn set_features(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (features, mask) = (input.u64()?, input.u64()?);
    let have: u64 = object.must_have("features")?;
    let mask_of_known = mask & feature::ALL;
    let (on, off) = (features & mask_of_known, !features & mask_of_known);
    let allowed = mask & feature::INTERNAL == 0
        && on & !feature::MUTABLE == 0
        && off & !(feature::MUTABLE | feature::DISABLE_ONLY) == 0;
    if !allowed {
        return Err(Errno::EINVAL.into());
    }
    object.set_value("features", &((have & !mask_of_known) | on))?;
    Ok(Output::none())
}

pub(super) fn get_all_features(_: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    Ok(Output::of(|w| w.u64(feature::ALL)))
}

pub(super) fn get_size(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let snap = input.u64()?;
    let order: u8 = object.must_have("order")?;
    let size = match snap {
        NO_SNAP => object.must_have("size")?,
        snap => snapshots::load(object, snap)?.image_size,
    };
    Ok(Output::of(|w| {
        w.u8(order);
        w.u64(size);
    }))
}

pub(super) fn set_size(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let size = input.u64()?;
    let have: u64 = object.must_have("size")?;
    object.set_value("size", &size)?;
    // The removed end must not show the parent when the image grows again.
    if size < have
        && let Some(parent) = object.value::<Parent>("parent")?
        && parent.head_overlap.is_some_and(|overlap| overlap > size)
    {
        object.set_value("parent", &Parent { head_overlap: Some(size), ..parent })?;
    }
    Ok(Output::none())
}

pub(super) fn get_object_prefix(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let prefix: Bytes = object.must_have("object_prefix")?;
    Ok(Output::of(|w| w.put(&prefix)))
}

pub(super) fn get_data_pool(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let pool: i64 = object.value("data_pool_id")?.unwrap_or(-1);
    Ok(Output::of(|w| w.put(&pool)))
}

pub(super) fn get_stripe_unit_count(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    require_feature(object, feature::STRIPING)?;
    let (unit, count): (u64, u64) = (object.must_have("stripe_unit")?, object.must_have("stripe_count")?);
    Ok(Output::of(|w| {
        w.u64(unit);
        w.u64(count);
    }))
}

pub(super) fn set_stripe_unit_count(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (unit, count) = (input.u64()?, input.u64()?);
    if unit == 0 || count == 0 {
        return Err(Errno::EINVAL.into());
    }
    require_feature(object, feature::STRIPING)?;
    let order: u8 = object.must_have("order")?;
    let object_bytes = 1u64.checked_shl(order.into()).ok_or(Errno::EIO)?;
    if !object_bytes.is_multiple_of(unit) {
        return Err(Errno::EINVAL.into());
    }
    object.set_value("stripe_unit", &unit)?;
    object.set_value("stripe_count", &count)?;
    Ok(Output::none())
}

pub(super) fn get_timestamp(object: &mut dyn Object, key: &str) -> Result<Output, Stop> {
    let time: Utime = object.value(key)?.unwrap_or_default();
    Ok(Output::of(|w| w.put(&time)))
}

pub(super) fn set_timestamp(object: &mut dyn Object, key: &str) -> Result<Output, Stop> {
    object.must_exist()?;
    let now = object.now();
    object.set_value(key, &now)?;
    Ok(Output::none())
}

pub(super) fn get_flags(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let flags: u64 = match input.u64()? {
        NO_SNAP => object.value("flags")?.unwrap_or(0),
        snap => snapshots::load(object, snap)?.flags,
    };
    Ok(Output::of(|w| w.u64(flags)))
}

pub(super) fn set_flags(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (flags, mask) = (input.u64()?, input.u64()?);
    let snap = if input.is_empty() { NO_SNAP } else { input.u64()? };
    let changed = |have: u64| (have & !mask) | (flags & mask);
    if snap == NO_SNAP {
        object.must_exist()?;
        let have = object.value("flags")?.unwrap_or(0);
        object.set_value("flags", &changed(have))?;
    } else {
        let mut snapshot = snapshots::load(object, snap)?;
        snapshot.flags = changed(snapshot.flags);
        object.set_value(snapshot_key(snap), &snapshot)?;
    }
    Ok(Output::none())
}

/// Changes the operation features in `mask`, and the feature that tells if any is in use.
pub(super) fn change_op_features(object: &mut dyn Object, wanted: u64, mask: u64) -> Result<(), Stop> {
    let features: u64 = object.must_have("features")?;
    let have: u64 = object.value("op_features")?.unwrap_or(0);
    let changed = (have & !mask) | (wanted & mask);
    let others = features & !feature::OPERATIONS;
    let with_operations = if changed == 0 { others } else { others | feature::OPERATIONS };
    match changed {
        _ if changed == have => {}
        0 => object.remove_value("op_features")?,
        _ => object.set_value("op_features", &changed)?,
    }
    if with_operations != features {
        object.set_value("features", &with_operations)?;
    }
    Ok(())
}

pub(super) fn op_features_get(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let have: u64 = object.value("op_features")?.unwrap_or(0);
    Ok(Output::of(|w| w.u64(have)))
}

pub(super) fn op_features_set(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (wanted, mask) = (input.u64()?, input.u64()?);
    if mask & !op_feature::ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    change_op_features(object, wanted, mask)?;
    Ok(Output::none())
}
