//! Unreadable parts of the metadata tree, and the entries lost with them.

use crate::btree::{self, Damage};
use crate::disk::key::{
    Key, behind_prefix, decode_object, object_key, object_of_snap_key, omap_key, pg_key, pg_object_range, pg_of,
};
use crate::disk::numbers::{HASH_BYTES, OMAP_ID_BYTES, POOL_BYTES, POOL_SIGN};
use crate::disk::tree_key::{SEGMENT_NUMBER_BYTES, TABLE_BYTES, TableId, tree_key};
use std::fmt;
use types::{ObjectId, PgId, PoolId};

/// A page or value of the metadata tree that cannot be used, and the range of keys whose entries are lost with it. The
/// page above gives the range, but not the keys that were in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    pub damage: Damage,
    /// Keys in the tree.
    from: Vec<u8>,
    until: Option<Vec<u8>>,
}

impl From<btree::Lost> for Loss {
    fn from(lost: btree::Lost) -> Loss {
        Loss { damage: lost.damage, from: lost.from, until: lost.until }
    }
}

impl Loss {
    pub(crate) fn range(&self) -> (&[u8], Option<&[u8]>) {
        (&self.from, self.until.as_deref())
    }

    /// Returns true if keys of `begin .. end` in the tree may be lost.
    pub(crate) fn meets(&self, begin: &[u8], end: &[u8]) -> bool {
        begin < end && *self.from < *end && self.until.as_deref().is_none_or(|until| begin < until)
    }

    /// Returns the lost range of a table, in keys of the table; without an end it goes to the end of the table.
    pub(crate) fn of_table(&self, table: TableId) -> Option<(Key, Option<Key>)> {
        let (begin, end) = ([table as u8], [table as u8 + 1]);
        if !self.meets(&begin, &end) {
            return None;
        }
        let from = if *self.from <= begin[..] { Key::default() } else { self.from[TABLE_BYTES..].into() };
        let until = self.until.as_deref().filter(|until| **until < end[..]);
        Some((from, until.map(|until| until[TABLE_BYTES..].into())))
    }

    fn meets_table(&self, table: TableId, begin: &[u8], end: Option<&[u8]>) -> bool {
        let (mut first, mut behind) = (Vec::new(), Vec::new());
        tree_key(table, begin, &mut first);
        match end {
            Some(end) => drop(tree_key(table, end, &mut behind)),
            None => behind.push(table as u8 + 1),
        }
        self.meets(&first, &behind)
    }

    /// Returns true if entries of the group's own table may be lost.
    pub fn meets_table_of(&self, pg: PgId) -> bool {
        let prefix = pg_key(pg, &[]);
        self.meets_table(TableId::Pgs, &prefix, behind_prefix(&prefix).as_deref())
    }

    /// Returns true if objects of the group, in a pool of `pg_num` groups, may be lost without a trace.
    pub fn meets_objects_of(&self, pg: PgId, pg_num: u32) -> bool {
        let (begin, end) = pg_object_range(pg, pg_num);
        begin < end && self.meets_table(TableId::Objects, &begin, Some(&end))
    }

    /// Returns true if the object's record may be lost.
    pub fn meets_object(&self, object: &ObjectId) -> bool {
        let key = object_key(object);
        self.meets_table(TableId::Objects, &key, Some(&[&key[..], &[0]].concat()))
    }

    pub(crate) fn meets_omap(&self, id: u64) -> bool {
        self.meets_table(TableId::Omap, &omap_key(id, &[]), Some(&omap_key(id.saturating_add(1), &[])))
    }

    /// Returns true if any entry of groups' tables may be lost.
    pub fn meets_groups(&self) -> bool {
        self.of_table(TableId::Pgs).is_some()
    }
}

