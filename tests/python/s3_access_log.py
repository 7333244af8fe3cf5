"""boto3 at two gateways that log requests, in AWS's form and as JSON. Prints the parts that are done.

Words: the endpoints of both gateways, their logs, the process of the second one, access key and secret of `me`.
"""

import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.request

import boto3
import botocore.config
import botocore.exceptions

FIRST, SECOND, FIRST_LOG, SECOND_LOG, PROCESS, ACCESS, SECRET = sys.argv[1:]
# Fields of AWS's server access logs, in their order.
NAMES = ("bucket_owner bucket time remote_ip requester request_id operation key request status error_code bytes_sent "
         "object_size total_ms turn_around_ms referrer user_agent version_id host_id signature_version cipher "
         "authentication_type host tls_version access_point acl_required").split()
FIELD = re.compile(r'"[^"]*"|\[[^]]*\]|\S+')


def client(endpoint, **options):
    config = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **options)
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name="us-east-1", config=config)


def of_aws(line):
    fields = FIELD.findall(line)
    assert len(fields) == len(NAMES), line
    return {name: field.strip('"[]') for name, field in zip(NAMES, fields)}


def of_json(line):
    shown = {name: "-" if value is None else str(value) for name, value in json.loads(line).items()}
    return shown | {"bytes_sent": shown["bytes_sent"] if shown["bytes_sent"] != "0" else "-"}


def lines(path, count, read):
    """Waits for lines: a line comes behind the last byte of its answer."""
    end = time.monotonic() + 15
    while True:
        with open(path, encoding="utf-8") as file:
            found = file.read().splitlines()
        if len(found) >= count:
            assert len(found) == count, found[count:]
            return [read(line) for line in found]
        assert time.monotonic() < end, found
        time.sleep(0.1)


def fetched(address, headers=None):
    request = urllib.request.Request(address, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def requests(endpoint, bucket):
    """Does what is logged. Gives the numbers of requests and what their lines have to tell."""
    s3 = client(endpoint, signature_version="s3v4")
    ids, expected = [], []

    def logged(answer, operation, key="-", status="200", **fields):
        ids.append(answer["ResponseMetadata"]["RequestId"])
        expect(operation, key, status, **fields)

    def expect(operation, key="-", status="200", **fields):
        told = {"operation": operation, "key": key, "status": status, "bucket": bucket, "requester": "me",
                "error_code": "-", "remote_ip": "127.0.0.1", "signature_version": "SigV4",
                "authentication_type": "AuthHeader", "tls_version": "-"}
        expected.append(told | fields)

    logged(s3.create_bucket(Bucket=bucket), "REST.PUT.BUCKET")
    body = bytes(5 << 20)
    logged(s3.put_object(Bucket=bucket, Key="large", Body=body), "REST.PUT.OBJECT", "large", bucket_owner="me",
           object_size=str(len(body)), bytes_sent="-")
    answer = s3.get_object(Bucket=bucket, Key="large", Range="bytes=10-4000009")
    assert len(answer["Body"].read()) == 4000000
    logged(answer, "REST.GET.OBJECT", "large", "206", bytes_sent="4000000", object_size=str(len(body)))
    logged(s3.head_object(Bucket=bucket, Key="large"), "REST.HEAD.OBJECT", "large", object_size=str(len(body)),
           bytes_sent="-")
    logged(s3.list_objects_v2(Bucket=bucket), "REST.GET.BUCKET")
    try:
        s3.get_object(Bucket=bucket, Key="nothing")
        raise AssertionError("it is there")
    except botocore.exceptions.ClientError as error:
        logged(error.response, "REST.GET.OBJECT", "nothing", "404", error_code="NoSuchKey")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")
    logged(upload, "REST.POST.UPLOADS", "parts")
    where = {"Bucket": bucket, "Key": "parts", "UploadId": upload["UploadId"]}
    logged(s3.upload_part(**where, PartNumber=1, Body=b"12345"), "REST.PUT.PART", "parts", object_size="5")
    logged(s3.abort_multipart_upload(**where), "REST.DELETE.UPLOAD", "parts", "204")
    logged(s3.list_buckets(), "REST.GET.SERVICE", bucket="-")

    # Addresses that are signed, by both versions; the second is a referrer, too.
    address = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "large"})
    assert fetched(address)[0] == 200
    expect("REST.GET.OBJECT", "large", authentication_type="QueryString", bytes_sent=str(len(body)))
    old = client(endpoint, signature_version="s3").generate_presigned_url(
        "get_object", Params={"Bucket": bucket, "Key": "large"})
    assert fetched(old, {"Referer": address, "User-Agent": 'a "quoted" agent'})[0] == 200
    expect("REST.GET.OBJECT", "large", authentication_type="QueryString", signature_version="SigV2")
    # Nobody, and somebody who says that he is the user.
    assert fetched(f"{endpoint}/{bucket}/large")[0] == 403
    expect("REST.GET.OBJECT", "large", "403", requester="-", error_code="AccessDenied", signature_version="-",
           authentication_type="-")
    status, document = fetched(address[:-1] + ("0" if address[-1] != "0" else "1"))
    assert status == 403 and b"<RequestId>" in document, document
    expect("REST.GET.OBJECT", "large", "403", requester="-", error_code="SignatureDoesNotMatch",
           authentication_type="QueryString")
    secrets = [address.rsplit("X-Amz-Signature=")[1], old.split("Signature=")[1].split("&")[0], SECRET]
    return ids, expected, secrets


def compared(found, ids, expected):
    for line, told in zip(found, expected):
        wrong = {name: (line[name], value) for name, value in told.items() if line[name] != value}
        assert not wrong, (wrong, line)
        assert re.fullmatch("[0-9A-F]{20}", line["request_id"]) and line["host_id"] != "-", line
        assert int(line["turn_around_ms"]) <= int(line["total_ms"]) + 1, line
    assert [line["request_id"] for line in found][:len(ids)] == ids
    assert len({line["request_id"] for line in found}) == len(found)


def main():
    for endpoint, path, bucket, read in [(FIRST, FIRST_LOG, "first", of_aws), (SECOND, SECOND_LOG, "second", of_json)]:
        ids, expected, secrets = requests(endpoint, bucket)
        found = lines(path, len(expected), read)
        compared(found, ids, expected)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert not any(secret in text for secret in secrets), "a secret is logged"
        assert "X-Amz-Signature=hidden" in text
        if read is of_json:
            assert json.loads(text.splitlines()[1])["bytes_received"] >= 5 << 20
        print(f"{bucket}_is_logged", flush=True)
    os.rename(SECOND_LOG, SECOND_LOG + ".1")
    os.kill(int(PROCESS), signal.SIGHUP)
    end = time.monotonic() + 15
    while not os.path.exists(SECOND_LOG):
        assert time.monotonic() < end, "the log is not opened again"
        time.sleep(0.1)
    client(SECOND).head_bucket(Bucket="second")
    assert [line["operation"] for line in lines(SECOND_LOG, 1, of_json)] == ["REST.HEAD.BUCKET"]
    print("a_log_that_was_moved_is_opened_again")


main()
