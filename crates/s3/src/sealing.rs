//! Sealed bytes: AES-256-GCM under a key of each object, which a client's key or a master key seals.
//!
//! An object has a random *data key*. It is kept with the object, sealed by a key that HKDF makes of the client's or
//! the master key, of a random salt, and of the names of bucket and object: so it opens for that object alone. A *row*
//! is what is written in order: the bytes of a small object, those of a tail, those of a part. HKDF makes a key for
//! each row of the data key, the part's number and the tail's id, which is never used twice. A row is cut into stripes
//! as it lies in RADOS, a stripe into *chunks*, each sealed with its stripe and chunk number as nonce. So any range is
//! read by the chunks that it touches, and a chunk opens at its own place only. A *proof* by the data key tells the
//! object's size and, for an object of parts, their list, so that nothing can be left out.
//!
//! An upload by a customer's key is completed also without it. Each part, which comes with the key, gets a proof of its
//! own for that, and the whole one that is made of them. Those of the parts go with the upload, so that nobody can make
//! a whole proof of some of them later; a reader, who has the key, makes all of them anew.

use crate::error::{Code, Error};
use crate::records::{Head, Layout, Part, SealedBy, Sealing};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac};
use bytes::Bytes;
use md5::{Digest as _, Md5};
use std::fmt;
use std::sync::Arc;
use stdx::hex;
use types::base64;
use zeroize::Zeroizing;

/// Bytes of every key.
pub const SEALING_KEY_BYTES: usize = 32;
/// Bytes behind each chunk, by which it is known to be right.
const TAG_BYTES: u64 = 16;
const NONCE_BYTES: usize = 12;
/// Begin of a proof that is made of the parts' own.
const OF_PARTS: &str = "parts:";
/// Bytes of every proof.
const PROOF_BYTES: usize = 32;
/// Bytes of the largest chunk that a record may tell.
const CHUNK_BYTES_MAX: u64 = 64 << 20;

/// Uses of keys that HKDF makes.
mod label {
    pub const DATA_KEY: &[u8] = b"nacre s3 data key 1";
    pub const ROW: &[u8] = b"nacre s3 row 1";
    pub const PROOF: &[u8] = b"nacre s3 proof 1";
    pub const PART_PROOF: &[u8] = b"nacre s3 part proof 1";
    /// No key follows from this one: what it proves is known to those who know every part's proof.
    pub const WHOLE_OF_PARTS: &[u8] = b"nacre s3 whole of parts 1";
}

#[derive(Clone)]
struct Secret(Zeroizing<[u8; SEALING_KEY_BYTES]>);

impl Secret {
    fn random() -> Secret {
        let mut bytes = Zeroizing::new([0; SEALING_KEY_BYTES]);
        fill_random(bytes.as_mut_slice());
        Secret(bytes)
    }

    fn from_slice(bytes: &[u8]) -> Option<Secret> {
        let mut secret = Zeroizing::new([0; SEALING_KEY_BYTES]);
        if bytes.len() != SEALING_KEY_BYTES {
            return None;
        }
        secret.copy_from_slice(bytes);
        Some(Secret(secret))
    }

    /// Makes another key of this one. Texts of `about` are told apart by their lengths.
    fn derive(&self, salt: &[u8], label: &[u8], about: &[&[u8]]) -> Secret {
        let mut info = label.to_vec();
        for text in about {
            info.extend_from_slice(&(text.len() as u64).to_le_bytes());
            info.extend_from_slice(text);
        }
        let mut made = Zeroizing::new([0; SEALING_KEY_BYTES]);
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(self.0.as_slice());
        let expanded = extracted.expand(&[&info], hkdf::HKDF_SHA256).and_then(|key| key.fill(made.as_mut_slice()));
        expanded.expect("HKDF makes keys of the length of its digest");
        Secret(made)
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, self.0.as_slice()).expect("the key has the length of AES-256");
        LessSafeKey::new(key)
    }
}

/// Panics where the system has no random bytes: a key that can be guessed is worse.
fn fill_random(bytes: &mut [u8]) {
    aws_lc_rs::rand::fill(bytes).expect("the system gives random bytes");
}

