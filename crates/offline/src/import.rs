//! Imports a stream into a store.

use crate::stream::{Frame, FrameReader, ObjectHead, Scope, StreamError, StreamHeader};
use crate::{Device, OfflineError, OfflineStore, Progress};
use pg::PgTable;
use pg::info::PgInfo;
use std::collections::BTreeSet;
use std::io::Read;
use store::{Step, Transaction};
use types::{ObjectId, PgId, PoolId};
use wire::Rope;

/// Summary of an import.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImportReport {
    pub objects: u64,
    pub bytes: u64,
    pub omap_keys: u64,
    pub groups: u64,
    /// Number of objects that the export had left out.
    pub left_out: u64,
}

/// The most bytes that are written and not yet known to be durable.
const UNSETTLED_BYTES_MAX: u64 = 32 << 20;

/// Reads a stream to its end without a store, and so checks that it is whole. This is worth doing before an import that
/// replaces something.
pub fn check_stream(input: impl Read, progress: Progress<'_>) -> Result<ImportReport, OfflineError> {
    let mut reader = FrameReader::new(input)?;
    let mut order = Order::default();
    loop {
        let frame = reader.next()?;
        order.accept(&frame, reader.frame())?;
        progress(reader.bytes(), None);
        if matches!(frame, Frame::End { .. }) {
            reader.finish()?;
            return Ok(order.report);
        }
    }
}

/// The groups that a stream names at its beginning.
pub fn groups_of_stream(input: impl Read) -> Result<Vec<PgId>, OfflineError> {
    let mut reader = FrameReader::new(input)?;
    let mut order = Order::default();
    loop {
        let frame = reader.next()?;
        order.accept(&frame, reader.frame())?;
        if let Frame::Groups(groups) = frame {
            return Ok(groups);
        }
    }
}

/// Checks the store of another shard, beside the store that a stream is to be put into. Errors: that store has groups
/// to which some of the stream's objects would belong. [`import()`] checks its own store itself.
pub fn check_beside<D: Device>(store: &mut OfflineStore<D>, input: impl Read) -> Result<(), OfflineError> {
    let mut reader = FrameReader::new(input)?;
    let mut order = Order::default();
    let frame = reader.next()?;
    order.accept(&frame, reader.frame())?;
    match frame {
        Frame::Header(StreamHeader { scope: Scope::Group { pg, pg_num }, .. }) => refuse_overlaps(store, pg, pg_num),
        _ => Ok(()),
    }
}

/// Refuses a group, one of `pg_num` groups of its pool, if the store has groups of that pool from a time when it had
/// another number of groups. Such a group has a part of this group's objects, or this group has a part of its objects;
/// at least one of the two is not of the pool's present number.
fn refuse_overlaps<D: Device>(store: &mut OfflineStore<D>, pg: PgId, pg_num: u32) -> Result<(), OfflineError> {
    let others: Vec<PgId> =
        store.store().pgs().into_iter().filter(|other| other.pool == pg.pool && *other != pg).collect();
    let mut in_the_way = Vec::new();
    for other in others {
        let table = PgTable::decode(store.pg_table(other)?).map_err(|e| {
            OfflineError::Refused(format!("whether pg {other} has objects of pg {pg} cannot be told: {e}"))
        })?;
        match table.info.pg_num {
            // An import that was cut off left this group, or its table does not tell the number.
            0 if other.seed < pg_num => {}
            kept if kept == pg_num => {}
            0 => in_the_way.push(format!("{other}")),
            kept => in_the_way.push(format!("{other} (one of {kept})")),
        }
    }
    if in_the_way.is_empty() {
        return Ok(());
    }
    Err(OfflineError::Refused(format!(
        "the stream's pg {pg} is one of {pg_num} groups of its pool; the store has groups as of another number, which may have objects \
         of the same names: {}. Take an OSD that has no group of pool {}",
        in_the_way.join(", "),
        pg.pool.0
    )))
}

