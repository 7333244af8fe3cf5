"""boto3 and librados: encryption by customers' keys and by the gateway's own, and times of signatures. Prints the parts
that are done.

Words: the endpoints of a gateway with a master key and of one without, access key and secret of the user, the cluster's
ceph.conf, the log of the first gateway, which says everything.
"""

import base64
import datetime
import email.utils
import hashlib
import hmac
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request

import boto3
import botocore.config
import botocore.exceptions
import rados

ENDPOINT, KEYLESS, ACCESS, SECRET, CONF, LOG = sys.argv[1:]
POOL = "nacre.s3.data"
CHUNK = 64 << 10
PART = 5 << 20
KIND = "x-amz-server-side-encryption"
OF_CUSTOMER = KIND + "-customer-algorithm"
CONFIGURATION = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}


def client(endpoint, signature="s3v4"):
    config = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"},
                                    signature_version=signature)
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name="us-east-1", config=config)


S3, OTHER = client(ENDPOINT), client(KEYLESS)
FIRST_KEY, SECOND_KEY = os.urandom(32), os.urandom(32)


def by(key, prefix=""):
    """A customer's key as words of a request; boto3 adds its MD5."""
    return {prefix + "SSECustomerAlgorithm": "AES256", prefix + "SSECustomerKey": key}


def written(key):
    """A customer's key as words of a request for which boto3 does not write it."""
    md5 = base64.b64encode(hashlib.md5(key).digest()).decode()
    return {"SSECustomerKeyMD5": md5, **by(base64.b64encode(key).decode())}


def refused(status, code, call, **request):
    try:
        call(**request)
    except botocore.exceptions.ClientError as error:
        answer = error.response
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == status, answer
        # An answer to HEAD has no body, and so no code.
        assert code is None or answer["Error"]["Code"] == code, answer
        return
    raise AssertionError(f"{request.get('Key')} is not refused")


def headers(answer):
    return answer["ResponseMetadata"]["HTTPHeaders"]


def lies_around(texts):
    """True if one of some texts stands in an object of the pool of bytes, or in its attributes."""
    with rados.Rados(conffile=CONF, rados_id="admin") as cluster, cluster.open_ioctx(POOL) as pool:
        for found in pool.list_objects():
            size, _ = pool.stat(found.key)
            stored = [pool.read(found.key, max(size, 1))] + [value for _, value in pool.get_xattrs(found.key)]
            if any(text in value for text in texts for value in stored):
                return True
    return False


def ranges(key, data, **words):
    wanted = [(0, 0), (1, 5), (CHUNK - 1, CHUNK), (CHUNK, 2 * CHUNK - 1), (4 << 20, (4 << 20) + 3), (77, 10**9)]
    for first, last in wanted:
        if first < len(data):
            found = S3.get_object(Bucket="things", Key=key, Range=f"bytes={first}-{last}", **words)["Body"].read()
            assert found == data[first:last + 1], (key, first, last)


def customers_keys():
    S3.create_bucket(Bucket="things")
    for size in [0, 1, CHUNK, 300_000, 4 << 20, (9 << 20) + 5]:
        data = os.urandom(size)
        put = S3.put_object(Bucket="things", Key="own", Body=data, Metadata={"a": "b"}, **by(FIRST_KEY))
        md5 = base64.b64encode(hashlib.md5(FIRST_KEY).digest()).decode()
        for answer in [put, S3.head_object(Bucket="things", Key="own", **by(FIRST_KEY))]:
            assert headers(answer)[OF_CUSTOMER] == "AES256" and headers(answer)[OF_CUSTOMER[:-9] + "key-md5"] == md5
            assert answer["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
        got = S3.get_object(Bucket="things", Key="own", **by(FIRST_KEY))
        assert got["Body"].read() == data and got["ContentLength"] == size and got["Metadata"] == {"a": "b"}
        ranges("own", data, **by(FIRST_KEY))
        listed = S3.list_objects_v2(Bucket="things")["Contents"]
        assert [(found["Key"], found["Size"]) for found in listed] == [("own", size)]
        assert size < 100 or not lies_around([data[:32], data[-32:], FIRST_KEY, base64.b64encode(FIRST_KEY)])
        for words in [{}, by(SECOND_KEY)]:
            refused(400, "InvalidRequest", S3.get_object, Bucket="things", Key="own", **words)
            refused(400, None, S3.head_object, Bucket="things", Key="own", **words)
    S3.put_object(Bucket="things", Key="plain", Body=b"plain")
    refused(400, "InvalidRequest", S3.get_object, Bucket="things", Key="plain", **by(FIRST_KEY))
    # Where the MD5 is given, boto3 leaves the key as it is.
    wrong = {"SSECustomerKeyMD5": "AAAAAAAAAAAAAAAAAAAAAA==", **by(base64.b64encode(FIRST_KEY).decode())}
    refused(400, "InvalidArgument", S3.put_object, Bucket="things", Key="wrong", Body=b"x", **wrong)
    short = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"short"}
    refused(400, "InvalidArgument", S3.put_object, Bucket="things", Key="wrong", Body=b"x", **short)
    refused(404, None, S3.head_object, Bucket="things", Key="wrong")


