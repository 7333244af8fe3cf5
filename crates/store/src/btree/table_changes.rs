//! The changes of a merge, counted by table (the first byte of a key).

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

/// Entries that a table gained and lost. An entry whose value is replaced counts as lost and as gained.
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
    /// True if everything was counted. False if entries were dropped with unreadable pages: the tables then lost more
    /// than is counted.
    pub is_exact: bool,
}

/// Returns the table of a key; 0 for the empty key.
pub(crate) fn table_of(key: &[u8]) -> u8 {
    key.first().copied().unwrap_or(0)
}

impl TableChanges {
    pub(crate) fn new(tables: &'static [u8]) -> TableChanges {
        TableChanges { tables, changes: vec![TableChange::default(); tables.len()], is_exact: true }
    }

    /// Returns the change of a table. Panics if the table is not counted.
    pub fn of(&self, table: u8) -> TableChange {
        let at = self.tables.iter().position(|counted| *counted == table);
        self.changes[at.unwrap_or_else(|| panic!("table {table} was not counted, but {:?}", self.tables))]
    }

    /// Returns true if any of the tables `first ..= last` is counted.
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

    /// Counts the loss of an entry, whose key is given in two parts.
    pub(crate) fn lost(&mut self, (prefix, suffix): (&[u8], &[u8]), value_bytes: usize) {
        let table = table_of(if prefix.is_empty() { suffix } else { prefix });
        if let Some(change) = self.change(table) {
            change.lost.add(prefix.len() + suffix.len(), value_bytes);
        }
    }
}

/// Returns the first and the last table that keys of `lower .. upper` can belong to.
pub(crate) fn tables_between(lower: &[u8], upper: Option<&[u8]>) -> (u8, u8) {
    let last = match upper {
        None => u8::MAX,
        // `upper` is the lowest key of its table, so all keys below it belong to earlier tables.
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
