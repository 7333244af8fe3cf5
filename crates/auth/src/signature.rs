//! Signatures of a handshake: each side signs all bytes that it received, and knows what it sent.

use crate::crypto;
use crate::key::Key;

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 32;

/// The signature of `received`, all bytes from the banner on, in pieces. Zeros without a session key, as with `none`.
pub fn sign(session_key: Option<&Key>, received: &[&[u8]]) -> [u8; SIGNATURE_BYTES] {
    session_key.map_or([0; SIGNATURE_BYTES], |key| key.hmac_sha256(received))
}

/// True if `signature` is the peer's of what we sent it. The time taken does not tell where it differs.
pub fn verify(session_key: Option<&Key>, sent: &[&[u8]], signature: &[u8; SIGNATURE_BYTES]) -> bool {
    crypto::equal(&sign(session_key, sent), signature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyKind;
    use types::Utime;

    #[test]
    fn a_signature_is_of_all_bytes_in_whatever_pieces() {
        let key = Key::new(KeyKind::Aes, Utime::ZERO, &[4; 16]);
        let signature = sign(key.as_ref(), &[b"ban", b"ner"]);
        assert!(verify(key.as_ref(), &[b"banner"], &signature));
        assert!(!verify(key.as_ref(), &[b"bannes"], &signature));
        assert!(!verify(None, &[b"banner"], &signature));
        for at in 0..SIGNATURE_BYTES {
            let mut changed = signature;
            changed[at] ^= 1;
            assert!(!verify(key.as_ref(), &[b"banner"], &changed));
        }
        assert!(verify(None, &[b"banner"], &[0; 32]));
    }
}
