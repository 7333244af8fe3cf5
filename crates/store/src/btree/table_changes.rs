//! What a merge changes, counted by table: the first byte of a key.

/// Entries, and the bytes of their keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    pub entries: u64,
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, key_bytes: usize, value_bytes: usize) {
        self.entries += 1;
        self.bytes += (key_bytes + value_bytes) as u64;
    }
}

/// What a table gained and lost. An entry whose value is replaced counts as lost and gained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableChange {
    pub gained: Amount,
    pub lost: Amount,
}

/// The changes of the tables that are counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableChanges {
    tables: &'static [u8],
    changes: Vec<TableChange>,
    /// Whether all was counted. Not so if entries were dropped with pages that could not be read: what the tables lost is
    /// more then.
    pub is_exact: bool,
}

/// The table of a key; the empty key's is 0.
pub(crate) fn table_of(key: &[u8]) -> u8 {
    key.first().copied().unwrap_or(0)
}

impl TableChanges {
    pub(crate) fn new(tables: &'static [u8]) -> TableChanges {
        TableChanges { tables, changes: vec![TableChange::default(); tables.len()], is_exact: true }
    }

    /// The change of a table. Panics if that table was not counted.
    pub fn of(&self, table: u8) -> TableChange {
        let at = self.tables.iter().position(|counted| *counted == table);
        self.changes[at.unwrap_or_else(|| panic!("table {table} was not counted, but {:?}", self.tables))]
    }

    /// Whether any of the tables `first ..= last` is counted.
    pub(crate) fn counts_any(&self, first: u8, last: u8) -> bool {
        self.tables.iter().any(|table| (first..=last).contains(table))
    }

    fn change(&mut self, table: u8) -> Option<&mut TableChange> {
        let at = self.tables.iter().position(|counted| *counted == table)?;
        Some(&mut self.changes[at])
    }

    pub(crate) fn gained(&mut self, key: &[u8], value_bytes: usize) {
        if let Some(change) = self.change(table_of(key)) {
            change.gained.add(key.len(), value_bytes);
        }
    }

    /// An entry with a key of two parts is gone.
    pub(crate) fn lost(&mut self, (prefix, suffix): (&[u8], &[u8]), value_bytes: usize) {
        let table = table_of(if prefix.is_empty() { suffix } else { prefix });
        if let Some(change) = self.change(table) {
            change.lost.add(prefix.len() + suffix.len(), value_bytes);
        }
    }
}

/// The first and the last table that keys of `lower .. upper` can be of.
pub(crate) fn tables_between(lower: &[u8], upper: Option<&[u8]>) -> (u8, u8) {
    let last = match upper {
        None => u8::MAX,
        // The shortest key of its table: all keys below it are of tables before.
        Some([first]) => first.saturating_sub(1),
        Some(upper) => table_of(upper),
    };
    (table_of(lower), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_alone_bounds_the_table_before_it() {
        assert_eq!(tables_between(&[], None), (0, 255));
        assert_eq!(tables_between(&[2], Some(&[3])), (2, 2));
        assert_eq!(tables_between(&[2, 7], Some(&[3, 0])), (2, 3));
        assert_eq!(tables_between(&[], Some(&[0])), (0, 0));
        assert_eq!(tables_between(&[4, 1], Some(&[4, 2])), (4, 4));
    }
}
