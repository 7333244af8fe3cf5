//! One group's scrub, chunk by chunk, as its primary drives it; and members' answers.

use super::map::{ObjectScan, ScrubMap};
use super::mark::{ScrubCursor, ScrubMark};
use super::record;
use super::scan::{CHUNK_OBJECTS, ChunkScan, ScanProgress, just_behind};
use super::snapshots::{Families, Seen, SnapFinding};
use super::verdict::{Finding, Logged, Shards, Verdict, judge};
use crate::context::{Context, OnCommit, Waiter};
use crate::group::core::Core;
use crate::group::effects::{BadCopies, Effect};
use crate::group::log::LogKind;
use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::ObjectInfo;
use crate::messages::scrub::{ScrubDone, ScrubGet, ScrubGot};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::{LookupId, ReadError, Transaction};
use types::{EVersion, ObjectId, OsdId, Utime};
use wire::messages::LogPriority;
use wire::nacre::mon::{PgScrubReport, pg_state};
use wire::{Decode, Rope};

/// Cost of a visit to an object beside its bytes.
const VISIT_BYTES: u64 = 16 << 10;
/// A chunk's updates are held no longer than this; then they go on, and the chunk is begun again later.
const CHUNK_TIME_MAX: Duration = Duration::from_secs(10);
/// The place of a deep scrub is kept after so many bytes.
const MARK_BYTES: u64 = 64 << 20;
/// Large omaps that one scrub of a group names in the cluster log. This OSD's own log has all.
const LARGE_OMAPS_TOLD_MAX: u64 = 100;
/// Findings kept for `list-inconsistent-obj`.
const FINDINGS_MAX: usize = 1024;
/// Bytes of attributes that are kept with findings.
const FINDING_ATTRS_BYTES: usize = 1 << 20;

/// Tells whether an update of an object in a range, given by its begin and end, is on its way.
pub(crate) type InFlight<'a> = dyn Fn(&ObjectId, &ObjectId) -> bool + 'a;

/// Order for a scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubOrder {
    pub deep: bool,
    /// Repairs findings that are not proven, too, as their verdicts say.
    pub repair: bool,
    /// An operator wants it: at once and faster.
    pub ordered: bool,
}

/// A group's scrub.
#[derive(Debug, Default)]
pub(crate) struct Scrub {
    mark: ScrubMark,
    run: Option<Box<ScrubRun>>,
    /// Ranges that are read here, by the primary that asked; this OSD's own among them.
    scans: BTreeMap<OsdId, ChunkScan>,
    /// Objects that are wrong and not repaired, as the last scrub of this interval found them; `None`: there was none.
    pub(super) findings: Option<BTreeMap<ObjectId, Finding>>,
    /// States of objects that do not go with the others, as the last scrub found them.
    pub(super) snap_findings: BTreeMap<ObjectId, SnapFinding>,
    rounds: u64,
    /// Blocks here that the background check has found bad.
    bad_blocks: u64,
    /// A deep scrub has found nothing bad, which the background check does not know yet.
    found_sound: bool,
}

#[derive(Debug)]
struct ScrubRun {
    order: ScrubOrder,
    /// Progress of the run, and what was found up to there. A deep one goes on here.
    cursor: ScrubCursor,
    state: State,
    head: EVersion,
    found: BTreeMap<ObjectId, Finding>,
    /// Bytes of attributes in `found`.
    attr_bytes: usize,
    families: Families,
    snaps_found: BTreeMap<ObjectId, SnapFinding>,
    repaired: u64,
    unmarked_bytes: u64,
    /// Objects before the cursor and their bytes, if the run began with the first.
    counted: Option<Counted>,
    /// Cost of the last chunk, in bytes, until the schedule takes it.
    cost: Option<u64>,
}

/// Counts of a group's objects.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    objects: i64,
    clones: i64,
    bytes: i64,
}

/// State of the present chunk. From `Settling` on, updates of its objects are held.
#[derive(Debug)]
enum State {
    Between,
    Listing(LookupId),
    Settling { until: ObjectId, began: Duration },
    Asking { until: ObjectId, began: Duration, round: u64, waiting: BTreeSet<OsdId>, maps: BTreeMap<OsdId, ScrubMap> },
    Ended,
}

