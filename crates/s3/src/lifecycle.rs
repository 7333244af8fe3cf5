//! Rounds through buckets by their lifecycle rules.
//!
//! A directory in the pool of records names the buckets with rules, each with the round through it: when the next one
//! is due, and which gateway is at it. A round of a gateway whose session has ended is anybody's. So gateways share
//! buckets, and two of them in one bucket do no harm: a list only tells which keys are worth a look, and each removal
//! is judged anew by the bucket's rules and the state of the key that it replaces.

use crate::bucket_settings::BucketSettings;
use crate::error::{Code, Error};
use crate::lapse::{Lapse, STORAGE_CLASS, oldest_first};
use crate::listing::Query;
use crate::names;
use crate::present::Present;
use crate::rados::{Rados, RadosError, Step};
use crate::records::{Bucket, VersionEntry, from_bytes, to_bytes};
use crate::store::{PAUSE_MS, Store, TRIES_MAX, too_many_tries};
use crate::version_listing::ListedVersion;
use crate::versions::Change;
use crate::window::all;
use bytes::Bytes;
use s3rules::UnixMillis;
use s3rules::lifecycle::{LifecycleClock, LifecycleConfiguration, VersionFacts, VersionState};
use s3rules::tagging::TagSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keys of a bucket that are looked at once.
const KEYS_AT_ONCE: usize = 8;
const DAY_MS: u64 = 86_400_000;

/// The round through a bucket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Round {
    /// The session that is at it.
    session: Option<String>,
    /// When the next one is due.
    due_ms: u64,
    /// A name that was never used before, so that no state of a round comes twice.
    mark: String,
}

/// Numbers of what was done by lifecycle rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lapsed {
    /// Buckets whose round came to its end.
    pub buckets: u64,
    /// Versions that were removed or covered by a delete marker.
    pub versions: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
    /// Versions that stayed because they are locked, or because their key has too many.
    pub kept: u64,
}

/// Outcome of a look at a bucket.
enum Looked {
    /// It has no rules, or there is no such bucket.
    WithoutRules,
    AtEnd,
    /// The gateway stops.
    Stopped,
}

/// Tells if a round goes on.
type GoesOn<'a> = &'a (dyn Fn() -> bool + Sync);

impl<R: Rados> Store<R> {
    /// Sets or deletes the lifecycle rules of a bucket. Errors as with [`Store::change_settings`].
    pub async fn set_lifecycle(
        &self,
        bucket: &Bucket,
        rules: Option<LifecycleConfiguration>,
    ) -> Result<Arc<BucketSettings>, Error> {
        if rules.is_some() {
            // The directory has the bucket before the rules are there, and anew: one who found the bucket without
            // rules does not drop this.
            let round = Round { session: None, due_ms: 0, mark: self.fresh() };
            let entry = (Bytes::from(bucket.name.clone()), to_bytes(&round));
            self.meta(names::LIFECYCLE.into(), vec![Step::Set(vec![entry])]).await?;
        }
        self.change_settings(bucket, |settings| {
            settings.lifecycle.clone_from(&rules);
            Ok(())
        })
        .await
    }

    /// Does what lifecycle rules ask for in all buckets whose round is due and that no other gateway is at. To be
    /// called about every minute, by one task of a gateway. `goes_on`: false ends it between two keys.
    ///
    /// Errors: the first one, after all other buckets and keys; the rounds with errors are soon due again.
    pub async fn lifecycle(self: &Arc<Self>, goes_on: GoesOn<'_>) -> Result<Lapsed, Error> {
        let rounds = self.whole_omap(names::LIFECYCLE, Bytes::new()).await?;
        let mut lapsed = Lapsed::default();
        if rounds.is_empty() {
            return Ok(lapsed);
        }
        let sessions = self.whole_omap(names::SESSIONS, Bytes::new()).await?;
        let sessions: BTreeSet<Bytes> = sessions.into_iter().map(|(name, _)| name).collect();
        let mut outcome = Ok(());
        for (name, value) in rounds {
            let round: Round = from_bytes(names::LIFECYCLE, &value)?;
            let is_mine = match &round.session {
                Some(session) if *session == self.session => true,
                Some(session) => !sessions.contains(session.as_bytes()),
                None => round.due_ms <= self.rados.now_ms(),
            };
            if !goes_on() {
                break;
            }
            if is_mine {
                let done = self.round(name, value, round, goes_on, &mut lapsed).await;
                if matches!(done, Err(Error::Rados(RadosError::Fenced))) {
                    return done.map(|()| lapsed);
                }
                outcome = outcome.and(done);
            }
        }
        outcome.map(|()| lapsed)
    }

