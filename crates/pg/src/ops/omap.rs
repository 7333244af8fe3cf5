//! Steps on an object's omap.

use super::execute::{Execution, OpStop, StepOutput, done, output, own};
use crate::coded::change::OmapBefore;
use crate::coded::undo::FormerOmap;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::{OMAP_KEY_BYTES_MAX, Step};
use types::Errno;
use wire::Reader;
use wire::Rope;
use wire::messages::{Comparison, Op, OpCode};

/// Bytes of former entries of an omap that a log entry keeps at most, to take its update back.
const KEPT_OMAP_BYTES_MAX: usize = 64 << 10;

/// Checks a key. Errors: ENAMETOOLONG, where the store has no room for it.
fn check_key(key: &[u8]) -> Result<(), Errno> {
    if key.len() > OMAP_KEY_BYTES_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}

impl Execution<'_> {
    pub(super) fn omap(&mut self, op: &Op) -> StepOutput {
        let data = op.indata.clone().into_bytes();
        let mut r = Reader::shared(&data);
        let writes =
            [OpCode::OMAPSETVALS, OpCode::OMAPSETHEADER, OpCode::OMAPCLEAR, OpCode::OMAPRMKEYS, OpCode::OMAPRMKEYRANGE];
        if !self.request.may_overwrite && writes.contains(&op.code) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        match op.code {
            OpCode::OMAPGETKEYS => {
                self.must_exist()?;
                let (after, max) = (r.blob_bytes()?, r.u64()?);
                let (entries, truncated) = self.omap_entries(&after, b"", max)?;
                output(|w| {
                    w.count(entries.len());
                    entries.iter().for_each(|(key, _)| w.blob(key));
                    w.bool(truncated);
                })
            }
            OpCode::OMAPGETVALS => {
                self.must_exist()?;
                let (after, max, prefix) = (r.blob_bytes()?, r.u64()?, r.blob_bytes()?);
                let (entries, truncated) = self.omap_entries(&after, &prefix, max)?;
                output(|w| {
                    w.put(&entries);
                    w.bool(truncated);
                })
            }
            OpCode::OMAPGETHEADER => {
                self.must_exist()?;
                let header = self.omap_header_before()?;
                self.answers.take(header.len() as u64)?;
                Ok((0, Rope::from(header)))
            }
            OpCode::OMAPGETVALSBYKEYS => {
                self.must_exist()?;
                let keys: BTreeSet<Bytes> = r.get()?;
                let found = self.omap_values(keys)?;
                output(|w| w.put(&found))
            }
            OpCode::OMAP_CMP => {
                self.must_exist()?;
                let count = r.count("assertions", 12)?;
                let mut assertions = Vec::with_capacity(count.min(1024));
                for _ in 0..count {
                    assertions.push((r.blob_bytes()?, r.blob_bytes()?, r.u32()?));
                }
                self.compare_omap(assertions)
            }
            OpCode::OMAPSETVALS => {
                let count = r.count("omap entries", 8)?;
                let mut entries = Vec::with_capacity(count.min(1 << 16));
                for _ in 0..count {
                    let (key, value) = (r.blob()?, r.blob()?);
                    check_key(key)?;
                    entries.push((own(key), own(value)));
                }
                self.ensure_exists();
                let object = self.object();
                self.push(Step::OmapSet { object, entries });
                done()
            }
            OpCode::OMAPSETHEADER => {
                self.ensure_exists();
                let object = self.object();
                self.push(Step::OmapSetHeader { object, header: own(&data) });
                done()
            }
            OpCode::OMAPCLEAR => {
                self.must_exist()?;
                if self.may_have_omap()? {
                    let object = self.object();
                    self.push(Step::OmapClear { object });
                }
                done()
            }
            OpCode::OMAPRMKEYS => {
                self.must_exist()?;
                let keys: BTreeSet<Bytes> = r.get()?;
                let object = self.object();
                // A key that is too long to be there need not be removed.
                let keys = keys.iter().filter(|key| check_key(key).is_ok()).map(|key| own(key)).collect();
                self.push(Step::OmapRemove { object, keys });
                done()
            }
            OpCode::OMAPRMKEYRANGE => {
                self.must_exist()?;
                let (begin, end) = (own(r.blob()?), own(r.blob()?));
                check_key(&begin)?;
                check_key(&end)?;
                let object = self.object();
                self.push(Step::OmapRemoveRange { object, begin, end });
                done()
            }
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Returns, in an erasure-coded pool, the part of the object's omap that the operation changes, as it was before.
    /// All shards have the same omap.
    pub(super) fn omap_before(&mut self) -> Result<OmapBefore, OpStop> {
        let has_omap = self.before.as_ref().is_some_and(|before| before.has_omap);
        if self.request.layout.is_none() || self.stored_before.is_none() {
            return Ok(OmapBefore::SAME);
        }
        let (mut keys, mut sets_header) = (BTreeSet::new(), false);
        for step in self.steps().iter().filter(|step| step.object() == Some(self.request.object)) {
            match step {
                // The object as a whole is kept then.
                Step::Remove { .. } | Step::Clone { .. } => return Ok(OmapBefore::SAME),
                Step::OmapClear { .. } | Step::OmapRemoveRange { .. } if has_omap => return Ok(OmapBefore::TooMuch),
                Step::OmapSet { entries, .. } => keys.extend(entries.iter().map(|(key, _)| key.clone())),
                Step::OmapRemove { keys: removed, .. } => keys.extend(removed.iter().cloned()),
                Step::OmapSetHeader { .. } => sets_header = true,
                _ => {}
            }
        }
        let header = match sets_header {
            true if has_omap => Some(self.omap_header_before()?),
            sets => sets.then(Bytes::new),
        };
        let keys: Vec<Bytes> = keys.into_iter().collect();
        let found = match has_omap && !keys.is_empty() {
            true => self.answers.omap_get(self.store, self.request.object, &keys)?,
            false => Some(Vec::new()),
        };
        let Some(found) = found else { return Ok(OmapBefore::TooMuch) };
        let mut found: BTreeMap<Bytes, Bytes> = found.into_iter().collect();
        let entries: Vec<(Bytes, Option<Bytes>)> =
            keys.into_iter().map(|key| (key.clone(), found.remove(&key))).collect();
        let of_entry = |(key, value): &(Bytes, Option<Bytes>)| key.len() + value.as_ref().map_or(0, Bytes::len);
        let bytes = entries.iter().map(of_entry).sum::<usize>() + header.as_ref().map_or(0, Bytes::len);
        match bytes > KEPT_OMAP_BYTES_MAX {
            true => Ok(OmapBefore::TooMuch),
            false => Ok(OmapBefore::Changed(FormerOmap { entries, header })),
        }
    }

    /// Returns the header as it was before the operation.
    pub(super) fn omap_header_before(&mut self) -> Result<Bytes, OpStop> {
        if self.was_removed() || self.before.is_none() {
            return Ok(Bytes::new());
        }
        Ok(self.answers.omap_header(self.store, self.request.object)?)
    }

    /// Returns the entries behind `after` whose keys begin with `prefix`, as they were before the operation; and true
    /// if there are more.
    pub(super) fn omap_entries(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        max: u64,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), OpStop> {
        if self.was_removed() || self.before.is_none() {
            return Ok((Vec::new(), false));
        }
        if self.answers.room() == 0 {
            return Err(Errno::EMSGSIZE.into());
        }
        let max = max.min(self.limits.omap_entries) as usize;
        // A page behind the empty key must not include it, but the store's page does, as nothing is before it: so one
        // more entry is asked for.
        let from_first = usize::from(after.is_empty());
        let from = (after, prefix);
        let (mut entries, mut more) =
            self.answers.omap_list(self.store, self.request.object, from, max + from_first)?;
        if after.is_empty() && entries.first().is_some_and(|(key, _)| key.is_empty()) {
            entries.remove(0);
        }
        if entries.len() > max {
            entries.truncate(max);
            more = true;
        }
        Ok((entries, more))
    }

    /// Returns true if the object has an omap, or gets one by this operation. In Ceph it also has one that was emptied
    /// key by key.
    fn may_have_omap(&mut self) -> Result<bool, OpStop> {
        let gives =
            |step: &Step| matches!(step, Step::OmapSet { .. } | Step::OmapSetHeader { .. } | Step::Clone { .. });
        if self.steps().iter().any(gives) {
            return Ok(true);
        }
        if self.was_removed() || self.before.is_none() {
            return Ok(false);
        }
        let (first, more) = self.answers.omap_list(self.store, self.request.object, (b"", b""), 1)?;
        Ok(!first.is_empty() || more || !self.omap_header_before()?.is_empty())
    }

    pub(super) fn omap_values(&mut self, keys: BTreeSet<Bytes>) -> Result<BTreeMap<Bytes, Bytes>, OpStop> {
        if self.was_removed() || self.before.is_none() {
            return Ok(BTreeMap::new());
        }
        let keys: Vec<Bytes> = keys.into_iter().collect();
        let found = self.answers.omap_get(self.store, self.request.object, &keys)?.ok_or(Errno::EMSGSIZE)?;
        Ok(found.into_iter().collect())
    }

    fn compare_omap(&mut self, assertions: Vec<(Bytes, Bytes, u32)>) -> StepOutput {
        let sets = |step: &Step| matches!(step, Step::OmapSet { .. } | Step::OmapSetHeader { .. });
        if self.before.is_none() && !self.was_whiteout() && self.steps().iter().any(sets) {
            // Ceph looks for the omap that this operation makes, and finds no object yet.
            return Err(Errno::ENOENT.into());
        }
        let found = self.omap_values(assertions.iter().map(|(key, ..)| key.clone()).collect())?;
        for (key, given, comparison) in assertions {
            let comparison = Comparison::from_code(comparison).ok_or(Errno::EINVAL)?;
            if !matches!(comparison, Comparison::Equal | Comparison::Greater | Comparison::Less) {
                return Err(Errno::EINVAL.into());
            }
            // Here, other than with attributes, what is stored stands on the left.
            let stored = found.get(&key).cloned().unwrap_or_default();
            if !comparison.holds(stored.cmp(&given)) {
                return Err(Errno::ECANCELED.into());
            }
        }
        done()
    }
}