/// State of a run, as the schedule sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunState {
    None,
    Busy,
    /// The next chunk may begin; the last one's cost, in bytes.
    Between(u64),
    Ended,
}

impl Scrub {
    /// Returns the durable record of the group's scrubs.
    pub fn mark(&self) -> &ScrubMark {
        &self.mark
    }

    /// Takes over what was kept, or what holds of the group's objects from now on.
    pub fn set_mark(&mut self, mark: ScrubMark) {
        self.mark = mark;
    }

    /// Takes over what the background check has found. Returns true if that is news.
    pub(super) fn set_bad_blocks(&mut self, bad_blocks: u64) -> bool {
        std::mem::replace(&mut self.bad_blocks, bad_blocks) != bad_blocks
    }

    /// Tells, once, that a deep scrub has found nothing bad since the background check last asked.
    pub(super) fn take_found_sound(&mut self) -> bool {
        std::mem::take(&mut self.found_sound)
    }

    /// Tells whether updates of the object must wait.
    pub fn holds(&self, object: &ObjectId) -> bool {
        // Updates of all states of an object are held together, as one may change several.
        let held = self.run.as_ref().and_then(|run| run.held());
        held.is_some_and(|(from, until)| from <= object && *object < behind_whole(until))
    }

    /// Counts an update of an object that makes so many objects and bytes more.
    pub(super) fn object_changed(&mut self, object: &ObjectId, objects: i64, bytes: i64) {
        if let Some(run) = self.run.as_mut().filter(|run| *object < run.cursor.next)
            && let Some(counted) = &mut run.counted
        {
            counted.objects += objects;
            counted.clones += if object.is_clone() { objects } else { 0 };
            counted.bytes += bytes;
        }
    }

    /// Ends questions with their interval: none counts any more. A deep scrub goes on later where it was.
    pub fn interval_ended(&mut self) {
        self.scans.clear();
        self.findings = None;
        self.snap_findings.clear();
        if let Some(run) = self.run.take().filter(|run| run.order.deep && !run.order.repair) {
            self.mark.cursor = Some(run.cursor.clone());
        }
    }

    pub fn state_bits(&self) -> u64 {
        let mut bits = match &self.run {
            None => 0,
            Some(run) => {
                let deep = if run.order.deep { pg_state::DEEP_SCRUB } else { 0 };
                let repair = if run.order.repair { pg_state::REPAIR } else { 0 };
                pg_state::SCRUBBING | deep | repair
            }
        };
        if self.mark.errors() > 0 || self.bad_blocks > 0 {
            bits |= pg_state::INCONSISTENT;
        }
        bits
    }

    pub fn report(&self) -> PgScrubReport {
        let mark = &self.mark;
        PgScrubReport {
            light_at: mark.light_at,
            light_version: mark.light_version,
            deep_at: mark.deep_at,
            deep_version: mark.deep_version,
            clean_at: mark.clean_at,
            shallow_errors: mark.shallow_errors,
            deep_errors: mark.deep_errors,
            repaired: mark.repaired,
            undecided: mark.undecided,
            large_omaps: mark.large_omaps,
        }
    }

    /// Returns true if a chunk is on its way.
    pub fn is_busy(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !matches!(run.state, State::Between | State::Ended))
    }

    /// Returns how far the run is; takes what its last chunk cost.
    pub fn run_state(&mut self) -> RunState {
        match &mut self.run {
            None => RunState::None,
            Some(run) => match &run.state {
                State::Between => RunState::Between(run.cost.take().unwrap_or(0)),
                State::Ended => RunState::Ended,
                _ => RunState::Busy,
            },
        }
    }
}

/// Returns true if the finding's verdict is carried out.
fn acts(finding: &Finding, order: ScrubOrder) -> bool {
    finding.verdict != Verdict::Undecided && (finding.proven || order.repair)
}

