//! Client I/O, counted and as rates.

use wire::nacre::mon::PgReport;

/// Per-second rates over the last few seconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct IoRates {
    pub read_ops: f64,
    pub read_bytes: f64,
    pub write_ops: f64,
    pub write_bytes: f64,
    /// Objects that were brought to OSDs that lacked them.
    pub recovered_objects: f64,
    pub recovered_bytes: f64,
}

/// Client I/O counted between two points in time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoCounts {
    pub read_ops: u64,
    pub read_kib: u64,
    pub write_ops: u64,
    pub write_kib: u64,
    pub recovered_objects: u64,
    pub recovered_bytes: u64,
}

impl IoCounts {
    /// Subtracts counters that only grow. One that shrank (a new primary starts from its own knowledge) counts as
    /// nothing, as does the first report ever.
    pub fn between(old: &PgReport, new: &PgReport) -> IoCounts {
        if old.epoch.0 == 0 {
            return IoCounts::default();
        }
        IoCounts {
            read_ops: new.read_ops.saturating_sub(old.read_ops),
            read_kib: new.read_kib.saturating_sub(old.read_kib),
            write_ops: new.write_ops.saturating_sub(old.write_ops),
            write_kib: new.write_kib.saturating_sub(old.write_kib),
            recovered_objects: new.recovered_objects.saturating_sub(old.recovered_objects),
            recovered_bytes: new.recovered_bytes.saturating_sub(old.recovered_bytes),
        }
    }

    pub fn add(&mut self, other: &IoCounts) {
        self.read_ops = self.read_ops.saturating_add(other.read_ops);
        self.read_kib = self.read_kib.saturating_add(other.read_kib);
        self.write_ops = self.write_ops.saturating_add(other.write_ops);
        self.write_kib = self.write_kib.saturating_add(other.write_kib);
        self.recovered_objects = self.recovered_objects.saturating_add(other.recovered_objects);
        self.recovered_bytes = self.recovered_bytes.saturating_add(other.recovered_bytes);
    }
}

impl IoRates {
    /// Moves towards the rates of the last `seconds`, the more the longer they were against `window_s`.
    pub fn follow(&mut self, counted: &IoCounts, seconds: f64, window_s: f64) {
        let weight = (seconds / window_s).min(1.0);
        let blend = |rate: &mut f64, count: u64| *rate += weight * (count as f64 / seconds - *rate);
        blend(&mut self.read_ops, counted.read_ops);
        blend(&mut self.read_bytes, counted.read_kib.saturating_mul(1024));
        blend(&mut self.write_ops, counted.write_ops);
        blend(&mut self.write_bytes, counted.write_kib.saturating_mul(1024));
        blend(&mut self.recovered_objects, counted.recovered_objects);
        blend(&mut self.recovered_bytes, counted.recovered_bytes);
    }

    /// Returns true if nothing worth showing is left of a burst.
    pub fn is_idle(&self) -> bool {
        self.read_ops.max(self.write_ops).max(self.recovered_objects) < 0.01
            && self.read_bytes.max(self.write_bytes).max(self.recovered_bytes) < 1.0
    }
}
