"""A client with a block image: `python3 -m endurance.images SETTINGS`. It takes the commands of `client`.

The image is a row of units of 4 KiB. What was flushed must be there, whenever the client is killed; of what was written
since, each unit has one of the values that it was given.
"""

import hashlib
import json
import os
import random
import sys
import threading
import time
import traceback
from pathlib import Path

import rbd

from . import librados
from .journal import Journal
from .objects import Violation

UNIT = 4096
UNITS = 8192
ORDER = 20
SNAPSHOTS_MAX = 3
ZEROS = (0, 0)
# librbd discards whole pieces of this size, and may leave the rest as it is.
DISCARD_UNITS = 16


def unit_bytes(value):
    return bytes(UNIT) if value == ZEROS else hashlib.shake_128(b"image %d:%d" % value).digest(UNIT)


def say(**facts):
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Image:
    """Contents the image may have. `units`: of each the values it may have, the last one that of the last write."""

    def __init__(self):
        self.units = [[ZEROS] for _ in range(UNITS)]
        self.dirty = set()
        self.snapshots = {}
        self.last_tag = 0
        self.pending = None

    def replay(self, records):
        for record in records:
            kind = record["t"]
            if kind == "checkpoint":
                self.units = [[tuple(value)] for value in record["units"]]
                self.snapshots = {
                    name: [tuple(value) for value in values] for name, values in record["snapshots"].items()
                }
                self.last_tag = record["tag"]
            elif kind == "i":
                self.intend(record)
            elif kind == "d":
                self.done(record)

    def values(self, record):
        """Unit and value of each unit that an operation changes."""
        if record["k"] == "write":
            return [(record["u"] + at, (record["tag"], at)) for at in range(record["n"])]
        if record["k"] == "discard":
            return [(record["u"] + at, ZEROS) for at in range(record["n"])]
        if record["k"] == "rollback":
            return list(enumerate(self.snapshots[record["name"]]))
        return []

    def intend(self, record):
        self.pending = record
        self.last_tag = max(self.last_tag, record.get("tag", 0))
        for unit, value in self.values(record):
            self.units[unit].append(value)
            self.dirty.add(unit)

    def done(self, record):
        """The pending operation was answered. `durable`: what it wrote stays without a flush."""
        pending, self.pending = self.pending, None
        if pending["k"] == "flush":
            certain = list(self.dirty)
        else:
            certain = [unit for unit, _ in self.values(pending)] if record.get("durable") else []
        for unit in certain:
            self.units[unit] = self.units[unit][-1:]
            self.dirty.discard(unit)
        if pending["k"] == "snapshot":
            self.snapshots[pending["name"]] = [values[-1] for values in self.units]
        elif pending["k"] == "unsnapshot":
            self.snapshots.pop(pending["name"], None)


