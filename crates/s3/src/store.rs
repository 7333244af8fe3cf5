//! A gateway's state: its session, its intents, and what it remembers of buckets and ranges.

use crate::bucket_settings::BucketSettings;
use crate::error::{Code, Error};
use crate::names;
use crate::rados::{Rados, RadosError, Reply, Step};
use crate::records::{Bucket, Intent, SessionRecord, User, attr, from_bytes, to_bytes};
use crate::sealing::MasterKeys;
use crate::usage::KnownUsages;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sizes and times.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pool of records and indexes; has to be replicated, because it needs omaps.
    pub meta_pool: String,
    /// Pool of the bytes of new buckets' objects.
    pub data_pool: String,
    /// Bytes of the largest object that is one RADOS object with its head.
    pub whole_max_bytes: u64,
    /// Bytes of a stripe of larger ones.
    pub stripe_bytes: u64,
    /// Stripes of one request that are written or read at once.
    pub stripes_at_once: usize,
    /// Keys of a range above which it is split.
    pub range_keys_max: u64,
    /// Changes of a range's counts that one gateway writes before it adds them up.
    pub counts_max: u64,
    /// Time for which a bucket's usage is remembered where a quota asks for it.
    pub usage_ttl_ms: u64,
    /// Entries asked for at once.
    pub page_entries: u64,
    /// Time for which readers may go on with the bytes of an object that was replaced or deleted.
    pub garbage_ms: u64,
    /// Time after which a gateway that shows no sign of life is taken for dead.
    pub dead_after_ms: u64,
    /// Time for which a bucket's record and settings are remembered: after a change of settings by one gateway, others
    /// act on the former ones for so long.
    pub bucket_ttl_ms: u64,
    /// Time for which an object of a pool of bytes has to be as it is before it counts as an orphan.
    pub orphan_age_ms: u64,
    /// Tails and places of older versions that a check of a pool remembers at once: it reads all heads once for each
    /// such slice.
    pub orphans_at_once: usize,
    /// Smallest part of an upload but the last.
    pub part_min_bytes: u64,
    /// Seconds that lifecycle rules take for a day, for tests; days end at midnight (UTC) without.
    pub lifecycle_day_s: Option<u32>,
    /// Keys by which objects are sealed whose clients bring none.
    pub master_keys: MasterKeys,
    /// Bytes of a chunk of new sealed objects: the least that a read of a range has to open.
    pub sealed_chunk_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            meta_pool: "nacre.s3.meta".into(),
            data_pool: "nacre.s3.data".into(),
            whole_max_bytes: 4 << 20,
            stripe_bytes: 4 << 20,
            stripes_at_once: 4,
            range_keys_max: 10_000,
            counts_max: 200,
            usage_ttl_ms: 10_000,
            page_entries: 1000,
            garbage_ms: 300_000,
            dead_after_ms: 30_000,
            bucket_ttl_ms: 3000,
            orphan_age_ms: 600_000,
            orphans_at_once: 1_000_000,
            part_min_bytes: 5 << 20,
            lifecycle_day_s: None,
            master_keys: MasterKeys::default(),
            sealed_chunk_bytes: 64 << 10,
        }
    }
}

/// A range of an index, as last seen: it serves the keys from `start` up to, and without, `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    pub range: String,
    pub generation: Bytes,
    pub start: String,
    pub end: Option<String>,
    /// The range's key in the bucket's root.
    pub place: Bytes,
}

/// Routes by bucket and by the range's place in the bucket's root.
pub(crate) type Routes = BTreeMap<(String, Bytes), Arc<Route>>;

/// A bucket with its settings, and when they were asked for.
pub(crate) type KnownBucket = (u64, Arc<Bucket>, Arc<BucketSettings>);

/// A user's record and the ids of the user's buckets, and when they were asked for.
pub(crate) type KnownOwner = (u64, Option<Arc<User>>, Arc<Vec<String>>);

