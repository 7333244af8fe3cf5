//! Making a clone independent of its parent.

use super::image::Image;
use super::spec::ParentSpec;
use super::{feature, parent_link};
use crate::error::Error;
use types::Errno;

impl Image {
    /// Copies what the parent shows, and lets go of it. Errors: `EINVAL` if the image has no parent; `EOPNOTSUPP` where snapshots
    /// show more of it than the image still does.
    pub async fn flatten(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let (_turn, now) = inner.exclusive_turn().await?;
        let Some(parent) = &now.parent else { return Err(Errno::EINVAL.into()) };
        let spec: ParentSpec = parent.spec.clone();
        let is_deep = now.has(feature::DEEP_FLATTEN);
        if is_deep && now.snapshots.iter().any(|snapshot| snapshot.parent_overlap.unwrap_or(0) > parent.overlap) {
            return Err(Error::Unsupported("flattening an image whose snapshots show more of its parent than itself"));
        }
        let objects = inner.fixed.layout.object_count(parent.overlap);
        inner
            .for_objects(&now, 0..objects, |inner, now, object| async move {
                let overlap = inner.overlap_of(&now, object);
                if overlap.is_empty() || inner.known.is_present(object) {
                    return Ok(());
                }
                inner.copy_up(&now, object, &overlap, None).await
            })
            .await?;
        // Snapshots that still show the parent keep it.
        let is_needed = !is_deep && now.snapshots.iter().any(|snapshot| snapshot.parent_overlap.is_some());
        if !is_needed {
            parent_link::detach(inner, &spec).await?;
        }
        inner.tell_header(&now, "parent_detach", Vec::new()).await?;
        inner.refresh().await?;
        inner.header_changed().await
    }
}
