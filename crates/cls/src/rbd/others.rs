//! Queries about groups, mirroring and migration, which clients make of every image, though Nacre has none of these.

use super::directory::prefixed;
use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use types::Errno;
use wire::Reader;

/// Gives the image's group; an image in no group has pool -1 and no name.
pub(super) fn image_group_get(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let stored = object.omap_get(b"rbd_group_ref")?;
    Ok(match stored {
        Some(group) => Output { value: 0, data: group },
        None => Output::of(|w| {
            w.versioned(1, 1, |w| {
                w.put(&-1i64);
                w.put(&Bytes::new());
            })
        }),
    })
}

pub(super) fn mirror_mode_get(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let mode: u32 = object.must_have("mirroring_mode")?;
    Ok(Output::of(|w| w.u32(mode)))
}

pub(super) fn mirror_uuid_get(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let uuid = object.omap_get(b"mirroring_uuid")?.ok_or(Errno::ENOENT)?;
    Ok(Output::of(|w| w.put(&uuid)))
}

pub(super) fn mirror_image_get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let image: Bytes = input.get()?;
    let data = object.omap_get(&prefixed("image_", &image))?.ok_or(Errno::ENOENT)?;
    Ok(Output { value: 0, data })
}

/// Lists the peers that a pool is mirrored to: always none.
pub(super) fn mirror_peer_list(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    if !object.exists()? {
        return Err(Errno::ENOENT.into());
    }
    Ok(Output::of(|w| w.count(0)))
}

pub(super) fn migration_get(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let data = object.omap_get(b"migration")?.ok_or(Errno::EINVAL)?;
    Ok(Output { value: 0, data })
}
