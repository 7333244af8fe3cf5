"""Gives one object KEYS omap entries of some 100 bytes, 500 at a time with 16 requests in flight, and reads all of them
back in order.

    huge_omap.py POOL KEYS
"""
import sys, threading
import rados

pool, keys = sys.argv[1], int(sys.argv[2])
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(pool)
slots = threading.Semaphore(16)
failed = []
BATCH = 500


def key(number):
    # Not in the order in which they are written.
    return f"{number * 7919 % keys:09}-{'k' * 20}"


def value(number):
    return f"{number:09}".encode() * 8


def written(completion, _data=None):
    if completion.get_return_value() != 0:
        failed.append(completion.get_return_value())
    slots.release()


assert keys % 7919 != 0
for first in range(0, keys, BATCH):
    batch = range(first, min(first + BATCH, keys))
    slots.acquire()
    with rados.WriteOpCtx() as op:
        io.set_omap(op, tuple(key(n) for n in batch), tuple(value(n) for n in batch))
        io.operate_aio_write_op(op, "huge", oncomplete=written)
for _ in range(16):
    slots.acquire()
assert not failed, f"writes failed: {failed[:5]}"
seen, after = 0, ""
while True:
    with rados.ReadOpCtx() as op:
        entries, _ = io.get_omap_vals(op, after, "", 1000)
        io.operate_read_op(op, "huge")
        page = list(entries)
    if not page:
        break
    for name, _ in page:
        assert name.startswith(f"{seen:09}-"), f"entry {seen} is {name}"
        seen += 1
    after = page[-1][0]
assert seen == keys, f"{seen} entries of {keys}"
print(f"{keys} omap entries written and listed")
cluster.shutdown()
