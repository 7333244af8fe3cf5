//! A slow walk over everything the store holds, reading it so that what has rotted is found while other members still
//! have it.
//!
//! Group after group, object after object; the one that was read longest ago comes first. Where the walk is, is kept in
//! the table of the group it is in, so a restart goes on from there. Blocks that fail are counted, logged by object and
//! offset, and make the group inconsistent until a later walk or a deep scrub finds it sound. Groups that were deeply
//! scrubbed are left out for a period and a half.

use crate::context::Context;
use crate::group::lookup::{NoAnswer, ready};
use crate::group::pg::Pg;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use store::{Lookup, LookupId, ReadError, Step, Transaction};
use types::{BLOCK_BYTES, ObjectId, PgId, SnapId};
use wire::{Decode, DecodeError, Encode, Reader, Rope, Target, Writer};

/// Key of the [`CheckMark`] in a group's table.
pub const CHECK_KEY: Bytes = Bytes::from_static(b"check");

/// Time in which everything is read once.
pub const CHECK_PERIOD: Duration = Duration::from_secs(7 * 86_400);

/// Limit of the pace. Comparing 32 MiB with their checksums takes 3 to 5 ms of CPU time, and reading them as much.
const BYTES_PER_SECOND_MAX: u64 = 32 << 20;
/// Cost of an object or a group beside its bytes, so that many small ones do not take more CPU time than large ones.
const VISIT_BYTES: u64 = 64 << 10;
/// Bytes of one read. A turn then takes some ten microseconds more.
const PIECE_BYTES: u64 = 256 << 10;
const LISTED_OBJECTS: usize = 64;
/// The mark is written after so many bytes, or this part of everything; and at a group's end.
const MARK_BYTES: u64 = 256 << 20;
const MARK_PART: u64 = 64;
/// Steps in one turn.
const STEPS: usize = 8;
/// A walk that has fallen behind does not make up for more than this.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// Time after which the check looks for data again, when there was nothing to check.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);
const BLOCK: u64 = BLOCK_BYTES as u64;
const _: () = assert!(PIECE_BYTES.is_multiple_of(BLOCK), "a read is of whole blocks: no block is read twice");

/// Progress of the check of a group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckMark {
    /// Count of the times that the group has been read to its end. Groups that come late begin where the others are.
    pub rounds: u64,
    /// Objects before this one have been read in the present round; `None` between rounds.
    pub next: Option<ObjectId>,
    /// Bad blocks of the last round, and of the present one so far.
    pub bad_before: u64,
    pub bad_now: u64,
}

impl CheckMark {
    /// Hands the group the results of its check, which it reports.
    fn show(&self, cx: &mut Context<'_>, pg: &mut Pg) {
        let bad_blocks = self.bad_before.max(self.bad_now);
        if pg.scrub.set_bad_blocks(bad_blocks) {
            pg.queue_report(cx);
        }
    }
}

impl Encode for CheckMark {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.rounds);
            w.put(&self.next);
            w.u64(self.bad_before);
            w.u64(self.bad_now);
        });
    }
}

impl Decode for CheckMark {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<CheckMark, DecodeError> {
        let (_, mut r) = r.versioned("background check's mark", 1)?;
        Ok(CheckMark { rounds: r.u64()?, next: r.get()?, bad_before: r.u64()?, bad_now: r.u64()? })
    }
}

/// Work that the walk has done since the OSD started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CheckCounts {
    pub objects: u64,
    pub bytes: u64,
    /// Blocks that fail their checksum or cannot be read, and objects whose metadata cannot be.
    pub bad: u64,
}

#[derive(Debug)]
pub(crate) struct BackgroundCheck {
    period: Duration,
    counts: CheckCounts,
    /// No step before.
    next_at: Duration,
    waits_for: Option<LookupId>,
    marks: BTreeMap<PgId, CheckMark>,
    walk: Option<Walk>,
}

/// The walk through one group.
#[derive(Debug)]
struct Walk {
    pgid: PgId,
    /// Objects from here on are not listed yet; `None` once all are.
    from: Option<ObjectId>,
    listed: VecDeque<ObjectId>,
    reading: Option<CheckReading>,
    unmarked_bytes: u64,
}

