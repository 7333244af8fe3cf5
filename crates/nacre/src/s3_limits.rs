//! `nacre s3 user|bucket stats|quota|rate`: what is stored, and how much there may be.

use crate::byte_size::ByteSize;
use crate::cli::{self, Bound};
use crate::s3_session::with_store;
use anyhow::Result;
use gateway::Link;
use s3::{BucketUsage, Store};
use s3rules::quota::Quota;
use s3rules::rate::RateLimit;
use serde_json::{Value, json};

/// Usage, as programs read it.
fn usage_json(usage: &BucketUsage) -> Value {
    json!({
        "objects": usage.stored.objects, "bytes": usage.stored.bytes, "ranges": usage.ranges,
        "uploads": usage.uploads, "upload_bytes": usage.upload_bytes,
    })
}

fn quota_json(quota: &Quota) -> Value {
    json!({"enabled": quota.enabled, "max_size": quota.bytes_max, "max_objects": quota.objects_max})
}

fn rate_json(limit: &RateLimit) -> Value {
    json!({
        "reads": limit.read_ops, "writes": limit.write_ops, "read_bytes": limit.read_bytes,
        "write_bytes": limit.write_bytes,
    })
}

fn usage_text(usage: &BucketUsage) -> String {
    let size = ByteSize(usage.stored.bytes);
    let mut text = format!("{} objects, {} bytes ({size})", usage.stored.objects, usage.stored.bytes);
    if usage.uploads > 0 {
        let size = ByteSize(usage.upload_bytes);
        text.push_str(&format!("; {} uploads under way, {} bytes ({size})", usage.uploads, usage.upload_bytes));
    }
    text
}

fn bound(bound: Option<u64>, shown: impl Fn(u64) -> String) -> String {
    bound.map_or_else(|| "any number".to_owned(), shown)
}

fn quota_text(quota: &Quota) -> String {
    if *quota == Quota::default() {
        return "none".to_owned();
    }
    let bytes = bound(quota.bytes_max, |bytes| format!("{bytes} ({})", ByteSize(bytes)));
    let objects = bound(quota.objects_max, |objects| objects.to_string());
    format!("{bytes} bytes, {objects} objects{}", if quota.enabled { "" } else { " (off)" })
}

fn rate_text(limit: &RateLimit) -> String {
    let number = |n: u64| n.to_string();
    let [reads, writes] = [limit.read_ops, limit.write_ops].map(|ops| bound(ops, number));
    let [read, written] = [limit.read_bytes, limit.write_bytes].map(|bytes| bound(bytes, number));
    format!("a minute and gateway: {reads} reads of {read} bytes, {writes} writes of {written} bytes")
}

pub fn bucket_stats(options: &cli::S3BucketStats) -> Result<()> {
    with_store(&options.target, false, async |store| {
        let (bucket, settings) = store.settings_now(&options.bucket).await?;
        let usage = store.usage(&bucket.id, true).await?;
        if options.json {
            let mut shown = usage_json(&usage);
            for (name, value) in [
                ("bucket", json!(bucket.name)),
                ("id", json!(bucket.id)),
                ("owner", json!(bucket.owner)),
                ("data_pool", json!(bucket.data_pool)),
                ("quota", quota_json(&settings.quota)),
            ] {
                shown[name] = value;
            }
            println!("{shown}");
            return Ok(());
        }
        println!("bucket {} of {}: {}", bucket.name, bucket.owner, usage_text(&usage));
        println!("quota: {}", quota_text(&settings.quota));
        println!("data in pool '{}', index in {} ranges", bucket.data_pool, usage.ranges);
        Ok(())
    })
}

pub fn user_stats(options: &cli::S3UserStats) -> Result<()> {
    with_store(&options.target, false, async |store| {
        let user = store.user(&options.uid).await?;
        let mut sum = BucketUsage::default();
        let mut buckets = Vec::new();
        for bucket in store.buckets(&user.uid).await? {
            let usage = store.usage(&bucket.id, true).await?;
            sum.stored.bytes += usage.stored.bytes;
            sum.stored.objects += usage.stored.objects;
            sum.ranges += usage.ranges;
            sum.uploads += usage.uploads;
            sum.upload_bytes += usage.upload_bytes;
            buckets.push((bucket.name.clone(), usage));
        }
        if options.json {
            let mut shown = usage_json(&sum);
            shown["user"] = json!(user.uid);
            shown["quota"] = quota_json(&user.quota);
            shown["buckets"] = buckets.iter().map(|(name, usage)| (name.clone(), usage_json(usage))).collect();
            println!("{shown}");
            return Ok(());
        }
        println!("user {}: {} in {} buckets", user.uid, usage_text(&sum), buckets.len());
        println!("quota: {}", quota_text(&user.quota));
        for (name, usage) in &buckets {
            println!("  {name}: {}", usage_text(usage));
        }
        Ok(())
    })
}

/// The quota that flags make of one. `None` if they change nothing.
fn changed_quota(old: Quota, flags: &cli::S3Quota) -> Option<Quota> {
    if flags.off {
        return Some(Quota { enabled: false, ..old });
    }
    if flags.max_size.is_none() && flags.max_objects.is_none() {
        return None;
    }
    let bytes_max = flags.max_size.map_or(old.bytes_max, |Bound(max)| max);
    let objects_max = flags.max_objects.map_or(old.objects_max, |Bound(max)| max);
    Some(Quota { enabled: true, bytes_max, objects_max })
}