/// A key that a client brings with each request. It is never stored, and not shown.
#[derive(Clone)]
pub struct CustomerKey(Secret);

impl CustomerKey {
    /// `None` unless there are [`SEALING_KEY_BYTES`].
    pub fn from_slice(bytes: &[u8]) -> Option<CustomerKey> {
        Secret::from_slice(bytes).map(CustomerKey)
    }

    /// The MD5 of the key in base64, by which clients and answers name it.
    pub fn md5(&self) -> String {
        base64::encode(&Md5::digest(self.0.0.as_slice()))
    }
}

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerKey(not shown)")
    }
}

/// The reason why a text has no master keys. It shows nothing of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MasterKeyError {
    #[error("line {0} is not `ID KEY`: an id of letters and digits, and 32 bytes in base64")]
    Line(usize),
    #[error("line {0} has an id that another line has")]
    Twice(usize),
    #[error("there is no key")]
    Empty,
}

/// Keys of the gateways, each with its id: the first one seals, all of them open.
#[derive(Clone, Default)]
pub struct MasterKeys(Arc<[(String, Secret)]>);

impl MasterKeys {
    /// Reads lines `ID KEY`; empty ones, and those that begin with `#`, are passed over.
    pub fn parse(text: &str) -> Result<MasterKeys, MasterKeyError> {
        let mut keys: Vec<(String, Secret)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = MasterKeyError::Line(number);
            let (id, key) = line.split_once(' ').ok_or(wrong)?;
            let is_id = !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let key = base64::decode(key.trim()).map(Zeroizing::new);
            let key = key.and_then(|key| Secret::from_slice(&key)).filter(|_| is_id).ok_or(wrong)?;
            if keys.iter().any(|(other, _)| other == id) {
                return Err(MasterKeyError::Twice(number));
            }
            keys.push((id.to_owned(), key));
        }
        if keys.is_empty() { Err(MasterKeyError::Empty) } else { Ok(MasterKeys(keys.into())) }
    }

    /// A line with a new random key.
    pub fn new_line() -> Zeroizing<String> {
        let mut id = [0; 8];
        fill_random(&mut id);
        let key = Zeroizing::new(base64::encode(Secret::random().0.as_slice()));
        Zeroizing::new(format!("{} {}\n", hex(&id), *key))
    }

    /// True without a key: nothing can be sealed for clients that bring none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, id: &str) -> Option<&Secret> {
        self.0.iter().find(|(known, _)| known == id).map(|(_, key)| key)
    }
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(id, _)| id)).finish()
    }
}

/// How an object is to be sealed.
#[derive(Clone, Debug, Default)]
pub enum Encryption {
    #[default]
    None,
    /// By a key that every reader has to bring.
    Customer(CustomerKey),
    /// By the gateways' master key.
    Master,
}

impl Encryption {
    /// The key that readers have to bring.
    pub fn customer(&self) -> Option<&CustomerKey> {
        match self {
            Encryption::Customer(key) => Some(key),
            Encryption::None | Encryption::Master => None,
        }
    }
}

/// Names of bucket and object, for which alone a data key opens.
#[derive(Clone, Copy)]
pub(crate) struct SealedName<'a> {
    pub bucket: &'a str,
    pub key: &'a str,
}

/// The key of an object.
pub(crate) struct DataKey {
    secret: Secret,
    chunk: u64,
}

/// The sealing of a new object, and its key.
pub(crate) struct NewSealing {
    pub sealing: Sealing,
    pub key: DataKey,
}

fn refused(message: &'static str) -> Error {
    Code::InvalidRequest.because(message)
}

fn sealing_key(key: &Secret, salt: &[u8], name: SealedName<'_>) -> LessSafeKey {
    key.derive(salt, label::DATA_KEY, &[name.bucket.as_bytes(), name.key.as_bytes()]).cipher()
}

