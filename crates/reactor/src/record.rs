//! A recording of all requests of a loop to its files, and of their completions. From it a test can rebuild the
//! possible states after a power cut at any moment of a real run.
//!
//! A recording is `NACREREC`, a version (4), then entries: kind (1), file (4), io (8), and for writes and discards
//! offset (8) and length (8), for writes the bytes. All numbers are little-endian. Reads are not recorded. A recording
//! may end in the middle of an entry: the process was killed there.

use crate::FileId;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

const MAGIC: [u8; 8] = *b"NACREREC";
const VERSION: u32 = 1;

const WRITE: u8 = 1;
const FLUSH: u8 = 2;
const DISCARD: u8 = 3;
const DONE: u8 = 4;
const FAILED: u8 = 5;

/// One recorded event of a file. `io` names a request from its begin to its end, and may be reused after that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordedEntry {
    Write { file: u32, io: u64, offset: u64, data: Bytes },
    Flush { file: u32, io: u64 },
    Discard { file: u32, io: u64, offset: u64, len: u64 },
    Done { file: u32, io: u64, ok: bool },
}

/// Writes a recording. It copies all written bytes, so it is for tests only.
pub(crate) struct Recorder {
    out: BufWriter<File>,
    /// An entry could not be written, so that no more are: the recording stays a valid one of the time before.
    broken: bool,
}

impl Recorder {
    /// Makes the file, and replaces an existing one.
    pub(crate) fn create(path: &Path) -> io::Result<Recorder> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Recorder { out, broken: false })
    }

    pub(crate) fn write(&mut self, file: FileId, io: u64, offset: u64, pieces: &[Bytes]) {
        let len: usize = pieces.iter().map(Bytes::len).sum();
        self.put(WRITE, file, io, Some((offset, len as u64)), pieces);
    }

    pub(crate) fn flush(&mut self, file: FileId, io: u64) {
        self.put(FLUSH, file, io, None, &[]);
    }

    pub(crate) fn discard(&mut self, file: FileId, io: u64, offset: u64, len: u64) {
        self.put(DISCARD, file, io, Some((offset, len)), &[]);
    }

    pub(crate) fn done(&mut self, file: FileId, io: u64, ok: bool) {
        self.put(if ok { DONE } else { FAILED }, file, io, None, &[]);
    }

    fn put(&mut self, kind: u8, file: FileId, io: u64, range: Option<(u64, u64)>, pieces: &[Bytes]) {
        if self.broken {
            return;
        }
        let mut head = vec![kind];
        head.extend(file.0.to_le_bytes());
        head.extend(io.to_le_bytes());
        if let Some((offset, len)) = range {
            head.extend(offset.to_le_bytes());
            head.extend(len.to_le_bytes());
        }
        let written = self.out.write_all(&head).and_then(|()| pieces.iter().try_for_each(|p| self.out.write_all(p)));
        if let Err(error) = written {
            tracing::error!(%error, "the recording ends here: it cannot be written");
            self.broken = true;
        }
    }
}

/// Reads a recording.
pub struct Recording<R> {
    input: R,
}

impl<R: Read> Recording<R> {
    /// Opens a recording. Errors: the input is no recording, or one of another version.
    pub fn new(mut input: R) -> io::Result<Recording<R>> {
        let mut start = [0; 12];
        input.read_exact(&mut start)?;
        if start[..8] != MAGIC || start[8..] != VERSION.to_le_bytes() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a recording of this version"));
        }
        Ok(Recording { input })
    }

    fn number<const N: usize>(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.input.read_exact(&mut bytes[..N])?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn entry(&mut self) -> io::Result<RecordedEntry> {
        let (kind, file, io) = (self.number::<1>()? as u8, self.number::<4>()? as u32, self.number::<8>()?);
        Ok(match kind {
            WRITE => {
                let (offset, len) = (self.number::<8>()?, self.number::<8>()?);
                let mut data = Vec::new();
                (&mut self.input).take(len).read_to_end(&mut data)?;
                if data.len() as u64 != len {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                RecordedEntry::Write { file, io, offset, data: data.into() }
            }
            FLUSH => RecordedEntry::Flush { file, io },
            DISCARD => RecordedEntry::Discard { file, io, offset: self.number::<8>()?, len: self.number::<8>()? },
            DONE | FAILED => RecordedEntry::Done { file, io, ok: kind == DONE },
            other => {
                let what = format!("entry of kind {other} in a recording");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        })
    }
}

impl<R: Read> Iterator for Recording<R> {
    type Item = io::Result<RecordedEntry>;

    fn next(&mut self) -> Option<io::Result<RecordedEntry>> {
        match self.entry() {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => None,
            result => Some(result),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back_up_to_where_the_file_ends() {
        let path = std::env::temp_dir().join(format!("nacre-recording-{}", std::process::id()));
        let file = FileId(3);
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.write(file, 7, 4096, &[Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
        recorder.flush(file, 8);
        recorder.discard(file, 9, 8192, 4096);
        recorder.done(file, 7, true);
        recorder.done(file, 8, false);
        drop(recorder);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let expected = [
            RecordedEntry::Write { file: 3, io: 7, offset: 4096, data: Bytes::from_static(b"abc") },
            RecordedEntry::Flush { file: 3, io: 8 },
            RecordedEntry::Discard { file: 3, io: 9, offset: 8192, len: 4096 },
            RecordedEntry::Done { file: 3, io: 7, ok: true },
            RecordedEntry::Done { file: 3, io: 8, ok: false },
        ];
        for cut in 12..=bytes.len() {
            let read: Vec<_> = Recording::new(&bytes[..cut]).unwrap().map(|entry| entry.unwrap()).collect();
            assert_eq!(read, expected[..read.len()]);
            assert!(cut < bytes.len() || read.len() == expected.len());
        }
        assert!(Recording::new(&bytes[..11]).is_err());
        assert!(Recording::new(&b"NACREREC\x02\0\0\0"[..]).is_err());
        assert!(Recording::new(&[&bytes[..12], &[9; 13]].concat()[..]).unwrap().next().unwrap().is_err());
    }
}
