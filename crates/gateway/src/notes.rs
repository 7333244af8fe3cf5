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
    bucket_owner: OnceLock<String>,
}

impl Notes {
    pub fn requester(&self) -> Option<&String> {
        self.requester.get()
    }

    pub fn bucket_owner(&self) -> Option<&String> {
        self.bucket_owner.get()
    }
}

/// Notes whose request it is. The signature is right.
pub(crate) fn note_requester(uid: &str) {
    let _ = NOTES.try_with(|notes| notes.requester.set(uid.to_owned()));
}

/// Notes whose bucket a request is about. The first one counts: that of a copy's source comes later.
pub(crate) fn note_bucket_owner(uid: &str) {
    let _ = NOTES.try_with(|notes| notes.bucket_owner.set(uid.to_owned()));
}
