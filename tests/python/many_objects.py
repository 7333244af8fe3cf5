"""Writes COUNT objects of 1 KiB with 64 in flight, lists them all, and reads a thousandth of them back.

    many_objects.py POOL COUNT
"""
import sys, threading
import rados

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from pattern import content

pool, count = sys.argv[1], int(sys.argv[2])
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(pool)
slots = threading.Semaphore(64)
failed = []


def written(number):
    def call(completion):
        if completion.get_return_value() != 0:
            failed.append(number)
        slots.release()
    return call


for number in range(count):
    slots.acquire()
    io.aio_write_full(f"small-{number}", content(number, 1024), oncomplete=written(number))
for _ in range(64):
    slots.acquire()
assert not failed, f"writes failed: {failed[:5]}"
listed = {entry.key for entry in io.list_objects() if entry.key.startswith("small-")}
assert len(listed) == count, f"{len(listed)} objects listed of {count}"
for number in range(0, count, 1000):
    assert io.read(f"small-{number}", 4096) == content(number, 1024), f"small-{number}"
print(f"{count} objects written, listed and read")
cluster.shutdown()
