//! Making a clone independent of its parent.

use super::course::Course;
use super::header::{ImageState, Snapshot};
use super::image::{Image, Inner};
use super::{feature, parent_link};
use crate::error::Error;
use std::sync::Arc;
use std::time::Duration;
use types::Errno;
use wire::rbd::ParentSpec;

/// Time in which a client that has asked for the lock hears that it is free.
const GIVE_WAY: Duration = Duration::from_secs(1);

/// The length of the part of this parent that the image shows, perhaps 0; `None` once the header names it no more, as
/// another client has flattened the image.
fn overlap_with(now: &ImageState, spec: &ParentSpec) -> Option<u64> {
    now.linked.as_ref().filter(|linked| *linked == spec).map(|_| now.overlap())
}

/// Errors: `EOPNOTSUPP` for an image whose snapshots need more of the parent than it shows itself.
fn can_be_flattened(now: &ImageState) -> Result<(), Error> {
    let needs_more = |snapshot: &Snapshot| snapshot.parent_overlap.unwrap_or(0) > now.overlap();
    if now.has(feature::DEEP_FLATTEN) && now.snapshots.iter().any(needs_more) {
        return Err(Error::Unsupported("flattening an image whose snapshots show more of its parent than itself"));
    }
    Ok(())
}

impl Image {
    /// Copies the data that the parent shows into the image, and detaches it from the parent. Other clients of the
    /// image go on meanwhile. Errors: `EINVAL` if the image has no parent; `EOPNOTSUPP` where snapshots show more of it
    /// than the image still does; the errors of [`Image::write`].
    pub async fn flatten(&self) -> Result<(), Error> {
        self.flatten_by(&Course::default()).await
    }

    /// Flattens the image as [`Image::flatten`] does. Further error: `ECANCELED` if the course stopped it.
    pub async fn flatten_by(&self, course: &Course) -> Result<(), Error> {
        let (inner, course) = (self.inner.clone(), course.clone());
        self.inner.to_the_end(async move { inner.flatten(&course).await }).await
    }
}

impl Inner {
    async fn flatten(self: &Arc<Inner>, course: &Course) -> Result<(), Error> {
        let (turn, now) = self.exclusive_turn().await?;
        let Some(spec) = now.linked.clone() else { return Err(Errno::EINVAL.into()) };
        can_be_flattened(&now)?;
        let mut objects = self.fixed.layout.object_count(now.overlap());
        drop(turn);
        course.begin(objects);
        let mut next = 0;
        // An object that exists goes on to exist for as long as the parent has data in its place, whatever other
        // clients do between two steps.
        while next < objects {
            if next > 0 {
                self.give_way().await?;
            }
            let (_turn, now) = self.exclusive_turn().await?;
            let Some(overlap) = overlap_with(&now, &spec) else { return Ok(()) };
            // It may have been made smaller meanwhile.
            objects = self.fixed.layout.object_count(overlap);
            let step = next.min(objects)..objects.min(next + course.step);
            next = step.end.max(next);
            let fill = |inner: Arc<Inner>, now: Arc<ImageState>, object| {
                let course = course.clone();
                async move {
                    course.check()?;
                    inner.fill_from_parent(&now, object).await?;
                    course.one_done();
                    Ok(())
                }
            };
            self.for_objects(&now, step, fill).await?;
        }
        self.detach_parent(&spec).await
    }

    /// Lets another client that has asked for the lock take it.
    async fn give_way(&self) -> Result<(), Error> {
        // A release that waits for the step that has just ended comes first.
        drop(self.gate.write().await);
        if self.state().has(feature::EXCLUSIVE_LOCK) && !self.lock.is_held()? {
            tokio::time::sleep(GIVE_WAY).await;
        }
        Ok(())
    }

    /// Detaches the image from its parent, whose data it has now.
    async fn detach_parent(self: &Arc<Inner>, spec: &ParentSpec) -> Result<(), Error> {
        let (_turn, now) = self.exclusive_turn().await?;
        if overlap_with(&now, spec).is_none() {
            return Ok(());
        }
        can_be_flattened(&now)?;
        // The parent stays attached while snapshots of the image still show it.
        let is_deep = now.has(feature::DEEP_FLATTEN);
        let is_needed = !is_deep && now.snapshots.iter().any(|snapshot| snapshot.parent_overlap.is_some());
        if !is_needed {
            parent_link::detach(self, spec).await?;
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