/// Returns how long a whole object is, with what snapshots preserve of it. That is counted with its present state.
fn object_bytes(scan: &ObjectScan) -> i64 {
    if scan.object.is_clone() {
        return 0;
    }
    let info = scan.info.as_ref().and_then(|info| ObjectInfo::from_slice(info).ok()).unwrap_or_default();
    (info.size_bytes.unwrap_or(scan.size_bytes) + info.snap_set.clone_bytes()) as i64
}

/// Returns the end of a range, moved behind all states of the object that it may lie in.
fn behind_whole(until: &ObjectId) -> ObjectId {
    if until.max { until.clone() } else { until.behind_all_states() }
}

impl ScrubRun {
    /// Counts the omaps of this primary's copies, and names large ones in the cluster log and this OSD's own.
    fn count_omaps<'a>(&mut self, core: &Core, cx: &mut Context<'_>, scans: impl Iterator<Item = &'a ObjectScan>) {
        let tuning = cx.shared.tuning.scrubs;
        for scan in scans {
            self.cursor.omap_keys += scan.omap_keys;
            self.cursor.omap_bytes += scan.omap_bytes;
            if scan.omap_keys > tuning.large_omap_keys || scan.omap_bytes > tuning.large_omap_bytes {
                self.cursor.large_omaps += 1;
                let (pgid, object) = (core.id.base(), &scan.object);
                tracing::warn!(pg = %core.id, %object, keys = scan.omap_keys, bytes = scan.omap_bytes,
                    "large omap object found");
                if self.cursor.large_omaps <= LARGE_OMAPS_TOLD_MAX {
                    let line = format!(
                        "Large omap object found. Object: {object} PG: {}.{:x} ({pgid}) Key count: {} Size (bytes): {}",
                        pgid.pool, object.hash, scan.omap_keys, scan.omap_bytes
                    );
                    cx.tell_cluster(LogPriority::WARN, line);
                }
            }
        }
    }

    fn held(&self) -> Option<(&ObjectId, &ObjectId)> {
        match &self.state {
            State::Settling { until, .. } | State::Asking { until, .. } => Some((&self.cursor.next, until)),
            _ => None,
        }
    }
}

impl Scrub {
    /// Begins a scrub of this group, which the schedule has chosen.
    pub fn begin(&mut self, core: &Core, cx: &mut Context<'_>, order: ScrubOrder) {
        let (begin, end) = osdmap::pg_range(core.id, core.interval.shape.pg_num);
        let cursor = self
            .mark
            .cursor
            .take()
            .filter(|cursor| order.deep && !order.repair && begin <= cursor.next && cursor.next < end);
        let cursor = cursor.unwrap_or(ScrubCursor {
            next: begin,
            shallow_errors: 0,
            deep_errors: 0,
            omap_keys: 0,
            omap_bytes: 0,
            undecided: 0,
            large_omaps: 0,
        });
        let is_first = cursor.next == osdmap::pg_range(core.id, core.interval.shape.pg_num).0;
        tracing::debug!(pg = %core.id, ?order, "scrub begins");
        let mut families = Families::default();
        if !is_first {
            families.pass_over(&cursor.next);
        }
        self.run = Some(Box::new(ScrubRun {
            order,
            cursor,
            state: State::Between,
            head: core.log.head(),
            found: BTreeMap::new(),
            attr_bytes: 0,
            families,
            snaps_found: BTreeMap::new(),
            repaired: 0,
            unmarked_bytes: 0,
            counted: is_first.then(Counted::default),
            cost: None,
        }));
        cx.cause(core.id, Effect::Report);
    }

    /// Ends a run that has come to its end, or gives it up.
    pub fn end(&mut self, core: &Core, cx: &mut Context<'_>) {
        self.let_go(core, cx);
        self.run = None;
        cx.cause(core.id, Effect::Report);
    }