/// One object that is read.
#[derive(Debug)]
struct CheckReading {
    object: ObjectId,
    /// Ranges left to read, once they are known.
    pieces: Option<VecDeque<(u64, u64)>>,
    /// The range that is being read, and what has come of it.
    data: Option<(u64, u64)>,
}

impl BackgroundCheck {
    pub fn new() -> BackgroundCheck {
        BackgroundCheck {
            period: CHECK_PERIOD,
            counts: CheckCounts::default(),
            next_at: Duration::ZERO,
            waits_for: None,
            marks: BTreeMap::new(),
            walk: None,
        }
    }

    /// Sets the time in which everything is read once. Zero: nothing is read.
    pub fn set_period(&mut self, period: Duration) {
        if period != self.period {
            (self.period, self.next_at) = (period, Duration::ZERO);
        }
    }

    pub fn counts(&self) -> CheckCounts {
        self.counts
    }

    /// Returns the time when there is something to do, if not for a lookup.
    pub fn next_wake(&self) -> Option<Duration> {
        (self.period > Duration::ZERO && self.waits_for.is_none()).then_some(self.next_at)
    }

    /// Takes the steps that are due. Each pays with time for the next.
    pub fn run(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) {
        for _ in 0..STEPS {
            if self.next_wake().is_none_or(|at| at > cx.now) {
                return;
            }
            match self.step(cx, pgs) {
                Ok(bytes) => self.pay(cx, pgs, bytes),
                Err(id) => {
                    self.waits_for = Some(id);
                    cx.wait(id, crate::context::Waiter::Check);
                }
            }
        }
    }

    fn pay(&mut self, cx: &Context<'_>, pgs: &BTreeMap<PgId, Pg>, bytes: u64) {
        let all = all_bytes(cx, pgs);
        let seconds = |bytes: u64, per_second: f64| Duration::from_secs_f64(bytes as f64 / per_second);
        let wanted = self.period.mul_f64(bytes as f64 / all.max(bytes).max(1) as f64);
        let cost = wanted.max(seconds(bytes, BYTES_PER_SECOND_MAX as f64));
        self.next_at = self.next_at.max(cx.now.saturating_sub(BEHIND_MAX)) + cost;
    }

