//! Changing an image's size, and work on all of its objects.

use super::data::Change;
use super::header::ImageState;
use super::image::{Image, Inner, is_final};
use super::known::map_locked;
use super::spec::input;
use super::{MANY_AT_ONCE, map_object};
use crate::error::Error;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use tokio::task::JoinSet;
use types::Errno;
use wire::rbd::object_map::state;

impl Image {
    /// Changes the size. Data beyond a smaller size is removed; added space reads as zeros. Errors: those of
    /// [`Image::write`], and `EINVAL` for a size that has more objects than Ceph allows.
    pub async fn resize(&self, size_bytes: u64) -> Result<(), Error> {
        if self.inner.fixed.layout.object_count(size_bytes) > super::create::OBJECTS_MAX {
            return Err(Errno::EINVAL.into());
        }
        let inner = self.inner.clone();
        let resizing = async move {
            let (_turn, now) = inner.exclusive_turn().await?;
            if now.size == size_bytes {
                return Ok(());
            }
            inner.resize_to(&now, size_bytes).await?;
            inner.header_changed().await
        };
        self.inner.to_the_end(resizing).await
    }
}

impl Inner {
    /// Changes the size. The caller holds an exclusive turn. Returns the new state.
    pub async fn resize_to(self: &Arc<Inner>, now: &Arc<ImageState>, size: u64) -> Result<Arc<ImageState>, Error> {
        let layout = self.fixed.layout;
        let (have, wanted) = (layout.object_count(now.size), layout.object_count(size));
        // The map always covers all objects of the image: it grows first and shrinks last.
        if size > now.size {
            self.resize_map(wanted).await?;
        } else {
            self.trim(now, size, wanted..have).await?;
        }
        if size != now.size {
            self.tell_header(now, "set_size", input(|w| w.u64(size))).await?;
        }
        if size < now.size {
            self.resize_map(wanted).await?;
        }
        self.refresh().await
    }

    async fn resize_map(&self, objects: u64) -> Result<(), Error> {
        if !self.known.is_loaded() {
            return Ok(());
        }
        let fields = input(|w| {
            w.u64(objects);
            w.u8(state::NONEXISTENT);
        });
        let operation = map_locked().call_write("rbd", "object_map_resize", fields);
        match self.change(&self.pool, map_object(&self.fixed.id, None), operation).await {
            Ok(_) => {}
            Err(error) if is_final(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(image = self.fixed.name, %error, "object map cannot be resized");
                self.distrust_map().await?;
            }
        }
        self.known.change(|map| map.resize(objects, state::NONEXISTENT));
        Ok(())
    }

    /// Removes the data behind `size`: whole objects, and the ends of those that stay.
    async fn trim(self: &Arc<Inner>, now: &Arc<ImageState>, size: u64, gone: Range<u64>) -> Result<(), Error> {
        let layout = self.fixed.layout;
        let first_gone = gone.start;
        self.for_objects(now, gone, |inner, now, object| async move { inner.remove_object(&now, object).await })
            .await?;
        let period = layout.object_bytes() * layout.stripe_count;
        let end = now.size.min(size.next_multiple_of(period));
        for extent in layout.extents(size, end - size).into_iter().filter(|extent| extent.object < first_gone) {
            if self.known.is_absent(extent.object) {
                continue;
            }
            // The discard reaches to the object's end: the image has no data behind it. A parent does not show behind
            // the new size.
            let extent = super::layout::ObjectExtent { length: layout.object_bytes() - extent.offset, ..extent };
            let extent = if layout.is_plain() { extent } else { self.striped_end(extent, end, size) };
            let operation = self.operation(&extent, &Change::Discard, false, false);
            self.discard_in_place(now, &extent, operation).await?;
        }
        Ok(())
    }

    /// The range of an object of a striped image that belongs to the image's range `size..end`.
    fn striped_end(&self, whole: super::layout::ObjectExtent, end: u64, size: u64) -> super::layout::ObjectExtent {
        let extents = self.fixed.layout.extents(size, end - size);
        extents.into_iter().find(|extent| extent.object == whole.object).unwrap_or(whole)
    }

    /// Does `work` with each of many objects, some at a time. After the first error no more begin; those in flight are
    /// waited for.
    pub async fn for_objects<F, Fut>(
        self: &Arc<Inner>,
        now: &Arc<ImageState>,
        objects: Range<u64>,
        work: F,
    ) -> Result<(), Error>
    where
        F: Fn(Arc<Inner>, Arc<ImageState>, u64) -> Fut,
        Fut: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let mut under_way = JoinSet::new();
        let mut result = Ok(());
        let mut objects = objects;
        loop {
            while under_way.len() < MANY_AT_ONCE
                && result.is_ok()
                && let Some(object) = objects.next()
            {
                under_way.spawn(work(self.clone(), now.clone(), object));
            }
            match under_way.join_next().await {
                Some(done) => result = result.and(done.unwrap_or(Err(Error::Closed))),
                None => return result,
            }
        }
    }
}
