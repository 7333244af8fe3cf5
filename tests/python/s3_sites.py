"""Web sites: boto3 sets them, and a browser of few words reads them by host names. Prints the parts that are done.

Words: the endpoint, the endpoint for sites alone, access key and secret of the owner.
"""

import http.client
import json
import sys
import time
import urllib.parse

import boto3
import botocore.config
import botocore.exceptions

ENDPOINT, SITES, ACCESS, SECRET = sys.argv[1:]
# The name before which buckets stand.
DOMAIN = "web.test"
# A gateway remembers the settings of a bucket for so long.
SETTINGS_S = 4

CONFIG = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
S3 = boto3.client("s3", endpoint_url=ENDPOINT, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                  region_name="us-east-1", config=CONFIG)


def ask(host, path, method="GET", endpoint=ENDPOINT, **headers):
    """Status, headers and body of an answer."""
    connection = http.client.HTTPConnection(urllib.parse.urlparse(endpoint).netloc, timeout=30)
    try:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers={"Host": host, **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def says(host, path, status, body=None, location=None, code=None, **request):
    found, headers, content = ask(host, path, **request)
    assert found == status, (host, path, found, content)
    if body is not None:
        assert content == body, (path, content)
    if location is not None:
        assert headers["Location"] == location, (path, headers["Location"])
    if code is not None:
        assert headers["x-amz-error-code"] == code, (path, headers.items())
        assert f"<li>Code: {code}</li>".encode() in content or body is not None or request.get("method") == "HEAD"
    return headers


def refused(code, call, **request):
    try:
        call(**request)
    except botocore.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == code, error.response
        return
    raise AssertionError(f"{request} is not refused")


def public(bucket):
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                 "Resource": f"arn:aws:s3:::{bucket}/*"}
    lists = {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}"}
    policy = {"Version": "2012-10-17", "Statement": [statement, lists]}
    S3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


def settings():
    S3.create_bucket(Bucket="docs")
    refused("NoSuchWebsiteConfiguration", S3.get_bucket_website, Bucket="docs")
    site = {
        "IndexDocument": {"Suffix": "index.html"},
        "ErrorDocument": {"Key": "oops.html"},
        "RoutingRules": [
            {"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "new/"}},
            {"Condition": {"KeyPrefixEquals": "img/", "HttpErrorCodeReturnedEquals": "404"},
             "Redirect": {"HostName": "pictures.test", "Protocol": "https", "HttpRedirectCode": "307"}},
        ],
    }
    S3.put_bucket_website(Bucket="docs", WebsiteConfiguration=site)
    found = S3.get_bucket_website(Bucket="docs")
    assert {name: found[name] for name in site} == site, found
    bad = {"IndexDocument": {"Suffix": "a/b"}}
    refused("InvalidArgument", S3.put_bucket_website, Bucket="docs", WebsiteConfiguration=bad)
    refused("InvalidArgument", S3.put_object, Bucket="docs", Key="k", Body=b"", WebsiteRedirectLocation="nowhere")
    print("sites_are_set", flush=True)


def pages():
    host = f"docs.{DOMAIN}:8333"
    for key, body in {"index.html": b"home", "a b/index.html": b"folder", "page": b"0123456789", "oops.html": b"oops",
                      "img/there": b"picture", "new/k": b"moved"}.items():
        S3.put_object(Bucket="docs", Key=key, Body=body, ContentType="text/html", Metadata={"kept": "yes"})
    S3.put_object(Bucket="docs", Key="away", Body=b"", WebsiteRedirectLocation="https://e.com/there")
    assert S3.head_object(Bucket="docs", Key="away")["WebsiteRedirectLocation"] == "https://e.com/there"
    # Nobody may read anything yet, not even the page for errors.
    says(host, "/", 403, code="AccessDenied")
    public("docs")
    time.sleep(SETTINGS_S)
    headers = says(host, "/", 200, b"home")
    assert (headers["Content-Type"], headers["x-amz-meta-kept"]) == ("text/html", "yes"), headers.items()
    says(host, "/page", 200, b"0123456789")
    says(host, "/page", 200, b"", method="HEAD")
    says(host, "/page", 206, b"234", Range="bytes=2-4")
    etag = S3.head_object(Bucket="docs", Key="page")["ETag"]
    says(host, "/page", 304, b"", If_None_Match=etag)
    says(host, "/a%20b/", 200, b"folder")
    says(host, "/a%20b", 302, location="/a%20b/")
    says(host, "/none", 404, b"oops", code="NoSuchKey")
    says(host, "/none", 404, b"oops", code="NoSuchKey", Range="bytes=0-0")
    says(host, "/none", 404, b"", code="NoSuchKey", method="HEAD")
    says(host, "/away", 301, location="https://e.com/there")
    says(host, "/old/k", 301, location=f"http://{host}/new/k")
    says(host, "/img/there", 200, b"picture")
    says(host, "/img/none", 307, location="https://pictures.test/img/none")
    says(host, "/page", 405, code="MethodNotAllowed", method="PUT")
    says(host, "/page", 405, code="MethodNotAllowed", method="DELETE")
    # Only hosts of sites are sites, and a site shows no settings and no list.
    says(f"127.0.0.1:{urllib.parse.urlparse(ENDPOINT).port}", "/docs/page", 200, b"0123456789")
    says(host, "/?policy", 200, b"home")
    says(f"none.{DOMAIN}", "/", 404, code="NoSuchBucket")
    S3.create_bucket(Bucket="bare")
    says(f"bare.{DOMAIN}", "/", 404, code="NoSuchWebsiteConfiguration")
    S3.delete_object(Bucket="docs", Key="oops.html")
    body = ask(host, "/%3Cnone%3E")[2]
    assert b"<h1>404 Not Found</h1>" in body and b"<li>BucketName: docs</li>" in body, body
    assert b"<li>Key: &lt;none&gt;</li>" in body, body
    print("pages_are_served", flush=True)


def ports():
    says(f"docs.{DOMAIN}", "/page", 200, b"0123456789", endpoint=SITES)
    says("docs", "/page", 200, b"0123456789", endpoint=SITES)
    S3.create_bucket(Bucket="www.e.com")
    everything = {"RedirectAllRequestsTo": {"HostName": "e.com", "Protocol": "https"}}
    S3.put_bucket_website(Bucket="www.e.com", WebsiteConfiguration=everything)
    time.sleep(SETTINGS_S)
    says("www.e.com:80", "/a/b", 301, location="https://e.com/a/b", endpoint=SITES)
    # The port for sites is for nothing else.
    says("127.0.0.1", "/docs/page", 404, code="NoSuchBucket", endpoint=SITES)
    S3.put_bucket_cors(Bucket="docs", CORSConfiguration={"CORSRules": [
        {"AllowedMethods": ["GET"], "AllowedOrigins": ["http://page.test"]}]})
    time.sleep(SETTINGS_S)
    headers = says("docs", "/page", 200, endpoint=SITES, Origin="http://page.test")
    assert headers["Access-Control-Allow-Origin"] == "http://page.test", headers.items()
    S3.delete_bucket_website(Bucket="docs")
    time.sleep(SETTINGS_S)
    says("docs", "/page", 404, code="NoSuchWebsiteConfiguration", endpoint=SITES)
    print("sites_have_a_port", flush=True)


settings()
pages()
ports()
