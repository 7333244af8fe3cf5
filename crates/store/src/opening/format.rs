//! Making one or several devices an empty store.

use crate::config::BLOCK;
use crate::disk::numbers::{ROOT_OFFSETS, SUPERBLOCK_OFFSETS, WAL_OFFSET};
use crate::disk::superblock::{CheckpointRoot, Superblock};
use crate::disk::totals::TreeTotals;
use crate::{Device, IoId, IoRequest, Store, StoreConfig};
use bytes::Bytes;
use types::AlignedBuf;

/// Reasons why a device cannot be made a store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    #[error("device of {bytes} bytes: a store takes {min} to {max}", min = StoreConfig::DEVICE_BYTES_MIN, max = StoreConfig::DEVICE_BYTES_MAX)]
    DeviceSize { bytes: u64 },
    #[error("log of {bytes} bytes on a device of {device_bytes}: it takes a multiple of 4096, from {min} to half of \
        the device", min = StoreConfig::WAL_BYTES_MIN)]
    WalSize { bytes: u64, device_bytes: u64 },
    #[error("log of {bytes} bytes on a WAL device of {device_bytes}: it takes a multiple of 4096, from {min} to \
        what is left behind {label} bytes", min = StoreConfig::WAL_BYTES_MIN, label = StoreConfig::LABEL_BYTES)]
    WalDeviceSize { bytes: u64, device_bytes: u64 },
    #[error("metadata device of {bytes} bytes: it takes {min} to {max}", min = StoreConfig::METADATA_DEVICE_BYTES_MIN, max = StoreConfig::DEVICE_BYTES_MAX)]
    MetadataDeviceSize { bytes: u64 },
}

/// Checks that these sizes make a store.
pub(crate) fn check_sizes(superblock: &Superblock) -> Result<(), FormatError> {
    let Superblock { device_bytes, wal_bytes, wal_device, metadata_device, .. } = *superblock;
    if !(StoreConfig::DEVICE_BYTES_MIN..=StoreConfig::DEVICE_BYTES_MAX).contains(&device_bytes) {
        return Err(FormatError::DeviceSize { bytes: device_bytes });
    }
    let wal_bytes_max = match wal_device {
        Some(part) => part.bytes.saturating_sub(StoreConfig::LABEL_BYTES),
        None => device_bytes / 2,
    };
    if !(StoreConfig::WAL_BYTES_MIN..=wal_bytes_max).contains(&wal_bytes) || !wal_bytes.is_multiple_of(BLOCK) {
        return Err(match wal_device {
            Some(part) => FormatError::WalDeviceSize { bytes: wal_bytes, device_bytes: part.bytes },
            None => FormatError::WalSize { bytes: wal_bytes, device_bytes },
        });
    }
    let fits = StoreConfig::METADATA_DEVICE_BYTES_MIN..=StoreConfig::DEVICE_BYTES_MAX;
    match metadata_device.filter(|part| !fits.contains(&part.bytes)) {
        Some(part) => Err(FormatError::MetadataDeviceSize { bytes: part.bytes }),
        None => Ok(()),
    }
}

const PIECE_BYTES: u64 = 1 << 20;

impl Store {
    /// Returns the requests that make the device or devices an empty store, whatever they held before. **Carry them out
    /// one after another**: the store exists only after the last, a flush. Errors: sizes that do not fit.
    ///
    /// The log is filled with zeros, so that a file system allocates its blocks: otherwise every flush would have to
    /// write the file's own metadata too.
    pub fn format(config: &StoreConfig) -> Result<Vec<IoRequest>, FormatError> {
        let superblock = Superblock::new(config);
        check_sizes(&superblock)?;
        let root = CheckpointRoot {
            uuid: config.uuid,
            sequence: 0,
            session: 0,
            covered_lsn: 0,
            wal_head: 0,
            next_omap_id: 1,
            tree: None,
            totals: Some(TreeTotals::default()),
        };
        let zeros = AlignedBuf::zeroed(PIECE_BYTES as usize).freeze();
        let block = zeros.slice(..BLOCK as usize);
        // The main device names the others, so it is the first to stop being a store and the last to become one.
        let others = superblock.devices().filter(|device| *device != Device::Main);
        let devices: Vec<Device> = others.chain([Device::Main]).collect();
        let mut out = Requests::default();
        for device in devices.iter().rev() {
            SUPERBLOCK_OFFSETS.into_iter().for_each(|offset| out.write(*device, offset, block.clone()));
            out.flush(*device);
        }
        let (log, tree) = (superblock.log_device(), superblock.tree_device());
        for at in (0..config.wal_bytes).step_by(PIECE_BYTES as usize) {
            let len = PIECE_BYTES.min(config.wal_bytes - at);
            out.write(log, WAL_OFFSET + at, zeros.slice(..len as usize));
        }
        out.write(tree, root.offset(), root.encode());
        out.write(tree, ROOT_OFFSETS[1], block);
        devices.iter().for_each(|device| out.flush(*device));
        for device in devices {
            let superblock = Superblock { role: device, ..superblock.clone() };
            SUPERBLOCK_OFFSETS.into_iter().for_each(|offset| out.write(device, offset, superblock.encode()));
            out.flush(device);
        }
        Ok(out.requests)
    }
}

#[derive(Default)]
struct Requests {
    requests: Vec<IoRequest>,
}

impl Requests {
    fn id(&self) -> IoId {
        IoId(self.requests.len() as u64)
    }

    fn write(&mut self, device: Device, offset: u64, data: Bytes) {
        self.requests.push(IoRequest::Write { id: self.id(), device, offset, data: data.into() });
    }

    fn flush(&mut self, device: Device) {
        self.requests.push(IoRequest::Flush { id: self.id(), device });
    }
}
