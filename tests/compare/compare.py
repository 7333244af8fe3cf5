#!/usr/bin/env python3
"""Compares Nacre with a real Ceph on this machine: the same rows of `rados bench`, driven by Ceph's own client.

Both clusters run at once, on loopback, without authentication, with files of the same size on the same file system, and
take turns: every round of a row runs on the one, then on the other, and which goes first alternates. A round writes,
reads what it wrote in sequence and at random, and removes it; before the next begins, both clusters must have come to
rest. Reading is not after a restart: what a cluster holds in memory it may serve from there.

Prints the table; writes compare.json and compare.md to --out. Needs Debian's ceph-mon, ceph-osd, ceph-mgr and
ceph-common, and a release build of Nacre.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import report
import usage
from clusters import Ceph, Failure, Nacre, check_port, run

SIZES = (("4m", 4 << 20), ("256k", 256 << 10), ("4k", 4096))
POOLS = (("r2", 2), ("r3", 3))
MODES = ("write", "seq", "rand")
THREADS = 16
PG_NUM = 64
IDLE_S = 20
SETTLE_S = 30
# How much longer than its own time a client may take before it counts as stuck.
CLIENT_LIMIT_S = 60
CLEANUP_LIMIT_S = 300


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=int, default=10, help="length of each run (default 10)")
    p.add_argument("--rounds", type=int, default=3, help="runs of each row on each cluster (default 3)")
    p.add_argument("--only", default="", metavar="REGEX", help="only rows such as 4k-write-r3 that match; a read needs, "
                   "and so runs, the write before it")
    p.add_argument("--osds", type=int, default=6, help="OSDs of each cluster (default 6)")
    p.add_argument("--osd-gib", type=int, default=8, help="size of each OSD's sparse file (default 8)")
    p.add_argument("--nacre", default="target/release/nacre", help="the binary (default target/release/nacre)")
    p.add_argument("--dir", help="where the folder of the clusters' data is made, and removed (default: the system's temporary folder)")
    p.add_argument("--port", type=int, default=21000, help="first of the 2000 ports that may be used (default 21000)")
    p.add_argument("--no-idle", action="store_true", help=f"do not spend {IDLE_S} s on what idle clusters use")
    p.add_argument("--out", default="target/compare", help="folder for the results (default target/compare)")
    a = p.parse_args()
    for name in ("seconds", "rounds", "osds", "osd_gib"):
        if getattr(a, name) < 1:
            p.error(f"--{name.replace('_', '-')} must be at least 1")
    if a.osds < 3:
        p.error("--osds must be at least 3: pools with three copies are measured")
    try:
        re.compile(a.only)
    except re.error as e:
        p.error(f"--only is no regular expression: {e}")
    return a


def machine(folder):
    cpu = memory_kib = "unknown"
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    with open("/proc/meminfo") as f:
        memory_kib = next(int(line.split()[1]) for line in f if line.startswith("MemTotal:"))
    mount = run(["findmnt", "-n", "-o", "SOURCE,FSTYPE", "-T", folder], check=False).split()
    return {"cpus": os.cpu_count(), "cpu": cpu, "memory_gib": memory_kib / (1 << 20), "kernel": platform.release(),
            "filesystem": " ".join(reversed(mount)) or "unknown"}


def bench(cluster, pool, mode, size_bytes, seconds):
    """One run of `rados bench` and what was spent meanwhile; `failed` says why if it did not end well."""
    pids = cluster.pids()
    words = ["rados", "-p", pool, "bench", seconds, mode, "-t", THREADS]
    if mode == "write":
        words += ["-b", size_bytes, "--no-cleanup"]
    try:
        meter = usage.Meter(pids)
        said = run(words, cluster.env, seconds + CLIENT_LIMIT_S)
        spent = meter.read()
        figures = read_bench(said)
    except (Failure, usage.ProcessDied) as e:
        return {"failed": str(e)}
    ops = figures["ops"]
    for what in ("server", "osd", "machine"):
        spent[f"{what}_cpu_us_per_op"] = spent[f"{what}_cpu_s"] * 1e6 / ops
    spent["device_read_kib_per_op"] = spent["device_read_mib"] * 1024 / ops
    spent["device_written_kib_per_op"] = spent["device_written_mib"] * 1024 / ops
    return {**figures, **{key: round(value, 3) for key, value in spent.items()}}


def read_bench(said):
    def figure(label):
        found = re.search(rf"^{re.escape(label)}:\s+([0-9.]+)", said, re.MULTILINE)
        if not found:
            raise Failure(f"rados bench does not tell its '{label}': {said[-300:]}")
        return float(found.group(1))

    ops = int(figure("Total writes made" if "Total writes made" in said else "Total reads made"))
    if ops == 0:
        raise Failure("rados bench did not complete one operation")
    run_s = figure("Total time run")
    # The client's own average is rounded to whole operations per second, this is not.
    return {"ops": ops, "run_s": run_s, "mb_s": figure("Bandwidth (MB/sec)"), "iops": round(ops / run_s, 1),
            "lat_ms": round(figure("Average Latency(s)") * 1e3, 3)}


def come_to_rest(clusters):
    os.sync()
    busy = [c.name for c in clusters if not usage.settle(c.pids(), SETTLE_S)]
    for name in busy:
        print(f"  {name} is still busy after {SETTLE_S} s without clients", file=sys.stderr)


def idle(clusters):
    come_to_rest(clusters)
    before, machine_before = {c.name: usage.cpu_s(c.pids()) for c in clusters}, usage.machine_cpu_s()
    time.sleep(IDLE_S)
    share = {f"{c.name}_percent": round((usage.cpu_s(c.pids()) - before[c.name]) / IDLE_S * 100, 2) for c in clusters}
    # Other work of this machine: on a quiet one little more than the two clusters.
    machine_percent = round((usage.machine_cpu_s() - machine_before) / IDLE_S * 100, 2)
    return {"seconds": IDLE_S, **share, "machine_percent": machine_percent}


def measure_size(clusters, pool, tag, size_bytes, modes, a):
    """All rounds of one object size on one pool: a row for each mode."""
    rows = {mode: {"name": f"{tag}-{mode}-{pool}", "size_bytes": size_bytes, "ceph": [], "nacre": []} for mode in modes}
    for number in range(a.rounds):
        for cluster in clusters if number % 2 == 0 else reversed(clusters):
            come_to_rest(clusters)
            for mode in modes:
                figures = bench(cluster, pool, mode, size_bytes, a.seconds)
                rows[mode][cluster.name].append(figures)
                print(f"  {rows[mode]['name']:15} {cluster.name:5} round {number + 1}: {brief(figures)}", flush=True)
            run(["rados", "-p", pool, "cleanup"], cluster.env, CLEANUP_LIMIT_S)
    return list(rows.values())


def brief(figures):
    if "failed" in figures:
        return f"failed: {figures['failed']}"
    return (f"{figures['mb_s']:.1f} MB/s, {figures['iops']:.0f} IOPS, {figures['lat_ms']} ms, "
            f"{figures['server_cpu_us_per_op']:.1f} us of server CPU per op")


def compare(a, folder):
    osd_bytes = a.osd_gib << 30
    ceph = Ceph(f"{folder}/ceph", a.osds, osd_bytes, a.port)
    nacre = Nacre(os.path.abspath(a.nacre), f"{folder}/nacre", a.osds, osd_bytes, a.port + 1000)
    clusters = [ceph, nacre]
    started = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    result = {"started": started, "command": " ".join([os.path.relpath(sys.argv[0]), *sys.argv[1:]]),
              "machine": machine(folder), "versions": {c.name: c.version() for c in clusters}, "osds": a.osds,
              "rounds": a.rounds, "seconds": a.seconds, "threads": THREADS, "priority": os.nice(0), "rows": []}
    try:
        for cluster in reversed(clusters):
            print(f"starting {cluster.name} in {cluster.folder}", flush=True)
            cluster.start()
            for pool, size in POOLS:
                cluster.make_pool(pool, size, PG_NUM)
            cluster.wait_until_clean()
        if not a.no_idle:
            print(f"idle for {IDLE_S} s", flush=True)
            result["idle"] = idle(clusters)
        for pool, _ in POOLS:
            for tag, size_bytes in SIZES:
                wanted = [mode for mode in MODES if re.search(a.only, f"{tag}-{mode}-{pool}")]
                if wanted:
                    # Reads read what was written just before.
                    modes = [mode for mode in MODES if mode == "write" or mode in wanted]
                    result["rows"] += measure_size(clusters, pool, tag, size_bytes, modes, a)
                    save(a, result)
    finally:
        # A second interrupt must not leave processes behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for cluster in clusters:
            print(f"stopping {cluster.name}", flush=True)
            cluster.stop()
    return result


def save(a, result):
    os.makedirs(a.out, exist_ok=True)
    with open(f"{a.out}/compare.json", "w") as f:
        json.dump(result, f, indent=1)
    with open(f"{a.out}/compare.md", "w") as f:
        f.write(report.markdown(result))


def check_before(a):
    missing = Ceph.missing_programs()
    if missing:
        raise Failure(f"not installed: {', '.join(missing)}; on Debian 12: apt-get install --no-install-recommends "
                      "ceph-base ceph-mon ceph-osd ceph-mgr ceph-common")
    if not os.access(a.nacre, os.X_OK):
        raise Failure(f"{a.nacre} is missing; build it with 'cargo build --release --bin nacre', or name one with --nacre")
    for port in (a.port, a.port + 1000):
        check_port(port)


def stopped(number, _frame):
    raise KeyboardInterrupt(f"signal {number}")


def main():
    a = arguments()
    signal.signal(signal.SIGTERM, stopped)
    folder = None
    try:
        check_before(a)
        if a.dir is not None:
            os.makedirs(a.dir, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="nacre-compare-", dir=a.dir)
        result = compare(a, folder)
        save(a, result)
    except (Failure, usage.ProcessDied) as e:
        kept = f"\nlogs and data are kept in {folder}" if folder else ""
        sys.exit(f"compare: {e}{kept}")
    except KeyboardInterrupt:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        sys.exit("compare: interrupted")
    shutil.rmtree(folder, ignore_errors=True)
    print("\n" + report.markdown(result))
    print(f"written to {a.out}/compare.json and {a.out}/compare.md")
    if any("failed" in figures for row in result["rows"] for figures in row["ceph"] + row["nacre"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
