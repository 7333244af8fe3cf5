//! Errors of maps.

use types::{Epoch, Fsid, OsdId, PoolId};

/// Reason why an increment does not apply. The map is then unchanged.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("increment is for epoch {increment}, the map is at {map}")]
    Epoch { map: Epoch, increment: Epoch },
    #[error("increment is of cluster {increment}, the map of {map}")]
    Fsid { map: Fsid, increment: Fsid },
    #[error("increment names {osd}, but the map ends before osd.{max_osd}")]
    OsdOutOfRange { osd: OsdId, max_osd: usize },
    #[error("increment makes room for {max_osd} OSDs, more than {limit}")]
    TooManyOsds { max_osd: usize, limit: usize },
    #[error("increment says that {osd} is up, but not where its heartbeats go")]
    NoHeartbeatAddrs { osd: OsdId },
    #[error("increment purges snapshots of pool {pool}, which has none to purge")]
    NothingToPurge { pool: PoolId },
    #[error("the full map inside the increment cannot be read")]
    FullMap { source: wire::DecodeError },
    #[error("the crush map inside the increment cannot be read")]
    Crush { source: wire::DecodeError },
    #[error("the map after the increment should have checksum {expected:#010x}, but has {computed:#010x}")]
    Checksum { expected: u32, computed: u32 },
}

/// Reason why a placement cannot be computed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlacementError {
    #[error("pool {0} does not exist")]
    NoPool(PoolId),
    #[error("pool {pool} hashes names by method {object_hash}, which is not supported")]
    ObjectHash { pool: PoolId, object_hash: u8 },
    #[error("pool {pool} cannot be placed")]
    Crush { pool: PoolId, source: crush::MapError },
}
