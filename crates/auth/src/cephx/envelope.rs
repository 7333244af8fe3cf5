//! Sealing: a value behind a known number, encrypted.

use crate::entropy::Entropy;
use crate::key::{Key, Usage};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};
use zeroize::Zeroizing;

/// Version of the envelope.
const VERSION: u8 = 1;
/// The number that opens every plaintext. Keys of kind `aes` have no better proof that a message opened.
const MAGIC: u64 = 0xff00_9cad_8826_aa55;

/// Reason why a sealed value cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("it is not sealed with this key, or was changed")]
    OtherKey,
    #[error("it opens, and holds something else: {0}")]
    Content(DecodeError),
}

/// Seals a value for one purpose.
pub(crate) fn seal(key: &Key, usage: Usage, value: &impl Encode, entropy: &mut dyn Entropy) -> Vec<u8> {
    let mut w = Writer::new(Target::PACIFIC);
    w.u8(VERSION);
    w.u64(MAGIC);
    w.put(value);
    key.encrypt(usage, &Zeroizing::new(w.into_vec()), entropy)
}

/// Opens what [`seal`] made for the same purpose.
pub(crate) fn open<T: Decode>(key: &Key, usage: Usage, sealed: &[u8]) -> Result<T, OpenError> {
    let plain = Zeroizing::new(key.decrypt(usage, sealed).map_err(|_| OpenError::OtherKey)?);
    let mut r = Reader::new(&plain);
    if (r.u8(), r.u64()) != (Ok(VERSION), Ok(MAGIC)) {
        return Err(OpenError::OtherKey);
    }
    r.get().map_err(OpenError::Content)
}

/// Seals a value and puts its length before it, where the protocol has it so.
pub(crate) fn seal_sized(key: &Key, usage: Usage, value: &impl Encode, entropy: &mut dyn Entropy) -> Vec<u8> {
    let mut w = Writer::new(Target::PACIFIC);
    w.blob(&seal(key, usage, value, entropy));
    w.into_vec()
}

/// Opens what [`seal_sized`] made.
pub(crate) fn open_sized<T: Decode>(key: &Key, usage: Usage, sealed: &[u8]) -> Result<T, OpenError> {
    let sealed = Reader::new(sealed).blob().map_err(OpenError::Content)?;
    open(key, usage, sealed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{any_key, seeded};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_sealed_opens_with_its_key_alone(key in any_key(), other in any_key(), value in any::<u64>()) {
            let sealed = seal(&key, Usage::Authorize, &value, &mut seeded(1));
            prop_assert_eq!(open::<u64>(&key, Usage::Authorize, &sealed), Ok(value));
            prop_assert_eq!(open::<u64>(&other, Usage::Authorize, &sealed), Err(OpenError::OtherKey));
            let sized = seal_sized(&key, Usage::Authorize, &value, &mut seeded(1));
            prop_assert_eq!(open_sized::<u64>(&key, Usage::Authorize, &sized), Ok(value));
            for shorter in 0..sealed.len() {
                prop_assert!(open::<u64>(&key, Usage::Authorize, &sealed[..shorter]).is_err());
            }
        }

        #[test]
        fn no_bytes_panic(key in any_key(), bytes in any::<Vec<u8>>()) {
            let _ = open::<String>(&key, Usage::Authorize, &bytes);
            let _ = open_sized::<String>(&key, Usage::Authorize, &bytes);
        }
    }
}
