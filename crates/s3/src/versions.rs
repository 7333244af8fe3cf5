//! Versions of a key, and what a change makes of them.
//!
//! The head's object has the newest version. An attribute of it lists the older ones, newest first, each with the
//! object, its place, that has the version's record and bytes. So every change of a key replaces one object, guarded by
//! its tag, whichever version is meant. Objects of older versions never change: a version whose tags change gets
//! another place.

use crate::conditions::Conditions;
use crate::error::{Code, Error};
use crate::lapse::{Lapse, Lapsing};
use crate::names::{self, ENTRIES, VERSIONS};
use crate::present::{FoundVersion, Present};
use crate::rados::Step;
use crate::records::{Entry, Head, Layout, Older, StoredChecksum, Tail, VersionEntry, Versioning, to_bytes};
use crate::usage::size_of;
use bytes::Bytes;
use s3rules::UnixMillis;
use s3rules::acl::Acl;
use s3rules::object_lock::ObjectLock;
use s3rules::quota::Usage;
use s3rules::tagging::TagSet;
use std::collections::BTreeMap;

/// Versions of a key beside the newest. Their list is written with every change of the key.
pub const OLDER_MAX: usize = 1000;

/// A new head, and where its bytes are.
#[derive(Clone)]
pub(crate) struct NewHead {
    pub size: u64,
    pub etag: String,
    pub owner: String,
    pub headers: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub checksum: Option<StoredChecksum>,
    pub acl: Option<Acl>,
    pub tags: TagSet,
    pub lock: ObjectLock,
    pub layout: Layout,
    /// The head's own bytes.
    pub bytes: Bytes,
    /// Tails that the head names.
    pub tails: Vec<Tail>,
}

impl NewHead {
    /// Makes a head tell this.
    pub(crate) fn fill(&self, head: &mut Head) {
        head.size = self.size;
        head.etag.clone_from(&self.etag);
        head.owner.clone_from(&self.owner);
        head.headers.clone_from(&self.headers);
        head.metadata.clone_from(&self.metadata);
        head.checksum.clone_from(&self.checksum);
        head.acl.clone_from(&self.acl);
        head.tags.clone_from(&self.tags);
        head.lock = self.lock;
        head.layout.clone_from(&self.layout);
    }
}

/// The entries of a key in its range: that of lists of objects, and those of its versions by their names.
fn entries_of(key: &str, present: Option<&Present>) -> (Option<Entry>, BTreeMap<Bytes, Bytes>) {
    let Some(present) = present else { return (None, BTreeMap::new()) };
    let shown = Some(present.head.entry()).filter(|_| !present.head.is_marker);
    if present.is_plain() {
        return (shown, BTreeMap::new());
    }
    let named = |(order, version): (u64, VersionEntry)| (names::version_entry(key, order), to_bytes(&version));
    (shown, present.versions().into_iter().map(named).collect())
}

/// Steps that bring the entries of a key from one state to another.
pub(crate) fn index_steps(key: &str, before: Option<&Present>, after: Option<&Present>) -> Vec<Step> {
    let ((_, old), (shown, new)) = (entries_of(key, before), entries_of(key, after));
    let gone: Vec<Bytes> = old.keys().filter(|name| !new.contains_key(*name)).cloned().collect();
    let added: Vec<_> = new.into_iter().filter(|(name, value)| old.get(name) != Some(value)).collect();
    let mut steps = vec![shown_step(key, shown)];
    if !gone.is_empty() {
        steps.push(Step::Drop(gone));
    }
    if !added.is_empty() {
        steps.push(Step::Set(added));
    }
    steps
}

/// Steps that make the entries of a key those of a state, whatever they were.
pub(crate) fn index_anew(key: &str, present: Option<&Present>) -> Vec<Step> {
    let (shown, versions) = entries_of(key, present);
    let (from, end) = (names::entry(VERSIONS, key), names::behind(VERSIONS, key));
    let mut steps = vec![shown_step(key, shown), Step::DropRange(from, end)];
    if !versions.is_empty() {
        steps.push(Step::Set(versions.into_iter().collect()));
    }
    steps
}

fn shown_step(key: &str, shown: Option<Entry>) -> Step {
    let name = names::entry(ENTRIES, key);
    match shown {
        Some(entry) => Step::Set(vec![(name, to_bytes(&entry))]),
        None => Step::Drop(vec![name]),
    }
}

/// A change of a key.
#[derive(Clone)]
pub(crate) enum Change {
    Put {
        new: Box<NewHead>,
        versioning: Versioning,
    },
    /// A deletion that names no version. `owner`: of the delete marker.
    Delete {
        owner: String,
        versioning: Versioning,
    },
    Remove {
        version: String,
        /// Governance is bypassed.
        bypass: bool,
    },
    /// An act of lifecycle rules, if they ask for one by then.
    Lapse(Lapse),
}

