//! Steps on an object's bytes and on the object as a whole.

use super::execute::{BytesOfShards, Execution, OpStop, StepOutput, done, output};
use crate::group::lookup::NoAnswer;
use bytes::Bytes;
use ec::StripeLayout;
use std::sync::Arc;
use store::{ReadError, Step};
use types::crc32c::SEED;
use types::{EVersion, Errno, ObjectId};
use wire::Rope;
use wire::messages::{Op, OpArgs, OpCode, WriteSame, op_flag};

/// The range a step names, and the truncation it knows of.
#[derive(Clone, Copy)]
struct Range {
    offset: u64,
    len: u64,
    truncate_size: u64,
    truncate_seq: u32,
}

fn range(op: &Op) -> Result<Range, OpStop> {
    let OpArgs::Extent(extent) = op.args else { return Err(Errno::EINVAL.into()) };
    let wire::messages::Extent { offset, length, truncate_size, truncate_seq } = extent;
    // An old kernel client says "no truncation" this way.
    let (truncate_size, truncate_seq) =
        if truncate_seq == 1 && truncate_size == u64::MAX { (0, 0) } else { (truncate_size, truncate_seq) };
    Ok(Range { offset, len: length, truncate_size, truncate_seq })
}

/// Returns a pattern so many times, in pieces that share its memory: few, however short it is.
fn repeated(pattern: Bytes, times: u64) -> Rope {
    const PIECE_BYTES: usize = 64 << 10;
    let in_piece = ((PIECE_BYTES / pattern.len()) as u64).clamp(1, times);
    let piece = if in_piece == 1 { pattern.clone() } else { Bytes::from(pattern.repeat(in_piece as usize)) };
    let pieces = (0..times / in_piece).map(|_| piece.clone());
    let rest = piece.slice(..(times % in_piece) as usize * pattern.len());
    pieces.chain([rest]).collect()
}

