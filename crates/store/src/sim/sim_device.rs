//! Devices in memory that keep only what they must: for tests of the store and for the simulator.

use crate::sim::sim_media::{Change, SimMedia};
use crate::{Device, IoDone, IoId, IoRequest, StoreConfig};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use types::{BLOCK_BYTES, Errno};

#[derive(Debug)]
struct Queued {
    request: IoRequest,
    /// Changes of its device done when this was queued: what a flush covers.
    done_before: u64,
}

/// A store's devices, each with a volatile write cache of its own. Requests are queued and are done in whatever order
/// the caller chooses; a crash keeps everything that a flush of its device covered and, of all else, any part. Devices
/// may also lie: lose writes that they report as done, or parts of them, write to the wrong place, flip bits, and fail.
///
/// It is mostly used as the main device, which it dereferences to; [`SimDevice::part`] is any of them.
///
/// Time and latency are the caller's: a request takes until the caller says it is done.
#[derive(Debug)]
pub struct SimDevice {
    /// The devices, in the order of [`Device::ALL`]. The main device is always there.
    parts: [Option<SimMedia>; 3],
    queue: VecDeque<Queued>,
}

impl Deref for SimDevice {
    type Target = SimMedia;

    fn deref(&self) -> &SimMedia {
        self.part(Device::Main)
    }
}

impl DerefMut for SimDevice {
    fn deref_mut(&mut self) -> &mut SimMedia {
        self.part_mut(Device::Main)
    }
}

impl SimDevice {
    /// One device of zeros.
    pub fn new(bytes: u64) -> SimDevice {
        SimDevice { parts: [Some(SimMedia::new(bytes)), None, None], queue: VecDeque::new() }
    }

    /// The devices of such a store, all zeros.
    pub fn of(config: &StoreConfig) -> SimDevice {
        let parts = Device::ALL.map(|device| config.bytes_of(device).map(SimMedia::new));
        SimDevice { parts, queue: VecDeque::new() }
    }

    pub fn has(&self, device: Device) -> bool {
        self.parts[device as usize].is_some()
    }

    /// One of the devices. Panics if there is none.
    pub fn part(&self, device: Device) -> &SimMedia {
        self.parts[device as usize].as_ref().unwrap_or_else(|| panic!("no {device}"))
    }

    pub fn part_mut(&mut self, device: Device) -> &mut SimMedia {
        self.parts[device as usize].as_mut().unwrap_or_else(|| panic!("no {device}"))
    }

    /// Puts other media in the place of a device: another store's, or an older state. Panics if requests are queued.
    pub fn replace_part(&mut self, device: Device, media: SimMedia) -> Option<SimMedia> {
        assert!(self.queue.is_empty(), "requests are under way");
        self.parts[device as usize].replace(media)
    }

    /// Queues a request. Panics if it is not aligned or reaches beyond the device: the store must never ask that.
    pub fn submit(&mut self, request: IoRequest) {
        let (offset, len) = match &request {
            IoRequest::Read { offset, buf, .. } => (*offset, buf.len() as u64),
            IoRequest::Write { offset, data, .. } => {
                let fits = |piece: &Bytes| {
                    piece.as_ptr().addr().is_multiple_of(BLOCK_BYTES) && piece.len().is_multiple_of(BLOCK_BYTES)
                };
                assert!(data.pieces().all(fits), "a piece of memory that does not suit direct I/O");
                (*offset, data.len() as u64)
            }
            IoRequest::Flush { .. } => (0, BLOCK_BYTES as u64),
            IoRequest::Discard { offset, len, .. } => (*offset, *len),
        };
        let media = self.part(request.device());
        let bytes = media.bytes();
        let aligned = offset.is_multiple_of(BLOCK_BYTES as u64) && len.is_multiple_of(BLOCK_BYTES as u64);
        let device = request.device();
        assert!(aligned && len > 0 && offset + len <= bytes, "{offset:#x}+{len:#x} on {device} of {bytes:#x}");
        self.queue.push_back(Queued { done_before: media.changes_done(), request });
    }

    /// Number of requests queued.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Names the queued request at `index`. Panics if there is none.
    pub fn queued_id(&self, index: usize) -> IoId {
        self.queue[index].request.id()
    }

    /// Offset and length of the queued request at `index`, if it is a write. Panics if there is none.
    pub fn queued_write(&self, index: usize) -> Option<(u64, u64)> {
        match &self.queue[index].request {
            IoRequest::Write { offset, data, .. } => Some((*offset, data.len() as u64)),
            _ => None,
        }
    }

    /// The device of the queued request at `index`. Panics if there is none.
    pub fn queued_device(&self, index: usize) -> Device {
        self.queue[index].request.device()
    }

    /// Number of changes that a crash may undo: done and not flushed, or queued.
    pub fn changes_at_risk(&self) -> usize {
        let queued = |queued: &&Queued| matches!(queued.request, IoRequest::Write { .. } | IoRequest::Discard { .. });
        let volatile: usize = self.parts.iter().flatten().map(SimMedia::volatile).sum();
        volatile + self.queue.iter().filter(queued).count()
    }

