//! Values too large for a leaf, in runs of blocks of their own.

use super::VALUE_BYTES_MAX;
use super::damage::Damage;
use super::layout::{
    self, LIST_HEAD_BYTES, OVERFLOW_DEPTH_MAX, OVERFLOW_HEAD_BYTES, OVERFLOW_RUN_BYTES, OVERFLOW_RUNS_MAX, overflow_run,
};
use super::le::{u32_at, u64_at};
use super::page_cache::{Fetch, PageCache, Use};
use crate::space::run::Run;
use bytes::{Bytes, BytesMut};
use types::BLOCK_BYTES;

/// A run of blocks and the checksum of all its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OverflowRun {
    pub run: Run,
    pub crc: u32,
}

/// The place of a large value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Overflow {
    pub value_bytes: u32,
    /// 0: the runs hold the value. Otherwise they hold a list of runs, whose depth is one less.
    pub depth: u8,
    pub runs: Vec<OverflowRun>,
}

fn encode_run(run: &OverflowRun, out: &mut Vec<u8>) {
    out.extend_from_slice(&u64::from(run.run.start).to_le_bytes());
    out.extend_from_slice(&run.run.count.to_le_bytes());
    out.extend_from_slice(&run.crc.to_le_bytes());
}

fn decode_run(bytes: &[u8]) -> Option<OverflowRun> {
    let start = u32::try_from(u64_at(bytes, overflow_run::BLOCK)).ok()?;
    let count = u32_at(bytes, overflow_run::BLOCKS);
    let fits = count > 0 && start.checked_add(count).is_some();
    fits.then(|| OverflowRun { run: Run { start, count }, crc: u32_at(bytes, overflow_run::CRC) })
}

/// Returns the runs listed in `bytes`; `None` if the list is malformed.
fn decode_list(bytes: &[u8]) -> Option<Vec<OverflowRun>> {
    let count = u32_at(bytes.get(..LIST_HEAD_BYTES)?, 0) as usize;
    let runs = bytes[LIST_HEAD_BYTES..].chunks_exact(OVERFLOW_RUN_BYTES);
    if count > runs.len() {
        return None;
    }
    runs.take(count).map(decode_run).collect()
}

/// Encodes a list of runs.
pub(crate) fn encode_list(runs: &[OverflowRun]) -> Vec<u8> {
    let mut out = Vec::with_capacity(LIST_HEAD_BYTES + runs.len() * OVERFLOW_RUN_BYTES);
    out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
    runs.iter().for_each(|run| encode_run(run, &mut out));
    out
}

fn blocks_of(runs: &[OverflowRun]) -> u64 {
    runs.iter().map(|run| u64::from(run.run.count)).sum()
}