fn changed_rate(old: RateLimit, flags: &cli::S3Rate) -> Option<RateLimit> {
    let set = |flag: Option<Bound>, old: Option<u64>| flag.map_or(old, |Bound(max)| max);
    let flagged = [flags.reads, flags.writes, flags.read_bytes, flags.write_bytes];
    flagged.iter().any(Option::is_some).then(|| RateLimit {
        read_ops: set(flags.reads, old.read_ops),
        write_ops: set(flags.writes, old.write_ops),
        read_bytes: set(flags.read_bytes, old.read_bytes),
        write_bytes: set(flags.write_bytes, old.write_bytes),
    })
}

fn show_quota(quota: &Quota, json: bool) {
    if json {
        println!("{}", quota_json(quota));
    } else {
        println!("quota: {}", quota_text(quota));
    }
}

fn show_rate(limit: &RateLimit, json: bool) {
    if json {
        println!("{}", rate_json(limit));
    } else {
        println!("{}", rate_text(limit));
    }
}

/// Changes settings of a bucket, and gives them as they are then.
async fn change_bucket(
    store: &Store<Link>,
    name: &str,
    change: impl Fn(&mut s3::BucketSettings) + Sync,
) -> Result<std::sync::Arc<s3::BucketSettings>> {
    let bucket = store.bucket_now(name).await?;
    let changed = store.change_settings(&bucket, |settings| {
        change(settings);
        Ok(())
    });
    Ok(changed.await?)
}

pub fn bucket_quota(options: &cli::S3BucketQuota) -> Result<()> {
    with_store(&options.target, false, async |store| {
        let (_, mut settings) = store.settings_now(&options.bucket).await?;
        if changed_quota(settings.quota, &options.quota).is_some() {
            let change = |settings: &mut s3::BucketSettings| {
                settings.quota = changed_quota(settings.quota, &options.quota).unwrap_or(settings.quota);
            };
            settings = change_bucket(store, &options.bucket, change).await?;
        }
        show_quota(&settings.quota, options.quota.json);
        Ok(())
    })
}

pub fn bucket_rate(options: &cli::S3BucketRate) -> Result<()> {
    with_store(&options.target, false, async |store| {
        let (_, mut settings) = store.settings_now(&options.bucket).await?;
        if changed_rate(settings.rate_limit, &options.rate).is_some() {
            let change = |settings: &mut s3::BucketSettings| {
                settings.rate_limit = changed_rate(settings.rate_limit, &options.rate).unwrap_or(settings.rate_limit);
            };
            settings = change_bucket(store, &options.bucket, change).await?;
        }
        show_rate(&settings.rate_limit, options.rate.json);
        Ok(())
    })
}

pub fn user_quota(options: &cli::S3UserQuota) -> Result<()> {
    with_store(&options.target, false, async |store| {
        let mut user = store.user(&options.uid).await?;
        if changed_quota(user.quota, &options.quota).is_some() {
            let change = |user: &mut s3::User| {
                user.quota = changed_quota(user.quota, &options.quota).unwrap_or(user.quota);
            };
            user = store.change_user(&options.uid, change).await?;
        }
        show_quota(&user.quota, options.quota.json);
        Ok(())
    })
}

pub fn user_rate(options: &cli::S3UserRate) -> Result<()> {
    with_store(&options.target, false, async |store| {
        let mut user = store.user(&options.uid).await?;
        if changed_rate(user.rate_limit, &options.rate).is_some() {
            let change = |user: &mut s3::User| {
                user.rate_limit = changed_rate(user.rate_limit, &options.rate).unwrap_or(user.rate_limit);
            };
            user = store.change_user(&options.uid, change).await?;
        }
        show_rate(&user.rate_limit, options.rate.json);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_change_what_they_name() {
        let flags = |max_size, max_objects, off| cli::S3Quota { max_size, max_objects, off, json: false };
        let old = Quota { enabled: false, bytes_max: Some(9), objects_max: Some(2) };
        assert_eq!(changed_quota(old, &flags(None, None, false)), None);
        let size = changed_quota(old, &flags(Some(Bound(None)), None, false));
        assert_eq!(size, Some(Quota { enabled: true, bytes_max: None, objects_max: Some(2) }));
        let objects = changed_quota(old, &flags(None, Some(Bound(Some(5))), false));
        assert_eq!(objects, Some(Quota { enabled: true, bytes_max: Some(9), objects_max: Some(5) }));
        let on = Quota { enabled: true, ..old };
        assert_eq!(changed_quota(on, &flags(None, None, true)), Some(old));
        assert_eq!(quota_text(&old), "9 (9 B) bytes, 2 objects (off)");
        assert_eq!(quota_text(&Quota::default()), "none");
        let rate = |reads| cli::S3Rate { reads, writes: None, read_bytes: None, write_bytes: None, json: false };
        let old = RateLimit { write_ops: Some(7), ..RateLimit::default() };
        assert_eq!(changed_rate(old, &rate(None)), None);
        assert_eq!(changed_rate(old, &rate(Some(Bound(Some(3))))), Some(RateLimit { read_ops: Some(3), ..old }));
    }
}
