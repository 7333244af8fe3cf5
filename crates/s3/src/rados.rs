//! The part of RADOS that the gateway needs.

use bytes::Bytes;
use std::future::Future;

/// One step of an operation on one object. An operation carries out all of its steps or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Makes the object. Fails with [`RadosError::Exists`] where it exists.
    CreateNew,
    /// Reads up to `length` bytes from `offset`; length 0 reads everything. Gives [`Reply::Bytes`].
    Read {
        offset: u64,
        length: u64,
    },
    /// Gives the object's size and the time of its last change as [`Reply::Stat`].
    Stat,
    /// Replaces the object's bytes.
    WriteFull(Bytes),
    /// Removes the object.
    Remove,
    /// Gives an attribute as [`Reply::Bytes`].
    GetAttr(&'static str),
    SetAttr(&'static str, Bytes),
    /// Fails with [`RadosError::Guard`] unless the attribute has this value.
    AttrIs(&'static str, Bytes),
    /// Gives up to `max` entries of the omap after `after` whose keys begin with `prefix`, as [`Reply::Entries`].
    List {
        after: Bytes,
        max: u64,
        prefix: Bytes,
    },
    /// Gives the entries of these keys that exist, as [`Reply::Entries`].
    Get(Vec<Bytes>),
    Set(Vec<(Bytes, Bytes)>),
    Drop(Vec<Bytes>),
    /// Drops the keys from the first on, up to and without the second.
    DropRange(Bytes, Bytes),
    /// Fails with [`RadosError::Guard`] unless the key has this value. An absent key has an empty value.
    ValueIs(Bytes, Bytes),
}

impl Step {
    /// True if the step changes the object.
    pub fn changes(&self) -> bool {
        use Step::*;
        matches!(self, CreateNew | WriteFull(_) | Remove | SetAttr(..) | Set(_) | Drop(_) | DropRange(..))
    }
}

/// Outcome of one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Nothing,
    Bytes(Bytes),
    Entries {
        entries: Vec<(Bytes, Bytes)>,
        /// There are more entries than were asked for, or than fit an answer.
        more: bool,
    },
    Stat {
        bytes: u64,
        /// Milliseconds since 1970, by the clock of the client that changed the object.
        mtime_ms: u64,
    },
}

impl Reply {
    pub fn bytes(&self) -> Bytes {
        match self {
            Reply::Bytes(bytes) => bytes.clone(),
            _ => Bytes::new(),
        }
    }

    pub fn entries(self) -> (Vec<(Bytes, Bytes)>, bool) {
        match self {
            Reply::Entries { entries, more } => (entries, more),
            _ => (Vec::new(), false),
        }
    }

    /// Bytes, and milliseconds since 1970.
    pub fn stat(&self) -> (u64, u64) {
        match self {
            Reply::Stat { bytes, mtime_ms } => (*bytes, *mtime_ms),
            _ => (0, 0),
        }
    }
}

/// The reason why an operation was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RadosError {
    #[error("no such object")]
    NotFound,
    #[error("the object exists")]
    Exists,
    /// A guard does not hold.
    #[error("the object has changed")]
    Guard,
    /// The cluster refuses this client for good: another gateway took it for dead.
    #[error("the cluster has shut this gateway out, because another one took it for dead")]
    Fenced,
    #[error("the cluster or the pool is full")]
    Full,
    #[error("{0}")]
    Other(String),
}

/// A walk over the names of a pool's objects, in an order of the cluster's own.
pub trait ObjectNames: Send {
    /// The next names; `None` at the end. A page may be empty. Every object that is there during the whole walk is
    /// among them, once. Names that are no UTF-8 are left out.
    fn next_page(&mut self) -> impl Future<Output = Result<Option<Vec<String>>, RadosError>> + Send;
}

/// A RADOS cluster as one gateway sees it, and its clock.
///
/// An operation whose future is dropped may still be carried out, and nothing bounds when, until the client is fenced.
pub trait Rados: Send + Sync + 'static {
    type Names: ObjectNames;

    /// Begins a walk over the objects of a pool.
    fn names(&self, pool: &str) -> impl Future<Output = Result<Self::Names, RadosError>> + Send;

    /// Carries out the steps on one object of a pool. The reply has one element for each step; those of an operation
    /// that changes the object are [`Reply::Nothing`].
    fn operate(
        &self,
        pool: &str,
        object: String,
        steps: Vec<Step>,
    ) -> impl Future<Output = Result<Vec<Reply>, RadosError>> + Send;

    /// The name by which [`Rados::fence`] knows this client.
    fn client(&self) -> String;

    /// Shuts a client out of the cluster: once this is done, no operation of it is carried out any more, also none that
    /// it sent earlier.
    fn fence(&self, client: &str) -> impl Future<Output = Result<(), RadosError>> + Send;

    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Runs a task beside the caller, as long as this gateway lives.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Waits.
    fn pause(&self, ms: u64) -> impl Future<Output = ()> + Send;
}
