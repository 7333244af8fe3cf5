"""Calls of classes that keep queues, or compare entries of the omap."""
import struct

import rados

from class_encodings import block, items, text, time, u8, u32, u64


def cmpomap(call, io):
    """Comparisons of entries of the omap, by text and by number, with and without a default."""
    equal, other, greater, at_least, less, at_most = range(1, 7)

    def compare(mode, comparison, values, default=None):
        pairs = items([text(key) + text(value) for key, value in sorted(values.items())])
        rest = u8(0) if default is None else u8(1) + text(default)
        return block(u8(mode) + u8(comparison) + pairs + rest)

    def without_default(mode, comparison, values):
        return block(u8(mode) + u8(comparison) + items([text(k) + text(v) for k, v in sorted(values.items())]))

    def fill(name):
        with rados.WriteOpCtx() as op:
            values = (b"middle", u64(1000), b"", b"\xff\x00", b"abc", u64(1 << 63))
            io.set_omap(op, ("a", "b", "c", "d", "e", "f"), values)
            io.operate_write_op(op, name)

    for method in ("cmp_vals", "cmp_set_vals", "cmp_rm_keys"):
        call("nowhere", "cmpomap", method)
        call("nowhere", "cmpomap", method, b"junk")
        call("nowhere", "cmpomap", method, without_default(1, equal, {"a": "x"}))
        call("nowhere", "cmpomap", method, compare(1, equal, {"a": "x"}))
        call("nowhere", "cmpomap", method, compare(1, equal, {}))
    call.content("nowhere")
    call("default", "cmpomap", "cmp_set_vals", compare(2, greater, {"n": u64(5)}, b""))
    call("default", "cmpomap", "cmp_set_vals", compare(2, greater, {"n": u64(4), "m": u64(1)}, b""))
    call("default", "cmpomap", "cmp_set_vals", compare(2, less, {"o": u64(4)}, u64(5)))
    call("default", "cmpomap", "cmp_set_vals", compare(2, less, {"p": u64(6)}, u64(5)))
    call("default", "cmpomap", "cmp_set_vals", compare(2, less, {"p": u64(6)}, b"short"))
    call.content("default")
    fill("omap")
    for comparison in (0, equal, other, greater, at_least, less, at_most, 7):
        for given in (b"middle", b"lower", b"zenith", b"mid", b"middle!", b"", b"\x80"):
            call("omap", "cmpomap", "cmp_vals", compare(1, comparison, {"a": given}))
        for given in (u64(1000), u64(999), u64(1001), u64(1 << 63), u64(1000) + b"more", b"short"):
            call("omap", "cmpomap", "cmp_vals", compare(2, comparison, {"b": given}))
        for key in ("c", "d", "e", "f"):
            call("omap", "cmpomap", "cmp_vals", compare(2, comparison, {key: u64(0)}))
            call("omap", "cmpomap", "cmp_vals", compare(1, comparison, {key: b"\xff"}))
        call("omap", "cmpomap", "cmp_vals", compare(1, comparison, {"a": "middle", "absent": "x"}))
        call("omap", "cmpomap", "cmp_vals", compare(1, comparison, {"a": "middle", "absent": "x"}, b"x"))
        call("omap", "cmpomap", "cmp_vals", compare(2, comparison, {"absent": u64(0)}, b""))
        call("omap", "cmpomap", "cmp_vals", compare(2, comparison, {"absent": u64(0)}, b"short"))
    for mode in (0, 3, 255):
        for method in ("cmp_vals", "cmp_set_vals", "cmp_rm_keys"):
            call("omap", "cmpomap", method, compare(mode, equal, {"a": "middle"}))
            call("omap", "cmpomap", method, compare(mode, equal, {"absent": "middle"}))
    for number, method in enumerate(("cmp_set_vals", "cmp_rm_keys")):
        for comparison in (equal, other, greater, at_least, less, at_most, 7):
            name = f"changed{number}{comparison}"
            fill(name)
            call(name, "cmpomap", method, compare(1, comparison, {"a": "middle", "c": "x", "e": "abd", "z": "new"}))
            call.content(name)
            call(name, "cmpomap", method, compare(2, comparison, {"b": u64(999), "d": u64(3), "f": u64(7), "y": u64(1)}, u64(0)))
            call(name, "cmpomap", method, compare(2, comparison, {"b": u64(999), "d": b"short"}))
            call.content(name)
    call("omap", "cmpomap", "cmp_vals_set_vals", compare(1, equal, {}))


