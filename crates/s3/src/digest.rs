//! Checksums of objects: MD5 for the ETag, and the additional ones of S3.

use crate::error::{Code, Error};
use crate::records::StoredChecksum;
use crc_fast::CrcAlgorithm;
use md5::Md5;
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use stdx::hex;
use types::base64;

/// An additional checksum of S3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum ChecksumKind {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

impl ChecksumKind {
    pub const ALL: [ChecksumKind; 5] =
        [ChecksumKind::Crc32, ChecksumKind::Crc32c, ChecksumKind::Crc64Nvme, ChecksumKind::Sha1, ChecksumKind::Sha256];

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            ChecksumKind::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            ChecksumKind::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            ChecksumKind::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            ChecksumKind::Sha1 | ChecksumKind::Sha256 => None,
        }
    }

    /// Length of the checksum in bytes.
    pub fn len_bytes(self) -> usize {
        match self {
            ChecksumKind::Crc32 | ChecksumKind::Crc32c => 4,
            ChecksumKind::Crc64Nvme => 8,
            ChecksumKind::Sha1 => 20,
            ChecksumKind::Sha256 => 32,
        }
    }

    /// True if the checksum of a whole follows from those of its parts.
    pub fn combines(self) -> bool {
        self.crc().is_some()
    }
}

/// S3 writes CRCs with the first byte most significant.
#[expect(clippy::big_endian_bytes, reason = "S3's form of CRCs")]
fn crc_bytes(value: u64, len: usize) -> Vec<u8> {
    value.to_be_bytes()[8 - len..].to_vec()
}

enum Running {
    Crc(Box<crc_fast::Digest>),
    Sha1(Sha1),
    Sha256(Sha256),
}

/// The digests of a body while it arrives.
pub(crate) struct Digests {
    md5: Md5,
    additional: Option<(ChecksumKind, Running)>,
}

impl Digests {
    pub fn new(additional: Option<ChecksumKind>) -> Digests {
        let running = |kind: ChecksumKind| match (kind.crc(), kind) {
            (Some(algorithm), _) => Running::Crc(Box::new(crc_fast::Digest::new(algorithm))),
            (None, ChecksumKind::Sha1) => Running::Sha1(Sha1::new()),
            (None, _) => Running::Sha256(Sha256::new()),
        };
        Digests { md5: Md5::new(), additional: additional.map(|kind| (kind, running(kind))) }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        match &mut self.additional {
            Some((_, Running::Crc(crc))) => crc.update(bytes),
            Some((_, Running::Sha1(sha))) => sha.update(bytes),
            Some((_, Running::Sha256(sha))) => sha.update(bytes),
            None => {}
        }
    }

    /// MD5, and the additional checksum.
    pub fn finish(self) -> ([u8; 16], Option<StoredChecksum>) {
        let additional = self.additional.map(|(kind, running)| {
            let bytes = match running {
                Running::Crc(crc) => crc_bytes(crc.finalize(), kind.len_bytes()),
                Running::Sha1(sha) => sha.finalize().to_vec(),
                Running::Sha256(sha) => sha.finalize().to_vec(),
            };
            StoredChecksum { kind, value: base64::encode(&bytes), is_composite: false }
        });
        (self.md5.finalize().into(), additional)
    }
}

/// The ETag of an object of parts: the MD5 of their MD5s, and their number. `None` if an ETag is no MD5.
pub(crate) fn etag_of_parts<'a>(etags: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut md5 = Md5::new();
    let mut count = 0;
    for etag in etags {
        let digit = |at: usize| u8::from_str_radix(etag.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..16).map(|i| digit(2 * i)).collect();
        md5.update(bytes.filter(|_| etag.len() == 32)?);
        count += 1;
    }
    Some(format!("{}-{count}", hex(&md5.finalize())))
}

