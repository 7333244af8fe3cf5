//! The store's answers to one operation, kept over its runs.

use crate::copy::CopySource;
use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::ObjectInfo;
use bytes::Bytes;
use std::sync::Arc;
use store::btree::Damage;
use store::{Lookup, LookupId, ObjectStat, ReadError, Store};
use types::{Errno, ObjectId};
use wire::{DecodeError, Rope};

/// Copies of an omap's keys and values in memory at the most, as they are encoded for their answer.
const OMAP_COPIES: usize = 6;
/// Copies of the ranges of an object that hold data, in the same way; 16 bytes for each range.
const EXTENT_COPIES: usize = 4;
/// Bytes of keys and values that one listing returns at most.
const LISTING_BYTES_MAX: usize = 4 << 20;

/// Answers to the lookups of one operation, in the order in which its steps make them. A run that comes back to a
/// lookup finds its answer here: so a later run sees the same object, and an operation that waits for several lookups
/// one after another gets on with each, however soon the store forgets. Each says what it answers: should a later run
/// ask something else in its place, it and those behind it are forgotten.
#[derive(Debug, Default)]
pub struct Answers {
    stat: Option<Option<Arc<ObjectStat>>>,
    /// The object information in `stat`.
    info: Option<Arc<ObjectInfo>>,
    /// The state of the object that a snapshot preserves and that is read, or gone back to.
    clone: Option<(ObjectId, Option<Arc<ObjectStat>>)>,
    answers: Vec<(Question, Answer)>,
    /// Lookups that the present run has made so far, the first one of the object's state left out.
    made: usize,
    /// Question of the present run that somebody else than the store must answer.
    wanted: Option<Question>,
    /// Memory that the present run's answers and outputs take, in bytes, and its limit.
    bytes: usize,
    bytes_max: usize,
}

/// Subject of a lookup.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Question {
    Extents(ObjectId, (u64, u64)),
    Header(ObjectId),
    /// Keys, with the bytes of values for which there is room.
    Values(ObjectId, Vec<Bytes>, usize),
    /// Page behind a key and with a prefix, of at most so many entries and bytes.
    Page(ObjectId, Bytes, Bytes, (usize, usize)),
    Data(ObjectId, (u64, u64)),
    Copy(CopySource),
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
    /// The answer cannot be known. The operation may go on without.
    Damaged(Damage),
}

impl Answers {
    /// Begins a run, whose answers and outputs may take so many bytes.
    pub(super) fn rewind(&mut self, bytes_max: usize) {
        (self.made, self.bytes, self.bytes_max) = (0, 0, bytes_max);
        self.wanted = None;
    }

