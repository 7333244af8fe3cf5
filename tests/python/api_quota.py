"""Pools that may hold only so much."""
import errno
import itertools
import json
import subprocess
import time

from c_api import Handle, library, size
from checks import check, main, same


class Eager(Handle):
    """A client that would rather hear of a full pool than wait."""

    def __init__(self, pool):
        super().__init__(pool)
        library.rados_set_pool_full_try(self.io)

    def write_full(self, name, data):
        return library.rados_write_full(self.io, name.encode(), data, size(len(data)))

    def remove(self, name):
        return library.rados_remove(self.io, name.encode())


def command(io, **words):
    status, out, text = io.cluster.mon_command(json.dumps(words), b"")
    same(status, 0)
    return out, text


def set_quota(io, field, value):
    _, text = command(io, prefix="osd pool set-quota", pool=io.io.name, field=field, val=str(value))
    same(text, f"set-quota {field} = {value} for pool {io.io.name}")


def quota(io):
    out, _ = command(io, prefix="osd pool get-quota", pool=io.io.name, format="json")
    found = json.loads(out)
    return found["quota_max_objects"], found["quota_max_bytes"]


def warnings(io):
    out, _ = command(io, prefix="health", detail="detail", format="json")
    return json.loads(out)["checks"]


def until(what, seconds=90):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.5)


def fill_and_empty(io, field, value):
    pool = io.io.name
    eager = Eager(pool)
    try:
        # The pool may be full by an earlier quota until the monitor looks again, once in some seconds.
        until(lambda: eager.write_full("quota-0", bytes(10000)) == 0)
        for n in range(10):
            same(eager.write_full(f"quota-{n}", bytes(10000)), 0)
        set_quota(io, field, value)
        new = (f"quota-more-{n}" for n in itertools.count())
        until(lambda: eager.write_full(next(new), bytes(10000)) == -errno.EDQUOT)
        until(lambda: "POOL_FULL" in warnings(io))
        full = warnings(io)["POOL_FULL"]
        same((full["severity"], full["summary"]["message"]), ("HEALTH_WARN", "1 pool(s) full"))
        same([line["message"] for line in full["detail"]], [f"pool '{pool}' is full (running out of quota)"])
        # An update that takes no more is done.
        same(eager.write_full("quota-0", bytes(10000)), 0)
        same(io.read("quota-0", 4), bytes(4))
        # A client that has not asked to be told waits.
        waiting = subprocess.Popen(["rados", "-p", pool, "create", f"quota-later-{field}"])
        time.sleep(2)
        same(waiting.poll(), None)
        same(eager.remove("quota-1"), 0)
        set_quota(io, field, 0)
        same(waiting.wait(timeout=90), 0)
        until(lambda: "POOL_FULL" not in warnings(io))
        # The OSD may hear of it after the client that has asked the monitor.
        until(lambda: eager.write_full(next(new), bytes(10000)) == 0)
    finally:
        set_quota(io, field, 0)
        eager.close()


@check
def quotas_are_kept(io):
    same(quota(io), (0, 0))
    # No check before this one has filled the pool as far.
    set_quota(io, "max_objects", 1_000_000)
    set_quota(io, "max_bytes", 1_000_000_000_000)
    same(quota(io), (1_000_000, 1_000_000_000_000))
    set_quota(io, "max_objects", 0)
    set_quota(io, "max_bytes", 0)


@check
def a_pool_with_too_many_objects(io):
    fill_and_empty(io, "max_objects", 10)


@check
def a_pool_with_too_many_bytes(io):
    fill_and_empty(io, "max_bytes", 100000)


if __name__ == "__main__":
    main()
