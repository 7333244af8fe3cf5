//! Disks of an OSD that does not run, as the device of a store that must not change them.

use reactor::sim::SimDisk;
use std::collections::{BTreeMap, VecDeque};
use store::{Device, IoDone, IoRequest};
use types::BLOCK_BYTES;

/// A disk, or a shard's part of it.
pub struct PartOfDisk<'a> {
    pub disk: &'a SimDisk,
    /// Offset at which the part begins.
    pub begin: u64,
    pub bytes: u64,
}

/// The disks, and the blocks that were written since. The disks do not get those.
pub struct DiskOverlay<'a> {
    disks: Vec<(Device, PartOfDisk<'a>)>,
    blocks: BTreeMap<(Device, u64), Vec<u8>>,
    done: VecDeque<IoDone>,
}

impl<'a> DiskOverlay<'a> {
    pub fn new(disks: Vec<(Device, PartOfDisk<'a>)>) -> DiskOverlay<'a> {
        DiskOverlay { disks, blocks: BTreeMap::new(), done: VecDeque::new() }
    }

    pub fn carry_out(&mut self, request: IoRequest) -> IoDone {
        match request {
            IoRequest::Read { id, device, offset, mut buf } => {
                let part = &self.disks.iter().find(|(of, _)| *of == device).expect("a device of the store").1;
                for (i, block) in buf.as_mut_slice().chunks_mut(BLOCK_BYTES).enumerate() {
                    let at = offset + (i * BLOCK_BYTES) as u64;
                    match self.blocks.get(&(device, at)) {
                        Some(written) => block.copy_from_slice(written),
                        None => block.copy_from_slice(&part.disk.peek(part.begin + at, block.len())),
                    }
                }
                IoDone { id, result: Ok(Some(buf)) }
            }
            IoRequest::Write { id, device, offset, data } => {
                for (i, block) in data.to_vec().chunks(BLOCK_BYTES).enumerate() {
                    self.blocks.insert((device, offset + (i * BLOCK_BYTES) as u64), block.to_vec());
                }
                IoDone { id, result: Ok(None) }
            }
            IoRequest::Flush { id, .. } | IoRequest::Discard { id, .. } => IoDone { id, result: Ok(None) },
        }
    }

    /// The blocks that were written, with their offsets on the disks.
    pub fn into_blocks(self) -> impl Iterator<Item = (Device, u64, Vec<u8>)> {
        let begins: BTreeMap<Device, u64> = self.disks.iter().map(|(device, part)| (*device, part.begin)).collect();
        self.blocks.into_iter().map(move |((device, offset), block)| (device, begins[&device] + offset, block))
    }
}

impl offline::Device for DiskOverlay<'_> {
    fn bytes_of(&self, device: Device) -> Option<u64> {
        self.disks.iter().find(|(of, _)| *of == device).map(|(_, part)| part.bytes)
    }

    fn submit(&mut self, request: IoRequest) {
        let done = self.carry_out(request);
        self.done.push_back(done);
    }

    fn wait(&mut self) -> IoDone {
        self.done.pop_front().expect("something is under way")
    }
}
