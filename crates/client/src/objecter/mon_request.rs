//! Requests to the monitors.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Epoch, Fsid, PoolId, SnapId};
use wire::messages::{self as msg, PoolOpKind, PoolStat, StatfsReply};
use wire::{Envelope, Message, Rope, Target};

/// A request to the monitors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonRequest {
    /// A command, as one JSON object, with the data that `ceph` takes by its option `-i`.
    Command { json: String, input: Bytes },
    /// The newest version of a map, such as `osdmap`.
    Version { map: String },
    /// Space of the cluster, or of one pool.
    Statfs { pool: Option<PoolId> },
    /// Statistics of pools, by name.
    PoolStats { pools: Vec<String> },
    /// Creates or deletes a pool or a snapshot. Answered once the map with the change has arrived.
    PoolOp { op: PoolOpKind, pool: PoolId, snap: SnapId, name: String },
}

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandReply {
    /// 0 or above, or a negated error number.
    pub result: i32,
    /// One line for people.
    pub status: String,
    pub output: Bytes,
}

/// An answer of the monitors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonAnswer {
    Command(CommandReply),
    Version(u64),
    Statfs(StatfsReply),
    PoolStats(BTreeMap<String, PoolStat>),
    /// Output of the operation: for a new unmanaged snapshot its id.
    PoolOp(Option<Bytes>),
}

/// Origin of a request.
pub(super) enum Asker<C> {
    User(C),
    /// The objecter itself, about the operation with this transaction id, whose pool the map lacks.
    PoolCheck(u64),
}

/// A request under way.
pub(super) struct Asked<C> {
    pub asker: Asker<C>,
    pub request: MonRequest,
    pub since: Duration,
    /// The answer to a pool operation, until the map of this epoch has come.
    pub reached_with: Option<(Epoch, Option<Bytes>)>,
}

impl MonRequest {
    /// The message of this request, from a client that has seen maps up to `have`.
    pub(super) fn seal(&self, tid: u64, fsid: Fsid, have: Epoch) -> Envelope {
        let target = Target::default();
        // Each of the monitors' services counts versions of its own: for requests about pools alone the version is the
        // OSD map's epoch.
        match self {
            MonRequest::Command { json, input } => {
                let input = Rope::from(input.clone());
                msg::MonCommand { have: 0, fsid, cmd: vec![json.clone()], input }.seal(tid, target)
            }
            MonRequest::Version { map } => msg::MonGetVersion { handle: tid, what: map.clone() }.seal(tid, target),
            MonRequest::Statfs { pool } => msg::Statfs { have: 0, fsid, pool: *pool }.seal(tid, target),
            MonRequest::PoolStats { pools } => {
                msg::GetPoolStats { have: 0, fsid, pools: pools.clone() }.seal(tid, target)
            }
            MonRequest::PoolOp { op, pool, snap, name } => msg::PoolOp {
                have: have.0.into(),
                fsid,
                pool: pool.0 as u32,
                op: *op,
                snap: *snap,
                name: name.clone(),
                crush_rule: -1,
            }
            .seal(tid, target),
        }
    }
}
