//! Why a request to the cluster failed.

use crate::conf_file::ConfError;
use types::Errno;

/// Why an operation, a command or a look-up did not succeed.
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
    /// An earlier update of the image, by this connection, was not answered in its time, or its handle was dropped without being
    /// closed. Something may still be carried out, so the image is neither updated nor its lock given up in order: whoever wants
    /// the lock shuts this connection out.
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
    /// The error number that the cluster gave, or that says the same.
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

    /// Whether it is unknown what became of an operation that failed so: it may have been carried out, or may still be.
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

/// Why a cluster could not be connected to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Conf(#[from] ConfError),
    #[error("host name {name} of a monitor cannot be resolved")]
    Resolve { name: String, source: std::io::Error },
    #[error("no monitor answered within {seconds} s (tried {tried}){why}")]
    TimedOut { seconds: u64, tried: String, why: String },
}