def keys_stay_out_of_the_log():
    second = client(ENDPOINT, "s3")
    second.put_object(Bucket="things", Key="second", Body=b"second", **by(FIRST_KEY))
    assert second.get_object(Bucket="things", Key="second", **by(FIRST_KEY))["Body"].read() == b"second"
    refused(400, "InvalidRequest", second.get_object, Bucket="things", Key="second", **by(SECOND_KEY))
    said = pathlib.Path(LOG).read_text()
    assert " listens on " in said, said[:2000]
    # At the levels of this log the library of S3 would tell what was signed, by version 2 with all these headers.
    for key in [FIRST_KEY, SECOND_KEY]:
        assert base64.b64encode(key).decode() not in said and key.hex() not in said


def addresses():
    """Addresses that were signed with headers for a customer's key: the signature is about the key, too."""
    S3.put_object(Bucket="things", Key="signed", Body=b"signed", **by(FIRST_KEY))

    def opened(key, sent, **words):
        address = S3.generate_presigned_url("get_object", {"Bucket": "things", "Key": key, **words})
        request = urllib.request.Request(address)
        for name, value in (written(sent) if sent else {}).items():
            request.add_header("x-amz-server-side-encryption-customer-"
                               + {"SSECustomerAlgorithm": "algorithm", "SSECustomerKey": "key",
                                  "SSECustomerKeyMD5": "key-MD5"}[name], value)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, None

    assert opened("signed", FIRST_KEY, **by(FIRST_KEY)) == (200, b"signed")
    assert opened("signed", SECOND_KEY, **by(FIRST_KEY)) == (403, None)
    assert opened("signed", None, **by(FIRST_KEY)) == (403, None)
    assert opened("signed", None) == (400, None)


def uploads():
    parts = [os.urandom(PART + 1), os.urandom(PART), b"the end"]
    for key, own in [("parts", by(FIRST_KEY)), ("parts-of-server", {}), ("parts-without-key", by(FIRST_KEY))]:
        begin = own or {"ServerSideEncryption": "AES256"}
        upload = S3.create_multipart_upload(Bucket="things", Key=key, **begin)["UploadId"]
        place = {"Bucket": "things", "Key": key, "UploadId": upload}
        done = []
        for number, data in enumerate(parts, 1):
            if own:
                for words in [{}, by(SECOND_KEY)]:
                    refused(400, "InvalidRequest", S3.upload_part, PartNumber=number, Body=b"x", **place, **words)
            part = S3.upload_part(PartNumber=number, Body=data, **place, **own)
            assert headers(part)[OF_CUSTOMER if own else KIND] == "AES256"
            done.append({"PartNumber": number, "ETag": part["ETag"]})
        if own:
            refused(400, "InvalidRequest", S3.complete_multipart_upload, MultipartUpload={"Parts": done}, **place,
                    **written(SECOND_KEY))
        # A completion may bring the key, and need not; a reader has to.
        brought = written(FIRST_KEY) if key == "parts" else {}
        S3.complete_multipart_upload(MultipartUpload={"Parts": done}, **place, **brought)
        whole = b"".join(parts)
        if own:
            for words in [{}, by(SECOND_KEY)]:
                refused(400, "InvalidRequest", S3.get_object, Bucket="things", Key=key, **words)
        assert S3.get_object(Bucket="things", Key=key, **own)["Body"].read() == whole
        ranges(key, whole, **own)
        second = S3.get_object(Bucket="things", Key=key, PartNumber=2, **own)
        assert second["Body"].read() == parts[1] and second["PartsCount"] == 3
        assert not lies_around([data[:7] for data in parts[:2]] + [parts[2]])


