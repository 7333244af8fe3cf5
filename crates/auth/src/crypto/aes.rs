//! AES-128-CBC with padding of PKCS #7 and one vector for all messages.
//!
//! The fixed vector shows which messages begin alike, and nothing proves that a message is as it was written. Ceph's
//! releases up to 19.2.5 know nothing else. What is sealed so is recognised by the number at its begin alone.

use super::{BLOCK_BYTES, NotOpened};
use aws_lc_rs::cipher::{
    AES_128, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 16;

/// The vector of every message, a constant of Ceph's protocol.
const VECTOR: [u8; BLOCK_BYTES] = *b"cephsageyudagreg";

fn unbound(key: &[u8; KEY_BYTES]) -> UnboundCipherKey {
    UnboundCipherKey::new(&AES_128, key).expect("the key has the length of AES-128")
}

/// Encrypts `plain`. The result is 1 to 16 bytes longer, a multiple of 16.
pub(crate) fn encrypt(key: &[u8; KEY_BYTES], plain: &[u8]) -> Vec<u8> {
    let cipher = PaddedBlockEncryptingKey::cbc_pkcs7(unbound(key)).expect("CBC is a mode of AES-128");
    let mut bytes = plain.to_vec();
    let vector = EncryptionContext::Iv128(FixedLength::from(VECTOR));
    cipher.less_safe_encrypt(&mut bytes, vector).expect("a buffer that grows takes any message");
    bytes
}

/// Decrypts what [`encrypt`] made.
///
/// Errors: [`NotOpened`] if the padding is none. A wrong key is noticed so 255 times of 256.
pub(crate) fn decrypt(key: &[u8; KEY_BYTES], sealed: &[u8]) -> Result<Vec<u8>, NotOpened> {
    if sealed.is_empty() || !sealed.len().is_multiple_of(BLOCK_BYTES) {
        return Err(NotOpened);
    }
    let cipher = PaddedBlockDecryptingKey::cbc_pkcs7(unbound(key)).expect("CBC is a mode of AES-128");
    let mut bytes = sealed.to_vec();
    let vector = DecryptionContext::Iv128(FixedLength::from(VECTOR));
    let plain_bytes = cipher.decrypt(&mut bytes, vector).map_err(|_| NotOpened)?.len();
    bytes.truncate(plain_bytes);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encrypted_decrypts(key in any::<[u8; 16]>(), plain in any::<Vec<u8>>()) {
            let sealed = encrypt(&key, &plain);
            prop_assert_eq!(sealed.len(), (plain.len() / 16 + 1) * 16);
            prop_assert_eq!(decrypt(&key, &sealed), Ok(plain));
        }

        #[test]
        fn no_bytes_panic(key in any::<[u8; 16]>(), bytes in any::<Vec<u8>>()) {
            let _ = decrypt(&key, &bytes);
        }
    }

    #[test]
    fn parts_of_blocks_are_refused() {
        let sealed = encrypt(&[1; 16], b"words");
        assert_eq!(decrypt(&[1; 16], &sealed[..15]), Err(NotOpened));
        assert_eq!(decrypt(&[1; 16], b""), Err(NotOpened));
    }
}
