//! Names and ids of a pool's images.

use super::{EBADF, ESTALE};
use crate::object::{Object, Output, Stop, decode_stored};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;
use wire::Reader;

const NAME_PREFIX: &str = "name_";
const ID_PREFIX: &str = "id_";
const STATE: &str = "state";

/// States of a directory.
mod state {
    pub const READY: u8 = 0;
    /// No image may be added: the directory is about to be removed.
    pub const ADD_DISABLED: u8 = 1;
}

pub(super) fn prefixed(prefix: &str, rest: &[u8]) -> Bytes {
    [prefix.as_bytes(), rest].concat().into()
}

/// At most `max` entries after `start` whose keys begin with `prefix`, which is cut off.
pub(super) fn page(object: &mut dyn Object, prefix: &str, start: &[u8], max: u64) -> Result<Vec<(Bytes, Bytes)>, Stop> {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let mut after = if start.is_empty() { Bytes::new() } else { prefixed(prefix, start) };
    let mut entries = Vec::new();
    let mut more = true;
    while more && entries.len() < max {
        let (page, has_more) = object.omap_list(&after, prefix.as_bytes(), (max - entries.len()).min(256))?;
        more = has_more && !page.is_empty();
        after = page.last().map(|(key, _)| key.clone()).unwrap_or_default();
        entries.extend(page.into_iter().map(|(key, value)| (key.slice(prefix.len()..), value)));
    }
    Ok(entries)
}

fn check_id(id: &[u8]) -> Result<(), Stop> {
    let is_valid = !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric);
    if is_valid { Ok(()) } else { Err(Errno::EINVAL.into()) }
}

/// Gives an image's id, which is the content of the object named after the image.
pub(super) fn get_id(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    if object.must_exist()?.size == 0 {
        return Err(Errno::ENOENT.into());
    }
    let data = object.read(0, 0)?;
    let id: Bytes = decode_stored(&data)?;
    Ok(Output::of(|w| w.put(&id)))
}

pub(super) fn set_id(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    object.must_exist()?;
    let id: Bytes = input.get()?;
    check_id(&id)?;
    if object.must_exist()?.size != 0 {
        return Err(Errno::EEXIST.into());
    }
    object.write(0, crate::object::encoded(&id))?;
    Ok(Output::none())
}

pub(super) fn id_of(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let name: Bytes = input.get()?;
    let id: Bytes = object.must_have(prefixed(NAME_PREFIX, &name))?;
    Ok(Output::of(|w| w.put(&id)))
}

pub(super) fn name_of(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let id: Bytes = input.get()?;
    let name: Bytes = object.must_have(prefixed(ID_PREFIX, &id))?;
    Ok(Output::of(|w| w.put(&name)))
}

pub(super) fn list(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (start, max): (Bytes, u64) = (input.get()?, input.u64()?);
    let mut images: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    for (name, id) in page(object, NAME_PREFIX, &start, max)? {
        images.insert(name, decode_stored(&id)?);
    }
    Ok(Output::of(|w| w.put(&images)))
}

fn insert(object: &mut dyn Object, name: &Bytes, id: &Bytes) -> Result<(), Stop> {
    object.set_value(prefixed(NAME_PREFIX, name), id)?;
    object.set_value(prefixed(ID_PREFIX, id), name)
}

pub(super) fn add(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (name, id): (Bytes, Bytes) = (input.get()?, input.get()?);
    if name.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    check_id(&id)?;
    if object.omap_get(&prefixed(NAME_PREFIX, &name))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if object.omap_get(&prefixed(ID_PREFIX, &id))?.is_some() {
        return Err(EBADF.into());
    }
    object.create(false)?;
    insert(object, &name, &id)?;
    Ok(Output::none())
}

/// Checks that name and id belong together. ENOENT if either does not exist; ESTALE if they belong to others.
fn must_be_pair(object: &mut dyn Object, name: &Bytes, id: &Bytes) -> Result<(), Stop> {
    let stored_id: Bytes = object.must_have(prefixed(NAME_PREFIX, name))?;
    let stored_name: Bytes = object.must_have(prefixed(ID_PREFIX, id))?;
    if stored_id == *id && stored_name == *name { Ok(()) } else { Err(ESTALE.into()) }
}

pub(super) fn remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (name, id): (Bytes, Bytes) = (input.get()?, input.get()?);
    must_be_pair(object, &name, &id)?;
    object.omap_remove(vec![prefixed(NAME_PREFIX, &name), prefixed(ID_PREFIX, &id)])?;
    Ok(Output::none())
}

pub(super) fn rename(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (from, to, id): (Bytes, Bytes, Bytes) = (input.get()?, input.get()?, input.get()?);
    must_be_pair(object, &from, &id)?;
    if to.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    check_id(&id)?;
    if object.omap_get(&prefixed(NAME_PREFIX, &to))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    object.omap_remove(vec![prefixed(NAME_PREFIX, &from)])?;
    insert(object, &to, &id)?;
    Ok(Output::none())
}

pub(super) fn state_assert(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let wanted = input.u8()?;
    let have: u8 = object.must_have(STATE)?;
    if have == wanted { Ok(Output::none()) } else { Err(Errno::ENOENT.into()) }
}

pub(super) fn state_set(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let wanted = input.u8()?;
    match wanted {
        state::READY => object.create(false)?,
        state::ADD_DISABLED => {
            object.must_exist()?;
            if !object.omap_list(b"", NAME_PREFIX.as_bytes(), 1)?.0.is_empty() {
                return Err(Errno::EBUSY.into());
            }
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    object.set_value(STATE, &wanted)?;
    Ok(Output::none())
}
