//! Receive buffers that the kernel picks from, so that a waiting connection holds none.

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use types::AlignedBuf;

/// Group id of the only ring of buffers.
pub(crate) const BUFFER_GROUP: u16 = 0;

pub(crate) struct BufRing {
    /// The entries shared with the kernel; the tail lies in an unused field of the first.
    entries: AlignedBuf,
    buffers: Vec<Option<AlignedBuf>>,
    tail: u16,
}

impl BufRing {
    /// Registers `count` buffers, a power of two.
    pub(crate) fn register(submitter: &Submitter<'_>, count: u16, buffer_bytes: usize) -> io::Result<BufRing> {
        let mut ring = BufRing {
            entries: AlignedBuf::zeroed(usize::from(count) * size_of::<BufRingEntry>()),
            buffers: (0..count).map(|_| Some(AlignedBuf::zeroed(buffer_bytes))).collect(),
            tail: 0,
        };
        let address = ring.entries.as_mut_slice().as_mut_ptr() as u64;
        #[allow(unsafe_code)]
        // SAFETY: the entries are page-aligned, live as long as `self`, and are unregistered before they are freed
        // (`Uring::drain`).
        unsafe {
            submitter.register_buf_ring_with_flags(address, count, BUFFER_GROUP, 0)?;
        }
        for id in 0..count {
            ring.offer(id);
        }
        Ok(ring)
    }

    pub(crate) fn take(&mut self, id: u16) -> AlignedBuf {
        self.buffers[usize::from(id)].take().unwrap_or_else(|| panic!("receive buffer {id} is taken twice"))
    }

    pub(crate) fn give(&mut self, id: u16, buf: AlignedBuf) {
        assert!(self.buffers[usize::from(id)].replace(buf).is_none(), "receive buffer {id} was not taken");
        self.offer(id);
    }

    /// Gives up the buffers without freeing them, because the kernel may still write to them.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.buffers));
    }

    /// Tells the kernel that it may fill this buffer.
    fn offer(&mut self, id: u16) {
        let buf = self.buffers[usize::from(id)].as_mut().expect("an offered buffer is at home");
        let (address, len) = (buf.as_mut_slice().as_mut_ptr() as u64, buf.len() as u32);
        let index = usize::from(self.tail) & (self.buffers.len() - 1);
        self.tail = self.tail.wrapping_add(1);
        let base = self.entries.as_mut_slice().as_mut_ptr().cast::<BufRingEntry>();
        #[allow(unsafe_code)]
        // SAFETY: `index` is below the number of entries, which `entries` has room for; the kernel reads an entry only
        // once the tail, stored last, includes it. The tail is two aligned bytes within the first entry.
        unsafe {
            let entry = &mut *base.add(index);
            entry.set_addr(address);
            entry.set_len(len);
            entry.set_bid(id);
            let tail = BufRingEntry::tail(base).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}