def short_listing(out):
    """A flag that more follows, the next marker, and the entries' markers with what their data is."""
    import zlib

    def take(at):
        (length,) = struct.unpack_from("<I", out, at)
        return out[at + 4:at + 4 + length], at + 4 + length

    more = out[6]
    marker, at = take(7)
    (count,) = struct.unpack_from("<I", out, at)
    at += 4
    shown = []
    for _ in range(count):
        data, end = take(at + 6)
        name, at = take(end)
        shown.append(f"{name.decode()}:{len(data)}:{zlib.crc32(data):08x}")
    return f"{more} {marker.decode()} {' '.join(shown)}"


def digest_of(call, io, name, skipped=0):
    """Shows an object's size, a checksum of its data but for the first bytes, and its beginning."""
    import zlib
    try:
        size = io.stat(name)[0]
        data = io.read(name, size) if size else b""
        print(f"{name}: {size} bytes {zlib.crc32(data[skipped:]):08x} {data[:80].hex()}")
    except rados.Error as error:
        print(f"{name}: error {error.errno}")


class Queues:
    """Methods of class `queue`."""

    def __init__(self, call):
        self.call = call

    def init(self, name, size, urgent_max=0, urgent=b""):
        self.call(name, "queue", "queue_init", block(u64(size) + u64(urgent_max) + text(urgent)))

    def enqueue(self, name, *entries):
        self.call(name, "queue", "queue_enqueue", block(items([text(entry) for entry in entries])))

    def entries(self, name, most, marker=""):
        self.call(name, "queue", "queue_list_entries", block(u64(most) + text(marker)), show=short_listing)

    def remove(self, name, marker):
        self.call(name, "queue", "queue_remove_entries", block(text(marker)))


def queue(call, io):
    """Queues that are filled, read, emptied, and gone round."""
    queues = Queues(call)
    init, enqueue, entries, remove = queues.init, queues.enqueue, queues.entries, queues.remove
    for method in ("queue_init", "queue_get_capacity", "queue_enqueue", "queue_list_entries", "queue_remove_entries"):
        call("noq", "queue", method)
        call("noq", "queue", method, b"junk")
        io.write_full("notq", b"something else")
        call("notq", "queue", method)
    enqueue("noq", "x")
    entries("noq", 1)
    remove("noq", "0/1024")
    enqueue("notq", "x")
    entries("notq", 1)
    digest_of(call, io, "noq")
    init("q", 100)
    init("q", 100)
    call("q", "queue", "queue_get_capacity")
    digest_of(call, io, "q")
    entries("q", 10)
    remove("q", "0/1024")
    remove("q", "junk")
    enqueue("q")
    enqueue("q", "first")
    enqueue("q", "second", "third")
    digest_of(call, io, "q")
    for most in (1, 2, 3, 4, 100):
        entries("q", most)
    for marker in ("0/1024", "0/1039", "0/1055", "0/1070", "0/1040", "1/1039", "5/", "/", "x", "0/1039x", " 0/1039"):
        entries("q", 1, marker)
    enqueue("q", "x" * 100)
    enqueue("q", "x" * 44)
    enqueue("q", "x" * 20, "y")
    digest_of(call, io, "q")
    entries("q", 100)
    for marker in ("0/1023", "2/1030", "0/1024", "0/1039"):
        remove("q", marker)
    digest_of(call, io, "q")
    entries("q", 100)
    enqueue("q", "a")
    enqueue("q", "b" * 4)
    digest_of(call, io, "q")
    for most in (1, 2, 3, 4, 5, 100):
        entries("q", most)
    entries("q", 2, "0/1055")
    entries("q", 2, "1/1024")
    remove("q", "0/1055")
    digest_of(call, io, "q")
    enqueue("q", "x" * 100)
    for number in range(12):
        enqueue("q", f"entry {number}")
        listing = call.last
        entries("q", 1)
    entries("q", 100)
    # An entry at a time, until the queue is empty.
    for _ in range(8):
        entries("q", 1)
        length = struct.unpack_from("<I", call.last, 7)[0]
        remove("q", call.last[11:11 + length])
        entries("q", 100)
        digest_of(call, io, "q")
    rounds_of_queues(call, io)
    large_entries(call, io)
    call("q", "queue", "nothing")