class Client:
    def __init__(self, settings):
        self.settings, self.name = settings, f"image{settings['client']}"
        self.random = random.Random(f"{settings['seed']} image {settings['client']} {settings['incarnation']}")
        self.journal = Journal(Path(settings["folder"]))
        records = self.journal.read()
        self.image = Image()
        self.image.replay(records)
        self.cached = self.random.random() < 0.6
        self.cluster = librados.connect({"rbd_cache": "true" if self.cached else "false"})
        self.fence(records)
        self.io = self.cluster.open_ioctx(settings["pool"])
        if self.name not in rbd.RBD().list(self.io):
            rbd.RBD().create(self.io, self.name, UNITS * UNIT, order=ORDER)
        self.handle = rbd.Image(self.io, self.name)
        # The lock shuts out the former owner: what it sent is written by now, or never.
        self.handle.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
        self.settle()
        self.checkpoint()
        self.running = threading.Event()
        self.operations, self.busy_since, self.busy_with = 0, None, ""

    def fence(self, records):
        """Half of the time the former process is shut out at once; else librbd does so when it breaks the lock."""
        mine = self.cluster.get_addrs()
        self.journal.write({"t": "instance", "a": mine})
        for address in sorted({record["a"] for record in records if record["t"] == "instance"}):
            if self.random.random() < 0.5 and address != mine:
                self.cluster.blocklist_add(address, 86_400)

    def settle(self):
        there = {snapshot["name"] for snapshot in self.handle.list_snaps()}
        pending, self.image.pending = self.image.pending, None
        if pending and pending["k"] == "snapshot" and pending["name"] in there:
            self.image.snapshots[pending["name"]] = [values[-1] for values in self.image.units]
        if pending and pending["k"] == "unsnapshot":
            self.image.snapshots.pop(pending["name"], None)
            if pending["name"] in there:
                self.handle.remove_snap(pending["name"])
        self.compare(self.handle, 0, UNITS, self.image.units, "after the client was killed", settles=True)
        self.image.dirty.clear()

    def compare(self, handle, first, count, units, when, settles=False, snapshot=None):
        """Reads units; each must have one of its values. `settles`: and has only that one from now on."""
        for start in range(first, first + count, 256):
            some = min(256, first + count - start)
            data = handle.read(start * UNIT, some * UNIT)
            for at in range(some):
                have = data[at * UNIT : (at + 1) * UNIT]
                # The last write is the likeliest.
                found = next((value for value in reversed(units[start + at]) if unit_bytes(value) == have), None)
                if found is None:
                    raise Violation(
                        f"an image is not what was written, {when}",
                        image=self.name,
                        snapshot=snapshot,
                        unit=start + at,
                        cached=self.cached,
                        expected=[[*value, unit_bytes(value)[:24].hex()] for value in units[start + at]],
                        read=have[:24].hex(),
                        read_is_zeros=not any(have),
                    )
                if settles:
                    units[start + at] = [found]

    def checkpoint(self):
        image = self.image
        self.journal.checkpoint(
            {
                "t": "checkpoint",
                "units": [values[-1] for values in image.units],
                "snapshots": image.snapshots,
                "tag": image.last_tag,
            }
        )
        self.journal.write({"t": "instance", "a": self.cluster.get_addrs()})

    def do(self, work, **record):
        """Carries out an operation, with a note before and after it."""
        record["t"] = "i"
        self.busy_with = f"{record['k']} of {self.name}"
        self.journal.write(record)
        self.image.intend(record)
        work()
        done = {"t": "d", "durable": not self.cached or record["k"] == "rollback"}
        self.journal.write(done)
        self.image.done(done)
        self.operations += 1

    def flush(self):
        self.do(self.handle.flush, k="flush")

    def one(self):
        pick, image = self.random, self.image
        kind = pick.choices(
            ["write", "read", "discard", "flush", "snapshot", "unsnapshot", "read_snapshot", "rollback"],
            [50, 20, 6, 12, 1, 0.7, 3, 0.3],
        )[0]
        if kind == "write":
            count = pick.choices([pick.randint(1, 4), pick.randint(1, 64), pick.randint(64, 1024)], [70, 25, 5])[0]
            unit, tag = pick.randint(0, UNITS - count), image.last_tag + 1
            data = b"".join(unit_bytes((tag, at)) for at in range(count))
            self.do(lambda: self.handle.write(data, unit * UNIT), k="write", u=unit, n=count, tag=tag)
        elif kind == "discard":
            count = pick.choice([1, 4, 16, 32])
            unit = pick.randint(0, UNITS // DISCARD_UNITS - count) * DISCARD_UNITS
            count *= DISCARD_UNITS
            self.do(lambda: self.handle.discard(unit * UNIT, count * UNIT), k="discard", u=unit, n=count)
        elif kind == "read":
            count = pick.choice([1, 10, 300])
            first = pick.randint(0, UNITS - count)
            self.busy_with = f"read of {self.name}"
            self.compare(self.handle, first, count, [values[-1:] for values in image.units], "while its client writes")
            self.operations += 1
        elif kind == "flush":
            self.flush()
        elif kind == "snapshot" and len(image.snapshots) < SNAPSHOTS_MAX:
            name = f"s{image.last_tag}"
            if name not in image.snapshots:
                self.flush()
                self.do(lambda: self.handle.create_snap(name), k="snapshot", name=name)
        elif kind in ("unsnapshot", "read_snapshot", "rollback") and image.snapshots:
            name = pick.choice(sorted(image.snapshots))
            if kind == "unsnapshot":
                self.do(lambda: self.handle.remove_snap(name), k="unsnapshot", name=name)
            elif kind == "rollback":
                self.flush()
                self.do(lambda: self.handle.rollback_to_snap(name), k="rollback", name=name)
            else:
                self.busy_with = f"read of {self.name}@{name}"
                self.compare_at(name, 400)

    def compare_at(self, name, count):
        values = [[value] for value in self.image.snapshots[name]]
        first = self.random.randint(0, UNITS - count)
        with rbd.Image(self.io, self.name, snapshot=name, read_only=True) as handle:
            self.compare(handle, first, count, values, "as a snapshot has it", snapshot=name)
        self.operations += 1

    def verify(self):
        self.flush()
        with rbd.Image(self.io, self.name, read_only=True) as handle:
            self.compare(handle, 0, UNITS, self.image.units, "at the end of a round")
        for name in self.image.snapshots:
            self.compare_at(name, UNITS)
        return 1 + len(self.image.snapshots)

    def work(self):
        while True:
            self.running.wait()
            self.busy_since = time.monotonic()
            if self.running.is_set():
                self.one()
            self.busy_since = None
            time.sleep(self.random.expovariate(1 / self.settings["pause_s"]))

    def report(self):
        while True:
            time.sleep(2)
            oldest = time.monotonic() - self.busy_since if self.busy_since else 0
            say(
                status={
                    "operations": self.operations,
                    "oldest_s": round(oldest, 1),
                    "oldest": self.busy_with,
                    "reads": 0,
                    "appends": 0,
                }
            )

    def run(self):
        for work in (self.work, self.report):
            threading.Thread(target=guarded, args=(self.settings, work), daemon=True).start()
        say(ready=True)
        for line in sys.stdin:
            word = line.split()[0]
            if word == "go":
                self.running.set()
                say(going=True)
            elif word == "pause":
                self.running.clear()
                while self.busy_since:
                    time.sleep(0.05)
                say(paused=True)
            elif word == "verify":
                say(verified=self.verify(), logs={})
            elif word == "checkpoint":
                self.checkpoint()
                say(checkpoint=True)
        os._exit(0)


def guarded(settings, work):
    try:
        work()
    except Violation as violation:
        say(**violation.facts, client=settings["client"])
        os._exit(3)
    except BaseException:
        say(
            violation="an image's operation fails, or the client itself",
            client=settings["client"],
            trace=traceback.format_exc(),
        )
        os._exit(3)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    guarded(given, lambda: Client(given).run())
