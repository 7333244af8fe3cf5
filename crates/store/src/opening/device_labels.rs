//! Checks that the given devices belong to one store, and to this OSD's.

use crate::config::BLOCK;
use crate::disk::superblock::{Superblock, UnknownFormat};
use crate::opening::format::check_sizes;
use crate::{Device, OpenError, StoreConfig};
use types::AlignedBuf;

fn unknown(UnknownFormat { version, block_bytes, features }: UnknownFormat) -> OpenError {
    OpenError::UnknownFormat { version, block_bytes, features }
}

fn first(copies: &[AlignedBuf]) -> Option<Result<Superblock, UnknownFormat>> {
    copies.iter().find_map(|block| Superblock::decode(block.as_slice()))
}

/// Returns the superblock of the main device, given its `copies`, if it fits the given devices.
pub(crate) fn main_superblock(config: &StoreConfig, copies: &[AlignedBuf]) -> Result<Superblock, OpenError> {
    let superblock = first(copies).ok_or(OpenError::NotAStore)?.map_err(unknown)?;
    if superblock.role != Device::Main {
        return Err(OpenError::WrongRole { device: Device::Main, found: superblock.role });
    }
    if superblock.fsid != config.fsid {
        return Err(OpenError::ForeignCluster { found: superblock.fsid, expected: config.fsid });
    }
    if superblock.osd != config.osd {
        return Err(OpenError::ForeignOsd { found: superblock.osd, expected: config.osd });
    }
    if superblock.slice != config.slice {
        return Err(OpenError::OtherSlice { found: superblock.slice, expected: config.slice });
    }
    check_sizes(&superblock).map_err(OpenError::Sizes)?;
    not_truncated(config, &superblock, Device::Main)?;
    for device in Device::ALL {
        match (superblock.bytes_of(device), config.bytes_of(device)) {
            (None, None) => {}
            (None, Some(_)) => return Err(OpenError::UnexpectedDevice { device }),
            (Some(_), None) => return Err(OpenError::MissingDevice { device }),
            // The device is too short for superblocks, so it cannot be a part, however long the store's part is.
            (Some(_), Some(bytes)) if bytes < StoreConfig::LABEL_BYTES => return Err(OpenError::NotAPart { device }),
            (Some(_), Some(_)) => {}
        }
    }
    Ok(superblock)
}

fn not_truncated(config: &StoreConfig, superblock: &Superblock, device: Device) -> Result<(), OpenError> {
    match (superblock.bytes_of(device), config.bytes_of(device).map(|bytes| bytes / BLOCK * BLOCK)) {
        (Some(store_bytes), Some(device_bytes)) if device_bytes < store_bytes => {
            Err(OpenError::Truncated { device, device_bytes, store_bytes })
        }
        _ => Ok(()),
    }
}

/// Checks that `device`, given the `copies` of its superblock, belongs to the store whose main device has `main`.
pub(crate) fn check_other(
    config: &StoreConfig,
    main: &Superblock,
    device: Device,
    copies: &[AlignedBuf],
) -> Result<(), OpenError> {
    let found = first(copies).ok_or(OpenError::NotAPart { device })?.map_err(unknown)?;
    if found.role != device {
        return Err(OpenError::WrongRole { device, found: found.role });
    }
    if found.uuid != main.uuid {
        return Err(OpenError::ForeignDevice { device, found: found.uuid, expected: main.uuid });
    }
    if found != (Superblock { role: device, ..main.clone() }) {
        return Err(OpenError::StaleDevice { device });
    }
    not_truncated(config, main, device)
}
