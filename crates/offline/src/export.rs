//! Exports a placement group, or everything, as a stream.

use crate::stream::{Frame, FrameWriter, ObjectHead, Scope, StreamHeader};
use crate::verify::{READS_AHEAD, pieces};
use crate::{Device, OfflineError, OfflineStore, Progress, group};
use bytes::Bytes;
use pg::missing_step;
use pg::object_info::ObjectInfo;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use store::{ReadError, Step};
use types::{EVersion, ObjectId, PgId};

/// The content to export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportScope {
    Everything,
    /// One group. `pg_num`: number of groups in its pool, needed if the group's table does not tell it.
    Group {
        pg: PgId,
        pg_num: Option<u32>,
    },
}

/// Summary of an export.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExportReport {
    pub objects: u64,
    pub bytes: u64,
    pub omap_keys: u64,
    pub groups: u64,
    pub stream_bytes: u64,
    /// Objects that were left out because they cannot be read, with the reasons.
    pub left_out: Vec<(ObjectId, ReadError)>,
}

/// Bytes of entries, of an omap or a group's table, in one frame.
const ENTRIES_BYTES: usize = 1 << 20;

/// Writes a stream. With `leave_out_damaged` an object that cannot be read is left out and noted as missing in its
/// group's table, so that the group brings it from another member. Without it, such an object ends the export.
pub fn export<D: Device>(
    store: &mut OfflineStore<D>,
    scope: ExportScope,
    leave_out_damaged: bool,
    out: impl Write,
    progress: Progress<'_>,
) -> Result<ExportReport, OfflineError> {
    let label = store.label();
    let (scope, groups, from, until) = match scope {
        ExportScope::Everything => (Scope::Everything, store.store().pgs(), ObjectId::min(), ObjectId::max()),
        ExportScope::Group { pg, pg_num } => {
            let group = group::find(store, pg, pg_num)?;
            (Scope::Group { pg, pg_num: group.pg_num }, vec![pg], group.from, group.until)
        }
    };
    let total = (scope == Scope::Everything).then(|| store.store().usage().data_bytes);
    let mut export = Export {
        out: FrameWriter::new(out)?,
        report: ExportReport { groups: groups.len() as u64, ..ExportReport::default() },
        leave_out_damaged,
        missing: BTreeMap::new(),
    };
    let header = StreamHeader { fsid: label.fsid, osd: label.osd, store: label.uuid, scope };
    export.out.put(&Frame::Header(header))?;
    export.out.put(&Frame::Groups(groups.clone()))?;
    store.for_each_object(&from, &until, |store, object| {
        export.object(store, object, scope)?;
        progress(export.report.bytes, total);
        Ok(())
    })?;
    for pg in groups {
        export.table(store, pg)?;
    }
    let (objects, bytes) = (export.report.objects, export.report.bytes);
    export.out.put(&Frame::End { objects, bytes })?;
    export.report.stream_bytes = export.out.bytes();
    export.out.finish()?;
    Ok(export.report)
}

struct Export<W> {
    out: FrameWriter<W>,
    report: ExportReport,
    leave_out_damaged: bool,
    /// Notes to add to each group's table about objects that were left out.
    missing: BTreeMap<PgId, Vec<(Bytes, Bytes)>>,
}