/// Puts a stream into a store of the same cluster.
///
/// If the store has the group already, the import is refused, unless `replace` is set: then the stream's content takes
/// the group's place. A stream that holds everything replaces all that the store has. A group from before its pool was
/// split or merged is refused in any case, if the store has other groups of the pool.
///
/// Until the stream has come to its end, the groups are marked as incomplete. An import that is cut off therefore
/// leaves nothing that an OSD would serve or rely on.
pub fn import<D: Device>(
    store: &mut OfflineStore<D>,
    input: impl Read,
    replace: bool,
    progress: Progress<'_>,
) -> Result<ImportReport, OfflineError> {
    let mut reader = FrameReader::new(input)?;
    let mut order = Order::default();
    let mut import = Import { store, unsettled: 0, object: None };
    let mut header = None;
    loop {
        let frame = reader.next()?;
        order.accept(&frame, reader.frame())?;
        match frame {
            Frame::Header(found) => {
                let fsid = import.store.label().fsid;
                if found.fsid != fsid {
                    return Err(OfflineError::Refused(format!(
                        "the stream is of cluster {}, the store of {fsid}",
                        found.fsid
                    )));
                }
                header = Some(found);
            }
            Frame::Groups(groups) => import.begin(&header.expect("the header comes first"), &groups, replace)?,
            frame => import.frame(frame)?,
        }
        progress(reader.bytes(), None);
        if order.ended {
            break;
        }
    }
    reader.finish()?;
    // The tables, which make the groups count, come last, when everything before them is durable.
    import.store.settle(false)?;
    for (pg, entries) in order.tables {
        PgTable::decode(entries.clone()).map_err(|e| OfflineError::Refused(format!("pg {pg} in the stream: {e}")))?;
        let steps = entries.into_iter().map(|(key, value)| Step::PgSet { key, value }).collect();
        import.store.submit(Transaction { pg, steps })?;
    }
    import.store.settle(true)?;
    Ok(order.report)
}

type Table = Vec<(bytes::Bytes, bytes::Bytes)>;

/// State of a stream that is being read. It decides whether the next frame is in order.
#[derive(Default)]
struct Order {
    header: Option<StreamHeader>,
    groups: Option<BTreeSet<PgId>>,
    /// The object whose data is coming, with the offsets up to which it has come.
    object: Option<(ObjectId, u64, u64)>,
    last_object: Option<ObjectId>,
    /// Bytes of data of this object so far.
    object_bytes: u64,
    tables: Vec<(PgId, Table)>,
    ended: bool,
    report: ImportReport,
}

