//! Changes of a key: the head is replaced, and then the index follows.

use crate::conditions::Conditions;
use crate::error::{Code, Error};
use crate::index::{Settled, Stamp, no_such_bucket};
use crate::names;
use crate::present::Present;
use crate::quotas::Reserved;
use crate::rados::{Rados, RadosError, Step};
use crate::records::{Bucket, Head, Intent, Layout, Named, Older, Part, Tail, attr, from_bytes, to_bytes};
use crate::store::{PAUSE_MS, Store, TRIES_MAX, lock, too_many_tries};
use crate::usage::{added, counted, negative, usage_of, whole};
use crate::versions::{Change, Dropped, Facts, Newest, Plan, index_steps, marker_head, set_aside};
use crate::window::both;
use bytes::Bytes;
use s3rules::quota::{Usage, UsageChange};
use std::sync::Arc;

/// A change that was made.
pub(crate) struct Committed {
    /// The newest version, if the change made it.
    pub head: Option<Head>,
    /// The version that was made or removed, and if it is a delete marker.
    pub version: Option<(Option<String>, bool)>,
    /// False if there was nothing to do.
    pub changed: bool,
}

/// Objects of a change: those that are written before the head, and those that go once it is replaced.
struct Work<R: Rados> {
    /// The change's part of the usage of its bucket, where a quota asks for it.
    reserved: Option<Reserved<R>>,
    intent: Option<u64>,
    /// The place for the version that is set aside; written if there is one.
    place: Option<String>,
    goes: Named,
    steps: Vec<Step>,
    head: Option<Head>,
    after: Option<Present>,
}

impl<R: Rados> Work<R> {
    fn new(intent: Option<u64>) -> Work<R> {
        Work { reserved: None, intent, place: None, goes: Named::default(), steps: Vec::new(), head: None, after: None }
    }
}

impl<R: Rados> Store<R> {
    /// Like [`Store::commit`], also if the bucket has been deleted and made again lately.
    pub(crate) async fn commit_now(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        key: &str,
        change: Change,
        conditions: &Conditions,
        intent: Option<u64>,
    ) -> Result<Committed, Error> {
        match self.commit(bucket, key, change.clone(), conditions, intent).await {
            Err(error) if error.code() == Some(Code::NoSuchBucket) => {
                let fresh = self.fresher(bucket).await?.filter(|fresh| fresh.data_pool == bucket.data_pool);
                let Some(fresh) = fresh else { return Err(error) };
                if let Some(number) = intent {
                    let named = Named::of_tails(change.tails());
                    let intended = Intent::Tails { bucket: (*fresh).clone(), key: key.to_owned(), named };
                    self.keep_intent(number, &intended).await?;
                }
                self.commit(&fresh, key, change, conditions, intent).await
            }
            outcome => outcome,
        }
    }

    /// The bucket of the same name and owner that has taken the place of a remembered one; `None` if that one is still
    /// there. Errors: `NoSuchBucket`.
    pub(crate) async fn fresher(&self, bucket: &Bucket) -> Result<Option<Arc<Bucket>>, Error> {
        let present = self.bucket_now(&bucket.name).await?;
        if present.id == bucket.id {
            return Ok(None);
        }
        self.forget_routes(&bucket.id);
        if present.owner == bucket.owner { Ok(Some(present)) } else { Err(no_such_bucket(&bucket.name)) }
    }

