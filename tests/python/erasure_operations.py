"""Operations on an erasure-coded pool with two data shards, of all kinds that applications try: prints what came of
each.

    erasure_operations.py POOL

What is printed must be the same on Nacre and on Ceph.
"""
import sys
import zlib

import rados

BYTES = bytes(range(256)) * 64


def main():
    cluster = rados.Rados(conffile="")
    cluster.connect(timeout=30)
    io = cluster.open_ioctx(sys.argv[1])

    def show(name, operation):
        try:
            result = operation()
        except rados.Error as error:
            result = f"error {error.errno}"
        if isinstance(result, bytes):
            result = f"{len(result)} bytes, {zlib.crc32(result):08x}"
        print(f"{name}: {result}")

    def size(name):
        show(f"  size of {name}", lambda: io.stat(name)[0])

    def update(name, *steps):
        with rados.WriteOpCtx() as op:
            for step in steps:
                step(op)
            io.operate_write_op(op, name)

    def changes(name, what, operation):
        show(f"{name}, {what}", operation)
        size(name)

    changes("a", "write at 0", lambda: io.write("a", BYTES, 0))
    changes("a", "write at its end, between stripes", lambda: io.write("a", BYTES, len(BYTES)))
    changes("a", "write over it", lambda: io.write("a", b"x" * 100, 0))
    changes("a", "write behind its end", lambda: io.write("a", b"x" * 100, 1 << 20))
    changes("a", "append a part of a stripe", lambda: io.append("a", b"y" * 100))
    changes("a", "append within a stripe", lambda: io.append("a", b"y" * 100))
    changes("a", "write at its end, within a stripe", lambda: io.write("a", b"y" * 100, io.stat("a")[0]))
    show("a, read all", lambda: io.read("a", 1 << 20))
    show("a, read a part", lambda: io.read("a", 1000, 3000))
    show("a, read from behind its end", lambda: io.read("a", 10, 1 << 22))
    changes("a", "write all", lambda: io.write_full("a", BYTES[:5000]))
    show("a, read all", lambda: io.read("a"))
    for bytes_left in (100, 9000, 5000, 0):
        changes("a", f"truncate to {bytes_left}", lambda: io.trunc("a", bytes_left))
    show("a, set attribute", lambda: io.set_xattr("a", "k", b"v"))
    show("a, get attribute", lambda: io.get_xattr("a", "k"))
    show("a, remove attribute", lambda: io.rm_xattr("a", "k"))
    show("a, get attribute", lambda: io.get_xattr("a", "k"))
    show("a, set omap", lambda: update("a", lambda op: io.set_omap(op, ("k",), (b"v",))))
    show("a, remove omap keys", lambda: update("a", lambda op: io.remove_omap_keys(op, ("k",))))
    show("a, clear omap", lambda: update("a", lambda op: io.clear_omap(op)))

    def read_omap():
        with rados.ReadOpCtx() as op:
            values, _ = io.get_omap_vals(op, "", "", 10)
            io.operate_read_op(op, "a")
            return list(values)

    show("a, read omap", read_omap)
    exclusive, idempotent = rados.LIBRADOS_CREATE_EXCLUSIVE, rados.LIBRADOS_CREATE_IDEMPOTENT
    changes("b", "create exclusively", lambda: update("b", lambda op: op.new(exclusive)))
    changes("b", "create exclusively again", lambda: update("b", lambda op: op.new(exclusive)))
    changes("b", "create", lambda: update("b", lambda op: op.new(idempotent)))
    changes("a", "zero a part", lambda: update("a", lambda op: op.zero(0, 100)))
    changes("a", "zero behind its end", lambda: update("a", lambda op: op.zero(1 << 20, 100)))
    changes("c", "zero what is not there", lambda: update("c", lambda op: op.zero(0, 100)))
    changes("d", "truncate what is not there", lambda: update("d", lambda op: op.truncate(0)))
    changes("e", "write the same again and again", lambda: update("e", lambda op: op.writesame(b"abcd", 4096, 0)))
    changes("a", "compare", lambda: update("a", lambda op: op.cmpext(BYTES[:4], 0)))
    changes("f", "write, then append", lambda: update("f", lambda op: op.write(BYTES, 0), lambda op: op.append(BYTES)))
    changes("f", "remove, then write all", lambda: update("f", lambda op: op.remove(), lambda op: op.write_full(b"z")))
    changes("g", "append parts", lambda: update("g", lambda op: op.append(b"abc"), lambda op: op.append(b"def")))
    changes("h", "write all, then append", lambda: update("h", lambda op: op.write_full(b"abc"), lambda op: op.append(b"def")))
    show("h, read all", lambda: io.read("h"))
    changes("i", "write within a stripe of what is not there", lambda: io.write("i", b"abc", 5))
    changes("j", "write at a stripe of what is not there", lambda: io.write("j", b"abc", 8192))
    changes("k", "write nothing", lambda: io.write("k", b"", 0))
    changes("l", "remove what is not there", lambda: io.remove_object("l"))
    changes("a", "remove", lambda: io.remove_object("a"))
    show("a, read what is gone", lambda: io.read("a"))
    changes("m", "append a stripe", lambda: io.append("m", b"1" * 8192))
    changes("m", "append another", lambda: io.append("m", b"2" * 8192))
    show("m, read all", lambda: io.read("m", 20000))
    changes("n", "write much", lambda: io.write_full("n", BYTES * 300))
    show("n, read all", lambda: io.read("n", 5_000_000))
    show("n, read a part", lambda: io.read("n", 70_001, 1_234_567))
    show("objects", lambda: sorted(found.key for found in io.list_objects()))


main()
