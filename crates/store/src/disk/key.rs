//! Keys of the store's tables: byte strings whose plain order is the order of the named things.
//!
//! An object: pool (8 bytes, sign flipped, big-endian), bit-reversed hash (4, big-endian), namespace and effective key
//! (each with `00` escaped as `00 ff` and ended by `00 01`), the comparison of the name with the effective key (1
//! below, 2 equal, 3 above), the name if it is not equal (escaped and ended likewise), snapshot (8, big-endian). A
//! placement group is therefore a range of keys, which splits without moving anything. The cursor behind every object
//! is one `ff`-filled key.
//!
//! An omap entry: the object's omap id (8, big-endian), the entry's key. An entry of a placement group's table: pool
//! (as above), seed (4, big-endian), the entry's key. A clone as it is listed under a snapshot: pool, the snapshot (8,
//! big-endian), the rest of the clone's key.

use crate::disk::numbers::{
    END_OF_TEXT, ESCAPED_ZERO, HASH_BYTES, OMAP_ID_BYTES, POOL_SIGN, SEED_BYTES, SNAP_BYTES, name_order,
};
use std::cmp::Ordering;
use std::sync::Arc;
use types::{ObjectId, PgId, PoolId, SnapId};
use wire::DecodeError;

pub(crate) use crate::disk::numbers::POOL_BYTES;

/// A key, shared by all holders that name the same object.
pub(crate) type Key = Arc<[u8]>;

/// A key behind every object's key: no pool has the largest number, which flips to this.
const BEHIND_ALL: [u8; 9] = [0xff; 9];

#[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
fn ordered_u64(v: u64) -> [u8; 8] {
    v.to_be_bytes()
}

#[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
fn ordered_u32(v: u32) -> [u8; 4] {
    v.to_be_bytes()
}

fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    // Zeros in names are rare.
    if bytes.contains(&0) {
        for part in bytes.split_inclusive(|byte| *byte == 0) {
            out.extend_from_slice(part);
            if part.last() == Some(&0) {
                out.push(ESCAPED_ZERO);
            }
        }
    } else {
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(&[0, END_OF_TEXT]);
}

fn take_escaped(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        if *byte != 0 {
            out.push(*byte);
            continue;
        }
        let (mark, tail) = rest.split_first()?;
        *rest = tail;
        match *mark {
            ESCAPED_ZERO => out.push(0),
            END_OF_TEXT => return Some(out),
            _ => return None,
        }
    }
}

/// Bytes of an object's key besides its namespace, effective key and name, of which each ends with two bytes.
const KEY_BYTES_BESIDE_TEXTS: usize = POOL_BYTES + HASH_BYTES + 3 * 2 + 1 + SNAP_BYTES;

/// Returns the key of an object or cursor.
pub(crate) fn object_key(object: &ObjectId) -> Key {
    let mut out = Vec::new();
    set_object_key(&mut out, object);
    out.into()
}

/// Sets `out` to the key of an object or cursor.
pub(crate) fn set_object_key(out: &mut Vec<u8>, object: &ObjectId) {
    out.clear();
    if object.max {
        return out.extend_from_slice(&BEHIND_ALL);
    }
    let key = object.effective_key();
    out.reserve(KEY_BYTES_BESIDE_TEXTS + object.nspace.len() + key.len() + object.name.len());
    out.extend_from_slice(&ordered_u64(object.pool.0 as u64 ^ POOL_SIGN));
    out.extend_from_slice(&ordered_u32(object.hash.reverse_bits()));
    push_escaped(out, &object.nspace);
    push_escaped(out, key);
    // Most objects have no locator key.
    match if object.key.is_empty() { Ordering::Equal } else { (*object.name).cmp(key) } {
        Ordering::Equal => out.push(name_order::EQUAL),
        unequal => {
            out.push(if unequal == Ordering::Less { name_order::BELOW } else { name_order::ABOVE });
            push_escaped(out, &object.name);
        }
    }
    out.extend_from_slice(&ordered_u64(object.snap.0));
}

