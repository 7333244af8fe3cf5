//! Connections that may have something to transmit.

use super::ids::ConnId;

/// Connections in the order in which they are looked at, each once. Memory stays when they are taken.
#[derive(Debug, Default)]
pub(super) struct DirtyConns(
    /// The first one last.
    Vec<ConnId>,
);

impl DirtyConns {
    pub fn insert(&mut self, conn: ConnId) {
        if let Err(place) = self.0.binary_search_by(|other| conn.cmp(other)) {
            self.0.insert(place, conn);
        }
    }

    /// Takes the one with the lowest number.
    pub fn pop_first(&mut self) -> Option<ConnId> {
        self.0.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_comes_once_and_in_order() {
        let mut dirty = DirtyConns::default();
        [4, 2, 9, 4, 2, 7].into_iter().for_each(|conn| dirty.insert(ConnId(conn)));
        let taken: Vec<u64> = std::iter::from_fn(|| dirty.pop_first()).map(|conn| conn.0).collect();
        assert_eq!(taken, [2, 4, 7, 9]);
    }
}
