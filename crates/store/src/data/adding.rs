//! Bytes that are added to an object's, by exclusive or: a parity follows a change of its data so.
//!
//! Each block is made of the old one and the bytes, as blocks that are written in part are ([`crate::data::merges`]).

use crate::Store;
use crate::config::BLOCK;
use crate::data::merges::{Base, Patch};
use crate::disk::key::Key;
use crate::disk::redo::Redo;
use crate::engine::submit::Contents;
use crate::engine::turns::Staged;
use crate::metadata::onode::inline_part;
use wire::Rope;

impl Store {
    pub(crate) fn stage_xor(&mut self, key: Key, offset: u64, data: Rope, staged: &mut Staged) {
        let end = offset + data.len() as u64;
        if data.is_empty() {
            return self.apply(Redo::Touch { object: key }, staged);
        }
        let (first, last) = ((offset / BLOCK) as u32, ((end - 1) / BLOCK) as u32);
        let onode = self.state.known(&key);
        let is_in_blocks = onode.is_some_and(|onode| (first..=last).any(|at| onode.blocks.get(at).is_some()));
        if !is_in_blocks {
            let inline = onode.map(|onode| inline_part(&onode.inline, offset, end)).unwrap_or_default();
            let sum = match inline.is_empty() {
                true => data,
                false => {
                    let mut sum = data.to_vec();
                    sum.iter_mut().zip(inline).for_each(|(byte, old)| *byte ^= old);
                    sum.into()
                }
            };
            return self.stage_write(key, offset, sum, staged);
        }
        let mut contents = Contents::default();
        for at in first..=last {
            let begin = u64::from(at) * BLOCK;
            let (from, to) = (offset.max(begin), end.min(begin + BLOCK));
            let patch =
                Patch::added((from - begin) as usize, data.slice((from - offset) as usize, (to - from) as usize));
            let onode = self.state.known(&key).expect("it has blocks");
            let base = onode.blocks.get(at).map_or(Base::Zeros, |old| self.content_of(old));
            self.put_over(base, patch, &mut contents);
        }
        let size = self.size(&key).max(end);
        self.put_blocks(key, size, first, contents, staged);
    }
}