fn parse_object(mut rest: &[u8]) -> Option<ObjectId> {
    let mut number = |bytes: usize| {
        let (head, tail) = rest.split_at_checked(bytes)?;
        rest = tail;
        Some(head.iter().fold(0u64, |v, byte| v << 8 | u64::from(*byte)))
    };
    let pool = PoolId((number(POOL_BYTES)? ^ POOL_SIGN) as i64);
    let hash = (number(HASH_BYTES)? as u32).reverse_bits();
    let nspace = take_escaped(&mut rest)?;
    let mut key = take_escaped(&mut rest)?;
    let (order, tail) = rest.split_first()?;
    rest = tail;
    let name = if *order == name_order::EQUAL { std::mem::take(&mut key) } else { take_escaped(&mut rest)? };
    let snap: &[u8; SNAP_BYTES] = rest.try_into().ok()?;
    let snap = SnapId(snap.iter().fold(0u64, |v, byte| v << 8 | u64::from(*byte)));
    let (nspace, key, name) = (nspace.into(), key.into(), name.into());
    Some(ObjectId { pool, hash, nspace, key, name, snap, max: false })
}

/// Returns the object that `key` names. Errors: bytes that [`object_key`] does not make.
pub(crate) fn decode_object(key: &[u8]) -> Result<ObjectId, DecodeError> {
    parse_object(key)
        .filter(|object| *object_key(object) == *key)
        .ok_or(DecodeError::Value { what: "object key", value: key.len() as u64 })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0u64, |v, byte| v << 8 | u64::from(*byte))
}

/// Returns true if a key names a clone that is listed under its snapshots. Objects that erasure-coded groups keep back
/// are not.
pub(crate) fn is_listed_clone(key: &[u8]) -> bool {
    let (Some(pool), Some(snap)) = (key.first_chunk::<POOL_BYTES>(), key.last_chunk::<SNAP_BYTES>()) else {
        return false;
    };
    number(snap) < SnapId::HEAD.0 && !PoolId((number(pool) ^ POOL_SIGN) as i64).is_beside()
}

/// Bytes before the clone's own key, without the pool, in the key under which it is listed.
pub(crate) const SNAP_PREFIX_BYTES: usize = POOL_BYTES + SNAP_BYTES;

/// Returns the key under which the clone or cursor `object` is listed for a snapshot.
pub(crate) fn snap_key(object: &[u8], snap: SnapId) -> Key {
    let (pool, rest) = object.split_at(POOL_BYTES);
    [pool, &ordered_u64(snap.0), rest].concat().into()
}

/// Returns the clone that is listed under a key; `None` if the key names none.
pub(crate) fn object_of_snap_key(key: &[u8]) -> Option<ObjectId> {
    let (pool, rest) = (key.get(..POOL_BYTES)?, key.get(SNAP_PREFIX_BYTES..)?);
    decode_object(&[pool, rest].concat()).ok()
}

/// Returns the object that a key of our own tables names. Such keys were checked when they came in.
pub(crate) fn known_object(key: &[u8]) -> ObjectId {
    parse_object(key).unwrap_or_else(|| panic!("key {key:x?} in the object table is no object's"))
}

/// Returns the key of an omap entry; with an empty `key`, the first key of the omap.
pub(crate) fn omap_key(omap_id: u64, key: &[u8]) -> Key {
    [&ordered_u64(omap_id)[..], key].concat().into()
}

/// Bytes before the entry's own key in an omap key.
pub(crate) const OMAP_PREFIX_BYTES: usize = OMAP_ID_BYTES;

/// Returns the key of an entry of a placement group's table.
pub(crate) fn pg_key(pg: PgId, key: &[u8]) -> Key {
    let mut out = Vec::with_capacity(PG_PREFIX_BYTES + key.len());
    push_pg_key(&mut out, pg, key);
    out.into()
}

/// Appends the key of an entry of a placement group's table.
pub(crate) fn push_pg_key(out: &mut Vec<u8>, pg: PgId, key: &[u8]) {
    out.extend_from_slice(&ordered_u64(pg.pool.0 as u64 ^ POOL_SIGN));
    out.extend_from_slice(&ordered_u32(pg.seed));
    out.extend_from_slice(key);
}

/// Bytes before the entry's own key in a placement group's key.
pub(crate) const PG_PREFIX_BYTES: usize = POOL_BYTES + SEED_BYTES;

