"""boto3 at two gateways: what buckets and users hold, quotas and rate limits. Prints the parts that are done.

Words: the endpoints of both gateways, access key and secret of the user, the binary, the cluster's ceph.conf.
"""

import json
import subprocess
import sys
import time

import boto3
import botocore.config
import botocore.exceptions

FIRST, SECOND, ACCESS, SECRET, NACRE, CONF = sys.argv[1:]
# Gateways act on former settings, and remember users, for so long.
SETTINGS_S = 6
# A gateway learns within this time what others have written.
USAGE_S = 12


def client(endpoint):
    config = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name="us-east-1", config=config)


def nacre(*words):
    done = subprocess.run([NACRE, "s3", *words, "--conf", CONF], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def stats(kind, name):
    return json.loads(nacre(kind, "stats", name, "--json"))


def refused(code, status, call, **request):
    try:
        call(**request)
    except botocore.exceptions.ClientError as error:
        answer = error.response
        assert answer["Error"]["Code"] == code, answer
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == status, answer
        return answer["ResponseMetadata"]["HTTPHeaders"]
    raise AssertionError(f"{request} is not refused")


def until(what, check, seconds=15):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def holds(bucket, size, objects):
    """Waits until a bucket counts so much: the index follows an answer within milliseconds."""
    def is_so():
        found = stats("bucket", bucket)
        return (found["bytes"], found["objects"]) == (size, objects)
    until(f"{bucket} holds {stats('bucket', bucket)}", is_so)


def counts(one, two):
    one.create_bucket(Bucket="counted")
    for at in range(300):
        (one, two)[at % 2].put_object(Bucket="counted", Key=f"k{at:03}", Body=b"x" * 10)
    holds("counted", 3000, 300)
    for at in range(0, 300, 3):
        two.delete_object(Bucket="counted", Key=f"k{at:03}")
    one.put_object(Bucket="counted", Key="k001", Body=b"y" * 6000000)
    holds("counted", 6000000 + 199 * 10, 200)
    one.put_bucket_versioning(Bucket="counted", VersioningConfiguration={"Status": "Enabled"})
    one.put_object(Bucket="counted", Key="k001", Body=b"z")
    holds("counted", 6000000 + 199 * 10 + 1, 201)
    one.delete_object(Bucket="counted", Key="k001")
    holds("counted", 6000000 + 199 * 10 + 1, 201)
    upload = one.create_multipart_upload(Bucket="counted", Key="parts")["UploadId"]
    part = one.upload_part(Bucket="counted", Key="parts", UploadId=upload, PartNumber=1, Body=b"p" * 1234)
    found = stats("bucket", "counted")
    assert (found["uploads"], found["upload_bytes"]) == (1, 1234), found
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    two.complete_multipart_upload(Bucket="counted", Key="parts", UploadId=upload, MultipartUpload=parts)
    holds("counted", 6000000 + 199 * 10 + 1 + 1234, 202)
    one.create_bucket(Bucket="more")
    one.put_object(Bucket="more", Key="k", Body=b"12345")
    holds("more", 5, 1)
    found = stats("user", "me")
    assert (found["bytes"], found["objects"]) == (6000000 + 199 * 10 + 1240, 203), found
    assert sorted(found["buckets"]) == ["counted", "more"], found
    assert "203 objects" in nacre("user", "stats", "me")
    print("buckets_count", flush=True)


def quotas(one, two):
    one.create_bucket(Bucket="small")
    shown = json.loads(nacre("bucket", "quota", "small", "--max-objects", "5", "--max-size", "1KiB", "--json"))
    assert shown == {"enabled": True, "max_size": 1024, "max_objects": 5}, shown
    time.sleep(SETTINGS_S)
    for at in range(5):
        one.put_object(Bucket="small", Key=f"k{at}", Body=b"x" * 100)
    refused("QuotaExceeded", 403, one.put_object, Bucket="small", Key="k5", Body=b"x")
    one.put_object(Bucket="small", Key="k0", Body=b"x" * 624)
    refused("QuotaExceeded", 403, one.put_object, Bucket="small", Key="k1", Body=b"x" * 101)
    refused("QuotaExceeded", 403, one.put_object, Bucket="small", Key="k1", Body=b"x" * 5000000)
    refused("QuotaExceeded", 403, one.copy_object, Bucket="small", Key="k1", CopySource="counted/parts")
    upload = one.create_multipart_upload(Bucket="small", Key="parts")["UploadId"]
    part = {"Bucket": "small", "Key": "parts", "UploadId": upload, "PartNumber": 1}
    refused("QuotaExceeded", 403, one.upload_part, Body=b"x" * 1025, **part)
    one.abort_multipart_upload(Bucket="small", Key="parts", UploadId=upload)
    # The other gateway counts for itself.
    refused("QuotaExceeded", 403, two.put_object, Bucket="small", Key="k5", Body=b"x")
    one.delete_object(Bucket="small", Key="k0")
    one.put_object(Bucket="small", Key="k0", Body=b"x")
    time.sleep(2)
    two.put_object(Bucket="small", Key="k0", Body=b"x" * 600)
    time.sleep(USAGE_S)
    refused("QuotaExceeded", 403, one.put_object, Bucket="small", Key="k1", Body=b"x" * 200)
    found = stats("bucket", "small")
    assert (found["bytes"], found["objects"], found["quota"]["enabled"]) == (1000, 5, True), found
    nacre("bucket", "quota", "small", "--off")
    time.sleep(SETTINGS_S)
    one.put_object(Bucket="small", Key="k5", Body=b"x" * 2000)
    # A user's quota is about all of its buckets, and one may always write less.
    nacre("user", "quota", "me", "--max-objects", "209")
    time.sleep(SETTINGS_S)
    refused("QuotaExceeded", 403, one.put_object, Bucket="small", Key="k6", Body=b"x")
    refused("QuotaExceeded", 403, two.put_object, Bucket="more", Key="k6", Body=b"x")
    one.put_object(Bucket="small", Key="k5", Body=b"")
    one.delete_object(Bucket="small", Key="k5")
    two.put_object(Bucket="small", Key="k4", Body=b"")
    nacre("user", "quota", "me", "--off")
    print("quotas_bound", flush=True)


def rates(one, two):
    assert "3 writes" in nacre("bucket", "rate", "small", "--writes", "3", "--reads", "4")
    time.sleep(SETTINGS_S)
    for at in range(3):
        one.put_object(Bucket="small", Key="k0", Body=b"x")
    headers = refused("SlowDown", 503, one.put_object, Bucket="small", Key="k0", Body=b"x")
    wait = int(headers["retry-after"])
    assert 1 <= wait <= 20, headers
    for at in range(4):
        one.head_object(Bucket="small", Key="k0")
    refused("SlowDown", 503, one.get_object, Bucket="small", Key="k0")
    # Each gateway counts by itself, and other buckets have no limit.
    two.put_object(Bucket="small", Key="k0", Body=b"x")
    one.put_object(Bucket="more", Key="k0", Body=b"x")
    time.sleep(wait + 1)
    one.put_object(Bucket="small", Key="k0", Body=b"x")
    nacre("bucket", "rate", "small", "--writes", "none", "--reads", "none")
    nacre("user", "rate", "me", "--write-bytes", "1000", "--read-bytes", "1000")
    time.sleep(SETTINGS_S)
    one.put_object(Bucket="more", Key="k0", Body=b"x" * 2000)
    refused("SlowDown", 503, one.put_object, Bucket="more", Key="k0", Body=b"x")
    assert len(one.get_object(Bucket="more", Key="k0")["Body"].read()) == 2000
    refused("SlowDown", 503, one.list_buckets)
    nacre("user", "rate", "me", "--write-bytes", "none", "--read-bytes", "none")
    time.sleep(SETTINGS_S)
    one.list_buckets()
    print("rates_limit", flush=True)


def policies(one, two):
    """Policies of a user bind at all gateways, also one who owns everything."""
    def document(*statements):
        return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})

    def put(name, text, returncode=0):
        words = [NACRE, "s3", "user", "policy", "put", "me", name, "-", "--conf", CONF]
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=60)
        assert done.returncode == returncode, done.stderr
        return done.stderr

    assert "MalformedPolicy" in put("wrong", '{"Statement": []', 1)
    assert "policy's name" in put("a name", document(), 1)
    deny = {"Effect": "Deny", "Resource": "*"}
    keep = document(deny | {"Action": "s3:DeleteObject"}, deny | {"Action": ["s3:CreateBucket", "s3:ListAllMyBuckets"]})
    put("keep", keep)
    put("office", document({"Effect": "Deny", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::more/*",
                            "Condition": {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}}))
    assert nacre("user", "policy", "ls", "me") == "keep\noffice\n"
    assert nacre("user", "policy", "get", "me", "keep").strip() == keep
    time.sleep(SETTINGS_S)
    for gateway in [one, two]:
        gateway.put_object(Bucket="more", Key="kept", Body=b"x")
        refused("AccessDenied", 403, gateway.delete_object, Bucket="more", Key="kept")
        refused("AccessDenied", 403, gateway.get_object, Bucket="more", Key="kept")
        refused("AccessDenied", 403, gateway.list_buckets)
        refused("AccessDenied", 403, gateway.create_bucket, Bucket="another")
        gateway.get_object(Bucket="small", Key="k0")
    for name in ["keep", "office"]:
        nacre("user", "policy", "rm", "me", name)
    time.sleep(SETTINGS_S)
    for gateway in [one, two]:
        gateway.get_object(Bucket="more", Key="kept")
        gateway.list_buckets()
    one.delete_object(Bucket="more", Key="kept")
    print("policies_of_users_bind", flush=True)


def main():
    one, two = client(FIRST), client(SECOND)
    counts(one, two)
    quotas(one, two)
    policies(one, two)
    rates(one, two)


main()
