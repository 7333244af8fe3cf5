"""Lifecycle rules by boto3: `s3_lifecycle.py ENDPOINT OTHER_ENDPOINT KEY SECRET DAY_S`.

Two gateways serve the same buckets, for which a day of the rules has `DAY_S` seconds. Prints a line for each part that
went well, `kill` where the second gateway is to be killed, and ends with an error at the first part that did not.
"""

import datetime
import re
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

FIRST, SECOND = sys.argv[1:3]
DAY_S = int(sys.argv[5])
# Time that a round may take to begin, and to end, on a machine that has other work.
ROUND_S = 60


def client(endpoint):
    config = Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 0})
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=sys.argv[3], aws_secret_access_key=sys.argv[4],
                        region_name="us-east-1", config=config)


ONE, OTHER = client(FIRST), client(SECOND)


def code(call, **args):
    try:
        call(**args)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "ok"


def rule(filters, **actions):
    return {"ID": f"r{time.monotonic_ns()}", "Status": "Enabled", "Filter": filters, **actions}


def set_rules(bucket, *rules, gateway=ONE):
    gateway.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": list(rules)})


def keys(bucket, gateway=OTHER):
    return [found["Key"] for found in gateway.list_objects_v2(Bucket=bucket).get("Contents", [])]


def versions(bucket, gateway=ONE):
    """Keys with their sizes or `marker`, newest first."""
    page = gateway.list_object_versions(Bucket=bucket)
    found = [(v["Key"], v["LastModified"], v["Size"]) for v in page.get("Versions", [])]
    found += [(m["Key"], m["LastModified"], "marker") for m in page.get("DeleteMarkers", [])]
    return [(key, what) for key, _, what in sorted(found, key=lambda it: (it[0], it[1]), reverse=True)]


def wait(look, wanted, what):
    end = time.monotonic() + ROUND_S + 5 * DAY_S
    while (found := look()) != wanted:
        assert time.monotonic() < end, f"{what}: {found} in place of {wanted}"
        time.sleep(0.3)


def put(bucket, key, size, gateway=ONE, **args):
    return gateway.put_object(Bucket=bucket, Key=key, Body=b"b" * size, **args)


