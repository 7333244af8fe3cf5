//! Primitives of both kinds of keys, composed of those of `aws-lc-rs`.
//!
//! * [`aes`]: AES-128-CBC with one fixed vector, of keys of kind `aes`.
//! * [`rfc8009`]: AES-256-CTS with HMAC-SHA-384-192, of keys of kind `aes256k`.
//!
//! Nothing here knows what is encrypted.

pub(crate) mod aes;
pub(crate) mod rfc8009;

use aws_lc_rs::{constant_time, hmac};

/// Bytes of an AES block.
pub(crate) const BLOCK_BYTES: usize = 16;

/// Bytes do not open with the key: it is another key, or they were changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the bytes do not open with this key")]
pub(crate) struct NotOpened;

/// Compares in a time that does not depend on where the two differ.
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// HMAC-SHA256 of the pieces, one after the other.
pub(crate) fn hmac_sha256(key: &[u8], pieces: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for piece in pieces {
        context.update(piece);
    }
    context.sign().as_ref().try_into().expect("a tag of SHA-256 has 32 bytes")
}
