"""boto3 and librados: encryption by customers' keys and by the gateway's own. Prints the parts that are done.

Words: the endpoints of a gateway with a master key and of one without, access key and secret of the user, the cluster's
ceph.conf.
"""

import base64
import hashlib
import os
import sys
import urllib.error
import urllib.request

import boto3
import botocore.config
import botocore.exceptions
import rados

ENDPOINT, KEYLESS, ACCESS, SECRET, CONF = sys.argv[1:]
POOL = "nacre.s3.data"
CHUNK = 64 << 10
PART = 5 << 20
KIND = "x-amz-server-side-encryption"
OF_CUSTOMER = KIND + "-customer-algorithm"
CONFIGURATION = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}


def client(endpoint):
    config = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"},
                                    signature_version="s3v4")
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


def uploads():
    parts = [os.urandom(PART + 1), os.urandom(PART), b"the end"]
    for key, own in [("parts", by(FIRST_KEY)), ("parts-of-server", {})]:
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
            refused(400, "InvalidRequest", S3.complete_multipart_upload, MultipartUpload={"Parts": done}, **place)
            refused(400, "InvalidRequest", S3.complete_multipart_upload, MultipartUpload={"Parts": done}, **place,
                    **written(SECOND_KEY))
        S3.complete_multipart_upload(MultipartUpload={"Parts": done}, **place, **(own and written(FIRST_KEY)))
        whole = b"".join(parts)
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


for part in [customers_keys, uploads, copies, defaults_of_buckets, a_gateway_without_the_master_key, what_answers_tell]:
    part()
    print(part.__name__, flush=True)