    /// Changes a key. `intent` names the tails of what is put.
    ///
    /// Errors of the cluster leave open if the head was replaced.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        key: &str,
        change: Change,
        conditions: &Conditions,
        intent: Option<u64>,
    ) -> Result<Committed, Error> {
        let (stamp, present) = both(self.stamp(bucket, key), self.present(bucket, key)).await;
        let stamp = stamp?;
        let mut work = Work::new(intent);
        let replaced = match present {
            Ok(present) => self.replace(&stamp, present, &change, conditions, &mut work).await,
            Err(error) => Err(error),
        };
        match replaced {
            Ok((committed, settled)) => {
                let (store, pool) = (self.clone(), bucket.data_pool.clone());
                // The answer need not wait for this: until then the key's slot has readers of the index ask the head.
                self.rados.spawn(async move {
                    // A stamp that stays is kept for the next round of `tend`.
                    let _ = store.settle(stamp, settled).await;
                    if let Some(reserved) = work.reserved {
                        reserved.keep();
                    }
                    store.discard(pool, work.goes, work.intent).await;
                });
                Ok(committed)
            }
            Err(error) => {
                if error.is_refusal() {
                    if let Some(place) = work.place {
                        let places = Named { tails: Vec::new(), places: vec![place] };
                        self.drop_named(&bucket.data_pool, &places, None).await?;
                    }
                    if let Some(number) = work.intent.filter(|_| intent.is_none()) {
                        self.forget_intent(number).await?;
                    }
                    self.settle(stamp, Settled::Unchanged).await?;
                } else {
                    // The head may have been replaced, so it decides.
                    let Stamp { bucket, key, tag, .. } = stamp;
                    if self.take_back(&bucket, &key, &tag).await.is_err() {
                        lock(&self.unsettled).push((bucket, key, tag));
                    }
                }
                Err(error)
            }
        }
    }

    /// Replaces the head, once it is as `conditions` want.
    async fn replace(
        self: &Arc<Self>,
        stamp: &Stamp,
        mut present: Option<Present>,
        change: &Change,
        conditions: &Conditions,
        work: &mut Work<R>,
    ) -> Result<(Committed, Settled), Error> {
        let (bucket, key) = (&stamp.bucket, stamp.key.as_str());
        let object = names::head_object(&bucket.id, key);
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let facts = Facts { bucket: &bucket.name, key, tag: &stamp.tag, now_ms: self.rados.now_ms() };
            let Some(plan) = change.plan(present.as_ref(), conditions, &facts)? else {
                work.goes = Named { tails: Vec::new(), places: work.place.take().into_iter().collect() };
                return Ok((Committed { head: None, version: None, changed: false }, Settled::Unchanged));
            };
            let outcome = plan.outcome.clone();
            let change_of_usage = change.usage_change(present.as_ref(), &plan);
            if matches!(change, Change::Put { .. }) {
                // A try that came before may have reserved less.
                work.reserved = None;
                work.reserved = self.reserve(bucket, change_of_usage).await?;
            }
            if !self.prepare(bucket, (change, plan), present.as_ref(), &facts, work).await? {
                present = self.present(bucket, key).await?;
                continue;
            }
            let mut steps = match &present {
                Some(present) => vec![Step::AttrIs(attr::TAG, Bytes::from(present.head.tag.clone()))],
                None => vec![Step::CreateNew],
            };
            steps.append(&mut work.steps);
            match self.rados.operate(&bucket.data_pool, object.clone(), steps).await {
                Ok(_) => {
                    match &mut work.reserved {
                        Some(reserved) => reserved.set(change_of_usage),
                        None => work.reserved = self.reserve_known(bucket, change_of_usage),
                    }
                    let steps = index_steps(key, present.as_ref(), work.after.as_ref());
                    let committed = Committed { head: work.head.take(), version: outcome, changed: true };
                    let change = counted(present.as_ref(), work.after.as_ref());
                    return Ok((committed, Settled::Changed(steps, change)));
                }
                Err(RadosError::Guard | RadosError::Exists | RadosError::NotFound) => {
                    present = self.present(bucket, key).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(too_many_tries())
    }

    /// Writes what has to be there before the head is replaced, and works out the steps that replace it. False if the
    /// head has changed meanwhile.
    async fn prepare(
        &self,
        bucket: &Bucket,
        (change, plan): (&Change, Plan),
        present: Option<&Present>,
        facts: &Facts<'_>,
        work: &mut Work<R>,
    ) -> Result<bool, Error> {
        let Plan { newest, sets_aside, mut older, dropped, .. } = plan;
        let Some(mut goes) = self.dropped_objects(bucket, present, dropped.as_ref()).await? else { return Ok(false) };
        if let Newest::Promoted(Older { place: Some(place), .. }) = &newest {
            goes.places.push(place.clone());
        }
        let aside = present.filter(|_| sets_aside).map(|present| &present.head);
        let place = match aside {
            // A place that an earlier try has written is written anew: no head has named it.
            Some(head) if !head.is_marker => Some(work.place.get_or_insert_with(|| self.fresh()).clone()),
            _ => {
                goes.places.extend(work.place.clone());
                None
            }
        };
        if place.is_some() || !goes.is_empty() {
            let mut named = goes.clone();
            named.tails.extend(change.tails().iter().cloned());
            named.places.extend(place.clone());
            let intended = Intent::Tails { bucket: bucket.clone(), key: facts.key.to_owned(), named };
            let number = work.intent.unwrap_or_else(|| self.number());
            self.keep_intent(number, &intended).await?;
            work.intent = Some(number);
        }
        if let Some(head) = aside {
            if let Some(place) = &place
                && !self.write_aside(bucket, head, place).await?
            {
                return Ok(false);
            }
            older.insert(0, set_aside(head, place));
        }
        let list = Step::SetAttr(attr::OLDER, to_bytes(&older));
        let tag = Step::SetAttr(attr::TAG, Bytes::copy_from_slice(facts.tag.as_bytes()));
        let written = match newest {
            Newest::Gone => None,
            Newest::Kept => present.map(|present| (Head { tag: facts.tag.to_owned(), ..present.head.clone() }, None)),
            Newest::New(head) => Some((*head, Some(change.bytes()))),
            Newest::Promoted(Older { place: Some(place), .. }) => match self.read_older(bucket, &place).await? {
                Some((head, bytes)) => Some((Head { tag: facts.tag.to_owned(), ..head }, Some(bytes))),
                None => return Ok(false),
            },
            Newest::Promoted(marker) => Some((marker_head(&marker, facts), Some(Bytes::new()))),
        };
        work.goes = goes;
        work.steps = match &written {
            None => vec![Step::Remove],
            Some((head, bytes)) => {
                let mut steps: Vec<Step> = bytes.iter().map(|bytes| Step::WriteFull(bytes.clone())).collect();
                steps.extend([Step::SetAttr(attr::RECORD, to_bytes(head)), tag, list]);
                steps
            }
        };
        work.head = written.as_ref().map(|(head, _)| head.clone());
        work.after = written.map(|(head, _)| Present { head, older });
        Ok(true)
    }

    /// The tails and places of a version that is about to go. `None` if the head has changed.
    async fn dropped_objects(
        &self,
        bucket: &Bucket,
        present: Option<&Present>,
        dropped: Option<&Dropped>,
    ) -> Result<Option<Named>, Error> {
        let Some((present, dropped)) = present.zip(dropped) else { return Ok(Some(Named::default())) };
        let (layout, place) = match dropped {
            Dropped::Newest => (&present.head.layout, None),
            Dropped::Older(older) => (&older.layout, older.place.clone()),
        };
        let tails = match layout.bare() {
            Layout::Whole | Layout::Sealed { .. } => Vec::new(),
            Layout::Striped(tail) => vec![tail.clone()],
            Layout::Parts { upload } => {
                let parts = match &place {
                    None => self.parts_of(bucket, &present.head).await?,
                    Some(place) => self.older_parts(bucket, place).await?,
                };
                let Some(parts) = parts else { return Ok(None) };
                // A sweep takes an upload whose completion no version shows for one that can go on. So the upload has
                // to be gone before the version is.
                self.remove_upload(bucket, &present.head.key, upload).await?;
                parts.into_iter().map(|part| part.tail).collect()
            }
        };
        Ok(Some(Named { tails, places: place.into_iter().collect() }))
    }

    /// Writes the newest version to a place. False if the head has changed.
    async fn write_aside(&self, bucket: &Bucket, head: &Head, place: &str) -> Result<bool, Error> {
        let bytes = match head.layout.bare() {
            Layout::Striped(_) => Bytes::new(),
            Layout::Whole if head.size == 0 => Bytes::new(),
            Layout::Whole | Layout::Parts { .. } | Layout::Sealed { .. } => {
                let object = names::head_object(&bucket.id, &head.key);
                let read = Step::Read { offset: 0, length: 0 };
                let steps = vec![Step::AttrIs(attr::TAG, Bytes::from(head.tag.clone())), read];
                match self.rados.operate(&bucket.data_pool, object, steps).await {
                    Ok(replies) => replies[1].bytes(),
                    Err(RadosError::Guard | RadosError::NotFound) => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        self.write_older(bucket, head, bytes, place).await?;
        Ok(true)
    }

    async fn write_older(&self, bucket: &Bucket, head: &Head, bytes: Bytes, place: &str) -> Result<(), Error> {
        let steps = vec![Step::WriteFull(bytes), Step::SetAttr(attr::RECORD, to_bytes(head))];
        self.rados.operate(&bucket.data_pool, names::older_object(place), steps).await?;
        Ok(())
    }

    /// An older version's record and bytes; `None` if its place is gone, so that the head has changed.
    pub(crate) async fn read_older(&self, bucket: &Bucket, place: &str) -> Result<Option<(Head, Bytes)>, Error> {
        let object = names::older_object(place);
        let steps = vec![Step::GetAttr(attr::RECORD), Step::Read { offset: 0, length: 0 }];
        match self.rados.operate(&bucket.data_pool, object.clone(), steps).await {
            Ok(replies) => Ok(Some((from_bytes(&object, &replies[0].bytes())?, replies[1].bytes()))),
            Err(RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The parts of an older version that was uploaded in parts; `None` if its place is gone.
    pub(crate) async fn older_parts(&self, bucket: &Bucket, place: &str) -> Result<Option<Vec<Part>>, Error> {
        match self.read_older(bucket, place).await? {
            Some((_, bytes)) => Ok(Some(from_bytes(&names::older_object(place), &bytes)?)),
            None => Ok(None),
        }
    }

    /// The state of a key.
    pub(crate) async fn present(&self, bucket: &Bucket, key: &str) -> Result<Option<Present>, Error> {
        let object = names::head_object(&bucket.id, key);
        let steps = vec![Step::GetAttr(attr::RECORD), Step::GetAttr(attr::OLDER)];
        match self.rados.operate(&bucket.data_pool, object.clone(), steps).await {
            Ok(replies) => {
                let head = from_bytes(&object, &replies[0].bytes())?;
                let older = from_bytes(&object, &replies[1].bytes())?;
                Ok(Some(Present { head, older }))
            }
            Err(RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A key's state, with the tails and places that its versions have; `None` if the key has no version.
    ///
    /// `with_parts`: also the tails of versions that were uploaded in parts, whose lists have to be read.
    pub(crate) async fn named_by(
        &self,
        bucket: &Bucket,
        key: &str,
        with_parts: bool,
    ) -> Result<Option<(Present, Named)>, Error> {
        'state: for _ in 0..TRIES_MAX {
            let Some(present) = self.present(bucket, key).await? else { return Ok(None) };
            let places = present.older.iter().filter_map(|older| older.place.clone()).collect();
            let mut named = Named { tails: Vec::new(), places };
            let newest = (&present.head.layout, None);
            let older = present.older.iter().map(|older| (&older.layout, older.place.as_deref()));
            for (layout, place) in std::iter::once(newest).chain(older) {
                match layout.bare() {
                    Layout::Striped(tail) => named.tails.push(tail.clone()),
                    Layout::Parts { .. } if with_parts => {
                        let parts = match place {
                            None => self.parts_of(bucket, &present.head).await?,
                            Some(place) => self.older_parts(bucket, place).await?,
                        };
                        let Some(parts) = parts else { continue 'state };
                        named.tails.extend(parts.into_iter().map(|part| part.tail));
                    }
                    Layout::Parts { .. } | Layout::Whole | Layout::Sealed { .. } => {}
                }
            }
            return Ok(Some((present, named)));
        }
        Err(too_many_tries())
    }

    /// Of some tails and places, those that no version of a key has.
    pub(crate) async fn unnamed(&self, bucket: &Bucket, key: &str, named: &Named) -> Result<Named, Error> {
        let mut left = named.clone();
        if let Some((_, of_key)) = self.named_by(bucket, key, !left.tails.is_empty()).await? {
            left.places.retain(|place| !of_key.places.contains(place));
            left.tails.retain(|tail| of_key.tails.iter().all(|other| other.id != tail.id));
        }
        Ok(left)
    }

    /// Changes what a version tells of itself, but nothing that lists show. Gives its new record.
    ///
    /// `version`: `None` is the newest. Errors: `NoSuchKey`, `NoSuchVersion`, those of `change`, which is called anew
    /// where others change the key meanwhile.
    pub async fn change_head(
        self: &Arc<Self>,
        bucket: &Bucket,
        key: &str,
        version: Option<&str>,
        change: impl Fn(&mut Head) -> Result<(), Error> + Sync,
    ) -> Result<Head, Error> {
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let (bucket, present, place) = self.version(bucket, key, version).await?;
            let changed = match place {
                None => self.change_newest(&bucket, &present.head, &change).await?,
                Some(place) => self.change_older(&bucket, present, &place, &change).await?,
            };
            if let Some(head) = changed {
                return Ok(head);
            }
        }
        Err(too_many_tries())
    }

    /// `None` if the head has changed meanwhile.
    async fn change_newest(
        &self,
        bucket: &Bucket,
        old: &Head,
        change: &(impl Fn(&mut Head) -> Result<(), Error> + Sync),
    ) -> Result<Option<Head>, Error> {
        let mut new = old.clone();
        change(&mut new)?;
        debug_assert_eq!((new.entry(), &new.layout), (old.entry(), &old.layout));
        new.tag = self.fresh();
        let steps = vec![
            Step::AttrIs(attr::TAG, Bytes::from(old.tag.clone())),
            Step::SetAttr(attr::TAG, Bytes::from(new.tag.clone())),
            Step::SetAttr(attr::RECORD, to_bytes(&new)),
        ];
        match self.rados.operate(&bucket.data_pool, names::head_object(&bucket.id, &old.key), steps).await {
            Ok(_) => Ok(Some(new)),
            Err(RadosError::Guard | RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives an older version another place, with another record. `None` if the head has changed meanwhile.
    async fn change_older(
        self: &Arc<Self>,
        bucket: &Bucket,
        mut present: Present,
        place: &str,
        change: &(impl Fn(&mut Head) -> Result<(), Error> + Sync),
    ) -> Result<Option<Head>, Error> {
        let Some((mut record, bytes)) = self.read_older(bucket, place).await? else { return Ok(None) };
        change(&mut record)?;
        let (new, key) = (self.fresh(), record.key.clone());
        let named = Named { tails: Vec::new(), places: vec![place.to_owned(), new.clone()] };
        let intent = self.intend(&Intent::Tails { bucket: bucket.clone(), key: key.clone(), named }).await?;
        self.write_older(bucket, &record, bytes, &new).await?;
        for older in present.older.iter_mut().filter(|older| older.place.as_deref() == Some(place)) {
            older.place = Some(new.clone());
            older.lock = record.lock;
        }
        let old_tag = std::mem::replace(&mut present.head.tag, self.fresh());
        let steps = vec![
            Step::AttrIs(attr::TAG, Bytes::from(old_tag)),
            Step::SetAttr(attr::TAG, Bytes::from(present.head.tag.clone())),
            Step::SetAttr(attr::RECORD, to_bytes(&present.head)),
            Step::SetAttr(attr::OLDER, to_bytes(&present.older)),
        ];
        let (goes, head) =
            match self.rados.operate(&bucket.data_pool, names::head_object(&bucket.id, &key), steps).await {
                Ok(_) => (place.to_owned(), Some(record)),
                Err(RadosError::Guard | RadosError::NotFound) => (new, None),
                Err(error) => return Err(error.into()),
            };
        let goes = Named { tails: Vec::new(), places: vec![goes] };
        self.discard(bucket.data_pool.clone(), goes, Some(intent)).await;
        Ok(head)
    }
}

impl Change {
    /// The change of a bucket's usage by what is planned. Parts of an upload count before they become an object.
    fn usage_change(&self, present: Option<&Present>, plan: &Plan) -> UsageChange {
        let change = added(whole(plan.usage(present)), negative(whole(usage_of(present))));
        match self {
            Change::Put { new, .. } if matches!(new.layout.bare(), Layout::Parts { .. }) => {
                added(change, negative(whole(Usage { bytes: new.size, objects: 0 })))
            }
            _ => change,
        }
    }

    /// Tails of what is put.
    fn tails(&self) -> &[Tail] {
        match self {
            Change::Put { new, .. } => &new.tails,
            Change::Delete { .. } | Change::Remove { .. } | Change::Lapse(_) => &[],
        }
    }

    /// The head's own bytes of what is put.
    fn bytes(&self) -> Bytes {
        match self {
            Change::Put { new, .. } => new.bytes.clone(),
            Change::Delete { .. } | Change::Remove { .. } | Change::Lapse(_) => Bytes::new(),
        }
    }
}
