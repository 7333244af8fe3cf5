//! Facts about a request that only those learn who answer it, for its line in the access log.
//!
//! The wire layer lies between those who learn them and the one who wants to know, so they go by the task.

use std::sync::{Arc, OnceLock};

tokio::task_local! {
    /// Notes about the request that the present task answers.
    pub(crate) static NOTES: Arc<Notes>;
}

/// Facts about a request that are known once its signature was checked.
#[derive(Default)]
pub(crate) struct Notes {
    requester: OnceLock<String>,
    bucket: OnceLock<NotedBucket>,
}

/// The bucket that a request is about.
pub(crate) struct NotedBucket {
    pub name: String,
    pub owner: String,
}

impl Notes {
    pub fn requester(&self) -> Option<&String> {
        self.requester.get()
    }

    pub fn bucket(&self) -> Option<&NotedBucket> {
        self.bucket.get()
    }
}

/// Notes whose request it is. The signature is right.
pub(crate) fn note_requester(uid: &str) {
    let _ = NOTES.try_with(|notes| notes.requester.set(uid.to_owned()));
}

/// Notes which bucket a request is about. The first one counts: that of a copy's source comes later.
pub(crate) fn note_bucket(bucket: &s3::Bucket) {
    let _ = NOTES
        .try_with(|notes| notes.bucket.set(NotedBucket { name: bucket.name.clone(), owner: bucket.owner.clone() }));
}
