//! Making a clone independent of its parent.

use super::header::ImageState;
use super::image::{Image, Inner};
use super::{feature, parent_link};
use crate::error::Error;
use std::sync::Arc;
use types::Errno;
use wire::rbd::ParentSpec;

impl Image {
    /// Copies the data that the parent shows into the image, and detaches it from the parent. Errors: `EINVAL` if the
    /// image has no parent; `EOPNOTSUPP` where snapshots show more of it than the image still does; the errors of
    /// [`Image::write`].
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
            |inner: Arc<Inner>, now: Arc<ImageState>, object| async move { inner.fill_from_parent(&now, object).await };
        self.for_objects(&now, 0..objects, fill).await?;
        // The parent stays attached while snapshots of the image still show it.
        let is_needed = !is_deep && now.snapshots.iter().any(|snapshot| snapshot.parent_overlap.is_some());
        if !is_needed {
            parent_link::detach(self, &spec).await?;
        }
        self.tell_header(&now, "parent_detach", Vec::new()).await?;
        self.refresh().await?;
        self.header_changed().await
    }

    /// Copies the parent's data in an object's place into the object, if it does not exist.
    async fn fill_from_parent(self: &Arc<Inner>, now: &ImageState, object: u64) -> Result<(), Error> {
        let overlap = self.overlap_of(now, object);
        if overlap.is_empty() {
            return Ok(());
        }
        // For an object that exists, a stat spares reading the parent and sending its data along. A note that the
        // object may exist does not prove that it does.
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
