//! The index of a bucket: ranges of keys, and the stamps of changes under way.
//!
//! A bucket's root names its ranges by their ends, so one look finds the range of a key. A range's object has an entry
//! for each key, and a slot for each key that is being changed. Every operation on a range is guarded by the range's
//! generation, so an operation by an outdated route changes nothing.
//!
//! A change of a key sets its stamp in the slot, changes the head, and leaves the slot. Where a key has no slot, its
//! entry agrees with its head; where it has one, only the head tells. A change that finds the slot as it left it knows
//! that no other change began meanwhile, and writes the entry that it knows. Else the last one to leave reads the head.

use crate::counts::{Tally, change_step};
use crate::error::{Code, Error};
use crate::names::{self, ENTRIES, SLOTS, VERSIONS};
use crate::rados::{Rados, RadosError, Reply, Step};
use crate::records::{Bucket, Head, Range, RangeState, Slot, attr, from_bytes, to_bytes};
use crate::store::{PAUSE_MS, Route, Store, TRIES_MAX, lock, too_many_tries};
use crate::usage::{added, negative, usage_of, whole};
use crate::versions::index_anew;
use bytes::Bytes;
use s3rules::quota::{Usage, UsageChange};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Changes of one key at once, over all gateways.
const STAMPS_MAX: usize = 64;
/// Routes that a gateway remembers.
const ROUTES_MAX: usize = 100_000;

/// A change of a key that has begun.
pub(crate) struct Stamp {
    pub bucket: Arc<Bucket>,
    pub key: String,
    pub tag: String,
    /// The slot as this change left it.
    slot: Bytes,
    /// No other change was under way when this one began.
    is_alone: bool,
}

/// Outcome of a change of a key.
pub(crate) enum Settled {
    /// These steps bring the key's entries from the state before to that behind the change, and the counts likewise.
    Changed(Vec<Step>, Option<UsageChange>),
    /// The change did not happen.
    Unchanged,
}

fn value<'a>(entries: &'a [(Bytes, Bytes)], key: &Bytes) -> &'a [u8] {
    entries.iter().find(|(k, _)| k == key).map(|(_, v)| &v[..]).unwrap_or_default()
}

