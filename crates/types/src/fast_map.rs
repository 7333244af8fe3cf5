//! Hash maps for hot paths.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A hash map whose hash costs a few multiplications. Its order of iteration differs from map to map, so code that
/// depends on an order must not iterate over it.
pub type FastMap<K, V> = HashMap<K, V, FastState>;

/// Makes [`FastHasher`]s. Each map has a seed of its own, so that clients cannot choose names that collide.
#[derive(Clone, Debug)]
pub struct FastState(u64);

impl Default for FastState {
    fn default() -> FastState {
        FastState(RandomState::new().build_hasher().finish())
    }
}

impl BuildHasher for FastState {
    type Hasher = FastHasher;

    fn build_hasher(&self) -> FastHasher {
        FastHasher(self.0)
    }
}

/// Hashes eight bytes at a time: exclusive or, then the two halves of a 128-bit product with an odd constant, as in
/// wyhash (Wang Yi).
#[derive(Clone, Debug)]
pub struct FastHasher(u64);

/// Fraction of the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl FastHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(ODD);
        self.0 = (product as u64) ^ (product >> 64) as u64;
        // Without the addition, a word that equals the state would leave the state zero.
        self.0 = self.0.wrapping_add(ODD);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            // The length distinguishes inputs that end in zeros.
            self.mix(u64::from_le_bytes(word) ^ (rest.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, v: u8) {
        self.mix(v.into());
    }

    fn write_u32(&mut self, v: u32) {
        self.mix(v.into());
    }

    fn write_u64(&mut self, v: u64) {
        self.mix(v);
    }

    fn write_usize(&mut self, v: usize) {
        self.mix(v as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn similar_keys_spread() {
        let state = FastState(7);
        let hashes =
            |keys: &mut dyn Iterator<Item = Vec<u8>>| keys.map(|key| state.hash_one(key)).collect::<Vec<u64>>();
        let all = hashes(&mut (0..50_000u32).map(|i| format!("benchmark_data_host_{i}").into_bytes()));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "whole hashes differ");
        // Tables choose a place by the low bits and distinguish entries of a place by the high ones.
        for part in [0, 57] {
            let mut counts = [0; 128];
            all.iter().for_each(|hash| counts[(hash >> part & 127) as usize] += 1);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*least > 250 && *most < 550, "{least} to {most} of 390 at bit {part}");
        }
        let lengths = hashes(&mut (0..100).map(|len| vec![0; len]));
        assert_eq!(lengths.iter().collect::<BTreeSet<_>>().len(), 100);
    }
}
