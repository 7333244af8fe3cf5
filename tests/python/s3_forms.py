"""Uploads by forms that boto3 has signed: `s3_forms.py ENDPOINT KEY SECRET`.

Prints a line for each part that went well, and ends with an error at the first one that did not.
"""

import http.client
import sys
import urllib.parse
import xml.etree.ElementTree

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from urllib3.filepost import encode_multipart_formdata

ENDPOINT, KEY, SECRET = sys.argv[1:4]
HOST = urllib.parse.urlsplit(ENDPOINT).netloc


def client(version):
    config = Config(signature_version=version, s3={"addressing_style": "path"}, retries={"max_attempts": 0})
    return boto3.client("s3", endpoint_url=ENDPOINT, aws_access_key_id=KEY, aws_secret_access_key=SECRET,
                        region_name="us-east-1", config=config)


FOURTH, SECOND = client("s3v4"), client("s3")


def send(bucket, body, kind, headers=()):
    """Status, headers and body of the answer to a form."""
    connection = http.client.HTTPConnection(HOST, timeout=60)
    connection.request("POST", f"/{bucket}", body, {"Content-Type": kind, **dict(headers)})
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def post(bucket, fields, content, name="some file.txt", headers=()):
    body, kind = encode_multipart_formdata([*fields.items(), ("file", (name, content, "text/x-of-the-part"))])
    return send(bucket, body, kind, headers)


def code(answer):
    return xml.etree.ElementTree.fromstring(answer[2]).find("Code").text


def content(key):
    try:
        return FOURTH.get_object(Bucket="forms", Key=key)["Body"].read()
    except ClientError as error:
        return error.response["Error"]["Code"]


def signed(by, key, conditions=(), fields=None, **how):
    fields = dict(fields or {})
    made = by.generate_presigned_post("forms", key, Fields=fields,
                                      Conditions=[{name: value} for name, value in fields.items()] + list(conditions),
                                      **how)
    assert made["url"].rstrip("/").endswith("/forms"), made
    return made["fields"]


