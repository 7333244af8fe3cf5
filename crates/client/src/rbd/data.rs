//! An image's bytes: reading, writing, discarding.

use super::header::ImageState;
use super::image::{Image, Inner};
use super::layout::ObjectExtent;
use crate::error::Error;
use crate::operation::Operation;
use bytes::Bytes;
use std::sync::Arc;
use tokio::task::JoinSet;
use types::{Errno, SnapId};
use wire::Rope;
use wire::rbd::object_map::state;

/// Zeros shared by all reads of absent data.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Largest number of tasks of one update or read.
const TASKS_MAX: usize = 32;

/// Change of a range of one object.
#[derive(Clone)]
pub(super) enum Change {
    Write(Rope),
    /// The range reads as zeros afterwards.
    Discard,
}

impl Image {
    /// Reads a range. Errors: `EINVAL` if it reaches beyond the image's end.
    pub async fn read(&self, offset: u64, length: u64) -> Result<Rope, Error> {
        let state = self.inner.fresh().await?;
        check_range(&state, offset, length)?;
        let mut extents = self.inner.fixed.layout.extents(offset, length);
        if extents.len() == 1 {
            let extent = extents.pop().expect("there is one");
            return self.inner.read_object(&state, &extent).await;
        }
        let mut under_way = JoinSet::new();
        for (index, extent) in extents.iter().cloned().enumerate() {
            let (inner, state) = (self.inner.clone(), state.clone());
            under_way.spawn(async move { Ok::<_, Error>((index, inner.read_object(&state, &extent).await?)) });
        }
        let mut pieces = Vec::new();
        while let Some(done) = under_way.join_next().await {
            let (index, data) = done.map_err(|_| Error::Closed)??;
            let mut at = 0;
            for (image_offset, len) in &extents[index].parts {
                pieces.push((*image_offset, data.slice(at, *len as usize)));
                at += *len as usize;
            }
        }
        pieces.sort_unstable_by_key(|(image_offset, _)| *image_offset);
        let mut all = Rope::new();
        pieces.into_iter().for_each(|(_, piece)| all.append(piece));
        Ok(all)
    }

    /// Writes a range, durably. Errors: `EINVAL` beyond the image's end, `EROFS` for an image that was opened for
    /// reading or whose lock another client keeps, `EBLOCKLISTED` once the lock was lost, [`Error::InDoubt`] once the
    /// outcome of an update has stayed unknown.
    pub async fn write(&self, offset: u64, data: impl Into<Rope>) -> Result<(), Error> {
        let (inner, data) = (self.inner.clone(), data.into());
        self.inner.to_the_end(async move { inner.write(offset, data).await }).await
    }

    /// Makes a range read as zeros, and frees its space. Errors as for [`Image::write`].
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), Error> {
        let inner = self.inner.clone();
        let discarding = async move {
            let (_turn, state) = inner.update_turn().await?;
            check_range(&state, offset, length)?;
            let extents = inner.fixed.layout.extents(offset, length);
            inner.change_objects(&state, extents.into_iter().map(|extent| (extent, Change::Discard)).collect()).await
        };
        self.inner.to_the_end(discarding).await
    }

    /// Makes a range read as zeros, as [`Image::discard`] does: a discard is exact and leaves no part of the range as
    /// it was.
    pub async fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.discard(offset, length).await
    }
}

