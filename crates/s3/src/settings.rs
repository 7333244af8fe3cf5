//! Changes of a bucket's settings.
//!
//! A change writes the whole record, guarded by its revision, so that changes of different settings do not undo each
//! other. The gateway that changes a setting acts on it at once; others remember the former one for as long as
//! [`Settings::bucket_ttl_ms`](crate::Settings::bucket_ttl_ms) at most, counted from before they asked for it.

use crate::bucket_settings::BucketSettings;
use crate::error::Error;
use crate::index::no_such_bucket;
use crate::names;
use crate::rados::{Rados, RadosError, Step};
use crate::records::{Bucket, attr, to_bytes};
use crate::store::{PAUSE_MS, Store, TRIES_MAX, too_many_tries};
use bytes::Bytes;
use std::sync::Arc;

impl<R: Rados> Store<R> {
    /// Changes settings of a bucket, and gives them as they are then. `change` is called anew where others change some
    /// meanwhile. Errors: `NoSuchBucket`, also if another bucket of this name was made meanwhile; those of `change`.
    pub async fn change_settings(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut BucketSettings) -> Result<(), Error> + Sync,
    ) -> Result<Arc<BucketSettings>, Error> {
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let (present, old) = self.settings_now(&bucket.name).await?;
            if present.id != bucket.id {
                return Err(no_such_bucket(&bucket.name));
            }
            let mut new = (*old).clone();
            change(&mut new)?;
            new.revision = old.revision + 1;
            new.mark_format();
            let asked_at = self.rados.now_ms();
            let steps = vec![
                Step::AttrIs(attr::TAG, Bytes::from(bucket.id.clone())),
                Step::AttrIs(attr::REVISION, old.revision_bytes()),
                Step::SetAttr(attr::REVISION, new.revision_bytes()),
                Step::WriteFull(to_bytes(&new)),
            ];
            match self.meta(names::bucket_object(&bucket.name), steps).await {
                Ok(_) => {
                    let new = Arc::new(new);
                    self.remember(asked_at, &present, &new);
                    return Ok(new);
                }
                Err(RadosError::Guard) => {}
                Err(RadosError::NotFound) => return Err(no_such_bucket(&bucket.name)),
                Err(error) => return Err(error.into()),
            }
        }
        Err(too_many_tries())
    }
}
