//! Random bytes from the kernel, fetched in batches.

use std::fs::File;
use std::io::{self, Read};

pub(crate) struct Random {
    source: File,
    batch: [u8; 256],
    used: usize,
}

impl Random {
    pub(crate) fn new() -> io::Result<Random> {
        Ok(Random { source: File::open("/dev/urandom")?, batch: [0; 256], used: 256 })
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.used == self.batch.len() {
                self.source.read_exact(&mut self.batch).expect("/dev/urandom never ends");
                self.used = 0;
            }
            *byte = std::mem::take(&mut self.batch[self.used]);
            self.used += 1;
        }
    }
}
