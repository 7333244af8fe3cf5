//! Keys: their kinds, their encoding and their text form.

use crate::crypto::{self, NotOpened, aes, rfc8009};
use crate::entropy::{Entropy, draw};
use std::fmt;
use std::str::FromStr;
use types::{Utime, base64};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};
use zeroize::Zeroizing;

/// The cipher that a key is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyKind {
    /// AES-128-CBC with one vector for all messages, unauthenticated. Every release of Ceph knows it, and those before
    /// 19.2.6 nothing else.
    Aes,
    /// `aes256-cts-hmac-sha384-192` of RFC 8009, with a key per usage.
    Aes256k,
}

impl KeyKind {
    /// Number of the kind in encodings.
    pub const fn number(self) -> u16 {
        match self {
            KeyKind::Aes => 1,
            KeyKind::Aes256k => 2,
        }
    }

    /// Name of the kind in commands and options.
    pub const fn word(self) -> &'static str {
        match self {
            KeyKind::Aes => "aes",
            KeyKind::Aes256k => "aes256k",
        }
    }

    /// Bytes of a secret.
    pub const fn secret_bytes(self) -> usize {
        match self {
            KeyKind::Aes => aes::KEY_BYTES,
            KeyKind::Aes256k => rfc8009::KEY_BYTES,
        }
    }

    /// Both kinds.
    pub const ALL: [KeyKind; 2] = [KeyKind::Aes, KeyKind::Aes256k];

    /// Reads words that are separated by commas or blanks.
    ///
    /// Errors: a word is no kind, or there is none.
    pub fn list(text: &str) -> Result<Vec<KeyKind>, UnknownKeyKind> {
        let words = text.split([',', ' ', ';', '\t']).filter(|word| !word.is_empty());
        let kinds: Vec<KeyKind> = words.map(str::parse).collect::<Result<_, _>>()?;
        if kinds.is_empty() { Err(UnknownKeyKind(text.to_owned())) } else { Ok(kinds) }
    }

    fn from_number(number: u16) -> Option<KeyKind> {
        KeyKind::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for KeyKind {
    type Err = UnknownKeyKind;

    fn from_str(word: &str) -> Result<KeyKind, UnknownKeyKind> {
        KeyKind::ALL.into_iter().find(|kind| kind.word() == word).ok_or_else(|| UnknownKeyKind(word.to_owned()))
    }
}

/// A word that names no kind of key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no kind of key: there are 'aes' and 'aes256k'")]
pub struct UnknownKeyKind(pub String);

/// Purpose of a sealed message. With keys of kind `aes256k` a message of one purpose does not open as one of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usage {
    /// The secret of a connection, for its secure mode.
    ConnectionSecret,
    /// The session key of a ticket, for who asked for the ticket.
    TicketSessionKey,
    /// A ticket's sealed part under the session key of the ticket that it replaces.
    TicketBlob,
    /// The part of an authorizer that proves its sender.
    Authorize,
    /// A service's challenge.
    AuthorizeChallenge,
    /// A service's proof.
    AuthorizeReply,
    /// Secrets of a service, for its daemons.
    RotatingSecrets,
    /// A ticket's sealed part under the secret of a service.
    TicketInfo,
}

impl Usage {
    /// Number of the usage in the derivation of keys.
    const fn number(self) -> u32 {
        match self {
            Usage::ConnectionSecret => 0x03,
            Usage::TicketSessionKey => 0x04,
            Usage::TicketBlob => 0x05,
            Usage::Authorize => 0x10,
            Usage::AuthorizeChallenge => 0x11,
            Usage::AuthorizeReply => 0x12,
            Usage::RotatingSecrets => 0x20,
            Usage::TicketInfo => 0x30,
        }
    }
}

/// A secret shared by two parties. Its bytes are wiped when it is dropped, and never printed by [`fmt::Debug`].
#[derive(Clone)]
pub struct Key {
    kind: KeyKind,
    created: Utime,
    secret: Zeroizing<Vec<u8>>,
}

/// Reason why a text is no key. The text itself is not repeated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key is not base64")]
    NotBase64,
    #[error("the key is base64 of something else: {0}")]
    Encoding(DecodeError),
    #[error("the key has {0} bytes too many")]
    Tail(usize),
}

impl Key {
    /// Makes a new key.
    pub fn generate(kind: KeyKind, created: Utime, entropy: &mut dyn Entropy) -> Key {
        let mut secret = Zeroizing::new(vec![0; kind.secret_bytes()]);
        entropy.fill(&mut secret);
        Key { kind, created, secret }
    }

    /// Makes a key of `secret`, whose length must be the kind's.
    pub fn new(kind: KeyKind, created: Utime, secret: &[u8]) -> Option<Key> {
        (secret.len() == kind.secret_bytes()).then(|| Key { kind, created, secret: Zeroizing::new(secret.to_vec()) })
    }

    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Time at which the key was made, by the clock of who made it.
    pub fn created(&self) -> Utime {
        self.created
    }