def copies():
    data = os.urandom(5_000_000)
    kinds = [{}, {"ServerSideEncryption": "AES256"}, by(FIRST_KEY)]
    for number, source in enumerate(kinds):
        S3.put_object(Bucket="things", Key="source", Body=data, **source)
        read = by(FIRST_KEY, "CopySource") if "SSECustomerKey" in source else {}
        for target in kinds[:2] + [by(SECOND_KEY)]:
            words = {"Bucket": "things", "Key": "copy", "CopySource": "things/source", **target}
            if read:
                refused(400, "InvalidRequest", S3.copy_object, **words)
            S3.copy_object(**words, **read)
            own = target if "SSECustomerKey" in target else {}
            got = S3.get_object(Bucket="things", Key="copy", **own)
            assert got["Body"].read() == data, (number, target)
            assert (KIND in headers(got)) == ("ServerSideEncryption" in target)
    # A copy onto itself may change the encryption alone.
    S3.put_object(Bucket="things", Key="source", Body=data)
    S3.copy_object(Bucket="things", Key="source", CopySource="things/source", ServerSideEncryption="AES256")
    assert headers(S3.head_object(Bucket="things", Key="source"))[KIND] == "AES256"


def defaults_of_buckets():
    S3.create_bucket(Bucket="default")
    missing = "ServerSideEncryptionConfigurationNotFoundError"
    refused(404, missing, S3.get_bucket_encryption, Bucket="default")
    S3.put_bucket_encryption(Bucket="default", ServerSideEncryptionConfiguration=CONFIGURATION)
    found = S3.get_bucket_encryption(Bucket="default")["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert found["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}, found
    data = os.urandom(100_000)
    for size in [10_000, 100_000]:
        assert headers(S3.put_object(Bucket="default", Key="k", Body=data[:size]))[KIND] == "AES256"
        assert S3.get_object(Bucket="default", Key="k")["Body"].read() == data[:size]
        assert not lies_around([data[:32]])
    # A customer's key goes before the default.
    S3.put_object(Bucket="default", Key="own", Body=data, **by(FIRST_KEY))
    refused(400, "InvalidRequest", S3.get_object, Bucket="default", Key="own")
    S3.delete_bucket_encryption(Bucket="default")
    refused(404, missing, S3.get_bucket_encryption, Bucket="default")
    assert KIND not in headers(S3.put_object(Bucket="default", Key="plain", Body=data))
    service = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "key"}
    refused(400, "InvalidArgument", S3.put_object, Bucket="default", Key="kms", Body=b"x", **service)
    refused(400, "InvalidArgument", S3.put_object, Bucket="default", Key="both", Body=b"x",
            ServerSideEncryption="AES256", **by(FIRST_KEY))


def a_gateway_without_the_master_key():
    refused(500, "InternalError", OTHER.get_object, Bucket="default", Key="k")
    refused(400, "InvalidRequest", OTHER.put_object, Bucket="default", Key="x", Body=b"x",
            ServerSideEncryption="AES256")
    refused(400, "InvalidRequest", OTHER.put_bucket_encryption, Bucket="default",
            ServerSideEncryptionConfiguration=CONFIGURATION)
    # Nor is anything stored as it came where the bucket wants it encrypted.
    S3.put_bucket_encryption(Bucket="default", ServerSideEncryptionConfiguration=CONFIGURATION)
    # Other gateways act on former settings for three seconds.
    time.sleep(4)
    refused(400, "InvalidRequest", OTHER.put_object, Bucket="default", Key="y", Body=b"y")
    refused(400, "InvalidRequest", OTHER.create_multipart_upload, Bucket="default", Key="y")
    refused(400, "InvalidRequest", OTHER.copy_object, Bucket="default", Key="y", CopySource="things/plain")
    refused(404, None, S3.head_object, Bucket="default", Key="y")
    # Customers' keys are enough for what they have encrypted.
    assert len(OTHER.get_object(Bucket="default", Key="own", **by(FIRST_KEY))["Body"].read()) == 100_000
    OTHER.delete_object(Bucket="default", Key="k")