/// The version that a change makes the newest.
#[derive(PartialEq, Debug)]
pub(crate) enum Newest {
    /// A new one.
    New(Box<Head>),
    /// The one that is.
    Kept,
    /// The newest of the older ones, which are without it then.
    Promoted(Older),
    /// None: nothing of the key is left.
    Gone,
}

/// A version that a change removes.
#[derive(PartialEq, Debug)]
pub(crate) enum Dropped {
    Newest,
    Older(Older),
}

/// A change of a key, worked out for a state of it.
pub(crate) struct Plan {
    pub newest: Newest,
    /// The present newest version becomes an older one, before `older`.
    pub sets_aside: bool,
    pub older: Vec<Older>,
    pub dropped: Option<Dropped>,
    /// The version that was made or removed, and if it is a delete marker. `None` for a deletion without versions.
    pub outcome: Option<(Option<String>, bool)>,
}

impl Plan {
    /// Bytes and objects of the key behind the change. `present`: the state before it.
    pub fn usage(&self, present: Option<&Present>) -> Usage {
        let aside = present.filter(|_| self.sets_aside).map(|present| &present.head);
        let kept = present.filter(|_| self.newest == Newest::Kept).map(|present| &present.head);
        let mut heads: Vec<&Head> = aside.into_iter().chain(kept).collect();
        let mut older: Vec<&Older> = self.older.iter().collect();
        match &self.newest {
            Newest::New(head) => heads.push(head),
            Newest::Promoted(promoted) => older.push(promoted),
            Newest::Kept | Newest::Gone => {}
        }
        let of_heads = heads.iter().filter(|head| !head.is_marker).map(|head| head.size);
        let of_older = older.iter().filter(|older| older.place.is_some()).map(|older| older.entry.size);
        size_of(of_heads.chain(of_older))
    }
}

/// Facts that a plan needs beside the state of the key.
pub(crate) struct Facts<'a> {
    pub bucket: &'a str,
    pub key: &'a str,
    /// The stamp of the change, never used before.
    pub tag: &'a str,
    pub now_ms: u64,
}

impl Change {
    /// Works a change out. `None` where nothing is to be done. Errors: those of the conditions, `AccessDenied` for a
    /// version that is locked.
    pub fn plan(
        &self,
        present: Option<&Present>,
        conditions: &Conditions,
        facts: &Facts<'_>,
    ) -> Result<Option<Plan>, Error> {
        let plan = match self {
            Change::Put { new, versioning } => {
                conditions.check(seen(present).as_ref())?;
                put(present, *versioning, facts, |head| new.fill(head))?
            }
            Change::Delete { owner, versioning } => {
                match present {
                    // A marker has an empty ETag, and is there for conditions.
                    Some(present) => conditions.check(Some(&present.head.entry()))?,
                    None if conditions.are_set() => return Ok(None),
                    None => {}
                }
                match deletion(present, (owner, *versioning), facts)? {
                    Some(plan) => plan,
                    None => return Ok(None),
                }
            }
            Change::Remove { version, bypass } => {
                let found = present.and_then(|present| Some((present, present.find(version)?)));
                let Some((present, found)) = found else { return Ok(None) };
                removal(present, found, (conditions, *bypass), facts)?
            }
            Change::Lapse(lapse) => {
                let judged = present.and_then(|present| Some((present, lapse.judge(present, facts.now_ms)?)));
                let plan = match judged {
                    None => None,
                    Some((present, Lapsing::Expires)) => {
                        deletion(Some(present), (&lapse.owner, lapse.versioning), facts)?
                    }
                    Some((present, Lapsing::Goes(found))) => Some(removal(present, found, (conditions, false), facts)?),
                };
                let Some(plan) = plan else { return Ok(None) };
                plan
            }
        };
        if plan.sets_aside && plan.older.len() >= OLDER_MAX {
            let message = format!("a key has at most {OLDER_MAX} versions beside the newest; remove some");
            return Err(Code::InvalidRequest.because(message));
        }
        Ok(Some(plan))
    }
}

/// The entry that conditions of a put look at: a delete marker is nothing.
fn seen(present: Option<&Present>) -> Option<Entry> {
    present.filter(|present| !present.head.is_marker).map(|present| present.head.entry())
}

fn check_lock(lock: &ObjectLock, bypass: bool, facts: &Facts<'_>) -> Result<(), Error> {
    Ok(lock.check_removal(UnixMillis::from_unsigned(facts.now_ms), bypass)?)
}

