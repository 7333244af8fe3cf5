"""Bytes of objects: reading, writing, their sizes, names and errors."""
import errno
import time

import rados
from checks import check, fails_with, main, same

MIB = 1 << 20


@check
def write_full_replaces(io):
    io.write_full("data-full", b"a" * 10000)
    io.write_full("data-full", b"short")
    same(io.read("data-full"), b"short")
    same(io.stat("data-full")[0], 5)


@check
def empty_write_makes_the_object(io):
    io.write_full("data-empty", b"")
    same(io.stat("data-empty")[0], 0)
    same(io.read("data-empty"), b"")


@check
def write_at_an_offset_leaves_zeros_before(io):
    io.write("data-hole", b"end", 100_000)
    same(io.stat("data-hole")[0], 100_003)
    same(io.read("data-hole", 200_000), bytes(100_000) + b"end")


@check
def overwrites_at_odd_places(io):
    want = bytearray(b"\xaa" * 200_000)
    io.write_full("data-odd", bytes(want))
    writes = [(0, 1, 1), (4095, 2, 2), (4096, 4096, 3), (8191, 8194, 4), (199_999, 1, 5), (65_535, 70_001, 6)]
    for at, length, fill in writes:
        io.write("data-odd", bytes([fill]) * length, at)
        want[at:at + length] = bytes([fill]) * length
    same(io.read("data-odd", 300_000), bytes(want))


@check
def reads_at_odd_places(io):
    content = bytes(i * 7 % 251 for i in range(150_000))
    io.write_full("data-reads", content)
    for at, length in [(0, 1), (1, 4096), (4095, 3), (8192, 8192), (149_999, 10), (150_000, 10), (999_999, 10)]:
        same(io.read("data-reads", length, at), content[at:at + length])


@check
def append_grows(io):
    for i in range(20):
        io.append("data-append", bytes([i]) * (i * 1000 + 1))
    same(io.read("data-append", 10 * MIB), b"".join(bytes([i]) * (i * 1000 + 1) for i in range(20)))


@check
def truncate_cuts_and_extends_with_zeros(io):
    io.write_full("data-trunc", b"x" * 10_000)
    io.trunc("data-trunc", 4_097)
    same(io.read("data-trunc", 20_000), b"x" * 4_097)
    io.trunc("data-trunc", 9_000)
    same(io.read("data-trunc", 20_000), b"x" * 4_097 + bytes(9_000 - 4_097))
    io.trunc("data-trunc", 0)
    same(io.read("data-trunc", 20_000), b"")
    io.write("data-trunc", b"y", 5)
    same(io.read("data-trunc", 20_000), bytes(5) + b"y")


@check
def truncate_of_nothing(io):
    # Ceph's OSD makes no object then, and says that all is well.
    io.trunc("data-trunc-none", 100)
    fails_with(errno.ENOENT, io.stat, "data-trunc-none")


@check
def zero_blanks_a_range(io):
    io.write_full("data-zero", b"z" * 20_000)
    op = io.create_write_op()
    # python3-rados 16.2 hands the two over in the wrong order: this is an offset of 4000 and a length of 9000.
    op.zero(9_000, 4_000)
    io.operate_write_op(op, "data-zero")
    op.release()
    same(io.read("data-zero", 30_000), b"z" * 4_000 + bytes(9_000) + b"z" * 7_000)
    op = io.create_write_op()
    op.zero(9_000, 19_000)
    io.operate_write_op(op, "data-zero")
    # Zeroing to the end and beyond truncates.
    same(io.stat("data-zero")[0], 19_000)


@check
def writesame_repeats(io):
    io.writesame("data-same", b"abcd", 4096 * 3, 8)
    same(io.read("data-same", 20_000), bytes(8) + b"abcd" * 3072)
    fails_with(errno.EINVAL, io.writesame, "data-same", b"abc", 10, 0)


@check
def compare_extent(io):
    io.write_full("data-cmp", b"the same bytes")
    same(io.cmpext("data-cmp", b"same", 4), 0)
    # MAX_ERRNO (4095) and the place of the first difference.
    same(io.cmpext("data-cmp", b"sane", 4), -4095 - 2)
    same(io.cmpext("data-cmp", b"bytes\0x", 9), -4095 - 6)
    # Bytes behind the end compare as zeros.
    same(io.cmpext("data-cmp", b"bytes\0\0", 9), 0)


