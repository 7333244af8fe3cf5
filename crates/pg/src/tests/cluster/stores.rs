//! Questions of tests to OSDs' stores, and changes of these behind the backs of groups.

use super::{Cluster, PG};
use store::{Lookup, Memory, Step, Store, Transaction};
use types::{ObjectId, OsdId};

impl Cluster {
    /// Runs one turn of an OSD, and all that comes of it.
    fn run(&mut self, osd: OsdId) {
        self.turn(osd);
        self.settle();
    }

    /// Returns a store's answer, once it knows. A question that comes later than at once may need a store that
    /// [remembers](Cluster::remember).
    pub fn ready<T>(&mut self, osd: OsdId, mut ask: impl FnMut(&mut Store) -> Lookup<T>) -> T {
        for _ in 0..100 {
            match ask(self.store(osd)) {
                Lookup::Ready(answer) => return answer,
                Lookup::Pending(_) => self.run(osd),
                Lookup::Damaged(damage) => panic!("{damage}"),
            }
        }
        panic!("no answer");
    }

    /// Gives a store so much memory that all that tests look at stays in it.
    pub fn remember(&mut self, osd: OsdId) {
        let memory = Memory { page_bytes: 1 << 20, onode_bytes: 1 << 20, overlay_bytes: 1 << 20 };
        self.store(osd).set_memory(memory);
    }

    /// Changes what a store has of the group.
    pub fn change_store(&mut self, osd: OsdId, steps: Vec<Step>) {
        self.store(osd).submit(Transaction { pg: PG, steps }).expect("it can be stored");
        self.run(osd);
    }

    /// Brings all that a store knows to its device, and forgets what was read: what is on devices only can rot.
    pub fn put_on_device(&mut self, osd: OsdId) {
        self.store(osd).checkpoint();
        self.run(osd);
        self.shard(osd).drop_block_cache();
    }

    /// Brings all that the stores know to their devices, as [`put_on_device`](Cluster::put_on_device) does.
    pub fn put_on_devices(&mut self) {
        (0..self.nodes.len() as i32).for_each(|osd| self.put_on_device(OsdId(osd)));
    }

    /// Spoils the block of an object that holds `offset`.
    pub fn spoil(&mut self, osd: OsdId, object: &ObjectId, offset: u64) {
        let extents = self.ready(osd, |store| store.placement(object, offset, 1));
        let at = extents[0].device_offset + (offset - extents[0].object_offset);
        self.device_of(osd).corrupt(at / 4096 * 4096, 0x10);
        self.shard(osd).drop_block_cache();
    }

    /// Brings all that a store knows to its device, forgets it, and flips a bit in every leaf of its metadata.
    pub fn damage_metadata(&mut self, osd: OsdId) {
        self.damage_metadata_with(osd, b"");
    }

    /// Brings all that a store knows to its device, forgets it, and flips a bit in every block that holds `text`. Long
    /// records of objects lie beside the leaf that lists them.
    pub fn damage_record_with(&mut self, osd: OsdId, text: &[u8]) {
        self.store(osd).set_memory(Memory { page_bytes: 0, onode_bytes: 0, overlay_bytes: 1 << 20 });
        self.put_on_device(osd);
        let device = self.device_of(osd);
        let has_text = |block: &[u8]| block.windows(text.len()).any(|part| part == text);
        let blocks: Vec<u64> = device.blocks().filter(|(_, block)| has_text(block)).map(|(offset, _)| offset).collect();
        assert!(!blocks.is_empty());
        blocks.into_iter().for_each(|offset| device.corrupt(offset + 100, 1));
    }

    /// Brings all that a store knows to its device, forgets it, and flips a bit in every leaf that holds `text`.
    pub fn damage_metadata_with(&mut self, osd: OsdId, text: &[u8]) {
        self.store(osd).set_memory(Memory { page_bytes: 0, onode_bytes: 0, overlay_bytes: 1 << 20 });
        self.put_on_device(osd);
        let device = self.device_of(osd);
        // Magic number at 4, kind at 9.
        let has_text = |block: &[u8]| text.is_empty() || block.windows(text.len()).any(|part| part == text);
        let is_leaf = |block: &[u8]| block[4..8] == *b"NCBT" && block[9] == 1 && has_text(block);
        let leaves: Vec<u64> = device.blocks().filter(|(_, block)| is_leaf(block)).map(|(offset, _)| offset).collect();
        assert!(!leaves.is_empty());
        leaves.into_iter().for_each(|offset| device.corrupt(offset + 100, 1));
    }
}
