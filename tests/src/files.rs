//! Files whose bytes tell where they belong.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Bytes that differ at every place and for every seed, so that a block from elsewhere is noticed.
pub struct Pattern {
    seed: u64,
}

impl Pattern {
    pub fn new(seed: u64) -> Pattern {
        Pattern { seed }
    }

    fn word(&self, index: u64) -> u64 {
        // SplitMix64.
        let mut z = self.seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A file of `len` such bytes.
    pub fn write(&self, path: &Path, len: u64) {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).expect("test file can be made"));
        for index in 0..len.div_ceil(8) {
            let word = self.word(index).to_le_bytes();
            let take = (len - index * 8).min(8) as usize;
            file.write_all(&word[..take]).expect("test file can be written");
        }
        file.flush().expect("test file can be written");
    }
}

/// Panics with the first place where two files differ.
#[track_caller]
pub fn assert_same_bytes(a: &Path, b: &Path) {
    let open = |path: &Path| File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (mut file_a, mut file_b) = (open(a), open(b));
    let (len_a, len_b) = (file_a.metadata().unwrap().len(), file_b.metadata().unwrap().len());
    assert_eq!(len_a, len_b, "{} and {} differ in length", a.display(), b.display());
    let (mut buf_a, mut buf_b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut at = 0;
    while at < len_a {
        let n = (len_a - at).min(1 << 20) as usize;
        file_a.read_exact(&mut buf_a[..n]).unwrap();
        file_b.read_exact(&mut buf_b[..n]).unwrap();
        if let Some(i) = (0..n).find(|&i| buf_a[i] != buf_b[i]) {
            panic!("{} and {} differ at byte {}", a.display(), b.display(), at + i as u64);
        }
        at += n as u64;
    }
}
