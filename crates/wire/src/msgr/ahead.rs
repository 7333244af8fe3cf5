//! Encrypted messages that their connections' transports have not taken yet.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default)]
struct Sealed {
    bytes: usize,
    /// Further messages wait until the transport has taken some of them.
    is_full: bool,
}

/// Connections that have encrypted more than their transports have taken, as far as the driver said.
#[derive(Debug)]
pub(super) struct Ahead<Id>(BTreeMap<Id, Sealed>);

impl<Id> Default for Ahead<Id> {
    fn default() -> Ahead<Id> {
        Ahead(BTreeMap::new())
    }
}

impl<Id: Ord + Copy> Ahead<Id> {
    /// Bytes of a connection.
    pub fn of(&self, conn: Id) -> usize {
        self.0.get(&conn).map_or(0, |sealed| sealed.bytes)
    }

    /// Notes the bytes of a connection, and whether further messages wait for them.
    pub fn set(&mut self, conn: Id, bytes: usize, is_full: bool) {
        match bytes {
            0 => drop(self.0.remove(&conn)),
            bytes => drop(self.0.insert(conn, Sealed { bytes, is_full })),
        }
    }

    /// The transport has `left` bytes that it has not taken. Returns true if messages wait for that.
    pub fn taken(&mut self, conn: Id, left: usize) -> bool {
        let Some(sealed) = self.0.get_mut(&conn) else { return false };
        // The transport's bytes are not counted beyond those of messages, nor those below that it had taken before.
        sealed.bytes = sealed.bytes.min(left);
        let Sealed { bytes, is_full } = *sealed;
        if bytes == 0 {
            self.0.remove(&conn);
        }
        is_full
    }

    /// Forgets a connection that is gone.
    pub fn remove(&mut self, conn: Id) {
        self.0.remove(&conn);
    }

    pub fn iter(&self) -> impl Iterator<Item = (Id, usize, bool)> + '_ {
        self.0.iter().map(|(conn, sealed)| (*conn, sealed.bytes, sealed.is_full))
    }
}
