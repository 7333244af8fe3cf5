//! Objects on their way from a member that has them to one that lacks them, while the group does not serve.

use crate::context::{Context, OnCommit, Waiter};
use crate::log::LogKind;
use crate::lookup::{NoAnswer, ready};
use crate::peer::{PgPull, PgPush, PgPushAck};
use crate::pg::Pg;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::{LookupId, ObjectStat, ReadError, Step, Transaction};
use types::{Epoch, ObjectId, OsdId};
use wire::Rope;

/// Data bytes in one push.
const PIECE_BYTES: u64 = 1 << 20;
/// Omap entries in one push.
const PIECE_OMAP_ENTRIES: usize = 1024;
/// Objects pushed to one member and not acknowledged yet.
const UNACKED_OBJECTS_MAX: usize = 16;
/// Objects listed at a time when all are pushed.
const LISTED_OBJECTS: usize = 256;

/// Pushes by receiver.
pub(crate) type Pushes = BTreeMap<OsdId, PushQueue>;

/// What one member is sent.
#[derive(Debug, Default)]
pub(crate) struct PushQueue {
    since: Epoch,
    queue: VecDeque<ObjectId>,
    /// All objects are to be pushed; those before this cursor are in the queue or behind it.
    all_from: Option<ObjectId>,
    /// The receiver must be told when all have been sent.
    announce_end: bool,
    /// The queue is done only when the receiver says that it has everything.
    ends_with_ack: bool,
    unacked: BTreeSet<ObjectId>,
    reading: Option<ObjectReading>,
    waits_for: Option<LookupId>,
}

/// An object of which some pieces have been sent.
#[derive(Debug)]
struct ObjectReading {
    object: ObjectId,
    stat: Arc<ObjectStat>,
    first: bool,
    /// `None` until asked.
    extents: Option<VecDeque<(u64, u64)>>,
    /// Entries up to this key have been sent; `None` once all have.
    omap_after: Option<Bytes>,
    /// The first piece's, once it is known.
    omap_header: Option<Bytes>,
    /// Bytes that have come for the next piece.
    data: Option<(u64, Rope)>,
}

impl Pg {
    /// As primary: asks other members for what is missing here. False if nobody has it.
    pub(crate) fn request_pulls(&mut self, cx: &mut Context<'_>) -> bool {
        let pg = self.pg_interval();
        let head = self.log.head();
        let sources = self.peering.members.iter().filter_map(|(osd, state)| {
            let info = state.info.as_ref().filter(|info| info.complete)?;
            Some((*osd, info.last_update, &state.missing))
        });
        if !self.info.complete {
            let mut whole = sources.filter(|(_, last_update, missing)| *last_update == head && missing.is_empty());
            let Some((osd, ..)) = whole.next() else { return false };
            cx.send_osd(osd, PgPull { pg, objects: Vec::new() });
            return true;
        }
        let sources: Vec<_> = sources.collect();
        let mut pulls: BTreeMap<OsdId, Vec<ObjectId>> = BTreeMap::new();
        for (object, version) in &self.missing {
            let has = |(_, last_update, missing): &&(OsdId, _, &BTreeMap<ObjectId, _>)| {
                *last_update >= *version && !missing.contains_key(object)
            };
            let Some((osd, ..)) = sources.iter().find(has) else { return false };
            pulls.entry(*osd).or_default().push(object.clone());
        }
        for (osd, objects) in pulls {
            cx.send_osd(osd, PgPull { pg, objects });
        }
        true
    }

