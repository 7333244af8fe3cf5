"""Ceph's own client library, as the checker uses it: results are numbers, and what is not there is None."""

import ctypes
import os

import rados

from . import content
from .model import value_bytes

ENOENT = 2
# A server may answer with fewer keys where values are large, and the bindings do not tell whether there are more.
OMAP_PAGE_BYTES = 1 << 20
BALANCED = rados.LIBRADOS_OPERATION_BALANCE_READS


def connect(options=None):
    """A client of its own. `options`: settings of Ceph's clients."""
    cluster = rados.Rados(conffile="")
    for name, value in (options or {}).items():
        cluster.conf_set(name, value)
    cluster.connect()
    return cluster


def send(io, name, steps, state):
    """Sends an update without waiting for it. `state`: the object before, from which what guards expect is taken.

    Gives what `result` takes.
    """
    op = io.create_write_op()
    for words in steps:
        kind, *rest = words
        if kind == "write":
            op.write(content.stream(rest[1], 0, rest[2]), rest[0])
        elif kind == "write_full":
            op.write_full(content.stream(rest[0], 0, rest[1]))
        elif kind == "append":
            op.append(content.stream(rest[0], 0, rest[1]))
        elif kind == "truncate":
            op.truncate(rest[0])
        elif kind == "zero":
            # The bindings of Pacific hand the two on in the wrong order.
            op.zero(rest[1], rest[0])
        elif kind == "create":
            op.new(rados.LIBRADOS_CREATE_EXCLUSIVE if rest[0] else rados.LIBRADOS_CREATE_IDEMPOTENT)
        elif kind == "remove":
            op.remove()
        elif kind == "setxattr":
            op.set_xattr(rest[0], value_bytes(rest[1:]))
        elif kind == "rmxattr":
            op.rm_xattr(rest[0])
        elif kind == "omap_set":
            io.set_omap(op, tuple(key for key, _, _ in rest[0]), tuple(value_bytes(pair) for _, *pair in rest[0]))
        elif kind == "omap_rm":
            io.remove_omap_keys(op, tuple(rest[0]))
        elif kind == "omap_clear":
            io.clear_omap(op)
        elif kind == "version":
            op.assert_version(rest[1])
        elif kind == "cmpext":
            offset, count, wrong_at = rest
            wanted = bytearray(content.as_bytes(content.cut(state.data, offset, offset + count)))
            if wrong_at >= 0:
                wanted[wrong_at] ^= 0x55
            op.cmpext(bytes(wanted), offset)
        else:
            raise ValueError(kind)
    return io.operate_aio_write_op(op, name), op


def result(sent, io):
    """Waits for an update, and gives its result."""
    completion, op = sent
    completion.wait_for_complete()
    io.release_write_op(op)
    return completion.get_return_value()


def absent_is_none(call):
    try:
        return call()
    except rados.ObjectNotFound:
        return None


def read_data(io, name, length, offset=0):
    return absent_is_none(lambda: io.read(name, length, offset))


def read_size(io, name):
    return absent_is_none(lambda: io.stat(name)[0])


def read_xattrs(io, name):
    return absent_is_none(lambda: dict(io.get_xattrs(name)))


def omap_page(io, name, after, flags):
    op = io.create_read_op()
    try:
        pairs, _ = io.get_omap_vals(op, after, "", 10_000)
        io.operate_read_op(op, name, flags)
        # The bindings give None for a value without bytes.
        return {key: value or b"" for key, value in pairs}
    finally:
        io.release_read_op(op)


def read_omap(io, name, flags=0):
    """All keys with their values, in one piece if they are less than OMAP_PAGE_BYTES."""

    def call():
        found = page = omap_page(io, name, "", flags)
        while page and sum(map(len, page.values())) >= OMAP_PAGE_BYTES:
            page = omap_page(io, name, max(page), flags)
            found = {**found, **page}
        return found

    return absent_is_none(call)


class BalancedReads:
    """Reads of bytes that any member of a group may answer, which the Python bindings do not have."""

    def __init__(self, pool):
        self.library = ctypes.CDLL("librados.so.2")
        self.library.rados_create_read_op.restype = ctypes.c_void_p
        self.cluster, self.io = ctypes.c_void_p(), ctypes.c_void_p()
        self.must(self.library.rados_create(ctypes.byref(self.cluster), b"admin"))
        self.must(self.library.rados_conf_read_file(self.cluster, os.environ["CEPH_CONF"].encode()))
        self.must(self.library.rados_connect(self.cluster))
        self.must(self.library.rados_ioctx_create(self.cluster, pool.encode(), ctypes.byref(self.io)))

    @staticmethod
    def must(result):
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def read(self, name, length):
        buffer, count, code = ctypes.create_string_buffer(length), ctypes.c_size_t(), ctypes.c_int()
        op = ctypes.c_void_p(self.library.rados_create_read_op())
        self.library.rados_read_op_read(
            op, ctypes.c_uint64(0), ctypes.c_size_t(length), buffer, ctypes.byref(count), ctypes.byref(code)
        )
        done = self.library.rados_read_op_operate(op, self.io, name.encode(), ctypes.c_int(BALANCED))
        self.library.rados_release_read_op(op)
        if done == -ENOENT:
            return None
        self.must(done)
        return buffer.raw[: count.value]
