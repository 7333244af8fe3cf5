//! Listing a pool.

use crate::error::Error;
use crate::objecter::{Request, Subject};
use crate::pool::Pool;
use bytes::Bytes;
use types::{Errno, ObjectId, Utime};
use wire::Decode;
use wire::messages::listing::{ListedObject, ObjectListing};
use wire::messages::{Op, OpFlags};

/// Objects asked for per request; OSDs may send fewer.
const PAGE_OBJECTS: u64 = 1024;

/// A walk over the objects of a pool, in the order of their placement hashes with bits reversed.
///
/// An object made or removed during the walk may or may not be listed. Every other object is listed exactly once, also
/// while placement groups are split.
pub struct Listing {
    pool: Pool,
    nspace: Bytes,
    /// Position of the next page; `None` at the end.
    cursor: Option<ObjectId>,
    page_objects: u64,
}

impl Listing {
    /// Namespace that stands for all namespaces on the wire.
    pub(crate) const ALL_NAMESPACES: &[u8] = b"\x01";

    pub(crate) fn new(pool: Pool, nspace: Bytes) -> Listing {
        Listing { pool, nspace, cursor: Some(ObjectId::min()), page_objects: PAGE_OBJECTS }
    }

    /// Sets the largest number of objects per page, at least 1.
    pub fn with_page_size(mut self, objects: u64) -> Listing {
        self.page_objects = objects.max(1);
        self
    }

    /// The next page of objects; `None` at the end. A page may be empty.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ListedObject>>, Error> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let subject = Subject::Group { pool: self.pool.id(), nspace: self.nspace.clone(), hash: cursor.hash };
        let epoch = 0; // does not matter to OSDs that know object cursors
        let mut request = Request::new(subject, vec![Op::pg_nls(cursor, self.page_objects, epoch)], Utime::ZERO);
        request.flags = OpFlags::PGOP | OpFlags::IGNORE_OVERLAY;
        let reply = self.pool.submit(request).await?;
        if let Some(errno) = reply.error() {
            // The pool has vanished during the walk: the listing fails, because its end would look like the complete
            // list.
            return Err(if errno == Errno::ENOENT { Error::NoPool(self.pool.name().to_owned()) } else { errno.into() });
        }
        let part = reply.parts.into_iter().next().ok_or_else(|| Error::Answer("listing without output".into()))?;
        let bytes = part.outdata.into_bytes();
        let page = ObjectListing::decode(&mut wire::Reader::shared(&bytes))?;
        if !page.next.max && page.next <= *cursor {
            return Err(Error::Answer(format!("listing goes back from {cursor} to {}", page.next)));
        }
        self.cursor = (!page.next.max).then_some(page.next);
        Ok(Some(page.objects))
    }

    /// Collects all remaining objects.
    pub async fn collect(mut self) -> Result<Vec<ListedObject>, Error> {
        let mut objects = Vec::new();
        while let Some(page) = self.next_page().await? {
            objects.extend(page);
        }
        Ok(objects)
    }
}