def forms_of_both_versions_are_stored():
    FOURTH.create_bucket(Bucket="forms")
    for by, size in ((FOURTH, 0), (SECOND, 5), (FOURTH, 5 << 20), (SECOND, 13 << 20)):
        wanted = bytes(n % 251 for n in range(1000)) * (size // 1000) + b"\r\n--" * (size % 1000)
        key = f"{by.meta.config.signature_version}/{size}"
        fields = signed(by, key + "/${filename}", fields={"Content-Type": "image/png", "x-amz-meta-a": "b c"})
        status, headers, body = post("forms", fields, wanted)
        assert (status, body) == (204, b""), (key, status, body)
        assert content(f"{key}/some file.txt") == wanted
        head = FOURTH.head_object(Bucket="forms", Key=f"{key}/some file.txt")
        assert (head["ContentType"], head["Metadata"]) == ("image/png", {"a": "b c"})
        assert headers["ETag"] == head["ETag"] and headers["Location"].endswith(f"/forms/{key}/some%20file.txt")


def headers_beside_a_form_do_not_count():
    wishes = {"x-amz-acl": "public-read", "x-amz-meta-b": "1", "x-amz-tagging": "a=1", "Content-Encoding": "gzip"}
    status, _, body = post("forms", signed(FOURTH, "beside"), b"x", headers=wishes.items())
    assert status == 204, body
    head = FOURTH.head_object(Bucket="forms", Key="beside")
    assert head["Metadata"] == {} and "ContentEncoding" not in head
    assert len(FOURTH.get_object_acl(Bucket="forms", Key="beside")["Grants"]) == 1


def answers_are_as_asked_for():
    for status in ("200", "201", "204", "404"):
        got, headers, body = post("forms", signed(FOURTH, "a<b", fields={"success_action_status": status}), b"x")
        assert got == (204 if status == "404" else int(status))
        if status == "201":
            root = xml.etree.ElementTree.fromstring(body)
            assert {child.tag: child.text for child in root} == {
                "Location": headers["Location"], "Bucket": "forms", "Key": "a<b", "ETag": headers["ETag"]}
    to = f"{ENDPOINT}/elsewhere?x=1"
    got, headers, _ = post("forms", signed(FOURTH, "a b", fields={"success_action_redirect": to}), b"x")
    assert got == 303 and headers["Location"].startswith(to + "&bucket=forms&key=a%20b&etag=%22"), headers["Location"]


def what_is_not_signed_is_refused():
    right = signed(FOURTH, "refused", [["content-length-range", 3, 6 << 20]])
    for fields, size, status, expected in [
        ({**right, "key": "other"}, 5, 403, "AccessDenied"),
        ({**right, "acl": "public-read"}, 5, 403, "AccessDenied"),
        ({**right, "x-amz-signature": "0" * 64}, 5, 403, "SignatureDoesNotMatch"),
        ({**right, "x-amz-credential": right["x-amz-credential"].replace(KEY, "NOBODY")}, 5, 403,
         "InvalidAccessKeyId"),
        ({k: v for k, v in right.items() if k != "policy"}, 5, 400, "InvalidArgument"),
        ({k: v for k, v in right.items() if k != "x-amz-date"}, 5, 400, "InvalidArgument"),
        ({k: v for k, v in right.items() if not k.startswith("x-amz-") and k != "policy"}, 5, 403, "AccessDenied"),
        (signed(FOURTH, "refused", ExpiresIn=-5), 5, 403, "AccessDenied"),
        (signed(SECOND, "refused", ExpiresIn=-5), 5, 403, "AccessDenied"),
        (right, 2, 400, "EntityTooSmall"),
        (right, (6 << 20) + 1, 400, "EntityTooLarge"),
        ({**right, "content-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, 5, 403, "AccessDenied"),
        ({**right, "x-amz-checksum-sha256": "A" * 43 + "="}, 5, 400, "BadDigest"),
    ]:
        answer = post("forms", fields, b"x" * size)
        assert (answer[0], code(answer)) == (status, expected), (fields, answer)
    assert content("refused") == "NoSuchKey"
    assert post("forms", right, b"x" * 3)[0] == 204 and content("refused") == b"xxx"


def bodies_that_are_no_forms_store_nothing():
    body, kind = encode_multipart_formdata([*signed(FOURTH, "broken").items(), ("file", ("f", b"y" * (5 << 20)))])
    small = body.replace(b"y" * (5 << 20), b"y")
    for wrong, of_kind, expected in [
        (body[:-200], kind, "IncompleteBody"),
        (small[:-10], kind, "IncompleteBody"),
        (b"x" * 100, kind, "IncompleteBody"),
        (small.replace(b"form-data", b"attachment"), kind, "MalformedPOSTRequest"),
        (small, "multipart/form-data", "MalformedPOSTRequest"),
    ]:
        answer = send("forms", wrong, of_kind)
        assert (answer[0], code(answer)) == (400, expected), answer
    assert content("broken") == "NoSuchKey"
    assert send("forms", body, kind)[0] == 204 and content("broken") == b"y" * (5 << 20)


def anybody_may_where_a_bucket_lets_him():
    FOURTH.create_bucket(Bucket="open", ACL="public-read-write")
    tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"
    answer = post("open", {"key": "k", "acl": "public-read", "tagging": tags}, b"x")
    assert answer[0] == 204, answer
    connection = http.client.HTTPConnection(HOST, timeout=60)
    connection.request("GET", "/open/k")
    answer = connection.getresponse()
    assert answer.read() == b"x" and answer.headers["x-amz-tagging-count"] == "1", answer.headers


for part in (forms_of_both_versions_are_stored, headers_beside_a_form_do_not_count, answers_are_as_asked_for,
             what_is_not_signed_is_refused, bodies_that_are_no_forms_store_nothing,
             anybody_may_where_a_bucket_lets_him):
    part()
    print(part.__name__, flush=True)
