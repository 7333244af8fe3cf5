"""boto3 at a gateway of several threads: all serve, none waits for a slow client, and they share what is bounded. The
gateway is told to stop amid uploads, which another one then has. Prints the parts that are done.

Words: the endpoints of both gateways, the first one's process and number of threads, access key and secret of the user,
the binary, the cluster's ceph.conf.
"""

import concurrent.futures
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import boto3
import botocore.config
import botocore.exceptions

FIRST, SECOND, PROCESS, THREADS, ACCESS, SECRET, NACRE, CONF = sys.argv[1:]
CLIENTS = 12
# Gateways act on former settings, and remember users, for so long.
SETTINGS_S = 6
# Time on a processor by which a thread has served more than its start.
BUSY_NS = 5_000_000
LARGE = os.urandom(6 << 20)


def client(endpoint):
    config = botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"},
                                    max_pool_connections=CLIENTS)
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name="us-east-1", config=config)


def nacre(*words):
    done = subprocess.run([NACRE, "s3", *words, "--conf", CONF], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (words, done.stderr)


def at_once(work):
    """Does work with every number below that of the clients at once."""
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(work, range(CLIENTS)))


class Upload:
    """An upload whose client has sent half of its bytes."""

    def __init__(self, one, key):
        address = urllib.parse.urlsplit(one.generate_presigned_url("put_object", {"Bucket": "shared", "Key": key}))
        self.key = key
        self.connection = http.client.HTTPConnection(address.netloc, timeout=60)
        self.connection.putrequest("PUT", f"{address.path}?{address.query}")
        self.connection.putheader("Content-Length", str(len(LARGE)))
        self.connection.endheaders()
        self.connection.send(LARGE[:len(LARGE) // 2])

    def end(self):
        self.connection.send(LARGE[len(LARGE) // 2:])
        answer = self.connection.getresponse()
        assert answer.status == 200, (answer.status, answer.read())


def is_stored(one, key):
    assert one.get_object(Bucket="shared", Key=key)["Body"].read() == LARGE, key


def busy_threads():
    """Time on a processor of each thread that serves, in nanoseconds."""
    busy = {}
    for task in pathlib.Path(f"/proc/{PROCESS}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("s3-"):
            busy[name] = int((task / "schedstat").read_text().split()[0])
    return busy


def all_serve(one):
    one.create_bucket(Bucket="shared")
    # As many slow clients as there are threads have one each.
    slow = [Upload(one, f"slow{number}") for number in range(int(THREADS))]

    def work(number):
        for at in range(20):
            key, body = f"k{number:02}-{at:02}", os.urandom(4096)
            one.put_object(Bucket="shared", Key=key, Body=body)
            assert one.get_object(Bucket="shared", Key=key)["Body"].read() == body, key
    at_once(work)
    found = [entry["Key"] for entry in one.list_objects_v2(Bucket="shared")["Contents"]]
    assert found == [f"k{number:02}-{at:02}" for number in range(CLIENTS) for at in range(20)], found
    for upload in slow:
        upload.end()
        is_stored(one, upload.key)
    busy = busy_threads()
    assert sorted(busy) == [f"s3-{number}" for number in range(int(THREADS))], busy
    assert min(busy.values()) > BUSY_NS, busy
    print("all_threads_serve", flush=True)


REFUSALS = [("QuotaExceeded", 403), ("SlowDown", 503)]


def taken(one, bucket, each):
    """Puts objects of their own for all clients at once. Gives the number of those that were not refused."""
    def work(number):
        count = 0
        for at in range(each):
            try:
                one.put_object(Bucket=bucket, Key=f"{number}-{at}", Body=b"x")
                count += 1
            except botocore.exceptions.ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                assert (error.response["Error"]["Code"], status) in REFUSALS, error.response
        return count
    return sum(at_once(work))


def awaited(one, bucket, body=b"bytes"):
    """Heads of the answers to an upload whose client waits to be told to send the body, until the connection ends."""
    address = urllib.parse.urlsplit(one.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "awaited"}))
    heads = []
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(f"PUT {address.path}?{address.query} HTTP/1.1\r\nHost: {address.netloc}\r\n"
                           f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        with connection.makefile("rb") as answers:
            while line := answers.readline():
                head = [line.decode().strip()]
                while (line := answers.readline().strip()):
                    head.append(line.decode().lower())
                heads.append(head)
                if " 100 " in head[0]:
                    connection.sendall(body)
                    continue
                length = next(int(line.split(":")[1]) for line in head if line.startswith("content-length:"))
                answers.read(length)
                if "connection: close" not in head:
                    break
    return heads


def a_client_that_waits_is_told_or_parted_with(one):
    go_on, done = awaited(one, "shared")
    assert (go_on, done[0]) == (["HTTP/1.1 100 Continue"], "HTTP/1.1 200 OK"), (go_on, done)
    assert "connection: close" not in done, done
    # Without bytes there is nothing to be told, and boto3 takes the next answer of the connection for this one.
    [done] = awaited(one, "shared", b"")
    assert done[0] == "HTTP/1.1 200 OK" and "connection: close" in done, done
    # Bytes of the next request would be taken for the body that was not sent.
    [refusal] = awaited(one, "nowhere")
    assert refusal[0].startswith("HTTP/1.1 404 ") and "connection: close" in refusal, refusal
    print("a_client_that_waits_is_told_or_parted_with", flush=True)


def bounds_are_shared(one):
    one.create_bucket(Bucket="small")
    nacre("bucket", "quota", "small", "--max-objects", "30")
    one.create_bucket(Bucket="paced")
    nacre("bucket", "rate", "paced", "--writes", "20")
    time.sleep(SETTINGS_S)
    count = taken(one, "small", 5)
    # Requests may have been refused while others were counted that were refused as well.
    for at in range(60):
        try:
            one.put_object(Bucket="small", Key=f"later{at}", Body=b"x")
            count += 1
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "QuotaExceeded", error.response
    found = len(one.list_objects_v2(Bucket="small")["Contents"])
    assert (count, found) == (30, 30), (count, found)
    begun = time.monotonic()
    count = taken(one, "paced", 4)
    # One more comes free every three seconds.
    most = 20 + (time.monotonic() - begun) / 3 + 1
    assert 20 <= count <= most, (count, most)
    print("bounds_are_shared", flush=True)


def stops(one, two):
    uploads = [Upload(one, f"last{number}") for number in range(CLIENTS)]
    # Half of a body, and the headers, have arrived by then.
    time.sleep(2)
    os.kill(int(PROCESS), signal.SIGTERM)
    end = time.monotonic() + 10
    while True:
        try:
            http.client.HTTPConnection(urllib.parse.urlsplit(FIRST).netloc, timeout=5).connect()
        except ConnectionRefusedError:
            break
        assert time.monotonic() < end, "it accepts connections after it was told to stop"
        time.sleep(0.1)
    for upload in uploads:
        upload.end()
    for upload in uploads:
        is_stored(two, upload.key)
    print("uploads_end_before_it_stops", flush=True)


FIRST_CLIENT, SECOND_CLIENT = client(FIRST), client(SECOND)
all_serve(FIRST_CLIENT)
a_client_that_waits_is_told_or_parted_with(FIRST_CLIENT)
bounds_are_shared(FIRST_CLIENT)
stops(FIRST_CLIENT, SECOND_CLIENT)