impl NewSealing {
    /// `chunk`: bytes of a chunk. `None` for an object that is not to be sealed. Errors: `InvalidRequest` where there
    /// is no master key.
    pub fn new(
        encryption: &Encryption,
        masters: &MasterKeys,
        name: SealedName<'_>,
        chunk: u64,
    ) -> Result<Option<NewSealing>, Error> {
        let (by, key) = match encryption {
            Encryption::None => return Ok(None),
            Encryption::Customer(CustomerKey(key)) => (SealedBy::Customer, key),
            Encryption::Master => {
                let (id, key) = masters.0.first().ok_or_else(|| refused("this gateway has no master key"))?;
                (SealedBy::Master { id: id.clone() }, key)
            }
        };
        let mut salt = [0; SEALING_KEY_BYTES];
        fill_random(&mut salt);
        let secret = Secret::random();
        let mut sealed = Zeroizing::new(secret.0.to_vec());
        // The salt makes the key one of its own, so it seals once.
        let tag = sealing_key(key, &salt, name)
            .seal_in_place_separate_tag(nonce(0, 0), Aad::empty(), &mut sealed)
            .expect("32 bytes are not too many");
        sealed.extend_from_slice(tag.as_ref());
        let (salt, key) = (base64::encode(&salt), base64::encode(&sealed));
        let sealing = Sealing { by, salt, key, chunk, proof: String::new() };
        Ok(Some(NewSealing { sealing, key: DataKey { secret, chunk } }))
    }

    /// The layout of an object of `size` bytes. `list`: the stored list of parts, or nothing.
    pub fn layout(self, size: u64, bare: Layout, list: &[u8]) -> Layout {
        let sealing = self.sealing.proven(&self.key, size, &bare, list);
        Layout::Sealed { bytes: Box::new(bare), sealing: Box::new(sealing) }
    }
}

impl Sealing {
    /// Opens the data key. `name`: as when it was sealed. Errors: `InvalidRequest` for a key that is missing, wrong or
    /// too much, [`Error::NoMasterKey`], `Damaged`.
    pub(crate) fn open(
        &self,
        brought: Option<&CustomerKey>,
        masters: &MasterKeys,
        name: SealedName<'_>,
    ) -> Result<DataKey, Error> {
        let damaged = || Error::damaged(&format!("the sealed key of '{}'", name.key), "it does not open");
        let key = match (&self.by, brought) {
            (SealedBy::Customer, Some(CustomerKey(key))) => key,
            (SealedBy::Customer, None) => {
                return Err(refused("the object is encrypted by a customer's key, which the request has to bring"));
            }
            (SealedBy::Master { .. }, Some(_)) => {
                return Err(refused("the object is not encrypted by a customer's key"));
            }
            (SealedBy::Master { id }, None) => masters.find(id).ok_or_else(|| Error::NoMasterKey { id: id.clone() })?,
        };
        let salt = base64::decode(&self.salt).ok_or_else(damaged)?;
        let mut sealed = Zeroizing::new(base64::decode(&self.key).ok_or_else(damaged)?);
        let opened = sealing_key(key, &salt, name).open_in_place(nonce(0, 0), Aad::empty(), &mut sealed).ok();
        match (opened.and_then(|opened| Secret::from_slice(opened)), &self.by) {
            (Some(secret), _) if (1..=CHUNK_BYTES_MAX).contains(&self.chunk) => {
                Ok(DataKey { secret, chunk: self.chunk })
            }
            (None, SealedBy::Customer) => {
                Err(refused("the object is encrypted by another key than the request brings"))
            }
            _ => Err(damaged()),
        }
    }

    fn proven(self, key: &DataKey, size: u64, bare: &Layout, list: &[u8]) -> Sealing {
        let proof = hmac::sign(&key.proof_key(), &facts(size, bare, list));
        Sealing { proof: base64::encode(proof.as_ref()), ..self }
    }

    /// The layout of an object of `size` bytes whose upload is completed without its key. Errors: `InvalidRequest`
    /// where a part has no proof.
    pub(crate) fn layout_without_key(self, size: u64, bare: Layout, parts: &[Part]) -> Result<Layout, Error> {
        let decoded = |part: &Part| Some(base64::decode(&part.proof)?).filter(|proof| proof.len() == PROOF_BYTES);
        let proofs = parts.iter().map(|part| Some((part.number, decoded(part)?))).collect::<Option<Vec<_>>>();
        let proofs = proofs.ok_or_else(|| {
            refused("an older gateway has stored a part: the completion has to bring the customer's key")
        })?;
        let proof = hmac::sign(&whole_of_parts_key(), &whole_of_parts(size, &proofs));
        let sealing = Sealing { proof: format!("{OF_PARTS}{}", base64::encode(proof.as_ref())), ..self };
        Ok(Layout::Sealed { bytes: Box::new(bare), sealing: Box::new(sealing) })
    }

