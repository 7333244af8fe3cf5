//! Looks through a cluster in memory for what nothing refers to.

use crate::memory::{Memory, Stored};
use crate::names;
use crate::present::Present;
use crate::records::{Head, Intent, Layout, Part, Range, RangeState, attr, from_bytes};
use crate::{Bucket, Query, Store, VersionEntry};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn record<T: serde::de::DeserializeOwned>(stored: &crate::memory::Stored) -> T {
    from_bytes("an object", &stored.attrs[attr::RECORD]).expect("a record")
}

/// Objects that a key's versions have beside its head.
fn objects_of(
    objects: &BTreeMap<(String, String), Stored>,
    (bucket, data): (&str, &str),
    present: Present,
) -> Vec<String> {
    let mut found = Vec::new();
    let at = |name: &str| objects.get(&(data.to_owned(), name.to_owned()));
    let key = present.head.key.clone();
    let stored = at(&names::head_object(bucket, &key)).expect("a head");
    assert_eq!(present.head.tag, stored.attrs[attr::TAG]);
    let mut bodies = vec![(present.head.layout, stored.bytes.clone())];
    for older in present.older {
        assert!(older.order < present.head.order);
        let Some(place) = older.place else { continue };
        let stored = at(&names::older_object(&place)).expect("an older version");
        let head: Head = record(stored);
        assert_eq!((&head.version, head.entry()), (&older.version, older.entry), "{key:?}");
        found.push(names::older_object(&place));
        bodies.push((older.layout, stored.bytes.clone()));
    }
    for (layout, bytes) in bodies {
        let tails = match layout.bare() {
            Layout::Whole | Layout::Sealed { .. } => Vec::new(),
            Layout::Striped(tail) => vec![tail.clone()],
            Layout::Parts { .. } => {
                let parts: Vec<Part> = from_bytes("parts", &bytes).expect("parts");
                parts.into_iter().map(|part| part.tail).collect()
            }
        };
        found.extend(tails.iter().flat_map(|tail| (0..tail.stripes()).map(|n| names::stripe_object(&tail.id, n))));
    }
    found
}

/// Bytes and objects that a range counts: its sum, and the changes that are not in it.
fn counts_of(omap: &BTreeMap<Bytes, Bytes>) -> (i64, i64) {
    let mut counts = (0, 0);
    for (_, value) in omap.iter().filter(|(name, _)| name[0] == b'c') {
        let value: serde_json::Value = from_bytes("counts", value).expect("JSON");
        let of = |name: &str, at: usize| value.get(name).or(value.get(at)).and_then(|n| n.as_i64()).expect("a number");
        counts = (counts.0 + of("bytes", 0), counts.1 + of("objects", 1));
    }
    assert!(omap.contains_key(&b"c"[..]), "a range without a sum");
    counts
}

/// Keys of a bucket that have a head.
fn keys_with_heads(objects: &BTreeMap<(String, String), Stored>, (bucket, data): (&str, &str)) -> Vec<String> {
    let prefix = names::head_object(bucket, "");
    let names = objects.keys().filter(|(pool, _)| pool == data);
    names.filter_map(|(_, name)| name.strip_prefix(&prefix)).map(str::to_owned).collect()
}

/// Checks that a bucket counts the versions with bytes of its keys.
async fn check_counts(gateway: &Arc<Store<Memory>>, bucket: &Bucket, counts: (i64, i64), presents: &[Present]) {
    let versions = presents.iter().flat_map(Present::versions).filter(|(_, version)| !version.is_marker);
    let add = |(bytes, objects): (i64, i64), (_, version): (u64, VersionEntry)| {
        (bytes + version.entry.size as i64, objects + 1)
    };
    let stored = versions.fold((0, 0), add);
    assert_eq!(counts, stored, "bytes and objects that bucket {} counts", bucket.name);
    let usage = gateway.usage(&bucket.id, true).await.expect("counts").stored;
    assert_eq!((usage.bytes as i64, usage.objects as i64), stored);
}