fn check_range(state: &ImageState, offset: u64, length: u64) -> Result<(), Error> {
    match offset.checked_add(length) {
        Some(end) if end <= state.size => Ok(()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `length` zeros, without memory of their own.
pub(super) fn zeros(mut length: u64) -> Rope {
    let mut rope = Rope::new();
    while length > 0 {
        let piece = length.min(ZEROS.len() as u64);
        rope.push(Bytes::from_static(&ZEROS[..piece as usize]));
        length -= piece;
    }
    rope
}

impl Inner {
    async fn write(self: &Arc<Inner>, offset: u64, data: Rope) -> Result<(), Error> {
        let (_turn, state) = self.update_turn().await?;
        check_range(&state, offset, data.len() as u64)?;
        let mut extents = self.fixed.layout.extents(offset, data.len() as u64);
        if extents.len() == 1 {
            let extent = extents.pop().expect("there is one");
            return self.change_object(&state, &extent, Change::Write(data)).await;
        }
        let changes = extents.into_iter().map(|extent| {
            let mut piece = Rope::new();
            for (from, len) in &extent.parts {
                piece.append(data.slice((from - offset) as usize, *len as usize));
            }
            (extent, Change::Write(piece))
        });
        self.change_objects(&state, changes.collect()).await
    }

    async fn read_object(self: &Arc<Inner>, state: &ImageState, extent: &ObjectExtent) -> Result<Rope, Error> {
        // The map is true only as long as no other client may write.
        let is_owner = self.opening.at == SnapId::HEAD && matches!(self.lock.is_held(), Ok(true));
        if is_owner && state.overlap() == 0 && self.known.is_absent(extent.object) {
            return Ok(zeros(extent.length));
        }
        let _slot = self.slots.acquire().await.map_err(|_| Error::Closed)?;
        let operation = Operation::new().read(extent.offset, extent.length);
        let mut data = match self.data.operate(self.object_name(extent.object), operation).await {
            Ok(outcome) => outcome.part(0)?.output.clone(),
            Err(Error::Errno(Errno::ENOENT)) => self.read_parent(state, &extent.parts).await?,
            Err(error) => return Err(error),
        };
        let read = data.len() as u64;
        if read > extent.length {
            return Err(Error::Answer(format!("{read} bytes read of {}", extent.length)));
        }
        // The object ends behind the last byte written to it.
        data.append(zeros(extent.length - read));
        Ok(data)
    }

    /// Changes several objects at once. After the first error no further change begins; those in flight are waited for.
    pub async fn change_objects(
        self: &Arc<Inner>,
        state: &Arc<ImageState>,
        changes: Vec<(ObjectExtent, Change)>,
    ) -> Result<(), Error> {
        let mut under_way = JoinSet::new();
        let mut result = Ok(());
        let mut changes = changes.into_iter();
        loop {
            // A semaphore bounds the operations in flight of all users of the image. This bounds the tasks that wait
            // for it.
            while under_way.len() < TASKS_MAX
                && result.is_ok()
                && let Some((extent, change)) = changes.next()
            {
                let (inner, state) = (self.clone(), state.clone());
                under_way.spawn(async move { inner.change_object(&state, &extent, change).await });
            }
            match under_way.join_next().await {
                Some(done) => result = result.and(done.unwrap_or(Err(Error::Closed))),
                None => return result,
            }
        }
    }

    /// Changes one object. The caller holds an update turn.
    pub async fn change_object(
        self: &Arc<Inner>,
        now: &ImageState,
        extent: &ObjectExtent,
        change: Change,
    ) -> Result<(), Error> {
        let _slot = self.slots.acquire().await.map_err(|_| Error::Closed)?;
        let whole = extent.offset == 0 && extent.length == self.fixed.layout.object_bytes();
        // Ranges of the object that the parent has.
        let overlap = self.overlap_of(now, extent.object);
        if !overlap.is_empty() {
            return self.change_clone(now, extent, &change, whole, overlap).await;
        }
        match change {
            Change::Discard if whole => self.remove_object(now, extent.object).await,
            // An absent object reads as zeros already.
            Change::Discard if self.known.is_absent(extent.object) => Ok(()),
            // A discard makes no object, so the object map needs no note that the object exists.
            Change::Discard => self.discard_in_place(now, extent, self.operation(extent, &change, whole, false)).await,
            Change::Write(_) => {
                let _writing = self.note_written(extent.object).await?;
                self.update_object(now, extent.object, self.operation(extent, &change, whole, false)).await
            }
        }
    }

    /// The operation on the object that makes the change. `hides`: the object must exist afterwards, so that it hides
    /// its parent's data.
    pub fn operation(&self, extent: &ObjectExtent, change: &Change, whole: bool, hides: bool) -> Operation {
        let object_bytes = self.fixed.layout.object_bytes();
        match change {
            Change::Write(data) if whole => Operation::new().write_full(data.clone()),
            Change::Write(data) => {
                let operation = match self.known.is_noted(extent.object) {
                    true => Operation::new(),
                    false => Operation::new().allocation_hint(object_bytes, object_bytes),
                };
                operation.write(extent.offset, data.clone())
            }
            Change::Discard if hides => {
                let operation = Operation::new().create(false);
                match extent.offset + extent.length == object_bytes {
                    true => operation.truncate(extent.offset),
                    false => operation.zero(extent.offset, extent.length),
                }
            }
            Change::Discard if extent.offset + extent.length == object_bytes => {
                Operation::new().truncate(extent.offset)
            }
            Change::Discard => Operation::new().zero(extent.offset, extent.length),
        }
    }

    pub async fn update_object(&self, now: &ImageState, object: u64, operation: Operation) -> Result<(), Error> {
        let name = self.object_name(object);
        match now.context.snaps.is_empty() && now.context.seq == SnapId(0) {
            true => self.change(&self.data, name, operation).await.map(drop),
            false => self.change(&self.data.under(now.context.clone())?, name, operation).await.map(drop),
        }
    }

    /// Removes an object, if it exists. The parent must have nothing in its place.
    pub async fn remove_object(&self, now: &ImageState, object: u64) -> Result<(), Error> {
        if self.known.is_absent(object) {
            return Ok(());
        }
        let _turn = self.known.turn(object).await;
        let removing = self.known.begin_removal(object);
        self.note(object, state::PENDING, None).await?;
        match self.update_object(now, object, Operation::new().remove()).await {
            Ok(()) | Err(Error::Errno(Errno::ENOENT)) => {}
            Err(error) => return Err(error),
        }
        self.note(object, removing.state_after(), Some(state::PENDING)).await
    }

    /// Makes a range of an object that may exist read as zeros, by `operation`, which must not make the object.
    pub async fn discard_in_place(
        &self,
        now: &ImageState,
        extent: &ObjectExtent,
        operation: Operation,
    ) -> Result<(), Error> {
        let object = extent.object;
        let _turn = self.known.turn(object).await;
        if self.known.is_clean(object) {
            // If there is nothing to discard, the object keeps counting as not written since the newest snapshot.
            match self.data.stat(self.object_name(object)).await {
                Ok(found) if found.size_bytes > extent.offset => {}
                Ok(_) | Err(Error::Errno(Errno::ENOENT)) => return Ok(()),
                Err(error) => return Err(error),
            }
            self.note(object, state::EXISTS, None).await?;
        }
        match self.update_object(now, object, operation).await {
            Ok(()) | Err(Error::Errno(Errno::ENOENT)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
