//! Documents as boto3 1.43 sends them: all are read, and come back as they are meant.

use crate::acl::{AclDraft, AclUser, GranteeName};
use crate::cors::CorsConfiguration;
use crate::lifecycle::{Expiration, LifecycleConfiguration, LifecycleScope};
use crate::object_lock::{ObjectLockConfiguration, Retention, legal_hold_from_xml};
use crate::tagging::{OBJECT_TAGS_MAX, TagSet};
use crate::time::UnixMillis;
use crate::website::WebsiteConfiguration;
use crate::{ObjectOwnership, PublicAccessBlock};

/// A document with the root `name`.
fn document(name: &str, inside: &str) -> Vec<u8> {
    let namespace = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";
    match inside {
        "" => format!("<{name} {namespace} />").into_bytes(),
        inside => format!("<{name} {namespace}>{inside}</{name}>").into_bytes(),
    }
}

#[test]
fn lifecycle_rules() {
    let inside = "<Rule><ID>r1</ID><Filter><And><Prefix>p</Prefix><Tag><Key>a</Key><Value>b</Value></Tag><Tag>\
        <Key>c</Key><Value>d</Value></Tag><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></And></Filter>\
        <Status>Enabled</Status><Expiration><Days>30</Days></Expiration><Transition><Days>10</Days>\
        <StorageClass>GLACIER</StorageClass></Transition><NoncurrentVersionTransition><NoncurrentDays>2\
        </NoncurrentDays><StorageClass>GLACIER</StorageClass><NewerNoncurrentVersions>1</NewerNoncurrentVersions>\
        </NoncurrentVersionTransition><NoncurrentVersionExpiration><NoncurrentDays>6</NoncurrentDays>\
        <NewerNoncurrentVersions>5</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule><Rule><ID>r2</ID>\
        <Prefix /><Status>Disabled</Status><Expiration><Date>2017-09-27T00:00:00Z</Date></Expiration>\
        <AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation>\
        </AbortIncompleteMultipartUpload></Rule><Rule><Filter /><Status>Enabled</Status><Expiration>\
        <ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>";
    let document = document("LifecycleConfiguration", inside);
    let read = LifecycleConfiguration::from_xml(&document, |class| class == "GLACIER").unwrap();
    let [first, second, third] = &read.rules[..] else { panic!("{read:?}") };
    assert_eq!((first.enabled, second.enabled, third.enabled), (true, false, true));
    assert_eq!(first.noncurrent_transitions[0].newer_versions, Some(1));
    assert_eq!(second.scope, LifecycleScope::Prefix(String::new()));
    assert_eq!(second.expiration, Some(Expiration::Date(UnixMillis(1_506_470_400_000))));
    assert_eq!(third.expiration, Some(Expiration::DeleteMarker(true)));
}

#[test]
fn lists() {
    let inside = "<Owner><ID>ann</ID><DisplayName>Ann</DisplayName></Owner><AccessControlList><Grant>\
        <Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"><ID>ann</ID>\
        <DisplayName>Ann</DisplayName></Grantee><Permission>FULL_CONTROL</Permission></Grant><Grant>\
        <Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"Group\">\
        <URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>READ</Permission></Grant>\
        <Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"AmazonCustomerByEmail\">\
        <EmailAddress>bob@example.com</EmailAddress></Grantee><Permission>WRITE</Permission></Grant>\
        </AccessControlList>";
    let draft = AclDraft::from_xml(&document("AccessControlPolicy", inside)).unwrap();
    let names: Vec<&GranteeName> = draft.names().collect();
    assert_eq!(names, [&GranteeName::Id("ann".into()), &GranteeName::Email("bob@example.com".into())]);
    let empty = "<Owner><ID>ann</ID><DisplayName>Ann</DisplayName></Owner><AccessControlList />";
    let draft = AclDraft::from_xml(&document("AccessControlPolicy", empty)).unwrap();
    let owner = AclUser { id: "ann".into(), display_name: "Ann".into() };
    assert_eq!(draft.resolve(&owner, |_| None).unwrap().grants, []);
}

#[test]
fn web_pages() {
    let cors = "<CORSRule><ID>x</ID><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod>\
        <AllowedOrigin>*.get</AllowedOrigin><AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader>\
        <MaxAgeSeconds>3000</MaxAgeSeconds></CORSRule>";
    let read = CorsConfiguration::from_xml(&document("CORSConfiguration", cors)).unwrap();
    assert_eq!(read.rules[0].allowed_methods, ["GET", "PUT"]);
    let site = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument><ErrorDocument><Key>e.html</Key>\
        </ErrorDocument><RoutingRules><RoutingRule><Condition><KeyPrefixEquals>docs/</KeyPrefixEquals>\
        <HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition><Redirect><HostName>h</HostName>\
        <Protocol>https</Protocol><HttpRedirectCode>302</HttpRedirectCode>\
        <ReplaceKeyPrefixWith>d/</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules>";
    let read = WebsiteConfiguration::from_xml(&document("WebsiteConfiguration", site)).unwrap();
    assert!(matches!(read, WebsiteConfiguration::Site(site) if site.routing_rules[0].redirect_status == Some(302)));
    let elsewhere = "<RedirectAllRequestsTo><HostName>h</HostName><Protocol>http</Protocol></RedirectAllRequestsTo>";
    let read = WebsiteConfiguration::from_xml(&document("WebsiteConfiguration", elsewhere)).unwrap();
    assert!(matches!(read, WebsiteConfiguration::RedirectAll { host, .. } if host == "h"));
}

#[test]
fn locks() {
    let inside = "<ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode>\
        <Days>1</Days></DefaultRetention></Rule>";
    let read = ObjectLockConfiguration::from_xml(&document("ObjectLockConfiguration", inside)).unwrap();
    assert!(read.default_retention.is_some());
    for (until, ms) in [("2140-01-01T00:00:00Z", 5_364_662_400_000), ("2140-01-01T01:02:03.456789Z", 5_364_666_123_456)]
    {
        let inside = format!("<Mode>GOVERNANCE</Mode><RetainUntilDate>{until}</RetainUntilDate>");
        let read = Retention::from_xml(&document("Retention", &inside), UnixMillis(0)).unwrap();
        assert_eq!(read.map(|retention| retention.until), Some(UnixMillis(ms)));
    }
    assert_eq!(Retention::from_xml(&document("Retention", ""), UnixMillis(0)), Ok(None));
    assert_eq!(legal_hold_from_xml(&document("LegalHold", "<Status>ON</Status>")), Ok(true));
}

#[test]
fn tags_and_settings() {
    let inside = "<TagSet><Tag><Key>a b</Key><Value>c/d</Value></Tag><Tag><Key>c</Key><Value /></Tag></TagSet>";
    let read = TagSet::from_xml(&document("Tagging", inside), OBJECT_TAGS_MAX).unwrap();
    assert_eq!((read.get("a b"), read.get("c")), (Some("c/d"), Some("")));
    let read = TagSet::from_xml(&document("Tagging", "<TagSet />"), OBJECT_TAGS_MAX);
    assert_eq!(read, Ok(TagSet::default()));
    let inside = "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>";
    let read = ObjectOwnership::from_xml(&document("OwnershipControls", inside));
    assert_eq!(read, Ok(ObjectOwnership::BucketOwnerEnforced));
    let inside = "<BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>false</IgnorePublicAcls>\
        <BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>false</RestrictPublicBuckets>";
    let read = PublicAccessBlock::from_xml(&document("PublicAccessBlockConfiguration", inside)).unwrap();
    assert!(read.block_public_acls && read.block_public_policy && !read.restrict_public_buckets);
}
