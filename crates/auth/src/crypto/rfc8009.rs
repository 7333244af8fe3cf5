//! `aes256-cts-hmac-sha384-192` of RFC 8009: AES-256 in CBC mode with ciphertext stealing, and a code over the result.
//!
//! A message is `C | H`. `C` is the encryption of a random block and the plaintext, as long as both together. `H` is
//! the first 24 bytes of HMAC-SHA-384 over an empty vector and `C`. Both keys are derived from the base key for one
//! usage, so that a message of one purpose does not open as one of another.

use super::{BLOCK_BYTES, NotOpened, equal};
use aws_lc_rs::cipher::{
    AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a base key.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of the code at the end of a message.
pub(crate) const CODE_BYTES: usize = 24;
/// Bytes that a message has beyond its plaintext.
pub(crate) const OVERHEAD_BYTES: usize = BLOCK_BYTES + CODE_BYTES;

/// The vector of a message that does not continue another.
const VECTOR: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Last byte of the label of a derived key: what the key is for.
mod label {
    pub const ENCRYPTION: u8 = 0xaa;
    pub const INTEGRITY: u8 = 0x55;
    #[cfg(test)]
    pub const CHECKSUM: u8 = 0x99;
}

/// Derives a key of `N` bytes, at most 48.
#[allow(clippy::big_endian_bytes, reason = "the RFC's numbers are big-endian")]
fn derive<const N: usize>(base: &[u8; KEY_BYTES], usage: u32, label: u8) -> Zeroizing<[u8; N]> {
    let bits = u32::try_from(N * 8).expect("a key is short");
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA384, base));
    context.update(&1u32.to_be_bytes());
    context.update(&usage.to_be_bytes());
    context.update(&[label, 0]);
    context.update(&bits.to_be_bytes());
    let mut key = Zeroizing::new([0; N]);
    key.copy_from_slice(&context.sign().as_ref()[..N]);
    key
}

fn code(base: &[u8; KEY_BYTES], usage: u32, encrypted: &[u8]) -> hmac::Tag {
    let key = derive::<CODE_BYTES>(base, usage, label::INTEGRITY);
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA384, key.as_ref()));
    context.update(&VECTOR);
    context.update(encrypted);
    context.sign()
}

fn unbound(key: &[u8; KEY_BYTES]) -> UnboundCipherKey {
    UnboundCipherKey::new(&AES_256, key).expect("the key has the length of AES-256")
}

/// Encrypts at least one block in place, without padding: the last two blocks change places, and the one that is then
/// last keeps as many bytes as the plaintext's last.
fn encrypt_stealing(key: &[u8; KEY_BYTES], bytes: &mut Vec<u8>) {
    let plain_bytes = bytes.len();
    bytes.resize(plain_bytes.next_multiple_of(BLOCK_BYTES), 0);
    let cipher = EncryptingKey::cbc(unbound(key)).expect("CBC is a mode of AES-256");
    let vector = EncryptionContext::Iv128(FixedLength::from(VECTOR));
    cipher.less_safe_encrypt(bytes, vector).expect("whole blocks encrypt");
    if bytes.len() > BLOCK_BYTES {
        let last = bytes.len() - BLOCK_BYTES;
        let (before, after) = bytes.split_at_mut(last);
        before[last - BLOCK_BYTES..].swap_with_slice(after);
    }
    bytes.truncate(plain_bytes);
}

/// Decrypts what [`encrypt_stealing`] made of at least one block.
fn decrypt_stealing(key: &[u8; KEY_BYTES], bytes: &mut Vec<u8>) {
    let plain_bytes = bytes.len();
    if plain_bytes > BLOCK_BYTES {
        let last = (plain_bytes - 1) / BLOCK_BYTES * BLOCK_BYTES;
        let kept = plain_bytes - last;
        // The full block holds, under one encryption, the stolen end of the short one.
        let mut stolen = [0; BLOCK_BYTES];
        stolen.copy_from_slice(&bytes[last - BLOCK_BYTES..last]);
        let cipher = DecryptingKey::ecb(unbound(key)).expect("ECB is a mode of AES-256");
        cipher.decrypt(&mut stolen, DecryptionContext::None).expect("a whole block decrypts");
        bytes.extend_from_slice(&stolen[kept..]);
        let (before, after) = bytes.split_at_mut(last);
        before[last - BLOCK_BYTES..].swap_with_slice(after);
        stolen.zeroize();
    }
    let cipher = DecryptingKey::cbc(unbound(key)).expect("CBC is a mode of AES-256");
    let vector = DecryptionContext::Iv128(FixedLength::from(VECTOR));
    cipher.decrypt(bytes, vector).expect("whole blocks decrypt");
    bytes.truncate(plain_bytes);
}