@check
def stat_gives_size_and_time(io):
    io.write_full("data-stat", b"12345")
    size, when = io.stat("data-stat")
    same(size, 5)
    assert abs(time.mktime(when) - time.time()) < 60, when


@check
def mtime_is_what_the_writer_says(io):
    op = io.create_write_op()
    op.write_full(b"old")
    io.operate_write_op(op, "data-mtime", mtime=1_000_000_000)
    same(int(time.mktime(io.stat("data-mtime")[1])), 1_000_000_000)


@check
def what_is_not_there(io):
    fails_with(errno.ENOENT, io.read, "data-none")
    fails_with(errno.ENOENT, io.stat, "data-none")
    fails_with(errno.ENOENT, io.remove_object, "data-none")
    fails_with(errno.ENOENT, io.get_xattr, "data-none", "x")


@check
def removed_is_gone_and_can_come_back(io):
    io.write_full("data-again", b"first" * 10_000)
    io.set_xattr("data-again", "a", b"1")
    io.remove_object("data-again")
    fails_with(errno.ENOENT, io.stat, "data-again")
    io.write("data-again", b"x", 3)
    same(io.read("data-again"), b"\0\0\0x")
    fails_with(errno.ENODATA, io.get_xattr, "data-again", "a")


@check
def exclusive_create(io):
    op = io.create_write_op()
    op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
    io.operate_write_op(op, "data-new")
    same(io.stat("data-new")[0], 0)
    # An operation is used up by its execution.
    op = io.create_write_op()
    op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
    fails_with(errno.EEXIST, io.operate_write_op, op, "data-new")
    op = io.create_write_op()
    op.new(rados.LIBRADOS_CREATE_IDEMPOTENT)
    io.operate_write_op(op, "data-new")


@check
def four_mib_and_one(io):
    content = bytes(range(256)) * (16 * 1024) + b"!"
    io.write_full("data-large", content)
    same(io.stat("data-large")[0], 4 * MIB + 1)
    same(io.read("data-large", 5 * MIB) == content, True)


@check
def objects_have_a_largest_size(io):
    # Ceph's osd_max_object_size is 128 MiB; Nacre stores objects of up to 4 GiB.
    fails_with(errno.EFBIG, io.write, "data-toolarge", b"x", 4096 * MIB)
    fails_with(errno.ENOENT, io.stat, "data-toolarge")
    io.write("data-largest", b"x", 128 * MIB - 1)
    same(io.stat("data-largest")[0], 128 * MIB)
    io.remove_object("data-largest")


@check
def names_of_any_characters(io):
    names = ["data-", "a b", "tab\there", "line\nbreak", "percent%20", "s/l/a/s/h", "under_score", "\\back", "'\"`$", "ümlaut-✓-𝄞",
             ".", "..", "-", "\x01\x02\x7f", "x" * 255, "_head", "a_head", "!", ":", "#", "data:1:2"]
    for i, name in enumerate(names):
        io.write_full(name, str(i).encode())
    for i, name in enumerate(names):
        same(io.read(name), str(i).encode())
    listed = {o.key for o in io.list_objects()}
    same([n for n in names if n not in listed], [])
    for name in names:
        io.remove_object(name)
    listed = {o.key for o in io.list_objects()}
    same([n for n in names if n in listed], [])


@check
def names_have_a_longest_length(io):
    io.write_full("n" * 2048, b"x")
    same(io.read("n" * 2048), b"x")
    io.remove_object("n" * 2048)
    fails_with(errno.ENAMETOOLONG, io.write_full, "n" * 2049, b"x")


@check
def version_counts(io):
    io.write_full("data-version", b"1")
    first = io.get_last_version()
    io.write_full("data-version", b"2")
    second = io.get_last_version()
    assert second > first > 0, (first, second)
    io.read("data-version")
    same(io.get_last_version(), second)


if __name__ == "__main__":
    main()