    /// Reports the queued write at `index` as done, but nothing of it is ever there. Panics unless it is a write.
    pub fn complete_lost(&mut self, index: usize) -> IoDone {
        let (id, device, change) = self.take_write(index);
        let blocks = change.block..change.block + change.content.len() as u64;
        self.part_mut(device).mark_damaged(blocks);
        IoDone { id, result: Ok(None) }
    }

    /// Does the queued write at `index`, but at the offset `to` of the same device. Panics unless it is a write and
    /// fits there.
    pub fn complete_misdirected(&mut self, index: usize, to: u64) -> IoDone {
        let (id, device, meant) = self.take_write(index);
        let (landed, blocks) = (to / BLOCK_BYTES as u64, meant.content.len() as u64);
        let media = self.part_mut(device);
        assert!((landed + blocks) * BLOCK_BYTES as u64 <= media.bytes(), "beyond the device");
        if landed != meant.block {
            media.mark_damaged(meant.block..meant.block + blocks);
            media.mark_damaged(landed..landed + blocks);
        }
        media.change(Change { block: landed, ..meant });
        IoDone { id, result: Ok(None) }
    }

    /// Reports the queued write at `index` as done, but only some of its sectors, which `random` chooses, are there.
    /// Panics unless it is a write.
    pub fn complete_torn(&mut self, index: usize, random: &mut dyn FnMut() -> u64) -> IoDone {
        let (id, device, change) = self.take_write(index);
        self.part_mut(device).change_torn(change, random);
        IoDone { id, result: Ok(None) }
    }

    fn take_write(&mut self, index: usize) -> (IoId, Device, Change) {
        assert!(self.queued_write(index).is_some(), "request {index} is no write");
        let request = self.queue.remove(index).expect("just seen").request;
        (request.id(), request.device(), change_of(&request).expect("a write is a change"))
    }

    /// Does the queued request at `index`, counted from the oldest. Panics if there is none.
    pub fn complete(&mut self, index: usize) -> IoDone {
        let Queued { request, done_before } = self.queue.remove(index).expect("a queued request");
        let id = request.id();
        let media = self.part_mut(request.device());
        let failed = IoDone { id, result: Err(Errno::EIO.0) };
        let change = change_of(&request);
        match request {
            IoRequest::Read { offset, mut buf, .. } => match media.fill(offset, buf.as_mut_slice()) {
                Ok(()) => IoDone { id, result: Ok(Some(buf)) },
                Err(errno) => IoDone { id, result: Err(errno) },
            },
            IoRequest::Write { .. } if media.take_failing_write() => failed,
            IoRequest::Flush { .. } if media.take_failing_flush() => failed,
            IoRequest::Write { .. } | IoRequest::Discard { .. } => {
                media.change(change.expect("either is a change"));
                IoDone { id, result: Ok(None) }
            }
            IoRequest::Flush { .. } => {
                media.flush(done_before);
                IoDone { id, result: Ok(None) }
            }
        }
    }

    /// The devices as a crash at this moment could leave them: of every change that no flush covers, done or still
    /// queued, all, nothing, or some sectors. `random` decides, for each device by itself.
    pub fn after_crash(&self, random: &mut dyn FnMut() -> u64) -> SimDevice {
        self.after_crash_told(random).0
    }

    /// A device after a crash as [`SimDevice::after_crash`] makes it, with a number that stands for this moment and
    /// for the fate of each change: two crashes with one number leave equal devices.
    pub fn after_crash_told(&self, random: &mut dyn FnMut() -> u64) -> (SimDevice, u64) {
        let mut fingerprint = 0u64;
        let mut tell = |value: u64| {
            fingerprint = (fingerprint.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
        };
        let parts = Device::ALL.map(|device| {
            let media = self.parts[device as usize].as_ref()?;
            tell(media.changes_done());
            Some(media.after_crash(self.queued_changes(device), random, &mut tell))
        });
        (SimDevice { parts, queue: VecDeque::new() }, fingerprint)
    }

    /// The devices as the end of the process, but not of the power, leaves them: what was done is there, what was
    /// queued may be.
    pub fn after_kill(&self, random: &mut dyn FnMut() -> u64) -> SimDevice {
        let parts = Device::ALL.map(|device| {
            let media = self.parts[device as usize].as_ref()?;
            Some(media.after_kill(self.queued_changes(device), random))
        });
        SimDevice { parts, queue: VecDeque::new() }
    }

    fn queued_changes(&self, device: Device) -> impl Iterator<Item = Change> {
        let requests = self.queue.iter().map(|queued| &queued.request);
        requests.filter(move |request| request.device() == device).filter_map(change_of)
    }
}

/// Change that a request makes; `None` if it makes none.
fn change_of(request: &IoRequest) -> Option<Change> {
    let block = |offset: u64| offset / BLOCK_BYTES as u64;
    match request {
        IoRequest::Write { offset, data, .. } => {
            let cut = |piece: &Bytes| {
                (0..piece.len()).step_by(BLOCK_BYTES).map(|at| piece.slice(at..at + BLOCK_BYTES)).collect::<Vec<_>>()
            };
            Some(Change { block: block(*offset), content: data.pieces().flat_map(cut).map(Some).collect() })
        }
        IoRequest::Discard { offset, len, .. } => {
            Some(Change { block: block(*offset), content: vec![None; block(*len) as usize] })
        }
        IoRequest::Read { .. } | IoRequest::Flush { .. } => None,
    }
}