impl<W: Write> Export<W> {
    fn object<D: Device>(
        &mut self,
        store: &mut OfflineStore<D>,
        object: ObjectId,
        scope: Scope,
    ) -> Result<(), OfflineError> {
        let Some(stat) = store.ready(|store| store.stat(&object))? else { return Ok(()) };
        let omap_header = store.ready(|store| store.omap_header(&object))?;
        let head = ObjectHead {
            object: object.clone(),
            size_bytes: stat.size_bytes,
            attrs: stat.attrs.iter().map(|(name, value)| (Bytes::copy_from_slice(name), value.clone())).collect(),
            has_omap: stat.has_omap,
            omap_header,
        };
        self.out.put(&Frame::Object(head))?;
        match self.data(store, &object)? {
            Ok(bytes) => self.report.bytes += bytes,
            Err(error) if self.leave_out_damaged => {
                self.out.put(&Frame::Abandoned)?;
                self.note_missing(store, &object, ObjectInfo::of(&stat).ok().map(|info| info.version), scope)?;
                self.report.left_out.push((object, error));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        let mut batch = Batch::default();
        if stat.has_omap {
            store.for_each_omap_page(&object, |page| {
                self.report.omap_keys += page.len() as u64;
                for entry in page {
                    if let Some(full) = batch.push(entry.clone()) {
                        self.out.put(&Frame::Omap(full))?;
                    }
                }
                Ok(())
            })?;
        }
        if !batch.entries.is_empty() {
            self.out.put(&Frame::Omap(batch.entries))?;
        }
        self.report.objects += 1;
        Ok(())
    }

    /// Exports the object's bytes, several reads ahead, and returns their number. The inner error: the bytes cannot be
    /// read.
    fn data<D: Device>(
        &mut self,
        store: &mut OfflineStore<D>,
        object: &ObjectId,
    ) -> Result<Result<u64, ReadError>, OfflineError> {
        let extents = store.ready(|store| store.placement(object, 0, u64::MAX))?;
        let mut todo = pieces(&extents);
        if todo.is_empty() {
            // Bytes in an object's record have no place of their own on the device.
            todo = store.ready(|store| store.extents(object, 0, u64::MAX))?;
        }
        let mut todo = todo.into_iter();
        let mut ahead = VecDeque::new();
        let (mut written, mut error) = (0, None);
        loop {
            while ahead.len() < READS_AHEAD && error.is_none() {
                let Some((offset, len)) = todo.next() else { break };
                ahead.push_back((offset, store.begin_read(object, offset, len)));
            }
            let Some((offset, read)) = ahead.pop_front() else { break };
            match store.finish_read(read)? {
                Ok(data) if error.is_none() => {
                    let bytes = data.into_bytes();
                    written += bytes.len() as u64;
                    self.out.put(&Frame::Data { offset, bytes })?;
                }
                Ok(_) => {}
                Err(e) => error = error.or(Some(e)),
            }
        }
        Ok(error.map_or(Ok(written), Err))
    }

    fn note_missing<D: Device>(
        &mut self,
        store: &mut OfflineStore<D>,
        object: &ObjectId,
        version: Option<EVersion>,
        scope: Scope,
    ) -> Result<(), OfflineError> {
        let group = match scope {
            Scope::Group { pg, pg_num } => Some(group::find(store, pg, Some(pg_num))?),
            Scope::Everything => group::of_object(store, object)?,
        };
        let found = group.and_then(|group| Some((group.pg, group.table.version_of(object).or(version)?)));
        let Some((pg, version)) = found else {
            return Err(OfflineError::Refused(format!(
                "object {object} is damaged, and no group of this store could note that it lacks it"
            )));
        };
        let Step::PgSet { key, value } = missing_step(object, version) else {
            panic!("a note about a missing object is an entry of the group's table")
        };
        self.missing.entry(pg).or_default().push((key, value));
        Ok(())
    }

    fn table<D: Device>(&mut self, store: &mut OfflineStore<D>, pg: PgId) -> Result<(), OfflineError> {
        let mut entries: BTreeMap<Bytes, Bytes> = store.pg_table(pg)?.into_iter().collect();
        entries.extend(self.missing.remove(&pg).unwrap_or_default());
        // This entry is about this store's blocks, not about the group.
        entries.remove(&pg::CHECK_KEY);
        let mut batch = Batch::default();
        for entry in entries {
            if let Some(entries) = batch.push(entry) {
                self.out.put(&Frame::Table { pg, entries })?;
            }
        }
        self.out.put(&Frame::Table { pg, entries: batch.entries })?;
        Ok(())
    }
}

/// Entries gathered up to about [`ENTRIES_BYTES`].
#[derive(Default)]
struct Batch {
    entries: Vec<(Bytes, Bytes)>,
    bytes: usize,
}

impl Batch {
    /// Takes in an entry. Returns the earlier entries if they fill a frame.
    fn push(&mut self, entry: (Bytes, Bytes)) -> Option<Vec<(Bytes, Bytes)>> {
        let bytes = entry.0.len() + entry.1.len() + 8;
        let full = (!self.entries.is_empty() && self.bytes + bytes > ENTRIES_BYTES).then(|| {
            self.bytes = 0;
            std::mem::take(&mut self.entries)
        });
        self.bytes += bytes;
        self.entries.push(entry);
        full
    }
}
