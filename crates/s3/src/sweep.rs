//! Work beside requests: signs of life, garbage, and what dead gateways left.
//!
//! A gateway counts up an attribute of its session. Another one that sees it stand still for long has the cluster shut
//! that client out, after which nothing that it sent is carried out any more. Then its intents are ended or taken back,
//! and its stamps taken out of their slots. Several gateways may do this at once.

use crate::buckets::absent_is_fine;
use crate::error::{Code, Error};
use crate::names::{self, SLOTS};
use crate::rados::{Rados, RadosError, Step};
use crate::records::{Bucket, Intent, Named, SessionRecord, Tail, attr, from_bytes};
use crate::store::{PAUSE_MS, Store, lock, session_of};
use crate::window::all;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Stripes that are removed at once.
const REMOVALS_AT_ONCE: usize = 16;
/// Looks at the end of a session, a pause apart, if indexes have followed the last answers.
const LAST_LOOKS: u32 = 200;

impl<R: Rados> Store<R> {
    /// Does what is due beside requests. To be called every few seconds, beside [`Store::beat`]. Errors: `Fenced` where
    /// this gateway was taken for dead and has to end; after others the next call goes on.
    pub async fn tend(self: &Arc<Self>) -> Result<(), Error> {
        // None of them waits for another one's success.
        let outcomes =
            [self.settle_again().await, self.collect_garbage().await, self.sweep().await, self.balance_ranges().await];
        outcomes.into_iter().collect()
    }

    /// Shows that this gateway lives. To be called several times within the time after which others take it for dead,
    /// and not to wait for anything else. Errors as with [`Store::tend`].
    pub async fn beat(&self) -> Result<(), Error> {
        let count = Bytes::from(self.number().to_string());
        self.meta(names::session_object(&self.session), vec![Step::SetAttr(attr::BEAT, count)]).await?;
        Ok(())
    }

    /// Ends the session, once no request is under way. If something of it is left, garbage for example, the session
    /// stays, and another gateway takes it for dead and ends it.
    pub async fn close(&self) -> Result<(), Error> {
        self.settle_again().await?;
        // Indexes follow behind answers. A stamp whose session is gone is in its slot for good.
        for _ in 0..LAST_LOOKS {
            if self.stamps.load(Ordering::Relaxed) == 0 {
                break;
            }
            self.rados.pause(PAUSE_MS).await;
        }
        if self.stamps.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let object = names::session_object(&self.session);
        if !self.whole_omap(&object, Bytes::from_static(b"i")).await?.is_empty() {
            return Ok(());
        }
        self.meta(object, vec![Step::Remove]).await?;
        let drop = Step::Drop(vec![Bytes::copy_from_slice(self.session.as_bytes())]);
        self.meta(names::SESSIONS.into(), vec![drop]).await?;
        Ok(())
    }

    async fn settle_again(&self) -> Result<(), Error> {
        let left = std::mem::take(&mut *lock(&self.unsettled));
        let mut outcome = Ok(());
        for (bucket, key, tag) in left {
            match self.take_back(&bucket, &key, &tag).await {
                Ok(()) => {}
                Err(error) if error.code() == Some(Code::NoSuchBucket) => {
                    self.stamps.fetch_sub(1, Ordering::Relaxed);
                }
                Err(error) => {
                    lock(&self.unsettled).push((bucket, key, tag));
                    outcome = Err(error);
                }
            }
        }
        outcome
    }

    /// Removes tails, and then forgets the intent that names them.
    pub(crate) async fn drop_tails(&self, pool: &str, tails: &[Tail], intent: Option<u64>) -> Result<(), Error> {
        self.drop_named(pool, &Named::of_tails(tails), intent).await
    }

