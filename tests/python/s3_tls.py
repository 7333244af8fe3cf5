"""An S3 gateway that speaks TLS, at which boto3 and connections of few words come. Prints the parts that are done.

Words: `make FOLDER`, which makes a certificate that `FOLDER/ca.pem` vouches for; or the endpoint, the folder, access
key and secret, and the file that the gateway logs to.
"""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request

# A gateway looks at its files every five seconds.
FOLLOWED_S = 60
# A gateway waits ten seconds for a handshake.
SILENCE_S = 60


def openssl(*words):
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (words, done.stderr)


def make(folder, name):
    """Makes `NAME.pem` and `NAME.key` of an authority that is made with the first one."""
    path = lambda file: os.path.join(folder, file)
    of_ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    if not os.path.exists(path("ca.pem")):
        openssl("req", "-x509", *of_ec, "-keyout", path("ca.key"), "-out", path("ca.pem"), "-days", "2",
                "-subj", "/CN=tests")
    openssl("req", *of_ec, "-keyout", path(f"{name}.key"), "-out", path("request"), "-subj", "/CN=gateway")
    with open(path("names"), "w") as names:
        names.write("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", path("request"), "-CA", path("ca.pem"), "-CAkey", path("ca.key"),
            "-CAcreateserial", "-days", "2", "-extfile", path("names"), "-out", path(f"{name}.pem"))


if sys.argv[1] == "make":
    make(sys.argv[2], "server")
    make(sys.argv[2], "other")
    sys.exit()

import boto3
import botocore.config

ENDPOINT, FOLDER, ACCESS, SECRET, LOG = sys.argv[1:]
AUTHORITY = os.path.join(FOLDER, "ca.pem")
CONFIG = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
S3 = boto3.client("s3", endpoint_url=ENDPOINT, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                  region_name="us-east-1", config=CONFIG, verify=AUTHORITY)
HOST, PORT = urllib.parse.urlparse(ENDPOINT).hostname, urllib.parse.urlparse(ENDPOINT).port


def connection(lowest=ssl.TLSVersion.TLSv1_2, highest=ssl.TLSVersion.TLSv1_3):
    context = ssl.create_default_context(cafile=AUTHORITY)
    context.minimum_version, context.maximum_version = lowest, highest
    if lowest < ssl.TLSVersion.TLSv1_2:
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context.wrap_socket(socket.create_connection((HOST, PORT), timeout=30), server_hostname=HOST)


def serial():
    """Number of the certificate that is shown."""
    with connection() as stream:
        return stream.getpeercert()["serialNumber"]


def objects_come_and_go():
    S3.create_bucket(Bucket="things")
    data = os.urandom(9 << 20)
    S3.put_object(Bucket="things", Key="large", Body=data)
    assert S3.get_object(Bucket="things", Key="large")["Body"].read() == data
    part = S3.get_object(Bucket="things", Key="large", Range="bytes=5000000-7000000")["Body"].read()
    assert part == data[5000000:7000001]
    S3.put_object(Bucket="things", Key="small", Body=b"small")
    signed = S3.generate_presigned_url("get_object", {"Bucket": "things", "Key": "small"})
    assert signed.startswith("https://"), signed
    context = ssl.create_default_context(cafile=AUTHORITY)
    assert urllib.request.urlopen(signed, timeout=30, context=context).read() == b"small"


def policies_see_that_a_connection_is_safe():
    rule = """{"Version":"2012-10-17","Statement":[{"Effect":"%s","Principal":"*","Action":"s3:GetObject",
        "Resource":"arn:aws:s3:::things/*","Condition":%s}]}"""
    plain = '{"Bool":{"aws:SecureTransport":"false"}}'
    S3.put_bucket_policy(Bucket="things", Policy=rule % ("Deny", plain))
    assert S3.get_object(Bucket="things", Key="small")["Body"].read() == b"small"
    S3.put_bucket_policy(Bucket="things", Policy=rule % ("Deny", plain.replace("false", "true")))
    try:
        S3.get_object(Bucket="things", Key="small")
    except S3.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDenied", error.response
    else:
        raise AssertionError("the connection is not seen as safe")
    S3.delete_bucket_policy(Bucket="things")


def old_versions_and_plain_text_are_refused():
    for version, name in [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]:
        with connection(version, version) as stream:
            assert stream.version() == name, stream.version()
    try:
        connection(ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
    except ssl.SSLError as error:
        # The gateway has said so, not the library here.
        assert "ALERT" in error.reason, error
    else:
        raise AssertionError("TLS 1.1 is spoken")
    with socket.create_connection((HOST, PORT), timeout=30) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        answer = b""
        try:
            while received := plain.recv(4096):
                answer += received
        except ConnectionError:
            pass
        assert b"HTTP" not in answer, answer


def clients_that_say_nothing_are_sent_away():
    with socket.create_connection((HOST, PORT), timeout=SILENCE_S) as silent:
        began = time.monotonic()
        assert silent.recv(1) == b""
        assert time.monotonic() - began > 5, "a slow client has no time for its handshake"


def certificates_are_replaced():
    path = lambda name: os.path.join(FOLDER, name)
    before = serial()
    with connection() as held:
        for kind in ["key", "pem"]:
            shutil.copy(path(f"other.{kind}"), path(f"new.{kind}"))
            os.rename(path(f"new.{kind}"), path(f"server.{kind}"))
        end = time.monotonic() + FOLLOWED_S
        while serial() == before:
            assert time.monotonic() < end, "the former certificate is still shown"
            time.sleep(0.5)
        after = serial()
        # A connection that was made before goes on.
        held.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        assert held.recv(4096).startswith(b"HTTP/1.1 "), "no answer"
    with open(path("server.pem"), "w") as damaged:
        damaged.write("-----BEGIN CERTIFICATE-----\n")
    end = time.monotonic() + FOLLOWED_S
    while "is still shown" not in open(LOG).read():
        assert time.monotonic() < end, "the damaged file is not looked at"
        time.sleep(0.5)
    assert serial() == after, "what was there before is not shown any more"
    assert S3.get_object(Bucket="things", Key="small")["Body"].read() == b"small"


for part in [objects_come_and_go, policies_see_that_a_connection_is_safe, old_versions_and_plain_text_are_refused,
             clients_that_say_nothing_are_sent_away, certificates_are_replaced]:
    part()
    print(part.__name__, flush=True)
