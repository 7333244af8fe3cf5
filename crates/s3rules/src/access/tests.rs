//! Tables of requests and their judgement.

use super::*;
use crate::acl::{AclUser, CannedAcl, Grant};
use crate::policy::PolicyKind;
use proptest::prelude::*;

fn acl_user(id: &str) -> AclUser {
    AclUser { id: id.into(), display_name: id.into() }
}

/// `""` is anonymous; `ann/kid` is a user `kid` in the account `ann` without its rights.
fn identity(name: &str) -> Identity {
    let (account, user, root) = match name.split_once('/') {
        None => (name, name, true),
        Some((account, user)) => (account, user, false),
    };
    match account {
        "" => Identity::Anonymous,
        _ => Identity::User(UserIdentity {
            account: account.into(),
            tenant: String::new(),
            name: user.into(),
            root,
            operator: account == "operator",
        }),
    }
}

/// Bucket `b` of `ann`, and what else decides.
struct Scene {
    bucket_acl: Acl,
    object_acl: Option<Acl>,
    ownership: ObjectOwnership,
    policy: Option<Policy>,
    binds_owner: bool,
    requesters_pay: bool,
    says_so: bool,
    user_policy: Option<Policy>,
    block: PublicAccessBlock,
    context: Context,
}

impl Scene {
    fn new() -> Scene {
        Scene {
            bucket_acl: Acl::private(acl_user("ann")),
            object_acl: Some(Acl::private(acl_user("ann"))),
            ownership: ObjectOwnership::ObjectWriter,
            policy: None,
            binds_owner: false,
            requesters_pay: false,
            says_so: false,
            user_policy: None,
            block: PublicAccessBlock::default(),
            context: Context::default(),
        }
    }

    fn canned(bucket: CannedAcl, object: CannedAcl) -> Scene {
        let ann = acl_user("ann");
        Scene { bucket_acl: bucket.acl(&ann, &ann), object_acl: Some(object.acl(&ann, &ann)), ..Scene::new() }
    }

