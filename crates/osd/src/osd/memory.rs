//! Memory of the first shard and of connections, as tests look at it.

use super::{Osd, Stage};

/// Memory of connections in bytes, most of it as it is counted and as a look at the connections found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionMemory {
    /// Messages that are being received.
    pub receiving: (usize, usize),
    /// The first shard's part of answers, and of encrypted messages to other OSDs, that the network has not taken, when
    /// it last looked.
    pub unsent: (usize, usize),
    /// Parts of other OSDs' messages that are not complete.
    pub joined: (usize, usize),
    /// Number of those messages for which memory is reserved, and how much is; and the number of those that wait for
    /// room.
    pub joins: (usize, usize),
    pub joins_waiting: usize,
}

impl Osd {
    /// Memory that the first shard holds for clients, and that of clients' connections. `None` until all stores are
    /// open.
    pub fn memory_use(&self) -> Option<(pg::MemoryUse, ConnectionMemory)> {
        match &self.stage {
            Stage::Running(running) => {
                let (memory, public) = (running.shard.memory_use(), &running.public);
                let not_taken = public.unsent_bytes_seen() + running.cluster.sealed_bytes_seen();
                let unsent = (running.shard.unsent_bytes(), not_taken / running.others.shards());
                let joins = &running.peers.joins;
                let connections = ConnectionMemory {
                    receiving: public.receiving_bytes(),
                    unsent,
                    joined: joins.held_bytes(),
                    joins: joins.reserved(),
                    joins_waiting: joins.waiting().count(),
                };
                Some((memory, connections))
            }
            Stage::Opening(_) | Stage::Open(_) | Stage::Ended => None,
        }
    }
}