    /// Begins the next chunk.
    pub fn chunk(&mut self, core: &mut Core, cx: &mut Context<'_>, in_flight: &InFlight<'_>) {
        let Some(run) = self.run.as_mut() else { return };
        let (_, end) = osdmap::pg_range(core.id, core.interval.shape.pg_num);
        let until = match ready(cx.store.list(&run.cursor.next, &end, CHUNK_OBJECTS)) {
            Ok(page) => match page.last() {
                Some(last) if page.len() == CHUNK_OBJECTS => just_behind(last),
                _ => end,
            },
            Err(NoAnswer::Pending(id)) => {
                run.state = State::Listing(id);
                return cx.wait(id, Waiter::Scrub { pgid: core.id });
            }
            Err(NoAnswer::Damaged(damage)) => {
                // Objects that the others have there may not be wanted: nothing tells.
                tracing::error!(pg = %core.id, "scrub: the list of objects cannot be read: {damage}");
                run.cursor.shallow_errors += 1;
                return self.ended(core, cx);
            }
        };
        run.state = State::Settling { until, began: cx.now };
        self.settled(core, cx, in_flight);
    }

    /// Asks all members if no update of the chunk's objects is on its way any more.
    pub fn settled(&mut self, core: &mut Core, cx: &mut Context<'_>, in_flight: &InFlight<'_>) {
        let Some(run) = self.run.as_mut() else { return };
        let State::Settling { until, began } = &run.state else { return };
        if in_flight(&run.cursor.next, &behind_whole(until)) {
            return;
        }
        self.rounds += 1;
        let (round, from, until, began) = (self.rounds, run.cursor.next.clone(), until.clone(), *began);
        let waiting = core.interval.acting.iter().copied().filter(|osd| osd.is_some()).collect();
        let deep = run.order.deep;
        run.state = State::Asking { until: until.clone(), began, round, waiting, maps: BTreeMap::new() };
        let question = ScrubGet { pg: core.pg_interval(), round, from, until, deep };
        for osd in core.others(cx.whoami) {
            cx.send_osd(osd, question.clone());
        }
        self.begin_scan(core, cx, cx.whoami, question);
    }

    /// Lets the present chunk's updates go on.
    fn let_go(&mut self, core: &Core, cx: &mut Context<'_>) {
        let Some(run) = self.run.as_mut() else { return };
        let held = run.held().map(|(from, until)| (from.clone(), until.clone()));
        run.state = State::Between;
        if let Some((from, until)) = held {
            let until = behind_whole(&until);
            cx.cause(core.id, Effect::RunObjects { from, until });
        }
    }

    /// Gives up a chunk that takes too long. Says whether it did.
    pub fn tick(&mut self, core: &Core, cx: &mut Context<'_>) -> bool {
        let Some(run) = &self.run else { return false };
        let late = match &run.state {
            State::Settling { began, .. } | State::Asking { began, .. } => cx.now > *began + CHUNK_TIME_MAX,
            _ => false,
        };
        if late {
            tracing::debug!(pg = %core.id, "scrub: the chunk takes too long and is begun again");
            self.let_go(core, cx);
        }
        late
    }

    // ---- members ----

    /// As member: begins to read the range that the primary, which this OSD follows, asks for.
    pub fn wanted(&mut self, core: &mut Core, cx: &mut Context<'_>, from: OsdId, question: ScrubGet) {
        self.begin_scan(core, cx, from, question);
    }

    fn begin_scan(&mut self, core: &mut Core, cx: &mut Context<'_>, asker: OsdId, question: ScrubGet) {
        self.scans.insert(asker, ChunkScan::new(question));
        self.copies_read_on(core, cx, asker);
    }

    /// Goes on with all scans that wait for nothing.
    pub fn read_on(&mut self, core: &mut Core, cx: &mut Context<'_>) {
        let askers: Vec<OsdId> = self.scans.keys().copied().collect();
        askers.into_iter().for_each(|asker| self.copies_read_on(core, cx, asker));
    }

    fn copies_read_on(&mut self, core: &mut Core, cx: &mut Context<'_>, asker: OsdId) {
        let Some(scan) = self.scans.get_mut(&asker).filter(|scan| scan.waits_for.is_none()) else { return };
        match scan.advance(cx.store) {
            ScanProgress::Waits(id) => cx.wait(id, Waiter::Scrub { pgid: core.id }),
            ScanProgress::Later => drop(cx.agenda.scrubs_later.insert(core.id)),
            ScanProgress::Done(map) => {
                let scan = self.scans.remove(&asker).expect("just seen");
                let answer = ScrubGot { pg: scan.asked.pg, round: scan.asked.round, map };
                match asker == cx.whoami {
                    true => self.got(core, cx, asker, answer),
                    false => cx.send_osd(asker, answer),
                }
            }
        }
    }