/// Returns a key of a table, or a part of one, in a form for people.
fn text(table: TableId, key: &[u8]) -> String {
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |v, byte| v << 8 | u64::from(*byte));
    match table {
        TableId::Pgs => pg_of(key).map(|pg| format!("pg {pg}")),
        TableId::Omap | TableId::Copies => key.get(..OMAP_ID_BYTES).map(|id| number(id).to_string()),
        TableId::Snaps => object_of_snap_key(key).map(|object| object.to_string()),
        TableId::Objects | TableId::Segments => {
            let name = key.split_last_chunk::<SEGMENT_NUMBER_BYTES>().filter(|_| table == TableId::Segments);
            let whole = decode_object(key).or_else(|e| name.map_or(Err(e), |(name, _)| decode_object(name)));
            let pool = |key: &[u8]| PoolId((number(key) ^ POOL_SIGN) as i64);
            whole.map(|object| object.to_string()).ok().or_else(|| {
                let (pool, hash) =
                    (pool(key.get(..POOL_BYTES)?), &key[POOL_BYTES..key.len().min(POOL_BYTES + HASH_BYTES)]);
                Some(format!("{}:{}", pool.0, hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
            })
        }
    }
    .unwrap_or_else(|| format!("key {}", key.escape_ascii()))
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = [
            (TableId::Pgs, "entries of placement groups' tables"),
            (TableId::Objects, "records of objects"),
            (TableId::Omap, "omap entries (by omap number)"),
            (TableId::Segments, "block maps of objects"),
            (TableId::Snaps, "lists of clones by snapshots"),
        ];
        let mut separator = "";
        for (table, what) in tables {
            let Some((from, until)) = self.of_table(table) else { continue };
            write!(f, "{separator}{what}")?;
            separator = ", ";
            if !from.is_empty() {
                write!(f, " from {}", text(table, &from))?;
            }
            if let Some(until) = until {
                write!(f, " up to {}", text(table, &until))?;
            }
        }
        write!(f, ": {}", self.damage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::{DamageKind, Run};

    fn loss(from: &[u8], until: Option<&[u8]>) -> Loss {
        let damage = Damage { run: Run { start: 8, count: 2 }, kind: DamageKind::Magic };
        Loss { damage, from: from.to_vec(), until: until.map(<[u8]>::to_vec) }
    }

    fn in_table(table: TableId, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        tree_key(table, key, &mut out);
        out
    }

    #[test]
    fn a_loss_says_what_it_may_have_held() {
        let objects = [1, 2, 3].map(|n: u32| ObjectId::head(PoolId(3), n, b"", format!("o{n}").as_bytes()));
        let [_, two, one] = [&objects[2], &objects[1], &objects[0]];
        // Objects come in the order of reversed hashes, so 2 comes before 1.
        let some =
            loss(&in_table(TableId::Objects, &object_key(two)), Some(&in_table(TableId::Objects, &object_key(one))));
        assert!(some.meets_object(two) && !some.meets_object(one));
        assert!(some.meets_objects_of(PgId::new(3, 2), 4) && !some.meets_objects_of(PgId::new(3, 3), 4));
        assert!(!some.meets_groups() && !some.meets_omap(1));
        assert_eq!(
            some.to_string(),
            format!("records of objects from {two} up to {one}: no page of a tree (magic number) (blocks 8..10)")
        );
        let pg = PgId::new(3, 2);
        let from = in_table(TableId::Pgs, &pg_key(pg, b"l"));
        let wide = loss(&from, Some(&in_table(TableId::Objects, &object_key(two)[..10])));
        assert!(
            wide.meets_table_of(pg) && wide.meets_table_of(PgId::new(3, 5)) && !wide.meets_table_of(PgId::new(3, 1))
        );
        assert!(
            wide.to_string()
                .starts_with("entries of placement groups' tables from pg 3.2, records of objects up to 3:4000: "),
            "{wide}"
        );
        let all = loss(&[], None);
        assert!(all.meets_table_of(pg) && all.meets_object(one) && all.meets_omap(7) && all.meets_groups());
        let omaps = loss(&in_table(TableId::Omap, &omap_key(5, b"k")), None);
        assert!(omaps.meets_omap(5) && omaps.meets_omap(9) && !omaps.meets_omap(4) && !omaps.meets_object(one));
    }
}
