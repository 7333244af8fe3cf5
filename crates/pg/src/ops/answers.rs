//! What the store has answered to one operation, kept over its runs.

use crate::lookup::{NoAnswer, ready};
use crate::object_info::ObjectInfo;
use bytes::Bytes;
use std::sync::Arc;
use store::{Lookup, LookupId, ObjectStat, ReadError, Store};
use types::{Errno, ObjectId};
use wire::{DecodeError, Rope};

/// How often keys and values of an omap are in memory at the most, as they are encoded for their answer.
const OMAP_COPIES: usize = 6;
/// Bytes of keys and values that one listing returns at most.
const LISTING_BYTES_MAX: usize = 4 << 20;

/// Answers to the lookups of one operation, in the order in which its steps make them. A run that comes back to a lookup
/// finds its answer here: so a later run sees the same object, and an operation that waits for several lookups one after
/// another gets on with each, however soon the store forgets.
#[derive(Debug, Default)]
pub struct Answers {
    stat: Option<Option<Arc<ObjectStat>>>,
    /// The object information in it.
    info: Option<Arc<ObjectInfo>>,
    /// The state of the object that a snapshot preserves and that is read, or gone back to.
    clone: Option<(ObjectId, Option<Arc<ObjectStat>>)>,
    answers: Vec<Answer>,
    /// Lookups that the present run has made so far, the first one of the object's state left out.
    made: usize,
    /// What the present run's answers take in memory, and may at most.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
enum Answer {
    Extents(Vec<(u64, u64)>),
    Header(Bytes),
    /// `None`: they are too large.
    Values(Option<Vec<(Bytes, Bytes)>>),
    Page(Vec<(Bytes, Bytes)>, bool),
    /// Bytes of the object; `None` while they are on their way.
    Data(LookupId, Option<Result<Rope, ReadError>>),
}

impl Answers {
    /// A run begins, whose answers may take so many bytes.
    pub(super) fn rewind(&mut self, bytes_max: usize) {
        (self.made, self.bytes, self.bytes_max) = (0, 0, bytes_max);
    }

    /// What the last run's answers take in memory, those included that are on their way.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes more are going to be in memory. EMSGSIZE: they are too many.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Errno> {
        if bytes > self.room() {
            return Err(Errno::EMSGSIZE);
        }
        self.bytes += bytes as usize;
        Ok(())
    }

    /// The same for keys and values of an omap. Alone, they may take what they need.
    fn take_omap(&mut self, bytes: usize) {
        self.bytes = self.bytes_max.min(self.bytes + bytes * OMAP_COPIES);
    }

    /// Bytes for which there is room.
    pub(super) fn room(&self) -> u64 {
        (self.bytes_max - self.bytes) as u64
    }

    /// Bytes of keys and values for which there is room.
    fn omap_room(&self) -> usize {
        (self.bytes_max - self.bytes) / OMAP_COPIES
    }

    /// The object as the operation found it.
    pub(super) fn stat(&mut self, store: &mut Store, object: &ObjectId) -> Result<Option<Arc<ObjectStat>>, NoAnswer> {
        if self.stat.is_none() {
            self.stat = Some(ready(store.stat(object))?);
        }
        Ok(self.stat.clone().expect("just set"))
    }

    /// The object information in `stat`, which is what [`Self::stat`] gave.
    pub(super) fn info(&mut self, stat: &ObjectStat) -> Result<Arc<ObjectInfo>, DecodeError> {
        if self.info.is_none() {
            self.info = Some(Arc::new(ObjectInfo::of(stat)?));
        }
        Ok(self.info.clone().expect("just set"))
    }

    /// The object at a snapshot, of which one operation needs one.
    pub(super) fn clone_stat(
        &mut self,
        store: &mut Store,
        object: &ObjectId,
    ) -> Result<Option<Arc<ObjectStat>>, NoAnswer> {
        match &self.clone {
            Some((known, stat)) if known == object => Ok(stat.clone()),
            _ => {
                let stat = ready(store.stat(object))?;
                self.clone = Some((object.clone(), stat.clone()));
                Ok(stat)
            }
        }
    }

    /// The object, or the state of it that is read, as the operation has found it, if it has and there is one.
    pub fn known_stat(&self) -> Option<&ObjectStat> {
        match &self.clone {
            Some((_, stat)) => stat.as_deref(),
            None => self.stat.as_ref()?.as_deref(),
        }
    }

    /// The next answer: one that is there, as `known` finds it, or else the store's, kept as `keep` says.
    fn answer<T: Clone>(
        &mut self,
        known: impl FnOnce(&Answer) -> Option<T>,
        ask: impl FnOnce() -> Lookup<T>,
        keep: impl FnOnce(T) -> Answer,
    ) -> Result<T, NoAnswer> {
        let at = self.made;
        self.made += 1;
        match self.answers.get(at) {
            Some(answer) => Ok(known(answer).unwrap_or_else(|| panic!("lookup {at} was {answer:?} in another run"))),
            None => {
                let value = ready(ask())?;
                self.answers.push(keep(value.clone()));
                Ok(value)
            }
        }
    }