/// A gateway's view of all buckets. Several gateways work on the same pools, each with a session of its own.
///
/// A request is carried out on one `Arc<Store>`; the futures of its methods have to be run to their end, because one
/// that is dropped leaves its intents and stamps to the next sweep after this gateway's death.
pub struct Store<R> {
    pub(crate) rados: R,
    pub(crate) settings: Settings,
    pub(crate) session: String,
    last_number: AtomicU64,
    pub(crate) routes: Mutex<Routes>,
    pub(crate) buckets: Mutex<BTreeMap<String, KnownBucket>>,
    /// Stamps that may be in slots, those among them that could not be taken back.
    pub(crate) stamps: AtomicUsize,
    /// Stamps that could not be taken back: bucket, key and tag.
    pub(crate) unsettled: Mutex<Vec<(Arc<Bucket>, String, String)>>,
    /// Stamps in ranges since their keys were counted last, by bucket and range.
    pub(crate) stamped: Mutex<BTreeMap<(String, String), u64>>,
    /// Changes of counts of ranges that were not added up since, by bucket and range.
    pub(crate) written_counts: Mutex<BTreeMap<(String, String), u64>>,
    /// Usage of buckets that a quota is about, by their ids; owners of buckets, by their names.
    pub(crate) usages: Mutex<KnownUsages>,
    pub(crate) owners: Mutex<BTreeMap<String, KnownOwner>>,
    /// Signs of life of other gateways: the counter, and when it was first seen.
    pub(crate) beats: Mutex<BTreeMap<String, (Bytes, u64)>>,
    /// Intents of this session for garbage, which is removed when its time has come.
    pub(crate) garbage: Mutex<BTreeMap<u64, Intent>>,
    /// Sessions that are fenced, and whether their stamps are taken out.
    pub(crate) fenced: Mutex<BTreeMap<String, bool>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Rados> Store<R> {
    /// Opens a session. `session` is a name that no other gateway had or will have, of letters and digits; sixteen
    /// random hexadecimal digits will do.
    pub async fn open(rados: R, session: String, settings: Settings) -> Result<Arc<Store<R>>, Error> {
        let store = Store {
            rados,
            settings,
            session,
            last_number: AtomicU64::new(0),
            routes: Mutex::default(),
            buckets: Mutex::default(),
            stamps: AtomicUsize::new(0),
            unsettled: Mutex::default(),
            stamped: Mutex::default(),
            written_counts: Mutex::default(),
            usages: Mutex::default(),
            owners: Mutex::default(),
            beats: Mutex::default(),
            garbage: Mutex::default(),
            fenced: Mutex::default(),
        };
        let record = SessionRecord { client: store.rados.client(), started_ms: store.rados.now_ms() };
        let entry = (Bytes::from(store.session.clone()), to_bytes(&record));
        store.meta(names::SESSIONS.into(), vec![Step::Set(vec![entry])]).await?;
        let object = names::session_object(&store.session);
        let made = vec![Step::CreateNew, Step::SetAttr(attr::BEAT, Bytes::from_static(b"0"))];
        store.meta(object, made).await?;
        Ok(Arc::new(store))
    }

    /// The name of this gateway's session.
    pub fn session(&self) -> &str {
        &self.session
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A name that was never used before.
    pub(crate) fn fresh(&self) -> String {
        format!("{}.{:x}", self.session, self.number())
    }

    /// Carries out an operation on an object of the pool of records.
    pub(crate) async fn meta(&self, object: String, steps: Vec<Step>) -> Result<Vec<Reply>, RadosError> {
        self.rados.operate(&self.settings.meta_pool, object, steps).await
    }

    /// Reads the omap of an object of the pool of records; empty if the object does not exist.
    pub(crate) async fn whole_omap(&self, object: &str, prefix: Bytes) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let mut found: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            let after = found.last().map(|(key, _)| key.clone()).unwrap_or_default();
            let list = Step::List { after, max: self.settings.page_entries, prefix: prefix.clone() };
            let (entries, more) = match self.meta(object.to_owned(), vec![list]).await {
                Ok(mut replies) => replies.remove(0).entries(),
                Err(RadosError::NotFound) => return Ok(found),
                Err(error) => return Err(error.into()),
            };
            let is_end = !more || entries.is_empty();
            found.extend(entries);
            if is_end {
                return Ok(found);
            }
        }
    }

    /// Records that something is about to be done. Gives the intent's number.
    pub(crate) async fn intend(&self, intent: &Intent) -> Result<u64, Error> {
        let number = self.number();
        self.keep_intent(number, intent).await?;
        Ok(number)
    }

    /// Records another intent in the place of one.
    pub(crate) async fn keep_intent(&self, number: u64, intent: &Intent) -> Result<(), Error> {
        let object = names::session_object(&self.session);
        let entry = (intent_key(number), to_bytes(intent));
        self.meta(object, vec![Step::Set(vec![entry])]).await?;
        Ok(())
    }

    /// Forgets an intent, because its work is done.
    pub(crate) async fn forget_intent(&self, number: u64) -> Result<(), Error> {
        let object = names::session_object(&self.session);
        self.meta(object, vec![Step::Drop(vec![intent_key(number)])]).await?;
        Ok(())
    }

    /// Reads a record, and the attribute that guards it.
    pub(crate) async fn record<T: serde::de::DeserializeOwned>(
        &self,
        object: &str,
        guard: &'static str,
    ) -> Result<Option<(T, Bytes)>, Error> {
        let steps = vec![Step::GetAttr(attr::RECORD), Step::GetAttr(guard)];
        match self.meta(object.to_owned(), steps).await {
            Ok(replies) => Ok(Some((from_bytes(object, &replies[0].bytes())?, replies[1].bytes()))),
            Err(RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn intent_key(number: u64) -> Bytes {
    Bytes::from(format!("i{number:016x}"))
}

/// The name of the session that made a name.
pub(crate) fn session_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(session, _)| session)
}

/// Tries of an operation whose guards other gateways keep from holding.
pub(crate) const TRIES_MAX: u32 = 200;
/// Pause between such tries, once a few have failed.
pub(crate) const PAUSE_MS: u64 = 10;

pub(crate) fn too_many_tries() -> Error {
    Code::SlowDown.because("other requests change the same key or range all the time")
}
