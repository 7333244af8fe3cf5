//! Requests to files: memory, progress, outcome.

use crate::FileId;
use crate::backend::DiskCall;
use bytes::Bytes;
use types::{AlignedBuf, BLOCK_BYTES, BufPool};

/// Elements in one vector (Linux's `UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

enum Work {
    Read { buf: AlignedBuf },
    Write { pieces: Vec<Bytes>, vector: Vec<libc::iovec>, len: usize },
    Flush,
    Discard { len: u64 },
}

/// One request, with the memory that it needs until it is done.
pub(crate) struct DiskRequest {
    pub(crate) io: u64,
    pub(crate) file: FileId,
    offset: u64,
    done: usize,
    direct: bool,
    work: Work,
}

/// Consequence of a completion of the kernel's.
pub(crate) enum Progress {
    /// The rest must be submitted.
    Continue,
    Done(Result<Option<AlignedBuf>, i32>),
}

impl DiskRequest {
    pub(crate) fn read(io: u64, file: FileId, direct: bool, offset: u64, buf: AlignedBuf) -> DiskRequest {
        DiskRequest { io, file, offset, done: 0, direct, work: Work::Read { buf } }
    }

    /// A write of `pieces`; also returns the number of bytes that were copied for alignment.
    pub(crate) fn write(
        io: u64,
        file: FileId,
        direct: bool,
        offset: u64,
        mut pieces: Vec<Bytes>,
        pool: &BufPool,
    ) -> (DiskRequest, usize) {
        pieces.retain(|piece| !piece.is_empty());
        let len = pieces.iter().map(Bytes::len).sum();
        let copied = if direct { align(&mut pieces, len, pool) } else { 0 };
        let work = Work::Write { pieces, vector: Vec::new(), len };
        (DiskRequest { io, file, offset, done: 0, direct, work }, copied)
    }

    pub(crate) fn flush(io: u64, file: FileId) -> DiskRequest {
        DiskRequest { io, file, offset: 0, done: 0, direct: false, work: Work::Flush }
    }

    pub(crate) fn discard(io: u64, file: FileId, offset: u64, len: u64) -> DiskRequest {
        DiskRequest { io, file, offset, done: 0, direct: false, work: Work::Discard { len } }
    }

    /// True for an empty read or write, which needs no call.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.work {
            Work::Read { buf } => buf.is_empty(),
            Work::Write { len, .. } => *len == 0,
            Work::Flush => false,
            Work::Discard { len } => *len == 0,
        }
    }

    pub(crate) fn finish_empty(self) -> Result<Option<AlignedBuf>, i32> {
        match self.work {
            Work::Read { buf } => Ok(Some(buf)),
            _ => Ok(None),
        }
    }

    pub(crate) fn is_flush(&self) -> bool {
        matches!(self.work, Work::Flush)
    }

    /// Number of bytes of a write; 0 for other requests.
    pub(crate) fn bytes_to_write(&self) -> usize {
        if let Work::Write { len, .. } = &self.work { *len } else { 0 }
    }

    pub(crate) fn is_read(&self) -> bool {
        matches!(self.work, Work::Read { .. })
    }

    /// The call for the rest of the request. It points into memory that `self` owns, so `self` must live until
    /// completion; it may move.
    pub(crate) fn call(&mut self) -> DiskCall {
        let offset = self.offset + self.done as u64;
        match &mut self.work {
            Work::Read { buf } => {
                let rest = &mut buf.as_mut_slice()[self.done..];
                DiskCall::Read { offset, ptr: rest.as_mut_ptr(), len: rest.len() }
            }
            Work::Write { pieces, vector, .. } => {
                vector.clear();
                let mut skip = self.done;
                for piece in pieces.iter() {
                    if skip >= piece.len() {
                        skip -= piece.len();
                        continue;
                    }
                    let rest = &piece[skip..];
                    skip = 0;
                    vector.push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
                    if vector.len() == PIECES_MAX {
                        break;
                    }
                }
                DiskCall::Write { offset, iovecs: vector.as_ptr(), count: vector.len() }
            }
            Work::Flush => DiskCall::Flush,
            Work::Discard { len } => DiskCall::Discard { offset, len: *len },
        }
    }

    /// Handles a result: a count or a negative errno.
    pub(crate) fn progress(&mut self, result: i32) -> Progress {
        if result == -libc::EINTR || result == -libc::EAGAIN {
            return Progress::Continue;
        }
        if result < 0 {
            return Progress::Done(Err(-result));
        }
        let len = match &self.work {
            Work::Read { buf } => buf.len(),
            Work::Write { len, .. } => *len,
            Work::Flush | Work::Discard { .. } => return Progress::Done(Ok(None)),
        };
        let mut done = self.done + result as usize;
        assert!(done <= len, "{done} bytes done of {len}");
        if done < len && self.direct {
            // The rest begins at a block boundary.
            done -= done % BLOCK_BYTES;
        }
        if done == self.done {
            // The file ends here, or the device makes no progress.
            return Progress::Done(Err(libc::EIO));
        }
        self.done = done;
        if done < len {
            return Progress::Continue;
        }
        Progress::Done(Ok(match &mut self.work {
            Work::Read { buf } => Some(std::mem::replace(buf, AlignedBuf::zeroed(0))),
            _ => None,
        }))
    }
}

