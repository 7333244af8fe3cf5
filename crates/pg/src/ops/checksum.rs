//! The step that gives checksums of an object's bytes.

use super::execute::{Execution, StepOutput, done, output};
use types::{Errno, crc32c, xxhash};
use wire::messages::{Checksum, Op, OpArgs};
use wire::{Reader, Writer};

/// The checksum that a client wants, with the value that it begins with.
enum Kind {
    XxHash32(u32),
    XxHash64(u64),
    Crc32c(u32),
}

impl Kind {
    /// Returns the bytes of one checksum.
    fn bytes(&self) -> u64 {
        match self {
            Kind::XxHash32(_) | Kind::Crc32c(_) => 4,
            Kind::XxHash64(_) => 8,
        }
    }

    fn put(&self, w: &mut Writer, bytes: &[u8]) {
        match self {
            Kind::XxHash32(seed) => w.u32(xxhash::xxhash32(*seed, bytes)),
            Kind::XxHash64(seed) => w.u64(xxhash::xxhash64(*seed, bytes)),
            Kind::Crc32c(seed) => w.u32(crc32c::update(*seed, bytes)),
        }
    }
}

impl Execution<'_> {
    pub(super) fn checksum(&mut self, op: &Op) -> StepOutput {
        let OpArgs::Checksum(Checksum { offset, length, chunk_size, kind }) = op.args else {
            return Err(Errno::EINVAL.into());
        };
        self.must_exist()?;
        let chunk = u64::from(chunk_size);
        if chunk > 0 && (length == 0 || length % chunk != 0) {
            return Err(Errno::EINVAL.into());
        }
        let whole = offset == 0 && length == 0;
        if !whole && offset >= self.size {
            return done();
        }
        let length = if whole { self.size } else { length.min(self.size - offset) };
        if chunk > 0 && length % chunk != 0 {
            return Err(Errno::EINVAL.into());
        }
        let input = op.indata.to_vec();
        let mut r = Reader::new(&input);
        let kind = match kind {
            Checksum::XXHASH32 => Kind::XxHash32(r.u32()?),
            Checksum::XXHASH64 => Kind::XxHash64(r.u64()?),
            Checksum::CRC32C => Kind::Crc32c(r.u32()?),
            _ => return Err(Errno::EINVAL.into()),
        };
        // The checksums can take more bytes than the data that is read.
        let chunks = length.checked_div(chunk).unwrap_or(u64::from(length > 0));
        self.answers.take(4 + chunks * kind.bytes())?;
        let bytes = if length == 0 { Default::default() } else { self.read_before(offset, length)?.into_bytes() };
        // Without bytes there are no chunks.
        let chunk = if chunk > 0 { chunk as usize } else { bytes.len().max(1) };
        output(|w| {
            w.count(bytes.len() / chunk);
            bytes.chunks_exact(chunk).for_each(|bytes| kind.put(w, bytes));
        })
    }
}
