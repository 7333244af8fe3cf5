//! Values of condition keys, from the facts of a request.

use crate::object_lock::ObjectLock;
use crate::policy::context::Context;
use crate::policy::identity::Identity;
use crate::policy::keys::{HEADER_KEYS, QUERY_KEYS};
use crate::tagging::TagSet;
use crate::time::{DAY_MS, UnixMillis};
use crate::uri::percent_decode_path;
use std::net::IpAddr;

/// How a request was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    Header,
    /// In the query, at this age.
    Query {
        age_ms: i64,
    },
    /// In the fields of a form.
    Form,
}

/// Facts of a request that conditions may ask for. Absent ones make their keys absent.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    pub identity: &'a Identity,
    pub now: UnixMillis,
    pub source_ip: IpAddr,
    /// True if the connection is encrypted.
    pub secure: bool,
    /// Version such as `1.3`, if it is.
    pub tls_version: Option<&'a str>,
    /// How, and by which version of signatures, 2 or 4; `None` for an anonymous request.
    pub signature: Option<(SignatureKind, u8)>,
    /// Names in lower case, with values. A name that comes twice has two values.
    pub headers: &'a [(String, String)],
    /// Decoded names and values.
    pub query: &'a [(String, String)],
    /// Tags that the request brings.
    pub request_tags: Option<&'a TagSet>,
    /// Tags of the object that is there.
    pub object_tags: Option<&'a TagSet>,
    /// Tags of the bucket.
    pub bucket_tags: Option<&'a TagSet>,
    /// Lock that the request brings.
    pub lock: Option<&'a ObjectLock>,
    /// Region in the body of a request that creates a bucket.
    pub location_constraint: Option<&'a str>,
    /// Tenant or account of the bucket.
    pub bucket_tenant: Option<&'a str>,
}

impl Context {
    /// Values of all condition keys that a request has.
    pub fn of(facts: &RequestFacts<'_>) -> Context {
        let mut context = Context::default();
        context.set("aws:CurrentTime", facts.now.iso8601());
        context.set("aws:EpochTime", facts.now.0.div_euclid(1000).to_string());
        context.set("aws:SourceIp", facts.source_ip.to_canonical().to_string());
        context.set("aws:SecureTransport", facts.secure.to_string());
        if let Some(version) = facts.tls_version {
            context.set("s3:TlsVersion", version);
        }
        if let Some(region) = facts.location_constraint {
            context.set("s3:LocationConstraint", region);
        }
        if let Some(tenant) = facts.bucket_tenant.filter(|tenant| !tenant.is_empty()) {
            context.set("s3:ResourceAccount", tenant);
            context.set("aws:ResourceAccount", tenant);
        }
        context.add_identity(facts.identity);
        context.add_signature(facts.signature);
        context.add_headers(facts.headers);
        for (name, value) in facts.query {
            if QUERY_KEYS.contains(&name.as_str()) {
                context.add(&format!("s3:{name}"), value);
            } else if name == "versionId" {
                context.add("s3:VersionId", value);
            }
        }
        context.add_tags(facts);
        if let Some(lock) = facts.lock {
            context.add_lock(lock, facts.now);
        }
        context
    }

    fn add_identity(&mut self, identity: &Identity) {
        match identity {
            Identity::Anonymous => self.set("aws:PrincipalType", "Anonymous"),
            Identity::User(user) => {
                self.set("aws:PrincipalType", "User");
                self.set("aws:PrincipalArn", user.arn());
                self.set("aws:userid", &user.account);
                self.set("aws:username", &user.name);
                if !user.tenant.is_empty() {
                    self.set("aws:PrincipalAccount", &user.tenant);
                }
            }
        }
    }

    fn add_signature(&mut self, signature: Option<(SignatureKind, u8)>) {
        let Some((kind, version)) = signature else { return };
        self.set("s3:signatureversion", if version == 2 { "AWS" } else { "AWS4-HMAC-SHA256" });
        self.set(
            "s3:authType",
            match kind {
                SignatureKind::Header => "REST-HEADER",
                SignatureKind::Query { .. } => "REST-QUERY-STRING",
                SignatureKind::Form => "POST",
            },
        );
        if let SignatureKind::Query { age_ms } = kind {
            self.set("s3:signatureAge", age_ms.to_string());
        }
    }

    fn add_headers(&mut self, headers: &[(String, String)]) {
        for (name, value) in headers {
            match name.as_str() {
                "referer" => self.add("aws:Referer", value),
                "user-agent" => self.add("aws:UserAgent", value),
                // Clients encode the source or not, and begin it with a slash or not: policies name `bucket/key`.
                "x-amz-copy-source" => {
                    let decoded = percent_decode_path(value).unwrap_or_else(|| value.clone());
                    self.add("s3:x-amz-copy-source", decoded.trim_start_matches('/'));
                }
                name if HEADER_KEYS.contains(&name) => self.add(&format!("s3:{name}"), value),
                _ => {}
            }
        }
    }

    /// Adds the tags of the object that a request is about.
    pub fn add_object_tags(&mut self, set: &TagSet) {
        for tag in &set.tags {
            self.add(&format!("s3:ExistingObjectTag/{}", tag.key), &tag.value);
        }
    }