/// Copies the pieces into one aligned buffer unless all of them suit direct I/O. Returns the number of bytes copied.
fn align(pieces: &mut Vec<Bytes>, len: usize, pool: &BufPool) -> usize {
    let suits =
        |piece: &Bytes| piece.as_ptr().addr().is_multiple_of(BLOCK_BYTES) && piece.len().is_multiple_of(BLOCK_BYTES);
    if pieces.iter().all(suits) {
        return 0;
    }
    let mut buf = pool.take(len);
    let mut at = 0;
    for piece in pieces.iter() {
        buf.as_mut_slice()[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    *pieces = vec![buf.freeze()];
    len
}

/// Requests in flight by slot. Boxed, so that they stay in place.
#[derive(Default)]
pub(crate) struct DiskRequests {
    slots: Vec<Option<Box<DiskRequest>>>,
    free: Vec<usize>,
}

impl DiskRequests {
    pub(crate) fn insert(&mut self, request: DiskRequest) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(Box::new(request));
        slot
    }

    pub(crate) fn at(&mut self, slot: usize) -> &mut DiskRequest {
        self.slots[slot].as_mut().unwrap_or_else(|| panic!("no disk request in slot {slot}"))
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Box<DiskRequest> {
        self.free.push(slot);
        self.slots[slot].take().unwrap_or_else(|| panic!("no disk request in slot {slot}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(0);

    fn write(direct: bool, pieces: &[&[u8]]) -> (DiskRequest, usize) {
        let pieces = pieces.iter().map(|piece| AlignedBuf::copy_from(piece).freeze()).collect();
        DiskRequest::write(1, FILE, direct, 8192, pieces, &BufPool::new(0))
    }

    fn lengths(request: &mut DiskRequest) -> (u64, Vec<usize>) {
        let DiskCall::Write { offset, iovecs, count } = request.call() else { panic!("not a write") };
        #[allow(unsafe_code)]
        // SAFETY: `call` has just made the vector.
        let vector = unsafe { std::slice::from_raw_parts(iovecs, count) };
        (offset, vector.iter().map(|entry| entry.iov_len).collect())
    }

    #[test]
    fn short_writes_go_on_where_they_stopped() {
        let (mut request, _) = write(false, &[&[1; 100], &[], &[2; 50]]);
        assert_eq!(lengths(&mut request), (8192, vec![100, 50]));
        assert!(matches!(request.progress(120), Progress::Continue));
        assert_eq!(lengths(&mut request), (8312, vec![30]));
        assert!(matches!(request.progress(-libc::EINTR), Progress::Continue));
        assert_eq!(lengths(&mut request), (8312, vec![30]));
        assert!(matches!(request.progress(30), Progress::Done(Ok(None))));
    }

    #[test]
    fn direct_writes_go_on_at_block_boundaries_and_align_memory() {
        let (mut request, copied) = write(true, &[&[1; 4096], &[2; 8192]]);
        assert_eq!((copied, lengths(&mut request)), (0, (8192, vec![4096, 8192])));
        assert!(matches!(request.progress(5000), Progress::Continue));
        assert_eq!(lengths(&mut request), (12288, vec![8192]));
        assert!(matches!(request.progress(1000), Progress::Done(Err(libc::EIO))), "no whole block of progress");
        let (mut request, copied) = write(true, &[&[1; 100], &[2; 3996]]);
        assert_eq!((copied, lengths(&mut request)), (4096, (8192, vec![4096])));
    }

    #[test]
    fn errors_and_the_end_of_the_file_are_errnos() {
        let read = || DiskRequest::read(1, FILE, false, 0, AlignedBuf::zeroed(10));
        assert!(matches!(read().progress(-libc::ENOSPC), Progress::Done(Err(libc::ENOSPC))));
        let mut request = read();
        assert!(matches!(request.progress(4), Progress::Continue));
        assert!(matches!(request.progress(0), Progress::Done(Err(libc::EIO))));
    }
}