impl<R: Rados> Store<R> {
    /// The range that serves a key. Errors: `NoSuchBucket`.
    pub(crate) async fn route(&self, bucket: &Bucket, key: &str) -> Result<Arc<Route>, Error> {
        let at = names::entry(b'r', key);
        if let Some(route) = self.known_route(bucket, key) {
            return Ok(route);
        }
        let root = names::root_object(&bucket.id);
        let mut is_closed = false;
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let list = Step::List { after: at.clone(), max: 1, prefix: Bytes::new() };
            let found = match self.meta(root.clone(), vec![list]).await {
                Ok(mut replies) => replies.remove(0).entries().0,
                Err(RadosError::NotFound) => return Err(no_such_bucket(&bucket.name)),
                Err(error) => return Err(error.into()),
            };
            let (end, id) = found.into_iter().next().ok_or_else(|| Error::damaged(&root, "it has no last range"))?;
            let id = String::from_utf8(id.to_vec()).map_err(|e| Error::damaged(&root, e))?;
            let Some((range, generation)) = self.range(&bucket.id, &id).await? else { continue };
            let served_end = match &range.state {
                RangeState::Live | RangeState::Receiving { .. } => range.end.clone(),
                RangeState::Splitting { at, .. } if key < at.as_str() => Some(at.clone()),
                RangeState::Splitting { .. } | RangeState::Leaving { .. } => {
                    self.help(&bucket.id, &id).await?;
                    continue;
                }
                RangeState::Filling => continue,
                RangeState::Closed => {
                    self.open_if_live(&bucket.id, &id, range, &generation).await?;
                    is_closed = true;
                    continue;
                }
            };
            if key < range.start.as_str() || served_end.as_deref().is_some_and(|end| end <= key) {
                continue;
            }
            let route =
                Arc::new(Route { range: id, generation, start: range.start, end: served_end, place: end.clone() });
            let mut routes = lock(&self.routes);
            if routes.len() >= ROUTES_MAX {
                routes.clear();
            }
            routes.insert((bucket.id.clone(), end), route.clone());
            return Ok(route);
        }
        if is_closed {
            return Err(Code::OperationAborted.because("the bucket is being deleted"));
        }
        Err(too_many_tries())
    }

    fn known_route(&self, bucket: &Bucket, key: &str) -> Option<Arc<Route>> {
        let routes = lock(&self.routes);
        let ((id, _), route) = routes.range((bucket.id.clone(), names::behind(b'r', key))..).next()?;
        let is_served = route.start.as_str() <= key && route.end.as_deref().is_none_or(|end| end > key);
        (*id == bucket.id && is_served).then(|| route.clone())
    }

    /// A range's record and generation.
    pub(crate) async fn range(&self, bucket: &str, id: &str) -> Result<Option<(Range, Bytes)>, Error> {
        self.record(&names::range_object(bucket, id), attr::GENERATION).await
    }

    pub(crate) fn forget_route(&self, bucket: &Bucket, route: &Route) {
        lock(&self.routes).remove(&(bucket.id.clone(), route.place.clone()));
    }

    /// Forgets all routes of a bucket.
    pub(crate) fn forget_routes(&self, bucket: &str) {
        lock(&self.routes).retain(|(id, _), _| id != bucket);
    }

    /// Carries out steps on the range of `key`, guarded by the range's generation, by whatever route is right.
    pub(crate) async fn on_range(
        &self,
        bucket: &Bucket,
        key: &str,
        steps: &[Step],
    ) -> Result<(Arc<Route>, Vec<Reply>), Error> {
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let route = self.route(bucket, key).await?;
            let mut guarded = vec![Step::AttrIs(attr::GENERATION, route.generation.clone())];
            guarded.extend_from_slice(steps);
            match self.meta(names::range_object(&bucket.id, &route.range), guarded).await {
                Ok(mut replies) => {
                    replies.remove(0);
                    return Ok((route, replies));
                }
                Err(RadosError::Guard | RadosError::NotFound) => self.forget_route(bucket, &route),
                Err(error) => return Err(error.into()),
            }
        }
        Err(too_many_tries())
    }

    /// Changes the range of `key` if keys have these values (empty for those that are absent), and gives its route.
    /// `None` if they have not.
    async fn change(
        &self,
        bucket: &Bucket,
        key: &str,
        guards: &[(Bytes, Bytes)],
        changes: &[Step],
    ) -> Result<Option<Arc<Route>>, Error> {
        for _ in 0..TRIES_MAX {
            let route = self.route(bucket, key).await?;
            let object = names::range_object(&bucket.id, &route.range);
            let mut steps = vec![Step::AttrIs(attr::GENERATION, route.generation.clone())];
            steps.extend(guards.iter().map(|(key, value)| Step::ValueIs(key.clone(), value.clone())));
            steps.extend_from_slice(changes);
            match self.meta(object, steps).await {
                Ok(_) => {
                    self.count_stamp(bucket, &route);
                    return Ok(Some(route));
                }
                Err(RadosError::Guard | RadosError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
            let keys = guards.iter().map(|(key, _)| key.clone()).collect();
            let (_, mut replies) = self.on_range(bucket, key, &[Step::Get(keys)]).await?;
            let (entries, _) = replies.remove(0).entries();
            if guards.iter().any(|(key, expected)| value(&entries, key) != &expected[..]) {
                return Ok(None);
            }
        }
        Err(too_many_tries())
    }

    /// Begins a change of a key. The change has to be ended by [`Store::settle`], whatever comes of it.
    pub(crate) async fn stamp(&self, bucket: &Arc<Bucket>, key: &str) -> Result<Stamp, Error> {
        self.stamps.fetch_add(1, Ordering::Relaxed);
        let outcome = self.try_stamp(bucket, key).await;
        // After errors of the cluster it may be there, until this gateway's session is swept.
        if outcome.as_ref().is_err_and(Error::is_refusal) {
            self.stamps.fetch_sub(1, Ordering::Relaxed);
        }
        outcome
    }

    async fn try_stamp(&self, bucket: &Arc<Bucket>, key: &str) -> Result<Stamp, Error> {
        let tag = self.fresh();
        let name = names::entry(SLOTS, key);
        let mut present = Bytes::new();
        for attempt in 0..TRIES_MAX {
            let mut slot = read_slot(&present)?;
            if slot.stamps.len() >= STAMPS_MAX {
                self.rados.pause(PAUSE_MS).await;
            } else {
                let is_alone = slot.stamps.is_empty();
                slot.seq += 1;
                slot.stamps.push(tag.clone());
                let slot = to_bytes(&slot);
                let set = Step::Set(vec![(name.clone(), slot.clone())]);
                if self.change(bucket, key, &[(name.clone(), present.clone())], &[set]).await?.is_some() {
                    let (bucket, key) = (bucket.clone(), key.to_owned());
                    return Ok(Stamp { bucket, key, tag, slot, is_alone });
                }
            }
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let (_, mut replies) = self.on_range(bucket, key, &[Step::Get(vec![name.clone()])]).await?;
            let (entries, _) = replies.remove(0).entries();
            present = Bytes::copy_from_slice(value(&entries, &name));
        }
        Err(too_many_tries())
    }

    /// Ends a change of a key. If that fails, the stamp is kept for [`Store::tend`].
    pub(crate) async fn settle(&self, stamp: Stamp, settled: Settled) -> Result<(), Error> {
        let outcome = self.try_settle(&stamp, settled).await;
        if outcome.is_err() {
            lock(&self.unsettled).push((stamp.bucket, stamp.key, stamp.tag));
        }
        outcome
    }

    async fn try_settle(&self, stamp: &Stamp, settled: Settled) -> Result<(), Error> {
        if !stamp.is_alone {
            return self.take_back(&stamp.bucket, &stamp.key, &stamp.tag).await;
        }
        let slot = names::entry(SLOTS, &stamp.key);
        let mut changes = vec![Step::Drop(vec![slot.clone()])];
        let mut counts = false;
        if let Settled::Changed(steps, counted) = settled {
            changes.extend(steps);
            counts = counted.is_some();
            changes.extend(counted.map(|change| change_step(&self.fresh(), change)));
        }
        let guards = [(slot, stamp.slot.clone())];
        if let Some(route) = self.change(&stamp.bucket, &stamp.key, &guards, &changes).await? {
            self.stamps.fetch_sub(1, Ordering::Relaxed);
            if counts {
                self.note_count(&stamp.bucket.id, &route.range).await;
            }
            return Ok(());
        }
        self.take_back(&stamp.bucket, &stamp.key, &stamp.tag).await
    }

    /// Takes a stamp of this gateway out of a key's slot, once its change has come to an end.
    pub(crate) async fn take_back(&self, bucket: &Bucket, key: &str, tag: &str) -> Result<(), Error> {
        self.leave(bucket, key, |other| other == tag).await?;
        self.stamps.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the stamps for which `is_gone` holds out of a key's slot. Their changes must have come to an end.
    pub(crate) async fn leave(&self, bucket: &Bucket, key: &str, is_gone: impl Fn(&str) -> bool) -> Result<(), Error> {
        let name = names::entry(SLOTS, key);
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let (_, mut replies) = self.on_range(bucket, key, &[Step::Get(vec![name.clone()])]).await?;
            let (entries, _) = replies.remove(0).entries();
            let present = Bytes::copy_from_slice(value(&entries, &name));
            let mut slot = read_slot(&present)?;
            let count = slot.stamps.len();
            slot.stamps.retain(|tag| !is_gone(tag));
            if slot.stamps.len() == count {
                return Ok(());
            }
            let mut counts = false;
            let changes = if slot.stamps.is_empty() {
                let mut changes = vec![Step::Drop(vec![name.clone()])];
                let after = self.present(bucket, key).await?;
                changes.extend(index_anew(key, after.as_ref()));
                // The entries stay as they are for as long as the slot does, which guards the change.
                let listed = self.listed_usage(bucket, key).await?;
                let change = added(whole(usage_of(after.as_ref())), negative(whole(listed)));
                changes.push(change_step(&self.fresh(), change));
                counts = true;
                changes
            } else {
                slot.seq += 1;
                vec![Step::Set(vec![(name.clone(), to_bytes(&slot))])]
            };
            if let Some(route) = self.change(bucket, key, &[(name.clone(), present)], &changes).await? {
                if counts {
                    self.note_count(&bucket.id, &route.range).await;
                }
                return Ok(());
            }
        }
        Err(too_many_tries())
    }

    /// Bytes and objects by the entries of a key.
    async fn listed_usage(&self, bucket: &Bucket, key: &str) -> Result<Usage, Error> {
        let mut tally = Tally::default();
        let mut after = Bytes::new();
        loop {
            let prefix = names::entry(VERSIONS, key);
            let list = Step::List { after: after.clone(), max: self.settings.page_entries, prefix };
            let get = Step::Get(vec![names::entry(ENTRIES, key)]);
            let (_, mut replies) = self.on_range(bucket, key, &[get, list]).await?;
            let (versions, more) = replies.remove(1).entries();
            if after.is_empty() {
                tally.add(ENTRIES, &replies.remove(0).entries().0)?;
            }
            tally.add(VERSIONS, &versions)?;
            match versions.last() {
                Some((last, _)) if more => after = last.clone(),
                _ => return Ok(tally.usage()),
            }
        }
    }

    /// The head of a key, without its bytes.
    pub(crate) async fn head(&self, bucket: &Bucket, key: &str) -> Result<Option<Head>, Error> {
        let object = names::head_object(&bucket.id, key);
        match self.rados.operate(&bucket.data_pool, object.clone(), vec![Step::GetAttr(attr::RECORD)]).await {
            Ok(replies) => Ok(Some(from_bytes(&object, &replies[0].bytes())?)),
            Err(RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn count_stamp(&self, bucket: &Bucket, route: &Route) {
        *lock(&self.stamped).entry((bucket.id.clone(), route.range.clone())).or_default() += 1;
    }
}

pub(crate) fn read_slot(bytes: &[u8]) -> Result<Slot, Error> {
    if bytes.is_empty() { Ok(Slot::default()) } else { from_bytes("a slot", bytes) }
}

pub(crate) fn no_such_bucket(name: &str) -> Error {
    Code::NoSuchBucket.because(format!("there is no bucket '{name}'"))
}
