"""boto3 at two gateways, the second of which dies amid a large object and a part. Prints the parts that are done; the
gateway is to be killed when this prints `kill`.

Words: the endpoints of both gateways, access key and secret of the user; `read` before them reads what was stored.
"""

import socket
import sys
import time
import urllib.parse

import boto3
import botocore.config

READS = sys.argv[1] == "read"
FIRST, SECOND, ACCESS, SECRET = sys.argv[2:] if READS else sys.argv[1:]
LARGE = bytes(range(256)) * (9 << 12)
PART = b"p" * (6 << 20)
# Bytes that a cut body tells, and those that come of it: more than a stripe of 4 MiB.
TOLD, SENT = 24 << 20, 14 << 20


def client(endpoint):
    config = botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name="us-east-1", config=config)


def cut(address):
    """Sends a part of a body. Gives the connection, which has to stay open."""
    parsed = urllib.parse.urlsplit(address)
    connection = socket.create_connection((parsed.hostname, parsed.port), timeout=60)
    head = f"PUT {parsed.path}?{parsed.query} HTTP/1.1\r\nHost: {parsed.netloc}\r\nContent-Length: {TOLD}\r\n\r\n"
    connection.sendall(head.encode() + b"x" * SENT)
    return connection


def main():
    first, second = client(FIRST), client(SECOND)
    if READS:
        assert first.get_object(Bucket="things", Key="kept")["Body"].read() == LARGE
        assert first.get_object(Bucket="things", Key="of parts")["Body"].read() == PART + b"end"
        print("read")
        return
    first.create_bucket(Bucket="things")
    first.put_object(Bucket="things", Key="kept", Body=LARGE)
    upload = first.create_multipart_upload(Bucket="things", Key="of parts")["UploadId"]
    parts = []
    for number, body in enumerate([PART, b"end"], 1):
        made = first.upload_part(Bucket="things", Key="of parts", UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": made["ETag"]})
    first.complete_multipart_upload(Bucket="things", Key="of parts", UploadId=upload,
                                    MultipartUpload={"Parts": parts})
    opened = first.create_multipart_upload(Bucket="things", Key="open")["UploadId"]
    where = {"Bucket": "things", "Key": "open", "UploadId": opened}
    first.upload_part(**where, PartNumber=1, Body=PART)
    print("stored")
    addresses = [
        second.generate_presigned_url("put_object", Params={"Bucket": "things", "Key": "cut"}),
        second.generate_presigned_url("upload_part", Params=where | {"PartNumber": 2}),
    ]
    connections = [cut(address) for address in addresses]
    time.sleep(3)
    print("kill", flush=True)
    time.sleep(1)
    for connection in connections:
        connection.close()
    assert [part["PartNumber"] for part in first.list_parts(**where)["Parts"]] == [1]
    print("cut_short")


main()
