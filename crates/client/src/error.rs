//! Errors of requests to the cluster.

use crate::conf_file::ConfError;
use types::Errno;

/// The reason why an operation, a command or a look-up failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The cluster's answer.
    #[error("{0}")]
    Errno(Errno),
    /// No answer within the time set in the configuration; the request may or may not have been carried out.
    #[error("no answer within {seconds} s; the request may still be carried out")]
    TimedOut { seconds: u64 },
    /// The newest map has no such pool.
    #[error("pool '{0}' does not exist")]
    NoPool(String),
    /// An earlier update of the image by this connection was not answered in time, or its handle was dropped without
    /// being closed. The update may still be carried out, so the handle neither changes the image nor releases its
    /// lock: a client that wants the lock blocklists this connection.
    #[error(
        "an earlier update of the image may still be carried out; open the image by a new connection to the cluster"
    )]
    InDoubt,
    /// The connection was given up, or the client dropped.
    #[error("the client has been shut down")]
    Closed,
    /// An answer that cannot be understood.
    #[error("the cluster's answer makes no sense: {0}")]
    Answer(String),
    /// Something this client does not do.
    #[error("not supported by this client: {0}")]
    Unsupported(&'static str),
}

impl Error {
    /// The error number that the cluster gave, or the one of the same meaning.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Errno(errno) => *errno,
            Error::TimedOut { .. } => Errno::ETIMEDOUT,
            Error::NoPool(_) => Errno::ENOENT,
            Error::InDoubt => Errno::EIO,
            Error::Closed => Errno::ENOTCONN,
            Error::Answer(_) => Errno::EIO,
            Error::Unsupported(_) => Errno::EOPNOTSUPP,
        }
    }

    /// True if the outcome of an operation that failed with this error is unknown: it may have been carried out, or may
    /// still be.
    pub fn leaves_open(&self) -> bool {
        matches!(self, Error::TimedOut { .. } | Error::Closed | Error::Answer(_))
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        Error::Errno(errno)
    }
}

impl From<wire::DecodeError> for Error {
    fn from(error: wire::DecodeError) -> Error {
        Error::Answer(error.to_string())
    }
}

/// The reason why connecting to a cluster failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Conf(#[from] ConfError),
    #[error("host name {name} of a monitor cannot be resolved")]
    Resolve { name: String, source: std::io::Error },
    #[error("'{0}' is no name of a client or daemon: it wants the form 'client.name'")]
    Name(String),
    #[error("there is no source of random bytes")]
    Random(#[source] std::io::Error),
    /// The monitors do not know the name, it has another key, or they do not allow what the client can do.
    #[error("the monitors refuse {name} ({errno}), with {key}: {why}")]
    Denied { name: String, key: String, errno: Errno, why: String },
    #[error("no monitor answered within {seconds} s (tried {tried}){why}")]
    TimedOut { seconds: u64, tried: String, why: String },
}
