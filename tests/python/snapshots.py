"""Takes, reads, rolls back to and removes snapshots, and prints what came of each step.

    snapshots.py POOL OTHER_POOL CODED_POOL OTHER_CODED_POOL [PART...]

The last two are erasure-coded with two data shards; in the second and in the fourth snapshots are named.

What is printed must be the same on Nacre and on Ceph. Times are left out of it.
"""
import json
import random
import subprocess
import sys
import time

import rados

HEAD = 0xFFFFFFFFFFFFFFFE
TRIMMED_WITHIN = 150


def attempt(what, action, show=lambda value: value):
    try:
        print(f"{what}: {show(action())}")
    except rados.Error as error:
        print(f"{what}: error {error.errno}")


def tool(*words):
    done = subprocess.run(words, capture_output=True, timeout=60)
    return done.stdout.decode() if done.returncode == 0 else f"failed ({done.returncode})\n"


def list_snaps(pool, name, ordinal=str):
    """`ordinal`: how a snapshot's number is shown."""
    print(f"listsnaps {name}:")
    for line in tool("rados", "-p", pool, "listsnaps", name).splitlines():
        columns = line.split("\t")
        if columns[0].isdigit():
            columns[:2] = [ordinal(columns[0]), ",".join(ordinal(snap) for snap in columns[1].split(","))]
        print("\t".join(columns))


class Snapshots:
    """A pool whose snapshots its client manages. They are shown by the order in which they were taken: a snapshot that
    a client of a busy cluster asks for twice, as it got no answer, takes a number more."""

    def __init__(self, pool, io):
        self.pool, self.io, self.snaps, self.seq, self.numbers = pool, io, [], 0, []

    def take(self):
        snap = self.io.create_self_managed_snap()
        assert snap > max(self.numbers, default=0), f"{snap} after {self.numbers}"
        self.snaps.insert(0, snap)
        self.numbers.append(snap)
        self.tell()
        return snap

    def ordinal(self, snap):
        if snap == HEAD:
            return "head"
        if int(snap) > max(self.numbers, default=0):
            return "none yet"
        return str(self.numbers.index(int(snap)) + 1) if int(snap) in self.numbers else f"number {snap}"

    def tell(self):
        self.io.set_self_managed_snap_write(self.snaps)

    def remove(self, snap):
        self.io.remove_self_managed_snap(snap)
        self.snaps.remove(snap)
        self.tell()

    def content(self, name, snap=HEAD):
        self.io.set_read(snap)
        try:
            size = self.io.stat(name)[0]
            data = self.io.read(name, size) if size else b""
            attrs = sorted(self.io.get_xattrs(name))
            with rados.ReadOpCtx() as op:
                omap, _ = self.io.get_omap_vals(op, "", "", 1000)
                self.io.operate_read_op(op, name)
                return f"{size} {data[:60]} {sum(data)} {attrs} {sorted(omap)}"
        except rados.Error as error:
            return f"error {error.errno}"
        finally:
            self.io.set_read(HEAD)

    def show(self, *names):
        for name in names:
            list_snaps(self.pool, name, self.ordinal)
            for snap in sorted(self.snaps) + [self.seq + 1, HEAD]:
                print(f"{name} at {self.ordinal(snap)}: {self.content(name, snap)}")


