//! Clones: the parent's data that shows through them, and copies of it before an object is changed.

use super::data::{Change, zeros};
use super::header::ImageState;
use super::image::{Image, Inner, is_final};
use super::known::update_input;
use super::layout::ObjectExtent;
use super::{feature, map_object};
use crate::error::Error;
use crate::operation::Operation;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use types::{Errno, SnapId};
use wire::Rope;
use wire::rbd::object_map::state;

/// The parts of image ranges that lie below `end`.
fn clipped(parts: &[(u64, u64)], end: u64) -> Vec<(u64, u64)> {
    let below = parts.iter().filter(|(from, _)| *from < end);
    below.map(|(from, len)| (*from, (*len).min(end - from))).collect()
}

/// Reads a parent. Boxed, because the parent may itself be a clone that reads its parent.
fn read_ancestor(
    image: &Image,
    offset: u64,
    length: u64,
) -> Pin<Box<dyn Future<Output = Result<Rope, Error>> + Send + '_>> {
    Box::pin(image.read(offset, length))
}

impl Inner {
    /// The ranges of the image that an object holds and the parent has, in the order of the object.
    pub fn overlap_of(&self, now: &ImageState, object: u64) -> Vec<(u64, u64)> {
        match now.overlap() {
            0 => Vec::new(),
            end => clipped(&self.fixed.layout.image_parts(object, 0, self.fixed.layout.object_bytes()), end),
        }
    }

    /// Reads the parent's data in these ranges of the image, one after the other. It ends early where the parent shows
    /// nothing.
    pub async fn read_parent(&self, now: &ImageState, parts: &[(u64, u64)]) -> Result<Rope, Error> {
        let Some(parent) = &now.parent else { return Ok(Rope::new()) };
        let mut all = Rope::new();
        for (from, len) in parts {
            let shown = parent.overlap.saturating_sub(*from).min(*len);
            if shown > 0 {
                let not_open = Error::Unsupported("reading a parent that was not opened");
                all.append(read_ancestor(parent.image.as_ref().ok_or(not_open)?, *from, shown).await?);
            }
            all.append(zeros(len - shown));
        }
        Ok(all)
    }

    /// Changes an object of a clone in whose place the parent has data. Only the OSD knows if the object exists: each
    /// change requires that it does, and takes the parent's bytes along where it does not.
    pub async fn change_clone(
        self: &Arc<Inner>,
        now: &ImageState,
        extent: &ObjectExtent,
        change: &Change,
        whole: bool,
        overlap: Vec<(u64, u64)>,
    ) -> Result<(), Error> {
        let operation = self.operation(extent, change, whole, true);
        if whole && now.context.snaps.is_empty() {
            // The change covers the whole object, and no snapshot needs the parent's data.
            let _writing = self.note_written(extent.object).await?;
            return self.update_object(now, extent.object, operation).await;
        }
        if !self.known.is_absent(extent.object) {
            let _writing = self.note_written(extent.object).await?;
            let guarded = Operation {
                ops: [Operation::new().assert_exists().ops, operation.ops.clone()].concat(),
                ..operation.clone()
            };
            match self.update_object(now, extent.object, guarded).await {
                Err(Error::Errno(Errno::ENOENT)) => {}
                done => return done,
            }
        }
        self.copy_up(now, extent.object, &overlap, Some(operation)).await
    }

    /// Copies the parent's data into an object, unless the object exists meanwhile, and then carries out `operation` on
    /// it.
    pub async fn copy_up(
        self: &Arc<Inner>,
        now: &ImageState,
        object: u64,
        overlap: &[(u64, u64)],
        operation: Option<Operation>,
    ) -> Result<(), Error> {
        let data = self.read_parent(now, overlap).await?;
        let is_zero = data.pieces().all(|piece| piece.iter().all(|byte| *byte == 0));
        let copy = |data: Rope| Operation::new().call_write("rbd", "copyup", data.into_bytes());
        // Earlier snapshots show the parent's data as well: the copy is written as older than all of them.
        let is_deep = !is_zero && !now.context.snaps.is_empty();
        if is_deep {
            self.note_in_snapshots(now, object).await?;
        }
        let _writing = match operation.is_some() || !is_zero {
            true => Some(self.note_written(object).await?),
            false => None,
        };
        if is_deep {
            self.change(&self.data, self.object_name(object), copy(data)).await?;
            return match operation {
                Some(operation) => self.update_object(now, object, operation).await,
                None => Ok(()),
            };
        }
        let all = match (is_zero, operation) {
            (true, None) => return Ok(()),
            (true, Some(operation)) => operation,
            (false, None) => copy(data),
            (false, Some(operation)) => {
                let copy = copy(data);
                Operation { flags: copy.flags | operation.flags, ops: [copy.ops, operation.ops].concat() }
            }
        };
        self.update_object(now, object, all).await
    }

    /// Notes that an object exists in the object maps of all snapshots large enough to have it.
    async fn note_in_snapshots(&self, now: &ImageState, object: u64) -> Result<(), Error> {
        if !now.has(feature::OBJECT_MAP) {
            return Ok(());
        }
        let layout = self.fixed.layout;
        let mut seen = state::EXISTS;
        for snapshot in &now.snapshots {
            let SnapId(id) = snapshot.id;
            if object >= layout.object_count(snapshot.size_bytes) {
                continue;
            }
            // The object is new in the oldest snapshot, and unchanged in the later ones.
            let input = update_input(object, seen, None);
            if now.has(feature::FAST_DIFF) {
                seen = state::EXISTS_CLEAN;
            }
            let operation = Operation::new().call_write("rbd", "object_map_update", input);
            match self.change(&self.pool, map_object(&self.fixed.id, Some(id)), operation).await {
                Ok(_) => {}
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => {
                    let image = &self.fixed.name;
                    tracing::warn!(image, snap = id, %error, "object map of a snapshot cannot be kept up");
                    self.invalidate_map(Some(id), false).await?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_the_overlap_is_left_out() {
        let parts = [(0, 10), (30, 10), (60, 10)];
        assert_eq!(clipped(&parts, 35), [(0, 10), (30, 5)]);
        assert_eq!(clipped(&parts, 30), [(0, 10)]);
        assert!(clipped(&parts, 0).is_empty());
    }
}
