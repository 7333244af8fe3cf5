#!/usr/bin/env python3
"""Tells what one operation of a block image's client costs a cluster, by counts and by layers.

    tests/cost/run.py [--nacre BINARY] [--engine nacre|ceph] [--coded K+M] [--rows REGEX] [--seconds N] [--json FILE]

A cluster is started as tests/compare does it; an image of one pool, with three copies or erasure-coded, is filled; then
each row is driven by fio's engine `rbd`, on the unmodified librbd with its cache off. While a row runs its expenses are
measured four times, one after the other, so that no way of measuring is paid by another's figures: CPU time as the
kernel accounts it; counts of events (`perf stat`); samples of all processors (`perf record`), told by layer;
allocations, by probes in the binary. All are divided by the operations that the OSDs counted meanwhile. What cannot be
measured here is told.

Needs perf, fio and root.
"""
import argparse
import collections
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "compare")]
import counting
import profile_layers
import tables
import usage
from clusters import Ceph, Failure, Nacre, check_port, run, wait_for

POOL, IMAGE, COPIES, PG_NUM = "cost", "image", 3, 64
WARM_UP_S = 2
# More operations than an image's opening takes.
OPENING_OPERATIONS = 100
# Longest time of a row.
CLIENT_S = 600
# How much longer than its time a client may take before it counts as stuck.
CLIENT_LIMIT_S = 60


class Row:
    """One kind of load: fio's mode, its share of reads if it mixes, and operations in flight."""

    def __init__(self, name, mode, depth, reads=None):
        self.name, self.mode, self.depth, self.reads = name, mode, depth, reads

    def fio(self, seconds):
        mix = [f"--rwmixread={self.reads}"] if self.reads is not None else []
        return ["fio", "--name=cost", "--ioengine=rbd", "--clientname=admin", f"--pool={POOL}", f"--rbdname={IMAGE}",
                f"--rw={self.mode}", "--bs=4k", f"--iodepth={self.depth}", f"--runtime={seconds}", "--time_based", *mix,
                "--output-format=json"]


ROWS = (
    Row("4k-randwrite-qd32", "randwrite", 32),
    Row("4k-randwrite-qd1", "randwrite", 1),
    Row("4k-randread-qd32", "randread", 32),
    Row("4k-randread-qd1", "randread", 1),
    Row("4k-70-30-qd32", "randrw", 32, 70),
)


def coding(text):
    """Numbers of data and parity shards, of a text such as 4+2."""
    k, m = map(int, text.split("+"))
    if k < 2 or m < 1:
        raise ValueError(f"{text} is no code")
    return k, m


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--nacre", default="target/release/nacre", help="the binary (default target/release/nacre)")
    p.add_argument("--engine", choices=("nacre", "ceph"), default="nacre", help="the cluster (default nacre)")
    p.add_argument("--coded", metavar="K+M", type=coding,
                   help="the image lies wholly in an erasure-coded pool of so many data and parity shards")
    p.add_argument("--rows", default="", metavar="REGEX",
                   help="only rows that match: " + ", ".join(row.name for row in ROWS))
    p.add_argument("--seconds", type=int, default=4, help="length of each of the four measurements (default 4)")
    p.add_argument("--osds", type=int, default=6, help="number of OSDs (default 6)")
    p.add_argument("--osd-gib", type=int, default=2, help="size of each OSD's sparse file (default 2)")
    p.add_argument("--image-mib", type=int, default=512, help="size of the image (default 512)")
    p.add_argument("--port", type=int, default=23000, help="first of the 1000 ports that may be used (default 23000)")
    p.add_argument("--dir", help="where the cluster's folder is made, and removed (default: the temporary folder)")
    p.add_argument("--no-profile", action="store_true", help="counts only")
    p.add_argument("--json", metavar="FILE", help="write all figures there")
    a = p.parse_args()
    members = sum(a.coded) if a.coded else COPIES
    if min(a.seconds, a.osds, a.osd_gib, a.image_mib) < 1 or a.osds < members:
        p.error(f"sizes and times are at least 1, and there are at least {members} OSDs")
    try:
        a.rows = [row for row in ROWS if re.search(a.rows, row.name)]
    except re.error as e:
        p.error(f"--rows is no regular expression: {e}")
    if not a.rows:
        p.error("no row matches --rows")
    return a


