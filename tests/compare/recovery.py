#!/usr/bin/python3
"""How long it takes until a replaced OSD has everything again, and what clients feel meanwhile: Nacre beside a real
Ceph.

Both clusters are started by `nacre up`, one after the other, with three copies of some large and many small objects.
Then, without and with clients, one OSD is killed and its folder emptied, as when its drive is replaced; it is made anew
and started, and the time from there until every placement group is active+clean is taken. The clients are `nacre bench
run` at a fixed rate of 4 KiB operations on a pool of their own, and their latency before and during recovery is
compared.

Prints a table; writes recovery.json and recovery.md to --out. Needs Debian's Ceph packages and a release build of
Nacre. The clusters are watched over a connection of Debian's python3-rados, which only Debian's own interpreter finds.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import rados
except ImportError:
    sys.exit("error: this interpreter has no `rados`: install python3-rados (`make packages`) and run this file with /usr/bin/python3")

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clusters import Failure, run, wait_for

VICTIM = "osd.0"
LOAD_LIMIT_S = 900
RECOVERY_LIMIT_S = 900
PERCENTILES = ("p50_us", "p99_us", "p99_9_us")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--large", type=int, default=256, help="objects of 4 MiB (default 256)")
    p.add_argument("--small", type=int, default=200_000, help="objects of 4 KiB (default 200000)")
    p.add_argument("--rate", type=int, default=300, help="clients' operations per second, 70 %% reads (default 300)")
    p.add_argument("--baseline-s", type=int, default=10, help="seconds of load before the failure (default 10)")
    p.add_argument("--osds", type=int, default=6, help="OSDs of each cluster (default 6)")
    p.add_argument("--osd-size", default="8GiB", help="size of each OSD's sparse file (default 8GiB)")
    p.add_argument("--engines", default="nacre,ceph", help="which, in this order (default nacre,ceph)")
    p.add_argument("--no-clients", action="store_true", help="only without clients")
    p.add_argument("--only-clients", action="store_true", help="only with clients")
    p.add_argument("--nacre", default="target/release/nacre", help="the binary (default target/release/nacre)")
    p.add_argument("--dir", help="where the clusters' folders are made, and removed (default: the system's temporary folder)")
    p.add_argument("--port", type=int, default=47000, help="first of the 1000 ports that may be used (default 47000)")
    p.add_argument("--out", default="target/recovery", help="folder for the results (default target/recovery)")
    a = p.parse_args()
    a.engines = a.engines.split(",")
    if not a.engines or any(engine not in ("nacre", "ceph") for engine in a.engines):
        p.error("--engines takes nacre and ceph")
    if a.osds < 4:
        p.error("--osds must be at least 4: three copies must have somewhere to be")
    if min(a.large, a.small, a.rate, a.baseline_s) < 1:
        p.error("--large, --small, --rate and --baseline-s must be at least 1")
    if a.no_clients and a.only_clients:
        p.error("--no-clients and --only-clients exclude each other")
    return a


class Cluster:
    def __init__(self, engine, a, place):
        self.engine, self.nacre, self.folder = engine, os.path.abspath(a.nacre), f"{place}/{engine}"
        self.env = dict(os.environ, CEPH_CONF=f"{self.folder}/ceph.conf", CEPH_ARGS="")
        port = a.port + 500 * (engine == "ceph")
        run([self.nacre, "up", "--dir", self.folder, "--engine", engine, "--mons", 1, "--osds", a.osds, "--osd-size", a.osd_size,
             "--port", port, "--no-restart", "--detach"], limit_s=180)
        self.restarted, self.connection = [], None
        if engine == "ceph":
            # Drives of virtual machines look like disks to it, which would make it heal slowly on purpose: what it does
            # with flash is what is to be seen.
            for option, value in (("osd_recovery_sleep_hdd", "0"), ("osd_recovery_max_active_hdd", "10")):
                self.ceph("config", "set", "osd", option, value)

    def ceph(self, *words):
        return run(["ceph", *words], self.env)

    def ask(self, prefix):
        """A command's answer over one connection. A `ceph` for each would take half a processor from those who are
        measured."""
        if self.connection is None:
            self.connection = rados.Rados(conffile=f"{self.folder}/ceph.conf")
            self.connection.connect(timeout=30)
        send = self.connection.mgr_command if prefix.startswith("progress") else self.connection.mon_command
        code, answer, why = send(json.dumps({"prefix": prefix, "format": "json"}), b"", 30)
        if code:
            raise Failure(f"{prefix}: {code} {why}")
        return json.loads(answer)

    def down(self):
        if self.connection is not None:
            self.connection.shutdown()
        for child in self.restarted:
            child.terminate()
        run([self.nacre, "down", "--dir", self.folder], limit_s=120, check=False)
        for child in self.restarted:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()

    def make_pool(self, name, pg_num):
        self.ceph("osd", "pool", "create", name, str(pg_num), str(pg_num), "replicated")
        self.ceph("osd", "pool", "set", name, "size", "3")
        self.ceph("osd", "pool", "application", "enable", name, "recovery")

    def fill(self, a):
        for size, count, depth in (("4M", a.large, 16), ("4096", a.small, 64)):
            said = run(["rados", "-p", "data", "bench", LOAD_LIMIT_S, "write", "-b", size, "-t", depth, "--no-cleanup",
                 "--max-objects", count, "--run-name", f"fill-{size}"], self.env, LOAD_LIMIT_S + 60)
            written = re.search(r"Total writes made: *(\d+)", said)
            if not written or int(written.group(1)) < count:
                raise Failure(f"{self.engine}: not all {count} objects of {size} were written within {LOAD_LIMIT_S} s")

    def pgs(self):
        pgmap = self.ask("status")["pgmap"]
        states = {s["state_name"]: s["count"] for s in pgmap.get("pgs_by_state", [])}
        return states, pgmap["num_pgs"]

    def is_clean(self):
        states, number = self.pgs()
        return number > 0 and sum(n for state, n in states.items() if state.startswith("active+clean")) == number

    def pid_of(self, daemon):
        with open(f"{self.folder}/run/{daemon}.pid") as f:
            return int(f.read().split()[0])

    def remove(self):
        """Kills one OSD, empties its folder and makes it anew. Returns the command that starts it."""
        pid = self.pid_of(VICTIM)
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            command = [word.decode() for word in f.read().split(b"\0") if word]
        command[0] = self.nacre if self.engine == "nacre" else command[0]
        if "--supervised-by" in command:
            # It is this script's child from now on.
            at = command.index("--supervised-by")
            del command[at:at + 2]
        os.kill(pid, signal.SIGKILL)
        number = VICTIM.split(".")[1]
        # A second start is this script's own child.
        for child in self.restarted:
            child.wait(10)
        self.ceph("osd", "down", number)
        wait_for("the OSD is down", lambda: not self.ask("osd dump")["osds"][int(number)]["up"], 60)
        folder = f"{self.folder}/{VICTIM}"
        uuid = None
        if self.engine == "ceph":
            with open(f"{folder}/uuid") as f:
                uuid = f.read().strip()
        shutil.rmtree(folder)
        os.makedirs(folder)
        if self.engine == "nacre":
            # The new store has an id of its own; Ceph's is made with the old one's.
            self.ceph("osd", "destroy", number, "--yes-i-really-mean-it")
        more = ["--no-mon-config", "--osd-uuid", uuid] if uuid else []
        run([*command, "--mkfs", *more], limit_s=120)
        if uuid:
            with open(f"{folder}/uuid", "w") as f:
                f.write(uuid + "\n")
        return command

    def start(self, command):
        """Starts the OSD that was made anew. Returns when."""
        number = VICTIM.split(".")[1]
        start = time.monotonic()
        with open(f"{self.folder}/log/{VICTIM}.again.log", "ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.restarted.append(child)
        with open(f"{self.folder}/run/{VICTIM}.pid", "w") as f:
            f.write(f"{child.pid}\n")
        wait_for("the OSD is up", lambda: self.ask("osd dump")["osds"][int(number)]["up"], 60)
        return start

    def load(self, a, out, seconds):
        """Clients at a fixed rate, as a process."""
        return subprocess.Popen(
            [self.nacre, "bench", "run", "--cluster", f"{self.engine}={self.folder}", "--pool", "clients", "--mode",
             "randread=70,randwrite=30", "--object-size", "4MiB", "--io-size", "4KiB", "--objects", "64", "--rate",
             str(a.rate), "--depth", "256", "--warm-up", "1", "--seconds", str(seconds), "--out", out, "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def latencies(child, what):
    said, _ = child.communicate(timeout=120)
    try:
        row = json.loads(said)["rows"][0]
    except (ValueError, IndexError, KeyError):
        raise Failure(f"{what}: clients measured nothing: {said[-300:]}") from None
    if row["errors"] or row["mismatches"]:
        raise Failure(f"{what}: {row['errors']} errors and {row['mismatches']} wrong reads")
    return {key: row["latency"][key] for key in PERCENTILES} | {"operations": row["operations"]}


def recover(cluster, what, healed_mib, command):
    start = cluster.start(command)
    shown, estimates, curve = 0, [], []
    def clean():
        nonlocal shown
        for event in cluster.ask("progress json")["events"]:
            now, left = time.monotonic() - start, event.get("time_remaining")
            curve.append((round(now, 2), round(event["progress"], 4), left))
            if left:
                estimates.append((now, float(left)))
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(f"  {what}: {time.monotonic() - start:.0f} s, {cluster.pgs()[0]}", file=sys.stderr, flush=True)
        return cluster.is_clean()
    wait_for(f"{what}: active+clean", clean, RECOVERY_LIMIT_S)
    seconds = time.monotonic() - start
    result = {"seconds": round(seconds, 1), "mib_s": round(healed_mib / seconds, 1)}
    # The cluster's own estimate of what is left, beside what was left, nearest to a quarter, half and three quarters.
    for part in (25, 50, 75):
        near = min(estimates, key=lambda e: abs(e[0] - seconds * part / 100), default=None)
        if near and abs(near[0] - seconds * part / 100) < max(1.5, seconds * 0.05):
            result[f"estimate_at_{part}_percent"] = round(near[1] / (seconds - near[0]), 2)
    # At which time which share was said to be done, and how many seconds were said to be left.
    result["curve"] = curve
    return result


def without_curve(result):
    return {key: value for key, value in result.items() if key != "curve"}


def measure(engine, a, place):
    cluster = Cluster(engine, a, place)
    try:
        cluster.make_pool("data", 64)
        cluster.make_pool("clients", 32)
        wait_for("every group is active+clean", cluster.is_clean, 120)
        cluster.fill(a)
        # The share of three copies that one OSD of all keeps, about.
        healed_mib = (a.large * 4 + a.small / 256) * 3 / a.osds
        result = {}
        if not a.only_clients:
            result["alone"] = recover(cluster, f"{engine}, no clients", healed_mib, cluster.remove())
            print(f"{engine}, no clients: {without_curve(result['alone'])}", flush=True)
        if not a.no_clients:
            before = latencies(cluster.load(a, f"{place}/{engine}-before", a.baseline_s), "before")
            command = cluster.remove()
            load = cluster.load(a, f"{place}/{engine}-during", RECOVERY_LIMIT_S)
            # It connects and writes its objects first.
            time.sleep(6)
            result["clients"] = recover(cluster, f"{engine}, with clients", healed_mib, command)
            load.send_signal(signal.SIGINT)
            result["clients"] |= {"before": before, "during": latencies(load, "during")}
            print(f"{engine}, with clients: {without_curve(result['clients'])}", flush=True)
        return result
    finally:
        cluster.down()
        shutil.rmtree(cluster.folder, ignore_errors=True)


def table(results, a):
    lines = [f"{a.large} objects of 4 MiB and {a.small} of 4 KiB, three copies on {a.osds} OSDs; clients: {a.rate} operations of 4 KiB a second.",
             "", "| | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    def row(name, get):
        cells = []
        for result in results.values():
            try:
                cells.append(get(result))
            except KeyError:
                cells.append("-")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    row("recovery without clients, s", lambda r: f"{r['alone']['seconds']} ({r['alone']['mib_s']} MiB/s)")
    row("recovery with clients, s", lambda r: f"{r['clients']['seconds']} ({r['clients']['mib_s']} MiB/s)")
    for part in (25, 50, 75):
        row(f"its estimate of the time left at {part} %, of the truth, with clients",
            lambda r: f"{r['clients'][f'estimate_at_{part}_percent']:.2f}")
    for key in PERCENTILES:
        name = key.removesuffix("_us").replace("_", ".")
        row(f"clients' {name}, us: before, during", lambda r: f"{r['clients']['before'][key]:.0f}, {r['clients']['during'][key]:.0f} "
            f"({r['clients']['during'][key] / r['clients']['before'][key]:.2f})")
    return "\n".join(lines) + "\n"


def main():
    a = arguments()
    os.makedirs(a.out, exist_ok=True)
    place = tempfile.mkdtemp(prefix="nacre-recovery-", dir=a.dir)
    results = {}
    try:
        # Three copies, and once more for logs and what is made anew. The clusters are there one after the other.
        needed, free = 6 * (a.large * 4 + a.small // 256) + 1024 * a.osds, shutil.disk_usage(place).free >> 20
        if free < needed:
            raise Failure(f"{place} has {free} MiB free, and about {needed} MiB are needed: give another --dir, or fewer objects")
        for engine in a.engines:
            results[engine] = measure(engine, a, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    text = table(results, a)
    with open(f"{a.out}/recovery.md", "w") as f:
        f.write(text)
    with open(f"{a.out}/recovery.json", "w") as f:
        json.dump({"arguments": vars(a), "results": results}, f, indent=2)
    print(text)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except Failure as e:
        sys.exit(f"error: {e}")
