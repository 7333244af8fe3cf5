//! Random numbers whose sequence is part of the format of a plan: one seed gives one run in every release.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014). Small and quick; not for secrets.
///
/// It is written here and not taken from a library, because a library may change its sequence, and an old plan would
/// then no longer repeat the run that it describes.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// A bijection of 64-bit values that spreads every input bit over the output (SplitMix64's finaliser).
pub fn scramble(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Random {
    /// Stream number `stream` of `seed`. Streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random { state: scramble(scramble(seed).wrapping_add(scramble(!stream))) }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.state)
    }

    /// A number from 0 to `bound - 1`. The bias is below `bound / 2^64`.
    ///
    /// Panics if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below 0 was asked for");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `(0, 1]`, with 53 bits.
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A waiting time of a Poisson process with `rate` events per second (exponentially distributed).
    pub fn exponential(&mut self, rate: f64) -> Duration {
        Duration::try_from_secs_f64(-self.unit().ln() / rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_does_not_change() {
        // SplitMix64's published first outputs for state 1234567.
        let mut random = Random { state: 1_234_567 };
        let got: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn below_reaches_every_value_about_equally_often() {
        let mut random = Random::new(1, 2);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn streams_differ() {
        assert_ne!(Random::new(1, 0).next_u64(), Random::new(1, 1).next_u64());
        assert_ne!(Random::new(0, 1).next_u64(), Random::new(1, 0).next_u64());
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut random = Random::new(3, 0);
        let sum: f64 = (0..100_000).map(|_| random.exponential(50.0).as_secs_f64()).sum();
        let mean = sum / 100_000.0;
        assert!((0.0197..0.0203).contains(&mean), "{mean}");
    }
}