    /// Compares an object's size and layout with what was written. `list`: the parts as they are stored, and read, or
    /// nothing. Errors: `Damaged`.
    pub(crate) fn check(&self, key: &DataKey, head: &Head, (list, parts): (&[u8], &[Part])) -> Result<(), Error> {
        let bare = head.layout.bare();
        let is_right = match (self.proof.strip_prefix(OF_PARTS), bare) {
            (None, _) => {
                let proof = base64::decode(&self.proof).unwrap_or_default();
                hmac::verify(&key.proof_key(), &facts(head.size, bare, list), &proof).is_ok()
            }
            (Some(proof), Layout::Parts { .. }) => {
                let prover = key.part_prover();
                let proofs: Vec<_> = parts.iter().map(|part| (part.number, prover.proof(part))).collect();
                let proof = base64::decode(proof).unwrap_or_default();
                let is_sorted = parts.is_sorted_by(|a, b| a.number < b.number);
                is_sorted && hmac::verify(&whole_of_parts_key(), &whole_of_parts(head.size, &proofs), &proof).is_ok()
            }
            (Some(_), _) => false,
        };
        match is_right {
            true => Ok(()),
            false => Err(Error::damaged(&head.key, "its size or its parts are not those that were written")),
        }
    }
}

fn whole_of_parts_key() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, label::WHOLE_OF_PARTS)
}

/// The text of which the proof of an object is made whose parts have proofs: its size, and number and proof of each.
fn whole_of_parts(size: u64, proofs: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut text = size.to_le_bytes().to_vec();
    for (number, proof) in proofs {
        text.extend_from_slice(&number.to_le_bytes());
        text.extend_from_slice(proof);
    }
    text
}

/// The facts that a proof is about: size, kind of layout, and size, stripe and id of a tail or the list of parts.
fn facts(size: u64, bare: &Layout, list: &[u8]) -> Vec<u8> {
    let mut facts = size.to_le_bytes().to_vec();
    match bare {
        Layout::Whole | Layout::Sealed { .. } => facts.push(0),
        Layout::Striped(tail) => {
            facts.push(1);
            facts.extend_from_slice(&tail.size.to_le_bytes());
            facts.extend_from_slice(&tail.stripe.to_le_bytes());
            facts.extend_from_slice(tail.id.as_bytes());
        }
        Layout::Parts { .. } => {
            facts.push(2);
            facts.extend_from_slice(list);
        }
    }
    facts
}

impl DataKey {
    fn proof_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.secret.derive(&[], label::PROOF, &[]).0.as_slice())
    }

    /// Makes proofs of parts.
    pub fn part_prover(&self) -> PartProver {
        let secret = self.secret.derive(&[], label::PART_PROOF, &[]);
        PartProver(hmac::Key::new(hmac::HMAC_SHA256, secret.0.as_slice()))
    }

    /// The key of a row. `part`: its number, 0 for an object that was put at once. `tail`: its id, or nothing.
    pub fn row(&self, part: u16, tail: &str) -> RowKey {
        let secret = self.secret.derive(&[], label::ROW, &[&part.to_le_bytes(), tail.as_bytes()]);
        RowKey { cipher: secret.cipher(), chunk: self.chunk }
    }
}

/// Makes proofs of an upload's parts.
pub(crate) struct PartProver(hmac::Key);

impl PartProver {
    /// The proof of a part: of its number, size, stripe, tail, ETag and checksum.
    pub fn proof(&self, part: &Part) -> Vec<u8> {
        let Part { number, etag, checksum, tail, .. } = part;
        let mut facts = number.to_le_bytes().to_vec();
        facts.extend_from_slice(&tail.size.to_le_bytes());
        facts.extend_from_slice(&tail.stripe.to_le_bytes());
        let checksum = checksum.as_ref().map_or("", |checksum| checksum.value.as_str());
        for text in [tail.id.as_str(), etag, checksum] {
            facts.extend_from_slice(&(text.len() as u64).to_le_bytes());
            facts.extend_from_slice(text.as_bytes());
        }
        hmac::sign(&self.0, &facts).as_ref().to_vec()
    }

