//! The target of a workload, as workers see it: objects that are written, read and removed.

use std::future::Future;

use bench::schedule::Outcome;
use bytes::Bytes;
use client::{Cluster, Config, Operation, Pool};
use tokio::sync::OnceCell;
use types::Errno;

use crate::images::{ImageShape, Target};
use crate::s3::{Bucket, BucketSite};

/// Objects of one pool, through one client.
pub trait Objects: 'static {
    /// Writes `data` at `offset`; if `whole`, `data` is the object's whole content.
    fn write(&self, name: String, offset: u64, data: Bytes, whole: bool) -> impl Future<Output = Result<(), Failure>>;

    /// Reads up to `length` bytes at `offset`.
    fn read(&self, name: String, offset: u64, length: u64) -> impl Future<Output = Result<Bytes, Failure>>;

    /// Reads an object of `length` bytes from its begin to its end.
    fn read_whole(&self, name: String, length: u64) -> impl Future<Output = Result<Bytes, Failure>> {
        self.read(name, 0, length)
    }

    /// True if each write has to be a whole object.
    fn only_whole_writes(&self) -> bool {
        false
    }

    /// The length and ETag of an object. Only S3 has it.
    fn head(&self, name: String) -> impl Future<Output = Result<SeenObject, Failure>> {
        async move { Err(Failure::not_here(&format!("asking about {name}"))) }
    }

    /// A page of the names that begin with `prefix` and stand behind `after`, at most `max`. Only S3 has it.
    fn list(&self, prefix: String, _after: String, _max: u32) -> impl Future<Output = Result<ListedPage, Failure>> {
        async move { Err(Failure::not_here(&format!("listing {prefix}"))) }
    }

    /// Removes the object, if it exists.
    fn remove(&self, name: String) -> impl Future<Output = Result<(), Failure>>;

    /// Removes what remains after all objects are removed, such as an image.
    fn finish(&self) -> impl Future<Output = Result<(), Failure>> {
        async { Ok(()) }
    }
}

/// Makes clients: each instance has its own, with its own connections.
pub trait Connect: Clone + Send + 'static {
    type Objects: Objects;

    fn connect(&self) -> impl Future<Output = Result<Self::Objects, String>>;
}

/// The reason why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Consequence for the data.
    pub outcome: Outcome,
    pub reason: String,
    /// The object is not there.
    pub is_absent: bool,
}

impl Failure {
    pub fn new(outcome: Outcome, reason: String) -> Failure {
        Failure { outcome, reason, is_absent: false }
    }

    fn not_here(what: &str) -> Failure {
        Failure::new(Outcome::Refused, format!("{what}: a checked plan has that by S3 alone"))
    }
}

/// An object as a question about it tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenObject {
    pub length: Option<u64>,
    /// Without quotes.
    pub etag: Option<String>,
}

/// A page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedPage {
    /// Names and sizes as they come.
    pub objects: Vec<(String, u64)>,
    /// There are more behind these.
    pub more: bool,
}

/// A pool of a cluster.
#[derive(Clone, Debug)]
pub struct PoolOfCluster {
    pub config: Config,
    /// Name of the pool on the cluster.
    pub pool: String,
    /// Images whose parts the objects are; `None` for plain objects.
    pub images: Option<Vec<ImageShape>>,
    /// Bucket whose objects take the place of the pool's.
    pub bucket: Option<BucketSite>,
}

impl Connect for PoolOfCluster {
    type Objects = Target;

    async fn connect(&self) -> Result<Target, String> {
        if let Some(site) = &self.bucket {
            return Ok(Target::Bucket(Bucket::open(site.clone()).await?));
        }
        let cluster = Cluster::connect(self.config.clone()).await.map_err(|e| e.to_string())?;
        let pool = cluster.pool(&self.pool).await.map_err(|e| e.to_string())?;
        Ok(match &self.images {
            None => Target::Pool(pool),
            Some(shapes) => Target::Image { pool, shapes: shapes.clone(), open: OnceCell::new() },
        })
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Failure {
        let outcome = match error {
            client::Error::Errno(_) | client::Error::NoPool(_) | client::Error::Unsupported(_) => Outcome::Refused,
            client::Error::TimedOut { .. } | client::Error::InDoubt => Outcome::Unknown,
            client::Error::Closed | client::Error::Answer(_) => Outcome::Unknown,
        };
        Failure::new(outcome, error.to_string())
    }
}

impl Objects for Pool {
    async fn write(&self, name: String, offset: u64, data: Bytes, whole: bool) -> Result<(), Failure> {
        let operation = match whole {
            true => Operation::new().write_full(data),
            false => Operation::new().write(offset, data),
        };
        self.operate(name, operation).await?;
        Ok(())
    }

    async fn read(&self, name: String, offset: u64, length: u64) -> Result<Bytes, Failure> {
        Ok(Pool::read(self, name, offset, length).await?)
    }

    async fn remove(&self, name: String) -> Result<(), Failure> {
        match Pool::remove(self, name).await {
            Err(client::Error::Errno(Errno::ENOENT)) => Ok(()),
            other => Ok(other?),
        }
    }
}