    /// As primary: has a member get what it lacks. False if it lacks nothing.
    pub(crate) fn bring_up(&mut self, cx: &mut Context<'_>, osd: OsdId) -> bool {
        let state = self.peering.members.get(&osd).cloned().unwrap_or_default();
        let usable = state.info.as_ref().filter(|info| info.complete);
        let entries = match usable {
            Some(info) => self.entries_for(info.last_update),
            None => crate::peer::PgLogEntries {
                start_over: true,
                after: self.log.tail(),
                entries: self.log.entries().cloned().collect(),
                ..self.entries_for(self.log.head())
            },
        };
        let mut queue = PushQueue { since: self.interval.since, ..PushQueue::default() };
        if entries.start_over {
            queue.all_from = Some(self.range().0);
            (queue.announce_end, queue.ends_with_ack) = (true, true);
        } else {
            let mut missing: BTreeSet<ObjectId> = state.missing.into_keys().collect();
            for entry in &entries.entries {
                match entry.kind {
                    LogKind::Modify => drop(missing.insert(entry.object.clone())),
                    LogKind::Delete => drop(missing.remove(&entry.object)),
                    LogKind::Unchanged => {}
                }
            }
            if entries.entries.is_empty() && missing.is_empty() {
                return false;
            }
            queue.queue = missing.into_iter().collect();
        }
        cx.send_osd(osd, entries);
        if queue.queue.is_empty() && !queue.announce_end {
            // Only entries that change no object here: nothing to wait for, the start checks the log's head.
            return false;
        }
        self.pushes.insert(osd, queue);
        self.push_on(cx, osd);
        true
    }