    /// Takes a round, unless another gateway does so, goes through the bucket, and gives the round back.
    async fn round(
        self: &Arc<Self>,
        name: Bytes,
        value: Bytes,
        round: Round,
        goes_on: GoesOn<'_>,
        lapsed: &mut Lapsed,
    ) -> Result<(), Error> {
        let taken = Round { session: Some(self.session.clone()), mark: self.fresh(), ..round };
        let taken = to_bytes(&taken);
        let steps = vec![Step::ValueIs(name.clone(), value), Step::Set(vec![(name.clone(), taken.clone())])];
        match self.meta(names::LIFECYCLE.into(), steps).await {
            Ok(_) => {}
            Err(RadosError::Guard | RadosError::NotFound) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let looked = self.go_through(&String::from_utf8_lossy(&name), goes_on, lapsed).await;
        let next = |due_ms| {
            let round = Round { session: None, due_ms, mark: self.fresh() };
            Step::Set(vec![(name.clone(), to_bytes(&round))])
        };
        let given_back = match &looked {
            Ok(Looked::WithoutRules) => Step::Drop(vec![name.clone()]),
            Ok(Looked::AtEnd) => next(self.next_round_ms()),
            Ok(Looked::Stopped) => next(0),
            Err(_) => next(self.rados.now_ms() + self.round_ms() / 24),
        };
        // Rules that were set meanwhile have made the round another one, which is due.
        let steps = vec![Step::ValueIs(name.clone(), taken), given_back];
        match self.meta(names::LIFECYCLE.into(), steps).await {
            Ok(_) | Err(RadosError::Guard | RadosError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        if matches!(looked?, Looked::AtEnd) {
            lapsed.buckets += 1;
        }
        Ok(())
    }

    /// Time between two rounds: a day, or a fourth of the short one of tests.
    fn round_ms(&self) -> u64 {
        self.settings.lifecycle_day_s.map_or(DAY_MS, |seconds| u64::from(seconds) * 250)
    }

    fn next_round_ms(&self) -> u64 {
        let (now, every) = (self.rados.now_ms(), self.round_ms());
        match self.settings.lifecycle_day_s {
            Some(_) => now + every,
            // Days of rules end at midnight.
            None => (now / every + 1) * every,
        }
    }

    /// Goes through a bucket.
    async fn go_through(
        self: &Arc<Self>,
        name: &str,
        goes_on: GoesOn<'_>,
        lapsed: &mut Lapsed,
    ) -> Result<Looked, Error> {
        let (bucket, settings) = match self.settings_now(name).await {
            Ok(found) => found,
            Err(error) if error.code() == Some(Code::NoSuchBucket) => return Ok(Looked::WithoutRules),
            Err(error) => return Err(error),
        };
        let Some(rules) = &settings.lifecycle else { return Ok(Looked::WithoutRules) };
        let Some(prefix) = rules.common_prefix() else { return Ok(Looked::AtEnd) };
        let mut outcome = Ok(());
        if rules.aborts_uploads() {
            match self.give_up_uploads(&bucket, &prefix, goes_on, lapsed).await {
                Ok(true) => {}
                Ok(false) => return Ok(Looked::Stopped),
                Err(error) => outcome = Err(error),
            }
        }
        let mut survey = Survey::new(rules);
        let max = usize::try_from(self.settings.page_entries).unwrap_or(1);
        let mut query = Query { prefix, max, ..Query::default() };
        let mut after: Option<String> = None;
        loop {
            let page = match self.list_versions(&bucket, &query, after.as_deref()).await {
                Err(error) if error.code() == Some(Code::NoSuchBucket) => return Ok(Looked::AtEnd),
                page => page?,
            };
            let clock = self.clock();
            let keys: BTreeSet<String> = page
                .versions
                .iter()
                .filter(|listed| survey.may_be_due(listed, &clock))
                .map(|listed| listed.key.clone())
                .collect();
            let looks: Vec<_> = keys.iter().map(|key| self.lapse(&bucket, key, goes_on)).collect();
            for done in all(looks, KEYS_AT_ONCE).await {
                match done {
                    Ok((versions, kept)) => {
                        lapsed.versions += versions;
                        lapsed.kept += kept;
                    }
                    Err(error @ Error::Rados(RadosError::Fenced)) => return Err(error),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            match page.next {
                _ if !goes_on() => return Ok(Looked::Stopped),
                Some((key, version)) => (query.after, after) = (key, version),
                None => return outcome.map(|()| Looked::AtEnd),
            }
        }
    }

    fn clock(&self) -> LifecycleClock {
        LifecycleClock {
            now: UnixMillis::from_unsigned(self.rados.now_ms()),
            debug_day_s: self.settings.lifecycle_day_s,
        }
    }

    /// Does what is due of one key. Gives the number of versions that went, and of those that could not.
    async fn lapse(self: &Arc<Self>, seen: &Bucket, key: &str, goes_on: GoesOn<'_>) -> Result<(u64, u64), Error> {
        let (mut gone, mut kept) = (0, BTreeSet::new());
        let mut tags = Arc::new(BTreeMap::new());
        let mut tries = 0;
        while goes_on() {
            // Rules and versioning are those of now: a client that has just changed them need not wait for anything.
            let (bucket, settings) = match self.settings_now(&seen.name).await {
                Ok(found) => found,
                Err(error) if error.code() == Some(Code::NoSuchBucket) => break,
                Err(error) => return Err(error),
            };
            let rules = settings.lifecycle.clone().filter(|_| bucket.id == seen.id);
            let Some(rules) = rules.map(Arc::new) else { break };
            let Some(present) = self.present(&bucket, key).await? else { break };
            if rules.looks_at_tags() {
                self.read_tags(&bucket, &present, Arc::make_mut(&mut tags)).await?;
            }
            let look = |version: String| Lapse {
                rules: rules.clone(),
                day_s: self.settings.lifecycle_day_s,
                versioning: settings.versioning,
                owner: bucket.owner.clone(),
                version,
                tags: tags.clone(),
            };
            let now = self.rados.now_ms();
            let versions = oldest_first(&present).into_iter().filter(|version| !kept.contains(version));
            let due = versions.map(look).find(|lapse| lapse.judge(&present, now).is_some());
            let Some(lapse) = due else { break };
            let version = lapse.version.clone();
            match self.commit(&bucket, key, Change::Lapse(lapse), &Default::default(), None).await {
                Ok(committed) if committed.changed => {
                    gone += 1;
                    tries = 0;
                }
                // The key has changed meanwhile.
                Ok(_) => tries += 1,
                // The bucket is deleted, or is just being so.
                Err(error) if matches!(error.code(), Some(Code::NoSuchBucket | Code::OperationAborted)) => break,
                Err(error) if matches!(error, Error::Rule(_)) || error.code() == Some(Code::InvalidRequest) => {
                    kept.insert(version);
                }
                Err(error) => return Err(error),
            }
            if tries >= TRIES_MAX {
                return Err(too_many_tries());
            }
            if tries > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
        }
        Ok((gone, kept.len() as u64))
    }

    /// Reads the tags of older versions whose places are not known yet.
    async fn read_tags(
        &self,
        bucket: &Bucket,
        present: &Present,
        tags: &mut BTreeMap<String, TagSet>,
    ) -> Result<(), Error> {
        for place in present.older.iter().filter_map(|older| older.place.as_ref()) {
            if !tags.contains_key(place)
                && let Some((head, _)) = self.read_older(bucket, place).await?
            {
                tags.insert(place.clone(), head.tags);
            }
        }
        Ok(())
    }

    /// Aborts the uploads of a bucket that are due. False if the gateway stops.
    async fn give_up_uploads(
        &self,
        seen: &Bucket,
        prefix: &str,
        goes_on: GoesOn<'_>,
        lapsed: &mut Lapsed,
    ) -> Result<bool, Error> {
        let max = usize::try_from(self.settings.page_entries).unwrap_or(1);
        let mut query = Query { prefix: prefix.to_owned(), max, ..Query::default() };
        let mut after = String::new();
        loop {
            let page = match self.list_uploads(seen, &query, &after).await {
                Err(error) if error.code() == Some(Code::NoSuchBucket) => return Ok(true),
                page => page?,
            };
            for listed in &page.uploads {
                if !goes_on() {
                    return Ok(false);
                }
                let (bucket, settings) = match self.settings_now(&seen.name).await {
                    Ok(found) => found,
                    Err(error) if error.code() == Some(Code::NoSuchBucket) => return Ok(true),
                    Err(error) => return Err(error),
                };
                let rules = settings.lifecycle.as_ref().filter(|_| bucket.id == seen.id);
                let Some(rules) = rules else { return Ok(true) };
                // An upload's time never changes.
                if rules.upload_due(&listed.key, UnixMillis::from_unsigned(listed.created_ms), &self.clock()).is_some()
                {
                    match self.abort_upload(&bucket, &listed.key, &listed.upload).await {
                        Ok(()) => lapsed.uploads += 1,
                        // It was completed or aborted, or is just being so.
                        Err(error) if error.is_refusal() => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            match page.next {
                Some((key, upload)) => (query.after, after) = (key, upload),
                None => return Ok(true),
            }
        }
    }
}

/// A walk along a list of versions, which tells those that may be due, whatever their tags are.
struct Survey {
    rules: LifecycleConfiguration,
    key: String,
    /// When the version before was written, and the number of versions with bytes before it that are not current.
    newer: Option<(u64, u32)>,
}

impl Survey {
    fn new(rules: &LifecycleConfiguration) -> Survey {
        Survey { rules: rules.whatever_tags(), key: String::new(), newer: None }
    }

    fn may_be_due(&mut self, listed: &ListedVersion, clock: &LifecycleClock) -> bool {
        if self.key != listed.key {
            (self.key, self.newer) = (listed.key.clone(), None);
        }
        let VersionEntry { is_marker, entry, .. } = &listed.version;
        let (state, counted) = match self.newer {
            // Older versions come behind it in the list: a look at the key tells if there are some.
            None if *is_marker => (VersionState::CurrentMarker { alone: true }, 0),
            None => (VersionState::Current, 0),
            Some((since, newer)) => {
                let state = VersionState::Noncurrent {
                    since: UnixMillis::from_unsigned(since),
                    newer,
                    delete_marker: *is_marker,
                };
                (state, newer + u32::from(!is_marker))
            }
        };
        self.newer = Some((entry.mtime_ms, counted));
        let facts = VersionFacts {
            key: &listed.key,
            size_bytes: entry.size,
            tags: &TagSet::default(),
            storage_class: STORAGE_CLASS,
            modified: UnixMillis::from_unsigned(entry.mtime_ms),
            state,
        };
        self.rules.due(&facts, clock).is_some()
    }
}