impl Execution<'_> {
    pub(super) fn data_read(&mut self, op: &Op) -> StepOutput {
        let is_coded = self.request.layout.is_some();
        match op.code {
            OpCode::SYNC_READ | OpCode::MAPEXT if is_coded => Err(Errno::EOPNOTSUPP.into()),
            OpCode::READ | OpCode::SYNC_READ => {
                self.must_exist()?;
                let range = range(op)?;
                Ok((0, self.read_range(range)?))
            }
            OpCode::SPARSE_READ => self.sparse_read(op),
            OpCode::MAPEXT => {
                self.must_exist()?;
                let extents = self.data_extents(range(op)?)?;
                output(|w| w.put(&extents))
            }
            OpCode::STAT => {
                self.must_exist()?;
                let (size, mtime) = (self.size, self.info.mtime);
                output(|w| {
                    w.u64(size);
                    w.put(&mtime);
                })
            }
            OpCode::ASSERT_VER => {
                let OpArgs::AssertVersion { version } = op.args else { return Err(Errno::EINVAL.into()) };
                let have = self.info.user_version;
                match version {
                    0 => Err(Errno::EINVAL.into()),
                    v if v < have => Err(Errno::ERANGE.into()),
                    v if v > have => Err(Errno::EOVERFLOW.into()),
                    _ => self.pass(),
                }
            }
            OpCode::CMPEXT => self.compare_extent(op),
            OpCode::CHECKSUM => self.checksum(op),
            OpCode::ISDIRTY => {
                self.must_exist()?;
                output(|w| w.bool(true))
            }
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Clips `range` to the object as the client knows it.
    fn clip(&self, range: Range) -> (u64, u64) {
        let newer_truncation = range.truncate_seq > self.info.truncate_seq;
        let size = if newer_truncation { self.size.min(range.truncate_size) } else { self.size };
        let len = if range.len == 0 { u64::MAX } else { range.len };
        (range.offset, len.min(size.saturating_sub(range.offset)))
    }

    /// Returns bytes as they were before the operation; to the end if `len` is 0.
    pub(super) fn read_before(&mut self, offset: u64, len: u64) -> Result<Rope, OpStop> {
        if self.before.is_none() {
            return Ok(Rope::new());
        }
        self.read_range(Range { offset, len, truncate_size: 0, truncate_seq: 0 })
    }

    fn read_range(&mut self, range: Range) -> Result<Rope, OpStop> {
        let (offset, mut len) = self.clip(range);
        if self.request.layout.is_some() {
            // Shards have what the object was before the operation.
            len = len.min(self.size_before.saturating_sub(offset));
        }
        if len == 0 {
            return Ok(Rope::new());
        }
        self.answers.take(len)?;
        let read = match self.request.layout {
            None => self.answers.read(self.store, self.request.object, (offset, len))?,
            Some(layout) => {
                let (object, version) = (self.request.object.clone(), self.info_before.version);
                self.bytes_of_shards(&object, version, layout, (offset, len))?
            }
        };
        match read {
            Ok(bytes) => {
                self.bytes_read += bytes.len() as u64;
                Ok(bytes)
            }
            Err(e) => {
                tracing::error!("read failed: {e}");
                Err(Errno::EIO.into())
            }
        }
    }

    /// Returns bytes of this version of an object whose shards lie on several OSDs. If all of them are in this OSD's
    /// own shard and can be read there, no other shard is asked.
    pub(super) fn bytes_of_shards(
        &mut self,
        object: &ObjectId,
        version: EVersion,
        layout: StripeLayout,
        (offset, len): (u64, u64),
    ) -> Result<Result<Rope, ReadError>, OpStop> {
        let (shard, shard_offset) = layout.locate(offset);
        let is_in_one_unit = offset % layout.unit_bytes() + len <= layout.unit_bytes();
        let is_here = object.pool.shard().is_some_and(|own| usize::from(own) == shard);
        if is_in_one_unit && is_here {
            match self.answers.read(self.store, object, (shard_offset, len)) {
                Ok(Ok(bytes)) if bytes.len() as u64 == len => return Ok(Ok(bytes)),
                Err(NoAnswer::Pending(id)) => return Err(OpStop::Blocked(id)),
                // The other shards make up for it.
                Ok(_) | Err(NoAnswer::Damaged(_)) => {}
            }
        }
        let gather = || OpStop::Gather(Box::new(BytesOfShards { object: object.clone(), version, offset, len }));
        self.answers.gathered(object, (offset, len))?.ok_or_else(gather)
    }

    /// Returns the ranges of `range` that hold data, as a map from offset to length.
    fn data_extents(&mut self, range: Range) -> Result<std::collections::BTreeMap<u64, u64>, OpStop> {
        let (offset, len) = self.clip(range);
        if len == 0 {
            return Ok(Default::default());
        }
        Ok(self.answers.extents(self.store, self.request.object, (offset, len))??.into_iter().collect())
    }

    fn sparse_read(&mut self, op: &Op) -> StepOutput {
        self.must_exist()?;
        let range = range(op)?;
        if range.truncate_seq != 0 {
            return Err(Errno::EINVAL.into());
        }
        let extents = match self.request.layout {
            // A length of zero reads nothing; with other reads it means everything.
            _ if range.len == 0 => Default::default(),
            None => self.data_extents(range)?,
            // Ranges that hold data are not known of the whole object, so it is one range.
            Some(_) => Some(self.clip(range)).filter(|(_, len)| *len > 0).into_iter().collect(),
        };
        if extents.values().sum::<u64>() > self.answers.room() {
            return Err(Errno::EMSGSIZE.into());
        }
        let mut data = Rope::new();
        for (&offset, &len) in &extents {
            data.append(self.read_range(Range { offset, len, ..range })?);
        }
        let (_, mut out) = output(|w| {
            w.put(&extents);
            w.count(data.len());
        })?;
        out.append(data);
        Ok((0, out))
    }

    fn compare_extent(&mut self, op: &Op) -> StepOutput {
        let range = range(op)?;
        let want = op.indata.to_vec();
        if want.len() as u64 != range.len {
            return Err(Errno::EINVAL.into());
        }
        // Bytes that are not there read as zeros.
        let have = if self.exists && range.len > 0 { self.read_range(range)?.to_vec() } else { Vec::new() };
        let differing = (0..want.len()).find(|&i| want[i] != have.get(i).copied().unwrap_or(0));
        match differing {
            Some(i) => Err(OpStop::Result(-4095 - i as i32)),
            None => done(),
        }
    }

    pub(super) fn data_write(&mut self, op: &Op) -> StepOutput {
        match op.code {
            OpCode::WRITE => {
                let range = range(op)?;
                self.write(range, op.indata.clone())
            }
            OpCode::WRITEFULL => {
                let range = range(op)?;
                self.write_full(range, op.indata.clone())
            }
            OpCode::APPEND => {
                let range = range(op)?;
                let offset = if self.exists { self.size } else { 0 };
                self.write(Range { offset, ..range }, op.indata.clone())
            }
            OpCode::WRITESAME => self.write_same(op),
            OpCode::TRUNCATE if !self.request.may_overwrite => Err(Errno::EOPNOTSUPP.into()),
            OpCode::TRUNCATE => {
                let size = range(op)?.offset;
                self.check_end(size, 0)?;
                if self.exists {
                    self.touch();
                    if size != self.size {
                        self.truncate(size);
                    }
                }
                done()
            }
            OpCode::ZERO => {
                let Range { offset, len, .. } = range(op)?;
                self.check_end(offset, len)?;
                if (self.exists || self.was_whiteout()) && offset >= self.size && len > 0 {
                    return self.pass();
                }
                if !self.request.may_overwrite {
                    return Err(Errno::EOPNOTSUPP.into());
                }
                if self.exists && len > 0 {
                    if offset + len >= self.size {
                        self.truncate(offset);
                    } else {
                        let object = self.object();
                        self.changed.insert(offset, len);
                        self.push(Step::Zero { object, offset, len });
                    }
                }
                done()
            }
            OpCode::DELETE => {
                self.must_exist()?;
                self.remove();
                done()
            }
            OpCode::CREATE => {
                if self.exists && op.flags & op_flag::EXCL != 0 {
                    return Err(Errno::EEXIST.into());
                }
                self.ensure_exists();
                done()
            }
            OpCode::SETALLOCHINT => {
                let OpArgs::AllocHint(hint) = op.args else { return Err(Errno::EINVAL.into()) };
                self.ensure_exists();
                let info = Arc::make_mut(&mut self.info);
                (info.expected_object_bytes, info.expected_write_bytes, info.alloc_hint_flags) =
                    (hint.expected_object_size, hint.expected_write_size, hint.flags);
                done()
            }
            OpCode::STARTSYNC => {
                if self.exists {
                    self.touch();
                }
                done()
            }
            OpCode::UNDIRTY => done(),
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    fn check_end(&self, offset: u64, len: u64) -> Result<(), OpStop> {
        match offset.checked_add(len) {
            Some(end) if end <= self.limits.object_bytes => Ok(()),
            _ => Err(Errno::EFBIG.into()),
        }
    }

    pub(super) fn remove(&mut self) {
        // Changes that earlier steps of this operation made to the object are gone with it.
        self.void_steps();
        let object = self.object();
        self.changed.insert(0, self.size);
        self.push(Step::Remove { object });
        (self.exists, self.size) = (false, 0);
        self.end_all_watches();
    }

    fn truncate(&mut self, size: u64) {
        let object = self.object();
        self.changed.insert(size, self.size.saturating_sub(size));
        self.push(Step::Truncate { object, size });
        self.size = size;
    }

    fn write(&mut self, range: Range, data: Rope) -> StepOutput {
        if data.len() as u64 != range.len {
            return Err(Errno::EINVAL.into());
        }
        self.check_end(range.offset, range.len)?;
        self.check_stripe(range)?;
        self.follow_truncation(range);
        self.ensure_exists();
        if range.len == 0 {
            if range.offset > self.size {
                self.truncate(range.offset);
            }
            return done();
        }
        let (object, offset) = (self.object(), range.offset);
        self.changed.insert(offset, range.len);
        self.push(Step::Write { object, offset, data });
        self.size = self.size.max(range.offset + range.len);
        self.bytes_written += range.len;
        done()
    }

    /// Checks, in a pool without overwrites, that what is written begins where the object ends, at a stripe.
    fn check_stripe(&self, range: Range) -> Result<(), OpStop> {
        let Some(layout) = self.request.layout.filter(|_| !self.request.may_overwrite) else { return Ok(()) };
        let end = if self.exists { self.size } else { 0 };
        let truncates = range.truncate_seq > self.info.truncate_seq && end > range.truncate_size;
        match range.offset == end && range.offset.is_multiple_of(layout.stripe_bytes()) && !truncates {
            true => Ok(()),
            false => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Carries out a truncation that a write knows of, if it is newer than the object's.
    fn follow_truncation(&mut self, range: Range) {
        if range.truncate_seq > self.info.truncate_seq {
            if self.exists && self.size > range.truncate_size {
                self.truncate(range.truncate_size);
            }
            let info = Arc::make_mut(&mut self.info);
            (info.truncate_seq, info.truncate_size) = (range.truncate_seq, range.truncate_size);
        }
    }

    fn write_full(&mut self, range: Range, data: Rope) -> StepOutput {
        if data.len() as u64 != range.len {
            return Err(Errno::EINVAL.into());
        }
        self.check_end(0, range.len)?;
        // A write of no bytes changes the object, too: a shard then is not what it was.
        if self.exists && (self.size > 0 || self.request.layout.is_some()) {
            // Cutting first frees the old blocks and spares reading the last one back.
            self.truncate(0);
        }
        let is_empty = data.is_empty();
        let written = self.write(Range { offset: 0, truncate_seq: 0, ..range }, data)?;
        if is_empty && self.request.layout.is_none() {
            Arc::make_mut(&mut self.info).digests.data = Some(SEED);
        }
        Ok(written)
    }

    fn write_same(&mut self, op: &Op) -> StepOutput {
        let OpArgs::WriteSame(WriteSame { offset, length, data_length }) = op.args else {
            return Err(Errno::EINVAL.into());
        };
        let pattern_bytes = op.indata.len() as u64;
        if length == 0 {
            return done();
        }
        if data_length == 0 || data_length != pattern_bytes || length % data_length != 0 {
            return Err(Errno::EINVAL.into());
        }
        self.check_end(offset, length)?;
        if length > self.limits.op_bytes as u64 && !mutant::is(mutant::Mutant::EffectsUnbounded) {
            return Err(Errno::EFBIG.into());
        }
        let data = repeated(op.indata.clone().into_bytes(), length / data_length);
        self.write(Range { offset, len: length, truncate_size: 0, truncate_seq: 0 }, data)
    }
}
