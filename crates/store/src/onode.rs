//! An object's metadata.

use crate::ObjectStat;
use crate::allocator::Run;
use crate::block_map::{BlockMap, BlockRef};
use crate::config::BLOCK;
use bytes::Bytes;
use std::sync::Arc;
use wire::{DecodeError, Reader, Writer};

/// What an object's omap hangs on: its entries are in the omap table under this id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OmapHead {
    pub id: u64,
    pub header: Bytes,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Onode {
    /// Shared with those who asked for it; changed by copy while they hold it.
    pub stat: Arc<ObjectStat>,
    pub blocks: BlockMap,
    pub omap: Option<Box<OmapHead>>,
}

/// Runs of an object's blocks with their checksums, as records carry them: object block (4), count (4), device block
/// (8), one crc32c (4) per block.
pub(crate) fn encode_run(w: &mut Writer, first: u32, run: Run, crcs: &[u32]) {
    assert_eq!(crcs.len(), run.count as usize, "a checksum per block");
    w.u32(first);
    w.u32(run.count);
    w.u64(run.start.into());
    crcs.iter().for_each(|crc| w.u32(*crc));
}

/// Bytes [`encode_run`] takes besides the checksums.
const RUN_HEAD_BYTES: usize = 16;

/// Reads one run: object block, run, checksums. Errors: a run that is empty or reaches beyond an object's or a device's
/// last block number.
pub(crate) fn decode_run(r: &mut Reader<'_>) -> Result<(u32, Run, Vec<u32>), DecodeError> {
    let (first, count, device) = (r.u32()?, r.u32()?, r.u64()?);
    if count == 0 || first.checked_add(count).is_none() {
        return Err(DecodeError::Value { what: "block run", value: count.into() });
    }
    let start = u32::try_from(device).ok().filter(|start| start.checked_add(count).is_some());
    let start = start.ok_or(DecodeError::Value { what: "device block", value: device })?;
    if count as usize > r.left() / 4 {
        return Err(DecodeError::Count { what: "block checksums", count: count as usize, left: r.left() });
    }
    let crcs = (0..count).map(|_| r.u32()).collect::<Result<_, _>>()?;
    Ok((first, Run { start, count }, crcs))
}

impl Onode {
    /// Upper bound of [`Onode::encode`] for an object with so many blocks, without attributes and omap header.
    pub const fn encoded_bytes_max(blocks: u64) -> u64 {
        64 + blocks * (RUN_HEAD_BYTES as u64 + 4)
    }

    pub fn size(&self) -> u64 {
        self.stat.size_bytes
    }

    /// Size (8), attributes (count 4; name, value), omap flag (1) and if set id (8) and header, block runs (count 4).
    pub fn encode(&self, w: &mut Writer) {
        w.u64(self.size());
        w.count(self.stat.attrs.len());
        for (name, value) in self.stat.attrs.iter() {
            w.blob(name);
            w.blob(value);
        }
        w.bool(self.omap.is_some());
        if let Some(omap) = &self.omap {
            w.u64(omap.id);
            w.blob(&omap.header);
        }
        let runs = self.blocks.runs(0, u64::MAX);
        w.count(runs.len());
        let mut crcs = Vec::new();
        for (first, run) in runs {
            crcs.clear();
            self.blocks.for_each(first, u64::from(first) + u64::from(run.count), |_, block| crcs.push(block.crc));
            encode_run(w, first, run, &crcs);
        }
    }

    pub fn decode(r: &mut Reader<'_>) -> Result<Onode, DecodeError> {
        let size_bytes = r.u64()?;
        let mut stat = ObjectStat { size_bytes, ..Default::default() };
        for _ in 0..r.count("attributes", 8)? {
            let name = r.blob()?;
            stat.attrs.insert(name, Bytes::copy_from_slice(r.blob()?));
        }
        let omap = match r.bool()? {
            true => Some(Box::new(OmapHead { id: r.u64()?, header: Bytes::copy_from_slice(r.blob()?) })),
            false => None,
        };
        stat.has_omap = omap.is_some();
        let mut blocks = BlockMap::default();
        let mut next = 0;
        for _ in 0..r.count("block runs", RUN_HEAD_BYTES + 4)? {
            let (first, run, crcs) = decode_run(r)?;
            if first < next || u64::from(first + run.count - 1) * BLOCK >= size_bytes {
                return Err(DecodeError::Value { what: "object block", value: first.into() });
            }
            next = first + run.count;
            blocks.map(first, run_blocks(run, &crcs), |_| ());
        }
        Ok(Onode { stat: Arc::new(stat), blocks, omap })
    }
}

/// The blocks of a run with their checksums.
pub(crate) fn run_blocks(run: Run, crcs: &[u32]) -> impl ExactSizeIterator<Item = BlockRef> + '_ {
    crcs.iter().enumerate().map(move |(i, crc)| BlockRef { device: run.start + i as u32, crc: *crc })
}
