//! All copies that an OSD is fetching.

use super::Copied;
use crate::ops::OP_BYTES_MAX;
use bytes::Bytes;
use mutant::Mutant;
use osdmap::OsdMap;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use store::LookupId;
use types::{EntityName, Errno, OsdId, ReqId, SnapId, Utime};
use wire::basic::{Locator, NO_SHARD, SPgId};
use wire::messages::{Op, OpCode, OpFlags, OsdOp, OsdOpReply, op_flag};
use wire::{Decode, DecodeError, Reader, Rope};

/// Bytes of an object that come in one answer.
pub(crate) const PIECE_BYTES: u64 = 8 << 20;
const OMAP_ENTRIES: u64 = 1024;
/// Result of a step whose output would bring more into memory than one operation may.
const TOO_MUCH: i32 = Errno::EMSGSIZE.as_result();
/// Time after which an unanswered question is asked again: the map may have changed, or a session broken.
const ASK_AGAIN: Duration = Duration::from_secs(3);
/// Time after which a fetch ends: two objects that are copied into each other would wait for each other for ever.
const GIVE_UP: Duration = Duration::from_secs(60);
const _: () = assert!(
    5 * ASK_AGAIN.as_millis() < GIVE_UP.as_millis(),
    "a question that was lost is repeated several times before its copy is given up"
);
const _: () = assert!(PIECE_BYTES < OP_BYTES_MAX as u64, "one operation of the source may read a piece");

/// The object that is copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopySource {
    pub name: Bytes,
    pub locator: Locator,
    pub snap: SnapId,
    /// Version that it must have, as clients see it; 0: any.
    pub version: u64,
    /// Larger ones are not copied.
    pub bytes_max: u64,
}

#[derive(Debug)]
struct Copying {
    /// Number by which the OSD that is asked recognises a question that is repeated.
    number: u64,
    source: CopySource,
    began: Duration,
    /// Time and number of the last question: answers to earlier ones do not count.
    asked: Option<(Duration, u64)>,
    /// True if the last answer has left no bytes to ask for.
    has_all_data: bool,
    has_all_omap: bool,
    /// Set by the first answer: questions name the version from then on.
    has_begun: bool,
    copied: Copied,
    /// Memory that `copied` takes.
    bytes: usize,
}

/// Fetches, by the lookups that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    questions: u64,
    running: BTreeMap<LookupId, Copying>,
    /// Fetches that are to be asked for as soon as possible.
    due: VecDeque<LookupId>,
}

impl Copying {
    fn anew(&mut self) {
        (self.has_all_data, self.has_all_omap, self.has_begun) = (false, false, false);
        (self.copied, self.bytes) = (Copied::default(), 0);
    }

    fn found_bytes(&self) -> usize {
        let Copied { data, attrs, omap_header, omap, .. } = &self.copied;
        data.len() + omap_header.len() + attrs.iter().chain(omap).map(entry_bytes).sum::<usize>()
    }

    /// Returns the steps to ask next. Answers come in the order of [`Copying::take`].
    fn steps(&self) -> Vec<Op> {
        let lenient = |op: Op| Op { flags: op_flag::FAILOK, ..op };
        let version = if self.has_begun { self.copied.version } else { self.source.version };
        let mut steps: Vec<Op> = (version != 0).then(|| Op::assert_version(version)).into_iter().collect();
        if !self.has_begun {
            // Pools of erasure-coded objects have no omaps.
            steps.extend([Op::stat(), Op::get_xattrs(), lenient(Op::omap_get_header())]);
        }
        if !self.has_all_data {
            steps.push(Op::read(self.copied.data.len() as u64, PIECE_BYTES));
        }
        if !self.has_all_omap {
            let after = self.copied.omap.last_key_value().map(|(key, _)| key.clone()).unwrap_or_default();
            steps.push(lenient(Op::omap_get_vals(after, OMAP_ENTRIES, Bytes::new())));
        }
        steps
    }