/// Returns the placement group of a key of the table of groups; `None` if the key is too short.
pub(crate) fn pg_of(key: &[u8]) -> Option<PgId> {
    let pool = PoolId((number(key.get(..POOL_BYTES)?) ^ POOL_SIGN) as i64);
    Some(PgId { pool, seed: number(key.get(POOL_BYTES..PG_PREFIX_BYTES)?) as u32 })
}

/// Returns the first key behind all keys that begin with `prefix`; `None` if there is none.
pub(crate) fn behind_prefix(prefix: &[u8]) -> Option<Key> {
    let keep = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut out = prefix[..=keep].to_vec();
    out[keep] += 1;
    Some(out.into())
}

/// Returns the keys `begin .. end` of all objects of a placement group of a pool with `pg_num` groups.
///
/// A group owns the hashes whose low bits are its seed: as many bits as `pg_num - 1` has, or one fewer for groups whose
/// sibling with that bit set does not exist. Reversed, that is one range.
pub(crate) fn pg_object_range(pg: PgId, pg_num: u32) -> (Key, Key) {
    if pg.seed >= pg_num {
        // There is no such group.
        return (Key::default(), Key::default());
    }
    let bits = 32 - pg_num.saturating_sub(1).leading_zeros();
    let sibling = bits.checked_sub(1).map(|b| u64::from(pg.seed) | 1 << b);
    let lone = sibling.is_some_and(|s| s >= u64::from(pg_num) && s != u64::from(pg.seed));
    let bits = if lone { bits - 1 } else { bits };
    let first = pg.seed.reverse_bits();
    let last = if bits == 0 { u32::MAX } else { first | u32::MAX.checked_shr(bits).unwrap_or(0) };
    let pool = ordered_u64(pg.pool.0 as u64 ^ POOL_SIGN);
    let begin = [&pool[..], &ordered_u32(first)].concat();
    let last = [&pool[..], &ordered_u32(last)].concat();
    (begin.into(), behind_prefix(&last).unwrap_or_else(|| Arc::new(BEHIND_ALL)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, b'a', 0xfe, 0xff]), 0..4)
    }

    prop_compose! {
        fn objects()(pool in prop::sample::select(vec![i64::MIN, -1, 0, 1, i64::MAX - 1]), hash in prop::sample::select(vec![0, 1, 2, u32::MAX]),
                     nspace in names(), key in names(), name in names(), snap in prop::sample::select(vec![0, 1, SnapId::HEAD.0, SnapId::DIR.0]),
                     max in prop::bool::weighted(0.05)) -> ObjectId {
            if max { return ObjectId::max() }
            let key = if key == name { Vec::new() } else { key };
            let (nspace, key, name) = (nspace.into(), key.into(), name.into());
            ObjectId { pool: PoolId(pool), hash, nspace, key, name, snap: SnapId(snap), max }
        }
    }

    proptest! {
        #[test]
        fn keys_sort_as_objects_do_and_read_back(a in objects(), b in objects()) {
            let (key_a, key_b) = (object_key(&a), object_key(&b));
            prop_assert_eq!(key_a.cmp(&key_b), a.cmp(&b));
            if !a.max {
                prop_assert_eq!(decode_object(&key_a).unwrap(), a);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = decode_object(&bytes);
            let _ = pg_of(&bytes);
        }

        #[test]
        fn a_group_owns_the_hashes_that_the_stable_modulo_gives_it(pg_num in 1u32..70, hash: u32) {
            let mask = pg_num.next_power_of_two() - 1;
            let owner = if hash & mask < pg_num { hash & mask } else { hash & (mask >> 1) };
            let key = object_key(&ObjectId::head(PoolId(3), hash, b"", b"x"));
            for seed in 0..pg_num {
                let (begin, end) = pg_object_range(PgId::new(3, seed), pg_num);
                prop_assert_eq!(begin <= key && key < end, seed == owner, "seed {} of {}", seed, pg_num);
            }
        }

        #[test]
        fn behind_a_prefix_is_behind_all_that_begins_with_it(prefix in names(), tail in names(), other in names()) {
            let full = [&prefix[..], &tail].concat();
            match behind_prefix(&prefix) {
                Some(end) => prop_assert!(*full < *end && (!(*other < *end && *other >= *prefix) || other.starts_with(&prefix))),
                None => prop_assert!(prefix.iter().all(|b| *b == 0xff)),
            }
        }
    }
}
