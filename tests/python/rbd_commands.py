"""The command `rbd`, as people type it: exit status and output of each call, with ids, times and addresses left out.
Errors are told by several threads in any order.

    rbd_commands.py POOL SCRATCH

What is printed must be the same on Nacre and on Ceph. SCRATCH is a folder for files.
"""
import json
import os
import re
import subprocess
import sys
import zlib

POOL, SCRATCH = sys.argv[1], sys.argv[2]
HIDDEN = [
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID"),
    (r"\d+\.\d+\.\d+\.\d+:\d+/\d+", "ADDRESS"),
    (r"\b[0-9a-f]{10,16}\b", "ID"),
    (r"client\.\d+", "client.N"),
    (r"cookie=\d+|auto \d+|\b\d{13,}\b", "COOKIE"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w+ +\d+ \d\d:\d\d:\d\d \d{4}", "TIME"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*", "TIME"),
    (r"\x1b\[\d*m", ""),
    (r"elapsed.*|.*ops/sec.*", "RATES"),
    (re.escape(SCRATCH), "SCRATCH"),
    (r"0x[0-9a-f]{12,}", "POINTER"),
]
count = 0


def run(*args, given=None):
    command = ["rbd", *args]
    return subprocess.run(command, input=given, capture_output=True, timeout=120)