def single_steps(s):
    io = s.io
    io.write_full("a", b"before" * 100)
    print("first snapshot", s.ordinal(s.take()))
    io.write("a", b"X", 3)
    io.set_xattr("a", "attr", b"1")
    print("second snapshot", s.ordinal(s.take()))
    io.write_full("a", b"short")
    s.show("a")
    s.take()
    io.remove_object("a")
    attempt("again", lambda: io.remove_object("a"))
    attempt("stat", lambda: io.stat("a"))
    print(sorted(o.key for o in io.list_objects()))
    s.show("a", "absent")
    s.take()
    io.write("a", b"anew", 10)
    s.show("a")
    for snap in sorted(s.snaps) + [0, s.snaps[0] + 5, HEAD]:
        attempt(f"roll back to {s.ordinal(snap)}", lambda: io.rollback_self_managed_snap("a", snap))
        s.show("a")
    attempt("roll back what is not there", lambda: io.rollback_self_managed_snap("nothing", s.snaps[0]))
    attempt("stat", lambda: io.stat("nothing"))
    # Snapshots that writers of the past do not know.
    io.set_self_managed_snap_write(s.snaps[1:])
    io.write("a", b"stale", 0)
    s.show("a")
    s.tell()
    io.set_read(s.snaps[-1])
    attempt("write while reading a snapshot", lambda: io.write("a", b"!", 0))
    io.set_read(HEAD)
    attempt("wrong order", lambda: io.set_self_managed_snap_write([5, 5]))
    attempt("named snapshot", lambda: io.create_snap("named"))
    attempt("remove what never was", lambda: io.remove_self_managed_snap(100000))
    attempt("roll back to a name", lambda: io.snap_rollback("a", "named"))


def ranges(s):
    """Which ranges states of an object share."""
    io = s.io
    for at, step in enumerate([
        lambda: io.write_full("r", b"x" * 20000),
        lambda: io.write("r", b"y" * 5000, 3000),
        lambda: io.write("r", b"z" * 100, 25000),
        lambda: io.trunc("r", 9000),
        lambda: io.trunc("r", 30000),
        lambda: io.write_full("r", b"small"),
        lambda: io.append("r", b"appended" * 1000),
        lambda: io.writesame("r", b"same", 4000, 100),
        lambda: io.set_xattr("r", "k", b"v"),
        lambda: io.rm_xattr("r", "k"),
        lambda: io.rollback_self_managed_snap("r", s.snaps[4]),
        lambda: io.remove_object("r"),
        lambda: io.write("r", b"anew", 100),
        lambda: io.rollback_self_managed_snap("r", s.snaps[-1]),
    ]):
        attempt(f"step {at}", step)
        s.take()
    list_snaps(s.pool, "r", s.ordinal)
    s.show("r")


def by_chance(s):
    io, chance = s.io, random.Random(7)
    names = [f"o{n}" for n in range(6)]

    def omap(name, key):
        with rados.WriteOpCtx() as op:
            io.set_omap(op, (key,), (key.encode(),))
            io.operate_write_op(op, name)

    for step in range(400):
        name, what = chance.choice(names), chance.randrange(14)
        offset, length = chance.randrange(12000), chance.randrange(1, 9000)
        data = bytes([65 + step % 26]) * length
        if what < 4:
            attempt("write", lambda: io.write(name, data, offset))
        elif what == 4:
            attempt("full", lambda: io.write_full(name, data))
        elif what == 5:
            attempt("append", lambda: io.append(name, data[:500]))
        elif what == 6:
            attempt("truncate", lambda: io.trunc(name, offset))
        elif what == 7:
            attempt("remove", lambda: io.remove_object(name))
        elif what == 8:
            attempt("attribute", lambda: io.set_xattr(name, f"k{step % 3}", data[:5]))
        elif what == 9:
            attempt("omap", lambda: omap(name, f"k{step % 5}"))
        elif what == 10:
            snap = chance.choice(s.snaps)
            attempt(f"roll back {name} to {s.ordinal(snap)}", lambda: io.rollback_self_managed_snap(name, snap))
        elif what == 11 and len(s.snaps) < 30:
            s.take()
        else:
            snap = chance.choice(s.snaps)
            print(f"{name} at {s.ordinal(snap)}: {s.content(name, snap)}")
    s.show(*names)


STRIPE_BYTES = 8192