def rounds_of_queues(call, io):
    """A queue that is filled to its last byte, and one that is gone round with entries of all lengths."""
    queues = Queues(call)
    init, enqueue, entries, remove = queues.init, queues.enqueue, queues.entries, queues.remove
    init("exact", 60)
    enqueue("exact", "x" * 20, "y" * 20)
    digest_of(call, io, "exact")
    enqueue("exact", "z")
    entries("exact", 10)
    entries("exact", 1)
    remove("exact", "0/1054")
    enqueue("exact", "z" * 20)
    entries("exact", 10)
    entries("exact", 1)
    entries("exact", 2)
    remove("exact", "1/1054")
    entries("exact", 10)
    digest_of(call, io, "exact")
    init("round", 97)
    for length in range(0, 40):
        enqueue("round", chr(ord("a") + length % 26) * length)
        entries("round", 1)
        marker = call.last[11:11 + struct.unpack_from("<I", call.last, 7)[0]]
        if length % 3 != 1:
            remove("round", marker)
        entries("round", 100)
    digest_of(call, io, "round")


def large_entries(call, io):
    """Longer entries, which a listing reads in several steps, and data of an application in the head."""
    queues = Queues(call)
    init, enqueue, entries = queues.init, queues.enqueue, queues.entries
    init("large", 10_000)
    for length in (1500, 3, 1014, 1024, 2000, 0, 1):
        enqueue("large", bytes([length % 251]) * length)
    for most in (0, 1, 2, 3, 7, 8):
        entries("large", most)
    entries("large", 0, "0/2534")
    entries("large", 0, "0/2547")
    init("few", 500)
    enqueue("few", "one", "two")
    entries("few", 0)
    digest_of(call, io, "large")
    init("urgent", 200, 2000, b"u" * 1500)
    digest_of(call, io, "urgent")
    enqueue("urgent", "x")
    entries("urgent", 5)
    init("toolarge", 200, 100, b"u" * 2000)
    digest_of(call, io, "toolarge")


def short_reservations(out):
    """The reservations' numbers and sizes."""
    (count,) = struct.unpack_from("<I", out, 6)
    shown = []
    for at in range(10, 10 + count * 26, 26):
        (number,) = struct.unpack_from("<I", out, at)
        (size,) = struct.unpack_from("<Q", out, at + 10)
        shown.append((number, size))
    listed = " ".join(f"{number}:{size}" for number, size in sorted(shown)[:20])
    return f"{count} {sum(size for _, size in shown)} {listed}"


class TwoPhaseQueues:
    """Methods of class `2pc_queue`."""

    def __init__(self, call, io):
        self.call = call
        self.io = io

    def do(self, name, method, body=b"", show=lambda out: out.hex()):
        data = b"junk" if body is None else block(body)
        self.call(name, "2pc_queue", f"2pc_queue_{method}", data, show=show)

    def entries(self, name, most, marker=""):
        self.do(name, "list_entries", u64(most) + text(marker), show=short_listing)

    def reservations(self, name):
        """Shows the reservations, and what the head counts. The times of reservations are not shown."""
        self.do(name, "list_reservations", show=short_reservations)
        size = self.io.stat(name)[0]
        head = self.io.read(name, size)
        at = 10 + 6 + 8 + 22 + 22 + 8 + 8 + 4 + 6
        print(f"{name}: {size} bytes, reserved {struct.unpack_from('<QI', head, at)}")

    def reserve(self, name, size, count):
        self.do(name, "reserve", u64(size) + u32(count))

    def commit(self, name, number, *data):
        self.do(name, "commit", u32(number) + items([text(one) for one in data]))