def rules_are_kept_and_refused():
    ONE.create_bucket(Bucket="rules")
    absent = code(ONE.get_bucket_lifecycle_configuration, Bucket="rules")
    assert absent == "NoSuchLifecycleConfiguration", absent
    rules = [{"ID": "a", "Prefix": "a/", "Status": "Enabled", "Expiration": {"Days": 3}},
             {"ID": "b", "Filter": {"And": {"Prefix": "b/", "Tags": [{"Key": "t", "Value": "1"}],
                                            "ObjectSizeGreaterThan": 10}}, "Status": "Disabled",
              "NoncurrentVersionExpiration": {"NoncurrentDays": 2, "NewerNoncurrentVersions": 4}},
             {"ID": "c", "Filter": {"Prefix": "c/"}, "Status": "Enabled",
              "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}]
    set_rules("rules", *rules)
    for gateway in (ONE, OTHER):
        assert gateway.get_bucket_lifecycle_configuration(Bucket="rules")["Rules"] == rules
    moving = {"ID": "d", "Prefix": "", "Status": "Enabled", "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}
    for wrong, expected in [({**rules[0], "Status": "on"}, "MalformedXML"), (moving, "InvalidStorageClass"),
                            ({**rules[0], "Expiration": {"Days": 0}}, "InvalidArgument")]:
        got = code(ONE.put_bucket_lifecycle_configuration, Bucket="rules", LifecycleConfiguration={"Rules": [wrong]})
        assert got == expected, (wrong, got)
    assert ONE.get_bucket_lifecycle_configuration(Bucket="rules")["Rules"] == rules, "what is refused changes nothing"
    ONE.delete_bucket_lifecycle(Bucket="rules")
    assert code(OTHER.get_bucket_lifecycle_configuration, Bucket="rules") == "NoSuchLifecycleConfiguration"


def answers_tell_when_objects_expire():
    ONE.create_bucket(Bucket="told")
    set_rules("told", {**rule({"Prefix": "a"}, Expiration={"Days": 1}), "ID": "one day"},
              {**rule({"Prefix": "up"}, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 2}), "ID": "up"})
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    for answer in (put("told", "a", 3), ONE.head_object(Bucket="told", Key="a"),
                   ONE.get_object(Bucket="told", Key="a"),
                   ONE.copy_object(Bucket="told", Key="a2", CopySource="told/a")):
        date, of = re.fullmatch(r'expiry-date="(.+)", rule-id="(.+)"', answer["Expiration"]).groups()
        at = datetime.datetime.strptime(date, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=datetime.timezone.utc)
        assert of == "one%20day" and datetime.timedelta() <= at - tomorrow <= datetime.timedelta(days=1, minutes=1)
    assert "Expiration" not in put("told", "b", 3)
    upload = ONE.create_multipart_upload(Bucket="told", Key="up")
    assert upload["AbortRuleId"] == "up" and upload["AbortDate"] > tomorrow
    set_rules("told", rule({"Prefix": "none"}, Expiration={"Days": 9}))


def objects_expire():
    ONE.create_bucket(Bucket="things")
    for number in range(30):
        put("things", f"old/{number:02}", number * 10, Tagging="kind=old" if number % 2 else "kind=new")
    put("things", "large", 6 << 20)
    put("things", "stays", 5)
    set_rules("things", rule({"And": {"Prefix": "old/", "Tags": [{"Key": "kind", "Value": "old"}]}},
                             Expiration={"Days": 1}), rule({"Prefix": "large"}, Expiration={"Days": 1}))
    left = [f"old/{number:02}" for number in range(0, 30, 2)] + ["stays"]
    wait(lambda: keys("things"), left, "tagged objects expire")
    # One that is put anew again and again never gets old enough.
    set_rules("things", rule({"Prefix": "old/"}, Expiration={"Days": 2}), gateway=OTHER)
    end = time.monotonic() + 4 * DAY_S
    while time.monotonic() < end:
        put("things", "old/00", 1)
        assert ONE.get_object(Bucket="things", Key="old/00")["Body"].read() == b"b"
        time.sleep(0.1)
    wait(lambda: keys("things")[1:], ["stays"] if "old/00" in keys("things") else [], "all others expire")
    wait(lambda: keys("things"), ["stays"], "in the end it expires")
    assert code(OTHER.head_object, Bucket="things", Key="old/00") == "404"


def versions_go():
    ONE.create_bucket(Bucket="kept", ObjectLockEnabledForBucket=True)
    for size in range(1, 6):
        put("kept", "k", size)
    held = put("kept", "held", 1)["VersionId"]
    put("kept", "held", 2)
    ONE.put_object_legal_hold(Bucket="kept", Key="held", VersionId=held, LegalHold={"Status": "ON"})
    set_rules("kept", rule({}, NoncurrentVersionExpiration={"NoncurrentDays": 1, "NewerNoncurrentVersions": 1}),
              rule({"Prefix": "h"}, NoncurrentVersionExpiration={"NoncurrentDays": 1}))
    wait(lambda: versions("kept"), [("k", 5), ("k", 4), ("held", 2), ("held", 1)], "noncurrent versions go")
    set_rules("kept", rule({}, Expiration={"Days": 1}), rule({}, NoncurrentVersionExpiration={"NoncurrentDays": 1}))
    # A marker that is alone goes when it is a day old, too.
    wait(lambda: versions("kept"), [("held", "marker"), ("held", 1)], "all goes but what is held")
    ONE.put_object_legal_hold(Bucket="kept", Key="held", VersionId=held, LegalHold={"Status": "OFF"})
    wait(lambda: versions("kept"), [], "nothing is held any more")
    ONE.delete_bucket(Bucket="kept")


def uploads_are_given_up():
    ONE.create_bucket(Bucket="uploads")
    for key in ("a", "b"):
        upload = ONE.create_multipart_upload(Bucket="uploads", Key=key)["UploadId"]
        ONE.upload_part(Bucket="uploads", Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 1000)
    set_rules("uploads", rule({"Prefix": "a"}, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}))
    look = lambda: [u["Key"] for u in OTHER.list_multipart_uploads(Bucket="uploads").get("Uploads", [])]
    wait(look, ["b"], "an upload is given up")


def rounds_go_on_after_a_death():
    ONE.create_bucket(Bucket="last")
    for number in range(300):
        put("last", f"{number:03}", 10)
    set_rules("last", rule({}, Expiration={"Days": 1}))
    print("kill", flush=True)
    # A gateway that dies amid a round is taken for dead, and the round is another one's then.
    end = time.monotonic() + 150
    while found := keys("last", ONE):
        assert time.monotonic() < end, f"{len(found)} objects are left"
        time.sleep(1)


for part in (rules_are_kept_and_refused, answers_tell_when_objects_expire, objects_expire, versions_go,
             uploads_are_given_up, rounds_go_on_after_a_death):
    part()
    print(part.__name__, flush=True)