    /// Goes on with a lookup that is done; for data reads, with its outcome.
    pub fn lookup_done(
        &mut self,
        core: &mut Core,
        cx: &mut Context<'_>,
        in_flight: &InFlight<'_>,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        if self.run.as_ref().is_some_and(|run| matches!(run.state, State::Listing(waits) if waits == id)) {
            return self.chunk(core, cx, in_flight);
        }
        let asker = self.scans.iter().find(|(_, scan)| scan.waits_for == Some(id)).map(|(asker, _)| *asker);
        let Some(asker) = asker else { return };
        let scan = self.scans.get_mut(&asker).expect("just seen");
        scan.waits_for = None;
        if let Some(result) = data {
            scan.data_came(result);
        }
        self.copies_read_on(core, cx, asker);
    }

    /// As member: keeps the mark of the primary, which this OSD follows and which has scrubbed the group.
    pub fn done(&mut self, core: &Core, cx: &mut Context<'_>, message: ScrubDone) {
        self.mark = message.mark;
        self.found_sound(message.sound);
        self.keep_mark(core, cx);
    }

    /// Tells a member that comes in when the group was scrubbed, so that it knows if it becomes the primary.
    pub fn tell_mark(&self, core: &Core, cx: &mut Context<'_>, osd: OsdId) {
        let mark = ScrubMark { cursor: None, ..self.mark.clone() };
        if mark != ScrubMark::default() {
            cx.send_osd(osd, ScrubDone { pg: core.pg_interval(), mark, sound: false });
        }
    }

    fn found_sound(&mut self, sound: bool) {
        if sound {
            self.bad_blocks = 0;
            self.found_sound = true;
        }
    }

    pub(super) fn keep_mark(&self, core: &Core, cx: &mut Context<'_>) {
        let steps = vec![self.mark.step()];
        if let Err(e) = cx.submit(Transaction { pg: core.id, steps }, OnCommit::Nothing) {
            tracing::debug!(pg = %core.id, "the scrub's mark is not kept: {e}");
        }
    }

    // ---- verdicts ----

    /// Takes a member's answer.
    pub fn got(&mut self, core: &mut Core, cx: &mut Context<'_>, from: OsdId, answer: ScrubGot) {
        if answer.pg.since != core.interval.since {
            return;
        }
        let Some(run) = self.run.as_mut() else { return };
        let State::Asking { round, waiting, maps, .. } = &mut run.state else { return };
        if answer.round != *round || !waiting.remove(&from) {
            return;
        }
        maps.insert(from, answer.map);
        if waiting.is_empty() {
            self.compare(core, cx);
        }
    }

    fn compare(&mut self, core: &mut Core, cx: &mut Context<'_>) {
        let run = self.run.as_mut().expect("its members have answered");
        let State::Asking { until, maps, .. } = std::mem::replace(&mut run.state, State::Between) else {
            unreachable!("its members have answered")
        };
        let held = (run.cursor.next.clone(), behind_whole(&until));
        // The chunk ends where all members have looked.
        let until = maps.values().filter_map(|map| map.until.clone()).chain([until]).min().expect("there is one");
        let mut cost = 0;
        for (osd, map) in &maps {
            if let Some(error) = &map.list_error {
                tracing::error!(pg = %core.id, %osd, "scrub: the list of objects cannot be read there: {error}");
                run.cursor.shallow_errors += 1;
            }
            let bytes = |scan: &ObjectScan| VISIT_BYTES + if run.order.deep { scan.size_bytes } else { 0 };
            cost = map.objects.iter().map(bytes).sum::<u64>().max(cost);
        }
        let (from, order) = (run.cursor.next.clone(), run.order);
        let mut objects: BTreeMap<ObjectId, BTreeMap<OsdId, ObjectScan>> = BTreeMap::new();
        // A member that cannot list its objects tells nothing; it is compared when its metadata is repaired.
        let known: Vec<OsdId> = maps.iter().filter(|(_, map)| map.list_error.is_none()).map(|(osd, _)| *osd).collect();
        for (osd, map) in maps {
            if osd == cx.whoami {
                let is_whole = map.list_error.is_none() && map.objects.iter().all(|scan| scan.metadata_error.is_none());
                let here = map.objects.iter().filter(|scan| scan.object < until);
                run.counted = run.counted.filter(|_| is_whole).map(|counted| {
                    here.fold(counted, |counted, scan| Counted {
                        objects: counted.objects + 1,
                        clones: counted.clones + i64::from(scan.object.is_clone()),
                        bytes: counted.bytes + object_bytes(scan),
                    })
                });
                run.count_omaps(core, cx, map.objects.iter().filter(|scan| scan.object < until));
            }
            for scan in map.objects.into_iter().filter(|scan| scan.object < until) {
                objects.entry(scan.object.clone()).or_default().insert(osd, scan);
            }
        }
        let mut logged = BTreeMap::new();
        for entry in core.log.entries().filter(|entry| from <= entry.object && entry.object < until) {
            match entry.kind {
                LogKind::Modify => drop(logged.insert(&entry.object, Logged::Version(entry.version))),
                LogKind::Delete => drop(logged.insert(&entry.object, Logged::Removed)),
                LogKind::Unchanged => {}
            }
        }
        for object in logged.keys() {
            objects.entry((*object).clone()).or_default();
        }
        let (mut findings, mut snap_findings, mut unrecorded) = (Vec::new(), Vec::new(), Vec::new());
        let shard_of = |osd: OsdId| core.interval.shard_of(osd);
        let code = core.protection().code();
        let shards = Shards { of: &shard_of, needed: core.protection().needed(), code: code.as_ref() };
        let acting_osds = core.interval.acting.iter().filter(|osd| osd.is_some()).count();
        let (is_all, now) = (known.len() == acting_osds, Utime::from_unix(cx.unix_zero + cx.now));
        let may_record = order.deep && is_all;
        let (log, run) = (&core.log, self.run.as_mut().expect("just seen"));
        let has_changed = |object: &ObjectId, since: EVersion| {
            log.tail() > since || log.entries().any(|e| e.version > since && e.object.head_of() == *object)
        };
        for (object, mut scans) in objects {
            let logged = logged.get(&object).copied().unwrap_or(Logged::Nothing);
            let copies: BTreeMap<OsdId, _> = known.iter().map(|osd| (*osd, scans.remove(osd))).collect();
            let size_and_info = |scan: &ObjectScan| (scan.size_bytes, scan.info.clone());
            let first = copies.values().flatten().next().map(size_and_info);
            let own = copies.get(&cx.whoami).and_then(Option::as_ref).filter(|_| may_record);
            let digests = own.and_then(|own| record::found(own, &copies, &shards));
            let record = own.zip(digests);
            let record = record.and_then(|(own, found)| record::wanted(own, found, now, cx.limits.record_after));
            let finding = judge(&object, cx.whoami, logged, copies, &shards);
            if let Some((record, mtime)) = record.filter(|_| finding.is_none()) {
                unrecorded.push((object.clone(), record, mtime));
            }
            let good = match &finding {
                None => first,
                Some(finding) => finding.selected.and_then(|osd| finding.copies[&osd].scan.as_ref()).map(size_and_info),
            };
            let is_known = finding.as_ref().is_none_or(|finding| acts(finding, order));
            let info = good.as_ref().and_then(|(_, info)| ObjectInfo::from_slice(info.as_ref()?).ok());
            let seen = match (&good, &info) {
                (Some((size, _)), Some(info)) if is_known => Seen::Is(info, info.size_bytes.unwrap_or(*size)),
                // The object is nowhere, or removed now.
                (None, _) if is_known => Seen::Nothing,
                _ => Seen::Unknown,
            };
            snap_findings.extend(run.families.see(&object, seen, log.head(), has_changed));
            findings.extend(finding);
        }
        if !is_all {
            run.families.pass_over(&until);
            snap_findings.clear();
        }
        if until >= osdmap::pg_range(core.id, core.interval.shape.pg_num).1 {
            snap_findings.extend(run.families.end(has_changed));
        }
        run.cost = Some(cost);
        run.unmarked_bytes += cost;
        run.cursor.next = until.clone();
        for finding in snap_findings {
            tracing::error!(pg = %core.id, object = %finding.object, errors = finding.errors, missing = ?finding.missing,
                extra = ?finding.extra, "scrub: states that snapshots preserve are not those that the object lists");
            run.cursor.shallow_errors += 1;
            if run.snaps_found.len() < FINDINGS_MAX {
                run.snaps_found.insert(finding.object.clone(), finding);
            }
        }
        for finding in findings {
            self.found(core, cx, order, finding);
        }
        cx.cause(core.id, Effect::RunObjects { from: held.0, until: behind_whole(&held.1) });
        for (object, record, mtime) in unrecorded {
            cx.cause(core.id, Effect::Record { mtime, object, record });
        }
        if until >= osdmap::pg_range(core.id, core.interval.shape.pg_num).1 {
            return self.ended(core, cx);
        }
        let run = self.run.as_mut().expect("just seen");
        if order.deep && !order.repair && run.unmarked_bytes >= MARK_BYTES {
            run.unmarked_bytes = 0;
            self.mark.cursor = Some(run.cursor.clone());
            self.keep_mark(core, cx);
            self.mark.cursor = None;
        }
    }

    fn found(&mut self, core: &Core, cx: &mut Context<'_>, order: ScrubOrder, finding: Finding) {
        let (shallow, deep) = finding.counts();
        for (osd, copy) in &finding.copies {
            let scan = copy.scan.as_ref();
            let why = scan.and_then(|scan| scan.metadata_error.as_deref().or(scan.read_error.as_deref()));
            let version = copy.info.as_ref().map(|info| info.version).unwrap_or_default();
            let size = scan.map(|scan| scan.size_bytes);
            tracing::error!(pg = %core.id, object = %finding.object, %osd, errors = copy.errors, %version, ?size,
                digest = ?scan.and_then(|scan| scan.data_crc), why, "scrub: copy");
        }
        tracing::error!(pg = %core.id, object = %finding.object, errors = finding.errors, proven = finding.proven,
            verdict = ?finding.verdict, reason = finding.reason, "scrub: copies are not equal and whole");
        let acts = acts(&finding, order);
        let run = self.run.as_mut().expect("the caller runs it");
        // Copies beside the ones that are replaced may still be bad: ones whose metadata is damaged.
        let left = acts && finding.copies.values().any(|copy| copy.errors & super::verdict::copy_error::STAT != 0);
        if acts {
            run.repaired += shallow + deep;
            run.cursor.shallow_errors += u64::from(left);
        } else {
            run.cursor.shallow_errors += shallow;
            run.cursor.deep_errors += deep;
            run.cursor.undecided += u64::from(finding.waits_for_choice());
        }
        if (!acts || left) && run.found.len() < FINDINGS_MAX {
            let mut kept = finding.clone();
            let mut attrs_crcs = kept.copies.values().filter_map(|copy| Some(copy.scan.as_ref()?.attrs_crc));
            let first = attrs_crcs.next();
            let differ = attrs_crcs.any(|crc| Some(crc) != first);
            for scan in kept.copies.values_mut().filter_map(|copy| copy.scan.as_mut()) {
                let bytes = scan.attr_bytes();
                let Some(attrs) = scan.attrs.take().filter(|_| differ) else { continue };
                if run.attr_bytes + bytes <= FINDING_ATTRS_BYTES {
                    run.attr_bytes += bytes;
                    // Kept for long: they must not pin what they were read from.
                    let own = attrs.into_iter().map(|(name, value)| (name, Bytes::copy_from_slice(&value)));
                    scan.attrs = Some(own.collect());
                }
            }
            run.found.insert(kept.object.clone(), kept);
        }
        if acts {
            if finding.verdict.calls_bad(cx.whoami) {
                // The copies here are not what the group has.
                run.counted = None;
            }
            self.repair(core, cx, &finding);
        }
    }

    /// Orders that the copies are replaced which a finding's verdict calls bad.
    pub(super) fn repair(&self, core: &Core, cx: &mut Context<'_>, finding: &Finding) {
        let (bad, version) = match &finding.verdict {
            Verdict::Replace { bad, version } => (bad, Some(*version)),
            Verdict::Remove { bad } => (bad, None),
            Verdict::Undecided => return,
        };
        let (object, bad, reason) = (finding.object.clone(), bad.iter().copied().collect(), finding.reason);
        cx.cause(core.id, Effect::Replace(BadCopies { object, bad, version, reason }));
    }

    /// Takes an object on which an operator has decided out of the findings, with the errors that the last scrub found.
    pub(super) fn is_decided(
        &mut self,
        core: &Core,
        cx: &mut Context<'_>,
        object: &ObjectId,
        (shallow, deep): (u64, u64),
    ) {
        self.findings.iter_mut().for_each(|found| drop(found.remove(object)));
        let mark = &mut self.mark;
        mark.shallow_errors = mark.shallow_errors.saturating_sub(shallow);
        mark.deep_errors = mark.deep_errors.saturating_sub(deep);
        mark.repaired += 1;
        mark.undecided = mark.undecided.saturating_sub(1);
        self.keep_mark(core, cx);
    }

    /// Ends a scrub that has compared all objects.
    fn ended(&mut self, core: &mut Core, cx: &mut Context<'_>) {
        let run = self.run.as_mut().expect("the caller runs it");
        run.state = State::Ended;
        let now = Utime::from_unix(cx.unix_zero + cx.now);
        let mark = &mut self.mark;
        (mark.light_at, mark.light_version) = (now, run.head);
        let found_up_to = &run.cursor;
        mark.shallow_errors = found_up_to.shallow_errors;
        mark.repaired += run.repaired;
        mark.cursor = None;
        if let Some(Counted { objects, clones, bytes }) = run.counted.filter(|_| core.missing.is_empty()) {
            // Counts are shared out in proportion where groups are split.
            let stats = &mut core.info.stats;
            (stats.objects, stats.clones, stats.bytes) = (objects, clones, bytes);
        }
        let (mut found, snaps_found) = (std::mem::take(&mut run.found), std::mem::take(&mut run.snaps_found));
        if run.order.deep {
            (mark.deep_at, mark.deep_version) = (now, run.head);
            mark.deep_errors = found_up_to.deep_errors;
            (mark.omap_keys, mark.omap_bytes) = (found_up_to.omap_keys, found_up_to.omap_bytes);
            mark.undecided = found_up_to.undecided;
            mark.large_omaps = found_up_to.large_omaps;
        } else if mark.deep_errors > 0 {
            // Errors that only a deep scrub sees are still there.
            let before = self.findings.take().unwrap_or_default();
            let deep = before.into_iter().filter(|(_, finding)| finding.counts().1 > 0);
            for (object, finding) in deep {
                found.entry(object).or_insert(finding);
            }
            mark.undecided = found.values().filter(|finding| finding.waits_for_choice()).count() as u64;
        } else {
            mark.undecided = found_up_to.undecided;
        }
        if mark.errors() == 0 {
            mark.clean_at = now;
        }
        self.findings = Some(found);
        self.snap_findings = snaps_found;
        let (errors, repaired, deep) = (mark.errors(), run.repaired, run.order.deep);
        if run.order.repair && mark.undecided > 0 {
            tracing::error!(pg = %core.id, objects = mark.undecided, "repair does not choose among copies of which nothing \
                proves one right; 'ceph tell {} keep_copy OBJECT OSD' does", core.id.base());
        }
        match errors + repaired {
            0 => tracing::debug!(pg = %core.id, deep, "scrub: all is well"),
            _ => tracing::warn!(pg = %core.id, deep, errors, repaired, "scrub: has found errors"),
        }
        let sound = deep && errors == 0;
        self.found_sound(sound);
        self.keep_mark(core, cx);
        let message = ScrubDone { pg: core.pg_interval(), mark: self.mark.clone(), sound };
        for osd in core.others(cx.whoami) {
            cx.send_osd(osd, message.clone());
        }
        cx.cause(core.id, Effect::Report);
    }
}
