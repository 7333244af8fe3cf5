//! Secure mode of connections: records under AES-128-GCM.
//!
//! Each direction has a nonce of its own, which no record shares with another: it is used as it is, then counted up.
//! Additional data is empty. When the count would come back to its first value the direction is at its end, and the
//! connection must be made anew: the protocol has no change of keys within one.

use crate::crypto;
use crate::entropy::{Entropy, draw};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::fmt;
use wire::DecodeError;
use zeroize::Zeroizing;

/// Bytes of the code behind a record.
pub const TAG_BYTES: usize = 16;
/// Bytes of one record at most, a limit of GCM (2^36 - 32).
pub const RECORD_BYTES_MAX: u64 = (1 << 36) - 32;
/// Blocks of 16 bytes under one key after which a connection should be made anew: 16 TiB. An attacker's chance to tell
/// ciphertext from random bytes is then below 2^-46.
pub const BLOCKS_ADVISED: u64 = 1 << 40;

const KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;

/// The secret of one connection, for its secure mode.
#[derive(Clone)]
pub struct ConnectionSecret(Zeroizing<[u8; ConnectionSecret::BYTES]>);

impl ConnectionSecret {
    /// Bytes of a secret; the first 40 are used.
    pub const BYTES: usize = 64;
    const USED_BYTES: usize = KEY_BYTES + 2 * NONCE_BYTES;

    pub(crate) fn generate(entropy: &mut dyn Entropy) -> ConnectionSecret {
        ConnectionSecret(Zeroizing::new(draw(entropy)))
    }

    /// Takes a peer's secret, which may have other lengths.
    ///
    /// Errors: fewer bytes than are used, or more than 64.
    pub fn from_slice(bytes: &[u8]) -> Result<ConnectionSecret, DecodeError> {
        if !(ConnectionSecret::USED_BYTES..=ConnectionSecret::BYTES).contains(&bytes.len()) {
            return Err(DecodeError::Value { what: "length of a connection's secret", value: bytes.len() as u64 });
        }
        let mut secret = Zeroizing::new([0; ConnectionSecret::BYTES]);
        secret[..bytes.len()].copy_from_slice(bytes);
        Ok(ConnectionSecret(secret))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The two directions of one side: what it seals, and what it opens.
    pub fn directions(&self, side: Side, revision: Revision) -> (Sealer, Opener) {
        let key: &[u8; KEY_BYTES] = self.0[..KEY_BYTES].try_into().expect("its length");
        let nonce = |at: usize| -> [u8; NONCE_BYTES] { self.0[at..at + NONCE_BYTES].try_into().expect("its length") };
        let (first, second) = (nonce(KEY_BYTES), nonce(KEY_BYTES + NONCE_BYTES));
        let (sent, received) = match side {
            Side::Connecting => (second, first),
            Side::Accepting => (first, second),
        };
        let direction = |first| Direction::new(key, first, revision);
        (Sealer(direction(sent)), Opener(direction(received)))
    }
}

impl PartialEq for ConnectionSecret {
    fn eq(&self, other: &ConnectionSecret) -> bool {
        crypto::equal(self.as_slice(), other.as_slice())
    }
}

impl Eq for ConnectionSecret {}

impl fmt::Debug for ConnectionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionSecret(not shown)")
    }
}

/// A side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Connecting,
    Accepting,
}

/// Revision of the frames, which decides where a nonce is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Revision {
    /// msgr 2.0: the first four bytes.
    Zero,
    /// msgr 2.1: the last eight bytes.
    One,
}

/// Reason why a record cannot be sealed or opened. The connection is of no use then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SecureError {
    /// The record was changed, is not the next one, or is of another connection.
    #[error("a record does not open: it was changed, or is not the next one")]
    NotOpened,
    #[error("all nonces of the connection are used: it must be made anew")]
    NoncesUsed,
    #[error("a record of {0} bytes is longer than GCM allows")]
    Length(u64),
}

struct Direction {
    key: LessSafeKey,
    nonce: [u8; NONCE_BYTES],
    first: [u8; NONCE_BYTES],
    begun: bool,
    revision: Revision,
    blocks: u64,
}

impl Direction {
    fn new(key: &[u8; KEY_BYTES], first: [u8; NONCE_BYTES], revision: Revision) -> Direction {
        let key = UnboundKey::new(&AES_128_GCM, key).expect("the key has the length of AES-128");
        Direction { key: LessSafeKey::new(key), nonce: first, first, begun: false, revision, blocks: 0 }
    }

