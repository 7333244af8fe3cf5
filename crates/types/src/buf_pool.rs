//! A bounded stock of aligned buffers, so that a 4 MiB payload costs neither page faults nor zeroing.

use crate::BLOCK_BYTES;
use crate::aligned::{AlignedBuf, Block};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, TryLockError};

/// Hands out [`AlignedBuf`]s and takes their memory back when they are dropped, on any thread.
///
/// It is meant for one thread; other threads may return memory. No thread ever waits: one that finds the pool in use by
/// another thread allocates or frees memory instead. Sizes are rounded up so that a buffer can serve later requests of
/// about its size.
#[derive(Clone)]
pub struct BufPool(Arc<Inner>);

struct Inner {
    free: Mutex<Free>,
    bytes_max: usize,
}

#[derive(Default)]
struct Free {
    /// Free memory by number of blocks; each number is one of [`size_class`].
    shelves: BTreeMap<usize, Vec<Vec<Block>>>,
    bytes: usize,
}

/// The number of blocks, rounded up to one of four steps per doubling: at most a quarter is wasted.
fn size_class(blocks: usize) -> usize {
    let step = (blocks.next_power_of_two() / 8).max(1);
    blocks.next_multiple_of(step)
}

impl BufPool {
    /// A pool that keeps at most `bytes_max` bytes of unused memory.
    pub fn new(bytes_max: usize) -> BufPool {
        BufPool(Arc::new(Inner { free: Mutex::default(), bytes_max }))
    }

    /// A buffer of `len` bytes with arbitrary contents: zeros or earlier contents.
    pub fn take(&self, len: usize) -> AlignedBuf {
        let class = size_class(len.div_ceil(BLOCK_BYTES));
        let found = self.with_free(|free| {
            let found = free.shelves.get_mut(&class)?.pop()?;
            free.bytes -= class * BLOCK_BYTES;
            Some(found)
        });
        let blocks = found.flatten().unwrap_or_else(|| bytemuck::zeroed_vec(class));
        AlignedBuf::of_pool(blocks, len, self.clone())
    }

    /// Bytes of unused memory in the pool.
    pub fn free_bytes(&self) -> usize {
        self.with_free(|free| free.bytes).unwrap_or(0)
    }

    pub(crate) fn put_back(&self, blocks: Vec<Block>) {
        let bytes = blocks.len() * BLOCK_BYTES;
        self.with_free(|free| {
            if bytes > 0 && free.bytes + bytes <= self.0.bytes_max {
                free.bytes += bytes;
                free.shelves.entry(blocks.len()).or_default().push(blocks);
            }
        });
    }

    /// Accesses the free memory; `None` if another thread is doing so.
    fn with_free<T>(&self, f: impl FnOnce(&mut Free) -> T) -> Option<T> {
        match self.0.free.try_lock() {
            Ok(mut free) => Some(f(&mut free)),
            Err(TryLockError::Poisoned(poisoned)) => Some(f(&mut poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl fmt::Debug for BufPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufPool({} of {} bytes free)", self.free_bytes(), self.0.bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_through_bytes_and_the_stock_is_bounded() {
        let pool = BufPool::new(4 << 20);
        let buf = pool.take(4 << 20);
        let at = buf.as_slice().as_ptr();
        let bytes = buf.freeze();
        let part = bytes.slice(100..200);
        drop(bytes);
        assert_eq!(pool.free_bytes(), 0, "a slice still holds the memory");
        drop(part);
        assert_eq!(pool.free_bytes(), 4 << 20);
        let again = pool.take((4 << 20) - 5);
        assert_eq!((again.as_slice().as_ptr(), again.len()), (at, (4 << 20) - 5));
        drop((again, pool.take(1 << 20)));
        assert_eq!(pool.free_bytes(), 4 << 20, "the second buffer found no room and was freed");
    }

    #[test]
    fn size_classes_waste_little_and_are_fixed_points() {
        for blocks in 0..5000 {
            let class = size_class(blocks);
            assert!(class >= blocks && class * 4 <= blocks * 5, "{blocks} -> {class}");
            assert_eq!(size_class(class), class);
        }
    }

    #[test]
    fn buffers_may_be_dropped_on_another_thread() {
        let pool = BufPool::new(1 << 20);
        let buf = pool.take(8192);
        std::thread::spawn(move || drop(buf)).join().expect("no panic");
        assert_eq!(pool.free_bytes(), 8192);
    }
}
