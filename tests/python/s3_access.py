"""Rules of buckets by boto3: `s3_access.py ENDPOINT OTHER_ENDPOINT OWNER_KEY OWNER_SECRET GUEST_KEY GUEST_SECRET`.

The owner's user is `owner`, the guest's `guest`. Two gateways serve the same buckets. Prints a line for each part that
went well, and ends with an error at the first one that did not.
"""

import json
import sys
import time
import urllib.error
import urllib.request

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

FIRST, SECOND = sys.argv[1:3]
# Time for which a gateway may act on settings that another one has changed.
SETTLED_S = 3.5
ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"


def client(endpoint, access=None, secret=None):
    """A client that asks once; without a key an anonymous one."""
    signature = "s3v4" if access else UNSIGNED
    config = Config(signature_version=signature, s3={"addressing_style": "path"}, retries={"max_attempts": 0})
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
                        region_name="us-east-1", config=config)


OWNER, GUEST = client(FIRST, *sys.argv[3:5]), client(FIRST, *sys.argv[5:7])
ANYBODY = client(FIRST)


def outcome(call, **args):
    """The code of the error of a call, or "ok"."""
    try:
        call(**args)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return "AccessDenied" if code == "403" else code
    return "ok"


def refused(code, call, **args):
    got = outcome(call, **args)
    assert got == code, f"{call} {args}: {got} in place of {code}"


# Operations, each as a function of a client, that change nothing that a later one needs.
OPERATIONS = {
    "s3:ListBucket": [lambda c: c.list_objects_v2(Bucket="shop"), lambda c: c.list_objects(Bucket="shop"),
                      lambda c: c.head_bucket(Bucket="shop")],
    "s3:ListBucketVersions": [lambda c: c.list_object_versions(Bucket="shop")],
    "s3:ListBucketMultipartUploads": [lambda c: c.list_multipart_uploads(Bucket="shop")],
    "s3:GetBucketLocation": [lambda c: c.get_bucket_location(Bucket="shop")],
    "s3:GetBucketVersioning": [lambda c: c.get_bucket_versioning(Bucket="shop")],
    "s3:GetBucketAcl": [lambda c: c.get_bucket_acl(Bucket="shop")],
    "s3:PutBucketAcl": [lambda c: c.put_bucket_acl(Bucket="shop", ACL="private")],
    "s3:GetBucketTagging": [lambda c: c.get_bucket_tagging(Bucket="shop")],
    "s3:PutBucketTagging": [lambda c: c.put_bucket_tagging(
        Bucket="shop", Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})],
    "s3:GetBucketCORS": [lambda c: c.get_bucket_cors(Bucket="shop")],
    "s3:GetBucketRequestPayment": [lambda c: c.get_bucket_request_payment(Bucket="shop")],
    "s3:GetObject": [lambda c: c.get_object(Bucket="shop", Key="k"), lambda c: c.head_object(Bucket="shop", Key="k"),
                     lambda c: c.get_object(Bucket="shop", Key="k", Range="bytes=99-")],
    "s3:GetObjectAcl": [lambda c: c.get_object_acl(Bucket="shop", Key="k")],
    "s3:PutObjectAcl": [lambda c: c.put_object_acl(Bucket="shop", Key="k", ACL="private")],
    "s3:GetObjectTagging": [lambda c: c.get_object_tagging(Bucket="shop", Key="k")],
    "s3:PutObjectTagging": [lambda c: c.put_object_tagging(
        Bucket="shop", Key="k", Tagging={"TagSet": [{"Key": "t", "Value": "1"}]})],
    "s3:DeleteObjectTagging": [lambda c: c.delete_object_tagging(Bucket="shop", Key="k")],
    "s3:PutObject": [lambda c: c.put_object(Bucket="shop", Key="new", Body=b"x"),
                     lambda c: c.create_multipart_upload(Bucket="shop", Key="parts")],
    "s3:DeleteObject": [lambda c: c.delete_object(Bucket="shop", Key="new")],
}


