"""librados' C interface, for what its Python bindings do not have."""
import ctypes
import os

library = ctypes.CDLL("librados.so.2")
for made in ("rados_create_write_op", "rados_create_read_op"):
    getattr(library, made).restype = ctypes.c_void_p
library.rados_get_last_version.restype = ctypes.c_uint64

u64, size, byte, pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint8, ctypes.byref


def must(result):
    """Raises an OSError where a call gave an error."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))


class Handle:
    """A pool, opened by a client of its own."""

    def __init__(self, pool):
        self.cluster, self.io = ctypes.c_void_p(), ctypes.c_void_p()
        must(library.rados_create(pointer(self.cluster), b"admin"))
        must(library.rados_conf_read_file(self.cluster, os.environ["CEPH_CONF"].encode()))
        must(library.rados_connect(self.cluster))
        must(library.rados_ioctx_create(self.cluster, pool.encode(), pointer(self.io)))

    def close(self):
        library.rados_ioctx_destroy(self.io)
        library.rados_shutdown(self.cluster)
