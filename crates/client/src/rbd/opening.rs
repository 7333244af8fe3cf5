//! The manner in which an image is opened, and what is believed of its header.
//!
//! Whoever may write to a pool writes the headers in it. A header names a pool and a prefix of data objects, and a
//! parent in any pool. A client that works for others with rights of its own must not go by that alone: it would remove
//! or read for them what they may not reach.

use super::header_object;
use crate::error::Error;
use crate::pool::Pool;
use types::{Errno, PoolId, SnapId};

/// "Stale handle": another client took a snapshot meanwhile, or the image has another name now.
pub const ESTALE: Errno = Errno(116);

/// Most parents of an image, one behind the other. Linux's client has this limit, too.
const PARENTS_MAX: usize = 16;

/// The manner in which an image is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opening {
    pub at: SnapId,
    pub read_only: bool,
    /// The parent is opened, too, so that its data shows.
    pub shows_parent: bool,
    /// The header is not believed where it names what may not be the image's own.
    pub doubts_header: bool,
    /// Number of images that are open because each is a clone of the next, before this one.
    depth: usize,
}

impl Opening {
    pub fn plain(at: SnapId, read_only: bool) -> Opening {
        Opening { at, read_only, shows_parent: true, doubts_header: false, depth: 0 }
    }

    pub fn without_parent(self) -> Opening {
        Opening { shows_parent: false, ..self }
    }

    /// As one who works for others.
    pub fn for_others(self) -> Opening {
        Opening { doubts_header: true, ..self }
    }

    /// The manner in which the parent of such an image is opened. Errors: `EOPNOTSUPP` where there are too many: a
    /// header may name its own image.
    pub fn of_parent(self, at: SnapId, read_only: bool) -> Result<Opening, Error> {
        match self.depth < PARENTS_MAX {
            true => Ok(Opening { at, read_only, depth: self.depth + 1, ..self }),
            false => Err(Error::Unsupported("an image with more than 16 parents, one behind the other")),
        }
    }

    /// Refuses a header that names other data than that of its image: librbd gives each image a prefix of its own.
    /// Errors: `EOPNOTSUPP`.
    pub fn check_data(self, pool: &Pool, id: &str, prefix: &str, data_pool: Option<PoolId>) -> Result<(), Error> {
        let own = match data_pool {
            None => format!("rbd_data.{id}"),
            Some(_) => format!("rbd_data.{}.{id}", pool.id().0),
        };
        match self.doubts_header && prefix != own {
            true => Err(Error::Unsupported("work for others on an image whose header names another one's data")),
            false => Ok(()),
        }
    }
}

/// Makes sure that there is no header of this id. An image that cannot be opened for `ENOENT` may lack other things: a
/// snapshot that was removed meanwhile, for one. Errors: `EBUSY` if there is one.
pub(super) async fn must_be_gone(pool: &Pool, id: &str) -> Result<(), Error> {
    match pool.stat(header_object(id)).await {
        Ok(_) => Err(Errno::EBUSY.into()),
        Err(Error::Errno(Errno::ENOENT)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Errors: `ESTALE` if the image of this id exists, by whatever name.
pub(super) async fn must_not_have_another_name(pool: &Pool, id: &str) -> Result<(), Error> {
    match must_be_gone(pool, id).await {
        Err(Error::Errno(Errno::EBUSY)) => Err(ESTALE.into()),
        other => other,
    }
}
