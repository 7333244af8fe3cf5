//! Lists of objects and of uploads.

use crate::asker::Asked;
use crate::convert::{common_prefixes, encoded, etag, time, told, version_id};
use crate::service::Service;
use s3::{Entry, ListedVersion, Query};
use s3rules::policy::Action;
use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};
use std::collections::{BTreeMap, BTreeSet};

/// Entries of a page.
const PAGE_MAX: i32 = 1000;

fn page_size(max: Option<i32>) -> S3Result<i32> {
    match max.unwrap_or(PAGE_MAX) {
        negative if negative < 0 => Err(invalid("the size of a page is negative")),
        max => Ok(max.min(PAGE_MAX)),
    }
}

fn invalid(message: &'static str) -> s3s::S3Error {
    s3s::S3Error::with_message(S3ErrorCode::InvalidArgument, message)
}

/// Makes the query for a page of at most `max` entries, as [`page_size`] gives it, behind `after`.
fn query(prefix: Option<&String>, delimiter: Option<&String>, after: Option<String>, max: i32) -> Query {
    Query {
        prefix: prefix.cloned().unwrap_or_default(),
        delimiter: delimiter.cloned().unwrap_or_default(),
        after: after.unwrap_or_default(),
        max: max as usize,
    }
}

/// Lists here have an order always, which a client may tell that it does not need, but for common prefixes. Errors:
/// `InvalidArgument`, as Ceph's gateway has it.
fn check_order(asked: &Asked<'_>, delimiter: Option<&str>) -> S3Result<()> {
    let is_delimited = delimiter.is_some_and(|delimiter| !delimiter.is_empty());
    let needs_none = || asked.query().iter().any(|(name, value)| name == "allow-unordered" && value == "true");
    if is_delimited && needs_none() {
        return Err(invalid("a list without an order has no delimiter"));
    }
    Ok(())
}

fn is_url(encoding: Option<&EncodingType>) -> S3Result<bool> {
    match encoding.map(EncodingType::as_str) {
        None => Ok(false),
        Some("url") => Ok(true),
        Some(_) => Err(invalid("the encoding of keys is 'url' or none")),
    }
}

fn object(key: &str, entry: &Entry, encode: bool, owners: Option<&Owners>) -> Object {
    Object {
        key: Some(encoded(key, encode)),
        size: Some(entry.size as i64),
        e_tag: Some(etag(&entry.etag)),
        last_modified: Some(time(entry.mtime_ms)),
        owner: owners.and_then(|owners| owners.get(&entry.owner).cloned()),
        storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
        ..Default::default()
    }
}

/// Users of a page, by their names.
type Owners = BTreeMap<String, Owner>;

pub(crate) fn initiator(owner: &Owner) -> Initiator {
    Initiator { display_name: owner.display_name.clone(), id: owner.id.clone() }
}

