//! `nacre s3 bucket check`: indexes, counts, and bytes that nothing names.

use crate::cli;
use crate::progress::Progress;
use crate::s3_session::with_store_of;
use anyhow::{Result, bail};
use gateway::Link;
use s3::{Bucket, Checked, OrphanFound, PoolChecked, Settings, Store};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Findings about all that was checked.
#[derive(Default)]
struct Findings {
    buckets: Vec<Value>,
    pools: Vec<Value>,
    /// Something that a repair mends was found.
    mendable: bool,
    /// Heads of buckets that are not there.
    stray: u64,
}

/// Fails if something is wrong and not repaired.
pub fn run(options: &cli::S3BucketCheck) -> Result<()> {
    let mut settings = Settings::default();
    if let Some(seconds) = options.orphan_age {
        settings.orphan_age_ms = u64::from(seconds) * 1000;
    }
    with_store_of(&options.target, false, settings, async |store| {
        let mut findings = Findings::default();
        match &options.bucket {
            Some(name) => findings.check_bucket(store, &store.bucket_now(name).await?, options).await?,
            None => findings.check_all(store, options).await?,
        }
        findings.conclude(options)
    })
}

impl Findings {
    async fn check_all(&mut self, store: &Store<Link>, options: &cli::S3BucketCheck) -> Result<()> {
        let mut pools = BTreeSet::from([store.settings().data_pool.clone()]);
        for uid in store.users().await? {
            for bucket in store.buckets(&uid).await? {
                pools.insert(bucket.data_pool.clone());
                match self.check_bucket(store, &bucket, options).await {
                    // It was deleted meanwhile.
                    Err(error) if is_absent(&error) => {}
                    outcome => outcome?,
                }
            }
        }
        for pool in pools {
            self.check_pool(store, &pool, options).await?;
        }
        Ok(())
    }

    async fn check_bucket(
        &mut self,
        store: &Store<Link>,
        bucket: &Arc<Bucket>,
        options: &cli::S3BucketCheck,
    ) -> Result<()> {
        let mut progress = Progress::counting("compared", "keys");
        let found = store.check_bucket(bucket, options.repair, |keys| progress.at(keys)).await?;
        drop(progress);
        let Checked { objects, bytes, ranges, wrong, miscounted } = found;
        self.mendable |= !wrong.is_empty() || miscounted > 0;
        if options.json {
            self.buckets.push(json!({
                "bucket": bucket.name, "objects": objects, "bytes": bytes, "ranges": ranges, "wrong": wrong,
                "miscounted": miscounted,
            }));
            return Ok(());
        }
        if options.bucket.is_none() {
            println!("bucket {}:", bucket.name);
        }
        for key in &wrong {
            println!("{}: {key}", if options.repair { "mended" } else { "wrong" });
        }
        println!("{objects} objects, {bytes} bytes, {} entries were wrong", wrong.len());
        println!("{miscounted} of {ranges} ranges counted wrong");
        Ok(())
    }

    async fn check_pool(&mut self, store: &Store<Link>, pool: &str, options: &cli::S3BucketCheck) -> Result<()> {
        let mut progress = Progress::counting("looked at", "objects");
        let (mut orphans, mut unlisted, mut strays) = (Vec::new(), Vec::new(), Vec::new());
        let (as_json, repair) = (options.json, options.repair);
        if !as_json {
            println!("pool {pool}:");
        }
        let found = store.check_pool(pool, repair, |finding| match finding {
            OrphanFound::LookedAt(objects) => progress.at(objects),
            OrphanFound::Orphan { object, .. } if as_json => orphans.push(object),
            OrphanFound::Orphan { object, bytes } => {
                println!("{}: {object} ({bytes} bytes)", if repair { "removed" } else { "orphan" });
            }
            OrphanFound::Unlisted { bucket, key } if as_json => unlisted.push(json!({"bucket": bucket, "key": key})),
            OrphanFound::Unlisted { bucket, key } => {
                println!("{}: {bucket}/{key}", if repair { "listed again" } else { "not listed" });
            }
            OrphanFound::Stray { object } if as_json => strays.push(object),
            OrphanFound::Stray { object } => println!("of no bucket: {object}"),
        });
        let found = found.await?;
        let PoolChecked { objects, orphans: count, orphan_bytes, stray, young, under_way, foreign, .. } = found;
        self.mendable |= count > 0 || found.unlisted > 0;
        self.stray += stray;
        if as_json {
            self.pools.push(json!({
                "pool": pool, "objects": objects, "orphans": orphans, "orphan_bytes": orphan_bytes,
                "unlisted": unlisted, "stray": strays, "young": young, "under_way": under_way, "foreign": foreign,
            }));
            return Ok(());
        }
        println!("{objects} objects, of which {count} ({orphan_bytes} bytes) were orphans");
        println!("{} keys were not listed", found.unlisted);
        for (count, what) in [
            (under_way, "belong to requests, removals or dead gateways that are being dealt with"),
            (young, "are named by nothing, but too young to be orphans"),
            (stray, "are heads of buckets that are not there"),
            (foreign, "are not the gateway's"),
        ] {
            if count > 0 {
                println!("{count} objects {what}");
            }
        }
        Ok(())
    }

    fn conclude(self, options: &cli::S3BucketCheck) -> Result<()> {
        if options.json {
            let Findings { buckets, pools, .. } = &self;
            println!("{}", json!({"repaired": options.repair, "buckets": buckets, "pools": pools}));
        }
        if self.mendable && !options.repair {
            match &options.bucket {
                Some(name) => bail!("the index of '{name}' is not right; add --repair to mend it"),
                None => bail!("something is not right; add --repair to mend it"),
            }
        }
        if self.stray > 0 {
            let stray = self.stray;
            bail!("{stray} objects are of buckets that are not there: only you can tell if they may go ('rados rm')");
        }
        Ok(())
    }
}

fn is_absent(error: &anyhow::Error) -> bool {
    error.downcast_ref::<s3::Error>().is_some_and(|error| error.code() == Some(s3::Code::NoSuchBucket))
}
