//! Making a clone independent of its parent.

use super::header::State;
use super::image::{Image, Inner};
use super::spec::ParentSpec;
use super::{feature, parent_link};
use crate::error::Error;
use std::sync::Arc;
use types::Errno;

impl Image {
    /// Copies what the parent shows, and lets go of it. Errors: `EINVAL` if the image has no parent; `EOPNOTSUPP` where snapshots
    /// show more of it than the image still does; as for [`Image::write`].
    pub async fn flatten(&self) -> Result<(), Error> {
        let inner = self.inner.clone();
        self.inner.to_the_end(async move { inner.flatten().await }).await
    }
}

impl Inner {
    async fn flatten(self: &Arc<Inner>) -> Result<(), Error> {
        let (_turn, now) = self.exclusive_turn().await?;
        let Some(parent) = &now.parent else { return Err(Errno::EINVAL.into()) };
        let spec: ParentSpec = parent.spec.clone();
        let is_deep = now.has(feature::DEEP_FLATTEN);
        if is_deep && now.snapshots.iter().any(|snapshot| snapshot.parent_overlap.unwrap_or(0) > parent.overlap) {
            return Err(Error::Unsupported("flattening an image whose snapshots show more of its parent than itself"));
        }
        let objects = self.fixed.layout.object_count(parent.overlap);
        let fill =
            |inner: Arc<Inner>, now: Arc<State>, object| async move { inner.fill_from_parent(&now, object).await };
        self.for_objects(&now, 0..objects, fill).await?;
        // Snapshots that still show the parent keep it.
        let is_needed = !is_deep && now.snapshots.iter().any(|snapshot| snapshot.parent_overlap.is_some());
        if !is_needed {
            parent_link::detach(self, &spec).await?;
        }
        self.tell_header(&now, "parent_detach", Vec::new()).await?;
        self.refresh().await?;
        self.header_changed().await
    }

    /// Makes an object of what the parent shows in its place, if it is not there.
    async fn fill_from_parent(self: &Arc<Inner>, now: &State, object: u64) -> Result<(), Error> {
        let overlap = self.overlap_of(now, object);
        if overlap.is_empty() {
            return Ok(());
        }
        // Asking spares reading the parent and sending it along; that the object is noted tells nothing.
        if self.known.is_noted(object) {
            match self.data.stat(self.object_name(object)).await {
                Ok(_) => return Ok(()),
                Err(Error::Errno(Errno::ENOENT)) => {}
                Err(error) => return Err(error),
            }
        }
        self.copy_up(now, object, &overlap, None).await
    }
}
