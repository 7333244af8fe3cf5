//! Objects of one pool.

use crate::cluster::Cluster;
use crate::driver::Driver;
use crate::error::Error;
use crate::listing::Listing;
use crate::objecter::{Answer, Request, Subject};
use crate::operation::{ObjectStat, Operation, Outcome};
use bytes::Bytes;
use std::sync::Arc;
use std::time::SystemTime;
use types::{PoolId, SnapId, Utime};
use wire::Rope;
use wire::basic::{Locator, SnapContext};
use wire::messages::{OpCode, OpFlags};

/// A pool, or a namespace of one. Cheap to clone.
///
/// Dropping the future of an operation that was sent does not cancel it: it is carried out, perhaps later, and sent
/// again until it is answered. A timeout from the configuration does not cancel it either: an operation that failed
/// with [`Error::TimedOut`] is not sent again, but may still be carried out.
#[derive(Clone)]
pub struct Pool {
    pub(crate) driver: Arc<Driver>,
    id: PoolId,
    name: Arc<str>,
    locator: Locator,
    /// The snapshot that reads see.
    pub(crate) snap: SnapId,
    /// The snapshots that updates preserve.
    pub(crate) snap_context: SnapContext,
}

impl Pool {
    pub(crate) fn new(driver: Arc<Driver>, id: PoolId, name: &str) -> Pool {
        let (snap, snap_context) = (SnapId::HEAD, SnapContext::default());
        Pool { driver, id, name: name.into(), locator: Locator::pool(id), snap, snap_context }
    }

    /// The pool's cluster.
    pub fn cluster(&self) -> Cluster {
        Cluster::of(self.driver.clone())
    }

    pub(crate) fn subject(&self, name: Bytes) -> Subject {
        Subject::Object { locator: self.locator.clone(), name }
    }

    /// The namespace of the objects.
    pub fn namespace_name(&self) -> &Bytes {
        &self.locator.nspace
    }

    pub(crate) fn locator(&self) -> &Locator {
        &self.locator
    }

    pub fn id(&self) -> PoolId {
        self.id
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A handle on namespace `nspace` of this pool; empty for the default one.
    pub fn namespace(&self, nspace: impl Into<Bytes>) -> Pool {
        Pool { locator: Locator { nspace: nspace.into(), ..self.locator.clone() }, ..self.clone() }
    }

    /// A handle on this pool whose objects are placed by `key` instead of by their names; empty to place by name again.
    pub fn placed_by(&self, key: impl Into<Bytes>) -> Pool {
        Pool { locator: Locator { key: key.into(), ..self.locator.clone() }, ..self.clone() }
    }

    /// Carries out `operation` on the object called `name`.
    pub async fn operate(&self, name: impl Into<Bytes>, operation: Operation) -> Result<Outcome, Error> {
        let only_removes = !operation.ops.is_empty() && operation.ops.iter().all(|op| op.code == OpCode::DELETE);
        let mut request = Request::new(self.subject(name.into()), operation.ops, Utime::from(SystemTime::now()));
        request.flags = operation.flags;
        request.snap = self.snap;
        request.snap_context.clone_from(&self.snap_context);
        if only_removes {
            // Removals must work on a full cluster, because they free space.
            request.flags = request.flags | OpFlags::FULL_TRY;
        }
        Outcome::of(self.submit(request).await?)
    }

    pub(crate) async fn submit(&self, request: Request) -> Result<crate::objecter::Reply, Error> {
        match self.driver.shared.submit(request).await? {
            Answer::Op(reply) => Ok(reply),
            other => Err(Error::Answer(format!("{other:?}"))),
        }
    }

    /// Reads up to `length` bytes from `offset`; fewer, or none, at the object's end. Length 0 reads everything.
    pub async fn read(&self, name: impl Into<Bytes>, offset: u64, length: u64) -> Result<Bytes, Error> {
        self.operate(name, Operation::new().read(offset, length)).await?.bytes(0)
    }

    pub async fn write(&self, name: impl Into<Bytes>, offset: u64, data: impl Into<Rope>) -> Result<(), Error> {
        self.operate(name, Operation::new().write(offset, data)).await.map(drop)
    }

    /// Replaces the object's content.
    pub async fn write_full(&self, name: impl Into<Bytes>, data: impl Into<Rope>) -> Result<(), Error> {
        self.operate(name, Operation::new().write_full(data)).await.map(drop)
    }

    pub async fn append(&self, name: impl Into<Bytes>, data: impl Into<Rope>) -> Result<(), Error> {
        self.operate(name, Operation::new().append(data)).await.map(drop)
    }

    pub async fn truncate(&self, name: impl Into<Bytes>, size: u64) -> Result<(), Error> {
        self.operate(name, Operation::new().truncate(size)).await.map(drop)
    }

    pub async fn remove(&self, name: impl Into<Bytes>) -> Result<(), Error> {
        self.operate(name, Operation::new().remove()).await.map(drop)
    }

    pub async fn stat(&self, name: impl Into<Bytes>) -> Result<ObjectStat, Error> {
        self.operate(name, Operation::new().stat()).await?.stat(0)
    }

    /// The objects of this namespace, page by page.
    pub fn list(&self) -> Listing {
        Listing::new(self.clone(), self.locator.nspace.clone())
    }

    /// The objects of all namespaces, page by page.
    pub fn list_all(&self) -> Listing {
        Listing::new(self.clone(), Bytes::from_static(Listing::ALL_NAMESPACES))
    }
}
