//! The expected content of a store, kept in the plainest way.

use crate::{Step, Transaction};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use types::{ObjectId, PgId, crc32c};

#[derive(Clone, Default, PartialEq, Eq)]
pub struct ModelObject {
    pub data: Arc<Vec<u8>>,
    pub attrs: BTreeMap<Vec<u8>, Bytes>,
    pub omap: BTreeMap<Bytes, Bytes>,
    pub header: Bytes,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Model {
    pub objects: BTreeMap<ObjectId, ModelObject>,
    pub pgs: BTreeMap<(PgId, Bytes), Bytes>,
}

/// A form short enough to compare two by eye.
impl std::fmt::Debug for ModelObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes {:08x}, ", self.data.len(), crc32c::checksum(&self.data))?;
        write!(f, "{} attrs {:?} header {}", self.attrs.len(), self.omap.keys(), self.header.len())
    }
}

impl Model {
    pub fn apply(&mut self, txn: &Transaction) {
        txn.steps.iter().for_each(|step| self.step(txn.pg, step));
    }

    fn object(&mut self, id: &ObjectId) -> &mut ModelObject {
        self.objects.entry(id.clone()).or_default()
    }

    fn step(&mut self, pg: PgId, step: &Step) {
        match step {
            Step::Touch { object: id } => drop(self.object(id)),
            Step::Write { object: id, offset, data } => {
                let (to, offset) = (self.object(id), *offset as usize);
                if !data.is_empty() {
                    let all = Arc::make_mut(&mut to.data);
                    all.resize(all.len().max(offset + data.len()), 0);
                    all[offset..offset + data.len()].copy_from_slice(&data.to_vec());
                }
            }
            Step::Xor { object: id, offset, data } => {
                let (to, offset) = (self.object(id), *offset as usize);
                if !data.is_empty() {
                    let all = Arc::make_mut(&mut to.data);
                    all.resize(all.len().max(offset + data.len()), 0);
                    all[offset..].iter_mut().zip(data.to_vec()).for_each(|(byte, added)| *byte ^= added);
                }
            }
            Step::Zero { object: id, offset, len } => {
                let all = Arc::make_mut(&mut self.object(id).data);
                let begin = (*offset as usize).min(all.len());
                let end = (*offset as usize).saturating_add(*len as usize).min(all.len());
                all[begin..end].fill(0);
            }
            Step::Truncate { object: id, size } => Arc::make_mut(&mut self.object(id).data).resize(*size as usize, 0),
            Step::Remove { object: id } => drop(self.objects.remove(id)),
            Step::SetAttr { object: id, name, value } => {
                drop(self.object(id).attrs.insert(name.clone(), value.clone()))
            }
            Step::RemoveAttr { object: id, name } => drop(self.object(id).attrs.remove(name)),
            Step::OmapSet { object: id, entries } => self.object(id).omap.extend(entries.iter().cloned()),
            Step::OmapRemove { object: id, keys } => {
                let omap = &mut self.object(id).omap;
                keys.iter().for_each(|key| drop(omap.remove(key)));
            }
            Step::OmapRemoveRange { object: id, begin, end } => {
                self.object(id).omap.retain(|key, _| key < begin || key >= end)
            }
            Step::OmapClear { object: id } => {
                let object = self.object(id);
                (object.omap, object.header) = Default::default();
            }
            Step::OmapSetHeader { object: id, header } => self.object(id).header = header.clone(),
            Step::Clone { from, to } => {
                let copy = self.objects[from].clone();
                self.objects.insert(to.clone(), copy);
            }
            Step::CloneRange { source, target, source_offset, length, target_offset } => {
                let (from, length) = (*source_offset as usize, *length as usize);
                let source = self.objects[source].data.clone();
                let mut bytes = source[from.min(source.len())..(from + length).min(source.len())].to_vec();
                bytes.resize(length, 0);
                let (all, to) = (Arc::make_mut(&mut self.object(target).data), *target_offset as usize);
                if length > 0 {
                    all.resize(all.len().max(to + length), 0);
                    all[to..to + length].copy_from_slice(&bytes);
                }
            }
            Step::PgSet { key, value } => drop(self.pgs.insert((pg, key.clone()), value.clone())),
            Step::PgRemove { key } => drop(self.pgs.remove(&(pg, key.clone()))),
            Step::PgRemoveRange { begin, end } => {
                self.pgs.retain(|(id, key), _| *id != pg || key < begin || key >= end)
            }
            Step::PgDestroy { pg_num } => {
                self.pgs.retain(|(id, _), _| *id != pg);
                let mask = pg_num.next_power_of_two() - 1;
                let owner = |hash: u32| if hash & mask < *pg_num { hash & mask } else { hash & (mask >> 1) };
                self.objects.retain(|id, _| id.pool != pg.pool || owner(id.hash) != pg.seed);
            }
        }
    }

    /// Returns a digest: no test distinguishes two models with equal digests.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (id, object) in &self.objects {
            id.hash(&mut hasher);
            (object.data.len(), crc32c::checksum(&object.data)).hash(&mut hasher);
            (&object.attrs, &object.omap, &object.header).hash(&mut hasher);
        }
        self.pgs.hash(&mut hasher);
        hasher.finish()
    }
}
