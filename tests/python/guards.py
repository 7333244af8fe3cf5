"""Updates with guards, of objects that are there, that never were, and that were removed and have clones.

    guards.py POOL

What is printed must be the same on Nacre and on Ceph: results, and whether and how large the object is afterwards.
"""
import ctypes
import sys

from c_api import Handle, byte, library as lib, must, pointer, size, u64

EQUAL, NOT_EQUAL = 1, 2
NUMOPS_ADD = b"\x01\x00\x00\x00k\x01\x00\x00\x005"
REFCOUNT_TAG = b"\x01\x01\x06\x00\x00\x00\x01\x00\x00\x00t\x00"


def same(name, value, how=EQUAL):
    return lambda op: lib.rados_write_op_cmpxattr(op, name, byte(how), value, size(len(value)))


def version(number):
    return lambda op: lib.rados_write_op_assert_version(op, u64(number))


def exists(op):
    lib.rados_write_op_assert_exists(op)


def bytes_are(data):
    return lambda op: lib.rados_write_op_cmpext(op, data, size(len(data)), u64(0), None)


def key_is(key, value):
    return lambda op: lib.rados_write_op_omap_cmp2(op, key, byte(EQUAL), value, size(len(key)), size(len(value)), None)


def write(op):
    lib.rados_write_op_write(op, b"q", size(1), u64(0))


def create(exclusive=0):
    return lambda op: lib.rados_write_op_create(op, exclusive, None)


def zero(offset, length):
    return lambda op: lib.rados_write_op_zero(op, u64(offset), u64(length))


def truncate(to):
    return lambda op: lib.rados_write_op_truncate(op, u64(to))


def remove(op):
    lib.rados_write_op_remove(op)


def in_spite_of_failure(op):
    lib.rados_write_op_set_flags(op, 2)  # LIBRADOS_OP_FLAG_FAILOK


def attribute(name, value):
    return lambda op: lib.rados_write_op_setxattr(op, name, value, size(len(value)))


def no_attribute(op):
    lib.rados_write_op_rmxattr(op, b"a")


def key(op):
    text, length = (ctypes.c_char_p * 1), (size * 1)
    lib.rados_write_op_omap_set2(op, text(b"k"), text(b"v"), length(1), length(1), size(1))


def call(name, method, data):
    return lambda op: lib.rados_write_op_exec(op, name, method, data, size(len(data)), None)


nothing, is_x = same(b"a", b""), same(b"a", b"x")
numops = call(b"numops", b"add", NUMOPS_ADD)

# The version that the object was seen in last, or was removed by.
LAST = "last version"

CASES = {
    "attribute is empty, write": [nothing, write],
    "attribute is x, write": [is_x, write],
    "attribute is not x, write": [same(b"a", b"x", NOT_EQUAL), write],
    "attribute is empty, zero beyond the end": [nothing, zero(100, 5)],
    "attribute is x, zero beyond the end": [is_x, zero(100, 5)],
    "attribute is x, zero within": [is_x, zero(1, 1)],
    "attribute is x, zero until beyond the end": [is_x, zero(1, 100)],
    "attribute is empty, truncate": [nothing, truncate(0)],
    "attribute is empty, zero beyond the end, truncate": [nothing, zero(100, 5), truncate(3)],
    "attribute is empty, remove": [nothing, remove],
    "attribute is empty, create": [nothing, create()],
    "attribute is empty, attribute": [nothing, attribute(b"c", b"c")],
    "attribute is empty, key": [nothing, key],
    "attribute is empty, call": [nothing, numops],
    "attribute is empty, exists, truncate": [nothing, exists, truncate(0)],
    "another attribute is empty, version, zero beyond the end": [same(b"none", b""), LAST, zero(100, 5)],
    "version, write": [LAST, write],
    "another version, write": [version(1 << 40), write],
    "exists, write": [exists, write],
    "bytes are, write": [bytes_are(b"\0\0"), write],
    "bytes are others, write": [bytes_are(b"zz"), write],
    "key is empty, write": [key_is(b"k", b""), write],
    "create, attribute is empty": [create(), nothing],
    "attribute, it is new": [attribute(b"b", b"y"), same(b"b", b"y")],
    "attribute, it is old": [attribute(b"a", b"y"), is_x],
    "create, key is empty": [create(), key_is(b"k", b"")],
    "key, it is new": [key, key_is(b"k", b"v")],
    "key, it is old": [key, key_is(b"k", b"")],
    "remove, attribute is empty": [remove, nothing],
    "remove in spite of failure, create": [remove, in_spite_of_failure, create(1)],
    "create exclusively": [create(1)],
    "no attribute": [no_attribute],
    "zero": [zero(0, 10)],
    "truncate": [truncate(10)],
    "call that reads a key": [numops],
    "call that reads attributes, and removes": [call(b"refcount", b"put", REFCOUNT_TAG)],
    "call that reads attributes": [call(b"refcount", b"get", REFCOUNT_TAG)],
}


class Objects:
    def __init__(self, pool):
        self.handle, self.made = Handle(pool), 0
        self.io = self.handle.io

    def preserve(self, *snaps):
        known = (u64 * max(len(snaps), 1))(*snaps)
        must(lib.rados_ioctx_selfmanaged_snap_set_write_ctx(self.io, u64(max(snaps, default=0)), known, len(snaps)))

    def make(self, state):
        """A new object's name, and the version that it was seen in last."""
        self.made += 1
        name = b"guarded-%d" % self.made
        self.preserve()
        if state == "never":
            return name, 5
        must(lib.rados_write_full(self.io, name, b"abc", size(3)))
        must(lib.rados_setxattr(self.io, name, b"a", b"x", size(1)))
        if state == "removed":
            snap = u64()
            must(lib.rados_ioctx_selfmanaged_snap_create(self.io, pointer(snap)))
            self.preserve(snap.value)
            must(lib.rados_remove(self.io, name))
        return name, lib.rados_get_last_version(self.io)

    def update(self, name, last, steps):
        op = ctypes.c_void_p(lib.rados_create_write_op())
        for step in steps:
            (version(last) if step is LAST else step)(op)
        result = lib.rados_write_op_operate2(op, self.io, name, None, 0)
        lib.rados_release_write_op(op)
        return result

    def size(self, name):
        length = u64()
        result = lib.rados_stat(self.io, name, pointer(length), pointer(ctypes.c_long()))
        return length.value if result == 0 else f"error {-result}"

    def watch(self, name):
        seen = ctypes.CFUNCTYPE(None, ctypes.c_void_p, u64, u64, u64, ctypes.c_void_p, size)(lambda *_: None)
        failed = ctypes.CFUNCTYPE(None, ctypes.c_void_p, u64, ctypes.c_int)(lambda *_: None)
        cookie = u64()
        result = lib.rados_watch2(self.io, name, pointer(cookie), seen, failed, None)
        return (result, lib.rados_unwatch2(self.io, cookie)) if result == 0 else result


def main():
    objects = Objects(sys.argv[1])
    for state in ("never", "there", "removed"):
        for what, steps in CASES.items():
            name, last = objects.make(state)
            print(f"{state}: {what}: {objects.update(name, last, steps)}, then {objects.size(name)}")
        print(f"{state}: watch: {objects.watch(objects.make(state)[0])}")
    objects.handle.close()


main()
