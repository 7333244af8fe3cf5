//! Snapshots: of whole pools, which monitors keep, and those that clients manage themselves, as block images do.
//!
//! A pool has one kind or the other. A client that manages snapshots gives their list along with each update
//! ([`Pool::under`]); the update then preserves the object's earlier states for them.

use crate::error::Error;
use crate::objecter::{Answer, MonAnswer, MonRequest};
use crate::operation::Operation;
use crate::pool::Pool;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Errno, SnapId};
use wire::basic::SnapContext;
use wire::messages::PoolOpKind;
use wire::messages::listing::SnapListing;

impl Pool {
    /// A handle on this pool that reads a snapshot. [`SnapId::HEAD`] is the present.
    pub fn at_snapshot(&self, snap: SnapId) -> Pool {
        let mut pool = self.clone();
        pool.snap = snap;
        pool
    }

    /// A handle on this pool whose updates preserve the objects' states for these snapshots, beside or instead of the
    /// pool's own.
    ///
    /// Errors: `EINVAL` unless the snapshots are given newest first and none is newer than `seq`.
    pub fn under(&self, snap_context: SnapContext) -> Result<Pool, Error> {
        if !snap_context.is_valid() {
            return Err(Errno::EINVAL.into());
        }
        let mut pool = self.clone();
        pool.snap_context = snap_context;
        Ok(pool)
    }

    /// Takes a snapshot of the whole pool. Errors: `EEXIST`; `EINVAL` if clients manage the pool's snapshots.
    pub async fn create_snapshot(&self, name: &str) -> Result<(), Error> {
        // Monitors answer a repeated request with success, so this function looks for the snapshot first.
        if self.snapshots().await?.values().any(|other| other == name) {
            return Err(Errno::EEXIST.into());
        }
        self.snapshot_op(PoolOpKind::CREATE_SNAP, SnapId(0), name).await.map(drop)
    }

    /// Removes a snapshot of the whole pool. Errors: `ENOENT`.
    pub async fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        if !self.snapshots().await?.values().any(|other| other == name) {
            return Err(Errno::ENOENT.into());
        }
        self.snapshot_op(PoolOpKind::DELETE_SNAP, SnapId(0), name).await.map(drop)
    }

    /// The snapshots of the whole pool, by the newest map.
    pub async fn snapshots(&self) -> Result<BTreeMap<SnapId, String>, Error> {
        self.cluster().wait_for_latest_map().await?;
        let names = self.driver.shared.look(|objecter| {
            let pool = objecter.placement()?.map().pools.get(&self.id())?;
            Some(pool.snaps.iter().map(|(id, snap)| (*id, snap.name.clone())).collect())
        });
        names.ok_or_else(|| Error::NoPool(self.name().to_owned()))
    }

    /// Creates the id of a snapshot that clients manage. Errors: `EINVAL` if the pool has snapshots of its own.
    pub async fn create_managed_snapshot(&self) -> Result<SnapId, Error> {
        let response = self.snapshot_op(PoolOpKind::CREATE_UNMANAGED_SNAP, SnapId(0), "").await?;
        let bytes = response.ok_or_else(|| Error::Answer("a snapshot without an id".into()))?;
        Ok(SnapId(wire::Reader::new(&bytes).u64()?))
    }

    /// Gives up a snapshot that clients manage: states that only this snapshot shows are removed in time.
    pub async fn remove_managed_snapshot(&self, snap: SnapId) -> Result<(), Error> {
        self.snapshot_op(PoolOpKind::DELETE_UNMANAGED_SNAP, snap, "").await.map(drop)
    }

    /// Restores an object's state of a snapshot, or removes the object if it did not exist then.
    pub async fn roll_back(&self, name: impl Into<Bytes>, snap: SnapId) -> Result<(), Error> {
        self.operate(name, Operation::new().roll_back(snap)).await.map(drop)
    }

    /// Lists all states of an object: those that snapshots show, and the present one.
    pub async fn object_states(&self, name: impl Into<Bytes>) -> Result<SnapListing, Error> {
        let operation = Operation::new().list_snapshots();
        self.at_snapshot(SnapId::DIR).operate(name, operation).await?.decode(0)
    }

    async fn snapshot_op(&self, op: PoolOpKind, snap: SnapId, name: &str) -> Result<Option<Bytes>, Error> {
        let request = MonRequest::PoolOp { op, pool: self.id(), snap, name: name.to_owned() };
        match self.driver.shared.ask(request).await? {
            Answer::Mon(MonAnswer::PoolOp(response)) => Ok(response),
            other => Err(Error::Answer(format!("{other:?}"))),
        }
    }
}