def policy(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def statement(effect, action, principal="*"):
    return {"Effect": effect, "Principal": principal, "Action": action,
            "Resource": ["arn:aws:s3:::shop", "arn:aws:s3:::shop/*"]}


def allowed(code):
    """True if a request was not refused by the rules, whatever else became of it."""
    return code not in ("AccessDenied", "Forbidden")


def operations():
    """Every operation by the owner, a guest and nobody; by a policy that allows it, and one that denies it, too."""
    OWNER.create_bucket(Bucket="shop")
    OWNER.put_object(Bucket="shop", Key="k", Body=b"v")
    for action, calls in OPERATIONS.items():
        for number, call in enumerate(calls):
            def by(who, call=call):
                return allowed(outcome(lambda: call(who)))

            what = f"{action} {number}"
            assert (by(OWNER), by(GUEST), by(ANYBODY)) == (True, False, False), what
            guest = {"AWS": "arn:aws:iam:::user/guest"}
            OWNER.put_bucket_policy(Bucket="shop", Policy=policy(statement("Allow", action, guest)))
            assert (by(OWNER), by(GUEST), by(ANYBODY)) == (True, True, False), f"{what} allowed to the guest"
            both = policy(statement("Allow", action), statement("Deny", action, guest))
            OWNER.put_bucket_policy(Bucket="shop", Policy=both)
            assert (by(OWNER), by(GUEST), by(ANYBODY)) == (True, False, True), f"{what} denied to the guest"
            OWNER.put_bucket_policy(Bucket="shop", Policy=policy(statement("Deny", action)))
            assert (by(OWNER), by(GUEST), by(ANYBODY)) == (False, False, False), f"{what} denied to all"
            OWNER.delete_bucket_policy(Bucket="shop")
    refused("NoSuchBucketPolicy", OWNER.get_bucket_policy, Bucket="shop")
    refused("AccessDenied", GUEST.delete_bucket, Bucket="shop")
    refused("NoSuchBucket", GUEST.list_objects_v2, Bucket="none")
    # One who may not list the bucket does not learn which keys there are.
    refused("AccessDenied", GUEST.get_object, Bucket="shop", Key="none")
    refused("NoSuchKey", OWNER.get_object, Bucket="shop", Key="none")
    assert ANYBODY.list_buckets()["Buckets"] == [] and GUEST.list_buckets()["Buckets"] == []


def documents():
    """Settings come back as they were set, and bad ones are refused and change nothing."""
    OWNER.create_bucket(Bucket="settings")
    at = {"Bucket": "settings"}
    for code, call in (
        ("NoSuchBucketPolicy", OWNER.get_bucket_policy), ("NoSuchTagSet", OWNER.get_bucket_tagging),
        ("NoSuchCORSConfiguration", OWNER.get_bucket_cors),
        ("OwnershipControlsNotFoundError", OWNER.get_bucket_ownership_controls),
        ("NoSuchPublicAccessBlockConfiguration", OWNER.get_public_access_block),
        ("NoSuchLifecycleConfiguration", OWNER.get_bucket_lifecycle_configuration),
        ("ServerSideEncryptionConfigurationNotFoundError", OWNER.get_bucket_encryption),
        ("ObjectLockConfigurationNotFoundError", OWNER.get_object_lock_configuration),
        ("NoSuchWebsiteConfiguration", OWNER.get_bucket_website),
    ):
        refused(code, call, **at)
    tags = [{"Key": "team", "Value": "ä b"}, {"Key": "x", "Value": ""}]
    OWNER.put_bucket_tagging(Tagging={"TagSet": tags}, **at)
    assert OWNER.get_bucket_tagging(**at)["TagSet"] == tags
    refused("InvalidTag", OWNER.put_bucket_tagging, Tagging={"TagSet": [{"Key": "aws:x", "Value": "1"}]}, **at)
    assert OWNER.get_bucket_tagging(**at)["TagSet"] == tags
    OWNER.delete_bucket_tagging(**at)
    refused("NoSuchTagSet", OWNER.get_bucket_tagging, **at)
    text = policy(statement("Allow", "s3:GetObject")).replace(":::shop", ":::settings")
    OWNER.put_bucket_policy(Policy=text, **at)
    assert OWNER.get_bucket_policy(**at)["Policy"] == text
    assert OWNER.get_bucket_policy_status(**at)["PolicyStatus"]["IsPublic"] is True
    refused("MalformedPolicy", OWNER.put_bucket_policy, Policy="{}", **at)
    assert OWNER.get_bucket_policy(**at)["Policy"] == text
    block = {"BlockPublicAcls": True, "IgnorePublicAcls": False, "BlockPublicPolicy": True,
             "RestrictPublicBuckets": False}
    OWNER.put_public_access_block(PublicAccessBlockConfiguration=block, **at)
    assert OWNER.get_public_access_block(**at)["PublicAccessBlockConfiguration"] == block
    refused("AccessDenied", OWNER.put_bucket_policy, Policy=text, **at)
    refused("AccessDenied", OWNER.put_bucket_acl, ACL="public-read", **at)
    refused("AccessDenied", OWNER.put_object, Key="k", Body=b"", ACL="public-read", **at)
    OWNER.delete_public_access_block(**at)
    OWNER.put_bucket_request_payment(RequestPaymentConfiguration={"Payer": "Requester"}, **at)
    assert OWNER.get_bucket_request_payment(**at)["Payer"] == "Requester"
    refused("MalformedXML", OWNER.put_bucket_request_payment, RequestPaymentConfiguration={"Payer": "Me"}, **at)
    site = {"IndexDocument": {"Suffix": "index.html"}}
    refused("AccessDenied", GUEST.put_bucket_website, WebsiteConfiguration=site, **at)
    OWNER.put_bucket_website(WebsiteConfiguration=site, **at)
    assert OWNER.get_bucket_website(**at)["IndexDocument"] == site["IndexDocument"]
    OWNER.delete_bucket_website(**at)
    refused("NoSuchWebsiteConfiguration", OWNER.get_bucket_website, **at)
    def encryption(algorithm):
        rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": algorithm}}
        return {"ServerSideEncryptionConfiguration": {"Rules": [rule]}, **at}

    for algorithm in ["AES256", "aws:kms"]:
        refused("AccessDenied", GUEST.put_bucket_encryption, **encryption(algorithm))
    # These gateways have no master key, and no key management service.
    refused("InvalidRequest", OWNER.put_bucket_encryption, **encryption("AES256"))
    OWNER.put_bucket_encryption(**encryption("aws:kms"))
    found = OWNER.get_bucket_encryption(**at)["ServerSideEncryptionConfiguration"]["Rules"]
    assert found[0]["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms"}, found
    refused("InvalidArgument", OWNER.put_object, Key="plain", Body=b"x", **at)
    for call in [GUEST.get_bucket_encryption, GUEST.delete_bucket_encryption]:
        refused("AccessDenied", call, **at)
    OWNER.delete_bucket_encryption(**at)
    refused("ServerSideEncryptionConfigurationNotFoundError", OWNER.get_bucket_encryption, **at)
    rules = {"Rules": [{"ID": "r", "Status": "Enabled", "Prefix": "never/", "Expiration": {"Days": 1}}]}
    refused("AccessDenied", GUEST.put_bucket_lifecycle_configuration, LifecycleConfiguration=rules, **at)
    OWNER.put_bucket_lifecycle_configuration(LifecycleConfiguration=rules, **at)
    assert OWNER.get_bucket_lifecycle_configuration(**at)["Rules"] == rules["Rules"]
    OWNER.delete_bucket_lifecycle(**at)
    refused("NoSuchLifecycleConfiguration", OWNER.get_bucket_lifecycle_configuration, **at)


def lists():
    """Access control lists, canned and by grants, of buckets and objects; ownership."""
    at = {"Bucket": "lists"}
    OWNER.create_bucket(ACL="public-read-write", **at)
    ANYBODY.put_object(Key="nobody's", Body=b"n", **at)
    GUEST.put_object(Key="guest's", Body=b"g", **at)
    # The writer owns what he has written, and the bucket's owner does not read it.
    refused("AccessDenied", OWNER.get_object, Key="guest's", **at)
    owners = {o["Key"]: o["Owner"]["ID"] for o in OWNER.list_objects(**at)["Contents"]}
    assert owners == {"guest's": "guest", "nobody's": "anonymous"}, owners
    GUEST.put_object(Key="shared", Body=b"s", ACL="bucket-owner-full-control", **at)
    assert OWNER.get_object(Key="shared", **at)["Body"].read() == b"s"
    grants = OWNER.get_object_acl(Key="shared", **at)
    assert grants["Owner"] == {"ID": "guest", "DisplayName": "The guest"}, grants
    assert sorted(g["Grantee"]["ID"] for g in grants["Grants"]) == ["guest", "owner"]
    OWNER.put_object(Key="k", Body=b"v", GrantRead='emailAddress="guest@e.com"', **at)
    assert GUEST.get_object(Key="k", **at)["Body"].read() == b"v"
    refused("AccessDenied", ANYBODY.get_object, Key="k", **at)
    OWNER.put_object_acl(Key="k", ACL="public-read", **at)
    assert ANYBODY.get_object(Key="k", **at)["Body"].read() == b"v"
    refused("UnresolvableGrantByEmailAddress", OWNER.put_object_acl, Key="k", GrantRead='emailAddress="x@e.com"', **at)
    refused("InvalidArgument", OWNER.put_object_acl, Key="k", GrantRead='id="unknown"', **at)
    own = {"Grantee": {"Type": "CanonicalUser", "ID": "owner"}, "Permission": "FULL_CONTROL"}
    everybody = {"Grantee": {"Type": "Group", "URI": ALL_USERS}, "Permission": "READ"}
    listed = {"Owner": {"ID": "owner"}, "Grants": [own, everybody]}
    OWNER.put_bucket_acl(AccessControlPolicy=listed, **at)
    ANYBODY.list_objects_v2(**at)
    refused("AccessDenied", GUEST.put_object, Key="k", Body=b"", **at)
    refused("AccessDenied", OWNER.put_bucket_acl, AccessControlPolicy={**listed, "Owner": {"ID": "guest"}}, **at)
    owned = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    refused("InvalidBucketAclWithObjectOwnership", OWNER.put_bucket_ownership_controls, OwnershipControls=owned, **at)
    OWNER.put_bucket_acl(ACL="private", **at)
    OWNER.put_bucket_ownership_controls(OwnershipControls=owned, **at)
    assert OWNER.get_bucket_ownership_controls(**at)["OwnershipControls"] == owned
    # Lists count no more: the owner of the bucket has everything.
    assert OWNER.get_object(Key="guest's", **at)["Body"].read() == b"g"
    refused("AccessDenied", ANYBODY.get_object, Key="k", **at)
    refused("AccessControlListNotSupported", OWNER.put_object_acl, Key="k", ACL="public-read", **at)
    # A copy is a new object: it has the list that is asked for, or a private one.
    OWNER.create_bucket(Bucket="copies")
    copy = {"Bucket": "copies", "Key": "c", "CopySource": {"Bucket": "lists", "Key": "guest's"}}
    OWNER.copy_object(ACL="public-read", **copy)
    assert ANYBODY.get_object(Bucket="copies", Key="c")["Body"].read() == b"g"
    refused("AccessDenied", GUEST.copy_object, **copy)


def tags():
    at = {"Bucket": "shop", "Key": "tagged"}
    OWNER.put_object(Body=b"t" * 5_000_000, Tagging="kind=open&n=1", **at)
    assert OWNER.get_object_tagging(**at)["TagSet"] == [{"Key": "kind", "Value": "open"}, {"Key": "n", "Value": "1"}]
    assert OWNER.get_object(**at)["TagCount"] == 2
    conditional = statement("Allow", "s3:GetObject")
    conditional["Condition"] = {"StringEquals": {"s3:ExistingObjectTag/kind": "open"}}
    OWNER.put_bucket_policy(Bucket="shop", Policy=policy(conditional))
    assert len(ANYBODY.get_object(**at)["Body"].read()) == 5_000_000
    etag = OWNER.head_object(**at)["ETag"]
    OWNER.put_object_tagging(Tagging={"TagSet": [{"Key": "kind", "Value": "shut"}]}, **at)
    refused("AccessDenied", ANYBODY.get_object, **at)
    OWNER.copy_object(Bucket="shop", Key="copy", CopySource=at)
    assert OWNER.get_object_tagging(Bucket="shop", Key="copy")["TagSet"] == [{"Key": "kind", "Value": "shut"}]
    OWNER.copy_object(Bucket="shop", Key="copy", CopySource=at, Tagging="a=b", TaggingDirective="REPLACE")
    assert OWNER.get_object_tagging(Bucket="shop", Key="copy")["TagSet"] == [{"Key": "a", "Value": "b"}]
    OWNER.delete_object_tagging(**at)
    assert OWNER.get_object_tagging(**at)["TagSet"] == []
    assert OWNER.head_object(**at)["ETag"] == etag
    refused("InvalidTag", OWNER.put_object, Body=b"", Tagging="&".join(f"{n}=1" for n in range(11)), **at)
    refused("NoSuchKey", OWNER.put_object_tagging, Bucket="shop", Key="none", Tagging={"TagSet": []})
    upload = OWNER.create_multipart_upload(Bucket="shop", Key="up", Tagging="u=1", ACL="public-read")["UploadId"]
    place = {"Bucket": "shop", "Key": "up", "UploadId": upload}
    refused("AccessDenied", GUEST.upload_part, PartNumber=1, Body=b"x", **place)
    refused("AccessDenied", GUEST.list_parts, **place)
    part = OWNER.upload_part(PartNumber=1, Body=b"x", **place)
    OWNER.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}, **place)
    assert OWNER.get_object_tagging(Bucket="shop", Key="up")["TagSet"] == [{"Key": "u", "Value": "1"}]
    OWNER.delete_bucket_policy(Bucket="shop")
    assert ANYBODY.get_object(Bucket="shop", Key="up")["Body"].read() == b"x"