    /// Takes the nonce of the next record, of `bytes` bytes.
    fn next(&mut self, bytes: usize) -> Result<Nonce, SecureError> {
        if bytes as u64 > RECORD_BYTES_MAX {
            return Err(SecureError::Length(bytes as u64));
        }
        if self.begun && self.nonce == self.first {
            return Err(SecureError::NoncesUsed);
        }
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        self.begun = true;
        let (fixed, counter) = self.nonce.split_at_mut(4);
        match self.revision {
            Revision::Zero => count_up::<4>(fixed, |n| u32::from_le_bytes(n).wrapping_add(1).to_le_bytes()),
            Revision::One => count_up::<8>(counter, |n| u64::from_le_bytes(n).wrapping_add(1).to_le_bytes()),
        }
        self.blocks = self.blocks.saturating_add(bytes.div_ceil(16) as u64);
        Ok(nonce)
    }
}

fn count_up<const N: usize>(bytes: &mut [u8], next: fn([u8; N]) -> [u8; N]) {
    let number: [u8; N] = (&*bytes).try_into().expect("the slice has the counter's length");
    bytes.copy_from_slice(&next(number));
}

impl fmt::Debug for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direction({:?}, {} blocks, key not shown)", self.revision, self.blocks)
    }
}

/// The direction in which one side sends.
#[derive(Debug)]
pub struct Sealer(Direction);

impl Sealer {
    /// Encrypts a record in place and returns the code that goes behind it.
    ///
    /// Errors: the record is untouched then.
    pub fn seal(&mut self, record: &mut [u8]) -> Result<[u8; TAG_BYTES], SecureError> {
        let nonce = self.0.next(record.len())?;
        let tag = self.0.key.seal_in_place_separate_tag(nonce, Aad::empty(), record);
        let tag = tag.map_err(|_| SecureError::Length(record.len() as u64))?;
        Ok(tag.as_ref().try_into().expect("a tag of GCM has 16 bytes"))
    }

    /// True if the connection should be made anew soon ([`BLOCKS_ADVISED`]).
    pub fn is_worn(&self) -> bool {
        self.0.blocks >= BLOCKS_ADVISED
    }
}

/// The direction in which one side receives.
#[derive(Debug)]
pub struct Opener(Direction);