def what_answers_tell():
    S3.put_object(Bucket="things", Key="told", Body=b"told")
    etag = hashlib.md5(b"told").hexdigest()
    attributes = S3.get_object_attributes(Bucket="things", Key="told", ObjectAttributes=["ETag", "ObjectSize"])
    assert attributes["ETag"] == etag and attributes["ObjectSize"] == 4, attributes
    try:
        S3.get_object(Bucket="things", Key="told", IfNoneMatch=f'"{etag}"')
        raise AssertionError("it is as the client has it")
    except botocore.exceptions.ClientError as error:
        told = error.response["ResponseMetadata"]
        assert told["HTTPStatusCode"] == 304 and told["HTTPHeaders"]["etag"] == f'"{etag}"', told
    # More than seven days.
    address = S3.generate_presigned_url("get_object", {"Bucket": "things", "Key": "told"}, ExpiresIn=700_000)
    try:
        urllib.request.urlopen(address, timeout=30)
        raise AssertionError("an address that holds for too long")
    except urllib.error.HTTPError as error:
        assert error.code == 403, error


def digest(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def by_version_4(at, path):
    """Headers of a GET that was signed at a time, as AWS tells how."""
    date, body = at.strftime("%Y%m%dT%H%M%SZ"), "UNSIGNED-PAYLOAD"
    words, names = [date[:8], "us-east-1", "s3", "aws4_request"], "host;x-amz-content-sha256;x-amz-date"
    host = ENDPOINT.removeprefix("http://")
    request = ["GET", path, "", f"host:{host}", f"x-amz-content-sha256:{body}", f"x-amz-date:{date}", "", names, body]
    request = hashlib.sha256("\n".join(request).encode()).hexdigest()
    key = ("AWS4" + SECRET).encode()
    for word in words:
        key = digest(key, word)
    scope = "/".join(words)
    signature = digest(key, "\n".join(["AWS4-HMAC-SHA256", date, scope, request])).hex()
    credential = f"Credential={ACCESS}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {"x-amz-content-sha256": body, "x-amz-date": date, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}


def by_version_2(at, path):
    date = email.utils.format_datetime(at, usegmt=True)
    signature = hmac.new(SECRET.encode(), f"GET\n\n\n{date}\n{path}".encode(), hashlib.sha1).digest()
    return {"Date": date, "Authorization": f"AWS {ACCESS}:{base64.b64encode(signature).decode()}"}


def requests_that_come_again_later():
    """Somebody who has seen a request sends it again: that is of use for 15 minutes at most."""
    S3.put_object(Bucket="things", Key="seen", Body=b"seen")
    path, now = "/things/seen", datetime.datetime.now(datetime.timezone.utc)

    def answer(headers, query=""):
        try:
            with urllib.request.urlopen(urllib.request.Request(ENDPOINT + path + query, headers=headers),
                                        timeout=30) as found:
                return found.status, found.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    # A signature by version 2 is not about these names, whatever their values are.
    added = ["", "?X-Amz-Signature=00&X-Amz-Expires=60"]
    for sign, queries in [(by_version_4, [""]), (by_version_2, added)]:
        for minutes in [-14, 0, 14]:
            assert answer(sign(now + datetime.timedelta(minutes=minutes), path)) == (200, b"seen"), (sign, minutes)
        for minutes in [-24 * 60, -16, 16]:
            for query in queries:
                status, said = answer(sign(now + datetime.timedelta(minutes=minutes), path), query)
                assert status == 403 and b"RequestTimeTooSkewed" in said, (sign, minutes, query, status, said)


for part in [customers_keys, keys_stay_out_of_the_log, addresses, uploads, copies, defaults_of_buckets,
             a_gateway_without_the_master_key, what_answers_tell, requests_that_come_again_later]:
    part()
    print(part.__name__, flush=True)
