//! Counts of what has been brought to where it was missing.

/// Counts of objects that a primary has brought to where they were missing.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Recovered {
    pub objects: u64,
    pub bytes: u64,
}

impl Recovered {
    pub fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}