def two_phase_queue(call, io):
    """Queues whose room is reserved first."""
    queues = TwoPhaseQueues(call, io)
    do, entries, reservations = queues.do, queues.entries, queues.reservations
    reserve, commit = queues.reserve, queues.commit
    for method in ("init", "get_capacity", "reserve", "commit", "abort", "list_reservations", "list_entries",
                   "remove_entries", "expire_reservations"):
        do("no2pc", method)
        do("no2pc", method, None)
        io.write_full("not2pc", b"something else")
        do("not2pc", method)
        do("not2pc", method, None)
    reserve("no2pc", 10, 1)
    commit("no2pc", 1, "x")
    do("no2pc", "abort", u32(1))
    do("t", "init", u64(200) + u64(7) + text("ignored"))
    do("t", "init", u64(200) + u64(7) + text(""))
    do("t", "get_capacity")
    digest_of(call, io, "t")
    reservations("t")
    for size, count in ((0, 1), (1, 0), (1000, 1), (191, 1), (190, 1), (1, 1), (10, 19), (100, 10)):
        reserve("t", size, count)
        reservations("t")
    for number in (1, 1, 7, 0):
        do("t", "abort", u32(number))
        reservations("t")
    for size, count in ((50, 2), (30, 1), (20, 1), (60, 3), (10, 1), (1, 1)):
        reserve("t", size, count)
        reservations("t")
    commit("t", 99, "x")
    commit("t", 2, "x" * 51)
    commit("t", 2, "x" * 25, "y" * 25)
    reservations("t")
    commit("t", 2, "again")
    commit("t", 3, "less")
    commit("t", 4)
    reservations("t")
    entries("t", 1)
    entries("t", 100)
    for number in (2, 3, 4, 5, 6, 7):
        do("t", "abort", u32(number))
        reservations("t")
    for marker in ("0/0", "junk", "0/24576", "0/24611"):
        do("t", "remove_entries", text(marker))
        entries("t", 100)
    do("t", "remove_entries", text("0/24660"))
    entries("t", 100)
    # The head leaves bytes of longer ones behind, with times of reservations.
    digest_of(call, io, "t", 24_576)
    many_reservations(call, io)


def many_reservations(call, io):
    """A reservation for each entry, around the end; old ones; more than the head has room for."""
    queues = TwoPhaseQueues(call, io)
    do, entries, reservations = queues.do, queues.entries, queues.reservations
    reserve, commit = queues.reserve, queues.commit
    do("ring", "init", u64(150) + u64(0) + text(""))
    for number in range(1, 16):
        reserve("ring", 20 + number, 1)
        commit("ring", number, chr(ord("a") + number) * (20 + number))
        entries("ring", 1)
        marker = call.last[11:11 + struct.unpack_from("<I", call.last, 7)[0]] if call.last else b""
        do("ring", "remove_entries", text(marker))
        entries("ring", 100)
        reservations("ring")
    # Old reservations go, newer ones stay.
    do("old", "init", u64(5000) + u64(0) + text(""))
    for number in range(4):
        reserve("old", 100 + number, 1)
    do("old", "expire_reservations", time(0))
    reservations("old")
    do("old", "expire_reservations", time(4_000_000_000))
    reservations("old")
    do("old", "expire_reservations", time(4_000_000_000))
    # More reservations than the head has room for.
    do("many", "init", u64(10_000_000) + u64(0) + text(""))
    for number in range(1, 1001):
        body = block(u64(number) + u32(1))
        try:
            _, out = io.execute("many", "2pc_queue", "2pc_queue_reserve", body)
            if out:
                print(f"many {number}: {out.hex()}")
        except rados.Error as error:
            print(f"many {number}: error {error.errno}")
    reservations("many")
    attribute = dict(io.get_xattrs("many"))
    print("many:", {name: len(value) for name, value in attribute.items()})
    for number in (1000, 950, 905, 1, 1001):
        commit("many", number, "y")
        do("many", "abort", u32(number))
    do("many", "abort", u32(999))
    reservations("many")
    print("many:", {name: len(value) for name, value in io.get_xattrs("many")})
    do("many", "expire_reservations", time(4_000_000_000))
    reservations("many")
    print("many:", {name: len(value) for name, value in io.get_xattrs("many")})
    do("many", "nothing")
