//! References to pages.

use super::damage::DamageKind;
use super::layout::{self, CHILD_BYTES, FLAG_OVERFLOW, ROOT_BYTES, ROOT_LEVEL};
use super::le;
use super::{LEVEL_MAX, PAGE_BLOCKS};
use crate::space::run::Run;

/// A page's place, and the checksum and generation that it must have: the holder of a reference detects a lost or
/// misdirected write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageRef {
    pub block: u32,
    /// crc32c of the page behind its first four bytes, which hold the same checksum.
    pub crc: u32,
    /// Generation of the merge that wrote the page.
    pub generation: u64,
}

impl PageRef {
    pub fn run(&self) -> Run {
        Run { start: self.block, count: PAGE_BLOCKS }
    }
}

/// An interior page's entry, besides the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Child {
    pub page: PageRef,
    /// True if the page, or one below it, has overflow values.
    pub overflow: bool,
}

impl Child {
    /// Encodes block (8), generation (8), crc (4), flags (1).
    pub fn encode(&self) -> [u8; CHILD_BYTES] {
        let mut out = [0; CHILD_BYTES];
        le::put(&mut out, layout::child::BLOCK, &u64::from(self.page.block).to_le_bytes());
        le::put(&mut out, layout::child::GENERATION, &self.page.generation.to_le_bytes());
        le::put(&mut out, layout::child::CRC, &self.page.crc.to_le_bytes());
        out[layout::child::FLAGS] = if self.overflow { FLAG_OVERFLOW } else { 0 };
        out
    }

    /// Returns `None` for a block beyond any device or unknown flags. Panics if `bytes` are too few.
    pub fn decode(bytes: &[u8]) -> Option<Child> {
        let block = u32::try_from(le::u64_at(bytes, layout::child::BLOCK))
            .ok()
            .filter(|block| block.checked_add(PAGE_BLOCKS).is_some())?;
        let flags = bytes[layout::child::FLAGS];
        if flags & !FLAG_OVERFLOW != 0 {
            return None;
        }
        let page = PageRef {
            block,
            crc: le::u32_at(bytes, layout::child::CRC),
            generation: le::u64_at(bytes, layout::child::GENERATION),
        };
        Some(Child { page, overflow: flags & FLAG_OVERFLOW != 0 })
    }
}

/// The topmost page. A tree without entries has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    pub(crate) child: Child,
    /// The page's level; a leaf's is 0.
    pub(crate) level: u8,
}

impl Root {
    /// Returns the number of levels of pages.
    pub fn height(&self) -> u8 {
        self.level + 1
    }

    pub fn page(&self) -> PageRef {
        self.child.page
    }

    /// Encodes child (21), level (1), zeros (2) for a checkpoint root; all zeros for an empty tree.
    pub fn encode(root: Option<Root>) -> [u8; ROOT_BYTES] {
        let mut out = [0; ROOT_BYTES];
        if let Some(root) = root {
            le::put(&mut out, 0, &root.child.encode());
            out[ROOT_LEVEL] = root.level;
        }
        out
    }

    /// Errors: bytes that [`Root::encode`] does not make.
    pub fn decode(bytes: &[u8; ROOT_BYTES]) -> Result<Option<Root>, DamageKind> {
        let malformed = DamageKind::Structure("root");
        if bytes[ROOT_LEVEL + 1..].iter().any(|byte| *byte != 0) {
            return Err(malformed);
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let child = Child::decode(bytes).ok_or(malformed.clone())?;
        let level = bytes[ROOT_LEVEL];
        if level > LEVEL_MAX || child.page.block == 0 {
            return Err(malformed);
        }
        Ok(Some(Root { child, level }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn roots_read_back(block in 1u32..u32::MAX - 2, crc: u32, generation: u64, overflow: bool, level in 0..=LEVEL_MAX) {
            let child = Child { page: PageRef { block, crc, generation }, overflow };
            let root = Some(Root { child, level });
            prop_assert_eq!(Root::decode(&Root::encode(root)), Ok(root));
        }

        #[test]
        fn any_root_is_read_or_refused(bytes: [u8; ROOT_BYTES]) {
            if let Ok(root) = Root::decode(&bytes) {
                prop_assert_eq!(Root::encode(root), bytes);
            }
        }
    }

    #[test]
    fn an_empty_tree_has_a_root_of_zeros() {
        assert_eq!(Root::encode(None), [0; 24]);
        assert_eq!(Root::decode(&[0; 24]), Ok(None));
    }
}