/// A new newest version. Without versioning it takes the place of the null version.
fn put(
    present: Option<&Present>,
    versioning: Versioning,
    facts: &Facts<'_>,
    fill: impl FnOnce(&mut Head),
) -> Result<Plan, Error> {
    let keeps = versioning == Versioning::Enabled;
    let order = present.map_or(0, |present| present.head.order) + 1;
    let unique = facts.tag.replace('.', "-");
    let version = keeps.then(|| format!("{}{unique}", names::order_digits(order)));
    let mut head = empty_head(facts, version, order);
    fill(&mut head);
    let outcome = Some((head.version.clone(), head.is_marker));
    let mut older: Vec<Older> = present.map(|present| present.older.clone()).unwrap_or_default();
    let mut dropped = None;
    if let Some(present) = present
        && !keeps
    {
        if present.head.version.is_none() {
            check_lock(&present.head.lock, false, facts)?;
            dropped = Some(Dropped::Newest);
        } else if let Some(at) = older.iter().position(|older| older.version.is_none()) {
            check_lock(&older[at].lock, false, facts)?;
            dropped = Some(Dropped::Older(older.remove(at)));
        }
    }
    let sets_aside = present.is_some() && dropped != Some(Dropped::Newest);
    Ok(Plan { newest: Newest::New(Box::new(head)), sets_aside, older, dropped, outcome })
}

/// A deletion that names no version; `None` where there is nothing. `owner`: of the delete marker.
fn deletion(
    present: Option<&Present>,
    (owner, versioning): (&str, Versioning),
    facts: &Facts<'_>,
) -> Result<Option<Plan>, Error> {
    let is_plain = present.is_none_or(Present::is_plain);
    if versioning == Versioning::Off && is_plain {
        let Some(present) = present else { return Ok(None) };
        check_lock(&present.head.lock, false, facts)?;
        Ok(Some(removal_of_newest(present, None)))
    } else {
        put(present, versioning, facts, |head| mark(head, owner)).map(Some)
    }
}

/// A removal of a version. `bypass`: governance is bypassed.
fn removal(
    present: &Present,
    found: FoundVersion<'_>,
    (conditions, bypass): (&Conditions, bool),
    facts: &Facts<'_>,
) -> Result<Plan, Error> {
    match found {
        FoundVersion::Newest(head) => {
            conditions.check(Some(&head.entry()))?;
            check_lock(&head.lock, bypass, facts)?;
            Ok(removal_of_newest(present, Some((head.version.clone(), head.is_marker))))
        }
        FoundVersion::Older(older) => {
            conditions.check(Some(&older.entry))?;
            check_lock(&older.lock, bypass, facts)?;
            let rest = present.older.iter().filter(|other| *other != older).cloned().collect();
            Ok(Plan {
                newest: Newest::Kept,
                sets_aside: false,
                older: rest,
                dropped: Some(Dropped::Older(older.clone())),
                outcome: Some((older.version.clone(), older.place.is_none())),
            })
        }
    }
}

fn mark(head: &mut Head, owner: &str) {
    head.is_marker = true;
    owner.clone_into(&mut head.owner);
}

fn removal_of_newest(present: &Present, outcome: Option<(Option<String>, bool)>) -> Plan {
    let mut older = present.older.clone();
    let newest = if older.is_empty() { Newest::Gone } else { Newest::Promoted(older.remove(0)) };
    Plan { newest, sets_aside: false, older, dropped: Some(Dropped::Newest), outcome }
}

/// The newest version as an older one at a place.
pub(crate) fn set_aside(head: &Head, place: Option<String>) -> Older {
    let (version, order, entry) = (head.version.clone(), head.order, head.entry());
    Older { version, order, entry, place, layout: head.layout.bare().clone(), lock: head.lock }
}

/// A delete marker as the newest version.
pub(crate) fn marker_head(older: &Older, facts: &Facts<'_>) -> Head {
    let mut head = empty_head(facts, older.version.clone(), older.order);
    mark(&mut head, &older.entry.owner);
    head.mtime_ms = older.entry.mtime_ms;
    head
}

fn empty_head(facts: &Facts<'_>, version: Option<String>, order: u64) -> Head {
    Head {
        bucket: facts.bucket.to_owned(),
        key: facts.key.to_owned(),
        tag: facts.tag.to_owned(),
        size: 0,
        etag: String::new(),
        mtime_ms: facts.now_ms,
        owner: String::new(),
        headers: BTreeMap::new(),
        metadata: BTreeMap::new(),
        checksum: None,
        acl: None,
        tags: TagSet::default(),
        layout: Layout::Whole,
        version,
        order,
        is_marker: false,
        lock: ObjectLock::default(),
    }
}
