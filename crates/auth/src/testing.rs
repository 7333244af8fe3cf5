//! Values and checks that tests of several modules share.

use crate::entropy::Entropy;
use crate::key::{Key, KeyKind};
use proptest::prelude::*;
use std::fmt::Debug;
use types::Utime;
use wire::{Decode, Encode, Target};

/// Entropy of a seed, by a linear congruential generator.
pub(crate) fn seeded(seed: u64) -> Seeded {
    Seeded(seed)
}

pub(crate) struct Seeded(u64);

impl Entropy for Seeded {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 33) as u8;
        }
    }
}

pub(crate) fn any_utime() -> impl Strategy<Value = Utime> {
    (any::<u32>(), 0..1_000_000_000u32).prop_map(|(sec, nsec)| Utime { sec, nsec })
}

pub(crate) fn any_key() -> impl Strategy<Value = Key> {
    (prop::sample::select(vec![KeyKind::Aes, KeyKind::Aes256k]), any_utime(), any::<[u8; 32]>()).prop_map(
        |(kind, created, secret)| Key::new(kind, created, &secret[..kind.secret_bytes()]).expect("its length"),
    )
}

/// Checks that a value reads back from its bytes, and from no shorter ones.
pub(crate) fn check_codec<T: Encode + Decode + PartialEq + Debug>(value: &T) -> Result<(), TestCaseError> {
    let bytes = value.to_vec(Target::PACIFIC);
    prop_assert!(bytes.len() >= T::MIN_BYTES);
    let back = T::from_slice(&bytes);
    prop_assert_eq!(back.as_ref(), Ok(value));
    for shorter in 0..bytes.len() {
        prop_assert!(T::from_slice(&bytes[..shorter]).is_err(), "{} of {} bytes decode", shorter, bytes.len());
    }
    Ok(())
}

/// Checks that arbitrary bytes are refused, or are what their value encodes to.
pub(crate) fn check_bytes<T: Encode + Decode>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(value) = T::from_slice(bytes) {
        let again = value.to_vec(Target::PACIFIC);
        prop_assert!(bytes.starts_with(&again), "{:02x?} decode to what encodes as {:02x?}", bytes, again);
    }
    Ok(())
}