impl Overflow {
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!((1..=OVERFLOW_RUNS_MAX).contains(&self.runs.len()), "{} overflow runs in an entry", self.runs.len());
        out.extend_from_slice(&self.value_bytes.to_le_bytes());
        out.push(self.depth);
        out.push(self.runs.len() as u8);
        self.runs.iter().for_each(|run| encode_run(run, out));
    }

    /// Returns the length of the value that an encoded overflow names. The bytes must be sound.
    pub fn value_bytes_of(encoded: &[u8]) -> usize {
        u32_at(encoded, layout::overflow::VALUE_BYTES) as usize
    }

    /// Returns `None` for bytes that [`Overflow::encode`] does not make.
    pub fn decode(bytes: &[u8]) -> Option<Overflow> {
        let head = bytes.get(..OVERFLOW_HEAD_BYTES)?;
        let (value_bytes, depth, count) = (
            u32_at(head, layout::overflow::VALUE_BYTES),
            head[layout::overflow::DEPTH],
            usize::from(head[layout::overflow::RUNS]),
        );
        let sound = (1..=VALUE_BYTES_MAX).contains(&(value_bytes as usize))
            && depth <= OVERFLOW_DEPTH_MAX
            && (1..=OVERFLOW_RUNS_MAX).contains(&count)
            && bytes.len() == OVERFLOW_HEAD_BYTES + count * OVERFLOW_RUN_BYTES;
        if !sound {
            return None;
        }
        let runs: Vec<OverflowRun> =
            bytes[OVERFLOW_HEAD_BYTES..].chunks_exact(OVERFLOW_RUN_BYTES).map(decode_run).collect::<Option<_>>()?;
        let overflow = Overflow { value_bytes, depth, runs };
        (depth > 0 || overflow.is_whole(&overflow.runs)).then_some(overflow)
    }

    /// Returns true if the runs are as long as the value.
    fn is_whole(&self, runs: &[OverflowRun]) -> bool {
        blocks_of(runs) == (self.value_bytes as usize).div_ceil(BLOCK_BYTES) as u64
    }

    /// Returns the runs that hold the value, and puts the runs that hold lists into `lists`. Errors: a list is damaged.
    pub fn resolve(&self, cache: &mut PageCache, lists: &mut Vec<Run>) -> Result<Fetch<Vec<OverflowRun>>, Damage> {
        let mut runs = self.runs.clone();
        lists.clear();
        for _ in 0..self.depth {
            let bytes = match fetch_blocks(&runs, cache)? {
                Fetch::Ready(bytes) => bytes,
                Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
            };
            lists.extend(runs.iter().map(|run| run.run));
            let at = runs[0].run;
            let malformed = || super::DamageKind::Structure("list of overflow runs").at(at);
            runs = decode_list(&bytes).filter(|runs| !runs.is_empty()).ok_or_else(malformed)?;
        }
        if !self.is_whole(&runs) {
            return Err(super::DamageKind::Structure("length of overflow runs").at(self.runs[0].run));
        }
        Ok(Fetch::Ready(runs))
    }

    /// Returns the value.
    pub fn fetch(&self, cache: &mut PageCache) -> Result<Fetch<Bytes>, Damage> {
        let runs = match self.resolve(cache, &mut Vec::new())? {
            Fetch::Ready(runs) => runs,
            Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
        };
        Ok(match fetch_blocks(&runs, cache)? {
            Fetch::Ready(bytes) => Fetch::Ready(bytes.slice(..self.value_bytes as usize)),
            Fetch::Pending(id) => Fetch::Pending(id),
        })
    }

    /// Passes all blocks of the value to `freed`, once they are known.
    pub fn release(&self, cache: &mut PageCache, freed: &mut dyn FnMut(Run)) -> Result<Fetch<()>, Damage> {
        let mut lists = Vec::new();
        Ok(match self.resolve(cache, &mut lists)? {
            Fetch::Ready(runs) => {
                lists.into_iter().chain(runs.into_iter().map(|run| run.run)).for_each(freed);
                Fetch::Ready(())
            }
            Fetch::Pending(id) => Fetch::Pending(id),
        })
    }
}

/// Returns the bytes of all runs, one after another. Asks for all missing runs at once.
pub(crate) fn fetch_blocks(runs: &[OverflowRun], cache: &mut PageCache) -> Result<Fetch<Bytes>, Damage> {
    let mut missing = None;
    for run in runs {
        if let Some(id) = cache.want_blocks(run)? {
            missing.get_or_insert(id);
        }
    }
    if let Some(id) = missing {
        return Ok(Fetch::Pending(id));
    }
    let mut pieces = runs.iter().map(|run| cache.take_blocks(run, Use::Keep));
    if let [_] = runs {
        return Ok(Fetch::Ready(pieces.next().expect("one run")));
    }
    let mut all = BytesMut::with_capacity(blocks_of(runs) as usize * BLOCK_BYTES);
    pieces.for_each(|piece| all.extend_from_slice(&piece));
    Ok(Fetch::Ready(all.freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..140)) {
            if let Some(overflow) = Overflow::decode(&bytes) {
                let mut again = Vec::new();
                overflow.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn lists_read_back(runs in prop::collection::vec((0u32..1 << 31, 1u32..1 << 20, any::<u32>()), 0..40), tail in 0usize..50) {
            let runs: Vec<_> = runs.into_iter().map(|(start, count, crc)| OverflowRun { run: Run { start, count }, crc }).collect();
            let mut bytes = encode_list(&runs);
            bytes.resize(bytes.len() + tail, 0);
            prop_assert_eq!(decode_list(&bytes), Some(runs));
        }

        #[test]
        fn any_list_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..140)) {
            let _ = decode_list(&bytes);
        }
    }
}
