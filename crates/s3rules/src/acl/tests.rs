//! Tables of lists, and of who has which permission by them.

use super::*;
use crate::policy::UserIdentity;
use proptest::prelude::*;

fn owner(id: &str) -> AclUser {
    AclUser { id: id.into(), display_name: format!("Mx {id}") }
}

fn identity(account: &str) -> Identity {
    match account {
        "" => Identity::Anonymous,
        account => Identity::User(UserIdentity {
            account: account.into(),
            tenant: String::new(),
            name: account.into(),
            root: true,
            operator: false,
        }),
    }
}

/// Short form of grants, such as `AllUsers:READ ann:FULL_CONTROL`.
fn short(acl: &Acl) -> String {
    let name = |grant: &Grant| match &grant.grantee {
        Grantee::User(user) => user.id.clone(),
        Grantee::Group(group) => group.uri().rsplit('/').next().unwrap_or("").to_owned(),
    };
    let grants: Vec<String> =
        acl.grants.iter().map(|grant| format!("{}:{}", name(grant), grant.permission.name())).collect();
    grants.join(" ")
}

#[test]
fn canned_lists_hold_their_grants() {
    for (name, grants, of_bucket_owner) in [
        ("private", "ann:FULL_CONTROL", "bob:FULL_CONTROL"),
        ("public-read", "AllUsers:READ ann:FULL_CONTROL", "AllUsers:READ bob:FULL_CONTROL"),
        (
            "public-read-write",
            "AllUsers:READ AllUsers:WRITE ann:FULL_CONTROL",
            "AllUsers:READ AllUsers:WRITE bob:FULL_CONTROL",
        ),
        ("authenticated-read", "AuthenticatedUsers:READ ann:FULL_CONTROL", "AuthenticatedUsers:READ bob:FULL_CONTROL"),
        ("bucket-owner-read", "ann:FULL_CONTROL bob:READ", "bob:FULL_CONTROL"),
        ("bucket-owner-full-control", "ann:FULL_CONTROL bob:FULL_CONTROL", "bob:FULL_CONTROL"),
        (
            "log-delivery-write",
            "LogDelivery:WRITE LogDelivery:READ_ACP ann:FULL_CONTROL",
            "LogDelivery:WRITE LogDelivery:READ_ACP bob:FULL_CONTROL",
        ),
    ] {
        let canned = CannedAcl::parse(name).unwrap();
        assert_eq!(short(&canned.acl(&owner("ann"), &owner("bob"))), grants, "{name}");
        assert_eq!(short(&canned.acl(&owner("bob"), &owner("bob"))), of_bucket_owner, "{name}");
        let public = canned.acl(&owner("ann"), &owner("bob")).is_public();
        assert_eq!(public, name.starts_with("public") || name.starts_with("auth"), "{name}");
    }
    for name in ["", "Private", "aws-exec-read", "public"] {
        assert_eq!(CannedAcl::parse(name).unwrap_err().code, S3Code::InvalidArgument, "{name}");
    }
}

use crate::error::S3Code;

#[test]
fn permissions_by_grants() {
    use Permission::*;
    let acl = Acl::new(
        owner("ann"),
        vec![
            Grant::to_user(owner("bob"), Write),
            Grant::to_user(owner("carl"), FullControl),
            Grant::to_user(owner("dora"), ReadAcp),
            Grant::to_group(Group::AuthenticatedUsers, Read),
            Grant::to_group(Group::LogDelivery, WriteAcp),
        ],
    );
    let all = [Read, Write, ReadAcp, WriteAcp, FullControl];
    for (account, ignore_public, permissions) in [
        ("ann", false, &[Read, ReadAcp, WriteAcp][..]),
        ("ann", true, &[ReadAcp, WriteAcp]),
        ("bob", false, &[Read, Write]),
        ("bob", true, &[Write]),
        ("carl", true, &all),
        ("dora", false, &[Read, ReadAcp]),
        ("emil", false, &[Read]),
        ("emil", true, &[]),
        ("", false, &[]),
    ] {
        let has: Vec<Permission> =
            all.into_iter().filter(|&permission| acl.grants(&identity(account), permission, ignore_public)).collect();
        assert_eq!(has, permissions, "{account} {ignore_public}");
    }
    let open = CannedAcl::PublicReadWrite.acl(&owner("ann"), &owner("ann"));
    assert!(open.grants(&identity(""), Write, false) && !open.grants(&identity(""), ReadAcp, false));
    assert!(!open.is_owners_only() && Acl::private(owner("ann")).is_owners_only());
}

fn everybody(name: &GranteeName) -> Option<AclUser> {
    match name {
        GranteeName::Id(id) if id.starts_with('_') => None,
        GranteeName::Id(id) => Some(owner(id)),
        GranteeName::Email(address) => address.strip_suffix("@example.com").map(owner),
    }
}

fn policy(owner: &str, grants: &str) -> String {
    format!(
        "<AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Owner><ID>{owner}</ID></Owner>\
        <AccessControlList>{grants}</AccessControlList></AccessControlPolicy>"
    )
}

fn grant(kind: &str, inside: &str, permission: &str) -> String {
    format!(
        "<Grant><Grantee xmlns:xsi=\"{XSI}\" xsi:type=\"{kind}\">{inside}</Grantee>\
        <Permission>{permission}</Permission></Grant>"
    )
}

