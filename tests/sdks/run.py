#!/usr/bin/env python3
"""Runs programs that use S3 through the kits of others against a gateway of a small cluster of its own.

The kits are Hadoop's S3A with its committers, the AWS SDK for Java and the AWS SDK for Go: a folder here for each, with
a program and a file that names exact versions. Maven and Go bring what the programs need, and each file that Maven
brings is compared with the SHA-256 that `jars.sha256` of the folder has. Prints a line for each part of a program, and
ends with 1 if any has failed, if an upload is left, or if the index of a bucket differs from its objects.
"""

import argparse
import hashlib
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
KITS = ["s3a", "java", "go"]
# Hadoop and the SDKs open parts of the JDK's own, which newer ones allow only where they are told to.
JVM_FLAGS = ["-Xmx1g", "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
DOWNLOAD_S = 1800


class Failure(Exception):
    """A sentence for whoever runs this."""


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def checked(words, limit_s=300, **more):
    """Runs a command and returns what it printed.

    Raises Failure with the end of its messages if it fails or takes longer.
    """
    words = [str(word) for word in words]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s, **more)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(words[:4])}: not done after {limit_s} s") from None
    if done.returncode:
        raise Failure(f"{' '.join(words[:4])}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def jars(kit, folder, pin):
    """The class path of a kit. Each of its jars is the one that `jars.sha256` names, and there are no others."""
    listed = folder / f"{kit}.classpath"
    checked(["mvn", "-B", "-q", "-ntp", "-C", "-f", HERE / kit / "pom.xml", "dependency:build-classpath",
             f"-Dmdep.outputFile={listed}"], DOWNLOAD_S)
    paths = [pathlib.Path(word) for word in listed.read_text().strip().split(":")]
    found = {path.name: sha256(path) for path in paths}
    kept = HERE / kit / "jars.sha256"
    if pin:
        kept.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(found.items())))
    expected = {name: digest for digest, name in (line.split() for line in kept.read_text().splitlines())}
    if found != expected:
        wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        raise Failure(f"{kit}: other files than {kept} has: {' '.join(wrong)}")
    return paths


def built(kit, folder, pin):
    """Brings what a kit needs and builds its program. Returns the command that runs it."""
    out = folder / kit
    if kit == "go":
        # Go itself compares each module with go.sum.
        checked(["go", "build", "-mod=readonly", "-o", out, "."], DOWNLOAD_S, cwd=HERE / kit)
        return [out]
    paths = jars(kit, folder, pin)
    classes = ":".join(str(path) for path in [out, HERE / kit, *paths])
    checked(["javac", "-Xlint:all,-classfile,-processing,-path", "-Werror", "-d", out, "-cp", classes,
             HERE / "Report.java", *sorted((HERE / kit).glob("*.java"))])
    return ["java", *JVM_FLAGS, f"-Djava.io.tmpdir={folder}", "-cp", classes, "Main"]


class Cluster:
    """A cluster with a gateway in a folder, and a user's keys."""

    def __init__(self, nacre, folder):
        self.nacre, self.dir, self.gateway = nacre, folder / "cluster", None
        self.port, self.folder = free_port(), folder
        self.access, self.secret = "AK" + secrets.token_hex(9).upper(), secrets.token_hex(20)

    def said(self, *words):
        return checked([self.nacre, *words])

    def start(self):
        self.said("up", "--dir", self.dir, "--osds", "3", "--mons", "1", "--port", str(free_port()), "--detach")
        self.said("s3", "user", "add", "sdk", "--access-key", self.access, "--secret-key", self.secret, "--dir",
                  self.dir)
        keys = self.folder / "keys"
        self.said("s3", "master-key", keys)
        with open(self.folder / "gateway", "w") as log:
            self.gateway = subprocess.Popen([self.nacre, "s3", "serve", "--listen", f"127.0.0.1:{self.port}",
                                             "--master-key", keys, "--conf", self.dir / "ceph.conf"],
                                            stdout=subprocess.PIPE, stderr=log)
        if not self.gateway.stdout.readline():
            raise Failure((self.folder / "gateway").read_text()[-2000:])

    def stop(self):
        if self.gateway:
            self.gateway.terminate()
            self.gateway.wait()
        if self.dir.is_dir():
            self.said("down", "--dir", self.dir)

    def environment(self, kit):
        """Tells a program where the gateway is, the keys, a bucket of its own and a folder for its files."""
        scratch = self.folder / f"{kit}-files"
        scratch.mkdir()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {**clean, "AWS_ACCESS_KEY_ID": self.access, "AWS_SECRET_ACCESS_KEY": self.secret,
                "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "SDK_ENDPOINT":
                f"http://127.0.0.1:{self.port}", "SDK_BUCKET": f"sdk-{kit}", "SDK_FOLDER": str(scratch),
                "HOME": str(scratch)}

    def differences(self):
        """Goes through all buckets by the gateway's own check. Returns all it says if something differs."""
        done = subprocess.run([self.nacre, "s3", "bucket", "check", "--dir", self.dir], capture_output=True, text=True,
                              timeout=300)
        counts = [int(count) for count in re.findall(r" (\d+) entries were wrong", done.stdout)]
        clean = done.returncode == 0 and counts and not any(counts)
        return "" if clean else done.stdout + done.stderr


def run(kit, command, cluster, minutes):
    """Runs a program, whose lines are shown as they come. Returns how many of its parts have failed."""
    with open(cluster.folder / f"{kit}.log", "w") as log:
        process = subprocess.Popen([str(word) for word in command], env=cluster.environment(kit), text=True,
                                   stdout=subprocess.PIPE, stderr=log, cwd=cluster.folder)
        # A program that is killed ends its lines, and with a status that no program gives.
        limit, passed, failed = threading.Timer(60 * minutes, process.kill), 0, 0
        limit.start()
        try:
            for line in process.stdout:
                say(f"{kit}: {line.rstrip()}")
                passed, failed = passed + line.startswith("ok "), failed + line.startswith("FAILED ")
            status = process.wait()
        finally:
            limit.cancel()
            process.kill()
            process.wait()
    if status != (1 if failed else 0) or not passed + failed:
        failed += 1
        print((cluster.folder / f"{kit}.log").read_text()[-4000:])
    say(f"{kit}: {passed} parts passed, {failed} failed, status {status}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nacre", required=True, type=pathlib.Path, help="the binary")
    parser.add_argument("--only", choices=KITS, action="append", help="a kit; may be given again")
    parser.add_argument("--minutes", type=int, default=30, help="time that a program may take")
    parser.add_argument("--pin", action="store_true", help="write jars.sha256 anew, after versions were changed")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    args = parser.parse_args()
    args.nacre = args.nacre.resolve()
    folder, failed = pathlib.Path(tempfile.mkdtemp(prefix="s3-sdks-")), 0
    cluster = Cluster(args.nacre, folder)
    try:
        commands = {}
        for kit in args.only or KITS:
            say(f"{kit}: bringing and building")
            commands[kit] = built(kit, folder, args.pin)
        say("starting a cluster")
        cluster.start()
        for kit, command in commands.items():
            failed += run(kit, command, cluster, args.minutes)
        found = cluster.differences()
        say(f"bucket check: {found or 'clean'}")
        failed += bool(found)
    except Failure as failure:
        say(str(failure))
        failed += 1
    finally:
        cluster.stop()
        if args.keep or failed:
            say(f"logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    say(f"{failed} failed" if failed else "all passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