    fn add_tags(&mut self, facts: &RequestFacts<'_>) {
        for tag in facts.request_tags.iter().flat_map(|set| &set.tags) {
            self.add("s3:RequestObjectTagKeys", &tag.key);
            self.add("aws:TagKeys", &tag.key);
            self.add(&format!("s3:RequestObjectTag/{}", tag.key), &tag.value);
            self.add(&format!("aws:RequestTag/{}", tag.key), &tag.value);
        }
        if let Some(tags) = facts.object_tags {
            self.add_object_tags(tags);
        }
        for tag in facts.bucket_tags.iter().flat_map(|set| &set.tags) {
            for family in ["s3:BucketTag", "s3:ResourceTag", "aws:ResourceTag"] {
                self.add(&format!("{family}/{}", tag.key), &tag.value);
            }
        }
    }

    fn add_lock(&mut self, lock: &ObjectLock, now: UnixMillis) {
        if let Some(retention) = lock.retention {
            let remaining_days = (retention.until.0.saturating_sub(now.0)).div_euclid(DAY_MS);
            self.set("s3:object-lock-mode", retention.mode.name());
            self.set("s3:object-lock-retain-until-date", retention.until.iso8601());
            self.set("s3:object-lock-remaining-retention-days", remaining_days.to_string());
        }
        if let Some(on) = lock.legal_hold {
            self.set("s3:object-lock-legal-hold", if on { "ON" } else { "OFF" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_lock::{Retention, RetentionMode};
    use crate::policy::identity::UserIdentity;
    use crate::policy::keys::is_condition_key;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn facts_become_values() {
        let identity = Identity::User(UserIdentity {
            account: "id".into(),
            tenant: "t".into(),
            name: "ann".into(),
            root: true,
            operator: false,
        });
        let now = UnixMillis::parse("2026-11-28T00:00:00Z").unwrap();
        let retention = Retention { mode: RetentionMode::Governance, until: now.plus_ms(5 * DAY_MS) };
        let lock = ObjectLock { retention: Some(retention), legal_hold: Some(true) };
        let tags = TagSet::from_header("a=b&c=d").unwrap();
        let context = Context::of(&RequestFacts {
            identity: &identity,
            now,
            source_ip: "::ffff:10.0.0.1".parse().unwrap(),
            secure: true,
            tls_version: Some("1.3"),
            signature: Some((SignatureKind::Query { age_ms: 1500 }, 4)),
            headers: &pairs(&[
                ("referer", "http://e.com/"),
                ("x-amz-copy-source", "/b%2Fpublic/a+b"),
                ("x-amz-acl", "private"),
                ("x-amz-meta-x", "y"),
                ("host", "h"),
            ]),
            query: &pairs(&[("prefix", "p/"), ("versionId", "v"), ("marker", "m")]),
            request_tags: Some(&tags),
            object_tags: Some(&tags),
            bucket_tags: Some(&tags),
            lock: Some(&lock),
            location_constraint: Some("eu"),
            bucket_tenant: Some("t"),
        });
        for (key, values) in [
            ("aws:currenttime", &["2026-11-28T00:00:00.000Z"][..]),
            ("aws:epochtime", &["1795824000"]),
            ("aws:sourceip", &["10.0.0.1"]),
            ("aws:securetransport", &["true"]),
            ("aws:referer", &["http://e.com/"]),
            ("aws:useragent", &[]),
            ("aws:username", &["ann"]),
            ("aws:userid", &["id"]),
            ("aws:principalarn", &["arn:aws:iam::t:user/ann"]),
            ("aws:principaltype", &["User"]),
            ("s3:tlsversion", &["1.3"]),
            ("s3:authtype", &["REST-QUERY-STRING"]),
            ("s3:signatureversion", &["AWS4-HMAC-SHA256"]),
            ("s3:signatureage", &["1500"]),
            ("s3:x-amz-copy-source", &["b/public/a+b"]),
            ("s3:x-amz-acl", &["private"]),
            ("s3:x-amz-meta-x", &[]),
            ("s3:prefix", &["p/"]),
            ("s3:versionid", &["v"]),
            ("s3:delimiter", &[]),
            ("s3:requestobjecttagkeys", &["a", "c"]),
            ("s3:requestobjecttag/a", &["b"]),
            ("s3:existingobjecttag/c", &["d"]),
            ("s3:buckettag/a", &["b"]),
            ("s3:object-lock-mode", &["GOVERNANCE"]),
            ("s3:object-lock-remaining-retention-days", &["5"]),
            ("s3:object-lock-legal-hold", &["ON"]),
            ("s3:locationconstraint", &["eu"]),
            ("s3:resourceaccount", &["t"]),
        ] {
            assert_eq!(context.values(key), values, "{key}");
        }
        assert!(context.keys().all(is_condition_key), "policies may name every key that requests have");
    }

    #[test]
    fn anonymous_requests_have_no_name() {
        let context = Context::of(&RequestFacts {
            identity: &Identity::Anonymous,
            now: UnixMillis(0),
            source_ip: "2001:db8::1".parse().unwrap(),
            secure: false,
            tls_version: None,
            signature: None,
            headers: &[],
            query: &[],
            request_tags: None,
            object_tags: None,
            bucket_tags: None,
            lock: None,
            location_constraint: None,
            bucket_tenant: Some(""),
        });
        let keys: Vec<&str> = context.keys().collect();
        let expected = ["aws:currenttime", "aws:epochtime", "aws:principaltype", "aws:securetransport", "aws:sourceip"];
        assert_eq!(keys, expected);
    }
}