/// The checksum of a whole from its parts' checksums, each with the part's length in bytes. `None` if a part has none
/// of this kind, or if the kind does not combine.
pub(crate) fn checksum_of_parts(
    kind: ChecksumKind,
    is_composite: bool,
    parts: &[(Option<StoredChecksum>, u64)],
) -> Option<StoredChecksum> {
    let of_part = |checksum: &Option<StoredChecksum>| {
        let value = &checksum.as_ref().filter(|c| c.kind == kind)?.value;
        base64::decode(value).filter(|bytes| bytes.len() == kind.len_bytes())
    };
    if is_composite {
        let mut digests = Digests::new(Some(kind));
        for (checksum, _) in parts {
            digests.update(&of_part(checksum)?);
        }
        let value = format!("{}-{}", digests.finish().1?.value, parts.len());
        return Some(StoredChecksum { kind, value, is_composite });
    }
    let algorithm = kind.crc()?;
    let mut whole = crc_fast::checksum(algorithm, b"");
    for (checksum, len) in parts {
        let crc = of_part(checksum)?.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        whole = crc_fast::checksum_combine(algorithm, whole, crc, *len);
    }
    Some(StoredChecksum { kind, value: base64::encode(&crc_bytes(whole, kind.len_bytes())), is_composite })
}

/// The digest in a header `Content-MD5`.
pub fn content_md5(header: &str) -> Result<[u8; 16], Error> {
    let bytes = base64::decode(header.trim()).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| Code::InvalidDigest.because("Content-MD5 is not the base64 of an MD5"))
}

/// Compares a short body with the digest in its header `Content-MD5`. Errors: `InvalidDigest`, `BadDigest`.
pub fn check_content_md5(header: &str, body: &[u8]) -> Result<(), Error> {
    let mut digests = Digests::new(None);
    digests.update(body);
    if content_md5(header)? == digests.finish().0 {
        return Ok(());
    }
    Err(Code::BadDigest.because("the bytes have another MD5 than Content-MD5 tells"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: ChecksumKind, bytes: &[u8]) -> StoredChecksum {
        let mut digests = Digests::new(Some(kind));
        digests.update(bytes);
        digests.finish().1.expect("one is asked for")
    }

    #[test]
    fn known_values() {
        // Check values of the catalogue of CRCs, and of FIPS 180 for "abc".
        assert_eq!(base64::decode(&of(ChecksumKind::Crc32, b"123456789").value), Some(vec![0xcb, 0xf4, 0x39, 0x26]));
        assert_eq!(base64::decode(&of(ChecksumKind::Crc32c, b"123456789").value), Some(vec![0xe3, 0x06, 0x92, 0x83]));
        let crc64 = base64::decode(&of(ChecksumKind::Crc64Nvme, b"123456789").value).expect("base64");
        assert_eq!(hex(&crc64), "ae8b14860a799888");
        let sha1 = base64::decode(&of(ChecksumKind::Sha1, b"abc").value).expect("base64");
        assert_eq!(hex(&sha1), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let sha256 = base64::decode(&of(ChecksumKind::Sha256, b"abc").value).expect("base64");
        assert_eq!(hex(&sha256), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(&Digests::new(None).finish().0), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn checksums_of_wholes_follow_from_those_of_parts() {
        for kind in ChecksumKind::ALL {
            let parts = [(Some(of(kind, b"hello ")), 6), (Some(of(kind, b"")), 0), (Some(of(kind, b"world")), 5)];
            let whole = checksum_of_parts(kind, false, &parts);
            assert_eq!(whole, kind.combines().then(|| of(kind, b"hello world")), "{kind:?}");
            let composite = checksum_of_parts(kind, true, &parts).expect("all have one");
            let joined: Vec<u8> =
                parts.iter().flat_map(|(c, _)| base64::decode(&c.as_ref().expect("one").value).expect("b")).collect();
            assert_eq!(composite.value, format!("{}-3", of(kind, &joined).value));
            assert_eq!(checksum_of_parts(kind, true, &[(None, 1)]), None);
        }
    }

    #[test]
    fn etags_of_parts() {
        let empty = "d41d8cd98f00b204e9800998ecf8427e";
        // The MD5 of 16 bytes d41d8c...: by `echo d41d8cd98f00b204e9800998ecf8427e | xxd -r -p | md5sum`.
        let etag = etag_of_parts([empty].into_iter()).expect("an MD5");
        assert_eq!(etag, "59adb24ef3cdbe0297f05b395827453f-1");
        assert_eq!(etag_of_parts(["xyz"].into_iter()), None);
        assert!(content_md5("AAAA").is_err() && content_md5("1B2M2Y8AsgTpgAmY7PhCfg==").is_ok());
    }
}