/// Encrypts `plain` for one `usage`. `confounder`: 16 random bytes, new ones for each message.
pub(crate) fn encrypt(base: &[u8; KEY_BYTES], usage: u32, confounder: [u8; BLOCK_BYTES], plain: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(plain.len() + OVERHEAD_BYTES + BLOCK_BYTES);
    bytes.extend_from_slice(&confounder);
    bytes.extend_from_slice(plain);
    encrypt_stealing(&derive(base, usage, label::ENCRYPTION), &mut bytes);
    let code = code(base, usage, &bytes);
    bytes.extend_from_slice(&code.as_ref()[..CODE_BYTES]);
    bytes
}

/// Decrypts what [`encrypt`] made with the same key for the same usage.
///
/// Errors: [`NotOpened`] if a byte was changed, or for any other key or usage. Nothing is decrypted then.
pub(crate) fn decrypt(base: &[u8; KEY_BYTES], usage: u32, sealed: &[u8]) -> Result<Vec<u8>, NotOpened> {
    let encrypted_bytes = sealed.len().checked_sub(CODE_BYTES).filter(|n| *n >= BLOCK_BYTES).ok_or(NotOpened)?;
    let (encrypted, claimed) = sealed.split_at(encrypted_bytes);
    if !equal(&code(base, usage, encrypted).as_ref()[..CODE_BYTES], claimed) {
        return Err(NotOpened);
    }
    let mut bytes = encrypted.to_vec();
    decrypt_stealing(&derive(base, usage, label::ENCRYPTION), &mut bytes);
    bytes.drain(..BLOCK_BYTES);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
    }

    /// Base key of the RFC's appendix A, whose samples have usage 2.
    fn base() -> [u8; 32] {
        hex("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52").try_into().unwrap()
    }

    #[test]
    fn keys_are_derived_as_in_the_rfc() {
        let check = |key: &[u8], expect: &str| assert_eq!(key, hex(expect));
        check(derive::<24>(&base(), 2, label::CHECKSUM).as_ref(), "EF5718BE86CC84963D8BBB5031E9F5C4BA41F28FAF69E73D");
        check(
            derive::<32>(&base(), 2, label::ENCRYPTION).as_ref(),
            "56AB22BEE63D82D7BC5227F6773F8EA7A5EB1C825160C38312980C442E5C7E49",
        );
        check(derive::<24>(&base(), 2, label::INTEGRITY).as_ref(), "69B16514E3CD8E56B82010D5C73012B622C4D00FFC23ED1F");
    }

    #[test]
    fn messages_are_those_of_the_rfc() {
        let check = |plain_bytes: u8, confounder: &str, expect: &str| {
            let plain: Vec<u8> = (0..plain_bytes).collect();
            let sealed = encrypt(&base(), 2, hex(confounder).try_into().unwrap(), &plain);
            assert_eq!(sealed, hex(expect), "of {plain_bytes} bytes");
            assert_eq!(decrypt(&base(), 2, &sealed), Ok(plain));
        };
        check(
            0,
            "F764E9FA15C276478B2C7D0C4E5F58E4",
            "41F53FA5BFE7026D91FAF9BE959195A0 58707273A96A40F0A01960621AC61274 8B9BBFBE7EB4CE3C",
        );
        check(
            6,
            "B80D3251C1F6471494256FFE712D0B9A",
            "4ED7B37C2BCAC8F74F23C1CF07E62BC7 B75FB3F637B9F559C7F664F69EAB7B60 92237526EA0D1F61CB20D69D10F2",
        );
        check(
            16,
            "53BF8A0D105265D4E276428624CE5E63",
            "BC47FFEC7998EB91E8115CF8D19DAC4B BBE2E163E87DD37F49BECA92027764F6
             8CF51F14D798C2273F35DF574D1F932E 40C4FF255B36A266",
        );
        check(
            21,
            "763E65367E864F02F55153C7E3B58AF1",
            "40013E2DF58E8751957D2878BCD2D6FE 101CCFD556CB1EAE79DB3C3EE86429F2
             B2A602AC86FEF6ECB647D6295FAE077A 1FEB517508D2C16B4192E01F62",
        );
    }

    proptest! {
        #[test]
        fn what_is_encrypted_decrypts(
            base in any::<[u8; 32]>(),
            usage in any::<u32>(),
            confounder in any::<[u8; 16]>(),
            plain in any::<Vec<u8>>(),
        ) {
            let sealed = encrypt(&base, usage, confounder, &plain);
            prop_assert_eq!(sealed.len(), plain.len() + OVERHEAD_BYTES);
            prop_assert_eq!(decrypt(&base, usage, &sealed), Ok(plain));
            prop_assert_eq!(decrypt(&base, usage.wrapping_add(1), &sealed), Err(NotOpened));
        }

        #[test]
        fn a_changed_bit_is_noticed(plain in any::<Vec<u8>>(), at in any::<prop::sample::Index>(), bit in 0..8u32) {
            let mut sealed = encrypt(&[7; 32], 4, [9; 16], &plain);
            let at = at.index(sealed.len());
            sealed[at] ^= 1u8 << bit;
            prop_assert_eq!(decrypt(&[7; 32], 4, &sealed), Err(NotOpened));
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(decrypt(&[7; 32], 4, &bytes), Err(NotOpened));
        }
    }
}
