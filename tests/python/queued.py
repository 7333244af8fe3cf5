"""A client with much queued: queued.py POOL MEBIBYTES

Replaces each of so many objects by a mebibyte of its own, and appends twice to each, all at once and without waiting
for answers. Says "queued" once everything is under way and "answered" once it is, reads all back and says "right".
"""

import sys
import time

import rados


def content(index):
    return bytes([index % 251 + 1]) * (1 << 20)


def main(pool, count):
    cluster = rados.Rados(conffile="")
    cluster.connect()
    io = cluster.open_ioctx(pool)
    begin = time.monotonic()
    # An append to an erasure-coded object begins where a stripe does, as a mebibyte does.
    steps = [
        lambda name, index: io.aio_write_full(name, content(index)),
        lambda name, index: io.aio_append(name, b"first." * 4096),
        lambda name, index: io.aio_append(name, b"second" * 4096),
    ]
    waiting = []
    for step in steps:
        for index in range(count):
            waiting.append(step(f"queued{index}", index))
    print("queued", file=sys.stderr, flush=True)
    for completion in waiting:
        completion.wait_for_complete_and_cb()
        assert completion.get_return_value() == 0, completion.get_return_value()
    print(f"answered after {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
    for index in range(count):
        want = content(index) + b"first." * 4096 + b"second" * 4096
        got = io.read(f"queued{index}", 2 << 20)
        assert got == want, f"queued{index} is wrong: {len(got)} bytes, {got[:16]} to {got[-16:]}"
    print("right", file=sys.stderr, flush=True)
    io.close()
    cluster.shutdown()


main(sys.argv[1], int(sys.argv[2]))