    /// Returns the memory of the last run's answers and outputs, with the ones that are on their way.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts so many bytes more that are going to be in memory. Errors: EMSGSIZE if they are too many.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Errno> {
        self.check(bytes)?;
        self.bytes += bytes as usize;
        Ok(())
    }

    /// Checks that there is room for so many bytes more. Errors: EMSGSIZE if there is not.
    pub(super) fn check(&self, bytes: u64) -> Result<(), Errno> {
        if bytes > self.room() { Err(Errno::EMSGSIZE) } else { Ok(()) }
    }

    /// Counts keys and values of an omap that are going to be in memory. Alone, they may take what they need.
    fn take_omap(&mut self, bytes: usize) {
        self.bytes = self.bytes_max.min(self.bytes + bytes * OMAP_COPIES);
    }

    /// Returns the bytes for which there is room.
    pub(super) fn room(&self) -> u64 {
        (self.bytes_max - self.bytes) as u64
    }

    /// Returns the bytes of keys and values for which there is room.
    fn omap_room(&self) -> usize {
        (self.bytes_max - self.bytes) / OMAP_COPIES
    }

    /// Returns the object as the operation found it.
    pub(super) fn stat(&mut self, store: &mut Store, object: &ObjectId) -> Result<Option<Arc<ObjectStat>>, NoAnswer> {
        if self.stat.is_none() {
            self.stat = Some(ready(store.stat(object))?);
        }
        Ok(self.stat.clone().expect("just set"))
    }

    /// Returns the object information in `stat`, which is what [`Self::stat`] gave.
    pub(super) fn info(&mut self, stat: &ObjectStat) -> Result<Arc<ObjectInfo>, DecodeError> {
        if self.info.is_none() {
            self.info = Some(Arc::new(ObjectInfo::of(stat)?));
        }
        Ok(self.info.clone().expect("just set"))
    }

    /// Returns the object at a snapshot, of which one operation needs one.
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

    /// Returns the object, or the state of it that is read, as the operation has found it, if it has and there is one.
    pub fn known_stat(&self) -> Option<&ObjectStat> {
        match &self.clone {
            Some((_, stat)) => stat.as_deref(),
            None => self.stat.as_ref()?.as_deref(),
        }
    }

    /// Returns the next answer, if it is there. An answer to something else is forgotten, with all behind it.
    fn known(&mut self, question: &Question) -> Option<&Answer> {
        let at = self.made;
        self.made += 1;
        if self.answers.get(at).is_some_and(|(asked, _)| asked != question) {
            tracing::debug!(?question, "an operation asks something else than it did in another run");
            self.answers.truncate(at);
        }
        self.answers.get(at).map(|(_, answer)| answer)
    }

    /// Returns the next answer: one that is there, as `known` finds it, or else the store's, kept as `keep` says.
    fn answer<T: Clone>(
        &mut self,
        question: Question,
        known: impl FnOnce(&Answer) -> Option<T>,
        ask: impl FnOnce() -> Lookup<T>,
        keep: impl FnOnce(T) -> Answer,
    ) -> Result<T, NoAnswer> {
        match self.known(&question) {
            Some(Answer::Damaged(damage)) => return Err(NoAnswer::Damaged(damage.clone())),
            Some(answer) => return Ok(known(answer).expect("each kind of question has its kind of answer")),
            None => {}
        }
        let value = ready(ask()).inspect_err(|why| self.keep_damage(&question, why))?;
        self.answers.push((question, keep(value.clone())));
        Ok(value)
    }

    /// Keeps the damage that a lookup met as its answer. Without it, a later answer would be taken for this lookup's.
    fn keep_damage(&mut self, question: &Question, why: &NoAnswer) {
        if let NoAnswer::Damaged(damage) = why {
            self.answers.push((question.clone(), Answer::Damaged(damage.clone())));
        }
    }

    /// Returns ranges (offset, length) within `offset .. offset + len` that hold data. EMSGSIZE: they are too many.
    pub(super) fn extents(
        &mut self,
        store: &mut Store,
        object: &ObjectId,
        (offset, len): (u64, u64),
    ) -> Result<Result<Vec<(u64, u64)>, Errno>, NoAnswer> {
        let known = |answer: &Answer| match answer {
            Answer::Extents(extents) => Some(extents.clone()),
            _ => None,
        };
        let question = Question::Extents(object.clone(), (offset, len));
        let extents = self.answer(question, known, || store.extents(object, offset, len), Answer::Extents)?;
        let taken = self.take((size_of_val(&extents[..]) * EXTENT_COPIES) as u64);
        Ok(taken.map(|()| extents))
    }

    pub(super) fn omap_header(&mut self, store: &mut Store, object: &ObjectId) -> Result<Bytes, NoAnswer> {
        let known = |answer: &Answer| match answer {
            Answer::Header(header) => Some(header.clone()),
            _ => None,
        };
        self.answer(Question::Header(object.clone()), known, || store.omap_header(object), Answer::Header)
    }

    /// Returns the entries of `keys` that the omap has. `None`: their values are too large to be given.
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
        let question = Question::Values(object.clone(), keys.to_vec(), room);
        let values = self.answer(question, known, || store.omap_get(object, keys, room), Answer::Values)?;
        self.take_omap(values.iter().flatten().map(entry_bytes).sum());
        Ok(values)
    }

    /// Returns at most `max` entries behind `after` that begin with `prefix`, as many as there is room for; and true if
    /// there are more.
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
        let question = Question::Page(object.clone(), own(after), own(prefix), most);
        let (entries, more) = self.answer(question, known, || store.omap_page(object, after, prefix, most), keep)?;
        self.take_omap(entries.iter().map(entry_bytes).sum());
        Ok((entries, more))
    }

    /// Returns the bytes `offset .. offset + len`, clipped to the object's size.
    pub(super) fn read(
        &mut self,
        store: &mut Store,
        object: &ObjectId,
        (offset, len): (u64, u64),
    ) -> Result<Result<Rope, ReadError>, NoAnswer> {
        let question = Question::Data(object.clone(), (offset, len));
        if let Some(result) = self.known_data(&question)? {
            return Ok(result);
        }
        match store.read(object, offset, len) {
            Lookup::Pending(id) => {
                self.answers.push((question, Answer::Data(id, None)));
                Err(NoAnswer::Pending(id))
            }
            lookup => {
                let bytes = ready(lookup).inspect_err(|why| self.keep_damage(&question, why))?;
                // The lookup's id is never asked for.
                self.answers.push((question, Answer::Data(LookupId(0), Some(Ok(bytes.clone())))));
                Ok(Ok(bytes))
            }
        }
    }

    /// Returns the bytes `offset .. offset + len` of an object whose shards lie on several OSDs. `None`: they must be
    /// gathered, and [`Answers::waits_for_data`] must name that.
    pub(super) fn gathered(
        &mut self,
        object: &ObjectId,
        range: (u64, u64),
    ) -> Result<Option<Result<Rope, ReadError>>, NoAnswer> {
        self.found_out(Question::Data(object.clone(), range))
    }

    /// Returns an object that is copied, as [`crate::copy::Copied::into_rope`] makes it. `None`: it must be fetched,
    /// and [`Answers::waits_for_data`] must name that.
    pub(super) fn copied(&mut self, source: &CopySource) -> Result<Option<Result<Rope, ReadError>>, NoAnswer> {
        self.found_out(Question::Copy(source.clone()))
    }

    fn found_out(&mut self, question: Question) -> Result<Option<Result<Rope, ReadError>>, NoAnswer> {
        let found = self.known_data(&question)?;
        if found.is_none() {
            self.wanted = Some(question);
        }
        Ok(found)
    }

    fn known_data(&mut self, question: &Question) -> Result<Option<Result<Rope, ReadError>>, NoAnswer> {
        match self.known(question) {
            Some(Answer::Data(_, Some(result))) => Ok(Some(result.clone())),
            Some(Answer::Data(id, None)) => Err(NoAnswer::Pending(*id)),
            Some(Answer::Damaged(damage)) => Err(NoAnswer::Damaged(damage.clone())),
            Some(other) => unreachable!("bytes were asked for, and the answer is {other:?}"),
            None => Ok(None),
        }
    }

    /// Notes that the data which the last run lacked is being gathered, or fetched.
    pub fn waits_for_data(&mut self, id: LookupId) {
        let question = self.wanted.take().expect("the last run has asked for something");
        self.answers.push((question, Answer::Data(id, None)));
    }

    /// Keeps the outcome of a data read that has ended. Nothing happens if it is none of these.
    pub fn read_done(&mut self, id: LookupId, result: Result<Rope, ReadError>) {
        let waiting = self.answers.iter_mut().find_map(|(_, answer)| match answer {
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

fn own(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    #[test]
    fn what_is_asked_instead_of_something_else_gets_its_own_answer() {
        let object = ObjectId::head(PoolId(1), 7, b"", b"name");
        let header = || Question::Header(object.clone());
        let extents = |offset| Question::Extents(object.clone(), (offset, 10));
        let ask_header = |answers: &mut Answers, text: &'static [u8]| {
            let known = |answer: &Answer| if let Answer::Header(header) = answer { Some(header.clone()) } else { None };
            answers.answer(header(), known, || Lookup::Ready(Bytes::from_static(text)), Answer::Header)
        };
        let ask_extents = |answers: &mut Answers, offset, found: Lookup<Vec<(u64, u64)>>| {
            let known = |answer: &Answer| if let Answer::Extents(found) = answer { Some(found.clone()) } else { None };
            answers.answer(extents(offset), known, || found, Answer::Extents)
        };
        let mut answers = Answers::default();
        let pending = || Lookup::Pending(LookupId(5));
        answers.rewind(1000);
        assert_eq!(ask_header(&mut answers, b"a"), Ok(Bytes::from_static(b"a")));
        assert_eq!(ask_extents(&mut answers, 0, Lookup::Ready(vec![(0, 1)])), Ok(vec![(0, 1)]));
        assert_eq!(ask_extents(&mut answers, 50, pending()), Err(NoAnswer::Pending(LookupId(5))));
        // A question that was answered is not asked again; another one in its place is, and all behind it.
        answers.rewind(1000);
        assert_eq!(ask_header(&mut answers, b"b"), Ok(Bytes::from_static(b"a")));
        assert_eq!(ask_extents(&mut answers, 7, Lookup::Ready(vec![(7, 3)])), Ok(vec![(7, 3)]));
        assert_eq!(ask_header(&mut answers, b"c"), Ok(Bytes::from_static(b"c")));
        answers.rewind(1000);
        assert_eq!(ask_extents(&mut answers, 0, Lookup::Ready(vec![(0, 2)])), Ok(vec![(0, 2)]));
        assert_eq!(ask_header(&mut answers, b"d"), Ok(Bytes::from_static(b"d")));
        // Bytes that are asked for where there was something else.
        answers.rewind(1000);
        assert_eq!(answers.gathered(&object, (0, 5)), Ok(None));
        answers.waits_for_data(LookupId(9));
        answers.rewind(1000);
        assert_eq!(answers.gathered(&object, (0, 5)), Err(NoAnswer::Pending(LookupId(9))));
        assert_eq!(answers.gathered(&object, (0, 6)), Ok(None));
    }
}