impl Opener {
    /// Decrypts the next record in place: the ciphertext with its code of [`TAG_BYTES`] behind it. Returns the
    /// plaintext, which has those bytes less.
    ///
    /// Errors: the bytes are of no meaning then.
    pub fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<&'a mut [u8], SecureError> {
        let bytes = record.len().checked_sub(TAG_BYTES).ok_or(SecureError::NotOpened)?;
        let nonce = self.0.next(bytes)?;
        self.0.key.open_in_place(nonce, Aad::empty(), record).map_err(|_| SecureError::NotOpened)
    }

    /// Decrypts the next record in place, whose code lies elsewhere.
    pub fn open_apart(&mut self, record: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), SecureError> {
        let nonce = self.0.next(record.len())?;
        let opened = self.0.key.open_in_place_separate_tag(nonce, Aad::empty(), tag, record);
        opened.map(drop).map_err(|_| SecureError::NotOpened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::seeded;
    use proptest::prelude::*;

    fn pair(revision: Revision) -> [(Sealer, Opener); 2] {
        let secret = ConnectionSecret::generate(&mut seeded(3));
        [Side::Connecting, Side::Accepting].map(|side| secret.directions(side, revision))
    }

    fn sealed(sealer: &mut Sealer, plain: &[u8]) -> Vec<u8> {
        let mut record = plain.to_vec();
        let tag = sealer.seal(&mut record).unwrap();
        record.extend_from_slice(&tag);
        record
    }

    /// Case 2 of the validation data in "The Galois/Counter Mode of Operation" (McGrew, Viega): all zeros.
    #[test]
    fn a_record_is_as_in_the_paper() {
        let mut sealer = Sealer(Direction::new(&[0; 16], [0; 12], Revision::One));
        let mut record = [0; 16];
        let tag = sealer.seal(&mut record).unwrap();
        assert_eq!(
            u128::from_str_radix("0388dace60b6a392f328c2b971b2fe78", 16).unwrap().to_le_bytes(),
            reversed(record)
        );
        assert_eq!(u128::from_str_radix("ab6e47d42cec13bdf53a67b21257bddf", 16).unwrap().to_le_bytes(), reversed(tag));
    }

    fn reversed(mut bytes: [u8; 16]) -> [u8; 16] {
        bytes.reverse();
        bytes
    }

    #[test]
    fn nonces_are_counted_where_the_revision_says() {
        let check = |revision, expect: [u8; 12]| {
            let mut direction = Direction::new(&[0; 16], [0xff; 12], revision);
            direction.next(1).unwrap();
            assert_eq!(direction.nonce, expect);
        };
        check(Revision::Zero, [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        check(Revision::One, [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn no_nonce_is_used_twice() {
        for revision in [Revision::Zero, Revision::One] {
            let mut sealer = Sealer(Direction::new(&[0; 16], [5; 12], revision));
            sealer.seal(&mut [0; 16]).unwrap();
            // All records but the last one, at once.
            let at = if revision == Revision::Zero { 0 } else { 4 };
            sealer.0.nonce = [5; 12];
            sealer.0.nonce[at] = 4;
            sealer.seal(&mut [0; 16]).unwrap();
            let mut record = [7; 16];
            assert_eq!(sealer.seal(&mut record), Err(SecureError::NoncesUsed));
            assert_eq!(record, [7; 16], "a record that is not sealed is untouched");
        }
    }

    #[test]
    fn a_connection_wears() {
        let [(mut sealer, _), _] = pair(Revision::One);
        sealer.0.blocks = BLOCKS_ADVISED - 1;
        assert!(!sealer.is_worn());
        sealer.seal(&mut [0; 1]).unwrap();
        assert!(sealer.is_worn());
    }

    #[test]
    fn records_open_in_their_order_and_direction_alone() {
        let [(mut client_seals, mut client_opens), (mut server_seals, mut server_opens)] = pair(Revision::One);
        let (mut first, mut second) = (sealed(&mut client_seals, b"first"), sealed(&mut client_seals, b"second"));
        // Sent back: the directions have nonces of their own.
        assert_eq!(client_opens.open(&mut first.clone()), Err(SecureError::NotOpened));
        assert_eq!(server_opens.open(&mut first).unwrap(), b"first");
        assert_eq!(server_opens.open(&mut second).unwrap(), b"second");
        let mut third = sealed(&mut client_seals, b"third");
        assert_eq!(server_opens.open(&mut third.clone()).unwrap(), b"third");
        // Again, and one too early.
        assert_eq!(server_opens.open(&mut third), Err(SecureError::NotOpened));
        let [_, (_, mut server_opens)] = pair(Revision::One);
        let [(mut client_seals, _), _] = pair(Revision::One);
        sealed(&mut client_seals, b"lost");
        assert_eq!(server_opens.open(&mut sealed(&mut client_seals, b"early")), Err(SecureError::NotOpened));
        let mut reply = b"reply".to_vec();
        let tag = server_seals.seal(&mut reply).unwrap();
        let [(_, mut client_opens), _] = pair(Revision::One);
        client_opens.open_apart(&mut reply, &tag).unwrap();
        assert_eq!(reply, b"reply");
    }

    #[test]
    fn secrets_of_other_lengths_are_refused_and_none_is_printed() {
        assert!(ConnectionSecret::from_slice(&[1; 39]).is_err());
        assert!(ConnectionSecret::from_slice(&[1; 65]).is_err());
        let secret = ConnectionSecret::from_slice(&[0xab; 40]).unwrap();
        assert_eq!(format!("{secret:?}"), "ConnectionSecret(not shown)");
        let (sealer, opener) = secret.directions(Side::Accepting, Revision::One);
        assert!(!format!("{sealer:?} {opener:?}").to_lowercase().contains("ab, "));
    }

    proptest! {
        #[test]
        fn a_changed_bit_is_noticed(plain in any::<Vec<u8>>(), at in any::<prop::sample::Index>(), bit in 0..8u32) {
            let [(mut client_seals, _), (_, mut server_opens)] = pair(Revision::One);
            let mut record = sealed(&mut client_seals, &plain);
            let at = at.index(record.len());
            record[at] ^= 1 << bit;
            prop_assert_eq!(server_opens.open(&mut record), Err(SecureError::NotOpened));
        }

        #[test]
        fn no_bytes_panic(mut bytes in any::<Vec<u8>>()) {
            let [_, (_, mut server_opens)] = pair(Revision::Zero);
            prop_assert_eq!(server_opens.open(&mut bytes), Err(SecureError::NotOpened));
        }
    }
}