    /// Ranges (offset, length) within `offset .. offset + len` that hold data.
    pub(super) fn extents(
        &mut self,
        store: &mut Store,
        object: &ObjectId,
        (offset, len): (u64, u64),
    ) -> Result<Vec<(u64, u64)>, NoAnswer> {
        let known = |answer: &Answer| match answer {
            Answer::Extents(extents) => Some(extents.clone()),
            _ => None,
        };
        self.answer(known, || store.extents(object, offset, len), Answer::Extents)
    }

    pub(super) fn omap_header(&mut self, store: &mut Store, object: &ObjectId) -> Result<Bytes, NoAnswer> {
        let known = |answer: &Answer| match answer {
            Answer::Header(header) => Some(header.clone()),
            _ => None,
        };
        self.answer(known, || store.omap_header(object), Answer::Header)
    }

    /// Those of `keys` that the omap has. `None`: their values are too large to be given.
    pub(super) fn omap_get(
        &mut self,
        store: &mut Store,
        object: &ObjectId,
        keys: &[Bytes],
    ) -> Result<Option<Vec<(Bytes, Bytes)>>, NoAnswer> {
        let known = |answer: &Answer| match answer {
            Answer::Values(values) => Some(values.clone()),
            _ => None,
        };
        // One value alone is given, however large.
        let room = if self.bytes == 0 && keys.len() == 1 { usize::MAX } else { self.omap_room() };
        let values = self.answer(known, || store.omap_get(object, keys, room), Answer::Values)?;
        self.take_omap(values.iter().flatten().map(entry_bytes).sum());
        Ok(values)
    }

    /// At most `max` entries behind `after` that begin with `prefix`, as many as there is room for, and whether there are more.
    pub(super) fn omap_list(
        &mut self,
        store: &mut Store,
        object: &ObjectId,
        (after, prefix): (&[u8], &[u8]),
        max: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), NoAnswer> {
        let known = |answer: &Answer| match answer {
            Answer::Page(entries, more) => Some((entries.clone(), *more)),
            _ => None,
        };
        let keep = |(entries, more)| Answer::Page(entries, more);
        let most = (max, self.omap_room().min(LISTING_BYTES_MAX));
        let (entries, more) = self.answer(known, || store.omap_page(object, after, prefix, most), keep)?;
        self.take_omap(entries.iter().map(entry_bytes).sum());
        Ok((entries, more))
    }

    /// The bytes `offset .. offset + len`, clipped to the object's size.
    pub(super) fn read(
        &mut self,
        store: &mut Store,
        object: &ObjectId,
        (offset, len): (u64, u64),
    ) -> Result<Result<Rope, ReadError>, NoAnswer> {
        let at = self.made;
        self.made += 1;
        match self.answers.get(at) {
            Some(Answer::Data(_, Some(result))) => return Ok(result.clone()),
            Some(Answer::Data(id, None)) => return Err(NoAnswer::Pending(*id)),
            Some(other) => panic!("lookup {at} was {other:?} in another run"),
            None => {}
        }
        match store.read(object, offset, len) {
            Lookup::Pending(id) => {
                self.answers.push(Answer::Data(id, None));
                Err(NoAnswer::Pending(id))
            }
            lookup => {
                let bytes = ready(lookup)?;
                // Its id is never asked for.
                self.answers.push(Answer::Data(LookupId(0), Some(Ok(bytes.clone()))));
                Ok(Ok(bytes))
            }
        }
    }

    /// The bytes `offset .. offset + len` of an object whose shards lie on several OSDs. `None`: they must be gathered, and
    /// [`Answers::waits_for_data`] must name that.
    pub(super) fn gathered(&mut self) -> Result<Option<Result<Rope, ReadError>>, NoAnswer> {
        let at = self.made;
        self.made += 1;
        match self.answers.get(at) {
            Some(Answer::Data(_, Some(result))) => Ok(Some(result.clone())),
            Some(Answer::Data(id, None)) => Err(NoAnswer::Pending(*id)),
            Some(other) => panic!("lookup {at} was {other:?} in another run"),
            None => Ok(None),
        }
    }

    /// What the last run lacked is being gathered.
    pub fn waits_for_data(&mut self, id: LookupId) {
        self.answers.push(Answer::Data(id, None));
    }

    /// A data read has ended. Nothing happens if it is none of these.
    pub fn read_done(&mut self, id: LookupId, result: Result<Rope, ReadError>) {
        let waiting = self.answers.iter_mut().find_map(|answer| match answer {
            Answer::Data(read, bytes @ None) if *read == id => Some(bytes),
            _ => None,
        });
        if let Some(bytes) = waiting {
            *bytes = Some(result);
        }
    }
}

fn entry_bytes((key, value): &(Bytes, Bytes)) -> usize {
    key.len() + value.len()
}
