"""A session of boto3 with two gateways of one cluster: `s3_session.py ACCESS SECRET ENDPOINT ENDPOINT`.

Prints a line for each part that went well, and ends with an error at the first one that did not.
"""

import base64
import datetime
import hashlib
import io
import sys
import threading
import time
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ACCESS, SECRET = sys.argv[1:3]
PART = 5 << 20


def client(endpoint, access=ACCESS, secret=SECRET):
    """A client that tries again by itself, as applications' do."""
    retries = {"max_attempts": 3, "mode": "standard"}
    config = Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries=retries)
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=config,
    )


A, B = (client(endpoint) for endpoint in sys.argv[3:5])


def pattern(size, seed):
    """Bytes that differ from place to place."""
    block = b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(2048))
    return (block * (size // len(block) + 1))[:size]


def refused(code, call, **args):
    """The call is answered by this error."""
    try:
        call(**args)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error
        return
    raise AssertionError(f"{call} {args} was not refused with {code}")


def buckets():
    A.create_bucket(Bucket="first")
    assert [b["Name"] for b in B.list_buckets()["Buckets"]] == ["first"]
    B.head_bucket(Bucket="first")
    refused("NoSuchBucket", A.list_objects_v2, Bucket="none")
    refused("InvalidBucketName", A.create_bucket, Bucket="Not_A_Name")
    refused("InvalidAccessKeyId", client(sys.argv[3], access="NOBODY").list_buckets)
    refused("SignatureDoesNotMatch", client(sys.argv[3], secret="wrong-secret").list_buckets)
    acceleration = {"Status": "Enabled"}
    refused("NotImplemented", A.put_bucket_accelerate_configuration, Bucket="first",
            AccelerateConfiguration=acceleration)


def objects():
    for size in (0, 1, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (9 << 20) + 7):
        data = pattern(size, size)
        key = f"sizes/ä b+{size}"
        put = A.put_object(Bucket="first", Key=key, Body=data, ContentType="text/x-test", Metadata={"size": str(size)})
        assert put["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
        got = B.get_object(Bucket="first", Key=key)
        assert got["Body"].read() == data, size
        assert (got["ContentType"], got["Metadata"]) == ("text/x-test", {"size": str(size)})
        head = B.head_object(Bucket="first", Key=key)
        assert (head["ContentLength"], head["ETag"]) == (size, put["ETag"])
        for first, last in ((0, 0), (1, 100), (4194300, 4194310), (4194304, 9000000), (8388600, 8388620)):
            if first >= size:
                refused("InvalidRange", B.get_object, Bucket="first", Key=key, Range=f"bytes={first}-{last}")
                continue
            part = B.get_object(Bucket="first", Key=key, Range=f"bytes={first}-{last}")
            assert part["Body"].read() == data[first : last + 1], (size, first, last)
            assert part["ContentRange"] == f"bytes {first}-{min(last, size - 1)}/{size}"
        if size:
            assert B.get_object(Bucket="first", Key=key, Range="bytes=-9")["Body"].read() == data[-9:]
    refused("404", B.head_object, Bucket="first", Key="none")
    refused("NoSuchKey", B.get_object, Bucket="first", Key="none")
    etag = A.put_object(Bucket="first", Key="k", Body=b"one")["ETag"]
    refused("PreconditionFailed", B.get_object, Bucket="first", Key="k", IfMatch='"other"')
    refused("304", B.get_object, Bucket="first", Key="k", IfNoneMatch=etag)
    wrong = base64.b64encode(hashlib.md5(b"two").digest()).decode()
    refused("BadDigest", A.put_object, Bucket="first", Key="k", Body=b"three", ContentMD5=wrong)
    assert B.get_object(Bucket="first", Key="k")["Body"].read() == b"one"


def copies():
    data = pattern(9 << 20, 5)
    A.put_object(Bucket="first", Key="from", Body=data, Metadata={"a": "1"})
    B.copy_object(Bucket="first", Key="to", CopySource={"Bucket": "first", "Key": "from"})
    got = A.get_object(Bucket="first", Key="to")
    assert got["Body"].read() == data and got["Metadata"] == {"a": "1"}
    B.copy_object(Bucket="first", Key="to", CopySource={"Bucket": "first", "Key": "to"}, Metadata={"b": "2"},
                  MetadataDirective="REPLACE")
    got = A.get_object(Bucket="first", Key="to")
    assert got["Body"].read() == data and got["Metadata"] == {"b": "2"}


def uploads():
    data = pattern(3 * PART + 12345, 6)
    config = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=3)
    A.upload_fileobj(io.BytesIO(data), "first", "large", Config=config)
    into = io.BytesIO()
    B.download_fileobj("first", "large", into, Config=config)
    assert into.getvalue() == data
    assert B.head_object(Bucket="first", Key="large")["ETag"].endswith('-4"')
    upload = A.create_multipart_upload(Bucket="first", Key="parts")["UploadId"]
    listed = B.list_multipart_uploads(Bucket="first")["Uploads"]
    assert [(u["Key"], u["UploadId"]) for u in listed] == [("parts", upload)]
    args = {"Bucket": "first", "Key": "parts", "UploadId": upload}
    tags = {n: B.upload_part(PartNumber=n, Body=data[:PART] if n < 9 else b"end", **args)["ETag"] for n in (7, 9, 2)}
    copied = A.upload_part_copy(PartNumber=3, CopySource={"Bucket": "first", "Key": "large"},
                                CopySourceRange=f"bytes=10-{PART + 9}", **args)
    tags[3] = copied["CopyPartResult"]["ETag"]
    refused("InvalidRange", A.upload_part_copy, PartNumber=3, CopySource={"Bucket": "first", "Key": "large"},
            CopySourceRange=f"bytes=10-{len(data)}", **args)
    assert [p["PartNumber"] for p in A.list_parts(**args)["Parts"]] == [2, 3, 7, 9]
    parts = [{"PartNumber": n, "ETag": tags[n]} for n in (2, 3, 9)]
    refused("InvalidPartOrder", A.complete_multipart_upload, MultipartUpload={"Parts": parts[::-1]}, **args)
    wrong = [{"PartNumber": 2, "ETag": '"0"'}]
    refused("InvalidPart", A.complete_multipart_upload, MultipartUpload={"Parts": wrong}, **args)
    # The last of a part's entries counts.
    twice = [{"PartNumber": 2, "ETag": '"0"'}, *parts]
    A.complete_multipart_upload(MultipartUpload={"Parts": twice}, **args)
    whole = data[:PART] + data[10 : PART + 10] + b"end"
    assert B.get_object(Bucket="first", Key="parts")["Body"].read() == whole
    second = B.get_object(Bucket="first", Key="parts", PartNumber=2)
    assert (second["Body"].read(), second["PartsCount"]) == (data[10 : PART + 10], 3)
    refused("InvalidPart", B.get_object, Bucket="first", Key="parts", PartNumber=4)
    told = A.get_object_attributes(Bucket="first", Key="parts", ObjectAttributes=["ObjectSize", "ObjectParts"])
    assert [part["Size"] for part in told["ObjectParts"]["Parts"]] == [PART, PART, 3]
    assert (told["ObjectSize"], told["ObjectParts"]["TotalPartsCount"]) == (len(whole), 3)
    upload = A.create_multipart_upload(Bucket="first", Key="dropped")["UploadId"]
    args = {"Bucket": "first", "Key": "dropped", "UploadId": upload}
    A.upload_part(PartNumber=1, Body=b"x", **args)
    B.abort_multipart_upload(**args)
    refused("NoSuchUpload", A.list_parts, **args)
    assert "Uploads" not in A.list_multipart_uploads(Bucket="first")


def listed(of, page, **args):
    pages = of.get_paginator("list_objects_v2").paginate(Bucket="lists", PaginationConfig={"PageSize": page}, **args)
    keys, prefixes = [], []
    for got in pages:
        keys += [entry["Key"] for entry in got.get("Contents", [])]
        prefixes += [entry["Prefix"] for entry in got.get("CommonPrefixes", [])]
    return keys, prefixes


def lists():
    A.create_bucket(Bucket="lists")
    keys = sorted(f"{d}{n:03}" for d in ("", "a/", "a/b/", "ä /") for n in range(60))
    for key in keys:
        A.put_object(Bucket="lists", Key=key, Body=key.encode())
        assert B.list_objects_v2(Bucket="lists", Prefix=key)["KeyCount"] == 1
    assert listed(B, 7) == (keys, []) and listed(A, 1000) == (keys, [])
    assert listed(B, 3, Delimiter="/") == ([k for k in keys if "/" not in k], ["a/", "ä /"])
    assert listed(B, 3, Prefix="a/", Delimiter="/") == ([f"a/{n:03}" for n in range(60)], ["a/b/"])
    first = B.list_objects(Bucket="lists", MaxKeys=5, Delimiter="/")
    assert first["IsTruncated"] and first["NextMarker"] == "004"
    assert B.list_objects(Bucket="lists", Marker="ä /058")["Contents"][0]["Key"] == "ä /059"
    assert len(B.list_object_versions(Bucket="lists", Prefix="a/b/")["Versions"]) == 60
    refused("BucketNotEmpty", A.delete_bucket, Bucket="lists")
    for at in range(0, len(keys), 100):
        wanted = [{"Key": key} for key in keys[at : at + 100]]
        gone = B.delete_objects(Bucket="lists", Delete={"Objects": wanted})
        assert len(gone["Deleted"]) == len(wanted) and "Errors" not in gone
    assert listed(A, 1000) == ([], [])
    # The last changes are written to the index behind their answers.
    for _ in range(50):
        try:
            A.delete_bucket(Bucket="lists")
            break
        except ClientError:
            time.sleep(0.1)
    refused("NoSuchBucket", B.list_objects_v2, Bucket="lists")


def removed_bucket(name):
    """Deletes a bucket whose keys were deleted just now: the index follows behind the answers."""
    end = time.monotonic() + 60
    while True:
        try:
            return A.delete_bucket(Bucket=name)
        except ClientError as error:
            assert error.response["Error"]["Code"] == "BucketNotEmpty" and time.monotonic() < end, error


def versions():
    """Versions of small and large objects and of uploads, by both gateways."""
    A.create_bucket(Bucket="kept")
    A.put_object(Bucket="kept", Key="k", Body=b"before")
    A.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    assert B.get_bucket_versioning(Bucket="kept")["Status"] == "Enabled"
    bodies = {"null": b"before"}
    for turn, size in enumerate([10, (5 << 20) + 1, 0, 4096]):
        body = pattern(size, turn)
        bodies[[A, B][turn % 2].put_object(Bucket="kept", Key="k", Body=body)["VersionId"]] = body
    upload = A.create_multipart_upload(Bucket="kept", Key="k")["UploadId"]
    where = {"Bucket": "kept", "Key": "k", "UploadId": upload}
    part = {"PartNumber": 1, "ETag": B.upload_part(PartNumber=1, Body=b"part", **where)["ETag"]}
    bodies[A.complete_multipart_upload(MultipartUpload={"Parts": [part]}, **where)["VersionId"]] = b"part"
    newest_first = list(bodies)[::-1]
    marker = B.delete_object(Bucket="kept", Key="k")
    assert marker["DeleteMarker"]
    refused("NoSuchKey", A.get_object, Bucket="kept", Key="k")
    refused("MethodNotAllowed", A.get_object, Bucket="kept", Key="k", VersionId=marker["VersionId"])
    assert "Contents" not in B.list_objects_v2(Bucket="kept")
    found, markers = [], []
    for page in A.get_paginator("list_object_versions").paginate(Bucket="kept", PaginationConfig={"PageSize": 2}):
        found += [version["VersionId"] for version in page.get("Versions", [])]
        markers += [(entry["VersionId"], entry["IsLatest"]) for entry in page.get("DeleteMarkers", [])]
    assert (found, markers) == (newest_first, [(marker["VersionId"], True)]), (found, markers)
    A.put_object_tagging(Bucket="kept", Key="k", VersionId="null", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    for version, body in bodies.items():
        got = B.get_object(Bucket="kept", Key="k", VersionId=version)
        assert (got["Body"].read(), got["VersionId"]) == (body, version)
        assert got.get("TagCount") == (1 if version == "null" else None), got
    B.copy_object(Bucket="kept", Key="copy", CopySource={"Bucket": "kept", "Key": "k", "VersionId": newest_first[1]})
    assert A.get_object(Bucket="kept", Key="copy")["Body"].read() == bodies[newest_first[1]]
    # Without the marker the newest version is there again, and without that one the next.
    for gone, next_one in zip([marker["VersionId"], *newest_first], newest_first):
        A.delete_object(Bucket="kept", Key="k", VersionId=gone)
        assert B.get_object(Bucket="kept", Key="k")["Body"].read() == bodies[next_one]
    refused("BucketNotEmpty", A.delete_bucket, Bucket="kept")
    rest = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in A.list_object_versions(Bucket="kept")["Versions"]]
    assert len(A.delete_objects(Bucket="kept", Delete={"Objects": rest})["Deleted"]) == 2
    removed_bucket("kept")


def locks():
    """Versions that stay, parts by their numbers, and attributes."""
    A.create_bucket(Bucket="held", ObjectLockEnabledForBucket=True)
    version = B.put_object(Bucket="held", Key="k", Body=b"v", ObjectLockLegalHoldStatus="ON")["VersionId"]
    where = {"Bucket": "held", "Key": "k", "VersionId": version}
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    A.put_object_retention(Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until}, **where)
    assert B.get_object_retention(**where)["Retention"]["Mode"] == "GOVERNANCE"
    refused("AccessDenied", A.delete_object, BypassGovernanceRetention=True, **where)
    B.put_object_legal_hold(LegalHold={"Status": "OFF"}, **where)
    refused("AccessDenied", A.delete_object, **where)
    sooner = until - datetime.timedelta(hours=1)
    refused("AccessDenied", A.put_object_retention, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": sooner}, **where)
    refused("InvalidBucketState", A.put_bucket_versioning, Bucket="held",
            VersioningConfiguration={"Status": "Suspended"})
    refused("InvalidRequest", A.put_object_legal_hold, Bucket="first", Key="large", LegalHold={"Status": "ON"})
    A.delete_object(BypassGovernanceRetention=True, **where)
    removed_bucket("held")


def presigned():
    url = A.generate_presigned_url("put_object", Params={"Bucket": "first", "Key": "signed"}, ExpiresIn=60)
    request = urllib.request.Request(url, data=b"by a stranger", method="PUT")
    assert urllib.request.urlopen(request).status == 200
    url = B.generate_presigned_url("get_object", Params={"Bucket": "first", "Key": "signed"}, ExpiresIn=60)
    assert urllib.request.urlopen(url).read() == b"by a stranger"
    try:
        urllib.request.urlopen(url.replace("signed?", "k?"))
        raise AssertionError("another key is read by this signature")
    except urllib.error.HTTPError as error:
        assert error.code == 403


def through_a_death():
    """Writers go on while the second gateway is killed, and nothing that was acknowledged is lost."""
    stop, written, lock = time.time() + 12, {}, threading.Lock()
    told = threading.Event()

    def writer(number):
        at, gateways = 0, [A, B]
        while time.time() < stop:
            key, size = f"death/{number}/{at % 40}", (at * 7919) % 5000 if at % 10 else 6 << 20
            data = pattern(size, at * 10 + number)
            gateway = gateways[at % len(gateways)]
            at += 1
            try:
                if at % 7 == 0:
                    gateway.delete_object(Bucket="first", Key=key)
                    data = None
                else:
                    gateway.put_object(Bucket="first", Key=key, Body=data)
            except (ClientError, BotoCoreError):
                # The gateway that was killed may have done it or not: only the next change tells.
                gateways = [A]
                with lock:
                    written[key] = "unknown"
                continue
            with lock:
                written[key] = data
            if at > 20:
                told.set()

    writers = [threading.Thread(target=writer, args=(n,)) for n in range(4)]
    for thread in writers:
        thread.start()
    told.wait()
    print("kill", flush=True)
    for thread in writers:
        thread.join()
    assert sum(1 for data in written.values() if data != "unknown") > 30
    keys = []
    for page in A.get_paginator("list_objects_v2").paginate(Bucket="first", Prefix="death/"):
        keys += [entry["Key"] for entry in page.get("Contents", [])]
    assert keys == sorted(set(keys))
    for key, data in written.items():
        if data == "unknown":
            continue
        assert (key in keys) == (data is not None), key
        if data is not None:
            assert A.get_object(Bucket="first", Key=key)["Body"].read() == data, key


for part in (buckets, objects, copies, uploads, lists, versions, locks, presigned, through_a_death):
    part()
    print(part.__name__, flush=True)
