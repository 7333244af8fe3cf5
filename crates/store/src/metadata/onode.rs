//! An object's metadata.

use crate::ObjectStat;
use crate::config::BLOCK;
use crate::metadata::block_map::{BlockMap, BlockRef};
use crate::space::run::Run;
use bytes::Bytes;
use std::sync::Arc;
use wire::{DecodeError, Reader, Target, Writer};

/// The id under which an object's omap entries lie in the omap table, and the omap's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OmapHead {
    pub id: u64,
    pub header: Bytes,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Onode {
    /// Shared with callers; copied before a change while they hold it.
    pub stat: Arc<ObjectStat>,
    /// The object's first bytes, behind which all bytes are zeros. An object with inline bytes has no blocks.
    pub inline: Bytes,
    pub blocks: BlockMap,
    pub omap: Option<Box<OmapHead>>,
}

impl Onode {
    pub fn size(&self) -> u64 {
        self.stat.size_bytes
    }

    /// Sets `out` to an object's record: size (8), attributes (count 4; name, value), omap flag (1) and, if set, id (8)
    /// and header; inline bytes if there are any.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        out.clear();
        let mut w = Writer::onto(std::mem::take(out), Target::default());
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
        if !self.inline.is_empty() {
            w.blob(&self.inline);
        }
        *out = w.into_vec();
    }

    /// Decodes an object's record. None of the object's segments is known.
    pub fn decode_head(r: &mut Reader<'_>) -> Result<Onode, DecodeError> {
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
        let inline = match r.left() {
            0 => Bytes::new(),
            _ => Bytes::copy_from_slice(r.blob()?),
        };
        if inline.len() as u64 > size_bytes {
            return Err(DecodeError::Value { what: "inline bytes", value: inline.len() as u64 });
        }
        let blocks = match inline.is_empty() {
            true => BlockMap::unknown(size_bytes.div_ceil(BLOCK)),
            false => BlockMap::default(),
        };
        Ok(Onode { stat: Arc::new(stat), inline, blocks, omap })
    }
}

/// Returns the blocks of a run with their checksums.
pub(crate) fn run_blocks(run: Run, crcs: &[u32]) -> impl ExactSizeIterator<Item = BlockRef> + '_ {
    crcs.iter().enumerate().map(move |(i, crc)| BlockRef { device: run.start + i as u32, crc: *crc })
}

/// Returns the part of `inline`, the first bytes of an object, that lies in `begin .. end`.
pub(crate) fn inline_part(inline: &Bytes, begin: u64, end: u64) -> Bytes {
    let len = inline.len() as u64;
    // It fits: they lie within bytes that are in memory.
    inline.slice(begin.min(len) as usize..end.min(len) as usize)
}
