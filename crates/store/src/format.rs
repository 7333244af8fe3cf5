//! Making a device an empty store.

use crate::config::BLOCK;
use crate::superblock::{ROOT_OFFSETS, Root, SUPERBLOCK_OFFSETS, Superblock, WAL_OFFSET};
use crate::totals::TreeTotals;
use crate::{IoId, IoRequest, Store, StoreConfig};
use types::AlignedBuf;
use wire::Rope;

/// Why a device cannot be made a store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    #[error("device of {bytes} bytes: a store takes {min} to {max}", min = StoreConfig::DEVICE_BYTES_MIN, max = StoreConfig::DEVICE_BYTES_MAX)]
    DeviceSize { bytes: u64 },
    #[error("log of {bytes} bytes on a device of {device_bytes}: it takes a multiple of 4096, from {min} to half of the device", min = StoreConfig::WAL_BYTES_MIN)]
    WalSize { bytes: u64, device_bytes: u64 },
}

/// Whether these sizes make a store.
pub(crate) fn check_sizes(device_bytes: u64, wal_bytes: u64) -> Result<(), FormatError> {
    if !(StoreConfig::DEVICE_BYTES_MIN..=StoreConfig::DEVICE_BYTES_MAX).contains(&device_bytes) {
        return Err(FormatError::DeviceSize { bytes: device_bytes });
    }
    let fits = (StoreConfig::WAL_BYTES_MIN..=device_bytes / 2).contains(&wal_bytes);
    if !fits || !wal_bytes.is_multiple_of(BLOCK) {
        return Err(FormatError::WalSize { bytes: wal_bytes, device_bytes });
    }
    Ok(())
}

const PIECE_BYTES: u64 = 1 << 20;

impl Store {
    /// The requests that make the device an empty store, whatever it held before. **Carry them out one after another**;
    /// only after the last, a flush, is the device a store. Errors: sizes that do not fit.
    ///
    /// The log is filled with zeros, so that a file system has its blocks in place: otherwise every flush would have to
    /// write the file's own metadata too.
    pub fn format(config: &StoreConfig) -> Result<Vec<IoRequest>, FormatError> {
        check_sizes(config.device_bytes, config.wal_bytes)?;
        let superblock = Superblock::new(config);
        let root = Root {
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
        let mut requests = Vec::new();
        let mut next_id = 0;
        let mut id = || {
            next_id += 1;
            IoId(next_id)
        };
        let mut write = |offset: u64, data: Rope, requests: &mut Vec<IoRequest>| {
            requests.push(IoRequest::Write { id: id(), offset, data });
        };
        // No store at all while the rest is made: the labels go first and come last.
        let block = zeros.slice(..BLOCK as usize);
        for offset in SUPERBLOCK_OFFSETS {
            write(offset, block.clone().into(), &mut requests);
        }
        requests.push(IoRequest::Flush { id: IoId(u64::MAX - 2) });
        for at in (0..config.wal_bytes).step_by(PIECE_BYTES as usize) {
            let len = PIECE_BYTES.min(config.wal_bytes - at);
            write(WAL_OFFSET + at, zeros.slice(..len as usize).into(), &mut requests);
        }
        write(root.offset(), root.encode().into(), &mut requests);
        write(ROOT_OFFSETS[1], block.into(), &mut requests);
        requests.push(IoRequest::Flush { id: IoId(u64::MAX - 1) });
        for offset in SUPERBLOCK_OFFSETS {
            write(offset, superblock.encode().into(), &mut requests);
        }
        requests.push(IoRequest::Flush { id: IoId(u64::MAX) });
        Ok(requests)
    }
}