def coded_steps(s):
    io = s.io

    def update(name, *steps):
        with rados.WriteOpCtx() as op:
            for step in steps:
                step(op)
            io.operate_write_op(op, name)

    io.write_full("a", b"1" * STRIPE_BYTES)
    print("first snapshot", s.ordinal(s.take()))
    attempt("append", lambda: io.append("a", b"2" * 2 * STRIPE_BYTES))
    io.set_xattr("a", "attr", b"1")
    print("second snapshot", s.ordinal(s.take()))
    attempt("append a part of a stripe", lambda: io.append("a", b"end"))
    s.show("a")
    s.take()
    attempt("append within a stripe", lambda: io.append("a", b"3" * STRIPE_BYTES))
    attempt("write within", lambda: io.write("a", b"x", 3))
    attempt("truncate", lambda: io.trunc("a", 5))
    s.show("a")
    io.write_full("a", b"short")
    s.take()
    attempt("attribute alone", lambda: io.set_xattr("a", "other", b"2"))
    s.take()
    attempt("as it was", lambda: io.rm_xattr("a", "attr"))
    s.show("a")
    io.remove_object("a")
    attempt("again", lambda: io.remove_object("a"))
    attempt("stat", lambda: io.stat("a"))
    print(sorted(o.key for o in io.list_objects()))
    s.show("a", "absent")
    s.take()
    attempt("append to what is there in name", lambda: io.append("a", b"anew" * STRIPE_BYTES))
    s.show("a")
    for snap in sorted(s.snaps) + [0, s.snaps[0] + 5, HEAD]:
        attempt(f"roll back to {s.ordinal(snap)}", lambda: io.rollback_self_managed_snap("a", snap))
        attempt("append behind it", lambda: io.append("a", b"4" * STRIPE_BYTES))
        s.show("a")
    s.take()
    attempt("remove and write", lambda: update("a", lambda op: op.remove(), lambda op: op.write_full(b"again")))
    s.take()
    attempt("two stripes", lambda: update(
        "a", lambda op: op.write_full(b"5" * STRIPE_BYTES), lambda op: op.append(b"6" * STRIPE_BYTES)))
    s.take()
    attempt("roll back what is not there", lambda: io.rollback_self_managed_snap("nothing", s.snaps[0]))
    attempt("stat", lambda: io.stat("nothing"))
    io.set_self_managed_snap_write(s.snaps[1:])
    io.write_full("a", b"stale")
    s.show("a")
    s.tell()
    io.set_read(s.snaps[-1])
    attempt("write while reading a snapshot", lambda: io.write_full("a", b"!"))
    io.set_read(HEAD)
    attempt("named snapshot", lambda: io.create_snap("named"))


def coded_by_chance(s):
    io, chance = s.io, random.Random(11)
    names = [f"o{n}" for n in range(6)]
    for step in range(400):
        name, what = chance.choice(names), chance.randrange(12)
        length = STRIPE_BYTES * chance.randrange(1, 4) if chance.randrange(3) else chance.randrange(1, 20000)
        data = bytes([65 + step % 26]) * length
        if what < 2:
            attempt("full", lambda: io.write_full(name, data))
        elif what < 5:
            attempt("append", lambda: io.append(name, data))
        elif what == 5:
            attempt("remove", lambda: io.remove_object(name))
        elif what == 6:
            attempt("attribute", lambda: io.set_xattr(name, f"k{step % 3}", data[:5]))
        elif what == 7:
            snap = chance.choice(s.snaps)
            attempt(f"roll back {name} to {s.ordinal(snap)}", lambda: io.rollback_self_managed_snap(name, snap))
        elif what == 8 and len(s.snaps) < 30:
            s.take()
        else:
            snap = chance.choice(s.snaps)
            print(f"{name} at {s.ordinal(snap)}: {s.content(name, snap)}")
    s.show(*names)


def queues():
    return tool("ceph", "osd", "dump").count("removed_snaps_queue")


def wait_until_trimmed():
    end = time.monotonic() + TRIMMED_WITHIN
    while queues() and time.monotonic() < end:
        time.sleep(1)
    print("left to be trimmed:", queues())