def hidden(text):
    for pattern, stands_for in HIDDEN:
        text = re.sub(pattern, stands_for, text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def say(*args, given=None, binary=False):
    global count
    count += 1
    done = run(*args, given=given)
    out = f"{len(done.stdout)} bytes, crc {zlib.crc32(done.stdout):08x}" if binary else hidden(done.stdout.decode())
    print(f"{count:03} rbd {hidden(' '.join(args))}: {done.returncode}", flush=True)
    for line in out.splitlines():
        print(f"    {line}")


def spec(name):
    return f"{POOL}/{name}"


def file(name, seed=None, size=0):
    path = os.path.join(SCRATCH, name)
    if seed is not None:
        with open(path, "wb") as out:
            out.write((seed.to_bytes(4, "little") * (size // 4 + 1))[:size])
    return path


def crc_of(name):
    with open(file(name), "rb") as got:
        data = got.read()
    print(f"    {len(data)} bytes, crc {zlib.crc32(data):08x}")


def life():
    say("ls", POOL)
    say("create", spec("a"), "--size", "16M", "--object-size", "1M")
    say("create", spec("a"), "--size", "16M")
    say("create", spec("b"))
    say("create", spec("b"), "--size", "10G", "--image-feature", "layering")
    say("create", spec("bad"), "--size", "16M", "--image-feature", "nonsense")
    say("create", spec("odd"), "--size", "5000B", "--object-size", "64K")
    say("ls", POOL)
    say("ls", "-l", POOL)
    say("info", spec("a"))
    say("info", spec("b"))
    say("info", spec("odd"))
    say("info", spec("nothing"))
    say("status", spec("a"))
    say("du", POOL)
    say("resize", spec("a"), "--size", "20M")
    say("resize", spec("a"), "--size", "10M")
    say("resize", spec("a"), "--size", "10M", "--allow-shrink")
    say("mv", spec("odd"), spec("even"))
    say("mv", spec("odd"), spec("even"))
    say("feature", "disable", spec("a"), "fast-diff")
    say("feature", "enable", spec("a"), "fast-diff")
    say("feature", "disable", spec("a"), "layering")
    say("object-map", "check", spec("a"))
    say("object-map", "rebuild", spec("a"))
    say("image-meta", "set", spec("a"), "key", "value")
    say("image-meta", "list", spec("a"))
    say("image-meta", "get", spec("a"), "key")
    say("image-meta", "rm", spec("a"), "key")
    say("image-meta", "get", spec("a"), "key")
    say("config", "image", "set", spec("a"), "rbd_cache", "false")
    say("config", "image", "get", spec("a"), "rbd_cache")
    say("config", "image", "rm", spec("a"), "rbd_cache")
    say("rm", spec("even"))
    say("rm", spec("even"))
    say("rm", spec("b"))


def data():
    file("in", 7, 5_000_000)
    say("import", file("in"), spec("imported"), "--object-size", "1M")
    say("info", spec("imported"))
    say("du", spec("imported"))
    say("export", spec("imported"), file("out"))
    crc_of("out")
    say("import", "-", spec("piped"), given=b"piped" * 300_000)
    say("export", spec("piped"), "-", binary=True)
    say("export", spec("nothing"), file("out2"))
    say("import", file("nothing"), spec("never"))
    say("bench", spec("a"), "--io-type", "write", "--io-size", "4K", "--io-threads", "4", "--io-total", "2M", "--io-pattern", "rand")
    say("bench", spec("a"), "--io-type", "read", "--io-size", "64K", "--io-total", "4M")
    say("bench", spec("a"), "--io-type", "readwrite", "--io-size", "4K", "--io-total", "1M", "--rw-mix-read", "50")
    say("rm", spec("piped"))


def snapshots():
    image = spec("imported")
    say("snap", "ls", image)
    say("snap", "create", f"{image}@one")
    say("snap", "create", f"{image}@one")
    say("bench", image, "--io-type", "write", "--io-size", "100K", "--io-total", "1M", "--io-pattern", "seq")
    say("snap", "create", f"{image}@two")
    say("snap", "ls", image)
    say("du", image)
    say("diff", image)
    say("diff", image, "--from-snap", "one")
    say("diff", image, "--from-snap", "one", "--whole-object")
    say("diff", f"{image}@two", "--from-snap", "one", "--format", "json")
    say("snap", "protect", f"{image}@one")
    say("snap", "ls", image)
    say("snap", "rm", f"{image}@one")
    say("snap", "unprotect", f"{image}@one")
    say("snap", "unprotect", f"{image}@one")
    say("snap", "rename", f"{image}@two", f"{image}@zwei")
    say("snap", "limit", "set", image, "--limit", "2")
    say("snap", "create", f"{image}@three")
    say("snap", "limit", "clear", image)
    say("export", f"{image}@one", "-", binary=True)
    say("snap", "rollback", f"{image}@one")
    say("export", image, "-", binary=True)
    say("snap", "rollback", f"{image}@nothing")
    say("rm", image)


def differences():
    image = spec("imported")
    say("export-diff", f"{image}@zwei", file("whole.diff"))
    say("export-diff", f"{image}@zwei", file("part.diff"), "--from-snap", "one")
    say("create", spec("copy"), "--size", "5000000B", "--object-size", "1M")
    say("import-diff", file("part.diff"), spec("copy"))
    say("import-diff", file("whole.diff"), spec("copy"))
    say("import-diff", file("whole.diff"), spec("copy"))
    say("export", spec("copy"), "-", binary=True)
    say("export", f"{image}@zwei", "-", binary=True)
    say("snap", "ls", spec("copy"))
    say("merge-diff", file("part.diff"), file("part.diff"), file("merged.diff"))
    say("export", "--export-format", "2", image, file("second"))
    say("import", "--export-format", "2", file("second"), spec("again"))
    say("snap", "ls", spec("again"))
    say("info", spec("again"))
    say("export", f"{spec('again')}@one", "-", binary=True)
    say("snap", "purge", spec("again"))
    say("rm", spec("again"))
    say("cp", f"{image}@zwei", spec("second"))
    say("export", spec("second"), "-", binary=True)
    say("rm", spec("second"))
    say("deep", "cp", image, spec("deep"))
    say("snap", "ls", spec("deep"))
    say("snap", "purge", spec("deep"))
    say("rm", spec("deep"))
    say("snap", "purge", spec("copy"))
    say("rm", spec("copy"))


def clones():
    image = spec("imported")
    say("clone", f"{image}@one", spec("child"))
    say("snap", "protect", f"{image}@one")
    say("clone", f"{image}@one", spec("child"))
    say("children", f"{image}@one")
    say("info", spec("child"))
    say("snap", "unprotect", f"{image}@one")
    say("bench", spec("child"), "--io-type", "write", "--io-size", "100K", "--io-total", "500K", "--io-pattern", "seq")
    say("du", spec("child"))
    say("diff", spec("child"))
    say("flatten", spec("child"))
    say("flatten", spec("child"))
    say("children", f"{image}@one")
    say("clone", "--rbd-default-clone-format", "2", f"{image}@zwei", spec("second"))
    say("children", "--all", image)
    say("snap", "rm", f"{image}@zwei")
    say("snap", "ls", "--all", image)
    say("sparsify", spec("second"))
    say("rm", spec("second"))
    say("rm", spec("child"))
    say("snap", "unprotect", f"{image}@one")


def trash():
    say("trash", "ls", POOL)
    say("create", spec("t"), "--size", "1M")
    say("trash", "mv", spec("t"))
    say("trash", "ls", POOL)
    say("trash", "ls", "-l", POOL)
    found = json.loads(run("trash", "ls", POOL, "--format", "json").stdout)
    say("trash", "restore", "--image", "u", f"{POOL}/{found[0]['id'] if found else 'none'}")
    say("ls", POOL)
    say("trash", "mv", spec("u"), "--expires-at", "tomorrow")
    say("trash", "purge", POOL)
    say("trash", "ls", POOL)
    for image in json.loads(run("trash", "ls", POOL, "--format", "json").stdout):
        say("trash", "rm", f"{POOL}/{image['id']}")
        say("trash", "rm", "--force", f"{POOL}/{image['id']}")
    say("trash", "restore", f"{POOL}/nothing")


def namespaces():
    say("namespace", "ls", POOL)
    say("namespace", "create", f"{POOL}/n")
    say("namespace", "create", f"{POOL}/n")
    say("namespace", "ls", POOL)
    say("create", f"{POOL}/n/i", "--size", "1M")
    say("ls", f"{POOL}/n")
    say("namespace", "rm", f"{POOL}/n")
    say("rm", f"{POOL}/n/i")
    say("namespace", "rm", f"{POOL}/n")


def locks():
    say("lock", "ls", spec("a"))
    say("lock", "add", spec("a"), "mine")
    say("lock", "add", spec("a"), "yours")
    say("lock", "ls", spec("a"))
    say("lock", "rm", spec("a"), "mine", "client.1")
    locks = json.loads(run("lock", "ls", spec("a"), "--format", "json").stdout)
    if locks:
        say("lock", "rm", spec("a"), "mine", locks[0]["locker"])
    say("lock", "ls", spec("a"))


def end():
    say("snap", "purge", spec("imported"))
    say("rm", spec("imported"))
    say("rm", spec("a"))
    say("ls", POOL)
    say("pool", "stats", POOL)


run("pool", "init", POOL)
for part in [life, data, snapshots, differences, clones, trash, namespaces, locks, end]:
    print(f"== {part.__name__}", flush=True)
    part()