#[test]
fn lists_in_xml() {
    let all_users = "<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>";
    let document = policy(
        "ann",
        &[
            grant("CanonicalUser", "<ID>ann</ID><DisplayName>x</DisplayName>", "FULL_CONTROL"),
            grant("AmazonCustomerByEmail", "<EmailAddress>bob@example.com</EmailAddress>", "READ_ACP"),
            grant("Group", all_users, "READ"),
        ]
        .concat(),
    );
    let draft = AclDraft::from_xml(document.as_bytes()).unwrap();
    assert_eq!(draft.names().count(), 2);
    let acl = draft.resolve(&owner("ann"), everybody).unwrap();
    assert_eq!(short(&acl), "AllUsers:READ ann:FULL_CONTROL bob:READ_ACP");
    let again = AclDraft::from_xml(acl.to_xml().as_bytes()).unwrap().resolve(&owner("ann"), everybody).unwrap();
    assert_eq!(again, acl);
    assert_eq!(
        short(&AclDraft::from_xml(policy("ann", "").as_bytes()).unwrap().resolve(&owner("ann"), everybody).unwrap()),
        ""
    );
    assert_eq!(draft.resolve(&owner("bob"), everybody).unwrap_err().code, S3Code::AccessDenied);
}

#[test]
fn lists_in_xml_that_are_none() {
    let full = |grants: String| policy("ann", &grants);
    for (document, code) in [
        (String::from("<AccessControlPolicy/>"), "MalformedACLError"),
        (String::from("<AccessControlPolicy>"), "MalformedXML"),
        (String::from("<Acl/>"), "MalformedXML"),
        (full(grant("CanonicalUser", "<ID>a</ID>", "EXECUTE")), "MalformedACLError"),
        (full(grant("Group", "<ID>a</ID>", "READ")), "MalformedACLError"),
        (full(grant("CanonicalUser", "", "READ")), "MalformedACLError"),
        (full(grant("CanonicalUser", "<ID>a</ID><ID>b</ID>", "READ")), "MalformedACLError"),
        (full(grant("Group", "<URI>http://example.com/</URI>", "READ")), "InvalidArgument"),
        (full(grant("CanonicalUser", "<ID>_foo</ID>", "READ")), "InvalidArgument"),
        (
            full(grant("AmazonCustomerByEmail", "<EmailAddress>x@y</EmailAddress>", "READ")),
            "UnresolvableGrantByEmailAddress",
        ),
        (full(grant("CanonicalUser", "<ID>a</ID>", "READ").repeat(101)), "MalformedACLError"),
        (full("<Right/>".into()), "MalformedACLError"),
    ] {
        let answer = AclDraft::from_xml(document.as_bytes()).and_then(|draft| draft.resolve(&owner("ann"), everybody));
        assert_eq!(answer.unwrap_err().code.name(), code, "{document}");
    }
}

#[test]
fn lists_in_headers() {
    let read = |headers: &[(&'static str, &'static str)]| AclHeaders::read(headers.iter().copied());
    assert_eq!(read(&[("host", "x")]), Ok(AclHeaders::Absent));
    assert_eq!(read(&[("x-amz-acl", "public-read")]), Ok(AclHeaders::Canned(CannedAcl::PublicRead)));
    let AclHeaders::Grants(draft) = read(&[
        ("x-amz-grant-full-control", "id=bob"),
        ("x-amz-grant-write-acp", "id=bob"),
        ("x-amz-grant-read-acp", "emailAddress=\"bob@example.com\""),
        ("x-amz-grant-write", "id=\"bob\" , id = carl"),
        ("x-amz-grant-read", "id=bob, uri=\"http://acs.amazonaws.com/groups/global/AuthenticatedUsers\""),
    ])
    .unwrap() else {
        panic!("grants")
    };
    let acl = draft.resolve(&owner("ann"), everybody).unwrap();
    let expected = "AuthenticatedUsers:READ bob:READ bob:WRITE carl:WRITE bob:READ_ACP bob:WRITE_ACP bob:FULL_CONTROL";
    assert_eq!(short(&acl), expected);
    for (headers, code) in [
        (&[("x-amz-acl", "private"), ("x-amz-grant-read", "id=a")][..], "InvalidRequest"),
        (&[("x-amz-acl", "open")], "InvalidArgument"),
        (&[("x-amz-grant-read", "")], "InvalidArgument"),
        (&[("x-amz-grant-read", "bob")], "InvalidArgument"),
        (&[("x-amz-grant-read", "id=")], "InvalidArgument"),
        (&[("x-amz-grant-read", "id=\"a")], "InvalidArgument"),
        (&[("x-amz-grant-read", "id=a,")], "InvalidArgument"),
        (&[("x-amz-grant-read", "name=a")], "InvalidArgument"),
        (&[("x-amz-grant-read", "uri=x")], "InvalidArgument"),
    ] {
        assert_eq!(read(headers).unwrap_err().code.name(), code, "{headers:?}");
    }
}

proptest! {
    #[test]
    fn no_header_ends_the_reader(value in "\\PC{0,40}|[ ,=\"idur]{0,30}") {
        let _ = AclHeaders::read([("x-amz-grant-read", value.as_str())].into_iter());
    }

    #[test]
    fn no_document_ends_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = AclDraft::from_xml(&bytes);
    }
}
