"""Threads of a client that change objects, and the one that reads them."""

import random
import time

import rados

from . import librados
from .content import size
from .model import apply
from .objects import Violation, data_is, range_is, size_is, values_are
from .updates import MIB, Updates

SNAPSHOTS_MAX = 4
BURST_MAX = 6


class Writer:
    """Changes its objects, one after the other. It alone does, so its journal tells what they are."""

    def __init__(self, client, number):
        self.client, self.number = client, number
        self.objects = list(client.memory.objects[number].values())
        self.snapshots = client.memory.snapshots[number]
        self.io = client.cluster.open_ioctx(client.pool)
        self.random = random.Random(
            f"{client.settings['seed']} writer {client.number} {number} {client.settings['incarnation']}"
        )
        self.updates = Updates(self.random, client.memory.next_tag, client.stripe)
        self.operations, self.busy_since, self.busy_with = 0, None, ""
        self.use_snapshots()

    def use_snapshots(self):
        if not self.client.settings["coded"]:
            self.io.set_self_managed_snap_write(sorted(self.snapshots, reverse=True))

    def run(self):
        while True:
            self.client.running.wait()
            self.busy_since = time.monotonic()
            if self.client.running.is_set():
                self.one()
            self.busy_since = None
            time.sleep(self.random.expovariate(1 / self.client.settings["pause_s"]))

    def one(self):
        kinds, weights = ["update", "burst", "versioned", "read"], [62, 10, 6, 14]
        if not self.client.settings["coded"]:
            kinds, weights = kinds + ["snapshot", "read_snapshot", "roll_back", "remove_snapshot"], weights + [
                1,
                4,
                2,
                1,
            ]
        kind = self.random.choices(kinds, weights)[0]
        of_kind = self.random.choices(["small", "middle", "large"], [86, 12, 2])[0]
        thing = self.random.choice([thing for thing in self.objects if thing.kind == of_kind])
        self.busy_with = f"{kind} of {thing.name}"
        getattr(self, kind)(thing)

    def intend(self, thing, steps):
        """Notes an update before it is sent. Gives its number, the state before it, and the result it must have."""
        before = thing.newest
        of_object = {snapshot: states[thing.name] for snapshot, states in self.snapshots.items()}
        state, wanted = apply(before, steps, of_object)
        number = thing.sent(state)
        self.client.journal.write(
            {"t": "i", "o": thing.name, "n": number, "s": steps, "tag": self.client.memory.last_tag}
        )
        return number, before, wanted

    def answered(self, thing, number, steps, wanted, code):
        if code != wanted:
            raise Violation(
                "an update gives another result than it must",
                object=thing.name,
                pool=self.client.pool,
                steps=steps,
                expected=wanted,
                result=code,
                number=number,
            )
        self.client.journal.write({"t": "d", "o": thing.name, "n": number, "r": code})
        thing.answered(number)
        self.operations += 1

    def update(self, thing):
        steps = self.updates.next(thing.newest, thing.kind)
        if steps:
            number, before, wanted = self.intend(thing, steps)
            self.answered(
                thing,
                number,
                steps,
                wanted,
                librados.result(librados.send(self.io, thing.name, steps, before), self.io),
            )

    def burst(self, thing):
        """Several updates of one object, of which none waits for the one before."""
        sent = []
        for _ in range(self.random.randint(2, BURST_MAX)):
            steps = self.updates.next(
                thing.newest, "small" if thing.kind == "large" and thing.newest.size < MIB else thing.kind
            )
            if steps and sum(words[-1] for words in steps if words[0] in ("write", "append", "write_full")) < 2 * MIB:
                number, before, wanted = self.intend(thing, steps)
                sent.append((number, steps, wanted, librados.send(self.io, thing.name, steps, before)))
        for number, steps, wanted, one in sent:
            self.answered(thing, number, steps, wanted, librados.result(one, self.io))

    def versioned(self, thing):
        """An update that is for one version of the object, which it is asked for first."""
        steps = self.updates.next(thing.newest, thing.kind)
        if not thing.newest.exists or not steps:
            return
        librados.read_size(self.io, thing.name)
        version = self.io.get_last_version()
        ahead = self.random.choice([0, 0, 0, -1, 1])
        if version + ahead > 0:
            steps = [["version", ahead, version + ahead], *steps]
            # The version is the server's; the model knows only how far it is off.
            number, before, wanted = self.intend(thing, steps)
            sent = librados.send(self.io, thing.name, [["version", ahead, version + ahead], *steps[1:]], before)
            self.answered(thing, number, steps, wanted, librados.result(sent, self.io))

    def read(self, thing):
        """A writer reads what it has been answered for."""
        self.client.compare(self.io, thing, "right after it was written")
        self.operations += 1

    def snapshot(self, _):
        if len(self.snapshots) >= SNAPSHOTS_MAX:
            return
        snapshot = self.io.create_self_managed_snap()
        self.client.journal.write({"t": "snap", "w": self.number, "id": snapshot})
        self.snapshots[snapshot] = {thing.name: thing.newest for thing in self.objects}
        self.use_snapshots()
        self.operations += 1

    def remove_snapshot(self, _):
        if self.snapshots and (len(self.snapshots) >= SNAPSHOTS_MAX or self.random.random() < 0.5):
            snapshot = self.random.choice(sorted(self.snapshots))
            self.client.journal.write({"t": "unsnap", "w": self.number, "id": snapshot})
            del self.snapshots[snapshot]
            self.use_snapshots()
            self.io.remove_self_managed_snap(snapshot)
            self.operations += 1

    def roll_back(self, thing):
        having = [snapshot for snapshot, states in self.snapshots.items() if states[thing.name].exists]
        if thing.newest.exists and having:
            snapshot = self.random.choice(sorted(having))
            steps = [["rollback", snapshot]]
            number, _, wanted = self.intend(thing, steps)
            self.io.rollback_self_managed_snap(thing.name, snapshot)
            self.answered(thing, number, steps, wanted, 0)

    def read_snapshot(self, thing):
        if self.snapshots:
            self.compare_at(self.io, thing, self.random.choice(sorted(self.snapshots)), "while others write")

    def compare_at(self, io, thing, snapshot, when):
        """Reads an object as a snapshot has it."""
        state = self.snapshots[snapshot][thing.name]
        io.set_read(snapshot)
        try:
            read = self.client.read_all(io, thing.name)
        finally:
            io.set_read(rados.LIBRADOS_SNAP_HEAD)
        if not data_is(read["data"])(state) or not all(
            values_are(read[which], which)(state) for which in ("xattrs", "omap")
        ):
            self.client.violated(
                f"a snapshot is not what it was, {when}", thing, [(snapshot, state)], read, snapshot=snapshot
            )
        self.operations += 1

    def verify_snapshots(self, cluster):
        count = 0
        with cluster.open_ioctx(self.client.pool) as io:
            for snapshot in self.snapshots:
                for thing in self.objects:
                    if self.random.random() < 0.5:
                        self.compare_at(io, thing, snapshot, "at the end of a round")
                        count += 1
        return count