    /// As member: the primary lacks objects.
    pub(crate) fn pull_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgPull) {
        if !self.follows(from, message.pg.since) {
            return;
        }
        let all = message.objects.is_empty();
        let queue = PushQueue {
            since: message.pg.since,
            all_from: all.then(|| self.range().0),
            announce_end: all,
            ends_with_ack: all,
            queue: message.objects.into(),
            ..PushQueue::default()
        };
        self.pushes.insert(from, queue);
        self.push_on(cx, from);
    }

    fn range(&self) -> (ObjectId, ObjectId) {
        osdmap::pg_range(self.id, self.interval.shape.pg_num)
    }

    /// Sends to one member until it has enough to acknowledge, or a lookup must be waited for.
    fn push_on(&mut self, cx: &mut Context<'_>, to: OsdId) {
        while let Some(queue) = self.pushes.get(&to) {
            let must_wait = queue.waits_for.is_some() || queue.unacked.len() >= UNACKED_OBJECTS_MAX;
            if must_wait && queue.reading.is_none() || queue.waits_for.is_some() {
                return;
            }
            match self.push_step(cx, to) {
                Ok(true) => {}
                Ok(false) => return,
                Err(NoAnswer::Pending(id)) => {
                    let queue = self.pushes.get_mut(&to).expect("still there");
                    queue.waits_for = Some(id);
                    cx.wait(id, Waiter::Push { pgid: self.id, to });
                    return;
                }
                Err(NoAnswer::Damaged(damage)) => {
                    tracing::error!(pg = %self.id, %to, "cannot push what another member lacks: {damage}");
                    self.pushes.remove(&to);
                    return;
                }
            }
        }
    }

    /// One step: list, begin an object, or send a piece. `Ok(false)`: nothing is left to send.
    fn push_step(&mut self, cx: &mut Context<'_>, to: OsdId) -> Result<bool, NoAnswer> {
        let pg = self.pg_interval();
        let (_, end) = self.range();
        let queue = self.pushes.get_mut(&to).expect("caller has seen it");
        if let Some(reading) = &mut queue.reading {
            let piece = match reading.next_piece(cx, pg)? {
                Some(piece) => piece,
                None => {
                    self.pushes.remove(&to);
                    tracing::error!(pg = %self.id, %to, "cannot read an object that another member lacks");
                    return Ok(false);
                }
            };
            if piece.last {
                queue.unacked.insert(reading.object.clone());
                queue.reading = None;
            }
            cx.send_osd(to, piece);
            return Ok(true);
        }
        if let Some(object) = queue.queue.front() {
            let stat = ready(cx.store.stat(object))?;
            let object = queue.queue.pop_front().expect("just seen");
            match stat {
                Some(stat) => queue.reading = Some(ObjectReading::new(object, stat)),
                None => {
                    queue.unacked.insert(object.clone());
                    cx.send_osd(to, PgPush { absent: true, first: true, last: true, ..PgPush::empty(pg, object) });
                }
            }
            return Ok(true);
        }
        if let Some(from) = queue.all_from.clone() {
            let page = ready(cx.store.list(&from, &end, LISTED_OBJECTS))?;
            queue.all_from = match page.last() {
                Some(last) if page.len() == LISTED_OBJECTS => {
                    Some(ObjectId { snap: types::SnapId(last.snap.0 + 1), ..last.clone() })
                }
                _ => None,
            };
            queue.queue.extend(page);
            return Ok(true);
        }
        if queue.announce_end {
            queue.announce_end = false;
            let push = PgPush { end_of_all: true, ..PgPush::empty(pg, ObjectId::max()) };
            cx.send_osd(to, push);
        }
        Ok(false)
    }

    /// A lookup for pushes to `to` is done.
    pub(crate) fn push_lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        to: OsdId,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        let Some(queue) = self.pushes.get_mut(&to) else { return };
        if queue.waits_for != Some(id) {
            return;
        }
        queue.waits_for = None;
        match data {
            None => {}
            Some(Ok(bytes)) => {
                let reading = queue.reading.as_mut().expect("data was read for an object");
                let offset = reading.extents.as_ref().and_then(|e| e.front()).expect("a run was being read").0;
                reading.data = Some((offset, bytes));
            }
            Some(Err(e)) => {
                tracing::error!(pg = %self.id, %to, "cannot push an object: {e}");
                self.pushes.remove(&to);
                return;
            }
        }
        self.push_on(cx, to);
    }

    /// A piece has come. Returns nothing: the acknowledgement follows when the piece is durable.
    pub(crate) fn pushed(&mut self, cx: &mut Context<'_>, from: OsdId, push: PgPush) {
        let since = push.pg.since;
        let as_primary = self.is_primary(cx.whoami) && since == self.interval.since;
        if !as_primary && !self.follows(from, since) {
            return;
        }
        let mut steps = Vec::new();
        if push.end_of_all {
            self.info.complete = true;
            steps.push(self.info.step());
            let then = OnCommit::Pushed { from, since, object: None };
            return cx.submit_or_stop(Transaction { pg: self.id, steps }, then);
        }
        let object = push.object;
        if push.first {
            steps.push(Step::Remove { object: object.clone() });
        }
        if !push.absent {
            steps.push(Step::Touch { object: object.clone() });
            for (name, value) in push.attrs {
                steps.push(Step::SetAttr { object: object.clone(), name: name.to_vec(), value });
            }
            if !push.omap_header.is_empty() {
                steps.push(Step::OmapSetHeader { object: object.clone(), header: push.omap_header });
            }
            if !push.omap.is_empty() {
                steps.push(Step::OmapSet { object: object.clone(), entries: push.omap });
            }
            let mut at = 0;
            for (offset, len) in push.runs {
                let data = push.data.slice(at, len as usize);
                at += len as usize;
                steps.push(Step::Write { object: object.clone(), offset, data });
            }
            if push.last {
                steps.push(Step::Truncate { object: object.clone(), size: push.size_bytes });
            }
        }
        let mut then = OnCommit::Nothing;
        if push.last {
            if self.missing.contains_key(&object) {
                steps.push(Pg::found_step(&object));
            }
            then = OnCommit::Pushed { from, since, object: Some(object) };
        }
        cx.submit_or_stop(Transaction { pg: self.id, steps }, then);
    }

    /// A pushed object, or everything, is durable here.
    pub(crate) fn push_durable(&mut self, cx: &mut Context<'_>, from: OsdId, since: Epoch, object: Option<ObjectId>) {
        if since != self.interval.since {
            return;
        }
        if let Some(object) = &object {
            self.missing.remove(object);
        }
        let pg = self.pg_interval();
        cx.send_osd(from, PgPushAck { pg, object });
        if self.is_primary(cx.whoami) {
            self.pulled(cx);
        }
    }

    /// A member has an object, or everything.
    pub(crate) fn push_acked(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgPushAck) {
        let Some(queue) = self.pushes.get_mut(&from) else { return };
        if queue.since != message.pg.since {
            return;
        }
        let ended = match &message.object {
            Some(object) => {
                queue.unacked.remove(object);
                if let Some(state) = self.peering.members.get_mut(&from) {
                    state.missing.remove(object);
                }
                false
            }
            None => true,
        };
        let queue = self.pushes.get(&from).expect("just seen");
        let nothing_left = queue.queue.is_empty() && queue.reading.is_none() && queue.unacked.is_empty();
        if ended || (nothing_left && !queue.ends_with_ack) {
            self.pushes.remove(&from);
            return self.member_complete(cx, from);
        }
        self.push_on(cx, from);
    }
}

