//! ETags of objects that one request has put: the MD5 of their bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;

use md5::{Digest, Md5};
use stdx::hex;

/// ETags that are remembered.
const REMEMBERED_MAX: usize = 100_000;

/// ETags of an instance's objects by object and version. Each is computed when it is first asked for.
#[derive(Default)]
pub struct Etags(RefCell<BTreeMap<(u64, u32), String>>);

impl Etags {
    /// The ETag of a version of an object, with these bytes.
    pub fn of(&self, version: (u64, u32), bytes: impl FnOnce() -> Vec<u8>) -> String {
        let mut known = self.0.borrow_mut();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.entry(version).or_insert_with(|| hex(&Md5::digest(bytes()))).clone()
    }

    /// True for an ETag that has the form of an MD5. Gateways that encrypt may give others, which tell nothing.
    pub fn is_known(etag: &str) -> bool {
        etag.len() == 32 && etag.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_computed_once() {
        let etags = Etags::default();
        let abc = "900150983cd24fb0d6963f7d28e17f72";
        assert_eq!(etags.of((1, 1), || b"abc".to_vec()), abc);
        assert_eq!(etags.of((1, 1), || unreachable!("it is known")), abc);
        assert_ne!(etags.of((1, 2), || b"abd".to_vec()), abc);
        assert!(Etags::is_known(abc) && !Etags::is_known(&format!("{abc}-2")) && !Etags::is_known(""));
    }
}
