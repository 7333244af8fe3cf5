//! The way from names to placement seeds.

use crush::hash::mix;

/// Separator of namespace and name in the hash's input.
const NSPACE_SEPARATOR: u8 = 0x1f;

/// Hash methods by their numbers in pools.
pub(crate) const HASH_LINUX: u8 = 1;
pub(crate) const HASH_RJENKINS: u8 = 2;

/// Returns the raw 32-bit placement hash of an object.
///
/// `key`: the locator key, empty where placement goes by the name. Method: Jenkins' 1996 hash ("rjenkins"), which every
/// pool since Argonaut uses.
pub fn hash_name(nspace: &[u8], name: &[u8], key: &[u8]) -> u32 {
    with_input(nspace, name, key, rjenkins)
}

pub(crate) fn hash_name_linux(nspace: &[u8], name: &[u8], key: &[u8]) -> u32 {
    let linux = |bytes: &[u8]| {
        bytes.iter().map(|c| u32::from(*c)).fold(0u32, |hash, c| {
            // The method is the kernel's directory cache hash; Ceph uses it 32 bits wide.
            hash.wrapping_add(c << 4).wrapping_add(c >> 4).wrapping_mul(11)
        })
    };
    with_input(nspace, name, key, linux)
}

fn with_input(nspace: &[u8], name: &[u8], key: &[u8], hash: impl Fn(&[u8]) -> u32) -> u32 {
    let placed_by = if key.is_empty() { name } else { key };
    if nspace.is_empty() {
        return hash(placed_by);
    }
    let mut input = Vec::with_capacity(nspace.len() + 1 + placed_by.len());
    input.extend_from_slice(nspace);
    input.push(NSPACE_SEPARATOR);
    input.extend_from_slice(placed_by);
    hash(&input)
}

fn rjenkins(bytes: &[u8]) -> u32 {
    let (mut a, mut b, mut c) = (0x9e37_79b9u32, 0x9e37_79b9u32, 0u32);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        a = a.wrapping_add(word(&block[0..4]));
        b = b.wrapping_add(word(&block[4..8]));
        c = c.wrapping_add(word(&block[8..12]));
        mix(&mut a, &mut b, &mut c);
    }
    let tail = blocks.remainder();
    let part = |from: usize, to: usize| word(&tail[from.min(tail.len())..to.min(tail.len())]);
    a = a.wrapping_add(part(0, 4));
    b = b.wrapping_add(part(4, 8));
    // The lowest byte of c is the length's.
    c = c.wrapping_add(bytes.len() as u32).wrapping_add(part(8, 11) << 8);
    mix(&mut a, &mut b, &mut c);
    c
}

/// Returns `x` modulo `count` such that growing `count` to the next power of two splits classes and never mixes them.
///
/// `mask`: the least power of two that is not below `count`, less one.
pub const fn stable_mod(x: u32, count: u32, mask: u32) -> u32 {
    if x & mask < count { x & mask } else { x & (mask >> 1) }
}

/// Returns the mask of [`stable_mod`] for `count`.
pub(crate) const fn stable_mask(count: u32) -> u32 {
    match count.wrapping_sub(1).leading_zeros() {
        0 => u32::MAX,
        zeros => (1 << (32 - zeros)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The values were recorded from the library that Ceph 16.2.15's daemons share.
    #[test]
    fn hashes_do_not_move() {
        let high: Vec<u8> = (120..160).collect();
        for (name, linux, rjenkins) in [
            (&b""[..], 0, 0xbd49_d10d),
            (b"a", 0x42f2, 0x29ee_c818),
            (b"foo", 0x0024_db2a, 0x7fc1_f406),
            (b"twelve_chars", 0xf0aa_3540, 0x93ed_3221),
            (b"rbd_data.1234567890ab.0000000000000001", 0xe90f_2d7b, 0x4df3_93f2),
            (&[b'x'; 300], 0x0fee_0148, 0xe48a_4118),
            (&high, 0xa2fe_5b90, 0x359c_cf1c),
        ] {
            assert_eq!((hash_name_linux(b"", name, b""), hash_name(b"", name, b"")), (linux, rjenkins), "{name:?}");
            assert_eq!(hash_name(b"", b"other", name) == rjenkins, !name.is_empty(), "a key replaces the name");
        }
        assert_eq!(hash_name(b"ns", b"foo", b""), hash_name(b"", b"ns\x1ffoo", b""));
    }

    #[test]
    fn masks_cover_counts() {
        for (count, mask) in [(1, 0), (2, 1), (3, 3), (4, 3), (5, 7), (256, 255), (257, 511)] {
            assert_eq!(stable_mask(count), mask, "{count}");
        }
    }

    #[test]
    fn classes_split_and_never_mix() {
        for count in 1..40u32 {
            let (before, after) = (stable_mask(count), stable_mask(count + 1));
            for x in 0..500u32 {
                let (old, new) = (stable_mod(x, count, before), stable_mod(x, count + 1, after));
                assert!(new < count + 1 && (new == old || new == count), "{x} of {count}: {old} -> {new}");
            }
        }
    }
}