impl Order {
    fn accept(&mut self, frame: &Frame, number: u64) -> Result<(), StreamError> {
        let wrong = || StreamError::Order { frame: number, what: frame.name() };
        let in_objects = self.groups.is_some() && self.tables.is_empty() && !self.ended;
        match frame {
            Frame::Header(header) if number == 1 => self.header = Some(*header),
            Frame::Groups(groups) if number == 2 && self.header.is_some() => {
                let set: BTreeSet<PgId> = groups.iter().copied().collect();
                let scope = self.header.as_ref().expect("just seen").scope;
                let fits = match scope {
                    Scope::Everything => true,
                    Scope::Group { pg, .. } => groups == &[pg],
                };
                if set.len() != groups.len() || !fits {
                    return Err(wrong());
                }
                self.report.groups = groups.len() as u64;
                self.groups = Some(set);
            }
            Frame::Object(head) if in_objects => {
                let within = match self.header.as_ref().expect("before the groups").scope {
                    Scope::Everything => true,
                    Scope::Group { pg, pg_num } => {
                        let (from, until) = osdmap::pg_range(pg, pg_num);
                        from <= head.object && head.object < until
                    }
                };
                let behind = self.last_object.as_ref().is_none_or(|last| *last < head.object);
                if !within || !behind || head.object.max || head.object.is_min() {
                    return Err(wrong());
                }
                self.last_object = Some(head.object.clone());
                self.object = Some((head.object.clone(), 0, head.size_bytes));
                self.object_bytes = 0;
                self.report.objects += 1;
            }
            Frame::Data { offset, bytes } if in_objects => {
                let (_, at, size) = self.object.as_mut().ok_or_else(wrong)?;
                let end = offset.checked_add(bytes.len() as u64).filter(|end| *offset >= *at && *end <= *size);
                *at = end.ok_or_else(wrong)?;
                self.object_bytes += bytes.len() as u64;
                self.report.bytes += bytes.len() as u64;
            }
            Frame::Omap(entries) if in_objects && self.object.is_some() => {
                self.report.omap_keys += entries.len() as u64;
            }
            Frame::Abandoned if in_objects && self.object.is_some() => {
                self.object = None;
                self.report.objects -= 1;
                self.report.bytes -= self.object_bytes;
                self.report.left_out += 1;
            }
            Frame::Table { pg, entries } if !self.ended && self.groups.as_ref().is_some_and(|g| g.contains(pg)) => {
                self.object = None;
                let last = self.tables.len().checked_sub(1);
                match self.tables.iter().position(|(known, _)| known == pg) {
                    None => self.tables.push((*pg, entries.clone())),
                    at if at == last => self.tables[at.expect("found")].1.extend(entries.iter().cloned()),
                    Some(_) => return Err(wrong()),
                }
            }
            Frame::End { objects, bytes } if self.groups.is_some() && !self.ended => {
                let counts = [
                    ("groups", self.report.groups, self.tables.len() as u64),
                    ("objects", *objects, self.report.objects),
                    ("bytes", *bytes, self.report.bytes),
                ];
                for (what, said, found) in counts {
                    if said != found {
                        return Err(StreamError::Count { what, said, found });
                    }
                }
                self.ended = true;
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

struct Import<'a, D> {
    store: &'a mut OfflineStore<D>,
    unsettled: u64,
    object: Option<ObjectId>,
}

impl<D: Device> Import<'_, D> {
    /// Makes room for the groups, and marks the groups as incomplete.
    fn begin(&mut self, header: &StreamHeader, groups: &[PgId], replace: bool) -> Result<(), OfflineError> {
        let refused = |what: String| Err(OfflineError::Refused(what));
        let present: BTreeSet<PgId> = self.store.store().pgs().into_iter().collect();
        match header.scope {
            Scope::Group { pg, pg_num } => {
                refuse_overlaps(self.store, pg, pg_num)?;
                let (from, until) = osdmap::pg_range(pg, pg_num);
                let any = !self.store.ready(|store| store.list(&from, &until, 1))?.is_empty();
                let there = present.contains(&pg);
                if (there || any) && !replace {
                    let what = if there { format!("pg {pg}") } else { format!("objects of pg {pg}") };
                    return refused(format!("the store has {what} already; --replace puts the stream in its place"));
                }
                if there {
                    let table = PgTable::decode(self.store.pg_table(pg)?);
                    let kept = table.map_or(0, |table| table.info.pg_num);
                    if kept != 0 && kept != pg_num {
                        return refused(format!(
                            "pg {pg} of the store is one of {kept} groups of its pool, in the stream one of {pg_num}"
                        ));
                    }
                }
                self.store.submit(Transaction { pg, steps: vec![Step::PgDestroy { pg_num }] })?;
            }
            Scope::Everything => {
                let any = !self.store.ready(|store| store.list(&ObjectId::min(), &ObjectId::max(), 1))?.is_empty();
                if (any || !present.is_empty()) && !replace {
                    return refused(format!(
                        "the store is not empty (it has {} placement groups); --replace empties it first",
                        present.len()
                    ));
                }
                self.empty(&present)?;
            }
        }
        for pg in groups {
            // The group becomes complete only by its own table, at the end of the stream.
            let info = PgInfo { complete: false, ..PgInfo::default() };
            self.store.submit(Transaction { pg: *pg, steps: vec![info.step()] })?;
        }
        self.store.settle(false)
    }

    /// Removes everything from the store.
    fn empty(&mut self, present: &BTreeSet<PgId>) -> Result<(), OfflineError> {
        let mut pools: BTreeSet<PoolId> = present.iter().map(|pg| pg.pool).collect();
        self.store.for_each_object(&ObjectId::min(), &ObjectId::max(), |_, object| {
            pools.insert(object.pool);
            Ok(())
        })?;
        // If it were the only group of its pool, group 0 would span every object.
        let whole = pools.into_iter().map(|pool| PgId { pool, seed: 0 });
        for pg in whole.chain(present.iter().copied()) {
            self.store.submit(Transaction { pg, steps: vec![Step::PgDestroy { pg_num: 1 }] })?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: Frame) -> Result<(), OfflineError> {
        let (steps, bytes) = match frame {
            Frame::Object(head) => {
                let bytes = head.attrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
                self.object = Some(head.object.clone());
                (steps_of(head), bytes)
            }
            Frame::Data { offset, bytes } => {
                let object = self.current();
                let len = bytes.len();
                (vec![Step::Write { object, offset, data: Rope::from(bytes) }], len)
            }
            Frame::Omap(entries) => {
                let bytes = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
                (vec![Step::OmapSet { object: self.current(), entries }], bytes)
            }
            Frame::Abandoned => (vec![Step::Remove { object: self.current() }], 0),
            Frame::Header(_) | Frame::Groups(_) | Frame::Table { .. } | Frame::End { .. } => return Ok(()),
        };
        let pg = PgId { pool: self.current().pool, seed: 0 };
        self.store.submit(Transaction { pg, steps })?;
        self.unsettled += bytes as u64 + 1024;
        if self.unsettled > UNSETTLED_BYTES_MAX {
            self.unsettled = 0;
            self.store.settle(false)?;
        }
        Ok(())
    }

    fn current(&self) -> ObjectId {
        self.object.clone().expect("the order of frames has been checked")
    }
}

fn steps_of(head: ObjectHead) -> Vec<Step> {
    let ObjectHead { object, size_bytes, attrs, has_omap, omap_header } = head;
    let mut steps =
        vec![Step::Touch { object: object.clone() }, Step::Truncate { object: object.clone(), size: size_bytes }];
    for (name, value) in attrs {
        steps.push(Step::SetAttr { object: object.clone(), name: name.to_vec(), value });
    }
    if has_omap {
        steps.push(Step::OmapSetHeader { object, header: omap_header });
    }
    steps
}