def ask(path, command):
    """The answer of a daemon's admin socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(path)
        s.sendall(json.dumps({"prefix": command}).encode() + b"\0")
        with s.makefile("rb") as answer:
            length = int.from_bytes(answer.read(4), "big")
            return json.loads(answer.read(length))


def sockets(cluster):
    """Paths of the OSDs' admin sockets."""
    found = []
    for n in range(cluster.osds):
        name = re.compile(rf"^(?:ceph-)?osd\.{n}(?:\.\d+)?\.asok$")
        paths = [os.path.join(folder, file) for folder, _, files in os.walk(f"{cluster.folder}/run") for file in files
                 if name.match(file)]
        if len(paths) != 1:
            raise Failure(f"osd.{n} has no admin socket in {cluster.folder}/run")
        found += paths
    return found


def counts_of_osds(paths):
    """Sums of the OSDs' own counters: operations of clients, and what their loops did, where they count that."""
    total = collections.Counter()
    for path in paths:
        dump = ask(path, "perf dump")
        total["operations"] += dump["osd"]["op"]
        total.update({f"loop {name}": value for name, value in dump.get("reactor", {}).items()})
    return total


def loopback_bytes():
    with open("/proc/net/dev") as f:
        line = next(line for line in f if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


class Measurement:
    """One row on a running cluster."""

    def __init__(self, cluster, row, settings, events, probes):
        self.cluster, self.row, self.settings = cluster, row, settings
        self.events, self.probes, self.paths = events, probes, sockets(cluster)
        self.pids = cluster.pids()
        self.osds = sorted(pid for name, pid in self.pids.items() if name.startswith("osd."))
        self.client = None

    def wait_for_operations(self):
        """Waits until the client does more than to open its image, for which it may have to wait for a lock."""
        before = counts_of_osds(self.paths)["operations"]
        wait_for("the client's operations are answered",
                 lambda: counts_of_osds(self.paths)["operations"] >= before + OPENING_OPERATIONS, CLIENT_LIMIT_S)

    def during(self, begin, end):
        """Operations of the time between the calls of `begin` and `end`, the result of `end`, and the OSDs' counts."""
        before = counts_of_osds(self.paths)
        begin()
        time.sleep(self.settings.seconds)
        result = end()
        counted = counts_of_osds(self.paths) - before
        if self.client.poll() is not None:
            said = self.client.stderr.read()[-400:]
            raise Failure(f"fio ended too soon, with status {self.client.returncode}: {said}")
        if counted["operations"] == 0:
            raise Failure(f"{self.row.name}: no operation was answered for {self.settings.seconds} s")
        return counted.pop("operations"), result, counted

    def times(self):
        """CPU of each daemon and of the machine, bytes on the loopback device, in one pass without other measuring."""
        kept = {}

        def now():
            cpu = {name: usage.cpu_s({name: pid}) for name, pid in self.pids.items()}
            return {"time": time.monotonic(), "cpu": cpu, "client": usage.cpu_s({"fio": self.client.pid}),
                    "machine": usage.machine_cpu_s(), "loopback": loopback_bytes()}

        operations, after, counted = self.during(lambda: kept.update(now()), now)
        cpu = {name: (after["cpu"][name] - kept["cpu"][name]) * 1e6 / operations for name in self.pids}
        return {
            "operations": operations,
            "operations per s": operations / (after["time"] - kept["time"]),
            "CPU us/op by daemon": cpu,
            "CPU us/op of OSDs": sum(value for name, value in cpu.items() if name.startswith("osd.")),
            "CPU us/op of daemons": sum(cpu.values()),
            "CPU us/op of the client": (after["client"] - kept["client"]) * 1e6 / operations,
            "CPU us/op of the machine": (after["machine"] - kept["machine"]) * 1e6 / operations,
            "loopback bytes/op": (after["loopback"] - kept["loopback"]) / operations,
            "loop": {name.removeprefix("loop "): value / operations for name, value in counted.items()},
        }

    def counts(self, events):
        counters = counting.Counters(events, self.osds)
        operations, _, _ = self.during(counters.begin, counters.end)
        counts = counters.read()
        return {name: count / operations for name, count in counts.items()}

    def layers(self, us_per_op):
        """CPU us per operation of OSDs by layer: shares of samples of the OSDs' measured CPU time."""
        path = os.path.join(self.cluster.folder, "samples")
        child = []
        operations, _, _ = self.during(lambda: child.append(profile_layers.record(path, self.settings.seconds)),
                                       lambda: child[0].communicate(timeout=60))
        if child[0].returncode != 0:
            raise Failure(f"perf record ended with status {child[0].returncode}")
        groups = {pid: "osds" if name.startswith("osd.") else "monitors" for name, pid in self.pids.items()}
        groups[self.client.pid] = "client"
        crates = os.listdir(os.path.join(HERE, "..", "..", "crates"))
        by_layer, by_symbol = profile_layers.shares(path, groups, set(crates))
        os.remove(path)
        per_sample = us_per_op / max(1, sum(by_layer["osds"].values()))
        of_osds = {layer: count * per_sample for layer, count in by_layer["osds"].most_common()}
        total = {group: sum(layers.values()) for group, layers in by_layer.items()}
        top = {symbol: count * per_sample for symbol, count in by_symbol["osds"].most_common(40)}
        return {"operations": operations, "us/op of OSDs": of_osds, "samples": total, "symbols us/op": top}

    def measure(self):
        # It is ended once everything is measured: how long perf takes for its part is not known.
        env = dict(self.cluster.env, CEPH_ARGS="--rbd-cache=false")
        self.client = subprocess.Popen(self.row.fio(CLIENT_S), env=env, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            self.wait_for_operations()
            time.sleep(WARM_UP_S)
            result = {"row": self.row.name, **self.times()}
            result["counts"] = self.counts(self.events)
            if not self.settings.no_profile:
                result["layers"] = self.layers(result["CPU us/op of OSDs"])
                if self.probes and self.probes.events:
                    result["allocations"] = sum(self.counts(self.probes.events).values())
        finally:
            # An orderly end gives the image's lock back.
            self.client.send_signal(signal.SIGINT)
            try:
                self.client.communicate(timeout=CLIENT_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.client.kill()
                self.client.communicate()
        return result


def prepare(cluster, image_mib, coded):
    """Makes the pool and the image, and writes every object of it. `coded`: numbers of shards, or none."""
    if coded:
        cluster.make_coded_pool(POOL, *coded, PG_NUM)
    else:
        cluster.make_pool(POOL, COPIES, PG_NUM)
    cluster.wait_until_clean()
    run(["rbd", "create", "--size", f"{image_mib}M", f"{POOL}/{IMAGE}"], cluster.env)
    run(["fio", "--name=fill", "--ioengine=rbd", "--clientname=admin", f"--pool={POOL}", f"--rbdname={IMAGE}",
         "--rw=write", "--bs=1m", "--iodepth=8", "--output-format=json"], cluster.env,
        limit_s=CLIENT_LIMIT_S + image_mib)


def main():
    settings = arguments()
    for program in ("perf", "fio", "rbd"):
        if shutil.which(program) is None:
            raise Failure(f"{program} is not installed")
    if os.geteuid() != 0:
        raise Failure("only root may count and sample what processes do")
    check_port(settings.port)
    events, missing = counting.usable(counting.events())
    place = tempfile.mkdtemp(prefix="nacre-cost-", dir=settings.dir)
    size = (settings.osds, settings.osd_gib << 30, settings.port)
    cluster = probes = None
    try:
        if settings.engine == "nacre":
            cluster = Nacre(os.path.abspath(settings.nacre), place, *size)
        else:
            cluster = Ceph(place, *size)
        cluster.start()
        prepare(cluster, settings.image_mib, settings.coded)
        if settings.engine == "nacre" and not settings.no_profile:
            probes = counting.Probes(cluster.binary)
            if probes.why_not:
                missing.append(f"allocations ({probes.why_not})")
        results = []
        for row in settings.rows:
            results.append(Measurement(cluster, row, settings, events, probes).measure())
            print(tables.of_row(results[-1]), flush=True)
    finally:
        if probes:
            probes.remove()
        if cluster:
            cluster.stop()
        shutil.rmtree(place, ignore_errors=True)
    if missing:
        print("Not measured here: " + "; ".join(missing))
    if settings.json:
        with open(settings.json, "w") as f:
            json.dump({"engine": settings.engine, "rows": results, "not measured": missing}, f, indent=1)


def interrupted(number, _frame):
    raise Failure(f"ended by signal {number}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    try:
        main()
    except Failure as e:
        sys.exit(f"cost: {e}")
