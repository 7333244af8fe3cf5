//! Data objects: filled from the parent, guarded against old snapshots, freed of zeros.

use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;
use wire::Reader;

/// Fills an object that does not exist yet. An object that exists stays as it is: a client has written to it meanwhile.
pub(super) fn copyup(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    if !object.exists()? {
        object.write(0, Bytes::copy_from_slice(input.peek()))?;
    }
    Ok(Output::none())
}

/// Fills an object that does not exist yet with ranges (offset and length), whose bytes follow each other.
pub(super) fn sparse_copyup(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (extents, data): (BTreeMap<u64, u64>, Bytes) = (input.get()?, input.get()?);
    if object.exists()? {
        return Ok(Output::none());
    }
    if extents.is_empty() {
        object.create(true)?;
        return Ok(Output::none());
    }
    let mut at = 0usize;
    for (offset, len) in extents {
        let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len)).filter(|end| *end <= data.len());
        let end = end.ok_or(Errno::EINVAL)?;
        object.write(offset, data.slice(at..end))?;
        at = end;
    }
    Ok(Output::none())
}

/// Conditions of [`assert_snap_context`].
mod assertion {
    /// The object was last written under older snapshots than the given one, or never.
    pub const OLDER: u8 = 0;
    /// The object was last written under the given snapshot or a newer one.
    pub const NOT_OLDER: u8 = 1;
}

/// Compares the snapshot that the object was last written under with the given one. ERANGE unless the wanted condition
/// holds.
pub(super) fn assert_snap_context(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (given, wanted) = (input.u64()?, input.u8()?);
    let written_under = object.stat()?.map(|_| object.snap_seq());
    let holds = match wanted {
        assertion::OLDER => written_under.is_none_or(|seq| given > seq),
        assertion::NOT_OLDER => written_under.is_some_and(|seq| given <= seq),
        _ => return Err(Errno::EOPNOTSUPP.into()),
    };
    if holds { Ok(Output::none()) } else { Err(Errno::ERANGE.into()) }
}

/// Frees blocks of the given size that hold only zeros; on request also removes the object if all of them do.
pub(super) fn sparsify(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (block, remove_empty) = (input.u64()?, input.bool()?);
    if block == 0 {
        return Err(Errno::EINVAL.into());
    }
    let size = object.must_exist()?.size;
    let data = object.read(0, 0)?;
    let is_zero = |bytes: &[u8]| bytes.iter().all(|b| *b == 0);
    let block_bytes = usize::try_from(block).map_err(|_| Errno::EINVAL)?;
    let mut end_of_data = 0;
    let mut holes: Vec<(u64, u64)> = Vec::new();
    for (i, bytes) in data.chunks(block_bytes).enumerate() {
        let offset = i as u64 * block;
        if !is_zero(bytes) {
            end_of_data = offset + bytes.len() as u64;
        } else if let Some((start, len)) = holes.last_mut().filter(|(start, len)| start + len == offset) {
            *len = offset + bytes.len() as u64 - *start;
        } else {
            holes.push((offset, bytes.len() as u64));
        }
    }
    if end_of_data == 0 && remove_empty {
        object.remove()?;
        return Ok(Output::none());
    }
    for (offset, len) in holes.into_iter().filter(|(offset, _)| *offset < end_of_data) {
        object.zero(offset, len)?;
    }
    if end_of_data < size {
        object.truncate(end_of_data)?;
    }
    Ok(Output::none())
}