    /// `statements`: effect, principal, action, resource.
    fn policy(statements: &[(&str, &str, &str, &str)]) -> Scene {
        let statements: Vec<String> = statements
            .iter()
            .map(|(effect, who, action, resource)| {
                format!(
                    r#"{{"Effect":"{effect}","Principal":{who},"Action":"{action}","Resource":"arn:aws:s3:::{resource}"}}"#
                )
            })
            .collect();
        let text = format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","));
        Scene { policy: Some(Policy::parse(&text, PolicyKind::Bucket, "").unwrap()), ..Scene::new() }
    }

    fn with_user_policy(mut self, effect: &str, action: &str) -> Scene {
        let text = format!(r#"{{"Statement":{{"Effect":"{effect}","Action":"{action}","Resource":"*"}}}}"#);
        self.user_policy = Some(Policy::parse(&text, PolicyKind::User, "").unwrap());
        self
    }

    fn ask<T>(&self, who: &str, action: Action, ask: impl Fn(&AccessRequest<'_>) -> T) -> T {
        let resource = match action.target() {
            ActionTarget::Object => ResourceArn::object("", "b", "k"),
            _ => ResourceArn::bucket("", "b"),
        };
        ask(&AccessRequest {
            identity: &identity(who),
            action,
            resource: &resource,
            context: &self.context,
            user_policies: self.user_policy.as_slice(),
            requester_pays: self.says_so,
            bucket: Some(BucketFacts {
                acl: &self.bucket_acl,
                ownership: self.ownership,
                requesters_pay: self.requesters_pay,
                policy: self.policy.as_ref(),
                policy_binds_owner: self.binds_owner,
                public_access: self.block,
            }),
            object: self.object_acl.as_ref().map(|acl| ObjectFacts { acl }),
        })
    }

    fn judge(&self, who: &str, action: Action) -> Access {
        self.ask(who, action, judge)
    }

    fn allows(&self, who: &str, action: Action) -> bool {
        self.judge(who, action).is_allowed()
    }
}

#[test]
fn canned_lists_of_bucket_and_object() {
    use Action::{DeleteObject, GetObject, GetObjectAcl, ListBucket, PutBucketAcl, PutObject};
    use CannedAcl::*;
    // Lists of the bucket and the object; what `bob` may, what an anonymous request may: list, write, read.
    for (bucket, object, of_bob, of_nobody) in [
        (Private, Private, "---", "---"),
        (Private, PublicRead, "--r", "--r"),
        (Private, PublicReadWrite, "--r", "--r"),
        (PublicRead, Private, "l--", "l--"),
        (PublicRead, PublicRead, "l-r", "l-r"),
        (PublicRead, PublicReadWrite, "l-r", "l-r"),
        (PublicReadWrite, Private, "lw-", "lw-"),
        (PublicReadWrite, PublicRead, "lwr", "lwr"),
        (PublicReadWrite, PublicReadWrite, "lwr", "lwr"),
        (AuthenticatedRead, AuthenticatedRead, "l-r", "---"),
    ] {
        let scene = Scene::canned(bucket, object);
        for (who, expected) in [("bob", of_bob), ("", of_nobody), ("ann", "lwr"), ("operator", "lwr")] {
            let may: String = [(ListBucket, 'l'), (PutObject, 'w'), (GetObject, 'r')]
                .map(|(action, letter)| if scene.allows(who, action) { letter } else { '-' })
                .iter()
                .collect();
            assert_eq!(may, expected, "{bucket:?} {object:?} {who}");
            assert_eq!(scene.allows(who, DeleteObject), scene.allows(who, PutObject));
            let owner = who == "ann" || who == "operator";
            assert_eq!(scene.allows(who, GetObjectAcl), owner, "{who}");
            assert_eq!(scene.allows(who, PutBucketAcl), owner, "{who}");
            assert_eq!(scene.allows(who, Action::PutBucketPolicy), owner, "{who}");
        }
    }
}

#[test]
fn owners_of_objects_in_buckets_of_others() {
    use Action::*;
    let mut scene = Scene::new();
    scene.object_acl = Some(Acl::private(acl_user("bob")));
    for (who, action, allowed) in [
        ("bob", GetObject, true),
        ("bob", PutObjectAcl, true),
        ("bob", PutObjectTagging, true),
        ("bob", ListMultipartUploadParts, true),
        ("bob", DeleteObject, false),
        ("bob", PutObjectRetention, false),
        ("ann", GetObject, false),
        ("ann", GetObjectAcl, false),
        ("ann", PutObjectTagging, true),
        ("ann", DeleteObject, true),
        ("ann", PutObjectRetention, true),
        ("carl", GetObject, false),
        ("carl", GetObjectTagging, false),
        ("", ListMultipartUploadParts, false),
    ] {
        assert_eq!(scene.allows(who, action), allowed, "{who} {action:?}");
    }
    scene.ownership = ObjectOwnership::BucketOwnerEnforced;
    assert!(scene.allows("ann", GetObject) && scene.allows("ann", GetObjectAcl));
    assert!(!scene.allows("bob", GetObject) && !scene.allows("bob", PutObjectTagging));
    scene.bucket_acl = CannedAcl::PublicReadWrite.acl(&acl_user("ann"), &acl_user("ann"));
    assert!(!scene.allows("bob", ListBucket), "lists do not count");
}

#[test]
fn an_owner_without_grants_can_mend_the_list() {
    let mut scene = Scene::new();
    scene.bucket_acl.grants.clear();
    for (action, allowed) in [
        (Action::ListBucket, false),
        (Action::PutObject, false),
        (Action::GetBucketAcl, true),
        (Action::PutBucketAcl, true),
        (Action::DeleteBucket, true),
    ] {
        assert_eq!(scene.allows("ann", action), allowed, "{action:?}");
    }
}

#[test]
fn policies_of_buckets() {
    use Action::*;
    let everyone = r#""*""#;
    let bob = r#"{"AWS":"arn:aws:iam:::user/bob"}"#;
    for (statements, who, action, allowed) in [
        (&[("Allow", everyone, "s3:GetObject", "b/*")][..], "", GetObject, true),
        (&[("Allow", everyone, "s3:GetObject", "b/*")], "bob", PutObject, false),
        (&[("Allow", everyone, "s3:PutObject", "b")], "bob", PutObject, false),
        (&[("Allow", bob, "s3:PutBucketPolicy", "b")], "bob", PutBucketPolicy, true),
        (&[("Allow", bob, "s3:GetObject", "b/*")], "carl", GetObject, false),
        (&[("Deny", everyone, "s3:ListBucket", "b")], "ann", ListBucket, false),
        (&[("Deny", everyone, "s3:GetBucketPublicAccessBlock", "b")], "ann", GetBucketPublicAccessBlock, false),
        (&[("Deny", everyone, "s3:*", "b")], "ann", GetBucketPolicy, true),
        (&[("Deny", everyone, "s3:*", "b")], "ann", DeleteBucketPolicy, true),
        (&[("Deny", everyone, "s3:*", "b")], "ann", GetBucketAcl, false),
        (&[("Deny", everyone, "s3:*", "b"), ("Allow", bob, "s3:*", "b")], "bob", GetBucketPolicy, false),
        (&[("Deny", everyone, "s3:*", "b")], "operator", ListBucket, true),
    ] {
        assert_eq!(Scene::policy(statements).allows(who, action), allowed, "{statements:?} {who} {action:?}");
    }
    let mut binding = Scene::policy(&[("Deny", everyone, "s3:*", "b")]);
    binding.binds_owner = true;
    assert!(!binding.allows("ann", GetBucketPolicy));
    let mut denied = Scene::policy(&[("Deny", everyone, "s3:ListBucket", "b")]);
    denied.bucket_acl = CannedAcl::AuthenticatedRead.acl(&acl_user("ann"), &acl_user("ann"));
    assert!(!denied.allows("bob", ListBucket), "denied though the list allows it");
}

#[test]
fn public_access_is_blocked() {
    use Action::{GetObject, ListBucket};
    let everyone = r#""*""#;
    let restricted = PublicAccessBlock { restrict_public_buckets: true, ..PublicAccessBlock::default() };
    let mut scene = Scene::policy(&[("Allow", everyone, "s3:GetObject", "b/*")]);
    assert!(scene.allows("", GetObject));
    scene.block = restricted;
    assert_eq!(scene.judge("", GetObject), Access::Denied(DeniedBy::PublicAccessBlock));
    assert_eq!(scene.judge("bob", GetObject), Access::Denied(DeniedBy::PublicAccessBlock));
    assert!(scene.allows("ann", GetObject));
    let mut named = Scene::policy(&[("Allow", r#"{"AWS":"arn:aws:iam:::user/bob"}"#, "s3:GetObject", "b/*")]);
    named.block = restricted;
    assert!(named.allows("bob", GetObject), "the policy is not public");

    let mut scene = Scene::canned(CannedAcl::PublicRead, CannedAcl::PublicRead);
    scene.block = PublicAccessBlock { ignore_public_acls: true, ..PublicAccessBlock::default() };
    for action in [GetObject, ListBucket] {
        assert_eq!(scene.judge("bob", action), Access::Denied(DeniedBy::PublicAccessBlock));
        assert!(scene.allows("ann", action));
    }
}

#[test]
fn policies_of_users() {
    use Action::*;
    let allow = || Scene::new().with_user_policy("Allow", "s3:*");
    for (scene, who, action, allowed, case) in [
        (allow(), "ann/kid", PutObject, true, "in the bucket of the account"),
        (allow(), "ann/kid", PutBucketPolicy, true, "in the bucket of the account"),
        (allow(), "bob/kid", PutObject, false, "a policy of one's own opens no bucket of others"),
        (allow(), "bob", GetObject, false, "a policy of one's own opens no bucket of others"),
        (Scene::new(), "ann/kid", PutObject, false, "without a policy there is no right"),
        (Scene::new(), "ann/kid", GetBucketPolicy, false, "without a policy there is no right"),
        (Scene::new().with_user_policy("Deny", "s3:Put*"), "ann", PutObject, false, "the root user is denied, too"),
        (Scene::new().with_user_policy("Deny", "s3:Put*"), "ann", GetObject, true, "not denied"),
    ] {
        assert_eq!(scene.allows(who, action), allowed, "{case}: {who} {action:?}");
    }
    let mut new_object = allow();
    new_object.object_acl = None;
    assert!(new_object.allows("ann/kid", PutObject));
    assert!(!new_object.allows("bob/kid", PutObject), "a policy of one's own opens no bucket of others");
    let bucket_allows = || Scene::policy(&[("Allow", r#""*""#, "s3:GetObject", "b/*")]);
    assert!(bucket_allows().allows("ann/kid", GetObject), "in one account either policy suffices");
    assert!(!bucket_allows().allows("bob/kid", GetObject), "between accounts both are needed");
    assert!(bucket_allows().with_user_policy("Allow", "s3:Get*").allows("bob/kid", GetObject));
    let lists = || Scene::canned(CannedAcl::PublicRead, CannedAcl::PublicRead);
    assert!(!lists().allows("bob/kid", GetObject), "a list gives rights to the account");
    assert!(lists().with_user_policy("Allow", "s3:Get*").allows("bob/kid", GetObject));
    let mut of_another = allow();
    of_another.object_acl = Some(Acl::private(acl_user("bob")));
    assert!(!of_another.allows("ann/kid", GetObject), "the object is another account's");
    assert!(of_another.allows("ann/kid", DeleteObject) == of_another.allows("ann", DeleteObject));
}

#[test]
fn requests_without_a_bucket() {
    let context = Context::default();
    let resource = ResourceArn::service("");
    for (who, policies, action, allowed) in [
        ("ann", None, Action::ListAllMyBuckets, true),
        ("ann", None, Action::CreateBucket, true),
        ("", None, Action::CreateBucket, false),
        ("", None, Action::ListAllMyBuckets, false),
        ("ann/kid", None, Action::CreateBucket, false),
        ("ann/kid", Some(("Allow", "s3:*")), Action::CreateBucket, true),
        ("ann", Some(("Deny", "s3:CreateBucket")), Action::CreateBucket, false),
        ("ann", None, Action::DeleteBucket, false),
        ("ann", None, Action::PutBucketAcl, true),
        ("ann", Some(("Deny", "s3:PutBucketAcl")), Action::PutBucketAcl, false),
        ("ann", Some(("Deny", "s3:PutBucketAcl")), Action::CreateBucket, true),
        ("ann", None, Action::PutBucketObjectLockConfiguration, true),
        ("", None, Action::PutBucketOwnershipControls, false),
        ("ann/kid", None, Action::PutBucketVersioning, false),
    ] {
        let scene = policies.map(|(effect, action)| Scene::new().with_user_policy(effect, action));
        let user_policy = scene.and_then(|scene| scene.user_policy);
        let access = judge(&AccessRequest {
            identity: &identity(who),
            action,
            resource: &resource,
            context: &context,
            user_policies: user_policy.as_slice(),
            requester_pays: false,
            bucket: None,
            object: None,
        });
        assert_eq!(access.is_allowed(), allowed, "{who} {action:?}");
    }
}

#[test]
fn absence_is_told_to_those_who_may_list() {
    let text = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"*"},
        "Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{"s3:prefix":"public/*"}}}}"#;
    let mut scene = Scene::new();
    scene.object_acl = None;
    scene.policy = Some(Policy::parse(text, PolicyKind::Bucket, "").unwrap());
    let may_know = |scene: &Scene, who: &str, key: &str| {
        let bucket = ResourceArn::bucket("", "b");
        scene.ask(who, Action::GetObject, |request| judge_absent(request, &bucket, key)).is_allowed()
    };
    assert!(may_know(&scene, "bob", "public/object"));
    assert!(!may_know(&scene, "bob", "private/object"));
    assert!(may_know(&scene, "ann", "private/object"));
    let mut denied = Scene::policy(&[("Deny", r#""*""#, "s3:GetObject", "b/*")]);
    denied.object_acl = None;
    assert!(!may_know(&denied, "ann", "k"));
}

#[test]
fn requesters_pay() {
    let mut scene = Scene::canned(CannedAcl::PublicRead, CannedAcl::PublicRead);
    scene.requesters_pay = true;
    for (says_so, who, allowed) in [
        (false, "ann", true),
        (false, "bob", false),
        (false, "", false),
        (true, "ann", true),
        (true, "bob", true),
        (true, "", false),
        (false, "operator", true),
    ] {
        scene.says_so = says_so;
        assert_eq!(scene.allows(who, Action::GetObject), allowed, "{says_so} {who}");
    }
    scene.says_so = false;
    assert_eq!(scene.judge("bob", Action::ListBucket), Access::Denied(DeniedBy::RequesterPays));
}

#[test]
fn the_reason_is_told() {
    let scene = Scene::policy(&[("Allow", r#""*""#, "s3:GetObject", "b/*"), ("Deny", r#""*""#, "s3:PutObject", "b/*")]);
    let statement = |index| StatementRef { index, sid: None };
    assert_eq!(scene.judge("", Action::GetObject), Access::Allowed(AllowedBy::BucketPolicy(statement(0))));
    let denied = scene.judge("ann", Action::PutObject);
    assert_eq!(denied, Access::Denied(DeniedBy::BucketPolicy(statement(1))));
    assert_eq!(denied.into_result().unwrap_err().code, S3Code::AccessDenied);
    assert_eq!(scene.judge("ann", Action::ListBucket), Access::Allowed(AllowedBy::BucketAcl(Permission::Read)));
    assert_eq!(scene.judge("ann", Action::GetBucketCORS), Access::Allowed(AllowedBy::Ownership));
    assert_eq!(scene.judge("bob", Action::GetBucketCORS), Access::Denied(DeniedBy::Default));
    assert_eq!(scene.judge("operator", Action::GetBucketCORS), Access::Allowed(AllowedBy::Operator));
}

/// Grant with a permission to somebody of a few.
fn grant() -> impl Strategy<Value = Grant> {
    let permission = prop_oneof![
        Just(Permission::Read),
        Just(Permission::Write),
        Just(Permission::ReadAcp),
        Just(Permission::WriteAcp),
        Just(Permission::FullControl),
    ];
    ("ann|bob|carl|all|authenticated", permission).prop_map(|(who, permission)| match who.as_str() {
        "all" => Grant::to_group(crate::acl::Group::AllUsers, permission),
        "authenticated" => Grant::to_group(crate::acl::Group::AuthenticatedUsers, permission),
        user => Grant::to_user(acl_user(user), permission),
    })
}

proptest! {
    #[test]
    fn blocks_and_denials_never_allow_more(
        bucket_grants in proptest::collection::vec(grant(), 0..4),
        object_grants in proptest::collection::vec(grant(), 0..4),
        who in "|ann|bob|ann/kid|bob/kid",
        action in 0usize..Action::ALL.len(),
        allow in any::<bool>(),
        blocks in any::<[bool; 2]>(),
        further in prop_oneof![Just("s3:*"), Just("s3:Get*"), Just("s3:PutObject")],
    ) {
        let action = Action::ALL[action];
        let effect = if allow { "Allow" } else { "Deny" };
        let mut scene = Scene::policy(&[(effect, r#""*""#, "s3:*Object*", "b/*")]);
        scene.bucket_acl.grants = bucket_grants;
        scene.object_acl.as_mut().unwrap().grants = object_grants;
        let before = scene.allows(&who, action);

        let mut blocked = Scene::policy(&[(effect, r#""*""#, "s3:*Object*", "b/*")]);
        blocked.bucket_acl = scene.bucket_acl.clone();
        blocked.object_acl = scene.object_acl.clone();
        blocked.block =
            PublicAccessBlock { ignore_public_acls: blocks[0], restrict_public_buckets: blocks[1], ..blocked.block };
        prop_assert!(before || !blocked.allows(&who, action));

        let mut denied = Scene::policy(&[
            (effect, r#""*""#, "s3:*Object*", "b/*"),
            ("Deny", r#""*""#, further, "b/*"),
        ]);
        denied.bucket_acl = scene.bucket_acl.clone();
        denied.object_acl = scene.object_acl.clone();
        prop_assert!(before || !denied.allows(&who, action));

        let user_denied = scene.with_user_policy("Deny", "*");
        prop_assert!(!user_denied.allows(&who, action));
    }
}