def ask(method, url, **headers):
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)


def shared():
    """Pages of other origins."""
    url = f"{FIRST}/shop/up"
    asks = {"Origin": "http://e.com", "Access-Control-Request-Method": "GET"}
    assert ask("OPTIONS", url, **asks)[0] == 403
    rules = {"CORSRules": [{"AllowedOrigins": ["http://e.com"], "AllowedMethods": ["GET"], "ExposeHeaders": ["ETag"]}]}
    OWNER.put_bucket_cors(Bucket="shop", CORSConfiguration=rules)
    assert OWNER.get_bucket_cors(Bucket="shop")["CORSRules"] == rules["CORSRules"]
    status, headers = ask("OPTIONS", url, **asks)
    assert (status, headers["access-control-allow-origin"]) == (200, "http://e.com"), headers
    assert ask("OPTIONS", url, **{**asks, "Origin": "http://f.com"})[0] == 403
    for path, wanted in (("up", 200), ("k", 403)):
        status, headers = ask("GET", f"{FIRST}/shop/{path}", Origin="http://e.com")
        assert (status, headers["access-control-allow-origin"]) == (wanted, "http://e.com"), headers
    assert "access-control-allow-origin" not in ask("GET", url, Origin="http://f.com")[1]
    # A browser does not sign its preflight, though the address has the signature of the request behind it.
    signed = OWNER.generate_presigned_url("get_object", Params={"Bucket": "shop", "Key": "k"}, ExpiresIn=60)
    assert ask("OPTIONS", signed, **asks)[0] == 200
    assert ask("OPTIONS", signed)[0] == 400
    OWNER.delete_bucket_cors(Bucket="shop")
    assert ask("OPTIONS", url, **asks)[0] == 403