    /// The part with its proof, as an upload's record has it.
    pub fn proven(&self, part: Part) -> Part {
        let proof = base64::encode(&self.proof(&part));
        Part { proof, ..part }
    }

    /// True unless a part has another proof than it should: older gateways gave it none.
    pub fn fits(&self, part: &Part) -> bool {
        part.proof.is_empty() || part.proof == base64::encode(&self.proof(part))
    }
}

/// The key of a row of stripes.
pub(crate) struct RowKey {
    cipher: LessSafeKey,
    chunk: u64,
}

/// The chunks of a stripe that have a range: where they lie, and where the range is in them once they are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    first_chunk: u64,
    pub offset: u64,
    pub length: u64,
    skip: u64,
    count: u64,
}

impl RowKey {
    /// Seals the bytes of a stripe. Each stripe of a row is sealed once.
    pub fn seal(&self, stripe: u64, plain: &[u8]) -> Bytes {
        let chunk = usize::try_from(self.chunk).expect("a chunk has CHUNK_BYTES_MAX at most");
        let mut sealed = Vec::with_capacity(plain.len() + plain.len().div_ceil(chunk) * TAG_BYTES as usize);
        for (number, plain) in (0..).zip(plain.chunks(chunk)) {
            let from = sealed.len();
            sealed.extend_from_slice(plain);
            let tag = self.cipher.seal_in_place_separate_tag(nonce(stripe, number), Aad::empty(), &mut sealed[from..]);
            sealed.extend_from_slice(tag.expect("a chunk is not too long").as_ref());
        }
        Bytes::from(sealed)
    }

    /// The chunks with a range of at least one byte. `stripe_len`: bytes of the stripe before it was sealed.
    pub fn span(&self, stripe_len: u64, (offset, count): (u64, u64)) -> Span {
        let (first, last) = (offset / self.chunk, (offset + count).saturating_sub(1) / self.chunk);
        let plain = ((last + 1) * self.chunk).min(stripe_len) - first * self.chunk;
        let length = plain + (last + 1 - first) * TAG_BYTES;
        let skip = offset - first * self.chunk;
        Span { first_chunk: first, offset: first * (self.chunk + TAG_BYTES), length, skip, count }
    }

    /// Opens the chunks of a span. `None` if one of them is not as it was sealed, or if bytes are missing.
    pub fn open(&self, stripe: u64, span: Span, sealed: &[u8]) -> Option<Bytes> {
        if sealed.len() as u64 != span.length {
            return None;
        }
        let mut plain = Vec::with_capacity(sealed.len());
        let chunk_len = usize::try_from(self.chunk + TAG_BYTES).expect("a chunk has CHUNK_BYTES_MAX at most");
        for (number, chunk) in (span.first_chunk..).zip(sealed.chunks(chunk_len)) {
            let (bytes, tag) = chunk.split_at_checked(chunk.len().checked_sub(TAG_BYTES as usize)?)?;
            let from = plain.len();
            plain.resize(from + bytes.len(), 0);
            let nonce = nonce(stripe, number);
            self.cipher.open_separate_gather(nonce, Aad::empty(), bytes, tag, &mut plain[from..]).ok()?;
        }
        let (from, end) = (usize::try_from(span.skip).ok()?, usize::try_from(span.skip + span.count).ok()?);
        (end <= plain.len()).then(|| Bytes::from(plain).slice(from..end))
    }
}