/// Checks that every object of the cluster belongs to something, that ranges follow one another without gaps, and that
/// entries, counts and heads agree. No request and no task may be under way, and every dead gateway has to be swept.
pub(super) async fn check(client: &Memory, gateway: &Arc<Store<Memory>>) {
    let (meta, data) = (gateway.settings().meta_pool.clone(), gateway.settings().data_pool.clone());
    let objects = client.lock().objects.clone();
    let in_meta = |name: String| objects.get(&(meta.clone(), name));
    let mut known: BTreeSet<(String, String)> = BTreeSet::new();
    let mut know = |pool: &str, name: String| known.insert((pool.to_owned(), name));
    know(&meta, names::SESSIONS.into());
    know(&meta, names::USERS.into());
    know(&meta, names::session_object(gateway.session()));
    if in_meta(names::LIFECYCLE.into()).is_some() {
        know(&meta, names::LIFECYCLE.into());
    }
    let session = in_meta(names::session_object(gateway.session())).expect("this gateway lives");
    let intents: Vec<(&Bytes, Intent)> =
        session.omap.iter().map(|(k, v)| (k, from_bytes("an intent", v).expect("an intent"))).collect();
    assert!(intents.is_empty(), "{intents:?}");
    let sessions = &in_meta(names::SESSIONS.into()).expect("sessions").omap;
    let other = sessions.keys().find(|session| *session != gateway.session().as_bytes());
    let left = other.map(|other| in_meta(names::session_object(&String::from_utf8_lossy(other))));
    assert!(other.is_none(), "a dead session was not swept: {other:?}, {left:?}");
    for uid in gateway.users().await.expect("users") {
        know(&meta, names::user_object(&uid));
        for key in gateway.user(&uid).await.expect("a user").access_keys {
            know(&meta, names::key_object(&key));
        }
        let buckets = gateway.buckets(&uid).await.expect("buckets");
        let listed = &in_meta(names::user_object(&uid)).expect("a user").omap;
        assert_eq!(listed.len(), buckets.len(), "{uid} has {listed:?}");
        for bucket in buckets {
            know(&meta, names::bucket_object(&bucket.name));
            know(&meta, names::root_object(&bucket.id));
            let root = in_meta(names::root_object(&bucket.id)).expect("a root");
            assert_eq!(root.attrs[attr::STATE], "live");
            let mut start = Some(String::new());
            let mut counts = (0, 0);
            for (end, id) in &root.omap {
                assert!(end[0] != b'x', "a change of ranges was left: {end:?}");
                let id = String::from_utf8_lossy(id).into_owned();
                know(&meta, names::range_object(&bucket.id, &id));
                let stored = in_meta(names::range_object(&bucket.id, &id)).expect("a range");
                let range: Range = record(stored);
                assert_eq!(range.state, RangeState::Live);
                assert_eq!((Some(&range.start), end), (start.as_ref(), &names::range_end(range.end.as_deref())));
                let of_range = counts_of(&stored.omap);
                counts = (counts.0 + of_range.0, counts.1 + of_range.1);
                for name in stored.omap.keys().filter(|name| name[0] != b'c') {
                    let (key, upload) = names::parse(name).expect("a key");
                    let is_inside = key >= range.start && range.end.as_ref().is_none_or(|end| key < *end);
                    assert!(is_inside, "{key:?} is in the range {range:?}");
                    assert_ne!(name[0], names::SLOTS, "{key:?} has a slot");
                    if name[0] == names::UPLOADS {
                        know(&meta, names::upload_object(&bucket.id, &upload));
                        let upload = in_meta(names::upload_object(&bucket.id, &upload)).expect("an upload");
                        assert_eq!(upload.attrs[attr::STATE], "open");
                        for part in upload.omap.values() {
                            let part: Part = from_bytes("a part", part).expect("a part");
                            for number in 0..part.tail.stripes() {
                                know(&data, names::stripe_object(&part.tail.id, number));
                            }
                        }
                    }
                }
                start = range.end;
            }
            assert_eq!(start, None, "the last range has no end");
            let heads = keys_with_heads(&objects, (&bucket.id, &data));
            let query = Query { max: 100_000, ..Query::default() };
            let mut listed: BTreeMap<String, _> =
                gateway.list(&bucket, &query).await.expect("a list").entries.into_iter().collect();
            let mut versions: BTreeMap<String, Vec<VersionEntry>> = BTreeMap::new();
            for found in gateway.list_versions(&bucket, &query, None).await.expect("a list").versions {
                let of_key = versions.entry(found.key).or_default();
                assert_eq!(found.is_latest, of_key.is_empty());
                of_key.push(found.version);
            }
            let mut presents = Vec::new();
            for key in heads {
                let present = gateway.present(&bucket, &key).await.expect("a head").expect("it is there");
                let shown = Some(present.head.entry()).filter(|_| !present.head.is_marker);
                assert_eq!(listed.remove(&key), shown, "{key:?}");
                let expected: Vec<VersionEntry> = present.versions().into_iter().map(|(_, version)| version).collect();
                assert_eq!(versions.remove(&key), Some(expected), "{key:?}");
                know(&data, names::head_object(&bucket.id, &key));
                for name in objects_of(&objects, (&bucket.id, &data), present.clone()) {
                    know(&data, name);
                }
                presents.push(present);
            }
            assert!(listed.is_empty() && versions.is_empty(), "nothing is there of {listed:?}, {versions:?}");
            check_counts(gateway, &bucket, counts, &presents).await;
        }
    }
    let present: BTreeSet<(String, String)> = objects.keys().cloned().collect();
    let orphans: Vec<_> = present.difference(&known).collect();
    assert!(orphans.is_empty(), "nothing refers to {orphans:?}");
    let lost: Vec<_> = known.difference(&present).filter(|(_, name)| *name != names::USERS).collect();
    assert!(lost.is_empty(), "these are gone: {lost:?}");
}
