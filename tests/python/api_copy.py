"""Objects copied within the cluster, and checksums of what is stored."""
import ctypes
import errno
import os
import struct
import subprocess

import rados
from c_api import Handle, library, size, u64
from checks import check, fails_with, main, same

XXHASH32, XXHASH64, CRC32C = 0, 1, 2


def cp(io, source, target, *more):
    ran = subprocess.run(["rados", "-p", io.io.name, "cp", source, target, *more], capture_output=True, text=True, timeout=120)
    # It may say something about its admin socket, too.
    return ran.returncode, ran.stderr if ran.returncode else ""


def content(io, name):
    """Bytes, attributes and omap."""
    size, _ = io.stat(name)
    data = b""
    while len(data) < size:
        data += io.read(name, 4 << 20, len(data))
    omap = {}
    while True:
        read = io.create_read_op()
        entries, _ = io.get_omap_vals(read, max(omap, default=""), "", 1000)
        io.operate_read_op(read, name)
        page = dict(entries)
        omap.update(page)
        if len(page) < 1000:
            return data, dict(io.get_xattrs(name)), omap


@check
def a_copy_has_everything(io):
    io.write_full("copy-from", b"0123456789")
    io.set_xattr("copy-from", "k", b"v")
    io.set_xattr("copy-from", "empty", b"")
    op = io.create_write_op()
    io.set_omap(op, ("a", "b"), (b"1", b"2"))
    io.operate_write_op(op, "copy-from")
    io.write_full("copy-to", b"longer than the source is")
    io.set_xattr("copy-to", "old", b"old")
    op = io.create_write_op()
    io.set_omap(op, ("old",), (b"old",))
    io.operate_write_op(op, "copy-to")
    same(cp(io, "copy-from", "copy-to"), (0, ""))
    want = (b"0123456789", {"k": b"v", "empty": b""}, {"a": b"1", "b": b"2"})
    same(content(io, "copy-to"), want)
    same(content(io, "copy-from"), want)
    same(cp(io, "copy-from", "copy-new"), (0, ""))
    same(content(io, "copy-new"), want)


@check
def a_copy_has_its_sources_version_and_time(io):
    for _ in range(3):
        io.write_full("copy-version", b"x")
    io.stat("copy-version")
    version, stat = io.get_last_version(), io.stat("copy-version")
    same(cp(io, "copy-version", "copy-version-to"), (0, ""))
    same(io.stat("copy-version-to"), stat)
    same(io.get_last_version(), version)


@check
def large_objects_are_copied(io):
    data = os.urandom(1 << 20) * 21 + b"end"
    for at in range(0, len(data), 4 << 20):
        io.write("copy-large", data[at:at + (4 << 20)], at)
    same(cp(io, "copy-large", "copy-large-to"), (0, ""))
    assert content(io, "copy-large-to")[0] == data


@check
def large_omaps_are_copied(io):
    for first in range(0, 3000, 1000):
        keys = tuple(f"key-{n:05}" for n in range(first, first + 1000))
        op = io.create_write_op()
        io.set_omap(op, keys, tuple(key.encode() * 9 for key in keys))
        io.operate_write_op(op, "copy-omap")
    same(cp(io, "copy-omap", "copy-omap-to"), (0, ""))
    have = content(io, "copy-omap-to")
    same(len(have[2]), 3000)
    same(have, content(io, "copy-omap"))


@check
def an_empty_object_is_copied(io):
    io.write_full("copy-empty", b"")
    io.write_full("copy-empty-to", b"something")
    same(cp(io, "copy-empty", "copy-empty-to"), (0, ""))
    same(io.stat("copy-empty-to")[0], 0)


@check
def nothing_comes_of_nothing(io):
    status, said = cp(io, "copy-absent", "copy-absent-to")
    assert status != 0 and "(2) No such file or directory" in said, (status, said)
    fails_with(errno.ENOENT, io.stat, "copy-absent-to")
    io.write_full("copy-self", b"x")
    status, said = cp(io, "copy-self", "copy-self")
    assert status != 0 and "(22) Invalid argument" in said, (status, said)
    same(io.read("copy-self"), b"x")


@check
def many_copies(io):
    for n in range(40):
        io.write_full(f"copy-many-{n}", b"%d" % n * 1000)
    running = [subprocess.Popen(["rados", "-p", io.io.name, "cp", f"copy-many-{n}", f"copy-many-to-{n}"]) for n in range(8)]
    same([each.wait(timeout=120) for each in running], [0] * 8)
    for n in range(8):
        same(io.read(f"copy-many-to-{n}", 1 << 20), b"%d" % n * 1000)


def checksum(handle, name, kind, init, length, offset, chunk):
    """(result, checksums)."""
    wide = kind == XXHASH64
    start = struct.pack("<Q" if wide else "<I", init)
    out = ctypes.create_string_buffer(4096)
    result = library.rados_checksum(
        handle.io, name.encode(), kind, start, size(len(start)), size(length), u64(offset), size(chunk),
        out, size(len(out)),
    )
    if result < 0:
        return result, []
    count = struct.unpack_from("<I", out.raw)[0]
    return result, list(struct.unpack_from(f"<{count}{'Q' if wide else 'I'}", out.raw, 4))


@check
def checksums(io):
    io.write_full("checksum", b"0123456789abcdef" * 4)
    io.write_full("checksum-empty", b"")
    handle = Handle(io.io.name)
    of = lambda *arguments: checksum(handle, "checksum", *arguments)
    try:
        same(of(CRC32C, 0xFFFFFFFF, 0, 0, 0), (0, [3195479937]))
        same(of(CRC32C, 0, 64, 0, 16), (0, [10718068] * 4))
        same(of(CRC32C, 0xFFFFFFFF, 16, 16, 0), (0, [3173838433]))
        same(of(XXHASH32, 7, 64, 0, 0), (0, [1402137686]))
        same(of(XXHASH32, 0, 64, 0, 16), (0, [3267648361] * 4))
        same(of(XXHASH64, 7, 64, 0, 0), (0, [11100322186407734883]))
        same(of(XXHASH64, 0xFFFFFFFFFFFFFFFF, 48, 8, 16), (0, [5334935578245371762] * 3))
        same(of(XXHASH64, 0, 1000, 8, 0), (0, [7161189423013983581]))
        # Bytes behind the end do not count.
        same(of(CRC32C, 0, 80, 0, 16), (0, [10718068] * 4))
        same(of(CRC32C, 0, 80, 16, 16), (0, [10718068] * 3))
        same(of(CRC32C, 0, 16, 64, 16), (0, []))
        same(checksum(handle, "checksum-empty", CRC32C, 5, 0, 0, 0), (0, []))
        # Chunks must fit.
        for length in (0, 60, 1000):
            same(of(CRC32C, 0, length, 0, 16), (-errno.EINVAL, []))
        same(checksum(handle, "checksum-absent", CRC32C, 5, 0, 0, 0), (-errno.ENOENT, []))
    finally:
        handle.close()


if __name__ == "__main__":
    main()