    /// Takes over what an answer brings. Returns whether that was all.
    fn take(&mut self, reply: &OsdOpReply) -> Result<bool, DecodeError> {
        for op in &reply.ops {
            let output = op.outdata.to_vec();
            match op.code {
                OpCode::STAT => {
                    let mut r = Reader::new(&output);
                    let (size, mtime): (u64, Utime) = (r.u64()?, r.get()?);
                    self.copied.mtime = mtime;
                    if size > self.source.bytes_max {
                        self.bytes = usize::MAX;
                    }
                }
                OpCode::GETXATTRS => {
                    self.copied.attrs = BTreeMap::from_slice(&output)?;
                    let bytes: usize = self.copied.attrs.iter().map(entry_bytes).sum();
                    self.bytes = self.bytes.saturating_add(bytes);
                }
                // The object has a header, for which there is no room beside the attributes.
                OpCode::OMAPGETHEADER if op.result == TOO_MUCH => self.bytes = usize::MAX,
                OpCode::OMAPGETHEADER if op.result >= 0 => {
                    self.bytes = self.bytes.saturating_add(output.len());
                    self.copied.omap_header = output.into();
                }
                OpCode::READ => {
                    self.has_all_data = (op.outdata.len() as u64) < PIECE_BYTES;
                    self.copied.data.append(op.outdata.clone());
                    self.bytes = self.bytes.saturating_add(output.len());
                }
                OpCode::OMAPGETVALS if op.result >= 0 => {
                    let mut r = Reader::new(&output);
                    let entries: BTreeMap<Bytes, Bytes> = r.get()?;
                    self.has_all_omap = !r.bool()? || entries.is_empty();
                    let bytes: usize = entries.iter().map(entry_bytes).sum();
                    self.bytes = self.bytes.saturating_add(bytes);
                    self.copied.omap.extend(entries);
                }
                // The rest of the answer left no room for it.
                OpCode::OMAPGETVALS if op.result == TOO_MUCH => {}
                OpCode::OMAPGETVALS => self.has_all_omap = true,
                _ => {}
            }
        }
        (self.has_begun, self.copied.version) = (true, reply.user_version);
        Ok(self.has_all_data && self.has_all_omap)
    }
}

fn entry_bytes((key, value): (&Bytes, &Bytes)) -> usize {
    key.len() + value.len()
}

impl Copies {
    /// Numbers its questions behind `first`, apart from those of other processes of this OSD: a question of a process
    /// that is gone may be answered to the one that came after it. `incarnation`: drawn by each process.
    pub fn numbered_from(first: u64, incarnation: u32) -> Copies {
        let apart = u64::from(incarnation >> 1) << 24;
        Copies {
            questions: first + if mutant::is(Mutant::QuestionsOfAnyProcess) { 0 } else { apart },
            ..Copies::default()
        }
    }

    /// Begins to fetch an object. It ends like a read does; whoever begins it must wait for it.
    pub fn begin(&mut self, id: LookupId, source: CopySource, now: Duration) {
        let (has_all_data, has_all_omap, has_begun, copied) = (false, false, false, Copied::default());
        self.questions += 1;
        let (number, began, asked) = (self.questions, now, None);
        let copy = Copying { number, source, began, asked, has_all_data, has_all_omap, has_begun, copied, bytes: 0 };
        self.running.insert(id, copy);
        self.due.push_back(id);
    }

    /// Returns the bytes that all fetches have brought so far.
    pub fn held_bytes(&self) -> usize {
        if mutant::is(mutant::Mutant::CopiesUncounted) {
            return 0;
        }
        self.running.values().map(|copy| copy.bytes).fold(0, usize::saturating_add)
    }

    /// Returns the bytes that all fetches have brought so far, by a look at what they hold.
    pub fn found_bytes(&self) -> usize {
        self.running.values().map(Copying::found_bytes).sum()
    }

    /// Returns the next question of this OSD, with its transaction id and the OSD that it goes to.
    pub fn poll(&mut self, whoami: OsdId, map: &OsdMap, now: Duration) -> Option<(OsdId, u64, OsdOp)> {
        while let Some(id) = self.due.pop_front() {
            let Some(copy) = self.running.get_mut(&id) else { continue };
            self.questions += 1;
            copy.asked = Some((now, self.questions));
            let CopySource { name, locator, snap, .. } = &copy.source;
            // If the pool is gone, the source is not found in time.
            let Ok((pgid, hash)) = map.object_to_pg(name, locator) else { continue };
            let placed = map.pg_to_up_acting(pgid).ok();
            let Some(primary) = placed.and_then(|placed| placed.acting_primary) else { continue };
            let pgid = SPgId { pg: pgid, shard: NO_SHARD };
            let mut op = OsdOp::new(pgid, hash, map.epoch, locator.clone(), name.clone(), copy.steps());
            (op.snap, op.flags) = (*snap, OpFlags::READ);
            // All questions of a copy are one request: a later one takes the place of those before it.
            op.reqid = ReqId { name: EntityName::osd(whoami), tid: copy.number, inc: 0 };
            return Some((primary, self.questions, op));
        }
        None
    }

