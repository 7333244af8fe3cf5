"""Small checks against a running cluster, Nacre's or Ceph's.

A file of checks marks functions with @check and ends with main(). Each function gets `io`, an open pool, and must leave
the pool's settings as they were; names of objects are its own. Run it as

    CEPH_CONF=.../ceph.conf api_X.py POOL [NAME ...]

Every check holds for Ceph 16.2.15 too: what one of them says about Ceph was seen there.
"""
import sys
import time
import traceback

import rados

_checks = []


def check(function):
    _checks.append(function)
    return function


def fails_with(number, call, *args, **kwargs):
    """The call must fail, and with this error number."""
    try:
        result = call(*args, **kwargs)
    except rados.Error as error:
        assert error.errno == number, f"error {error.errno} where {number} is right: {error}"
        return
    raise AssertionError(f"gave {result!r} where error {number} is right")


def same(have, want):
    assert have == want, f"{shown(have)} where {shown(want)} is right"


def shown(value):
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}... ({len(text)} characters)"


def main():
    pool, names = sys.argv[1], sys.argv[2:]
    cluster = rados.Rados(conffile="")
    cluster.connect()
    empty(cluster, pool)
    failed = 0
    selected = [c for c in _checks if not names or c.__name__ in names]
    for function in selected:
        io = cluster.open_ioctx(pool)
        started = time.monotonic()
        try:
            function(Pool(cluster, io))
        except Exception:
            failed += 1
            print(f"FAILED {function.__name__}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"passed {function.__name__} ({time.monotonic() - started:.2f} s)", flush=True)
        io.close()
    cluster.shutdown()
    print(f"{len(selected) - failed} checks passed, {failed} failed")
    sys.exit(1 if failed else 0)


def empty(cluster, pool):
    """Removes what another run may have left."""
    io = cluster.open_ioctx(pool)
    io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
    for found in list(io.list_objects()):
        found.remove()
    io.close()


class Pool:
    """An open pool and its cluster; what the pool has is reached directly."""

    def __init__(self, cluster, io):
        self.cluster, self.io = cluster, io

    def __getattr__(self, name):
        return getattr(self.io, name)