def counts(pool, wanted):
    """Statistics are late."""
    end = time.monotonic() + TRIMMED_WITHIN
    while True:
        pools = json.loads(tool("rados", "df", "--format", "json"))["pools"]
        known = next(p for p in pools if p["name"] == pool)
        found = (int(known["num_objects"]), int(known["num_object_clones"]))
        if wanted(found) or time.monotonic() > end:
            return found
        time.sleep(1)


def removal(s):
    names = sorted(o.key for o in s.io.list_objects())
    for snap in s.snaps[1::2]:
        s.remove(snap)
    attempt("remove twice", lambda: s.io.remove_self_managed_snap(s.snaps[0] - 1))
    wait_until_trimmed()
    s.show(*names)
    for name in names[1:4]:
        attempt("remove", lambda: s.io.remove_object(name))
    for snap in list(s.snaps):
        s.remove(snap)
    wait_until_trimmed()
    s.show(*names)
    print(sorted(o.key for o in s.io.list_objects()))
    print("objects and clones:", counts(s.pool, lambda found: found[1] == 0))


def named(pool, io):
    attempt("no names", lambda: [snap.name for snap in io.list_snaps()])
    io.write_full("n", b"first")
    attempt("take", lambda: io.create_snap("one"))
    attempt("take again", lambda: io.create_snap("one"))
    io.write_full("n", b"second")
    io.write_full("later", b"here")
    print(tool("ceph", "osd", "pool", "mksnap", pool, "two"), end="")
    io.write_full("n", b"third")
    io.remove_object("later")
    attempt("names", lambda: sorted(snap.name for snap in io.list_snaps()))
    attempt("number", lambda: io.lookup_snap("two").snap_id)
    attempt("unknown", lambda: io.lookup_snap("three"))
    for name in ["n", "later"]:
        list_snaps(pool, name)
        for snap in ["one", "two"]:
            print(name, snap, tool("rados", "-p", pool, "-s", snap, "get", name, "-"))
    attempt("self-managed", io.create_self_managed_snap)
    attempt("roll back", lambda: io.snap_rollback("n", "one"))
    attempt("roll back", lambda: io.snap_rollback("later", "two"))
    print(tool("rados", "-p", pool, "get", "n", "-"), tool("rados", "-p", pool, "get", "later", "-"))
    print(tool("rados", "-p", pool, "lssnap").count("\n"))
    list_snaps(pool, "n")


def named_removal(pool, io):
    attempt("remove", lambda: io.remove_snap("one"))
    attempt("remove again", lambda: io.remove_snap("one"))
    # By a client: after `ceph osd pool rmsnap` a Ceph of release 16 trims nothing.
    attempt("remove", lambda: io.remove_snap("two"))
    wait_until_trimmed()
    list_snaps(pool, "n")
    list_snaps(pool, "later")
    print("objects and clones:", counts(pool, lambda found: found[1] == 0))


def main():
    cluster = rados.Rados(conffile="")
    cluster.connect(timeout=30)
    pool, other, coded, other_coded = sys.argv[1:5]
    chosen = sys.argv[5:]

    def run(parts, *on):
        for title, part in parts.items():
            if not chosen or title in chosen:
                print(f"-- {title}")
                part(*on)

    s = Snapshots(pool, cluster.open_ioctx(pool))
    run({"single_steps": single_steps, "ranges": ranges, "by_chance": by_chance, "removal": removal}, s)
    run({"named": named, "named_removal": named_removal}, other, cluster.open_ioctx(other))
    s = Snapshots(coded, cluster.open_ioctx(coded))
    run({"coded_steps": coded_steps, "coded_by_chance": coded_by_chance, "coded_removal": removal}, s)
    run({"coded_named": named, "coded_named_removal": named_removal}, other_coded, cluster.open_ioctx(other_coded))


main()