    /// The bytes of the secret.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// The text form, as keyrings have it: base64 of the encoding.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(base64::encode(&Zeroizing::new(self.to_vec(Target::PACIFIC))))
    }

    /// Reads the text form.
    pub fn from_text(text: &str) -> Result<Key, KeyError> {
        let bytes = Zeroizing::new(base64::decode(text.trim()).ok_or(KeyError::NotBase64)?);
        let mut r = Reader::new(&bytes);
        let key = r.get().map_err(KeyError::Encoding)?;
        match r.left() {
            0 => Ok(key),
            tail => Err(KeyError::Tail(tail)),
        }
    }

    /// Encrypts `plain` for one purpose. Keys of kind `aes` take nothing from `entropy` and have one purpose.
    pub(crate) fn encrypt(&self, usage: Usage, plain: &[u8], entropy: &mut dyn Entropy) -> Vec<u8> {
        match self.kind {
            KeyKind::Aes => aes::encrypt(self.secret_array(), plain),
            KeyKind::Aes256k => rfc8009::encrypt(self.secret_array(), usage.number(), draw(entropy), plain),
        }
    }

    /// Decrypts what [`Key::encrypt`] made for the same purpose.
    pub(crate) fn decrypt(&self, usage: Usage, sealed: &[u8]) -> Result<Vec<u8>, NotOpened> {
        match self.kind {
            KeyKind::Aes => aes::decrypt(self.secret_array(), sealed),
            KeyKind::Aes256k => rfc8009::decrypt(self.secret_array(), usage.number(), sealed),
        }
    }

    /// HMAC-SHA256 of the pieces, one after the other.
    pub(crate) fn hmac_sha256(&self, pieces: &[&[u8]]) -> [u8; 32] {
        crypto::hmac_sha256(&self.secret, pieces)
    }

    /// A number by which a ticket for monitors' own services tells for which key it was given. It tells nothing of the
    /// key.
    pub(crate) fn mark(&self) -> u64 {
        let code = self.hmac_sha256(&[b"key for which a ticket was given"]);
        u64::from_le_bytes(code[..8].try_into().expect("8 of 32 bytes"))
    }

    fn secret_array<const N: usize>(&self) -> &[u8; N] {
        self.secret.as_slice().try_into().expect("a secret has the length of its kind")
    }
}

/// Two keys are equal if their secrets are, in a time that does not depend on where they differ.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.kind == other.kind && self.created == other.created && crypto::equal(&self.secret, &other.secret)
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, created {}, secret not shown)", self.kind, self.created)
    }
}

/// `CryptoKey`: kind, time of creation, length of the secret, secret.
impl Encode for Key {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.kind.number());
        w.put(&self.created);
        w.u16(u16::try_from(self.kind.secret_bytes()).expect("a secret has 32 bytes at most"));
        w.raw(&self.secret);
    }
}

impl Decode for Key {
    const MIN_BYTES: usize = 12 + aes::KEY_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<Key, DecodeError> {
        let number = r.u16()?;
        let kind =
            KeyKind::from_number(number).ok_or(DecodeError::Value { what: "kind of a key", value: number.into() })?;
        let created = r.get()?;
        let length = r.u16()?;
        if usize::from(length) != kind.secret_bytes() {
            return Err(DecodeError::Value { what: "length of a key", value: length.into() });
        }
        let secret = r.raw(kind.secret_bytes())?;
        Ok(Key { kind, created, secret: Zeroizing::new(secret.to_vec()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{any_key, check_codec};
    use proptest::prelude::*;

    #[test]
    fn a_key_is_the_text_that_ceph_writes() {
        // `ceph-authtool --gen-print-key`, taken apart by hand.
        let text = "AQDBiAlru/32OBAAed62k2sQrvSFZPR9PkqFpg==";
        let key = Key::from_text(text).unwrap();
        assert_eq!((key.kind(), key.created().sec), (KeyKind::Aes, 0x6b09_88c1));
        assert_eq!(key.secret(), hex(b"79deb6936b10aef48564f47d3e4a85a6"));
        assert_eq!(key.to_text().as_str(), text);
    }

    fn hex(digits: &[u8]) -> Vec<u8> {
        digits.chunks(2).map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn what_is_no_key_is_refused_without_repeating_it() {
        let check = |text: &str, expect: &str| assert_eq!(Key::from_text(text).unwrap_err().to_string(), expect);
        check("secret word", "the key is not base64");
        check("AQAA", "the key is base64 of something else: input ends early: 4 bytes needed, 1 left");
        check(
            "BwDBiAlru/32OBAAed62k2sQrvSFZPR9PkqFpg==",
            "the key is base64 of something else: kind of a key: 0x7 is not allowed here",
        );
        check("AQDBiAlru/32OBAAed62k2sQrvSFZPR9PkqFpgAA", "the key has 2 bytes too many");
        check(
            "AQDBiAlru/32OBEAed62k2sQrvSFZPR9PkqFpgAA",
            "the key is base64 of something else: length of a key: 0x11 is not allowed here",
        );
    }

    #[test]
    fn a_secret_is_not_printed() {
        let key = Key::new(KeyKind::Aes, Utime::ZERO, &[0xab; 16]).unwrap();
        let printed = format!("{key:?} {:#?}", Some(&key));
        let forms = ["ab", "171", "AQ", "q6ur"];
        assert!(forms.iter().all(|form| !printed.contains(form)), "{printed}");
        assert_eq!(Key::new(KeyKind::Aes256k, Utime::ZERO, &[0; 16]), None);
    }

    proptest! {
        #[test]
        fn keys_read_back(key in any_key()) {
            check_codec(&key)?;
            prop_assert_eq!(Key::from_text(&key.to_text()), Ok(key));
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>(), text in "[A-Za-z0-9+/=]{0,60}") {
            if let Ok(key) = Key::from_slice(&bytes) {
                prop_assert!(bytes.starts_with(&key.to_vec(Target::PACIFIC)));
            }
            let _ = Key::from_text(&text);
        }
    }
}
