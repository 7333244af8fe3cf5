//! Progress of the turns in flight towards durability, device by device.

use crate::Device;

/// A turn's writes on each device.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Writes {
    /// Number of writes under way, and of all writes, in the order of [`Device::ALL`].
    counts: [(u32, u32); 3],
}

impl Writes {
    pub fn begin(&mut self, device: Device) {
        let (left, all) = &mut self.counts[device as usize];
        *left += 1;
        *all += 1;
    }

    pub fn end(&mut self, device: Device) {
        self.counts[device as usize].0 -= 1;
    }

    pub fn are_done(&self) -> bool {
        self.counts.iter().all(|(left, _)| *left == 0)
    }
}

#[derive(Clone, Copy, Debug)]
struct FlushProgress {
    /// The writes to the device of all turns up to this one are durable.
    flushed: u64,
    /// The value of `flushed` once the flush under way is done.
    under_way: Option<u64>,
}

/// Progress of flushes. Every device is flushed as soon as it has all of a turn's writes, whatever the other devices
/// do.
#[derive(Debug)]
pub(crate) struct Flushing {
    devices: [FlushProgress; 3],
}

impl Flushing {
    /// Creates the state where turns up to `durable_lsn` are durable and no later one is under way.
    pub fn new(durable_lsn: u64) -> Flushing {
        Flushing { devices: [FlushProgress { flushed: durable_lsn, under_way: None }; 3] }
    }

    /// Begins a flush of the device if one is due; returns true if so. `turns`: those in flight, in order.
    pub fn begin<'a>(&mut self, device: Device, turns: impl Iterator<Item = (u64, &'a Writes)>) -> bool {
        let progress = &mut self.devices[device as usize];
        if progress.under_way.is_some() {
            return false;
        }
        let (mut upto, mut wrote) = (progress.flushed, false);
        for (lsn, writes) in turns.skip_while(|(lsn, _)| *lsn <= progress.flushed) {
            let (left, all) = writes.counts[device as usize];
            if left > 0 {
                break;
            }
            wrote |= all > 0;
            upto = lsn;
        }
        match wrote {
            true => progress.under_way = Some(upto),
            false => progress.flushed = upto,
        }
        wrote
    }

    /// Notes that the flush of the device is done. Panics if none was under way.
    pub fn end(&mut self, device: Device) {
        let progress = &mut self.devices[device as usize];
        let upto = progress.under_way.take().expect("a flush of turns was under way");
        progress.flushed = progress.flushed.max(upto);
    }

    /// Returns the last turn up to which everything is durable on every device.
    pub fn durable_lsn(&self) -> u64 {
        self.devices.iter().map(|progress| progress.flushed).min().expect("three devices")
    }

    /// Notes that turns up to `lsn` are durable, by whatever means.
    pub fn raise(&mut self, lsn: u64) {
        for progress in &mut self.devices {
            progress.flushed = progress.flushed.max(lsn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Device::{Main, Metadata, Wal};

    fn due(flushing: &mut Flushing, turns: &[(u64, Writes)]) -> Vec<Device> {
        let begin = |device: &Device| flushing.begin(*device, turns.iter().map(|(lsn, writes)| (*lsn, writes)));
        Device::ALL.into_iter().filter(begin).collect()
    }

    #[test]
    fn a_turn_is_durable_when_every_device_it_wrote_to_is_flushed() {
        let mut flushing = Flushing::new(4);
        let mut turns = [(5, Writes::default()), (6, Writes::default())];
        for device in [Main, Main, Wal] {
            turns[0].1.begin(device);
        }
        // The second turn has a record only.
        turns[1].1.begin(Wal);
        assert_eq!(due(&mut flushing, &turns), []);
        turns[0].1.end(Wal);
        assert_eq!(due(&mut flushing, &turns), [Wal], "whatever the main device does");
        turns[1].1.end(Wal);
        assert_eq!(due(&mut flushing, &turns), [], "one at a time");
        flushing.end(Wal);
        assert_eq!((flushing.durable_lsn(), due(&mut flushing, &turns)), (4, vec![Wal]));
        turns[0].1.end(Main);
        assert_eq!(due(&mut flushing, &turns), []);
        turns[0].1.end(Main);
        assert_eq!(due(&mut flushing, &turns), [Main]);
        assert!(turns.iter().all(|(_, writes)| writes.are_done()));
        flushing.end(Wal);
        assert_eq!(flushing.durable_lsn(), 4);
        flushing.end(Main);
        assert_eq!((due(&mut flushing, &turns), flushing.durable_lsn()), (vec![], 6));
        assert_eq!(flushing.devices[Metadata as usize].flushed, 6, "it was never written to");
    }

    #[test]
    fn a_checkpoint_raises_all_devices() {
        let mut flushing = Flushing::new(1);
        flushing.raise(9);
        flushing.raise(3);
        assert_eq!(flushing.durable_lsn(), 9);
    }
}