impl PgPush {
    fn empty(pg: crate::peer::PgInterval, object: ObjectId) -> PgPush {
        PgPush {
            pg,
            object,
            first: false,
            last: false,
            absent: false,
            size_bytes: 0,
            attrs: BTreeMap::new(),
            omap_header: Bytes::new(),
            omap: Vec::new(),
            runs: Vec::new(),
            data: Rope::new(),
            end_of_all: false,
        }
    }
}

impl ObjectReading {
    fn new(object: ObjectId, stat: Arc<ObjectStat>) -> ObjectReading {
        let omap_after = stat.has_omap.then(Bytes::new);
        ObjectReading { object, stat, first: true, extents: None, omap_after, omap_header: None, data: None }
    }

    /// The next piece; `None` if the object cannot be read.
    fn next_piece(&mut self, cx: &mut Context<'_>, pg: crate::peer::PgInterval) -> Result<Option<PgPush>, NoAnswer> {
        let size_bytes = self.stat.size_bytes;
        if self.extents.is_none() {
            let extents = match size_bytes {
                0 => Vec::new(),
                size => ready(cx.store.extents(&self.object, 0, size))?,
            };
            // Cut into runs that fit a piece.
            let runs = extents.into_iter().flat_map(|(offset, len)| {
                (0..len.div_ceil(PIECE_BYTES)).map(move |i| {
                    let at = i * PIECE_BYTES;
                    (offset + at, PIECE_BYTES.min(len - at))
                })
            });
            self.extents = Some(runs.collect());
        }
        let runs = self.extents.as_mut().expect("just set");
        if let (None, Some(&(offset, len))) = (&self.data, runs.front()) {
            let bytes = ready(cx.store.read(&self.object, offset, len))?;
            self.data = Some((offset, bytes));
        }
        if self.first && self.omap_header.is_none() {
            self.omap_header = Some(ready(cx.store.omap_header(&self.object))?);
        }
        let mut omap = Vec::new();
        let mut omap_after = None;
        if let Some(after) = &self.omap_after {
            let (entries, more) = ready(cx.store.omap_list(&self.object, after, b"", PIECE_OMAP_ENTRIES))?;
            omap_after = more.then(|| entries.last().map(|(key, _)| key.clone())).flatten();
            omap = entries;
        }
        let mut piece = PgPush { size_bytes, first: self.first, omap, ..PgPush::empty(pg, self.object.clone()) };
        if self.first {
            let attrs = self.stat.attrs.iter();
            piece.attrs = attrs.map(|(name, value)| (Bytes::copy_from_slice(name), value.clone())).collect();
            piece.omap_header = self.omap_header.take().expect("asked for above");
        }
        // From here on nothing is asked for any more: the piece is made.
        self.omap_after = omap_after;
        if let Some((offset, data)) = self.data.take() {
            let (_, len) = runs.pop_front().expect("its bytes were read");
            if data.len() as u64 != len {
                return Ok(None);
            }
            piece.runs.push((offset, len));
            piece.data = data;
        }
        self.first = false;
        piece.last = runs.is_empty() && self.omap_after.is_none();
        Ok(Some(piece))
    }
}
