"""Random operations by librados, and what came of each.

    differential.py POOL SEED OPERATIONS [WORKERS [trims]]

The same seed sends the same to any cluster: what is printed must be the same on Nacre and on Ceph. Each worker has
objects of its own, so that it does not matter who is quicker; ids of snapshots and versions are not printed. At the end
stands what all objects hold, and at all snapshots.

Nothing is trimmed meanwhile: guards tell an object that was removed from one of which clones are left in name. With
`trims` it is, by each cluster in its own time, and fewer guards are used; and what objects hold is printed again once
all is trimmed.
"""
import ctypes
import json
import random
import subprocess
import sys
import threading
import time
import zlib

from c_api import Handle, byte, library as lib, must, pointer, size, u64

OBJECTS = 5
NAMES = ["a", "b", "color", "\u00e9t\u00e9"]
KEYS = [b"k%02d" % n for n in range(12)] + [b"", b"\x00\xff", b"long" * 50]
NO_SNAP = (1 << 64) - 2
TRIMMED_WITHIN = 300
TRIMS = "trims" in sys.argv


def data(rng):
    length = rng.choice([0, 1, 7, 100, 4095, 4096, 5000, 65536, 70_000])
    return (rng.randbytes(16) * (length // 16 + 1))[:length]


def place(rng):
    return rng.choice([0, 0, 1, 100, 4096, 5000, 8192, 65536, 131072, 200_000])


def arrays(pairs):
    keys, values = [k for k, _ in pairs], [v for _, v in pairs]
    n = len(pairs)
    text = lambda items: (ctypes.c_char_p * n)(*items)
    sizes = lambda items: (size * n)(*map(len, items))
    return text(keys), text(values), sizes(keys), sizes(values), n


class Worker:
    def __init__(self, pool, seed, number, operations):
        self.rng, self.number, self.operations = random.Random(f"{seed} {number}"), number, operations
        self.lines, self.snaps, self.forgotten, self.failure = [], [], False, None
        # Of each object: whether it is there, and the version that it was seen in last, or was removed by, if that is
        # known.
        self.there, self.versions = {}, {}
        self.handle = Handle(pool)
        self.io = self.handle.io

    def name(self):
        return b"worker%d.%d" % (self.number, self.rng.randrange(OBJECTS))

    def say(self, what, *results):
        self.lines.append(f"{self.number} {what}: {' '.join(map(str, results))}")

    # One line for each step of a compound update.
    def guard(self, op, object_name):
        rng = self.rng
        which = rng.randrange(8)
        if TRIMS and self.forgotten and not self.there.get(object_name) and which in (1, 2):
            which = 3
        if which == 0:
            lib.rados_write_op_assert_exists(op)
            return "assert_exists"
        if which == 1:
            near = rng.choice([0, 0, 1, -1])
            seen = self.versions.get(object_name, 1)
            if seen is None:
                near, seen = 1, 1 << 40
            version = seen + near if seen + near >= 1 else seen + 1
            lib.rados_write_op_assert_version(op, u64(version))
            # How the others fail depends on what others have updated: only the last one seen is sure.
            return f"assert_version {near}" if near == 0 else "assert_version other"
        if which == 2:
            name, value, kind = rng.choice(NAMES).encode(), rng.choice([b"", b"x", b"y"]), rng.randrange(1, 7)
            lib.rados_write_op_cmpxattr(op, name, byte(kind), value, size(len(value)))
            return f"cmpxattr {kind}"
        if which == 3:
            key, value, kind = rng.choice(KEYS), rng.choice([b"", b"x", b"y"]), rng.choice([1, 3, 4])
            result = ctypes.c_int()
            self.kept.append(result)
            lib.rados_write_op_omap_cmp2(op, key, byte(kind), value, size(len(key)), size(len(value)), pointer(result))
            return f"omap_cmp {kind}"
        if which == 4:
            given = data(rng)[:100] if rng.random() < 0.3 else bytes(rng.choice([1, 10]))
            result = ctypes.c_int()
            self.kept += [given, result]
            lib.rados_write_op_cmpext(op, given, size(len(given)), u64(place(rng)), pointer(result))
            return "cmpext"
        return None

    def step(self, op):
        rng = self.rng
        # Ceph keeps the checksum of a whole write though bytes change in a later step, and then gives up the object.
        which = rng.randrange(13, 22) if self.is_whole else rng.randrange(22)
        # On a Ceph an object that was not there, and is made and removed by one update after a snapshot, stays in name
        # for good.
        if which == 10 and self.steps and not self.there[self.target]:
            which = 14
        # A class method of a Ceph sees the keys of what the same update has removed, if clones keep its name.
        if which == 21 and self.has_removed:
            which = 14
        # A Ceph with BlueStore does not remove, by range, keys that the same update has set, and of an object that one
        # update removes twice something stays.
        if which in (19, 20) and self.has_set or which == 10 and self.has_removed:
            which = 14
        self.has_set |= which in (16, 17, 21)
        self.has_removed |= which == 10
        name = rng.choice(NAMES).encode()
        if which <= 3:
            given, at = data(rng), place(rng)
            # Nothing written beyond the end makes an object of Ceph longer, whose checksum it keeps, too.
            at = at if given else 0
            lib.rados_write_op_write(op, given, size(len(given)), u64(at))
            return f"write {at}+{len(given)}"
        if which <= 5:
            given = data(rng)
            # No bytes are nothing to do for a Ceph where only the name is left, and the object does not come to be.
            given = given if given or self.there[self.target] else b"0"
            lib.rados_write_op_write_full(op, given, size(len(given)))
            self.is_whole = True
            return f"write_full {len(given)}"
        if which <= 7:
            given = data(rng)
            lib.rados_write_op_append(op, given, size(len(given)))
            return f"append {len(given)}"
        if which == 8:
            at, length = place(rng), rng.choice([1, 10, 5000, 70_000])  # an OSD of Ceph dies of 0
            lib.rados_write_op_zero(op, u64(at), u64(length))
            return f"zero {at}+{length}"
        if which == 9:
            at = place(rng)
            lib.rados_write_op_truncate(op, u64(at))
            return f"truncate {at}"
        if which == 10:
            lib.rados_write_op_remove(op)
            return "remove"
        if which == 11:
            exclusive = rng.randrange(2)
            lib.rados_write_op_create(op, exclusive, None)
            return f"create {exclusive}"
        if which == 12:
            given, at, times = rng.choice([b"x", b"pattern!", b"0123456789abcdef" * 8]), place(rng), rng.choice([1, 3, 64])
            length = len(given) * times + rng.choice([0, 0, 0, 1])
            lib.rados_write_op_writesame(op, given, size(len(given)), size(length), u64(at))
            return f"writesame {at}+{length} of {len(given)}"
        if which <= 14:
            value = rng.choice([b"", b"x", b"y", b"long" * 300])
            lib.rados_write_op_setxattr(op, name, value, size(len(value)))
            return f"setxattr {name.decode()} {len(value)}"
        if which == 15:
            lib.rados_write_op_rmxattr(op, name)
            return f"rmxattr {name.decode()}"
        if which <= 17:
            pairs = [(key, rng.choice([b"", b"x", b"y", b"v" * 500])) for key in rng.sample(KEYS, rng.randrange(1, 5))]
            keys, values, key_sizes, value_sizes, n = arrays(pairs)
            lib.rados_write_op_omap_set2(op, keys, values, key_sizes, value_sizes, size(n))
            return f"omap_set {n}"
        if which == 18:
            gone = rng.sample(KEYS, rng.randrange(1, 5))
            keys, _, key_sizes, _, n = arrays([(key, b"") for key in gone])
            lib.rados_write_op_omap_rm_keys2(op, keys, key_sizes, size(n))
            return f"omap_rm {n}"
        if which == 19:
            first, last = sorted(rng.sample(KEYS, 2))
            lib.rados_write_op_omap_rm_range2(op, first, size(len(first)), last, size(len(last)))
            return f"omap_rm_range {first[:8]!r} {last[:8]!r}"
        if which == 20:
            lib.rados_write_op_omap_clear(op)
            return "omap_clear"
        method, given = rng.choice([(b"add", b"\x01\x00\x00\x00k\x01\x00\x00\x005"), (b"mul", b"\x01\x00\x00\x00k\x01\x00\x00\x003"),
                                    (b"add", b"nonsense")])
        result = ctypes.c_int()
        self.kept.append(result)
        lib.rados_write_op_exec(op, b"numops", method, given, size(len(given)), pointer(result))
        return f"numops.{method.decode()}"

    def update(self):
        self.kept, self.is_whole, self.has_set, self.has_removed, self.steps = [], False, False, False, 0
        name, op = self.name(), ctypes.c_void_p(lib.rados_create_write_op())
        self.target = name
        self.look(name)
        words = [word for word in [self.guard(op, name)] if word]
        if words and self.rng.random() < 0.2:
            words += [word for word in [self.guard(op, name)] if word]
        for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
            words.append(self.step(op))
            self.steps += 1
            if self.rng.random() < 0.06:
                lib.rados_write_op_set_flags(op, 2)  # LIBRADOS_OP_FLAG_FAILOK
                words.append("failok")
        result = lib.rados_write_op_operate2(op, self.io, name, None, 0)
        lib.rados_release_write_op(op)
        self.changed(name, result, lib.rados_get_last_version(self.io))
        if "assert_version other" in words:
            # Such an operation is sure to fail, by -ERANGE or -EOVERFLOW; where nothing is, by the error of an object
            # that is not there.
            result = "refused" if result in (-34, -75) else result
        self.say(f"{name.decode()} {', '.join(words)}", result)

    def look(self, name):
        """Notes whether the object is there, and in which version."""
        self.there[name] = lib.rados_stat(self.io, name, pointer(u64()), pointer(ctypes.c_long())) == 0
        if self.there[name]:
            self.versions[name] = lib.rados_get_last_version(self.io)

    def changed(self, name, result, version):
        """After an update that came to `result`, in this version."""
        was_there = self.there.get(name)
        self.look(name)
        if result >= 0 and was_there and not self.there[name]:
            self.versions[name] = version

    def read(self):
        rng, name = self.rng, self.name()
        which = rng.randrange(8)
        if which <= 2:
            at, length = place(rng), rng.choice([0, 1, 100, 5000, 300_000])
            buffer = ctypes.create_string_buffer(length + 1)
            result = lib.rados_read(self.io, name, buffer, size(length), u64(at))
            self.say(f"{name.decode()} read {at}+{length}", result, zlib.crc32(buffer.raw[:max(result, 0)]))
        elif which == 3:
            length = u64()
            result = lib.rados_stat(self.io, name, pointer(length), pointer(ctypes.c_long()))
            self.say(f"{name.decode()} stat", result, length.value)
        elif which == 4:
            key = rng.choice(NAMES)
            buffer = ctypes.create_string_buffer(2000)
            result = lib.rados_getxattr(self.io, name, key.encode(), buffer, size(rng.choice([2000, 2000, 5])))
            self.say(f"{name.decode()} getxattr {key}", result, zlib.crc32(buffer.raw[:max(result, 0)]))
        elif which == 5:
            after, prefix, most = rng.choice([b""] + KEYS), rng.choice([b"", b"k", b"k0"]), rng.choice([0, 1, 3, 100])
            self.say(f"{name.decode()} omap after {after[:8]!r} {prefix!r} {most}", *self.omap(name, after, prefix, most))
        elif which == 6:
            seeds, length, chunk = {0: 4, 1: 8, 2: 4}, rng.choice([0, 1024, 4096]), rng.choice([0, 1024])
            kind = rng.randrange(3)
            seed = (ctypes.c_uint8 * 8)(*b"\xff" * 8)
            out = ctypes.create_string_buffer(4096)
            at = u64(place(rng))
            result = lib.rados_checksum(
                self.io, name, kind, seed, size(seeds[kind]), size(length), at, size(chunk), out, size(4096)
            )
            self.say(f"{name.decode()} checksum {kind} {length} {chunk}", result, zlib.crc32(out.raw) if result >= 0 else "")
        else:
            given = data(rng)[:50]
            self.say(f"{name.decode()} cmpext", lib.rados_cmpext(self.io, name, given, size(len(given)), u64(place(rng))))

    def omap(self, name, after, prefix, most):
        op, found, more, result = ctypes.c_void_p(lib.rados_create_read_op()), ctypes.c_void_p(), byte(), ctypes.c_int()
        lib.rados_read_op_omap_get_vals2(op, after, prefix, u64(most), pointer(found), pointer(more), pointer(result))
        done, digest, count = lib.rados_read_op_operate(op, self.io, name, 0), 0, 0
        if done >= 0:
            key, value, key_size, value_size = ctypes.c_char_p(), ctypes.c_char_p(), size(), size()
            key, value = ctypes.c_void_p(), ctypes.c_void_p()
            places = [pointer(one) for one in (key, value, key_size, value_size)]
            while lib.rados_omap_get_next2(found, *places) == 0 and key:
                for at, length in ((key, key_size), (value, value_size)):
                    digest = zlib.crc32(ctypes.string_at(at, length.value) if length.value else b"", digest)
                count += 1
            lib.rados_omap_get_end(found)
        lib.rados_release_read_op(op)
        return done, result.value, count, more.value if done >= 0 else "", digest

    def snapshot(self):
        """Takes one, forgets one, goes back to one, or reads at one."""
        rng = self.rng
        which = rng.randrange(6)
        if which <= 1 and len(self.snaps) < 6:
            snap = u64()
            must(lib.rados_ioctx_selfmanaged_snap_create(self.io, pointer(snap)))
            self.snaps.append(snap.value)
            self.write_context()
            self.say("snapshot taken", len(self.snaps))
        elif which == 2 and self.snaps:
            at = rng.randrange(len(self.snaps))
            snap = self.snaps.pop(at)
            self.forgotten = True
            self.say("snapshot forgotten", at, lib.rados_ioctx_selfmanaged_snap_remove(self.io, u64(snap)))
            self.write_context()
        elif which == 3 and self.snaps:
            at, name = rng.randrange(len(self.snaps)), self.name()
            self.look(name)
            result = lib.rados_ioctx_selfmanaged_snap_rollback(self.io, name, u64(self.snaps[at]))
            # Of that librados tells no version.
            self.changed(name, result, None)
            self.say(f"{name.decode()} back to {at}", result)
        elif self.snaps:
            at = rng.randrange(len(self.snaps))
            lib.rados_ioctx_snap_set_read(self.io, u64(self.snaps[at]))
            self.say(f"reads at {at}")
            for _ in range(3):
                self.read()
            lib.rados_ioctx_snap_set_read(self.io, u64(NO_SNAP))

    def write_context(self):
        newest_first = sorted(self.snaps, reverse=True)
        snaps = (u64 * max(len(newest_first), 1))(*newest_first)
        self.newest = max([getattr(self, "newest", 0)] + newest_first)
        must(lib.rados_ioctx_selfmanaged_snap_set_write_ctx(self.io, u64(self.newest), snaps, len(newest_first)))

    def contents(self):
        for at in [None] + list(range(len(self.snaps))):
            lib.rados_ioctx_snap_set_read(self.io, u64(NO_SNAP if at is None else self.snaps[at]))
            for number in range(OBJECTS):
                name = b"worker%d.%d" % (self.number, number)
                buffer = ctypes.create_string_buffer(1 << 20)
                result = lib.rados_read(self.io, name, buffer, size(1 << 20), u64(0))
                found = [result, zlib.crc32(buffer.raw[:max(result, 0)])]
                for key in NAMES:
                    result = lib.rados_getxattr(self.io, name, key.encode(), buffer, size(2000))
                    found += [result, zlib.crc32(buffer.raw[:max(result, 0)])]
                self.say(f"{name.decode()} at {at} holds", *found, *self.omap(name, b"", b"", 1000))
        lib.rados_ioctx_snap_set_read(self.io, u64(NO_SNAP))
        for number in range(OBJECTS):
            name, op = b"worker%d.%d" % (self.number, number), ctypes.c_void_p(lib.rados_create_write_op())
            lib.rados_write_op_cmpxattr(op, b"none", byte(1), b"", size(0))
            # Changes nothing, and makes it an update, which a read of what is not there is not.
            lib.rados_write_op_zero(op, u64(100 << 20), u64(1))
            self.say(f"{name.decode()} in name", lib.rados_write_op_operate2(op, self.io, name, None, 0))
            lib.rados_release_write_op(op)

    def guarded(self, action):
        try:
            action()
        except Exception as error:
            self.failure = self.failure or error

    def run(self):
        for _ in range(self.operations):
            chance = self.rng.random()
            if chance < 0.62:
                self.update()
            elif chance < 0.92:
                self.read()
            else:
                self.snapshot()
        if not TRIMS:
            self.contents()


def ceph(*words):
    return subprocess.run(["ceph", *words], check=True, capture_output=True, timeout=60).stdout


def wait_until_trimmed():
    end = time.monotonic() + TRIMMED_WITHIN
    while json.loads(ceph("osd", "dump", "--format", "json"))["removed_snaps_queue"]:
        if time.monotonic() > end:
            sys.exit(f"what was forgotten is not trimmed within {TRIMMED_WITHIN} s")
        time.sleep(1)


def together(crew, action):
    threads = [threading.Thread(target=worker.guarded, args=[lambda worker=worker: action(worker)]) for worker in crew]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    pool, seed, operations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    workers = int(sys.argv[4]) if len(sys.argv) > 4 else 8
    crew = [Worker(pool, seed, number, operations // workers) for number in range(workers)]
    if not TRIMS:
        ceph("osd", "set", "nosnaptrim")
    together(crew, Worker.run)
    if TRIMS:
        wait_until_trimmed()
        together(crew, Worker.contents)
    else:
        ceph("osd", "unset", "nosnaptrim")
    for worker in crew:
        worker.handle.close()
        print("\n".join(worker.lines))
    failures = [f"worker {worker.number}: {worker.failure!r}" for worker in crew if worker.failure]
    if failures:
        sys.exit("\n".join(failures))


main()