    /// Removes tails and places, and then forgets the intent that names them.
    pub(crate) async fn drop_named(&self, pool: &str, named: &Named, intent: Option<u64>) -> Result<(), Error> {
        let of_tail = |tail: &Tail| {
            let id = tail.id.clone();
            (0..tail.stripes()).map(move |number| names::stripe_object(&id, number))
        };
        let mut objects: Vec<String> = named.tails.iter().flat_map(of_tail).collect();
        objects.extend(named.places.iter().map(|place| names::older_object(place)));
        let remove = |object| self.rados.operate(pool, object, vec![Step::Remove]);
        let removals: Vec<_> = objects.into_iter().map(remove).collect();
        for removed in all(removals, REMOVALS_AT_ONCE).await {
            match removed {
                Ok(_) | Err(RadosError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match intent {
            Some(intent) => self.forget_intent(intent).await,
            None => Ok(()),
        }
    }

    /// Lets tails and places that no version has any more go, once readers had time.
    pub(crate) async fn discard(&self, data_pool: String, named: Named, intent: Option<u64>) {
        let Some(intent) = intent else { return };
        if named.is_empty() {
            // An intent that stays is ended by a sweep, which finds its tails named.
            let _ = self.forget_intent(intent).await;
            return;
        }
        let garbage = Intent::Garbage { data_pool, named, due_ms: self.rados.now_ms() + self.settings.garbage_ms };
        // If this fails, the intent of the change stays, and a sweep finds the tails unnamed.
        if self.keep_intent(intent, &garbage).await.is_ok() {
            lock(&self.garbage).insert(intent, garbage);
        }
    }

    async fn collect_garbage(&self) -> Result<(), Error> {
        let now = self.rados.now_ms();
        let due: Vec<(u64, String, Named)> = {
            let garbage = lock(&self.garbage);
            let due = garbage.iter().filter_map(|(number, intent)| match intent {
                Intent::Garbage { data_pool, named, due_ms } if *due_ms <= now => {
                    Some((*number, data_pool.clone(), named.clone()))
                }
                _ => None,
            });
            due.collect()
        };
        for (number, pool, named) in due {
            self.drop_named(&pool, &named, Some(number)).await?;
            lock(&self.garbage).remove(&number);
        }
        Ok(())
    }

    /// Looks for gateways that show no sign of life, and ends what they began.
    pub async fn sweep(self: &Arc<Self>) -> Result<(), Error> {
        let dead = self.dead_sessions().await?;
        let mut outcome = Ok(());
        // A stamp may be in a bucket that another dead gateway was deleting, so intents go first.
        let mut ended = Vec::new();
        for (session, record) in dead {
            match self.end_intents(&session, &record).await {
                Ok(is_done) => ended.push((session, is_done)),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        for (session, is_done) in ended {
            outcome = outcome.and(self.end_session(&session, is_done).await);
        }
        outcome
    }

    /// Sessions whose gateways have shown no sign of life for too long.
    async fn dead_sessions(&self) -> Result<Vec<(String, SessionRecord)>, Error> {
        let now = self.rados.now_ms();
        let mut dead = Vec::new();
        for (name, record) in self.whole_omap(names::SESSIONS, Bytes::new()).await? {
            let session = String::from_utf8_lossy(&name).into_owned();
            if session == self.session {
                continue;
            }
            let beat = match self.meta(names::session_object(&session), vec![Step::GetAttr(attr::BEAT)]).await {
                Ok(replies) => replies[0].bytes(),
                Err(RadosError::NotFound) => Bytes::new(),
                Err(error) => return Err(error.into()),
            };
            let mut beats = lock(&self.beats);
            let seen = beats.entry(session.clone()).or_insert_with(|| (beat.clone(), now));
            if seen.0 != beat {
                *seen = (beat, now);
            }
            if now >= seen.1 + self.settings.dead_after_ms {
                dead.push((session, from_bytes(names::SESSIONS, &record)?));
            }
        }
        Ok(dead)
    }

    /// Fences a dead gateway and ends its intents. False if the time of some has not come.
    async fn end_intents(self: &Arc<Self>, session: &str, record: &SessionRecord) -> Result<bool, Error> {
        if !lock(&self.fenced).contains_key(session) {
            self.rados.fence(&record.client).await?;
            lock(&self.fenced).insert(session.to_owned(), false);
        }
        let object = names::session_object(session);
        let mut is_done = true;
        for (name, intent) in self.whole_omap(&object, Bytes::from_static(b"i")).await? {
            if self.resume(session, from_bytes(&object, &intent)?).await? {
                // Another gateway that sweeps this session may have ended with it.
                absent_is_fine(self.meta(object.clone(), vec![Step::Drop(vec![name])]).await)?;
            } else {
                is_done = false;
            }
        }
        Ok(is_done)
    }

    /// Takes out the stamps of a fenced gateway, and removes its session once its intents are ended.
    async fn end_session(&self, session: &str, intents_are_done: bool) -> Result<(), Error> {
        if lock(&self.fenced).get(session) != Some(&true) {
            self.take_out_stamps(session).await?;
            lock(&self.fenced).insert(session.to_owned(), true);
        }
        if intents_are_done {
            absent_is_fine(self.meta(names::session_object(session), vec![Step::Remove]).await)?;
            let drop = Step::Drop(vec![Bytes::copy_from_slice(session.as_bytes())]);
            self.meta(names::SESSIONS.into(), vec![drop]).await?;
            lock(&self.fenced).remove(session);
            lock(&self.beats).remove(session);
        }
        Ok(())
    }

    /// Ends or takes back what a fenced gateway has begun. False if its time has not come.
    async fn resume(self: &Arc<Self>, session: &str, intent: Intent) -> Result<bool, Error> {
        match intent {
            Intent::Tails { bucket, key, named } => self.resume_tails(&bucket, &key, &named).await?,
            Intent::PartTails { bucket, key, upload, number, tails } => {
                self.resume_part(&bucket, (&key, &upload, number), tails).await?;
            }
            Intent::Garbage { due_ms, .. } if due_ms > self.rados.now_ms() => return Ok(false),
            Intent::Garbage { data_pool, named, .. } => self.drop_named(&data_pool, &named, None).await?,
            Intent::Abort { bucket, key, upload } => self.resume_abort(&bucket, &key, &upload).await?,
            Intent::Complete { bucket, key, upload } => {
                self.resume_complete(&bucket, (&key, &upload), session).await?;
            }
            Intent::CreateBucket(bucket) => self.resume_create_bucket(&bucket).await?,
            Intent::DeleteBucket(bucket) => self.resume_delete_bucket(&bucket, session).await?,
            Intent::Split { bucket, range, to } => self.resume_split(&bucket, &range, &to).await?,
            Intent::Merge { bucket, into, from } => self.resume_merge(&bucket, &into, &from).await?,
        }
        Ok(true)
    }

    /// Removes those of some tails and places that no version of a key has.
    async fn resume_tails(&self, bucket: &Bucket, key: &str, named: &Named) -> Result<(), Error> {
        let left = self.unnamed(bucket, key, named).await?;
        self.drop_named(&bucket.data_pool, &left, None).await
    }

    /// Takes the stamps of a fenced gateway out of all slots.
    async fn take_out_stamps(&self, session: &str) -> Result<(), Error> {
        for user in self.users().await? {
            for bucket in self.buckets(&user).await? {
                match self.take_out_of(&bucket, session).await {
                    Err(error) if error.code() == Some(Code::NoSuchBucket) => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    async fn take_out_of(&self, bucket: &Arc<Bucket>, session: &str) -> Result<(), Error> {
        let mut start = String::new();
        let mut after = Bytes::new();
        loop {
            let prefix = Bytes::from_static(&[SLOTS]);
            let list = Step::List { after: after.clone(), max: self.settings.page_entries, prefix };
            let (route, mut replies) = self.on_range(bucket, &start, &[list]).await?;
            let (slots, more) = replies.remove(0).entries();
            for (name, _) in &slots {
                let (key, _) = names::parse(name).ok_or_else(|| Error::damaged("an index", "a slot"))?;
                self.leave(bucket, &key, |tag| session_of(tag) == session).await?;
            }
            match (slots.last(), &route.end) {
                (Some((name, _)), _) if more => after = name.clone(),
                (_, Some(end)) => {
                    start.clone_from(end);
                    after = names::entry(SLOTS, end);
                    after.truncate(after.len() - 1);
                }
                (_, None) => return Ok(()),
            }
        }
    }
}
