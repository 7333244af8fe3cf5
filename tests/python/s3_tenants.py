"""boto3 as users of two tenants and of none, at two gateways: names of their own, and ways to what others have. Prints
the parts that are done.

Words: the endpoints of both gateways, then access key and secret of the user `ann` of the tenants `acme` and `zeta`,
and of the user `ann` in no tenant.
"""

import json
import sys
import urllib.error
import urllib.request

import boto3
import botocore.config
import botocore.exceptions
import botocore.handlers

FIRST, SECOND, *KEYS = sys.argv[1:]


def client(endpoint, access, secret):
    config = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    made = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
                        region_name="us-east-1", config=config)
    # boto3 knows no names with a colon.
    made.meta.events.unregister("before-parameter-build.s3", botocore.handlers.validate_bucket_name)
    return made


def code(call, **request):
    try:
        call(**request)
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
    return None


def body(one, bucket, key="k"):
    return one.get_object(Bucket=bucket, Key=key)["Body"].read().decode()


def names_are_a_tenants_own(acme, zeta, nobody):
    for one, text in [(acme, "acme"), (zeta, "zeta"), (nobody, "nobody")]:
        one.create_bucket(Bucket="photos")
        one.put_object(Bucket="photos", Key="k", Body=text.encode())
    acme.create_bucket(Bucket="acme-alone")
    for one, text, buckets in [(acme, "acme", ["acme-alone", "photos"]), (zeta, "zeta", ["photos"]),
                               (nobody, "nobody", ["photos"])]:
        assert body(one, "photos") == text, text
        assert [bucket["Name"] for bucket in one.list_buckets()["Buckets"]] == buckets, buckets
        found = one.list_objects_v2(Bucket="photos")
        assert (found["Name"], [entry["Key"] for entry in found["Contents"]]) == ("photos", ["k"]), found
    assert code(zeta.head_bucket, Bucket="acme-alone") == "404"
    for name in ["acme:photos", "acme:another", ":another", "a-b:another", "acme:No_Name"]:
        refusal = code(zeta.create_bucket, Bucket=name)
        assert refusal in {"AccessDenied", "BucketAlreadyExists", "InvalidBucketName"}, (name, refusal)
    assert code(acme.create_bucket, Bucket="acme:named") is None
    acme.delete_bucket(Bucket="named")
    copied = acme.copy_object(Bucket="acme-alone", Key="copy", CopySource={"Bucket": "photos", "Key": "k"})
    assert copied["CopyObjectResult"]["ETag"] and body(acme, "acme-alone", "copy") == "acme"
    print("names_are_a_tenants_own", flush=True)


def policy(one, bucket, principal, *actions):
    statement = {"Effect": "Allow", "Principal": principal, "Action": list(actions),
                 "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"]}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    one.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))


def others_get_in_by_rules(acme, zeta, nobody):
    assert code(zeta.get_object, Bucket="acme:photos", Key="k") == "AccessDenied"
    assert code(nobody.get_object, Bucket="acme:photos", Key="k") == "AccessDenied"
    assert code(zeta.get_object, Bucket=":photos", Key="k") == "AccessDenied"
    policy(acme, "photos", {"AWS": "arn:aws:iam::zeta:user/ann"}, "s3:GetObject", "s3:ListBucket")
    assert body(zeta, "acme:photos") == "acme" and body(zeta, "photos") == "zeta"
    assert [entry["Key"] for entry in zeta.list_objects(Bucket="acme:photos")["Contents"]] == ["k"]
    # The user of the same name in no tenant is somebody else.
    assert code(nobody.get_object, Bucket="acme:photos", Key="k") == "AccessDenied"
    assert code(zeta.put_object, Bucket="acme:photos", Key="new", Body=b"x") == "AccessDenied"
    # A policy speaks of its own tenant's buckets alone.
    other = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                                                     "Resource": "arn:aws:s3::zeta:photos/*"}]}
    assert code(acme.put_bucket_policy, Bucket="photos", Policy=json.dumps(other)) == "MalformedPolicy"
    nobody.put_object_acl(Bucket="photos", Key="k", GrantRead='id="zeta$ann"', GrantFullControl='id="ann"')
    assert body(zeta, ":photos") == "nobody"
    assert code(acme.get_object, Bucket=":photos", Key="k") == "AccessDenied"
    owner = acme.get_bucket_acl(Bucket="photos")["Owner"]
    assert owner["ID"] == "acme$ann", owner
    print("others_get_in_by_rules", flush=True)


def fetched(path, **headers):
    """Status and headers of a request without a key."""
    request = urllib.request.Request(FIRST + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, ""


def requests_without_a_key_name_the_tenant(acme, nobody):
    acme.put_object_acl(Bucket="photos", Key="k", ACL="public-read")
    assert fetched("/acme:photos/k")[::2] == (200, "acme")
    assert fetched("/acme%3Aphotos/k")[::2] == (200, "acme")
    assert fetched("/photos/k")[0] == 403
    for name in ["/nobody:photos/k", "/acme:absent/k", "/:absent/k"]:
        assert fetched(name)[0] == 404, name
    cors = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://page.test"]}]}
    acme.put_bucket_cors(Bucket="photos", CORSConfiguration=cors)
    origin = {"Origin": "https://page.test"}
    assert fetched("/acme:photos/k", **origin)[1]["access-control-allow-origin"] == "https://page.test"
    # The address has the key of one of the tenant.
    signed = acme.generate_presigned_url("get_object", {"Bucket": "photos", "Key": "k"}).removeprefix(FIRST)
    status, headers, text = fetched(signed, **origin)
    assert (status, text, headers["access-control-allow-origin"]) == (200, "acme", "https://page.test"), headers
    signed = nobody.generate_presigned_url("get_object", {"Bucket": "photos", "Key": "k"}).removeprefix(FIRST)
    status, headers, text = fetched(signed, **origin)
    assert (status, text, headers["access-control-allow-origin"]) == (200, "nobody", None), headers
    # A key without a signature does not tell who asks: neither whose bucket is read, nor whose rules let pages see it.
    nobody.put_object_acl(Bucket="photos", Key="k", ACL="public-read")
    status, headers, text = fetched(f"/photos/k?X-Amz-Credential={KEYS[0]}/x", **origin)
    assert (status, text, headers["access-control-allow-origin"]) == (200, "nobody", None), headers
    print("requests_without_a_key_name_the_tenant", flush=True)


def what_is_made_here_is_there(acme, elsewhere):
    acme.put_object(Bucket="photos", Key="late", Body=b"late")
    assert body(elsewhere, "photos", "late") == body(elsewhere, "acme:photos", "late") == "late"
    upload = elsewhere.create_multipart_upload(Bucket="photos", Key="parts")["UploadId"]
    part = acme.upload_part(Bucket="photos", Key="parts", UploadId=upload, PartNumber=1, Body=b"part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    acme.complete_multipart_upload(Bucket="photos", Key="parts", UploadId=upload, MultipartUpload=parts)
    assert body(elsewhere, "photos", "parts") == "part"
    elsewhere.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
    assert acme.get_bucket_versioning(Bucket="photos")["Status"] == "Enabled"
    print("what_is_made_here_is_there", flush=True)


ACME, ZETA, NOBODY = (client(FIRST, KEYS[at], KEYS[at + 1]) for at in (0, 2, 4))
names_are_a_tenants_own(ACME, ZETA, NOBODY)
others_get_in_by_rules(ACME, ZETA, NOBODY)
requests_without_a_key_name_the_tenant(ACME, NOBODY)
what_is_made_here_is_there(ACME, client(SECOND, *KEYS[:2]))