def payers():
    OWNER.create_bucket(Bucket="paid", ACL="public-read")
    OWNER.put_bucket_request_payment(Bucket="paid", RequestPaymentConfiguration={"Payer": "Requester"})
    refused("AccessDenied", ANYBODY.list_objects_v2, Bucket="paid")
    refused("AccessDenied", GUEST.list_objects_v2, Bucket="paid")
    GUEST.list_objects_v2(Bucket="paid", RequestPayer="requester")


def expected_owners():
    """A request names who owns its bucket, and that of a copy's source: with another owner nothing is done."""
    at = {"Bucket": "expected", "Key": "k"}
    OWNER.create_bucket(Bucket="expected", ACL="public-read-write")
    GUEST.create_bucket(Bucket="guests")
    GUEST.put_object(Bucket="guests", Key="k", Body=b"g", ACL="public-read")
    wrong, right = {"ExpectedBucketOwner": "guest"}, {"ExpectedBucketOwner": "owner"}
    refused("AccessDenied", OWNER.put_object, Body=b"v", **at, **wrong)
    refused("NoSuchKey", OWNER.get_object, **at)
    OWNER.put_object(Body=b"v", **at, **right)
    for call in (OWNER.get_object, OWNER.head_object, OWNER.delete_object, OWNER.get_object_acl,
                 OWNER.get_object_tagging, OWNER.create_multipart_upload):
        refused("AccessDenied", call, **at, **wrong)
    for call in (OWNER.list_objects_v2, OWNER.list_objects, OWNER.list_object_versions, OWNER.head_bucket,
                 OWNER.delete_bucket, OWNER.get_bucket_location, OWNER.get_bucket_policy_status):
        refused("AccessDenied", call, Bucket="expected", **wrong)
    tags = {"Tagging": {"TagSet": [{"Key": "a", "Value": "1"}]}}
    refused("AccessDenied", OWNER.put_bucket_tagging, Bucket="expected", **tags, **wrong)
    refused("NoSuchTagSet", OWNER.get_bucket_tagging, Bucket="expected", **right)
    refused("AccessDenied", OWNER.delete_objects, Bucket="expected", Delete={"Objects": [{"Key": "k"}]}, **wrong)
    assert OWNER.get_object(**at, **right)["Body"].read() == b"v"
    copy = {"Bucket": "expected", "CopySource": {"Bucket": "guests", "Key": "k"}}
    refused("AccessDenied", OWNER.copy_object, Key="copy", ExpectedSourceBucketOwner="owner", **copy, **right)
    refused("AccessDenied", OWNER.copy_object, Key="copy", ExpectedSourceBucketOwner="guest", **copy, **wrong)
    refused("NoSuchKey", OWNER.get_object, Bucket="expected", Key="copy")
    OWNER.copy_object(Key="copy", ExpectedSourceBucketOwner="guest", **copy, **right)
    upload = OWNER.create_multipart_upload(**at, **right)["UploadId"]
    part = {**copy, "Key": "k", "UploadId": upload, "PartNumber": 1}
    refused("AccessDenied", OWNER.upload_part_copy, ExpectedSourceBucketOwner="owner", **part, **right)
    assert "Parts" not in OWNER.list_parts(UploadId=upload, **at)
    OWNER.upload_part_copy(ExpectedSourceBucketOwner="guest", **part, **right)
    refused("AccessDenied", OWNER.abort_multipart_upload, UploadId=upload, **at, **wrong)
    OWNER.abort_multipart_upload(UploadId=upload, **at, **right)
    # Kits that put headers into the address they sign.
    for owner, status in (("guest", 403), ("owner", 200)):
        signed = f"{FIRST}/expected?x-amz-expected-bucket-owner={owner}"
        assert ask("GET", signed)[0] == status, owner


def other_gateways():
    """Another gateway acts on new settings after a few seconds."""
    there = client(SECOND)
    refused("AccessDenied", there.list_objects_v2, Bucket="shop")
    OWNER.put_bucket_policy(Bucket="shop", Policy=policy(statement("Allow", "s3:ListBucket")))
    time.sleep(SETTLED_S)
    there.list_objects_v2(Bucket="shop")
    OWNER.delete_bucket_policy(Bucket="shop")
    time.sleep(SETTLED_S)
    refused("AccessDenied", there.list_objects_v2, Bucket="shop")


def hosts():
    """A bucket before the name of the service: both gateways are `s3.test`."""
    for host, path, wanted in (("shop.s3.test", "/up", 200), ("s3.test", "/shop/up", 200), ("shop.s3.test", "/shop/up", 403)):
        assert ask("GET", f"{FIRST}{path}", Host=host)[0] == wanted, host
    assert ask("GET", f"{FIRST}/?acl", Host="shop.s3.test")[0] == 403
    assert ask("GET", f"{FIRST}/?acl", Host="none.s3.test")[0] == 404


for part in (operations, documents, lists, tags, shared, payers, expected_owners, other_gateways, hosts):
    part()
    print(part.__name__, flush=True)