    /// Takes an answer that has come. Returns what the fetch has ended with, if it has.
    pub fn answered(&mut self, tid: u64, reply: &OsdOpReply) -> Option<(LookupId, Rope)> {
        let is_meant = |copy: &Copying| copy.asked.is_some_and(|(_, question)| question == tid);
        let (&id, copy) = self.running.iter_mut().find(|(_, copy)| is_meant(copy))?;
        let (asked_at, _) = copy.asked.take().expect("just seen");
        if reply.result == Errno::EAGAIN.as_result() {
            // The source's group does not serve, or nobody has it. No answer has this number.
            copy.asked = Some((asked_at, 0));
            return None;
        }
        let has_changed = [Errno::ERANGE, Errno::EOVERFLOW].map(Errno::as_result).contains(&reply.result);
        let outcome = match reply.result {
            ..0 if copy.has_begun && has_changed => {
                copy.anew();
                None
            }
            ..0 => Some(Err(reply.result)),
            _ => match copy.take(reply) {
                Err(_) => Some(Err(Errno::EIO.as_result())),
                Ok(_) if copy.bytes as u64 > copy.source.bytes_max => Some(Err(Errno::EFBIG.as_result())),
                Ok(true) => Some(Ok(std::mem::take(&mut copy.copied))),
                Ok(false) => None,
            },
        };
        let Some(outcome) = outcome else {
            self.due.push_back(id);
            return None;
        };
        self.running.remove(&id);
        Some((id, Copied::into_rope(outcome)))
    }

    /// Asks again what stays unanswered, and gives up what does so for too long.
    pub fn tick(&mut self, now: Duration) -> Vec<(LookupId, Rope)> {
        let waits_long = |copy: &Copying| copy.asked.is_some_and(|(asked, _)| now >= asked + ASK_AGAIN);
        self.due.extend(self.running.iter().filter(|(_, copy)| waits_long(copy)).map(|(id, _)| *id));
        let late = self.running.extract_if(.., |_, copy| now >= copy.began + GIVE_UP);
        late.map(|(id, _)| (id, Copied::into_rope(Err(Errno::ETIMEDOUT.as_result())))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Epoch, PgId};

    #[test]
    fn answers_to_questions_of_a_former_process_are_not_taken() {
        let (source, id) = (source(1000), LookupId(1));
        let asked = |incarnation| {
            let mut copies = Copies::numbered_from(7 << 56, incarnation);
            copies.begin(id, source.clone(), Duration::ZERO);
            copies.questions += 1;
            let tid = copies.questions;
            copies.running.get_mut(&id).expect("just begun").asked = Some((Duration::ZERO, tid));
            (copies, tid)
        };
        let ((_, former), (mut copies, tid)) = (asked(0x1000_0002), asked(0x1000_0004));
        let (locator, pgid) = (source.locator.clone(), SPgId { pg: PgId::default(), shard: NO_SHARD });
        let op = OsdOp::new(pgid, 0, Epoch(1), locator, "a".into(), Vec::new());
        let none = OsdOpReply::to(&op, Errno::ENOENT.as_result(), Epoch(1));
        assert!(copies.answered(former, &none).is_none());
        assert!(copies.answered(tid, &none).is_some());
        assert!(former >> 56 == 7 && tid >> 56 == 7, "the shard that asks is in the number");
        let last = Copies::numbered_from(7 << 56, u32::MAX).questions;
        assert_eq!((last + (1 << 24)) >> 56, 7);
    }

    fn source(bytes_max: u64) -> CopySource {
        let (locator, snap) = (Locator::pool(types::PoolId(1)), SnapId::HEAD);
        CopySource { name: "a".into(), locator, snap, version: 0, bytes_max }
    }

    #[test]
    fn an_omap_for_which_an_answer_has_no_room_is_asked_for_again() {
        let (mut copies, id) = (Copies::default(), LookupId(1));
        let source = source(1000);
        let locator = source.locator.clone();
        copies.begin(id, source, Duration::ZERO);
        let mut answer = |result: i32| {
            let copy = copies.running.get_mut(&id).unwrap();
            copy.asked = Some((Duration::ZERO, 5));
            let pgid = SPgId { pg: PgId::default(), shard: NO_SHARD };
            let op = OsdOp::new(pgid, 0, Epoch(1), locator.clone(), "a".into(), copy.steps());
            let mut reply = OsdOpReply::to(&op, 0, Epoch(1));
            for step in &mut reply.ops {
                match step.code {
                    OpCode::STAT => step.outdata = vec![0; 16].into(),
                    OpCode::GETXATTRS => step.outdata = vec![0; 4].into(),
                    OpCode::OMAPGETVALS if result < 0 => step.result = result,
                    OpCode::OMAPGETVALS => step.outdata = vec![0; 5].into(),
                    _ => {}
                }
            }
            copies.answered(5, &reply).is_some()
        };
        assert!(!answer(TOO_MUCH));
        assert!(answer(0));
    }
}
