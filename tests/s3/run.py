#!/usr/bin/env python3
"""Runs a folder of the public suite of S3 (ceph/s3-tests) against a gateway of a small cluster of its own.

The suite needs pytest, boto3, munch, httplib2, lxml, pytz, isodate and requests beside it: `--python` names an
interpreter that has them. Tests that are not about what this gateway is for are left out (LEFT_OUT). Prints how many
pass and fail of each group, a group being a marker of the suite, and writes the outcome of each test to `--out`.
"""

import argparse
import collections
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Markers of the suite: what comes after this gateway's first form, and what Ceph's own gateway fails.
LEFT_OUT = "not bucket_logging and not cloud_transition and not cloud_restore and not fails_on_rgw"
FILES = ["test_s3.py", "test_headers.py"]
# Seconds that lifecycle rules take for a day, as the suite expects it.
DAY_S = 10
TENANT = "testx"
# Users that the suite wants, by the section of its configuration; those of `iam` have to be there to start it.
USERS = {"s3 main": "main", "s3 alt": "alt", "s3 tenant": "tenanted", "iam": "iam", "iam root": "iamroot",
         "iam alt root": "iamaltroot"}


def nacre(args, *words):
    done = subprocess.run([args.nacre, *words], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def configuration(args, conf, port):
    """Makes the users, and the text that tells the suite about them."""
    lines = ["[DEFAULT]", "host = 127.0.0.1", f"port = {port}", "is_secure = False", "ssl_verify = False",
             "[fixtures]", "bucket prefix = nacre-{random}-"]
    for section, uid in USERS.items():
        access, secret = "AK" + secrets.token_hex(9).upper(), secrets.token_hex(20)
        email, name = f"{uid}@s3.test", f"The user {uid}"
        tenant = ["--tenant", TENANT] if section == "s3 tenant" else []
        nacre(args, "s3", "user", "add", uid, "--display-name", name, "--email", email, "--access-key", access,
              "--secret-key", secret, "--conf", conf, *tenant)
        whole = f"{TENANT}${uid}" if tenant else uid
        lines += [f"[{section}]", f"user_id = {whole}", f"display_name = {name}", f"email = {email}",
                  f"access_key = {access}", f"secret_key = {secret}"]
        if section == "s3 main":
            lines += ["api_name = default", f"lc_debug_interval = {DAY_S}"]
        if tenant:
            lines.append(f"tenant = {TENANT}")
    return "\n".join(lines) + "\n"


def markers(args):
    """The markers of each test, as the suite's files have them."""
    found = {}
    for name in FILES:
        pending = []
        for line in (args.suite / "s3tests/functional" / name).read_text().splitlines():
            if line.startswith("@pytest.mark."):
                pending.append(line.removeprefix("@pytest.mark.").split("(")[0])
            elif line.startswith("def test_"):
                found[line.removeprefix("def ").split("(")[0]] = pending
                pending = []
            elif line and not line.startswith((" ", "#", "@")):
                pending = []
    return found


def outcomes(report):
    """The outcome of each test: `passed`, `skipped`, or the first line of its failure."""
    found = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        name, outcome = case.get("name").split("[")[0], "passed"
        for child in case:
            if child.tag == "skipped":
                outcome = "skipped"
            elif child.tag in ("failure", "error"):
                outcome = (child.get("message") or child.tag).splitlines()[0][:200]
        # A test with parameters has failed if one of its runs has.
        if found.get(name, "passed") in ("passed", "skipped"):
            found[name] = outcome
    return found


def tell(found, groups, out):
    counts = collections.defaultdict(collections.Counter)
    for name, outcome in found.items():
        kind = outcome if outcome in ("passed", "skipped") else "failed"
        for group in [*(groups.get(name) or ["(no marker)"]), "all"]:
            counts[group][kind] += 1
    print(f"{'group':<28} {'passed':>7} {'failed':>7} {'skipped':>7}")
    for group, count in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"{group:<28} {count['passed']:>7} {count['failed']:>7} {count['skipped']:>7}")
    with open(out, "w") as file:
        for name, outcome in sorted(found.items()):
            file.write(json.dumps({"test": name, "outcome": outcome, "groups": groups.get(name, [])}) + "\n")
    print(f"each test: {out}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=pathlib.Path, help="the folder of the suite")
    parser.add_argument("--nacre", required=True, help="the binary")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has what the suite needs")
    parser.add_argument("--only", default="", help="an expression of pytest for names of tests")
    parser.add_argument("--minutes", type=int, default=60, help="time that the suite may take")
    parser.add_argument("--out", default="s3-tests.jsonl")
    args = parser.parse_args()
    args.suite = args.suite.resolve()
    if not (args.suite / "s3tests/functional").is_dir():
        sys.exit(f"{args.suite} has no s3tests/functional")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="s3-tests-"))
    try:
        cluster = str(folder / "cluster")
        nacre(args, "up", "--dir", cluster, "--osds", "2", "--detach")
        gateway = None
        try:
            conf, ceph_conf = folder / "s3tests.conf", os.path.join(cluster, "ceph.conf")
            conf.write_text(configuration(args, ceph_conf, port))
            keys = str(folder / "keys")
            nacre(args, "s3", "master-key", keys)
            words = [args.nacre, "s3", "serve", "--listen", f"127.0.0.1:{port}", "--lifecycle-day", str(DAY_S),
                     "--master-key", keys]
            with open(folder / "gateway", "w") as said:
                gateway = subprocess.Popen([*words, "--conf", ceph_conf], stdout=subprocess.PIPE, stderr=said)
            if not gateway.stdout.readline():
                sys.exit((folder / "gateway").read_text()[-2000:])
            report = folder / "report.xml"
            words = [args.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", LEFT_OUT, "--junitxml", report,
                     "--tb=line", "--no-header"]
            files = [args.suite / "s3tests/functional" / name for name in FILES]
            filters = ["-k", args.only] if args.only else []
            environment = {**os.environ, "S3TEST_CONF": str(conf)}
            with open(folder / "said", "w") as said:
                done = subprocess.run([*words, *filters, *files], cwd=args.suite, env=environment, stdout=said,
                                      stderr=subprocess.STDOUT, timeout=60 * args.minutes)
            # A pytest that ends with another status has not run the tests.
            if done.returncode not in (0, 1):
                sys.exit((folder / "said").read_text()[-2000:])
            tell(outcomes(report), markers(args), args.out)
        finally:
            if gateway:
                gateway.terminate()
                gateway.wait()
            nacre(args, "down", "--dir", cluster)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
