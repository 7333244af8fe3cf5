"""A client of the checker, a process of its own: `python3 -m endurance.client SETTINGS`, with settings in JSON.

Some threads change objects, each its own; one appends to objects that several clients append to; one, by connections
of its own, reads what the others write, and holds it against what they have been answered. Lines on standard input
command it (`go ROUND`, `pause`, `verify`, `checkpoint`), lines of JSON on standard output answer and report.
"""

import json
import os
import random
import sys
import threading
import time
import traceback
from pathlib import Path

import rados

from . import librados, logs, memory
from .journal import Journal
from .objects import Violation, all_are, data_is, tags_of, values_are, why_not
from .writers import Witness, Writer

# Streams of bytes that one client may name.
TAGS = 1_000_000_000


def say(**facts):
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Client:
    def __init__(self, settings):
        self.settings = settings
        self.number, self.pool, self.stripe = settings["client"], settings["pool"], settings["stripe"]
        self.journal = Journal(Path(settings["folder"]))
        self.running = threading.Event()
        self.round = 0
        self.records = self.journal.read()
        self.memory = memory.Memory(self.number, self.number * TAGS, settings["writers"], settings["coded"])
        self.memory.replay(self.records)
        self.cluster = librados.connect()
        self.fence()
        self.writers = [Writer(self, number) for number in range(settings["writers"])]
        self.forget_removed_snapshots()
        self.settle()
        self.checkpoint()
        self.appender = logs.Appender(self)
        self.threads = [*self.writers, self.appender, Witness(self)]

    def fence(self):
        """Shuts out this client's former processes: what they sent is carried out by now, or never."""
        mine = self.cluster.get_addrs()
        former = {record["a"] for record in self.records if record["t"] == "instance"} - {mine}
        self.journal.write({"t": "instance", "a": mine})
        for address in sorted(former):
            self.cluster.blocklist_add(address, 86_400)
        if former:
            self.cluster.wait_for_latest_osdmap()

    def forget_removed_snapshots(self):
        for writer in self.writers:
            for snapshot in self.memory.removed_snapshots[writer.number]:
                try:
                    writer.io.remove_self_managed_snap(snapshot)
                except rados.Error:
                    pass  # It was removed before.

    def settle(self):
        """Reads what the former process was not answered for, and takes it for what it shows."""
        for writer in self.writers:
            for thing in writer.objects:
                if thing.acked != thing.states[-1][0]:
                    thing.settle(self.compare(writer.io, thing, "after the client was killed"))

    def compare(self, io, thing, when):
        """Reads all of an object, and has it be in the state that it shows."""
        since = thing.begin_read()
        read = self.read_all(io, thing.name)
        tests = [data_is(read["data"])] + [
            values_are(read[which], which) for which in ("xattrs", "omap") if which in read
        ]
        candidates, found = thing.end_read(since, all_are(tests))
        if found is None:
            self.violated(f"an object is not what was written, {when}", thing, candidates, read)
        return found

    def read_all(self, io, name):
        read = {"data": librados.read_data(io, name, 96 << 20), "xattrs": librados.read_xattrs(io, name)}
        return read if self.settings["coded"] else {**read, "omap": librados.read_omap(io, name)}

    def violated(self, what, thing, candidates, read, **more):
        tags = tags_of([record for number in self.journal.numbers() for record in self.records_of(number)], thing.name)
        ways = [{"state": number, "differs": why_not(state, read, tags)} for number, state in candidates]
        raise Violation(what, object=thing.name, pool=self.pool, acknowledged=thing.acked, allowed=ways, **more)

    def records_of(self, number):
        return [json.loads(line) for line in self.journal.path(number).read_bytes().split(b"\n")[:-1]]

    def checkpoint(self):
        objects = {thing.name: thing for writer in self.writers for thing in writer.objects}
        self.journal.checkpoint(self.memory.to_json(objects, [writer.snapshots for writer in self.writers]))
        self.records = []
        self.journal.write({"t": "instance", "a": self.cluster.get_addrs()})

    def verify(self):
        """Everything is as the journal says, read by a connection of its own, while nobody writes."""
        cluster = librados.connect()
        count = 0
        with cluster.open_ioctx(self.pool) as io:
            for writer in self.writers:
                for thing in writer.objects:
                    self.compare(io, thing, "at the end of a round")
                    count += 1
                count += writer.verify_snapshots(cluster)
            mine = f"c{self.number}-"
            listed = sorted(entry.key for entry in io.list_objects() if entry.key.startswith(mine))
            wanted = sorted(thing.name for writer in self.writers for thing in writer.objects if thing.newest.exists)
            lacking, surplus = sorted(set(wanted) - set(listed)), sorted(set(listed) - set(wanted))
            if not self.settings["coded"]:
                # An object that was removed is listed, by Ceph, too, as long as a snapshot has it.
                surplus = sorted(set(surplus) - {thing.name for writer in self.writers for thing in writer.objects})
            if lacking or surplus or len(listed) != len(set(listed)):
                twice = sorted({name for name in listed if listed.count(name) > 1})
                raise Violation("a listing is wrong", pool=self.pool, lacking=lacking, surplus=surplus, twice=twice)
        cluster.shutdown()
        return count

    def guarded(self, work):
        """Runs a thread's work; a violation ends the process with its facts."""
        try:
            work()
        except Violation as violation:
            say(**violation.facts, client=self.number)
            os._exit(3)
        except BaseException:
            say(
                violation="a client's operation fails, or the client itself",
                client=self.number,
                trace=traceback.format_exc(),
            )
            os._exit(3)

    def status(self):
        now = time.monotonic()
        ages = [(now - thread.busy_since, thread.busy_with) for thread in self.threads if thread.busy_since]
        oldest = max(ages, default=(0, ""))
        return {
            "operations": sum(thread.operations for thread in self.threads),
            "oldest_s": round(oldest[0], 1),
            "oldest": oldest[1],
            "reads": self.threads[-1].operations,
            "appends": self.appender.operations,
        }

    def report(self):
        while True:
            time.sleep(2)
            say(status=self.status())

    def run(self):
        for thread in [*self.threads]:
            threading.Thread(target=self.guarded, args=(thread.run,), daemon=True).start()
        threading.Thread(target=self.report, daemon=True).start()
        say(ready=True)
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "go":
                self.round = int(rest[0])
                self.appender.begin(self.round)
                self.running.set()
                say(going=True)
            elif word == "pause":
                self.running.clear()
                while any(thread.busy_since for thread in self.threads):
                    time.sleep(0.05)
                say(paused=True)
            elif word == "verify":
                say(verified=self.verify(), logs=self.appender.told())
            elif word == "checkpoint":
                self.memory.log.clear()
                self.checkpoint()
                say(checkpoint=True)
        os._exit(0)


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    try:
        client = Client(settings)
    except Violation as violation:
        say(**violation.facts, client=settings["client"])
        os._exit(3)
    client.guarded(client.run)
