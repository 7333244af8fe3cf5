//! An object on its way to another member, read piece by piece.

use crate::coded::coding::without_zeros;
use crate::coded::wanted::Wanted;
use crate::context::Context;
use crate::group::digests::{Content, Digests, Wrong};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::messages::PgInterval;
use crate::messages::healing::PgPush;
use bytes::Bytes;
use mutant::Mutant;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::ObjectStat;
use types::{EVersion, ObjectId, OsdId};
use wire::Rope;

/// Omap entries in one push.
pub(crate) const PIECE_OMAP_ENTRIES: usize = 1024;

/// Why an object is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Unsound {
    #[error("its data is shorter than it should be")]
    Short,
    #[error("{0}")]
    Wrong(Wrong),
}

/// Bytes of one shard of an object, which are to be gathered.
#[derive(Debug)]
pub(crate) struct ShardWanted {
    pub object: ObjectId,
    pub version: EVersion,
    pub wanted: Wanted,
    /// The OSD whose shard as a member is not to be read.
    pub but: Option<OsdId>,
}

/// An object of which some pieces have been sent.
#[derive(Debug)]
pub(crate) struct ObjectReading {
    pub object: ObjectId,
    stat: Arc<ObjectStat>,
    /// Pieces that have been made.
    pieces: u32,
    /// `None` until asked.
    extents: Option<VecDeque<(u64, u64)>>,
    /// Entries up to this key have been sent; `None` once all have.
    omap_after: Option<Bytes>,
    /// The first piece's, once it is known.
    omap_header: Option<Bytes>,
    /// Bytes that have come for the next piece.
    data: Option<(u64, Rope)>,
    /// Content of the pieces so far.
    content: Option<Content>,
    digests: Digests,
    /// In erasure-coded pools: it is this shard that is sent. All are equally long and have the same attributes.
    shard: Option<usize>,
}

impl PgPush {
    /// Makes the message that an object is not there.
    pub(crate) fn absent(pg: PgInterval, object: ObjectId) -> PgPush {
        PgPush { absent: true, first: true, last: true, ..PgPush::empty(pg, object) }
    }

    pub(crate) fn empty(pg: PgInterval, object: ObjectId) -> PgPush {
        PgPush {
            pg,
            object,
            version: EVersion::ZERO,
            piece: 0,
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
    /// Returns the object's version, if that can be told.
    pub fn version(&self) -> Option<EVersion> {
        ObjectInfo::of(&self.stat).ok().map(|info| info.version)
    }

    /// Takes bytes that were asked for.
    pub fn data_came(&mut self, bytes: Rope) {
        let offset = self.extents.as_ref().and_then(|extents| extents.front()).expect("a run was being read").0;
        self.data = Some((offset, bytes));
    }

    pub fn new(object: ObjectId, stat: Arc<ObjectStat>) -> ObjectReading {
        let omap_after = stat.has_omap.then(Bytes::new);
        let digests = ObjectInfo::of(&stat).map(|info| info.digests).unwrap_or_default();
        ObjectReading {
            object,
            stat,
            pieces: 0,
            extents: None,
            omap_after,
            omap_header: None,
            data: None,
            content: None,
            digests,
            shard: None,
        }
    }

    /// Makes this a reading of which another shard than this OSD's is sent, in pieces of `piece_bytes`.
    pub fn of_shard(self, shard: usize, piece_bytes: u64) -> ObjectReading {
        let size = self.stat.size_bytes;
        let runs = (0..size.div_ceil(piece_bytes)).map(|i| (i * piece_bytes, piece_bytes.min(size - i * piece_bytes)));
        ObjectReading { extents: Some(runs.collect()), shard: Some(shard), ..self }
    }

    /// Returns the bytes of a shard that must be gathered before the next piece, from others than `but`.
    pub fn wants_shard(&self, but: Option<OsdId>) -> Option<ShardWanted> {
        let (shard, version) = (self.shard?, self.version()?);
        let &(offset, len) = self.extents.as_ref()?.front().filter(|_| self.data.is_none())?;
        let wanted = Wanted::Shard { shard, offset, len, attrs: false, omap_after: None };
        Some(ShardWanted { object: self.object.clone(), version, wanted, but })
    }

    /// Returns the digests that the object information names for the content.
    pub fn digests(&self) -> &Digests {
        &self.digests
    }

    /// Returns the next piece; or why the object is not sent.
    pub fn next_piece(&mut self, cx: &mut Context<'_>, pg: PgInterval) -> Result<Result<PgPush, Unsound>, NoAnswer> {
        let size_bytes = self.stat.size_bytes;
        let (first, piece_bytes) = (self.pieces == 0, cx.limits.piece_bytes);
        if self.extents.is_none() {
            let extents = match size_bytes {
                0 => Vec::new(),
                size => ready(cx.store.extents(&self.object, 0, size))?,
            };
            // Cut into runs that fit a piece.
            let runs = extents.into_iter().flat_map(|(offset, len)| {
                (0..len.div_ceil(piece_bytes)).map(move |i| {
                    let at = i * piece_bytes;
                    (offset + at, piece_bytes.min(len - at))
                })
            });
            self.extents = Some(runs.collect());
        }
        let (version, piece) = (self.version().unwrap_or_default(), self.pieces);
        let runs = self.extents.as_mut().expect("just set");
        if let (None, Some(&(offset, len))) = (&self.data, runs.front()) {
            let bytes = ready(cx.store.read(&self.object, offset, len))?;
            self.data = Some((offset, bytes));
        }
        if first && self.omap_header.is_none() {
            self.omap_header = Some(ready(cx.store.omap_header(&self.object))?);
        }
        let mut omap = Vec::new();
        let mut omap_after = None;
        let page = (PIECE_OMAP_ENTRIES, piece_bytes as usize);
        if let Some(after) = &self.omap_after {
            let (entries, more) = ready(cx.store.omap_page(&self.object, after, b"", page))?;
            omap_after = more.then(|| entries.last().map(|(key, _)| key.clone())).flatten();
            omap = entries;
        }
        let mut piece = PgPush { version, piece, first, size_bytes, omap, ..PgPush::empty(pg, self.object.clone()) };
        if first {
            let attrs = self.stat.attrs.iter();
            piece.attrs = attrs.map(|(name, value)| (Bytes::copy_from_slice(name), value.clone())).collect();
            piece.omap_header = self.omap_header.take().expect("asked for above");
        }
        // The piece is made: nothing is asked for from here on.
        self.omap_after = omap_after;
        if let Some((offset, data)) = self.data.take() {
            let (_, len) = runs.pop_front().expect("its bytes were read");
            if data.len() as u64 != len {
                return Ok(Err(Unsound::Short));
            }
            (piece.runs, piece.data) = match self.shard {
                Some(_) => without_zeros(offset, data),
                None => (vec![(offset, len)], data),
            };
        }
        self.pieces += 1;
        piece.last = runs.is_empty() && self.omap_after.is_none();
        if piece.last
            && let Some(info) = self.stat.attrs.get(OBJECT_INFO_ATTR)
        {
            piece.attrs.insert(Bytes::from_static(OBJECT_INFO_ATTR), info.clone());
        }
        let content = self.content.get_or_insert_with(|| Content::new(&piece.omap_header));
        content.add(&piece.omap, &piece.runs, &piece.data);
        if piece.last && !mutant::is(Mutant::ReceiverTrusts) {
            let shard = self.shard.map(|shard| shard as u8);
            if let Err(wrong) = content.check(&self.digests, size_bytes, shard) {
                return Ok(Err(Unsound::Wrong(wrong)));
            }
        }
        Ok(Ok(piece))
    }
}