    /// Goes on with a lookup that is done; for data reads, with its outcome.
    pub fn lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        pgs: &mut BTreeMap<PgId, Pg>,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        if self.waits_for != Some(id) {
            return;
        }
        self.waits_for = None;
        if let Some(result) = data {
            let bytes = self.piece_read(cx, pgs, result.map(drop));
            self.pay(cx, pgs, bytes);
        }
    }

    /// Forgets how far the group was read, because the group has other objects now. The check reads it from its
    /// beginning.
    pub fn forget(&mut self, pgid: PgId) {
        self.walk.take_if(|walk| walk.pgid == pgid);
        if let Some(mark) = self.marks.get_mut(&pgid) {
            mark.next = None;
        }
    }

    /// Takes one step. Returns its cost, in bytes.
    fn step(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) -> Result<u64, LookupId> {
        // A group that was left or changes its range meanwhile is begun anew when it is its turn again.
        let here = |pg: &&Pg| pg.core.stored && !pg.is_loading();
        if self.walk.as_ref().is_some_and(|walk| pgs.get(&walk.pgid).filter(here).is_none()) {
            self.walk = None;
        }
        let Some(walk) = &mut self.walk else { return self.choose(cx, pgs) };
        let pg = &pgs[&walk.pgid];
        let (_, end) = osdmap::pg_range(pg.core.id, pg.core.interval.shape.pg_num);
        if let Some(reading) = &mut walk.reading {
            let Some(pieces) = &mut reading.pieces else {
                let extents = match ready(cx.store.extents(&reading.object, 0, u64::MAX)) {
                    Ok(extents) => extents,
                    Err(NoAnswer::Pending(id)) => return Err(id),
                    Err(NoAnswer::Damaged(damage)) => {
                        let object = walk.reading.take().expect("just seen").object;
                        self.found_bad(cx, pgs, &format!("metadata of {object}: {damage}"));
                        return Ok(VISIT_BYTES);
                    }
                };
                let cut = |(offset, len): (u64, u64)| {
                    // Whole blocks, and all of them.
                    let (begin, end) = (offset / BLOCK * BLOCK, offset + len);
                    (begin..end).step_by(PIECE_BYTES as usize).map(move |at| (at, PIECE_BYTES.min(end - at)))
                };
                reading.pieces = Some(extents.into_iter().flat_map(cut).collect());
                return Ok(0);
            };
            if let Some((offset, len)) = pieces.pop_front() {
                reading.data = Some((offset, len));
                let done = match cx.store.verify(&reading.object, offset, len) {
                    Lookup::Pending(id) => return Err(id),
                    // Bytes that are in memory, until they are on the device, are for the next round.
                    Lookup::Ready(_) => Ok(()),
                    Lookup::Damaged(damage) => {
                        pieces.clear();
                        let object = reading.object.clone();
                        self.found_bad(cx, pgs, &format!("metadata of {object}: {damage}"));
                        return Ok(VISIT_BYTES);
                    }
                };
                return Ok(self.piece_read(cx, pgs, done));
            }
            self.counts.objects += 1;
            walk.reading = None;
            return Ok(0);
        }
        if let Some(object) = walk.listed.pop_front() {
            if walk.unmarked_bytes >= MARK_BYTES.min(all_bytes(cx, pgs) / MARK_PART) {
                walk.unmarked_bytes = 0;
                let mark = self.marks.get_mut(&walk.pgid).expect("read before the walk began");
                mark.next = Some(object.clone());
                write(cx, walk.pgid, mark);
            }
            walk.unmarked_bytes += VISIT_BYTES;
            walk.reading = Some(CheckReading { object, pieces: None, data: None });
            return Ok(VISIT_BYTES);
        }
        if let Some(from) = &walk.from {
            let page = match ready(cx.store.list(from, &end, LISTED_OBJECTS)) {
                Ok(page) => page,
                Err(NoAnswer::Pending(id)) => return Err(id),
                Err(NoAnswer::Damaged(damage)) => {
                    walk.from = None;
                    let what = format!("the list of objects of pg {}: {damage}", walk.pgid);
                    self.found_bad(cx, pgs, &what);
                    return Ok(VISIT_BYTES);
                }
            };
            walk.from = match page.last() {
                Some(last) if page.len() == LISTED_OBJECTS => {
                    Some(ObjectId { snap: SnapId(last.snap.0 + 1), ..last.clone() })
                }
                _ => None,
            };
            walk.listed = page.into();
            return Ok(0);
        }
        let walk = self.walk.take().expect("just seen");
        let newest = self.marks.values().map(|mark| mark.rounds).max().unwrap_or_default();
        let mark = self.marks.get_mut(&walk.pgid).expect("read before the walk began");
        *mark = CheckMark { rounds: newest.max(mark.rounds + 1), next: None, bad_before: mark.bad_now, bad_now: 0 };
        write(cx, walk.pgid, mark);
        mark.show(cx, pgs.get_mut(&walk.pgid).expect("just seen"));
        Ok(VISIT_BYTES)
    }

    /// Reads marks that are not known yet, then begins the group that was read longest ago.
    fn choose(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) -> Result<u64, LookupId> {
        self.marks.retain(|pgid, _| pgs.contains_key(pgid));
        let present = || pgs.iter().filter(|(_, pg)| pg.core.stored && !pg.is_loading());
        if let Some((pgid, _)) = present().find(|(pgid, _)| !self.marks.contains_key(pgid)) {
            let pgid = *pgid;
            let kept = match ready(cx.store.pg_get(pgid, &CHECK_KEY)) {
                Ok(kept) => kept,
                Err(NoAnswer::Pending(id)) => return Err(id),
                Err(NoAnswer::Damaged(damage)) => {
                    tracing::error!(pg = %pgid, "background check: its mark cannot be read: {damage}");
                    None
                }
            };
            let mark = kept.map(|kept| CheckMark::from_slice(&kept)).transpose();
            let mark = mark.unwrap_or_else(|e| {
                tracing::error!(pg = %pgid, "background check: its mark is damaged: {e}");
                None
            });
            self.marks.insert(pgid, mark.unwrap_or_default());
            return Ok(0);
        }
        // Groups may have been left and come back.
        for (pgid, mark) in &mut self.marks {
            let Some(pg) = pgs.get_mut(pgid) else { continue };
            if pg.scrub.take_found_sound() && mark.bad_before.max(mark.bad_now) > 0 {
                (mark.bad_before, mark.bad_now) = (0, 0);
                write(cx, *pgid, mark);
            }
            mark.show(cx, pg);
        }
        // Data that a deep scrub has read lately need not be read again.
        let since = (cx.unix_zero + cx.now).saturating_sub(self.period + self.period / 2);
        let is_due = |pg: &Pg| pg.scrub.mark().deep_at.is_zero() || pg.scrub.mark().deep_at.to_unix() < since;
        let present = pgs.iter().filter(|(_, pg)| pg.core.stored && !pg.is_loading() && is_due(pg));
        let Some((pgid, pg)) = present.min_by_key(|(pgid, _)| (self.marks[pgid].rounds, **pgid)) else {
            self.next_at = cx.now + LOOK_AGAIN_AFTER;
            return Ok(0);
        };
        let (begin, end) = osdmap::pg_range(*pgid, pg.core.interval.shape.pg_num);
        let marked = self.marks[pgid].next.clone().filter(|next| begin <= *next && *next < end);
        let from = Some(marked.unwrap_or(begin));
        self.walk = Some(Walk { pgid: *pgid, from, listed: VecDeque::new(), reading: None, unmarked_bytes: 0 });
        Ok(0)
    }

    /// Takes a piece that has been read. Returns its cost, in bytes.
    fn piece_read(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>, result: Result<(), ReadError>) -> u64 {
        // The group may be gone.
        let Some(walk) = &mut self.walk else { return 0 };
        let Some(reading) = &mut walk.reading else { return 0 };
        let Some((offset, len)) = reading.data.take() else { return 0 };
        walk.unmarked_bytes += len;
        self.counts.bytes += len;
        match result {
            Ok(()) => {}
            Err(_) if len > BLOCK => {
                // A read names one bad block; each by itself names all.
                let blocks = (0..len.div_ceil(BLOCK)).rev().map(|i| offset + i * BLOCK);
                let pieces = reading.pieces.as_mut().expect("one of them was read");
                blocks.for_each(|at| pieces.push_front((at, BLOCK.min(offset + len - at))));
            }
            Err(error) => self.found_bad(cx, pgs, &error.to_string()),
        }
        len
    }

    fn found_bad(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>, what: &str) {
        self.counts.bad += 1;
        let pgid = self.walk.as_ref().expect("it is the walk that finds").pgid;
        tracing::error!(pg = %pgid, "background check: {what}");
        let mark = self.marks.get_mut(&pgid).expect("read before the walk began");
        mark.bad_now += 1;
        if let Some(pg) = pgs.get_mut(&pgid) {
            mark.show(cx, pg);
        }
    }
}

/// Returns the cost of a whole round, in bytes.
fn all_bytes(cx: &Context<'_>, pgs: &BTreeMap<PgId, Pg>) -> u64 {
    let usage = cx.store.usage();
    usage.data_bytes + (usage.objects + pgs.len() as u64) * VISIT_BYTES
}

/// Keeps a group's mark. If the store has no room, a restart begins a bit earlier.
fn write(cx: &mut Context<'_>, pg: PgId, mark: &CheckMark) {
    let steps = vec![Step::PgSet { key: CHECK_KEY, value: mark.to_vec(Target::default()).into() }];
    if let Err(e) = cx.submit(Transaction { pg, steps }, crate::context::OnCommit::Nothing) {
        tracing::debug!(%pg, "background check: the mark is not kept: {e}");
    }
}
