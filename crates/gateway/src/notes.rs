//! Facts about a request that only those learn who answer it, for its line in the access log.
//!
//! The wire layer lies between those who learn them and the one who wants to know, so they go by the task.

use s3::{Bucket, User};
use std::sync::{Arc, OnceLock};

tokio::task_local! {
    /// Notes about the request that the present task answers.
    pub(crate) static NOTES: Arc<Notes>;
}

/// Facts about a request that are known once its signature was checked.
#[derive(Default)]
pub(crate) struct Notes {
    requester: OnceLock<Arc<User>>,
    bucket: OnceLock<Arc<Bucket>>,
}

impl Notes {
    pub fn requester(&self) -> Option<&Arc<User>> {
        self.requester.get()
    }

    pub fn bucket(&self) -> Option<&Arc<Bucket>> {
        self.bucket.get()
    }
}

/// Notes whose request it is. The signature is right.
pub(crate) fn note_requester(user: &Arc<User>) {
    let _ = NOTES.try_with(|notes| notes.requester.set(user.clone()));
}

/// Notes which bucket a request is about. The first one counts: that of a copy's source comes later.
pub(crate) fn note_bucket(bucket: &Arc<Bucket>) {
    let _ = NOTES.try_with(|notes| notes.bucket.set(bucket.clone()));
}