class Witness:
    """Reads objects while they change, by connections of its own.

    Never does it see anything older than what was answered, or what it saw, before.
    """

    def __init__(self, client):
        self.client = client
        self.io = librados.connect().open_ioctx(client.pool)
        self.balanced = librados.BalancedReads(client.pool)
        self.random = random.Random(
            f"{client.settings['seed']} witness {client.number} {client.settings['incarnation']}"
        )
        self.operations, self.busy_since, self.busy_with = 0, None, ""

    def run(self):
        while True:
            self.client.running.wait()
            self.busy_since = time.monotonic()
            if self.client.running.is_set():
                self.one()
            self.busy_since = None
            time.sleep(self.random.expovariate(1 / self.client.settings["pause_s"]))

    def one(self):
        pick = self.random
        thing = pick.choice(pick.choice(self.client.writers).objects)
        kinds = [("data", 30), ("range", 20), ("balanced", 20), ("size", 8), ("xattrs", 10)]
        if not self.client.settings["coded"]:
            kinds += [("omap", 10), ("balanced_omap", 6)]
        kind = pick.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        length = size(thing.newest.data)
        if length > MIB and kind in ("data", "balanced") and pick.random() < 0.8:
            kind = "range"
        self.busy_with = f"{kind} read of {thing.name}"
        since = thing.begin_read()
        more = {}
        if kind in ("data", "balanced"):
            read = {
                "data": (
                    librados.read_data(self.io, thing.name, 96 << 20)
                    if kind == "data"
                    else self.balanced.read(thing.name, length + 4 * MIB)
                )
            }
            if kind == "balanced" and read["data"] is not None and len(read["data"]) == length + 4 * MIB:
                # It has become longer than what was asked for.
                thing.end_read(since, lambda state: False)
                return
            test = data_is(read["data"])
        elif kind == "range":
            offset, count = pick.randint(0, length), pick.choice([1, 100, 4096, 70_000])
            more = {"offset": offset, "length": count}
            read = {"range": librados.read_data(self.io, thing.name, count, offset)}
            test = range_is(read["range"], offset, count)
        elif kind == "size":
            read = {"size": librados.read_size(self.io, thing.name)}
            test = size_is(read["size"])
        elif kind == "xattrs":
            read = {"xattrs": librados.read_xattrs(self.io, thing.name)}
            test = values_are(read["xattrs"], "xattrs")
        else:
            read = {
                "omap": librados.read_omap(self.io, thing.name, librados.BALANCED if kind == "balanced_omap" else 0)
            }
            test = values_are(read["omap"], "omap")
        candidates, found = thing.end_read(since, test)
        if (
            "omap" in read
            and len(candidates) > 1
            and sum(map(len, (read["omap"] or {}).values())) >= librados.OMAP_PAGE_BYTES
        ):
            return  # It was read in pieces, and may have changed between them.
        if found is None:
            if "range" in read:
                more["read"] = read["range"][:64].hex() if read["range"] is not None else None
                read = {"data": librados.read_data(self.io, thing.name, 96 << 20)}
            self.client.violated(f"a {kind} read shows what it must not", thing, candidates, read, since=since, **more)
        self.operations += 1