impl Service {
    /// Looks up those whose things a page shows, each once.
    async fn owners<'a>(&self, uids: impl Iterator<Item = &'a str>) -> S3Result<Owners> {
        let mut owners = Owners::new();
        for uid in uids.collect::<BTreeSet<_>>() {
            owners.insert(uid.to_owned(), self.owner(uid).await?);
        }
        Ok(owners)
    }

    pub async fn first_list(&self, req: S3Request<ListObjectsInput>) -> S3Result<S3Response<ListObjectsOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::ListBucket, None)?;
        check_order(&Asked::from(&req), req.input.delimiter.as_deref())?;
        let bucket = visit.bucket;
        let input = req.input;
        let encode = is_url(input.encoding_type.as_ref())?;
        let max = page_size(input.max_keys)?;
        let query = query(input.prefix.as_ref(), input.delimiter.as_ref(), input.marker.clone(), max);
        let page = self.gateway.list(&bucket, &query).await.map_err(told)?;
        let owners = self.owners(page.entries.iter().map(|(_, entry)| entry.owner.as_str())).await?;
        let shown = |text: Option<String>| text.map(|text| encoded(&text, encode));
        Ok(S3Response::new(ListObjectsOutput {
            name: Some(input.bucket),
            is_truncated: Some(page.next.is_some()),
            // Without a delimiter clients go on behind the last key.
            next_marker: shown(page.next.filter(|_| !query.delimiter.is_empty())),
            contents: Some(page.entries.iter().map(|(key, entry)| object(key, entry, encode, Some(&owners))).collect()),
            common_prefixes: common_prefixes(page.common_prefixes, encode),
            prefix: shown(Some(query.prefix)),
            delimiter: shown(input.delimiter.filter(|delimiter| !delimiter.is_empty())),
            marker: shown(Some(query.after)),
            max_keys: Some(max),
            encoding_type: input.encoding_type,
            ..Default::default()
        }))
    }

    pub async fn second_list(&self, req: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::ListBucket, None)?;
        check_order(&Asked::from(&req), req.input.delimiter.as_deref())?;
        let bucket = visit.bucket;
        let input = req.input;
        let encode = is_url(input.encoding_type.as_ref())?;
        let max = page_size(input.max_keys)?;
        // A token is the last key or common prefix of the page before, in hexadecimal digits.
        let after = match input.continuation_token.as_ref().filter(|token| !token.is_empty()) {
            Some(token) => from_token(token).ok_or_else(|| invalid("the continuation token is not of this list"))?,
            None => input.start_after.clone().unwrap_or_default(),
        };
        let query = query(input.prefix.as_ref(), input.delimiter.as_ref(), Some(after), max);
        let page = self.gateway.list(&bucket, &query).await.map_err(told)?;
        let shown = |text: Option<String>| text.map(|text| encoded(&text, encode));
        let owners = match input.fetch_owner {
            Some(true) => Some(self.owners(page.entries.iter().map(|(_, entry)| entry.owner.as_str())).await?),
            _ => None,
        };
        let contents = page.entries.iter().map(|(key, entry)| object(key, entry, encode, owners.as_ref()));
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            key_count: Some((page.entries.len() + page.common_prefixes.len()) as i32),
            contents: Some(contents.collect()),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next.as_deref().map(to_token),
            continuation_token: input.continuation_token,
            common_prefixes: common_prefixes(page.common_prefixes, encode),
            prefix: shown(Some(query.prefix)),
            delimiter: shown(input.delimiter.filter(|delimiter| !delimiter.is_empty())),
            start_after: shown(input.start_after),
            max_keys: Some(max),
            encoding_type: input.encoding_type,
            ..Default::default()
        }))
    }

    pub async fn list_of_versions(
        &self,
        req: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::ListBucketVersions, None)?;
        let bucket = visit.bucket;
        let input = req.input;
        let encode = is_url(input.encoding_type.as_ref())?;
        let max = page_size(input.max_keys)?;
        let query = query(input.prefix.as_ref(), input.delimiter.as_ref(), input.key_marker.clone(), max);
        let after = input.version_id_marker.as_deref().filter(|marker| !marker.is_empty());
        if after.is_some() && query.after.is_empty() {
            return Err(invalid("a version-id-marker needs a key-marker"));
        }
        let page = self.gateway.list_versions(&bucket, &query, after).await.map_err(told)?;
        let shown = |text: Option<String>| text.map(|text| encoded(&text, encode));
        let owners = self.owners(page.versions.iter().map(|found| found.version.entry.owner.as_str())).await?;
        let (mut versions, mut markers) = (Vec::new(), Vec::new());
        for ListedVersion { key, is_latest, version } in page.versions {
            let (key, entry) = (Some(encoded(&key, encode)), version.entry);
            let (is_latest, version_id) = (Some(is_latest), Some(version_id(version.version)));
            let (last_modified, owner) = (Some(time(entry.mtime_ms)), owners.get(&entry.owner).cloned());
            if version.is_marker {
                markers.push(DeleteMarkerEntry { key, is_latest, version_id, last_modified, owner });
            } else {
                versions.push(ObjectVersion {
                    key,
                    is_latest,
                    version_id,
                    last_modified,
                    owner,
                    size: Some(entry.size as i64),
                    e_tag: Some(etag(&entry.etag)),
                    storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
                    ..Default::default()
                });
            }
        }
        let is_truncated = page.next.is_some();
        let (next_key, next_version) = page.next.unzip();
        Ok(S3Response::new(ListObjectVersionsOutput {
            name: Some(input.bucket),
            versions: Some(versions),
            delete_markers: Some(markers),
            is_truncated: Some(is_truncated),
            next_version_id_marker: next_version.flatten(),
            next_key_marker: shown(next_key),
            common_prefixes: common_prefixes(page.common_prefixes, encode),
            prefix: shown(Some(query.prefix)),
            delimiter: shown(input.delimiter.filter(|delimiter| !delimiter.is_empty())),
            key_marker: shown(Some(query.after)),
            version_id_marker: input.version_id_marker,
            max_keys: Some(max),
            encoding_type: input.encoding_type,
            ..Default::default()
        }))
    }

    pub async fn list_of_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::ListBucketMultipartUploads, None)?;
        let bucket = visit.bucket;
        let input = req.input;
        let encode = is_url(input.encoding_type.as_ref())?;
        let max = page_size(input.max_uploads)?;
        let query = query(input.prefix.as_ref(), input.delimiter.as_ref(), input.key_marker.clone(), max);
        let after_upload = input.upload_id_marker.clone().unwrap_or_default();
        let page = self.gateway.list_uploads(&bucket, &query, &after_upload).await.map_err(told)?;
        let shown = |text: Option<String>| text.map(|text| encoded(&text, encode));
        let owners = self.owners(page.uploads.iter().map(|listed| listed.owner.as_str())).await?;
        let uploads = page.uploads.into_iter().map(|listed| MultipartUpload {
            key: Some(encoded(&listed.key, encode)),
            upload_id: Some(listed.upload),
            initiator: owners.get(&listed.owner).map(initiator),
            owner: owners.get(&listed.owner).cloned(),
            initiated: Some(time(listed.created_ms)),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            ..Default::default()
        });
        Ok(S3Response::new(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            uploads: Some(uploads.collect()),
            is_truncated: Some(page.next.is_some()),
            next_upload_id_marker: page.next.as_ref().map(|(_, upload)| upload.clone()),
            next_key_marker: shown(page.next.map(|(key, _)| key)),
            common_prefixes: common_prefixes(page.common_prefixes, encode),
            prefix: shown(Some(query.prefix)),
            delimiter: shown(input.delimiter.filter(|delimiter| !delimiter.is_empty())),
            key_marker: shown(Some(query.after)),
            upload_id_marker: input.upload_id_marker,
            max_uploads: Some(max),
            encoding_type: input.encoding_type,
            ..Default::default()
        }))
    }
}

fn to_token(key: &str) -> String {
    key.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn from_token(token: &str) -> Option<String> {
    let digit = |at: usize| u8::from_str_radix(token.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..token.len().div_ceil(2)).map(|at| digit(2 * at)).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_give_keys_back() {
        for key in ["", "a/b", "ä\u{0}x"] {
            assert_eq!(from_token(&to_token(key)).as_deref(), Some(key));
        }
        assert_eq!(from_token("xyz"), None);
        assert_eq!(from_token("616"), None);
        assert_eq!(from_token("ff"), None);
    }
}