/// The nonce of a chunk: the stripe's number in eight bytes, the chunk's in four.
fn nonce(stripe: u64, chunk: u64) -> Nonce {
    let chunk = u32::try_from(chunk).expect("a stripe has less than 2^32 chunks");
    let mut bytes = [0; NONCE_BYTES];
    bytes[..8].copy_from_slice(&stripe.to_le_bytes());
    bytes[8..].copy_from_slice(&chunk.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{StoredChecksum, Tail, to_bytes};

    const NAME: SealedName<'static> = SealedName { bucket: "b", key: "k" };

    fn customer(byte: u8) -> CustomerKey {
        CustomerKey::from_slice(&[byte; 32]).expect("a key")
    }

    fn masters(byte: u8) -> MasterKeys {
        MasterKeys::parse(&format!("id{byte} {}", base64::encode(&[byte; 32]))).expect("a key")
    }

    fn sealed(encryption: &Encryption) -> NewSealing {
        NewSealing::new(encryption, &masters(1), NAME, 5).expect("a sealing").expect("it is sealed")
    }

    #[test]
    fn keys_open_for_their_object_alone() {
        let new = sealed(&Encryption::Customer(customer(7)));
        let open = |sealing: &Sealing, brought: Option<u8>, by: u8, name| {
            let opened = sealing.open(brought.map(customer).as_ref(), &masters(by), name);
            opened.map(|key| *key.secret.0)
        };
        assert_eq!(open(&new.sealing, Some(7), 1, NAME).expect("the key"), *new.key.secret.0);
        let other = SealedName { bucket: "bk", key: "" };
        for (brought, name) in [(None, NAME), (Some(8), NAME), (Some(7), other)] {
            let error = open(&new.sealing, brought, 1, name).expect_err("refused");
            assert_eq!(error.code(), Some(Code::InvalidRequest), "{brought:?}");
        }
        let new = sealed(&Encryption::Master);
        assert_eq!(open(&new.sealing, None, 1, NAME).expect("the key"), *new.key.secret.0);
        assert_eq!(open(&new.sealing, Some(1), 1, NAME).expect_err("refused").code(), Some(Code::InvalidRequest));
        assert_eq!(open(&new.sealing, None, 2, NAME), Err(Error::NoMasterKey { id: "id1".into() }));
        assert!(matches!(open(&new.sealing, None, 1, other), Err(Error::Damaged { .. })));
        let none = NewSealing::new(&Encryption::Master, &MasterKeys::default(), NAME, 5);
        assert_eq!(none.err().and_then(|error| error.code()), Some(Code::InvalidRequest));
        assert_ne!(sealed(&Encryption::Master).sealing, new.sealing, "salts and keys are random");
    }

    #[test]
    fn ranges_are_read_by_their_chunks_alone() {
        let row = sealed(&Encryption::Master).key.row(0, "t");
        for len in 0..24_u64 {
            let plain: Vec<u8> = (0..len as u8).collect();
            let whole = row.seal(3, &plain);
            assert_eq!(whole.len() as u64, len + len.div_ceil(5) * TAG_BYTES);
            for from in 0..len {
                for count in 1..=len - from {
                    let span = row.span(len, (from, count));
                    assert!(span.length <= (count + 8) / 5 * 21 + 21, "{span:?}");
                    let part = &whole[span.offset as usize..(span.offset + span.length) as usize];
                    let opened = row.open(3, span, part).expect("it opens");
                    assert_eq!(opened, plain[from as usize..(from + count) as usize], "{from} {count} of {len}");
                }
            }
        }
    }

    #[test]
    fn a_chunk_opens_at_its_place_alone() {
        let key = sealed(&Encryption::Master).key;
        let (row, plain) = (key.row(1, "t"), [9_u8; 15]);
        let whole = row.seal(0, &plain);
        let span = row.span(15, (0, 15));
        assert_eq!(row.open(0, span, &whole).as_deref(), Some(&plain[..]));
        assert_eq!(row.open(1, span, &whole), None, "another stripe");
        for (part, tail) in [(2, "t"), (1, "u")] {
            assert_eq!(key.row(part, tail).open(0, span, &whole), None, "another row");
        }
        assert_eq!(sealed(&Encryption::Master).key.row(1, "t").open(0, span, &whole), None, "another object");
        let swapped = [&whole[21..42], &whole[..21], &whole[42..]].concat();
        assert_eq!(row.open(0, span, &swapped), None);
        assert_eq!((row.open(0, span, &whole[..42]), row.open(0, span, &whole[21..])), (None, None));
        for at in 0..whole.len() {
            let mut changed = whole.to_vec();
            changed[at] ^= 1;
            assert_eq!(row.open(0, span, &changed), None, "byte {at}");
        }
    }

    #[test]
    fn proofs_are_about_size_tail_and_parts() {
        let NewSealing { sealing, key } = sealed(&Encryption::Master);
        let sized = |id: &str, size, stripe| Layout::Striped(Tail { id: id.into(), size, stripe });
        let tail = |id: &str, stripe| sized(id, 3, stripe);
        let parts = || Layout::Parts { upload: "u".into() };
        let cases = [
            (3, Layout::Whole, &b""[..]),
            (4, Layout::Whole, b""),
            (3, tail("t", 4), b""),
            (3, tail("t", 5), b""),
            (3, tail("u", 4), b""),
            (3, sized("t", 2, 4), b""),
            (3, parts(), b"[1]"),
            (3, parts(), b"[]"),
        ];
        for (at, (size, layout, list)) in cases.iter().enumerate() {
            let proven = sealing.clone().proven(&key, *size, layout, list);
            for (other, (size, layout, list)) in cases.iter().enumerate() {
                let facts = facts(*size, layout, list);
                let proof = base64::decode(&proven.proof).expect("base64");
                assert_eq!(hmac::verify(&key.proof_key(), &facts, &proof).is_ok(), at == other, "{at} {other}");
            }
        }
    }

    #[test]
    fn master_keys_are_lines() {
        let (one, two) = (MasterKeys::new_line(), MasterKeys::new_line());
        let keys = MasterKeys::parse(&format!("# keys\n\n{}{}", *one, *two)).expect("two keys");
        assert_eq!(keys.0.len(), 2);
        let shown = format!("{keys:?} {:?}", Encryption::Customer(customer(3)));
        assert!(!shown.contains(one.split_once(' ').expect("a line").1.trim()) && !shown.contains("3, 3"), "{shown}");
        let check = |text: &str, error| assert_eq!(MasterKeys::parse(text).err(), Some(error), "{text}");
        check("", MasterKeyError::Empty);
        check("# only\n", MasterKeyError::Empty);
        check("id", MasterKeyError::Line(1));
        check("\nid AAAA", MasterKeyError::Line(2));
        check(&format!("i-d {}", base64::encode(&[1; 32])), MasterKeyError::Line(1));
        check(&format!("{}{}", *one, *one), MasterKeyError::Twice(2));
    }

    /// The form of sealed bytes: by Python's `cryptography` (HKDF and AESGCM) from the same key.
    #[test]
    fn sealed_bytes_do_not_move() {
        let secret = Secret::from_slice(&[0x42; 32]).expect("a key");
        let key = DataKey { secret, chunk: 4 };
        let sealed = key.row(2, "s.1").seal(1, b"abcdef");
        assert_eq!(hex(&sealed), GOLDEN_ROW);
        let wrapped = sealing_key(&Secret::from_slice(&[1; 32]).expect("a key"), &[2; 32], NAME);
        let mut bytes = [0x42; 32];
        let tag = wrapped.seal_in_place_separate_tag(nonce(0, 0), Aad::empty(), &mut bytes).expect("sealed");
        let sealed = [&bytes[..], tag.as_ref()].concat();
        assert_eq!(hex(&sealed), GOLDEN_KEY);
        let proof = hmac::sign(&key.proof_key(), &facts(6, &Layout::Whole, b""));
        assert_eq!(hex(proof.as_ref()), GOLDEN_PROOF);
        let proof = key.part_prover().proof(&part(2, ("s.1", 6, 4), "e80b5017098950fc58aad83c8c14978e", None));
        let whole = hmac::sign(&whole_of_parts_key(), &whole_of_parts(6, &[(2, proof.clone())]));
        assert_eq!((hex(&proof).as_str(), hex(whole.as_ref()).as_str()), (GOLDEN_PART_PROOF, GOLDEN_WHOLE));
    }

    fn part(number: u16, (id, size, stripe): (&str, u64, u64), etag: &str, checksum: Option<&str>) -> Part {
        let kind = crate::digest::ChecksumKind::Crc32;
        let checksum = checksum.map(|value| StoredChecksum { kind, value: value.into(), is_composite: false });
        let (etag, tail) = (etag.to_owned(), Tail { id: id.into(), size, stripe });
        Part { number, etag, mtime_ms: 0, checksum, tail, proof: String::new(), sealed_by: None }
    }

    #[test]
    fn parts_prove_a_whole_without_the_key() {
        let NewSealing { sealing, key } = sealed(&Encryption::Customer(customer(7)));
        let prover = key.part_prover();
        let parts = [part(2, ("a", 10, 4), "e", None), part(5, ("b", 3, 4), "f", Some("c"))];
        let proven: Vec<Part> = parts.iter().map(|part| prover.proven(part.clone())).collect();
        let bare = || Layout::Parts { upload: "u".into() };
        let head = |layout| -> Head {
            let json = serde_json::json!({
                "bucket": "b", "key": "k", "tag": "t", "size": 13, "etag": "e", "mtime_ms": 0, "owner": "o",
                "layout": "Whole",
            });
            Head { layout, ..serde_json::from_value(json).expect("a head") }
        };
        let layout = sealing.clone().layout_without_key(13, bare(), &proven).expect("all parts have proofs");
        let head = head(layout);
        let made = head.sealing().expect("it is sealed");
        assert_eq!(base64::decode(&made.proof), None, "gateways from before do not take it for theirs");
        let check_by = |made: &Sealing, key: &DataKey, head: &Head, parts: &[Part]| {
            made.check(key, head, (&to_bytes(&parts.to_vec()), parts))
        };
        let check = |parts: &[Part]| check_by(made, &key, &head, parts);
        assert_eq!(check(&parts), Ok(()));
        let [first, second] = parts.clone();
        for wrong in [
            vec![first.clone()],
            vec![second.clone(), first.clone()],
            vec![first.clone(), first.clone(), second.clone()],
            vec![part(3, ("a", 10, 4), "e", None), second.clone()],
            vec![part(2, ("a", 9, 4), "e", None), second.clone()],
            vec![part(2, ("a", 10, 5), "e", None), second.clone()],
            vec![part(2, ("c", 10, 4), "e", None), second.clone()],
            vec![part(2, ("a", 10, 4), "g", None), second.clone()],
            vec![first.clone(), part(5, ("b", 3, 4), "f", None)],
        ] {
            assert!(matches!(check(&wrong), Err(Error::Damaged { .. })), "{wrong:?}");
        }
        let shorter = Head { size: 12, ..head.clone() };
        assert!(check_by(made, &key, &shorter, &parts).is_err());
        assert!(check_by(made, &sealed(&Encryption::Master).key, &head, &parts).is_err());
        // It is no proof of an object of another kind, nor a proof by the key.
        let whole = Head { layout: Layout::Whole, ..head.clone() };
        let as_if = Sealing { proof: made.proof.replace(OF_PARTS, ""), ..made.clone() };
        assert!(made.check(&key, &whole, (b"", &[])).is_err());
        assert!(check_by(&as_if, &key, &head, &parts).is_err());
        for proof in ["", "AAAA", "?"] {
            let some = [proven[0].clone(), Part { proof: proof.into(), ..proven[1].clone() }];
            let refused = sealing.clone().layout_without_key(13, bare(), &some).expect_err("a proof is missing");
            assert_eq!(refused.code(), Some(Code::InvalidRequest), "{proof}");
            assert_eq!(prover.fits(&some[1]), proof.is_empty());
        }
        assert!(prover.fits(&proven[0]) && !prover.fits(&Part { etag: "g".into(), ..proven[0].clone() }));
    }

    const GOLDEN_ROW: &str = "40acdd7415b4176a60f7ff3ee25ce1f2ed2243a344a1cb17642395e10a6fa75d5e496a163999";
    const GOLDEN_KEY: &str =
        "87e3ab54024567cbdcae256a46c697d40ef043e4b213c4080ed67fe15d363c3de26526207433fbf2d9baef9a14a28806";
    const GOLDEN_PART_PROOF: &str = "97f6d7293418244581face65a29c242abbe3505a9c7da142c054f3c0f81cc2d7";
    const GOLDEN_WHOLE: &str = "6d38ab648d72966cdec4dce73ac3ac3aa494dc18286fdd88ebae0cf6b79b7488";
    const GOLDEN_PROOF: &str = "d707e97c388a77f7fd9ed27d3f138e6e28558664a73ba0ed86abce0c2681215c";
}
